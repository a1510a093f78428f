//! Gathers the facts about this machine for `core::platform`. Nothing is
//! concluded here.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;

use super::program::elf_bits;
use super::tool::{Origin, Tool};
use crate::base::env::Env;
use crate::core::platform::{Facts, Host, Privilege};

/// How long `sw_vers` may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Where systems keep their own programs, also when a service's `PATH` is thin.
const USUAL_DIRS: &[&str] = &[
    "/usr/bin",
    "/bin",
    "/usr/sbin",
    "/sbin",
    "/opt/homebrew/bin",
    "/usr/local/bin",
    "/run/current-system/sw/bin",
];

/// This machine.
pub async fn gather(env: &Env) -> Host {
    gathered(env, macos_version(env).await)
}

/// The same as far as no program needs to be run.
pub(super) fn without_asking(env: &Env) -> Host {
    gathered(env, None)
}

fn gathered(env: &Env, macos_version: Option<String>) -> Host {
    let uname = rustix::system::uname();
    let text = |field: &std::ffi::CStr| field.to_string_lossy().into_owned();
    let on_path = env.path_dirs();
    Host::from_facts(&Facts {
        system: text(uname.sysname()),
        machine: text(uname.machine()),
        kernel: text(uname.release()),
        userland_bits: userland_bits(),
        os_release: ["/etc/os-release", "/usr/lib/os-release"]
            .iter()
            .find_map(|path| fs::read_to_string(path).ok()),
        macos_version,
        present: kept(Facts::ASKED, |path| Path::new(path).exists()),
        programs: kept(Facts::PROGRAMS, |program| is_there(&on_path, program)),
        is_root: rustix::process::geteuid().is_root(),
        npm_needs_root: npm_needs_root(env, &on_path),
    })
}

/// Whether npm installs programs where this user may not write: below the prefix
/// that is set, else below the place that npm itself is run from.
fn npm_needs_root(env: &Env, on_path: &[PathBuf]) -> bool {
    let set = ["NPM_CONFIG_PREFIX", "npm_config_prefix"].iter().find_map(|name| env.var_os(name));
    let prefix = set.map(PathBuf::from).or_else(|| npmrc_prefix(env)).or_else(|| {
        let npm = on_path.iter().find(|dir| dir.join("npm").is_file())?;
        Some(npm.parent()?.to_path_buf())
    });
    let Some(modules) = prefix.map(|prefix| prefix.join("lib/node_modules")) else { return false };
    let there = modules.ancestors().find(|dir| dir.is_dir());
    there.is_some_and(|dir| rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_err())
}

/// The prefix that the user's own settings of npm name.
fn npmrc_prefix(env: &Env) -> Option<PathBuf> {
    let home = env.home()?;
    let text = fs::read_to_string(home.join(".npmrc")).ok()?;
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "prefix").then(|| value.trim().trim_matches('"').to_owned())
    })?;
    let below = ["~/", "${HOME}/"].iter().find_map(|start| value.strip_prefix(start));
    Some(below.map_or_else(|| PathBuf::from(&value), |below| home.join(below)))
}

/// How a command that needs root is written here.
pub fn privilege(env: &Env) -> Privilege {
    let on_path = env.path_dirs();
    Privilege::of(rustix::process::geteuid().is_root(), |program| is_there(&on_path, program))
}

fn is_there(on_path: &[PathBuf], program: &str) -> bool {
    // Node's is told by PATH alone: where it lies is nobody's convention.
    let usual = USUAL_DIRS.iter().map(PathBuf::from).filter(|_| program != "npm");
    on_path.iter().cloned().chain(usual).any(|dir| dir.join(program).is_file())
}

fn kept(names: &[&str], keep: impl Fn(&str) -> bool) -> Vec<String> {
    names.iter().filter(|name| keep(name)).map(ToString::to_string).collect()
}

fn userland_bits() -> Option<u8> {
    let mut head = [0; 5];
    fs::File::open("/bin/sh").ok()?.read_exact(&mut head).ok()?;
    elf_bits(&head)
}

async fn macos_version(env: &Env) -> Option<String> {
    if !cfg!(target_os = "macos") {
        return None;
    }
    let tool = Tool::candidate("sw_vers", Path::new("/usr/bin/sw_vers"), Origin::System, env);
    let output = tool.invocation().arg("-productVersion").deadline(DEADLINE).run_ok().await.ok()?;
    Some(output.stdout_text().trim().to_owned())
}
