//! Whether agents survive a logout and a restart of the service, where systemd
//! rules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::Scene;
use crate::base::process::shell_word;
use crate::base::text::path_text;
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};

pub(super) fn unit(scene: &Scene) -> Vec<Finding> {
    let mut findings = Vec::new();
    if Path::new("/run/systemd/system").is_dir() {
        findings.extend(linger(scene, Path::new("/var/lib/systemd/linger")));
    }
    findings.extend(kill_mode(scene));
    findings
}

fn linger(scene: &Scene, dir: &Path) -> Option<Finding> {
    let id = "service.linger";
    let user = scene.env.var("USER").or_else(|| scene.env.var("LOGNAME"))?;
    if user == "root" || user.contains('/') {
        return None;
    }
    Some(if dir.join(user).exists() {
        Finding::new(id, Severity::Ok, "processes survive the last logout (linger is on)")
    } else {
        let what = "linger is off: agents and receiver end with the last logout";
        Finding::new(id, super::if_tmux(&scene.needs, Severity::Warning), what)
            .remedy(Remedy::command("loginctl enable-linger"))
    })
}

/// A unit without `KillMode=process` takes the tmux server, and every agent,
/// along at each restart.
fn kill_mode(scene: &Scene) -> Vec<Finding> {
    let id = "service.killMode";
    let config = scene.env.var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let Some(config) = config.or_else(|| Some(scene.env.home()?.join(".config"))) else {
        return Vec::new();
    };
    let dir = config.join("systemd/user");
    let mut places = vec![config.join("systemd/user.control"), dir.clone()];
    places.push(PathBuf::from("/etc/systemd/user"));
    places
        .extend(scene.env.var_os("XDG_RUNTIME_DIR").map(|dir| Path::new(dir).join("systemd/user")));
    let units = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ours = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("the-loop") && name.ends_with(".service")
    };
    let mut findings = Vec::new();
    for unit in units.filter(|path| is_ours(path)) {
        let Ok(text) = fs::read_to_string(&unit) else { continue };
        let (mut mode, mut said_by) = (mode_in(&text), unit.clone());
        for file in drop_ins(&unit, &places) {
            let text = fs::read_to_string(&file).unwrap_or_default();
            if let Some(said) = mode_in(&text) {
                (mode, said_by) = (Some(said), file);
            }
        }
        let mode = mode.unwrap_or_else(|| MODES[0].to_owned());
        let shown = path_text(&said_by);
        findings.push(if mode == "process" {
            Finding::new(id, Severity::Ok, "a restart of the service ends no agent").shown_by(shown)
        } else {
            let what = format!("the service has KillMode={mode}: its restart ends every agent");
            let name = unit.file_name().unwrap_or_default().to_string_lossy();
            let remedy = if said_by == unit {
                let edit = format!("systemctl --user edit {}", shell_word(&name));
                let note = "write `[Service]` and, below it, `KillMode=process`".to_owned();
                Remedy { commands: vec![edit], note: Some(note) }
            } else {
                let note = format!("take `KillMode=` out of {shown}");
                let reload = "systemctl --user daemon-reload".to_owned();
                Remedy { commands: vec![reload], note: Some(note + " first") }
            };
            Finding::new(id, super::if_tmux(&scene.needs, Severity::Warning), what)
                .shown_by(shown)
                .remedy(remedy)
        });
    }
    findings
}

/// What systemd understands; another word it does not take.
const MODES: &[&str] = &["control-group", "process", "mixed", "none"];

/// The last mode that a file of a unit names.
fn mode_in(text: &str) -> Option<String> {
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "KillMode").then(|| value.trim().to_owned())
    };
    let known = |mode: &String| MODES.contains(&mode.as_str());
    text.lines().filter_map(value).rfind(known)
}

/// The files that change a unit, in the order in which systemd reads them: by their
/// names, and of two with one name that of the nearer directory.
fn drop_ins(unit: &Path, places: &[PathBuf]) -> Vec<PathBuf> {
    let name = unit.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.trim_end_matches(".service");
    // `a-b.service` takes those of `a-.service` and of every service, too.
    let dashes = stem.match_indices('-').map(|(at, _)| format!("{}.service.d", &stem[..=at]));
    let mut names: Vec<_> = dashes.collect();
    names.insert(0, "service.d".to_owned());
    names.push(format!("{name}.d"));
    let mut found = BTreeMap::new();
    let in_places = |name: &String| places.iter().map(|place| place.join(name)).collect::<Vec<_>>();
    for dir in names.iter().rev().flat_map(in_places) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let (file, name) = (entry.path(), entry.file_name());
            if file.extension().is_some_and(|kind| kind == "conf") {
                found.entry(name).or_insert(file);
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dirs::Dirs;
    use crate::base::env::Env;
    use crate::core::config::RunnerKind;
    use crate::core::platform::{Facts, Host};
    use crate::doctor::Needs;

    fn scene(home: &Path) -> Scene {
        let vars = [
            ("HOME", home.as_os_str()),
            ("THE_LOOP_HOME", home.as_os_str()),
            ("USER", "alice".as_ref()),
        ];
        let env = Env::fixed(vars, home, "/bin/the-loop");
        let needs = Needs { runner: Some(RunnerKind::Tmux), ..Needs::default() };
        Scene {
            dirs: Dirs::new(&env).unwrap(),
            env,
            needs,
            project: super::super::Project::default(),
            host: Host::from_facts(&Facts::default()),
        }
    }

    #[test]
    fn linger_is_asked_of_the_system_by_the_users_name() {
        let dir = tempfile::tempdir().unwrap();
        let scene = scene(dir.path());
        let off = linger(&scene, dir.path()).unwrap();
        assert_eq!(off.severity, Severity::Warning);
        assert_eq!(off.remedy.unwrap().commands, ["loginctl enable-linger"]);
        fs::write(dir.path().join("alice"), "").unwrap();
        assert_eq!(linger(&scene, dir.path()).unwrap().severity, Severity::Ok);
    }

    #[test]
    fn only_kill_mode_process_spares_the_agents() {
        let dir = tempfile::tempdir().unwrap();
        let units = dir.path().join(".config/systemd/user");
        std::fs::DirBuilder::new().recursive(true).create(&units).unwrap();
        let scene = scene(dir.path());
        assert_eq!(kill_mode(&scene), []);
        for (text, severity) in [
            ("[Service]\nExecStart=x\n", Severity::Warning),
            ("[Service]\nKillMode=mixed\n", Severity::Warning),
            ("[Service]\nKillMode=mixed\nKillMode=process\n", Severity::Ok),
        ] {
            fs::write(units.join("the-loop-a.service"), text).unwrap();
            assert_eq!(kill_mode(&scene)[0].severity, severity, "{text}");
        }
        let edit = kill_mode(&scene);
        assert_eq!(edit[0].remedy, None);
        // What a drop-in says counts: by the names of the files, and of two with one
        // name that of the nearer directory.
        let unit = "the-loop-a.service";
        for (file, text, severity) in [
            ("the-loop-a.service.d/override.conf", "KillMode=mixed", Severity::Warning),
            ("the-loop-a.service.d/z.conf", "[Service]\nKillMode = process", Severity::Ok),
            ("the-loop-a.service.d/zz.conf", "KillMode=control-group\n", Severity::Warning),
            ("the-loop-a.service.d/zzz.conf.off", "KillMode=process", Severity::Warning),
            ("the-loop-a.service.d/zzz.conf", "KillMode=nonsense\nKillMode=", Severity::Warning),
            ("the-loop-.service.d/zzzz.conf", "KillMode=process", Severity::Ok),
            ("service.d/zzzz.conf", "KillMode=mixed", Severity::Ok),
            ("the-loop-b.service.d/zzzzz.conf", "KillMode=mixed", Severity::Ok),
            ("service.d/zzzzz.conf", "KillMode=mixed", Severity::Warning),
        ] {
            let file = units.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            let found = kill_mode(&scene);
            assert_eq!((found.len(), found[0].severity), (1, severity), "{}", file.display());
            if severity == Severity::Warning {
                let remedy = found[0].remedy.clone().unwrap();
                assert_eq!(remedy.commands, ["systemctl --user daemon-reload"]);
                assert!(remedy.note.unwrap().contains(".conf first"));
            }
        }
        for dir in ["the-loop-a.service.d", "the-loop-.service.d", "service.d"] {
            fs::remove_dir_all(units.join(dir)).unwrap();
        }
        fs::write(units.join(unit), "[Service]\n").unwrap();
        let remedy = kill_mode(&scene)[0].remedy.clone().unwrap();
        assert_eq!(remedy.commands, ["systemctl --user edit the-loop-a.service"]);
    }
}
