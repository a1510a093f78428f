//! What a service manager is told and asked: `systemctl --user`, `launchctl`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::env::Env;
use crate::base::failure::Failure;
use crate::base::process::Output;
use crate::core::service::Manager;
use crate::doctor::{self, tool::Tool};

/// How long a manager may take; a start waits until the program was executed.
const WITHIN: Duration = Duration::from_secs(20);

/// Variables by which the user's manager is found.
const ITS_PLACE: &[&str] = &["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];

/// The service in the eyes of its manager.
pub(super) struct Running {
    manager: Manager,
    name: String,
    file: PathBuf,
    env: Env,
    program: &'static str,
    tool: Option<Tool>,
}

/// What a manager answered, or why nobody could be asked.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    /// Its word.
    Said(String),
    /// There is none.
    Nobody(String),
}

/// Two answers.
pub(super) struct Answers {
    /// Whether it is started at a log-in.
    pub(super) enabled: Asked,
    /// Whether it runs.
    pub(super) active: Asked,
}

impl Running {
    pub(super) fn new(manager: Manager, name: &str, file: &Path, env: &Env) -> Self {
        let program = match manager {
            Manager::Systemd => "systemctl",
            Manager::Launchd => "launchctl",
        };
        Self {
            manager,
            name: name.to_owned(),
            file: file.to_owned(),
            env: env.clone(),
            program,
            tool: doctor::system_tool(program, env),
        }
    }

    async fn call(&self, args: &[&str]) -> Result<Output, Failure> {
        let Some(tool) = &self.tool else {
            return Err(Failure::failed(format!("{} was not found", self.program))
                .hint("without a service manager: the-loop gh-webhook start --detach")
                .hint("the file alone: the-loop service install --no-start"));
        };
        let call = tool.invocation().deadline(WITHIN);
        let call = ITS_PLACE.iter().fold(call, |call, name| match self.env.var_os(name) {
            Some(value) => call.env(*name, value),
            None => call,
        });
        let user: &[&str] = if self.manager == Manager::Systemd { &["--user"] } else { &[] };
        call.args(user).args(args).run().await.map_err(|error| {
            Failure::failed(format!("{} did not answer", self.program)).because(error)
        })
    }

    async fn must(&self, args: &[&str]) -> Result<(), Failure> {
        let output = self.call(args).await?;
        if output.status.success() {
            return Ok(());
        }
        let failure = Failure::failed(format!("`{} {}` failed", self.program, args.join(" ")));
        Err(failure.hint(output.complaint()))
    }

    fn target(&self) -> String {
        format!("gui/{}/{}", rustix::process::getuid().as_raw(), self.name)
    }

    /// Whether there is a manager to be told anything.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        let args: &[&str] = match self.manager {
            Manager::Systemd => &["show-environment"],
            Manager::Launchd => &["version"],
        };
        let output = self.call(args).await?;
        if output.status.success() {
            return Ok(());
        }
        let what = match self.manager {
            Manager::Systemd => "systemd runs no services for this user here",
            Manager::Launchd => "launchd does not answer",
        };
        Err(Failure::failed(what)
            .hint(output.complaint())
            .hint("without a service manager: the-loop gh-webhook start --detach")
            .hint("the file alone: the-loop service install --no-start"))
    }

    /// Whether it runs now.
    pub(super) async fn is_active(&self) -> Result<bool, Failure> {
        Ok(matches!(self.ask().await?.active, Asked::Said(word) if word == "active"))
    }

    /// Starts it, now and at every log-in; one that runs is started anew.
    pub(super) async fn start(&self) -> Result<(), Failure> {
        match self.manager {
            Manager::Systemd => {
                self.must(&["daemon-reload"]).await?;
                self.must(&["enable", &self.name]).await?;
                self.must(&["restart", &self.name]).await
            }
            Manager::Launchd => {
                let domain = format!("gui/{}", rustix::process::getuid().as_raw());
                // It fails when nothing of that name is there.
                self.call(&["bootout", &self.target()]).await?;
                let file = self.file.to_string_lossy();
                self.must(&["bootstrap", &domain, &file]).await
            }
        }
    }

    /// Ends it, and has it no longer started.
    pub(super) async fn stop(&self) -> Result<(), Failure> {
        match self.manager {
            Manager::Systemd => self.must(&["disable", "--now", &self.name]).await,
            Manager::Launchd => self.call(&["bootout", &self.target()]).await.map(drop),
        }
    }

    /// Has the manager see that its file has gone.
    pub(super) async fn forget(&self) -> Result<(), Failure> {
        match self.manager {
            Manager::Systemd => self.must(&["daemon-reload"]).await,
            Manager::Launchd => Ok(()),
        }
    }

    /// What the manager says of it.
    pub(super) async fn ask(&self) -> Result<Answers, Failure> {
        if let Err(failure) = self.check().await {
            let nobody = Asked::Nobody(failure.to_string());
            return Ok(Answers { enabled: nobody.clone(), active: nobody });
        }
        let word = |output: Output| match output.stdout_text().trim() {
            "" => Asked::Nobody(output.complaint()),
            word => Asked::Said(crate::base::text::visible(word)),
        };
        Ok(match self.manager {
            Manager::Systemd => Answers {
                enabled: word(self.call(&["is-enabled", &self.name]).await?),
                active: word(self.call(&["is-active", &self.name]).await?),
            },
            Manager::Launchd => {
                let output = self.call(&["print", &self.target()]).await?;
                let is_there = output.status.success();
                let runs =
                    output.stdout_text().lines().any(|line| line.trim() == "state = running");
                let word = |yes, a: &str, b: &str| Asked::Said(if yes { a } else { b }.to_owned());
                Answers {
                    enabled: word(is_there, "enabled", "disabled"),
                    active: word(runs, "active", "inactive"),
                }
            }
        })
    }

    /// What to do so that it lives on after the last logout.
    pub(super) fn after_logout(&self) -> Option<String> {
        if self.manager == Manager::Launchd {
            return Some("It ends with your log-out, as every agent of launchd's does.".into());
        }
        let user = self.env.var("USER").filter(|user| !user.contains('/'))?;
        let lingers = Path::new("/var/lib/systemd/linger").join(user).exists();
        let note = "So that it and the agents live on after your last logout, run once:\n  \
                    loginctl enable-linger";
        (!lingers).then(|| note.to_owned())
    }
}
