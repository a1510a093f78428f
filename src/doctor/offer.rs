//! The doctor as the last step of a set-up: silent when all is well, else it says
//! what is missing and offers each install that would help.

use super::install::Progress;
use super::install::source::Source;
use super::repair::{Repair, Workshop};
use super::{Request, examine};
use crate::base::failure::chain;

/// Examines this host for what is needed. What is missing is said through
/// `progress`, what is advised in the words of `reword`; `ask` is given one question for each build that can be installed,
/// and those that it agrees to are. `false` when something is still missing at
/// the end.
pub async fn offer_installs(
    request: &Request<'_>,
    progress: &dyn Progress,
    reword: &dyn Fn(&str) -> String,
    ask: &mut dyn FnMut(&str) -> bool,
) -> bool {
    let Request { env, dirs, tools, needs, .. } = *request;
    let mut report = examine(env, dirs, tools, needs).await;
    report.advise(reword);
    let Some(text) = report.errors_text() else { return true };
    progress.say(text.trim_end());
    // Where builds come from is of no interest before one would be fetched.
    let source = match Source::choose(env, None) {
        Ok(source) => source,
        Err(error) => {
            progress.say(&format!("nothing can be installed so: {}", chain(&error)));
            error.of_source().iter().for_each(|hint| progress.say(&format!("hint: {hint}")));
            return false;
        }
    };
    let workshop = Workshop { env, dirs, host: report.host(), source: &source, progress };
    let mut is_changed = false;
    for repair in report.findings().iter().filter_map(|found| found.fix.as_ref()) {
        let Repair::Install { id, version } = repair else { continue };
        let wanted = Repair::Install { id: *id, version: version.clone() };
        let repair = &workshop.meant(&wanted);
        let Repair::Install { version, .. } = repair else { continue };
        let (name, why) = (id.as_str(), needs.purpose(*id));
        if !ask(&format!("Install {name} {version} for the-loop alone ({why})?")) {
            continue;
        }
        if let Some(said) = workshop.differs(&wanted, repair) {
            progress.say(&said);
        }
        match workshop.make(repair).await {
            Ok(()) => is_changed = true,
            Err(error) => progress.say(&format!("not installed: {}", reword(&error.told()))),
        }
    }
    if !is_changed {
        return false;
    }
    let mut report = examine(env, dirs, tools, needs).await;
    report.advise(reword);
    match report.errors_text() {
        None => true,
        Some(text) => {
            progress.say(text.trim_end());
            false
        }
    }
}
