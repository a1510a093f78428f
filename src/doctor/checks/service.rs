//! Whether agents survive a logout and a restart of the service, where systemd
//! rules.

use std::path::Path;

use fs_err as fs;

use super::Scene;
use crate::base::text::{path_text, visible};
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
    let config = scene.env.var_os("XDG_CONFIG_HOME").map(std::path::PathBuf::from);
    let Some(config) = config.or_else(|| Some(scene.env.home()?.join(".config"))) else {
        return Vec::new();
    };
    let dir = config.join("systemd/user");
    let units = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ours = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("the-loop") && name.ends_with(".service")
    };
    let mut findings = Vec::new();
    for unit in units.filter(|path| is_ours(path)) {
        let Ok(text) = fs::read_to_string(&unit) else { continue };
        let value = |line: &str| Some(line.trim().strip_prefix("KillMode=")?.trim().to_owned());
        let mode = text.lines().filter_map(value).next_back();
        let mode = mode.unwrap_or_else(|| "control-group".to_owned());
        let shown = path_text(&unit);
        findings.push(if mode == "process" {
            Finding::new(id, Severity::Ok, "a restart of the service ends no agent").shown_by(shown)
        } else {
            let mode = visible(&mode);
            let what = format!("the service has KillMode={mode}: its restart ends every agent");
            Finding::new(id, super::if_tmux(&scene.needs, Severity::Warning), what)
                .shown_by(shown)
                .remedy(Remedy::note("set KillMode=process in its [Service] section"))
        });
    }
    findings
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
    }
}
