//! `--fix`: says each repair, makes it, and remembers which came to nothing.

use super::notes::Notes;
use super::{Args, Context, managed};
use crate::base::dirs::Dirs;
use crate::base::failure::Failure;
use crate::doctor::Report;
use crate::doctor::install::Progress as _;
use crate::doctor::repair::{Repair, Workshop};

/// What `--fix` did.
#[derive(Default)]
pub(super) struct Tried {
    all: Vec<Repair>,
    pub(super) failed: Vec<Repair>,
}

/// Shows every repair that was not tried yet, and makes it unless only a look was
/// asked for. Says whether a further look is due.
pub(super) async fn fix(
    context: &Context,
    dirs: &Dirs,
    args: &Args,
    report: &Report,
    tried: &mut Tried,
) -> Result<bool, Failure> {
    let mut repairs: Vec<_> =
        report.findings().iter().filter_map(|found| found.fix.as_ref()).collect();
    repairs.sort_by_key(|repair| !repair.is_first());
    let is_first_look = tried.all.is_empty();
    repairs.retain(|repair| {
        !tried.all.contains(repair) && {
            tried.all.push((*repair).clone());
            true
        }
    });
    if repairs.is_empty() {
        if is_first_look {
            context.printer.note("there is nothing that the-loop could fix");
        }
        return Ok(false);
    }
    let source = managed::source(context, args.offline.as_deref())?;
    let progress = Notes::new(context);
    let workshop = Workshop {
        env: &context.env,
        dirs,
        host: report.host(),
        source: &source,
        progress: &progress,
    };
    let mut closed = Vec::new();
    for found in repairs {
        let Some(repair) = workshop.meant(found).without(&mut closed) else { continue };
        let repair = &repair;
        if let Some(said) = workshop.differs(found, repair) {
            progress.say(&said);
        }
        let what = repair.describe();
        if args.dry_run {
            match workshop.hindrance(repair) {
                None => progress.say(&format!("would {what}")),
                Some(why) => progress.say(&format!("could not {what}: {why}")),
            }
            continue;
        }
        progress.say(&format!("fixing: {what}"));
        if let Err(error) = workshop.make(repair).await {
            progress.say(&format!("not fixed: {}", error.told()));
            tried.failed.push(found.clone());
        }
    }
    Ok(!args.dry_run)
}
