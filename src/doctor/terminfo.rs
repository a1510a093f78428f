//! The descriptions of terminals that tmux needs: which are there, and how ours
//! are made where the host has none.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::named::trusted;
use super::tool::{Origin, Tool};
use crate::base::dirs::Dirs;
use crate::base::env::Env;
use crate::base::failure::chain;

/// What a terminal and the programs in a tmux are told to be.
pub(super) const NEEDED: &[&str] = &["xterm-256color", "tmux-256color", "screen-256color"];

/// Where systems keep them.
const USUAL: &[&str] = &[
    "/etc/terminfo",
    "/lib/terminfo",
    "/usr/share/terminfo",
    "/usr/lib/terminfo",
    "/usr/local/share/terminfo",
    "/opt/homebrew/share/terminfo",
    "/run/current-system/sw/share/terminfo",
];

/// The text of the descriptions, from ncurses.
const SOURCE: &str = include_str!("../../platforms/terminfo.src");

/// Where ours are, whether or not they were made.
pub(super) fn own_dir(env: &Env) -> Option<PathBuf> {
    Dirs::new(env).ok().map(|dirs| dirs.data.join("terminfo"))
}

/// Those of the needed ones that are nowhere, our own directory included.
pub(super) fn missing(env: &Env, usual: &[&str]) -> Vec<&'static str> {
    let dirs = dirs(env, usual);
    NEEDED.iter().copied().filter(|name| !dirs.iter().any(|dir| has(dir, name))).collect()
}

fn dirs(env: &Env, usual: &[&str]) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = usual.iter().map(PathBuf::from).collect();
    dirs.extend(env.var_os("TERMINFO").map(PathBuf::from));
    dirs.extend(env.home().map(|home| home.join(".terminfo")));
    dirs.extend(env.var_os("TERMINFO_DIRS").map(std::env::split_paths).into_iter().flatten());
    dirs.extend(own_dir(env));
    dirs
}

/// Whether this terminal is described nowhere.
pub(super) fn is_missing_here(env: &Env, name: &str) -> bool {
    is_missing(env, USUAL, name)
}

fn is_missing(env: &Env, usual: &[&str], name: &str) -> bool {
    !dirs(env, usual).iter().any(|dir| has(dir, name))
}

/// The same, in the places of this system.
pub(super) fn missing_here(env: &Env) -> Vec<&'static str> {
    missing(env, USUAL)
}

/// Whether a directory describes a terminal, in either of the two layouts.
pub(super) fn has(dir: &Path, name: &str) -> bool {
    let Some(first) = name.chars().next().filter(|_| !name.contains('/')) else { return false };
    [first.to_string(), format!("{:x}", first as u32)]
        .iter()
        .any(|sub| dir.join(sub).join(name).is_file())
}

/// The compiler of descriptions.
pub(super) fn compiler(env: &Env) -> Option<PathBuf> {
    let usual = ["/usr/bin/tic", "/bin/tic"].map(PathBuf::from);
    trusted("tic", env).or_else(|| usual.into_iter().find(|path| path.is_file()))
}

/// Makes our own descriptions: in a new directory, which then takes its place.
pub(super) async fn make(env: &Env) -> Result<PathBuf, String> {
    let tic = compiler(env).ok_or("there is no `tic` to make them with")?;
    let own = own_dir(env).ok_or("no home directory is known")?;
    let parent = own.parent().unwrap_or(Path::new("/"));
    crate::base::files::private_dir(parent).map_err(|error| error.to_string())?;
    let work = tempfile::Builder::new()
        .prefix(".terminfo-")
        .tempdir_in(parent)
        .map_err(|error| error.to_string())?;
    let source = work.path().join("source");
    fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let made = work.path().join("made");
    let tool = Tool::candidate("tic", &tic, Origin::System, env);
    let output = tool.invocation().args(["-x", "-o"]).arg(&made).arg(&source).run_ok().await;
    output.map_err(|error| chain(&error))?;
    if let Some(name) = NEEDED.iter().find(|name| !has(&made, name)) {
        return Err(format!("`tic` made no description of {name}"));
    }
    if fs::symlink_metadata(&own).is_ok() {
        fs::rename(&own, work.path().join("old")).map_err(|error| error.to_string())?;
    }
    fs::rename(&made, &own).map_err(|error| error.to_string())?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn descriptions_are_made_where_there_are_none() {
        let home = tempfile::tempdir().unwrap();
        let vars = [("THE_LOOP_HOME", home.path().as_os_str())];
        let env = Env::fixed(vars, home.path(), "/bin/the-loop");
        assert_eq!(missing(&env, &[]), NEEDED);
        // Where none is described, no other one is either.
        assert!(is_missing(&env, &[], "nosuchterm") && is_missing(&env, &[], NEEDED[0]));
        if compiler(&env).is_none() {
            eprintln!("skipped: there is no tic here");
            return;
        }
        make(&env).await.unwrap();
        assert_eq!(missing(&env, &[]), Vec::<&str>::new());
        assert!(is_missing(&env, &[], "nosuchterm") && !is_missing(&env, &[], NEEDED[0]));
        let tool = Tool::candidate("tmux", Path::new("/bin/tmux"), Origin::System, &env);
        let dirs = tool.var("TERMINFO_DIRS").unwrap().to_str().unwrap();
        assert_eq!(dirs, format!(":{}", own_dir(&env).unwrap().display()));
    }
}
