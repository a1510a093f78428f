//! `--install`, `--uninstall` and `--list`: the tools that the-loop keeps itself.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::Context;
use crate::base::dirs::Dirs;
use crate::base::failure::{Failure, Kind, chain};
use crate::base::terminal::{Printer, table};
use crate::cli::json::render;
use crate::core::platform::Host;
use crate::doctor::install::source::Source;
use crate::doctor::install::store::Store;
use crate::doctor::install::{InstallError, Progress, install};
use crate::doctor::{ToolId, host};

/// A tool that the program can keep, and a version of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) id: ToolId,
    pub(super) version: Option<String>,
}

impl std::str::FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version.to_owned())),
            None => (text, None),
        };
        let installable = installable();
        let id = installable.iter().copied().find(|id| id.as_str() == name).ok_or_else(|| {
            let names: Vec<_> = installable.iter().map(|id| id.as_str()).collect();
            format!("the-loop can install {}", names.join(" and "))
        })?;
        if version.as_ref().is_some_and(String::is_empty) {
            return Err(format!("a version follows the `@`, as in `{name}@1.2.3`"));
        }
        Ok(Self { id, version })
    }
}

fn installable() -> Vec<ToolId> {
    ToolId::ALL.into_iter().filter(|id| !id.data().pins.is_empty()).collect()
}

/// Where builds come from.
pub(super) fn source(context: &Context, offline: Option<&Path>) -> Result<Source, Failure> {
    Source::choose(&context.env, offline).map_err(|error| {
        Failure::new(Kind::Usage, "there is nowhere to install from").because(error)
    })
}

/// Installs.
pub(super) async fn install_all(
    context: &Context,
    dirs: &Dirs,
    wanted: &[Wanted],
    offline: Option<&Path>,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let host = host::gather(&context.env).await;
    let store = Store::new(dirs);
    let source = source(context, offline)?;
    let (mut installed, mut failed, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    // What one of them lacks is no fault of the others.
    for wanted in wanted {
        match install_one(context, &host, &store, &source, wanted).await {
            Ok(line) => {
                if !as_json {
                    context.printer.data(&line.text)?;
                }
                installed.push(line.json);
            }
            Err(failure) => {
                let name = wanted.id.as_str();
                failed.push(json!({ "id": name, "why": chain(&failure) }));
                failures.push((name, failure));
            }
        }
    }
    if as_json {
        let mut done = json!({ "schema": 1, "installed": installed });
        if !failed.is_empty() {
            done["failed"] = failed.into();
        }
        context.printer.data(&render(&done))?;
    }
    match failures.len() {
        0 => Ok(ExitCode::SUCCESS),
        1 => Err(failures.remove(0).1),
        _ => {
            let names: Vec<_> = failures.iter().map(|(name, _)| *name).collect();
            let names = names.join(" and ");
            for (_, failure) in &failures {
                context.printer.note(failure.render(context.printer.is_verbose()).trim_end());
            }
            Err(Failure::failed(format!("{names} were not installed")))
        }
    }
}

struct Line {
    text: String,
    json: serde_json::Value,
}

async fn install_one(
    context: &Context,
    host: &Host,
    store: &Store,
    source: &Source,
    wanted: &Wanted,
) -> Result<Line, Failure> {
    let name = wanted.id.as_str();
    let data = wanted.id.data();
    let pin = data.pin_for(host, wanted.version.as_deref()).map_err(|error| {
        let remedy = crate::core::platform::remedy_for(data, host);
        let failure = Failure::refused(error.to_string());
        remedy.commands.into_iter().chain(remedy.note).fold(failure, Failure::hint)
    })?;
    let progress = Notes::new(context.printer);
    let done = install(&context.env, wanted.id, pin, store, source, &progress)
        .await
        .map_err(|error| explain(name, &pin.version, &pin.url, &error))?;
    let path = done.installed.path.display();
    let state = if done.was_there { "is already installed" } else { "installed" };
    Ok(Line {
        text: format!("{name} {} {state}: {path}", done.installed.version),
        json: json!({
            "id": name,
            "version": done.installed.version,
            "path": path.to_string(),
            "wasThere": done.was_there,
        }),
    })
}

fn explain(name: &str, version: &str, url: &str, error: &InstallError) -> Failure {
    let failure =
        Failure::failed(format!("could not install {name} {version}")).because(chain(error));
    match error {
        InstallError::NotInFolder { .. } => failure.hint(format!("get it from {url}")),
        InstallError::WrongDigest { .. } => {
            failure.hint("nothing was changed; what was installed before is still in its place")
        }
        InstallError::Download { .. }
        | InstallError::Status { .. }
        | InstallError::TooManyTries { .. } => failure
            .hint("run it again: it goes on where it was cut off")
            .hint(format!("or: the-loop doctor --install {name}@{version} --offline DIR")),
        _ => failure,
    }
}

/// Takes managed tools away.
pub(super) async fn uninstall_all(
    context: &Context,
    dirs: &Dirs,
    wanted: &[Wanted],
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let store = Store::new(dirs);
    let progress = Notes::new(context.printer);
    let mut removed = Vec::new();
    for wanted in wanted {
        let name = wanted.id.as_str();
        let gone = store.uninstall(wanted.id, wanted.version.as_deref(), &progress).await.map_err(
            |error| {
                let failure =
                    Failure::refused(format!("{name} was not removed")).because(chain(&error));
                match error {
                    InstallError::InUse { .. } => failure.hint("end what uses it, then again"),
                    _ => failure.hint("`the-loop doctor --list` shows what is installed"),
                }
            },
        )?;
        for installed in gone {
            let path = installed.path.display().to_string();
            if !as_json {
                context.printer.data(&format!("{name} {} removed: {path}", installed.version))?;
            }
            removed.push(json!({ "id": name, "version": installed.version, "path": path }));
        }
    }
    if as_json {
        context.printer.data(&render(&json!({ "schema": 1, "removed": removed })))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the managed tools.
pub(super) fn list(context: &Context, dirs: &Dirs, as_json: bool) -> Result<ExitCode, Failure> {
    let store = Store::new(dirs);
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for id in installable() {
        let current = store.current(id);
        for installed in store.installed(id) {
            let is_current = Some(&installed.version) == current.as_ref();
            let holder = store.holder(id, &installed);
            all.push(json!({
                "id": id.as_str(),
                "version": installed.version,
                "path": installed.path.to_string_lossy(),
                "current": is_current,
                "usedBy": holder,
            }));
            let state = match (is_current, holder) {
                (true, None) => "current".to_owned(),
                (true, Some(holder)) => format!("current, used by {holder}"),
                (false, None) => String::new(),
                (false, Some(holder)) => format!("used by {holder}"),
            };
            rows.push(vec![id.as_str().to_owned(), installed.version, state]);
        }
    }
    if as_json {
        context.printer.data(&render(&json!({ "schema": 1, "installed": all })))?;
    } else if rows.is_empty() {
        context.printer.note("no tool is installed by the-loop");
    } else {
        let text = table(&["TOOL", "VERSION", "STATE"], &rows, 80);
        context.printer.data(text.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Progress on standard error: a bar on a terminal, plain lines elsewhere.
pub(crate) struct Notes {
    printer: Printer,
    is_terminal: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Notes {
    pub(crate) fn new(printer: Printer) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { printer, is_terminal, bar: Mutex::new(None) }
    }
}

impl Progress for Notes {
    fn say(&self, text: &str) {
        self.done();
        self.printer.note(text);
    }

    fn bytes(&self, here: u64, of: Option<u64>) {
        if !self.is_terminal {
            return;
        }
        let Ok(mut bar) = self.bar.lock() else { return };
        let bar = bar.get_or_insert_with(|| {
            let target = ProgressDrawTarget::stderr();
            let template = match of {
                Some(_) => "[{bar:30}] {bytes} of {total_bytes}, {eta} left",
                None => "{spinner} {bytes}",
            };
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> ");
            ProgressBar::with_draw_target(of, target).with_style(style)
        });
        bar.set_position(here);
    }

    fn done(&self) {
        if let Ok(mut bar) = self.bar.lock()
            && let Some(bar) = bar.take()
        {
            bar.finish_and_clear();
        }
    }
}
