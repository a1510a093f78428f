//! A program that the configuration names by hand and that is none of the tools:
//! who is told when an agent waits.

use std::path::{Path, PathBuf};

use super::program;
use super::resolve::{by_others, on_path};
use super::tool::{Origin, Tool};
use super::trouble::Trouble;
use crate::base::env::Env;

/// What a program with a desktop may see besides what every tool may.
const DESKTOP: &[&str] = &["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"];

/// The program with this name or absolute path, looked at and not run, and the
/// variables that it needs to reach a desktop.
pub fn named(name: &str, env: &Env) -> Result<(Tool, Vec<(String, String)>), Trouble> {
    let found = if name.contains('/') {
        let path = PathBuf::from(name);
        if !path.is_absolute() {
            return Err(Trouble::Relative);
        }
        if let Some(why) = by_others(&path, Origin::Configured) {
            return Err(why);
        }
        path
    } else {
        trusted(name, env).ok_or(Trouble::Missing)?
    };
    program::inspect(&found)?;
    let desktop = DESKTOP
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), env.var(name)?.to_owned())))
        .collect();
    Ok((Tool::candidate("notify", Path::new(&found), Origin::Configured, env), desktop))
}

/// The first program of that name on `PATH` that only this user and the system
/// can change.
pub(super) fn trusted(name: &str, env: &Env) -> Option<PathBuf> {
    let candidates = on_path(env, name).into_iter().filter(|found| found.ignored.is_none());
    candidates.map(|found| found.path).find(|path| program::inspect(path).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_and_a_path_must_be_absolute() {
        let env = Env::fixed([("PATH", "/usr/bin:/bin"), ("DISPLAY", ":1")], "/", "/bin/the-loop");
        let (tool, desktop) = named("env", &env).unwrap();
        assert!(tool.path().ends_with("env"));
        assert_eq!(desktop, [("DISPLAY".to_owned(), ":1".to_owned())]);
        named("/bin/sh", &env).unwrap();
        assert!(matches!(named("./x", &env), Err(Trouble::Relative)));
        assert!(matches!(named("no-such-program", &env), Err(Trouble::Missing)));
        assert!(matches!(named("/etc/passwd", &env), Err(Trouble::NotExecutable)));
    }
}
