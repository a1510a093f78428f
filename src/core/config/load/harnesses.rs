//! What can only be checked once the whole file is read: that every harness that
//! is named is known, and every declaration is whole.

use std::path::Path;

use super::super::error::ConfigError;
use super::super::locate::{What, locate};
use super::super::model::{Config, DeclaredName, HarnessName};
use super::super::suggest::nearest;
use super::super::tree::{Step, dotted};
use super::super::values::shown;
use super::super::{declarations, shipped};
use super::{declared, suggest, unknown_key};

pub(super) fn check(file: &Path, text: &str, config: &Config) -> Result<(), ConfigError> {
    let error = |path: &[Step], what: What, message: String| {
        ConfigError::whole(file, message).at(text, locate(text, path, what))
    };
    let key = |keys: &[&str]| -> Vec<Step> {
        keys.iter().map(|key| Step::Key((*key).to_owned())).collect()
    };
    let faulty = |of: Vec<Step>, fault: declared::Fault| {
        let path = [of, fault.path].concat();
        let message = format!("`{}`: {}", dotted(&path), fault.what);
        error(&path, What::Value, message).hint(fault.hint)
    };
    let all = declarations(&config.harnesses);
    for name in config.harnesses.keys() {
        let path = key(&["harnesses", name.as_str()]);
        if HarnessName::BUILT_IN.iter().any(|built_in| built_in.as_str() == name.as_str()) {
            let message = format!("the harness `{name}` is built in and cannot be declared");
            return Err(error(&path, What::Key(0), message).hint(
                "its binary can be named under `tools`, its arguments in\n      \
                       `routing.harnessArgs`",
            ));
        }
        let own = &config.harnesses[name];
        if let Some(fault) = declared::fault(own) {
            return Err(faulty(path, fault));
        }
        let whole = &all[name];
        if let Some(lacks) = whole.lacks() {
            let message = format!("the harness `{name}` is declared in part: {lacks}");
            let error = error(&path, What::Key(0), message);
            return Err(if shipped().contains_key(name) {
                error
            } else {
                error.hint("docs/harnesses.md tells how to write a declaration")
            });
        }
        if let Some(fault) = declared::at_ids(own, whole) {
            return Err(faulty(path, fault));
        }
    }
    let mut known: Vec<&str> = HarnessName::BUILT_IN.iter().map(HarnessName::as_str).collect();
    known.extend(all.keys().map(DeclaredName::as_str));
    known.sort_unstable();
    let is_known = |name: &HarnessName| known.contains(&name.as_str());
    let routing = &config.routing;
    if !is_known(&routing.default_harness) {
        let name = routing.default_harness.as_str();
        let message = format!("unknown value `{}` for `routing.defaultHarness`", shown(name));
        let error = error(&key(&["routing", "defaultHarness"]), What::Value, message);
        let near = nearest(name, known.iter().copied());
        return Err(suggest(error, near, "harnesses", &known));
    }
    if let Some(name) = routing.harness_args.keys().find(|name| !is_known(name)) {
        let path = key(&["routing", "harnessArgs", name.as_str()]);
        let at_key = |message: String| error(&path, What::Key(0), message);
        return Err(unknown_key(at_key, &path, &known));
    }
    Ok(())
}
