//! The doctor, and the other commands, where the system gives no more files or no more
//! processes: that is said, and nothing breaks off.

use std::process::{Command, Output};

use crate::doctor::{Place, SYSTEM, finding, json, words};

/// The user that is nobody's but ours: root is above the limit of processes.
const OTHER: &str = "54321";

/// Runs the program where so many files can be open.
fn with_files(place: &Place, files: u32, args: &[&str]) -> Output {
    let inner = place.command(SYSTEM, args);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "sh"]);
    within(&inner, command)
}

/// The same where this user may have so many processes.
fn with_processes(place: &Place, processes: u32, args: &[&str]) -> Output {
    for dir in ["", "home", "tmp"] {
        if rustix::process::geteuid().is_root() {
            let user = Some(OTHER.parse().unwrap());
            std::os::unix::fs::chown(place.path(dir), user, user).unwrap();
        }
    }
    let inner = place.command(SYSTEM, args);
    let limit = format!("--nproc={processes}");
    if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", OTHER, "--regid", OTHER, "--clear-groups", "prlimit", &limit]);
        return within(&inner, command);
    }
    let mut command = Command::new("prlimit");
    command.arg(&limit);
    within(&inner, command)
}

fn within(inner: &Command, mut outer: Command) -> Output {
    outer
        .arg(inner.get_program())
        .args(inner.get_args())
        .env_clear()
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir("/")
        .output()
        .unwrap()
}

#[test]
fn with_too_few_files_the_limit_is_named_and_nothing_breaks_off() {
    for files in 4..=16 {
        let place = Place::new();
        let output = with_files(&place, files, &["doctor", "--json"]);
        let report = json(&output);
        let code = output.status.code().unwrap();
        assert!([1, 3].contains(&code), "{files}: {code} {}", words(&output.stderr));
        assert_eq!(report["exitCode"], code);
        let limit = finding(&report, "limits.descriptors");
        let what = limit["what"].as_str().unwrap();
        assert_eq!(what, format!("only {files} files can be open at once"));
    }
    // Any other command says it as any other failure.
    let place = Place::new();
    let output = with_files(&place, 6, &["doctor", "--list"]);
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected = "error: could not start the runtime: Too many open files (os error 24)\nhint: \
                    raise the number of files that can be open (ulimit -n 4096)";
    assert_eq!(said.trim(), expected);
}

#[test]
fn without_processes_the_limit_is_named_and_no_tool_is_blamed() {
    let place = Place::new();
    let output = with_processes(&place, 1, &["doctor", "--json", "--only", "git,limits,path"]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(3), "{report:#} {}", words(&output.stderr));
    let limit = finding(&report, "limits.processes");
    assert_eq!(limit["severity"], "warning");
    let what = limit["what"].as_str().unwrap();
    assert_eq!(what, "no more processes or threads can be started");
    let git = finding(&report, "git.runs");
    assert_eq!((&git["checked"], &git["severity"]), (&false.into(), &"warning".into()), "{git}");
    let advice = git["remedy"].to_string();
    assert!(advice.contains("ulimit -u") && !advice.contains("install"), "{advice}");
    let path = finding(&report, "path.entries");
    assert!(path["what"].as_str().unwrap().contains("no thread can be started"), "{path}");

    // With a few there is a tool that runs, and cannot serve.
    for processes in 2..=6 {
        let args = ["doctor", "--json", "--only", "tmux,limits"];
        let output = with_processes(&place, processes, &args);
        let report = json(&output);
        assert_eq!(output.status.code(), Some(3), "{processes}: {report:#}");
        assert!(!report.to_string().contains("--install"), "{processes}: {report:#}");
    }

    // What needs threads says so too, before it opens anything.
    std::fs::create_dir(place.path("home/.the-loop")).unwrap();
    let config = place.path("home/.the-loop/config.yaml");
    std::fs::write(&config, "routing:\n  runner: process\n  defaultHarness: demo\n").unwrap();
    if rustix::process::geteuid().is_root() {
        for path in [config.parent().unwrap(), &config] {
            let user = Some(OTHER.parse().unwrap());
            std::os::unix::fs::chown(path, user, user).unwrap();
        }
    }
    let config = config.to_str().unwrap();
    let output = with_processes(&place, 1, &["gh-webhook", "start", "--config", config]);
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: could not start the runtime: Resource temporarily"), "{said}");
    assert!(said.contains("ulimit -u 4096"), "{said}");
}
