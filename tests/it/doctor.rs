//! The doctor against the real tmux of this host, the real static one, the real
//! ttyd, and binaries that are broken in every way.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use the_loop::base::dirs::Dirs;
use the_loop::base::env::Env;
use the_loop::core::config::{HarnessName, Prefer, RunnerKind, Tools};
use the_loop::core::platform::{Facts, Host};
use the_loop::doctor::catalogue::CHECKS;
use the_loop::doctor::{Needs, Origin, Report, Severity, Tool, ToolId, examine, examine_on};

use crate::schema::faults;

/// A real binary that `scripts/fetch-test-tools` brought.
pub(crate) fn test_tool(name: &str) -> PathBuf {
    let dir = std::env::var_os("THE_LOOP_TEST_TOOLS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools"), PathBuf::from);
    let path = dir.join(name);
    assert!(path.is_file(), "{} is missing: run scripts/fetch-test-tools .tools", path.display());
    path
}

/// A home, a directory of programs and one for temporary files, all empty.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("it-").tempdir().unwrap();
        for name in ["home", "bin", "tmp"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts a real program into `bin`.
    pub(crate) fn link(&self, name: &str, target: &Path) {
        std::os::unix::fs::symlink(target, self.path("bin").join(name)).unwrap();
    }

    /// Puts a script, or anything else, into `bin`.
    pub(crate) fn put(&self, name: &str, mode: u32, content: &[u8]) -> PathBuf {
        let path = self.path("bin").join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    pub(crate) fn vars(&self, path: &str) -> Vec<(&'static str, OsString)> {
        let bin = self.path("bin");
        let path = path.replace("BIN", &bin.to_string_lossy());
        vec![
            ("HOME", self.path("home").into()),
            ("THE_LOOP_HOME", self.path("home").into()),
            ("TMPDIR", self.path("tmp").into()),
            ("TMUX_TMPDIR", self.path("tmp").into()),
            ("LC_ALL", "C.UTF-8".into()),
            ("PATH", path.into()),
        ]
    }

    /// Runs the program. `BIN` in `path` stands for the place's own programs.
    pub(crate) fn run(&self, path: &str, args: &[&str], more: &[(&str, &str)]) -> Output {
        self.command(path, args).envs(more.iter().copied()).output().unwrap()
    }

    pub(crate) fn command(&self, path: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_the-loop"));
        command.args(args).env_clear().envs(self.vars(path)).current_dir(self.path("home"));
        command
    }

    pub(crate) fn env(&self, path: &str) -> Env {
        Env::fixed(self.vars(path), self.path("home"), env!("CARGO_BIN_EXE_the-loop"))
    }

    pub(crate) fn dirs(&self, path: &str) -> Dirs {
        Dirs::new(&self.env(path)).unwrap()
    }

    async fn examine(&self, path: &str, tools: &Tools, needs: &Needs) -> Report {
        examine(&self.env(path), &self.dirs(path), tools, needs).await
    }

    /// What a probe made and did not take away: directories and processes.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let mut left: Vec<String> = std::fs::read_dir(self.path("tmp"))
            .unwrap()
            .map(|entry| entry.unwrap().path().display().to_string())
            .collect();
        let mark = self.dir.path().to_string_lossy().into_owned();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(&mark) {
                left.push(line);
            }
        }
        left
    }

    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.left_behind(), Vec::<String>::new());
    }
}

/// Puts the real tmux into `bin`, but for a paste that does not end. Gives the file
/// that is there when it has begun.
pub(crate) fn hold_up_paste(place: &Place) -> PathBuf {
    let real = std::fs::canonicalize("/usr/bin/tmux").unwrap();
    let mark = place.path("paste");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *paste-buffer*) : > '{mark}'; set -- -S \"$2\" wait-for x;; \
         esac\nexec '{real}' \"$@\"\n",
        mark = mark.display(),
        real = real.display()
    );
    place.put("tmux", 0o755, script.as_bytes());
    mark
}

pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed().as_secs() < 15, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a person is told, without the breaks that only make lines fit.
pub(crate) fn words(bytes: &[u8]) -> String {
    let mut out = String::new();
    for line in text(bytes).lines() {
        match line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) {
            Some(rest) => {
                out.pop();
                out.push(' ');
                out.push_str(rest);
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// What a run printed, which fits the committed schema in every state.
pub(crate) fn result(output: &Output) -> Value {
    let parsed = serde_json::from_slice(&output.stdout);
    assert!(parsed.is_ok(), "{}{}", text(&output.stdout), text(&output.stderr));
    let result: Value = parsed.unwrap();
    let schema = serde_json::from_str(include_str!("../../docs/doctor.schema.json")).unwrap();
    assert_eq!(faults(&schema, &result), Vec::<String>::new());
    result
}

/// The report of an examination.
pub(crate) fn json(output: &Output) -> Value {
    let report = result(output);
    for finding in report["findings"].as_array().unwrap() {
        let id = finding["id"].as_str().unwrap();
        assert!(CHECKS.iter().any(|(known, _)| *known == id), "{id} is in no catalogue");
    }
    report
}

fn tool<'a>(report: &'a Value, id: &str) -> &'a Value {
    report["tools"].as_array().unwrap().iter().find(|tool| tool["id"] == id).unwrap()
}

pub(crate) fn finding<'a>(report: &'a Value, id: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["id"] == id);
    assert!(found.is_some(), "no finding {id} in {findings:#?}");
    found.unwrap()
}

pub(crate) const SYSTEM: &str = "/usr/local/bin:/usr/bin:/bin";

fn needs(runner: RunnerKind, harness: HarnessName, web: bool) -> Needs {
    Needs { runner: Some(runner), harness: Some(harness), web, ..Needs::default() }
}

#[test]
fn the_tmux_of_this_host_passes_and_nothing_is_left_behind() {
    let place = Place::new();
    let output = place.run(SYSTEM, &["doctor", "--for", "tmux", "--json"], &[]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    let tmux = tool(&report, "tmux");
    assert_eq!(tmux["origin"], "system");
    assert!(tmux["version"].as_str().unwrap().starts_with('3'), "{tmux}");
    assert_eq!(finding(&report, "tmux.found")["severity"], "ok");
    place.assert_clean();
}

#[test]
fn the_static_tmux_and_the_real_ttyd_pass_the_same_probes() {
    let place = Place::new();
    place.link("tmux", &test_tool("tmux-3.6a"));
    place.link("ttyd", &test_tool("ttyd"));
    let output = place.run("BIN", &["doctor", "--for", "web", "--json"], &[]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(tool(&report, "tmux")["version"], "3.6a");
    assert_eq!(tool(&report, "ttyd")["version"], "1.7.7-40e79c7");
    place.assert_clean();
}

#[test]
fn a_binary_that_does_not_work_is_named_with_its_reason() {
    let real = std::fs::canonicalize("/usr/bin/tmux").unwrap();
    // Everything but the paste works.
    let swallows = format!(
        "#!/bin/sh\ncase \"$*\" in *paste-buffer*) exit 0;; esac\nexec '{}' \"$@\"\n",
        real.display()
    );
    let mut foreign = b"\x7fELF\x02\x01\x01".to_vec();
    foreign.resize(64, 0);
    foreign[18] = 243;
    let script = |body: &str| format!("#!/bin/sh\n{body}\n").into_bytes();
    let cases: Vec<(&str, u32, Vec<u8>, &str, &str)> = vec![
        ("not executable", 0o644, script("echo tmux 3.3a"), "tmux.runs", "is not executable"),
        ("no program", 0o755, b"hello".to_vec(), "tmux.runs", "is not a program"),
        ("foreign", 0o755, foreign, "tmux.runs", "is built for riscv64"),
        ("no loader", 0o755, b"#!/no/sh\n".to_vec(), "tmux.runs", "needs `/no/sh`"),
        ("fails", 0o755, script("echo broken >&2; exit 3"), "tmux.runs", "exit code 3: broken"),
        (
            "no library",
            0o755,
            script(
                "echo 'tmux: error while loading shared libraries: libevent.so.7: cannot open' >&2
                 exit 127",
            ),
            "tmux.runs",
            "cannot start: tmux: error while loading shared libraries: libevent.so.7",
        ),
        ("hangs", 0o755, script("exec /bin/sleep 60"), "tmux.runs", "did not answer within 5 s"),
        ("garbage", 0o755, script("echo hello there"), "tmux.version", "`hello there`"),
        ("too old", 0o755, script("echo tmux 2.9a"), "tmux.version", "3.2 or newer is needed"),
        (
            "refuses",
            0o755,
            script("[ \"$1\" = -V ] && { echo tmux 3.3a; exit; }; echo no room >&2; exit 1"),
            "tmux.server",
            "no room",
        ),
        ("no pane", 0o755, script("echo tmux 3.3a"), "tmux.pane", "tmux does not show the text"),
        ("swallows", 0o755, swallows.into_bytes(), "tmux.paste", "0 bytes arrived"),
    ];
    std::thread::scope(|scope| {
        for (name, mode, content, id, said) in &cases {
            scope.spawn(move || {
                let place = Place::new();
                place.put("tmux", *mode, content);
                let output = place.run("BIN", &["doctor", "--for", "tmux", "--json"], &[]);
                let report = json(&output);
                assert_eq!(output.status.code(), Some(1), "{name}: {report:#}");
                let finding = finding(&report, id);
                assert_eq!(finding["severity"], "error", "{name}");
                let what = finding["what"].as_str().unwrap();
                assert!(what.contains(said), "{name}: {what}");
                assert!(what.contains("/bin/tmux"), "{name}: {what}");
                let remedy = &finding["remedy"];
                assert!(!remedy["commands"].as_array().unwrap().is_empty(), "{name}: {remedy}");
                place.assert_clean();
            });
        }
    });
}

#[test]
fn an_old_tmux_that_works_is_a_warning_only_where_tmux_is_needed() {
    let place = Place::new();
    let real = std::fs::canonicalize("/usr/bin/tmux").unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -V ] && {{ echo tmux 3.2a; exit; }}\nexec '{}' \"$@\"\n",
        real.display()
    );
    place.put("tmux", 0o755, script.as_bytes());
    for (mode, severity) in [("tmux", "warning"), ("process", "note")] {
        let output = place.run("BIN", &["doctor", "--for", mode, "--json"], &[]);
        let report = json(&output);
        assert_eq!(output.status.code(), Some(0), "{report:#}");
        let old = finding(&report, "tmux.version");
        assert_eq!(old["severity"], severity);
        assert!(old["what"].as_str().unwrap().contains("3.3 or newer is better"), "{old}");
        let defect = finding(&report, "tmux.defects")["what"].as_str().unwrap();
        assert!(defect.contains("client_activity"), "{defect}");
    }
}

#[test]
fn an_interrupted_doctor_leaves_no_server_behind() {
    let place = Place::new();
    // The paste is held up, so that the interrupt comes while the server lives.
    let mark = hold_up_paste(&place);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = place.command("BIN", &["doctor"]).spawn().unwrap();
        wait_until("the paste is under way", || mark.exists());
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        std::fs::remove_file(&mark).unwrap();
        wait_until("nothing is left", || place.left_behind().is_empty());
    }
}

#[test]
fn a_broken_binary_loses_to_a_working_one_and_the_report_says_why() {
    let place = Place::new();
    let broken = place.put("tmux", 0o755, b"#!/bin/sh\necho tmux 2.1\n");
    let path = format!("BIN:{SYSTEM}");
    let report = json(&place.run(&path, &["doctor", "--for", "tmux", "--json"], &[]));
    let tmux = tool(&report, "tmux");
    assert_ne!(tmux["path"], broken.to_string_lossy().as_ref());
    assert_eq!(tmux["lost"][0]["path"], broken.to_string_lossy().as_ref());
    assert_eq!(tmux["lost"][0]["why"], "is version 2.1, and 3.2 or newer is needed");
}

#[test]
fn a_relative_path_entry_is_never_looked_into() {
    let place = Place::new();
    place.put("tmux", 0o755, b"#!/bin/sh\necho tmux 3.9\n");
    let output = place.run("../bin", &["doctor", "--for", "tmux"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("tmux was not found"));
}

#[tokio::test]
async fn a_configured_path_must_work_and_nothing_is_taken_for_it() {
    let place = Place::new();
    for (path, said) in [
        ("/nowhere/tmux", "does not exist"),
        ("bin/tmux", "is not an absolute path"),
        ("/etc", "is not a file"),
    ] {
        let mut tools = Tools::default();
        tools.tmux.path = Some(path.into());
        let report = place.examine(SYSTEM, &tools, &Needs::default()).await;
        assert!(report.tool(ToolId::Tmux).is_none(), "{path}");
        let text = report.errors_text().unwrap();
        assert!(text.contains(&format!("`tools.tmux.path` {path} {said}")), "{text}");
    }
    let mut tools = Tools::default();
    tools.tmux.path = Some("/usr/bin/tmux".into());
    let report = place.examine("/none", &tools, &Needs::default()).await;
    assert_eq!(report.tool(ToolId::Tmux).unwrap().origin(), Origin::Configured);
}

#[tokio::test]
async fn the_preference_decides_between_two_that_work() {
    let place = Place::new();
    let tools_dir = test_tool("tmux-3.6a");
    let folder = tools_dir.parent().unwrap().to_str().unwrap();
    let args = ["doctor", "--install", "tmux@3.6a", "--offline", folder];
    let output = place.run(SYSTEM, &args, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (prefer, origin) in [(Prefer::System, Origin::System), (Prefer::Managed, Origin::Managed)] {
        let tools = Tools { prefer, ..Tools::default() };
        let report = place.examine(SYSTEM, &tools, &Needs::default()).await;
        assert_eq!(report.tool(ToolId::Tmux).unwrap().origin(), origin);
        let other = report.render(true);
        assert!(other.contains("was not needed"), "{other}");
    }
    // With no other, the managed one is found whatever is preferred.
    let report = place.examine("/none", &Tools::default(), &Needs::default()).await;
    assert_eq!(report.tool(ToolId::Tmux).unwrap().origin(), Origin::Managed);
}

#[tokio::test]
async fn what_is_missing_comes_with_the_command_of_the_platform() {
    let facts = |system: &str, os_release: &str, programs: &[&str]| Facts {
        system: system.into(),
        machine: if system == "Darwin" { "arm64" } else { "x86_64" }.into(),
        os_release: Some(os_release.replace(' ', "\n")),
        macos_version: (system == "Darwin").then(|| "15.1".into()),
        programs: programs.iter().map(ToString::to_string).collect(),
        ..Facts::default()
    };
    let ttyd = "the-loop doctor --install ttyd";
    let place = Place::new();
    for (facts, tmux, web) in [
        (
            facts("Linux", "ID=debian VERSION_ID=12", &["apt", "sudo"]),
            "sudo apt install tmux",
            ttyd,
        ),
        (
            facts("Linux", "ID=ubuntu ID_LIKE=debian VERSION_ID=22.04", &["apt", "sudo"]),
            "sudo apt install tmux",
            ttyd,
        ),
        (
            facts("Linux", "ID=fedora VERSION_ID=43", &["dnf", "sudo"]),
            "sudo dnf install tmux",
            ttyd,
        ),
        (facts("Linux", "ID=alpine", &["apk", "doas"]), "doas apk add tmux", "doas apk add ttyd"),
        (
            facts("Linux", "ID=arch", &["pacman", "sudo"]),
            "sudo pacman -S tmux",
            "sudo pacman -S ttyd",
        ),
        (
            facts("Linux", "ID=opensuse-leap ID_LIKE=suse", &["zypper", "sudo"]),
            "sudo zypper install tmux",
            "sudo zypper install ttyd",
        ),
        (
            facts("Linux", "ID=nixos", &["nix-env"]),
            "nix-env -iA nixos.tmux",
            "nix-env -iA nixos.ttyd",
        ),
        (facts("Darwin", "", &["brew"]), "brew install tmux", "brew install ttyd"),
    ] {
        let host = Host::from_facts(&facts);
        let needs = needs(RunnerKind::Tmux, HarnessName::Claude, true);
        let (env, dirs) = (place.env("/none"), place.dirs("/none"));
        let report = examine_on(host.clone(), &env, &dirs, &Tools::default(), &needs).await;
        let text = report.errors_text().unwrap();
        // What comes after npm itself is whole, for it is pasted too.
        assert!(text.contains("`npm install -g @anthropic-ai/claude-code`"), "{text}");
        for command in [tmux, web] {
            let line = format!(" {command}\n");
            assert!(text.contains(&line), "{}: no `{command}` in\n{text}", host.describe());
        }
        assert_eq!(report.exit_code(), 1);
    }
}

#[tokio::test]
async fn what_is_not_enabled_is_no_error() {
    let place = Place::new();
    let needs = needs(RunnerKind::Process, HarnessName::Demo, false);
    let report = place.examine("/none", &Tools::default(), &needs).await;
    assert_eq!(report.errors_text(), None);
    assert_eq!(report.worst(), Severity::Warning, "{}", report.render(true));
    assert_eq!(report.exit_code(), 0);
    for finding in report.findings().iter().filter(|finding| !finding.id.starts_with("git")) {
        assert_eq!(finding.severity, Severity::Note, "{finding:?}");
    }
}

#[tokio::test]
async fn a_harness_that_is_there_is_asked_for_its_version() {
    let place = Place::new();
    place.put("claude", 0o755, b"#!/bin/sh\necho '2.1.3 (Claude Code)'\n");
    let needs = needs(RunnerKind::Process, HarnessName::Claude, false);
    let report = place.examine("BIN", &Tools::default(), &needs).await;
    let claude = report.tool(ToolId::Claude).unwrap();
    assert_eq!(claude.version().unwrap().to_string(), "2.1.3");
    assert_eq!(report.errors_text(), None);
}

#[tokio::test]
async fn this_program_is_a_tool_like_any_other() {
    let program = Tool::this_program(&Place::new().env(SYSTEM));
    let output = program.invocation().arg("--version").run_ok().await.unwrap();
    let version = program.version().unwrap();
    assert_eq!(output.stdout_text(), format!("{} {version}\n", program.id_name()));
}

#[test]
fn the_human_report_fits_eighty_columns_in_any_state() {
    let place = Place::new();
    place.put("tmux", 0o755, b"#!/bin/sh\necho tmux 2.9a\n");
    place.put("git", 0o755, b"#!/bin/sh\necho git version 2.39.5\n");
    place.put("ttyd", 0o644, b"");
    for path in ["/none", SYSTEM, "BIN"] {
        for args in [&["doctor"][..], &["doctor", "--for", "web", "-v"]] {
            let said = text(&place.run(path, args, &[]).stdout);
            assert!(said.starts_with("this host: "), "{said}");
            for line in said.lines() {
                // A path is never broken; what stands beside it is.
                let alone = line.trim_start().trim_start_matches("- ");
                let fits = line.chars().count() <= 80 || !alone.contains(' ');
                assert!(fits, "{line}");
            }
        }
    }
}

#[test]
fn the_exit_code_tells_the_states_apart() {
    let place = Place::new();
    for (path, args, code) in [
        (SYSTEM, &["doctor"][..], 0),
        ("/none", &["doctor"], 0),
        ("/none", &["doctor", "--for", "process"], 0),
        ("/none", &["doctor", "--for", "tmux"], 1),
        ("/none", &["doctor", "--for", "process", "--for", "web"], 1),
        ("/none", &["doctor", "--for", "nothing"], 2),
        ("/none", &["doctor", "--install", "sh"], 2),
        ("/none", &["doctor", "--offline", "/tmp"], 2),
    ] {
        let output = place.run(path, args, &[]);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert_eq!(code == 2, output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn the_json_has_its_documented_shape() {
    let place = Place::new();
    let report = json(&place.run("/none", &["doctor", "--json"], &[]));
    assert_eq!(report["schema"], 1);
    assert_eq!(report["worst"], "warning");
    assert_eq!(report["exitCode"], 0);
    for key in ["os", "arch", "libc", "distro", "managers", "container", "wsl", "macosVersion"] {
        assert!(report["host"].get(key).is_some(), "host.{key}");
    }
    let ids: Vec<_> = report["tools"].as_array().unwrap().iter().map(|t| &t["id"]).collect();
    assert_eq!(ids, ["tmux", "ttyd", "git", "claude"]);
    assert!(tool(&report, "tmux")["path"].is_null());
    let missing = finding(&report, "tmux.found");
    assert_eq!(missing["severity"], "note");
    assert_eq!(missing["checked"], true);
    assert!(missing["remedy"]["commands"].is_array());
}
