//! The files with templates of prompts.

use std::path::{Path, PathBuf};

use crate::base::failure::{Failure, chain, plain};
use crate::base::text::visible;
use crate::core::config::{Routing, fault_at};
use crate::core::routing::prompt::{TemplateError, Templates};

/// Reads the templates of prompts; one that cannot be used is refused before
/// anything is opened, at its key in the configuration file `file`.
pub fn read_templates(routing: &Routing, file: &Path, text: &str) -> Result<Templates, Failure> {
    let refused = |key: &str, message: &str, hint: &str| {
        Failure::refused(fault_at(file, text, key, message).pointed()).hint(hint)
    };
    let read = |key: &str, path: &Option<PathBuf>| match path {
        None => Ok(None),
        Some(path) => match fs_err::read_to_string(path) {
            Ok(template) => Ok(Some((path.display().to_string(), template))),
            Err(error) => {
                let said = visible(&error.to_string());
                Err(refused(key, plain(&said), "a path in it counts from the project"))
            }
        },
    };
    let keys = ["routing.promptTemplate", "routing.spawnPromptTemplate"];
    let event = read(keys[0], &routing.prompt_template)?;
    let spawn = read(keys[1], &routing.spawn_prompt_template)?;
    let broken = |key: &str, error: &TemplateError| {
        let hint = "it may use: kind, item, on, sentence, rules, voice, event";
        refused(key, &visible(&chain(error)), hint)
    };
    Templates::parse(event.clone(), None).map_err(|error| broken(keys[0], &error))?;
    Templates::parse(event, spawn).map_err(|error| broken(keys[1], &error))
}
