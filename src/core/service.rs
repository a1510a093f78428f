//! The receiver as a service of the user's own: what a service manager is told.
//!
//! Under both, a restart or a stop ends the receiver alone. The tmux server, and
//! every agent in it, was started by the receiver, and a manager would take all of
//! that along unless it is told not to.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The line by which a file of ours is known.
pub const MARK: &str = "Written by `the-loop service install`";

/// Whose a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// It is as `service install` wrote it, for whatever settings.
    Ours,
    /// It was changed since.
    Changed,
    /// Somebody else wrote it.
    Another,
}

/// Who made this file: ours carry a digest of the rest of them.
pub fn maker(text: &str) -> Maker {
    let Some((head, rest)) = text.split_once(MARK) else { return Maker::Another };
    let sealed = rest.strip_prefix(" [").and_then(|rest| rest.split_once(']'));
    match sealed {
        Some((seal, rest)) if seal == self::seal(&[head, MARK, rest].concat()) => Maker::Ours,
        _ => Maker::Changed,
    }
}

fn seal(text: &str) -> String {
    hex::encode(&Sha256::digest(text.as_bytes())[..8])
}

/// Who runs services here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// systemd's manager of the user's units.
    Systemd,
    /// launchd's agents of the user.
    Launchd,
}

/// What the service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// The file of the configuration.
    pub config: PathBuf,
    /// The directory of the project.
    pub project: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// Variables that the receiver needs; never a secret.
    pub variables: Vec<(String, String)>,
    /// Where launchd puts what the receiver says.
    pub log: PathBuf,
}

/// Why a service cannot be described: a path or a variable that a file of lines
/// cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} holds a character that no service can be given: `{shown}`")]
pub struct Unfit {
    what: String,
    shown: String,
}

impl Service {
    /// Its name: that of the project's directory, and what tells it from another
    /// of the same name.
    pub fn name(&self) -> String {
        let project = self.project.file_name().unwrap_or_default().to_string_lossy();
        let word: String = project
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
            .take(40)
            .collect();
        let word = word.trim_matches(['.', '-']);
        let digest = hex::encode(Sha256::digest(self.config.as_os_str().as_encoded_bytes()));
        let word = if word.is_empty() { "project" } else { word };
        format!("the-loop-{word}-{}", &digest[..8])
    }

    /// The name of its file.
    pub fn file_name(&self, manager: Manager) -> String {
        match manager {
            Manager::Systemd => format!("{}.service", self.name()),
            Manager::Launchd => format!("{}.plist", self.name()),
        }
    }

    /// The text of its file.
    pub fn text(&self, manager: Manager) -> Result<String, Unfit> {
        let text = match manager {
            Manager::Systemd => self.unit(),
            Manager::Launchd => self.plist(),
        }?;
        let sealed = format!("{MARK} [{}]", seal(&text));
        Ok(text.replacen(MARK, &sealed, 1))
    }

    fn arguments(&self) -> Result<Vec<String>, Unfit> {
        let mut arguments = vec![path("the program", &self.program)?];
        arguments.extend(["gh-webhook", "start", "--config"].map(str::to_owned));
        arguments.push(path("the configuration", &self.config)?);
        Ok(arguments)
    }

    fn unit(&self) -> Result<String, Unfit> {
        let command: Vec<String> =
            self.arguments()?.iter().map(|argument| quoted(argument).replace('$', "$$")).collect();
        let mut environment = String::new();
        for (name, value) in &self.variables {
            let pair = quoted(&fit(name, &format!("{name}={value}"))?);
            environment.extend(["Environment=", &pair, "\n"]);
        }
        Ok(format!(
            "# {MARK}: it writes it anew.\n\
             # What you add belongs into `systemctl --user edit {name}`.\n\
             [Unit]\n\
             Description=the-loop: receiver of {project}\n\
             # Ten failures within five minutes, and it is left for a person.\n\
             StartLimitIntervalSec=300\n\
             StartLimitBurst=10\n\
             \n\
             [Service]\n\
             Type=exec\n\
             ExecStart={command}\n\
             ExecReload=/bin/kill -HUP $MAINPID\n\
             WorkingDirectory={directory}\n\
             {environment}\
             UMask=0077\n\
             Restart=on-failure\n\
             RestartSec=5\n\
             # The tmux server and every agent in it live on.\n\
             KillMode=process\n\
             OOMPolicy=continue\n\
             TasksMax=infinity\n\
             TimeoutStopSec=30\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n",
            name = self.name(),
            project = path("the project", &self.project)?.replace('%', "%%"),
            command = command.join(" "),
            directory = path("the project", &self.project)?.replace('%', "%%"),
        ))
    }

    fn plist(&self) -> Result<String, Unfit> {
        let string = |text: &str| format!("<string>{}</string>", escaped(text));
        let arguments: Vec<String> = self.arguments()?.iter().map(|text| string(text)).collect();
        let arguments = arguments.join("\n\t\t");
        let mut variables = String::new();
        for (name, value) in &self.variables {
            let value = fit(name, value)?;
            let name = escaped(name);
            variables.extend(["\t\t<key>", &name, "</key>\n\t\t", &string(&value), "\n"]);
        }
        let log = string(&path("the log", &self.log)?);
        Ok(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!-- {MARK}: it writes it anew. -->\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
             \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n\
             <dict>\n\
             \t<key>Label</key>\n\t{label}\n\
             \t<key>ProgramArguments</key>\n\t<array>\n\t\t{arguments}\n\t</array>\n\
             \t<key>WorkingDirectory</key>\n\t{directory}\n\
             \t<key>EnvironmentVariables</key>\n\t<dict>\n{variables}\t</dict>\n\
             \t<key>RunAtLoad</key>\n\t<true/>\n\
             \t<key>KeepAlive</key>\n\t<dict>\n\
             \t\t<key>SuccessfulExit</key>\n\t\t<false/>\n\t</dict>\n\
             \t<!-- The tmux server and every agent in it live on. -->\n\
             \t<key>AbandonProcessGroup</key>\n\t<true/>\n\
             \t<key>ThrottleInterval</key>\n\t<integer>10</integer>\n\
             \t<key>Umask</key>\n\t<integer>63</integer>\n\
             \t<key>StandardOutPath</key>\n\t{log}\n\
             \t<key>StandardErrorPath</key>\n\t{log}\n\
             </dict>\n\
             </plist>\n",
            label = string(&self.name()),
            directory = string(&path("the project", &self.project)?),
        ))
    }
}

fn path(what: &str, path: &Path) -> Result<String, Unfit> {
    match path.to_str() {
        Some(text) => fit(what, text),
        None => Err(Unfit { what: what.to_owned(), shown: path.to_string_lossy().into_owned() }),
    }
}

/// The text, when every character of it can be written down: neither format has a
/// form for controls that all of its readers know.
fn fit(what: &str, text: &str) -> Result<String, Unfit> {
    if text.chars().any(char::is_control) {
        let shown = crate::base::text::visible(text);
        return Err(Unfit { what: what.to_owned(), shown });
    }
    Ok(text.to_owned())
}

/// As one word of a unit: in quotes, where a backslash and a quote are escaped, and
/// a percent sign stands for itself.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{text}\"")
}

/// As text in XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Service {
        Service {
            config: "/home/alice/pro ject/.the-loop/config.yaml".into(),
            project: "/home/alice/pro ject".into(),
            program: "/home/alice/.local/bin/the-loop".into(),
            variables: vec![("PATH".into(), "/usr/bin:/bin".into())],
            log: "/home/alice/.local/state/the-loop/log".into(),
        }
    }

    #[test]
    fn a_restart_ends_no_agent() {
        let unit = service().text(Manager::Systemd).unwrap();
        assert!(unit.contains("\nKillMode=process\n"), "{unit}");
        let plist = service().text(Manager::Launchd).unwrap();
        assert!(plist.contains("<key>AbandonProcessGroup</key>\n\t<true/>"), "{plist}");
    }

    #[test]
    fn a_file_of_ours_is_known_and_one_that_was_changed() {
        for manager in [Manager::Systemd, Manager::Launchd] {
            let text = service().text(manager).unwrap();
            assert_eq!(maker(&text), Maker::Ours, "{text}");
            for changed in [
                text.replace("alice", "bob"),
                format!("{text}\n"),
                text.replace(" [", " [0"),
                text.replace(MARK, &format!("{MARK}: it writes it anew.")),
            ] {
                assert_eq!(maker(&changed), Maker::Changed, "{changed}");
            }
            assert_eq!(maker(&text.replace(MARK, "")), Maker::Another);
        }
        assert_eq!(maker(""), Maker::Another);
    }

    #[test]
    fn nothing_of_a_path_acts_in_a_unit() {
        let mut service = service();
        service.config = "/a b/$x/%h/\"q\"\\".into();
        let unit = service.text(Manager::Systemd).unwrap();
        let line = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
        assert_eq!(
            line,
            "ExecStart=\"/home/alice/.local/bin/the-loop\" \"gh-webhook\" \"start\" \
             \"--config\" \"/a b/$$x/%%h/\\\"q\\\"\\\\\""
        );
        service.config = "/a&b/<c>".into();
        let plist = service.text(Manager::Launchd).unwrap();
        assert!(plist.contains("<string>/a&amp;b/&lt;c&gt;</string>"), "{plist}");
        service.config = "/a\nExecStartPre=/x".into();
        for manager in [Manager::Systemd, Manager::Launchd] {
            let error = service.text(manager).unwrap_err().to_string();
            assert!(error.contains("the configuration holds a character"), "{error}");
            assert!(error.contains("/a\\nExecStartPre"), "{error}");
        }
    }

    #[test]
    fn two_projects_of_one_name_have_services_of_their_own() {
        let one = service();
        let mut other = service();
        other.config = "/elsewhere/pro ject/.the-loop/config.yaml".into();
        assert!(one.name().starts_with("the-loop-pro-ject-"), "{}", one.name());
        assert_ne!(one.name(), other.name());
        other.project = "/".into();
        assert!(other.name().starts_with("the-loop-project-"), "{}", other.name());
    }
}
