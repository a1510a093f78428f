//! The checks that are not about one binary: the host, the project's state, the
//! service, what is left of processes that died. Each group runs beside the
//! others and has a deadline, for a file system can hang.

mod disk;
mod github;
mod harness;
mod host;
mod limits;
mod port;
mod secret;
mod server;
mod service;
mod state;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::catalogue::is_asked;
use super::finding::Finding;
use super::tool::Tool;
use super::{Needs, Request, Severity};
use crate::base::dirs::Dirs;
use crate::base::env::Env;
use crate::base::failure::bare;
use crate::base::runtime::{beside, more};
use crate::core::platform::Host;

pub(super) use disk::away;
pub use github::{Webhook, Webhooks};
pub(super) use harness::read as claude_state;
pub use secret::{SECRET_MAX, secret_close, secret_command, secret_export};
pub use server::socket_fault;
pub use state::inbox_remedy;

/// How long a group of checks may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often a thread is asked for again that the system refused, and after how long.
const AGAIN: u32 = 3;
const PAUSE: Duration = Duration::from_millis(20);

/// What a configuration says that the checks need. Without one, nothing.
#[derive(Debug, Clone, Default)]
pub struct Project {
    /// Where sessions are started.
    pub workdir: Option<PathBuf>,
    /// The directory of the state.
    pub state: Option<PathBuf>,
    /// The lock that the running receiver holds.
    pub lock: Option<PathBuf>,
    /// The socket on which the receiver takes orders.
    pub control: Option<PathBuf>,
    /// The deliveries, and who can look through them.
    pub inbox: Option<(PathBuf, LookInto)>,
    /// Where the receiver listens.
    pub listen: Option<SocketAddr>,
    /// Where the web terminal listens, when it is on and at an address.
    pub web_listen: Option<SocketAddr>,
    /// The directory that sessions share, which nobody makes.
    pub shared: Option<PathBuf>,
    /// The variable that holds the secret.
    pub secret_env: Option<String>,
    /// The file that holds the secret.
    pub secret_file: Option<PathBuf>,
    /// The socket of the tmux server, unless it is the user's own.
    pub tmux_socket: Option<PathBuf>,
    /// The socket of a tmux server of the-loop's own.
    pub own_tmux_socket: Option<PathBuf>,
    /// What is known of the webhooks.
    pub webhooks: Option<Webhooks>,
}

/// Looks into a store of deliveries that is not the doctor's own.
pub type LookInto = fn(&Path) -> InboxLook;

/// What was seen there.
#[derive(Debug, Clone, Default)]
pub struct InboxLook {
    /// What is wrong with it now.
    pub trouble: Option<String>,
    /// Earlier ones that were damaged, and were kept.
    pub kept: Vec<PathBuf>,
    /// How many deliveries they may have held of which nothing else is known.
    pub missing: u64,
}

/// What every group is given.
#[derive(Debug, Clone)]
struct Scene {
    env: Env,
    dirs: Dirs,
    needs: Needs,
    project: Project,
    host: Host,
}

type Group = fn(&Scene) -> Vec<Finding>;

/// The groups that only look, by the ids of their checks.
const GROUPS: &[(&[&str], Group)] = &[
    (&["path.entries"], host::path),
    (&["locale.utf8", "terminal.term", "terminal.descriptions"], host::terminal),
    (&["disk.space"], disk::disk),
    (&["tmux.socketDir"], server::socket_dir),
    (&["service.linger", "service.killMode"], service::unit),
    (&["secret.there"], secret::secret),
    (&["port.free", "port.web"], port::port),
    (&["workdir.there"], state::workdir),
    (&["github.hook"], github::hook),
    (&["github.deliveries"], github::deliveries),
    (&["github.telling"], github::telling),
    (&["state.modes", "state.locks"], state::state),
    (&["state.inbox"], state::inbox),
    (&["tools.litter"], state::litter),
    (&["tools.private"], state::tools),
    (&["claude.onboarding", "claude.trust"], harness::claude),
];

/// What the system gives this user: first of all, and alone.
pub(super) fn limits(only: &[String]) -> Vec<Finding> {
    limits::limits(only)
}

/// Makes every other check that was asked for, all at the same time.
pub(super) async fn run(request: &Request<'_>, host: &Host) -> Vec<Finding> {
    let Request { env, dirs, needs, project, only, .. } = *request;
    let scene = Scene {
        env: env.clone(),
        dirs: dirs.clone(),
        needs: needs.clone(),
        project: project.clone(),
        host: host.clone(),
    };
    let mut running = Vec::new();
    for (ids, group) in GROUPS {
        if ids.iter().any(|id| is_asked(only, id)) {
            let start = || {
                let scene = scene.clone();
                beside(move || group(&scene))
            };
            let mut started = start();
            // Those before it end, and give back what they took.
            for _ in 0..AGAIN {
                if started.is_ok() || running.is_empty() {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
                started = start();
            }
            running.push((ids[0], started));
        }
    }
    let mut findings = Vec::new();
    let end = tokio::time::Instant::now() + DEADLINE;
    for (id, task) in running {
        let done = match task {
            Ok(task) => tokio::time::timeout_at(end, task).await,
            Err(error) => Ok(Err(error)),
        };
        match done {
            Ok(Ok(found)) => findings.extend(found),
            Ok(Err(error)) if more(&error).is_some() => {
                let what = format!("{id}: no thread can be started for it: {}", bare(&error));
                findings.push(Finding::unchecked(id, what));
            }
            Ok(Err(_)) => findings.push(Finding::unchecked(id, "the check itself failed")),
            Err(_) => {
                let why = format!("it was not over within {} s", DEADLINE.as_secs());
                findings.push(Finding::unchecked(id, why));
            }
        }
    }
    findings
}

/// Whether a running tmux server and this client understand each other.
pub(super) async fn skew(env: &Env, project: &Project, tmux: Option<&Tool>) -> Vec<Finding> {
    server::skew(env, project, tmux).await
}

fn if_tmux(needs: &Needs, severity: Severity) -> Severity {
    if needs.requires(super::ToolId::Tmux) { severity } else { Severity::Note }
}
