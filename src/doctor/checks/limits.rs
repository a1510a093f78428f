//! How much the system gives this user: open files, and processes. Looked at before
//! anything else is started, for the look itself takes some.

use rustix::process::{Resource, Rlimit, getrlimit};

use crate::base::runtime::startable;
use crate::core::platform::Remedy;
use crate::doctor::catalogue::is_asked;
use crate::doctor::finding::{Finding, Severity};

/// An agent is some processes with many threads, and runs tools.
const PROCESSES: usize = 64;

/// Of files a session needs a handful, a delivery one more.
const FILES: Limit = Limit { option: "-n", name: "nofile", service: "LimitNOFILE", enough: 1024 };
const TASKS: Limit = Limit { option: "-u", name: "nproc", service: "LimitNPROC", enough: 512 };

/// What was asked for of this.
pub(super) fn limits(only: &[String]) -> Vec<Finding> {
    let descriptors = is_asked(only, "limits.descriptors").then(descriptors);
    let processes = is_asked(only, "limits.processes").then(processes);
    descriptors.into_iter().chain(processes).collect()
}

fn descriptors() -> Finding {
    let id = "limits.descriptors";
    let limits = getrlimit(Resource::Nofile);
    match limits.current {
        Some(limit) if limit < FILES.enough => {
            let what = format!("only {limit} files can be open at once");
            Finding::new(id, Severity::Warning, what).remedy(FILES.raise(&limits))
        }
        Some(limit) => Finding::new(id, Severity::Ok, format!("{limit} files can be open at once")),
        None => Finding::new(id, Severity::Ok, "any number of files can be open at once"),
    }
}

/// Tried, for other limits than this user's count too: those of a container, of a
/// service, of the whole system.
fn processes() -> Finding {
    let id = "limits.processes";
    let (started, why) = startable(PROCESSES);
    let Some(why) = why else {
        return Finding::new(id, Severity::Ok, "enough processes can be started");
    };
    let limits = getrlimit(Resource::Nproc);
    let only = if started == 0 { "no".to_owned() } else { format!("only {started}") };
    let what = format!("{only} more processes or threads can be started");
    let finding = Finding::new(id, Severity::Warning, what).shown_by(why.to_string());
    match limits.current {
        Some(limit) => finding
            .shown_by(format!("this user may have {limit} at once"))
            .remedy(TASKS.raise(&limits)),
        None => finding.remedy(Remedy::note(
            "end some, or raise the limit of the container or the service (TasksMax)",
        )),
    }
}

/// A limit, and where it is raised.
struct Limit {
    option: &'static str,
    name: &'static str,
    service: &'static str,
    enough: u64,
}

impl Limit {
    /// What raises it. Beyond the hard one only root gives more.
    fn raise(&self, limits: &Rlimit) -> Remedy {
        let Self { option, name, service, enough } = *self;
        let wanted = 4096;
        let low = limits.maximum.filter(|hard| *hard < wanted);
        let Some(hard) = low else {
            return Remedy::command(format!("ulimit {option} {wanted}"));
        };
        let would_help = hard >= enough && limits.current.is_some_and(|current| current < hard);
        let remedy = if would_help {
            Remedy::command(format!("ulimit {option} {hard}"))
        } else {
            Remedy::default()
        };
        let note = format!(
            "more than {hard} takes root: a line `* hard {name} {wanted}` in \
             /etc/security/limits.conf, then a new login; for a service {service}={wanted}"
        );
        Remedy { note: Some(note), ..remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_hard_limit_takes_root() {
        let raise = |limit: &Limit, hard| limit.raise(&Rlimit { current: Some(4), maximum: hard });
        assert_eq!(raise(&FILES, None).commands, ["ulimit -n 4096"]);
        assert_eq!(raise(&FILES, Some(4096)).note, None);
        let some = raise(&FILES, Some(2048));
        assert_eq!(some.commands, ["ulimit -n 2048"]);
        assert!(some.note.unwrap().contains("limits.conf"));
        assert!(raise(&FILES, Some(20)).commands.is_empty());
        assert_eq!(raise(&TASKS, Some(2048)).commands, ["ulimit -u 2048"]);
        let none = raise(&TASKS, Some(4));
        assert!(none.commands.is_empty() && none.note.unwrap().contains("* hard nproc 4096"));
    }

    #[test]
    fn only_what_was_asked_for_is_looked_at() {
        let ids = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|id| (*id).to_owned()).collect();
            limits(&only).into_iter().map(|found| found.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&["limits"]), ["limits.descriptors", "limits.processes"]);
        assert_eq!(ids(&["limits.processes"]), ["limits.processes"]);
        assert!(ids(&["tmux"]).is_empty());
    }
}
