//! The files with templates of prompts.

use std::path::PathBuf;

use crate::base::failure::Failure;
use crate::core::config::Routing;
use crate::core::routing::prompt::{TemplateError, Templates};

/// Reads the templates of prompts; one that cannot be used is refused before
/// anything is opened.
pub fn read_templates(routing: &Routing) -> Result<Templates, Failure> {
    let read = |path: &Option<PathBuf>| match path {
        None => Ok(None),
        Some(path) => fs_err::read_to_string(path)
            .map(|text| Some((path.display().to_string(), text)))
            .map_err(|error| Failure::refused("a template cannot be read").because(error)),
    };
    let (event, spawn) = (read(&routing.prompt_template)?, read(&routing.spawn_prompt_template)?);
    Templates::parse(event, spawn).map_err(|error| {
        let failure = Failure::refused(error.to_string());
        // What is wrong, with its line.
        match error {
            TemplateError::Broken { source, .. } => failure.because(source),
            TemplateError::TooLong { .. } => failure,
        }
        .hint("it may use: kind, item, on, sentence, rules, voice, event")
    })
}
