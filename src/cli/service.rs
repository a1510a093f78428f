//! `the-loop service`: the receiver as a service of the user's own.

mod manager;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use fs_err as fs;
use serde_json::{Value, json};

use super::Context;
use super::json;
use super::setup::Loaded;
use crate::base::failure::Failure;
use crate::base::files::atomic;
use crate::base::files::lock::is_held;
use crate::base::text::path_text;
use crate::core::config::variable_shown;
use crate::core::service::{Maker, Manager, Service, maker};

use self::manager::{Asked, Running};

/// Variables that the receiver is given when they are set. None holds a secret.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "THE_LOOP_HOME",
    "TMUX_TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
];

/// Run the receiver as a service of your own: systemd's or launchd's
///
/// Neither a restart of it nor a stop ends the agents. systemd ends everything of
/// yours with your last logout unless `loginctl enable-linger` was run once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop service install")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Install(InstallArgs),
    Uninstall(UninstallArgs),
    Status(StatusArgs),
}

/// Write the service's file, and start it now and at every log-in
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop service install --print")]
struct InstallArgs {
    /// Print the file, and do nothing
    #[arg(long)]
    print: bool,

    /// Write the file alone: no service manager is told
    #[arg(long)]
    no_start: bool,

    /// Overwrite a file that was changed since it was written
    #[arg(long)]
    force: bool,

    /// Whose file it is, instead of this system's
    #[arg(long, value_name = "MANAGER")]
    manager: Option<Kind>,
}

/// Stop the service and remove its file; the agents go on
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop service uninstall")]
struct UninstallArgs {
    /// Remove a file that was changed since it was written
    #[arg(long)]
    force: bool,

    /// Whose file it is, instead of this system's
    #[arg(long, value_name = "MANAGER")]
    manager: Option<Kind>,
}

/// Say whether it is installed and runs
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop service status")]
struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Whose file it is, instead of this system's
    #[arg(long, value_name = "MANAGER")]
    manager: Option<Kind>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Systemd,
    Launchd,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Verb::Install(args) => install(context, args),
        Verb::Uninstall(args) => uninstall(context, args),
        Verb::Status(args) => status(context, args),
    }
}

/// The service of the configuration here, and where its file belongs.
struct Place {
    service: Service,
    manager: Manager,
    file: PathBuf,
    running: Running,
}

impl Place {
    fn new(context: &Context, loaded: &Loaded, kind: Option<Kind>) -> Result<Self, Failure> {
        let manager = match kind {
            Some(Kind::Launchd) => Manager::Launchd,
            None if cfg!(target_os = "macos") => Manager::Launchd,
            Some(Kind::Systemd) | None => Manager::Systemd,
        };
        let env = &context.env;
        let variables = PASSED_ON.iter().filter_map(|name| {
            let value = env.var(name).filter(|value| !value.is_empty())?;
            Some(((*name).to_owned(), value.to_owned()))
        });
        let service = Service {
            config: loaded.file.clone(),
            project: loaded.project.clone(),
            program: env.program().to_owned(),
            variables: variables.collect(),
            log: loaded.paths.log(),
        };
        let home = env.home().ok_or_else(|| {
            Failure::failed("HOME is not set").hint("a service belongs to a user's home")
        })?;
        let config = env.var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = config.filter(|dir| dir.is_absolute()).unwrap_or_else(|| home.join(".config"));
        let dir = match manager {
            Manager::Systemd => config.join("systemd/user"),
            Manager::Launchd => home.join("Library/LaunchAgents"),
        };
        let file = dir.join(service.file_name(manager));
        let running = Running::new(manager, &service.name(), &file, env);
        Ok(Self { service, manager, file, running })
    }

    /// The link by which systemd starts it at a log-in.
    fn link(&self) -> Option<PathBuf> {
        let name = self.service.file_name(self.manager);
        let wants = self.file.with_file_name("default.target.wants");
        (self.manager == Manager::Systemd).then(|| wants.join(name))
    }

    fn text(&self) -> Result<String, Failure> {
        self.service.text(self.manager).map_err(|unfit| {
            Failure::failed(unfit.to_string()).hint("move it to a path without such characters")
        })
    }

    /// What stands in its file; `None` where there is none.
    fn found(&self) -> Result<Option<String>, Failure> {
        match fs::read_to_string(&self.file) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.file.is_symlink() => {
                Ok(None)
            }
            Err(error) => Err(Failure::failed("the service's file cannot be read").because(error)),
        }
    }

    fn shown(&self) -> String {
        path_text(&self.file)
    }

    /// The refusal of a file that a person changed.
    fn changed(&self) -> Failure {
        let failure =
            Failure::refused(format!("{} was changed since it was written", self.shown()));
        match self.manager {
            Manager::Systemd => failure.hint(format!(
                "what you added belongs into a drop-in: systemctl --user edit {}",
                self.service.name()
            )),
            Manager::Launchd => failure.hint("keep a copy of what you added"),
        }
    }
}

fn install(context: &Context, args: &InstallArgs) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let place = Place::new(context, &loaded, args.manager)?;
    let text = place.text()?;
    if args.print {
        context.printer.data(text.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    // A service has none of the variables of a shell.
    let webhook = &loaded.config.webhooks.gh_webhook;
    if webhook.secret_file.is_none() {
        return Err(Failure::refused(format!(
            "the webhook's secret is in the variable {}, which a service does not have",
            variable_shown(&webhook.secret_env)
        ))
        .hint("name a private file in `webhooks.ghWebhook.secretFile`;")
        .hint("`the-loop init --github --url https://YOUR-ADDRESS` makes one"));
    }
    if !args.no_start {
        context.block_on(place.running.check())?;
        if is_held(&loaded.paths.lock()) && !context.block_on(place.running.is_active())? {
            return Err(Failure::refused("a receiver of this configuration runs already")
                .hint("end it first: the-loop gh-webhook stop"));
        }
    }
    match place.found()? {
        Some(found) if found == text => {
            context.printer.note(&format!("kept     {}", place.shown()));
        }
        Some(found) if maker(&found) == Maker::Another && !args.force => {
            return Err(Failure::refused(format!("{} is not of our making", place.shown()))
                .hint("move it away, or overwrite it with --force"));
        }
        Some(found) if maker(&found) == Maker::Changed && !args.force => {
            return Err(place.changed().hint("overwrite it: the-loop service install --force"));
        }
        _ => {
            write(&place, &text)?;
            context.printer.note(&format!("written  {}", place.shown()));
        }
    }
    if args.no_start {
        return Ok(ExitCode::SUCCESS);
    }
    context.block_on(place.running.start())?;
    context.printer.note(&format!("started  {}", place.service.name()));
    if let Some(note) = place.running.after_logout() {
        context.printer.note(&note);
    }
    Ok(ExitCode::SUCCESS)
}

fn write(place: &Place, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::failed("the service's file cannot be written").because(error);
    if let Some(dir) = place.file.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    atomic::write(&place.file, text.as_bytes()).map_err(failed)
}

fn uninstall(context: &Context, args: &UninstallArgs) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let place = Place::new(context, &loaded, args.manager)?;
    let Some(found) = place.found()? else {
        context.printer.note(&format!("{} is not installed", place.service.name()));
        return Ok(ExitCode::SUCCESS);
    };
    match maker(&found) {
        Maker::Another => {
            return Err(Failure::refused(format!("{} is not of our making", place.shown()))
                .hint("remove it yourself when nobody needs it"));
        }
        Maker::Changed if !args.force => {
            return Err(place.changed().hint("remove it: the-loop service uninstall --force"));
        }
        Maker::Changed | Maker::Ours => {}
    }
    let manager = context.block_on(place.running.check());
    if manager.is_ok() {
        context.block_on(place.running.stop())?;
    }
    let failed = |error| Failure::failed("the service's file cannot be removed").because(error);
    // A manager that cannot be asked leaves the link by which it starts it.
    if let Some(link) = place.link().filter(|link| link.is_symlink()) {
        fs::remove_file(link).map_err(failed)?;
    }
    fs::remove_file(&place.file).map_err(failed)?;
    if manager.is_ok() {
        context.block_on(place.running.forget())?;
    }
    context.printer.note(&format!("removed  {}", place.shown()));
    if let Err(why) = manager {
        context.printer.note(&format!("It was stopped by nobody: {why}."));
        if is_held(&loaded.paths.lock()) {
            let stop = context.with_config("A receiver runs on: `the-loop gh-webhook stop`");
            context.printer.note(&stop);
            return Ok(ExitCode::FAILURE);
        }
    }
    context.printer.note(&context.with_config("The agents go on: `the-loop sessions list`"));
    Ok(ExitCode::SUCCESS)
}

fn status(context: &Context, args: &StatusArgs) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let place = Place::new(context, &loaded, args.manager)?;
    let text = place.text()?;
    let file = match place.found()? {
        None => "absent",
        Some(found) if found == text => "current",
        Some(_) => "differs",
    };
    let asked = context.block_on(place.running.ask())?;
    let runs = is_held(&loaded.paths.lock());
    if args.json {
        let said = |asked: &Asked| match asked {
            Asked::Said(word) => Value::from(word.clone()),
            Asked::Nobody(_) => Value::Null,
        };
        let value = json!({
            "schema": 1, "name": place.service.name(), "path": place.file.display().to_string(),
            "file": file, "enabled": said(&asked.enabled), "active": said(&asked.active),
            "receiverRuns": runs,
        });
        context.printer.data(&json::render(&value))?;
    } else {
        let said = |asked: Asked| match asked {
            Asked::Said(word) => word,
            Asked::Nobody(why) => format!("not known: {why}"),
        };
        let file = match file {
            "absent" => "not there: `the-loop service install` writes it".to_owned(),
            "current" => place.shown(),
            _ => format!("{}\n          (an install would write it anew)", place.shown()),
        };
        context.printer.data(&format!(
            "service:  {}\nfile:     {file}\nenabled:  {}\nactive:   {}\nreceiver: {}",
            place.service.name(),
            said(asked.enabled),
            said(asked.active),
            if runs { "runs" } else { "does not run" },
        ))?;
    }
    let is_fine = file == "current" && runs;
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
