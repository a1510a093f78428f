//! `--install`, `--uninstall` and `--list`: the tools that the-loop keeps itself.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::Context;
use super::notes::Notes;
use crate::base::dirs::Dirs;
use crate::base::failure::{Failure, Kind, chain};
use crate::base::files::lock::is_held;
use crate::base::terminal::table;
use crate::base::text::{path_text, push_wrapped, visible};
use crate::cli::json::render;
use crate::core::platform::Host;
use crate::doctor::install::Progress as _;
use crate::doctor::install::source::Source;
use crate::doctor::install::store::Store;
use crate::doctor::install::versions::A_THE_LOOP;
use crate::doctor::install::{InstallError, advice, install, pick, removal_advice, said_of};
use crate::doctor::{ToolId, host};

/// The width of what people read.
pub(super) const WIDTH: usize = 80;

/// A tool that the program can keep, and a version of it. Written as it was asked
/// for.
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

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id.as_str())?;
        self.version.iter().try_for_each(|version| write!(f, "@{}", visible(version)))
    }
}

fn installable() -> Vec<ToolId> {
    ToolId::ALL.into_iter().filter(|id| !id.data().pins.is_empty()).collect()
}

/// Where builds come from.
pub(super) fn source(context: &Context, offline: Option<&Path>) -> Result<Source, Failure> {
    Source::choose(&context.env, offline).map_err(|error| {
        let hint = error.of_source();
        let failure = Failure::new(Kind::Usage, "nothing can be installed so").because(error);
        hint.into_iter().fold(failure, Failure::hint)
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
    let (mut installed, mut failures) = (Vec::new(), Vec::new());
    // What one of them lacks is no fault of the others.
    for wanted in wanted {
        match install_one(context, &host, &store, &source, wanted).await {
            Ok(line) => {
                if !as_json {
                    context.printer.data(&line.text)?;
                }
                installed.push(line.json);
            }
            Err(failure) => failures.push((wanted, failure)),
        }
    }
    finish(context, as_json, "installed", &installed, failures)
}

/// Says what was done of several things, and of each that was not done why.
fn finish(
    context: &Context,
    as_json: bool,
    verb: &str,
    done: &[serde_json::Value],
    failures: Vec<(&Wanted, Failure)>,
) -> Result<ExitCode, Failure> {
    let told = |failure: Failure| failure.advised(|hint| context.with_config(hint)).wrapped(WIDTH);
    let failures = failures.into_iter().map(|(wanted, failure)| (wanted, told(failure)));
    let mut failures: Vec<_> = failures.collect();
    if as_json {
        let mut result = json!({ "schema": 1, verb: done });
        let failed: Vec<_> = failures
            .iter()
            .map(|(wanted, failure)| {
                let (id, why, hints) = (wanted.id.as_str(), chain(failure), failure.hints());
                json!({ "id": id, "why": why, "hints": hints })
            })
            .collect();
        if !failed.is_empty() {
            result["failed"] = failed.into();
        }
        context.printer.data(&render(&result))?;
    }
    match failures.len() {
        0 => Ok(ExitCode::SUCCESS),
        1 if as_json => {
            context.printer.note(failures[0].1.render(context.printer.is_verbose()).trim_end());
            Ok(ExitCode::FAILURE)
        }
        1 => Err(failures.remove(0).1),
        _ => {
            let names: Vec<_> = failures.iter().map(|(wanted, _)| wanted.to_string()).collect();
            let names = names.join(" and ");
            for (_, failure) in &failures {
                context.printer.note(failure.render(context.printer.is_verbose()).trim_end());
            }
            let failure = Failure::failed(format!("{names} were not {verb}"));
            if as_json {
                context.printer.note(failure.render(false).trim_end());
                return Ok(ExitCode::FAILURE);
            }
            Err(failure)
        }
    }
}

/// A path behind what is said of it: on a line of its own where both do not fit.
fn on_lines(what: &str, path: &str) -> String {
    let path = visible(path);
    let between =
        if what.chars().count() + 1 + path.chars().count() > WIDTH { "\n  " } else { " " };
    format!("{what}{between}{path}")
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
    let progress = Notes::new(context);
    let pin = match &wanted.version {
        Some(version) => data.pin_for(host, Some(version)),
        None => pick(wanted.id, host, None, source).inspect(|taken| {
            let first = data.pin_for(host, None).map_or("", |first| first.version.as_str());
            let said = said_of(wanted.id, first, &taken.version, source);
            if let Some(said) = &said {
                progress.say(said);
            }
        }),
    };
    let pin = pin.map_err(|error| {
        let remedy = crate::core::platform::remedy_for(data, host);
        let failure = Failure::refused(error.to_string());
        remedy.commands.into_iter().chain(remedy.note).fold(failure, Failure::hint)
    })?;
    let done =
        install(&context.env, wanted.id, pin, store, source, &progress).await.map_err(|error| {
            let hints = advice(name, pin, source, store.kept(wanted.id, pin), &error);
            let what = format!("could not install {name} {}", pin.version);
            hints
                .into_iter()
                .chain(ends(context, &error))
                .fold(Failure::failed(what).because(visible(&chain(&error))), Failure::hint)
        })?;
    let path = done.installed.path.to_string_lossy();
    let state = if done.was_there { "is already installed" } else { "installed" };
    Ok(Line {
        text: on_lines(&format!("{name} {} {state}:", done.installed.version), &path),
        json: json!({
            "id": name,
            "version": done.installed.version,
            "path": path.to_string(),
            "wasThere": done.was_there,
        }),
    })
}

/// What ends the use of a build, where it is our receiver that uses it.
fn ends(context: &Context, error: &InstallError) -> Option<String> {
    let InstallError::InUse { holder, .. } = error else { return None };
    let loaded = context.load_own().ok()?;
    let is_ours = holder == A_THE_LOOP && is_held(&loaded.paths.lock());
    is_ours.then(|| "the-loop gh-webhook stop".to_owned())
}

/// Takes managed tools away.
pub(super) async fn uninstall_all(
    context: &Context,
    dirs: &Dirs,
    wanted: &[Wanted],
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let store = Store::new(dirs);
    let progress = Notes::new(context);
    let (mut removed, mut failures) = (Vec::new(), Vec::new());
    // What one of them is used for is no fault of the others.
    for wanted in wanted {
        let name = wanted.id.as_str();
        match store.uninstall(wanted.id, wanted.version.as_deref(), &progress).await {
            Ok(gone) => {
                for installed in gone {
                    let path = installed.path.display().to_string();
                    let version = installed.version;
                    if !as_json {
                        context
                            .printer
                            .data(&on_lines(&format!("{name} {version} removed:"), &path))?;
                    }
                    removed.push(json!({ "id": name, "version": version, "path": path }));
                }
            }
            Err(error) => {
                let failure = Failure::refused(format!("{wanted} was not removed"))
                    .because(visible(&chain(&error)));
                let hints = removal_advice(&error).into_iter().chain(ends(context, &error));
                let failure = hints.fold(failure, Failure::hint);
                failures.push((wanted, failure));
            }
        }
    }
    finish(context, as_json, "removed", &removed, failures)
}

/// Shows the managed tools.
pub(super) fn list(context: &Context, dirs: &Dirs, as_json: bool) -> Result<ExitCode, Failure> {
    let store = Store::new(dirs);
    let (mut rows, mut all, mut faults) = (Vec::new(), Vec::new(), String::new());
    let mut closed = Vec::new();
    for id in installable() {
        closed.extend(store.closed(id).map(|(dir, _)| dir));
        let current = store.current(id);
        for installed in store.installed(id) {
            let is_current = Some(&installed.version) == current.as_ref();
            let holder = store.holder(id, &installed);
            let fault = store.fault(id, &installed);
            if let Some(fault) = &fault {
                let closing = store.closing(&installed);
                let is_pinned = id.data().pins.iter().any(|pin| pin.version == installed.version);
                let again = match &holder {
                    _ if closing.is_some() => String::new(),
                    Some(holder) => format!("it is used by {holder}: end that first"),
                    None if is_pinned => {
                        format!("the-loop doctor --install {}@{}", id.as_str(), installed.version)
                    }
                    None => {
                        format!("the-loop doctor --uninstall {}@{}", id.as_str(), installed.version)
                    }
                };
                let what = format!("{} {} {fault}; it is not run", id.as_str(), installed.version);
                push_wrapped(&mut faults, "", 2, &what, WIDTH);
                let closing = closing.map(|it| it.commands.into_iter().chain(it.note));
                let hints = closing.map_or_else(|| vec![again], Iterator::collect);
                for hint in hints {
                    let _ = writeln!(faults, "hint: {}", context.with_config(&hint));
                }
            }
            all.push(json!({
                "id": id.as_str(),
                "version": installed.version,
                "path": installed.path.to_string_lossy(),
                "current": is_current,
                "usedBy": holder,
                "fault": fault,
            }));
            let holder = holder.map(|holder| format!("used by {holder}"));
            let states = [
                is_current.then(|| "current".to_owned()),
                fault.map(|_| "not usable".to_owned()),
                holder,
            ];
            let state = states.into_iter().flatten().collect::<Vec<_>>().join(", ");
            rows.push(vec![id.as_str().to_owned(), installed.version, state]);
        }
    }
    if as_json {
        context.printer.data(&render(&json!({ "schema": 1, "installed": all })))?;
    } else if rows.is_empty() && closed.is_empty() {
        context.printer.note("no tool is installed by the-loop");
    } else if !rows.is_empty() {
        let text = table(&["TOOL", "VERSION", "STATE"], &rows, WIDTH);
        context.printer.data(text.trim_end())?;
    }
    if !faults.is_empty() {
        context.printer.note(faults.trim_end());
    }
    closed.dedup();
    if let Some(dir) = closed.first() {
        let what = format!("this user may not look into {}", path_text(dir));
        let failure = Failure::new(Kind::CouldNotCheck, what)
            .hint("`the-loop doctor --only tools` says what helps");
        if as_json {
            context.printer.note(failure.render(false).trim_end());
            return Ok(ExitCode::from(Kind::CouldNotCheck.exit_code()));
        }
        return Err(failure);
    }
    Ok(ExitCode::SUCCESS)
}
