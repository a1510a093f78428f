//! The receiver as a whole: one process that holds the lock, the port, the
//! inbox, the dispatcher and the control socket, from start to a clean end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::clock::Clock;
use crate::base::dirs::Dirs;
use crate::base::env::Env;
use crate::base::failure::Failure;
use crate::base::files::lock::{DirLock, LockFile};
use crate::base::http::{self, Listener};
use crate::core::config::{Config, LiveConfig};
use crate::core::routing::OwnVoice;
use crate::core::routing::prompt::Templates;
use crate::doctor::tool::Tool;
use crate::host::agents::Agents;
use crate::host::dispatch;
use crate::host::notify::Notifier;
use crate::host::runner::{
    Gate, ProcessRunner, ProcessRunnerParts, Runners, TmuxRunner, TmuxRunnerParts,
};
use crate::host::tmux::Tmux;
use crate::state::config_file;
use crate::state::inbox::Inbox;
use crate::state::paths::StatePaths;
use crate::state::registry::Registry;
use crate::state::spool;

use super::control::{self, Control, Status};
use super::forget::{forget, keep_of};
use super::github::{self, Redeliver, Tell};
use super::intake::{self, Intake};
use super::lock::take_lock;
use super::metrics::Metrics;
use super::port;
use super::rebuild::{rebuild, revive_all};
use super::receiver::{Receiver, Refusals, Secret};
use super::reload::Reloader;
use super::sight::Sight;
use super::templates::read_templates;
use super::trees;
use super::web;

/// How long tasks may take to notice the end.
const TASKS_END_WITHIN: Duration = Duration::from_secs(1);

/// Everything a receiver is started with: resolved, read and checked.
#[derive(Debug)]
pub struct Setup {
    /// The configuration, with what the command line put above it.
    pub config: Config,
    /// The configuration as it was read from its file.
    pub read: config_file::Read,
    /// This process's surroundings.
    pub env: Env,
    /// Where state is kept.
    pub paths: StatePaths,
    /// The secret of the webhook; `None` only where that was asked for.
    pub secret: Option<Secret>,
    /// The tmux server; nothing where no usable tmux was found.
    pub tmux: Option<Tmux>,
    /// This program.
    pub program: Tool,
    /// The agents of this machine.
    pub agents: Agents,
    /// Whether sessions in tmux are resumed at once, not at their next events.
    pub resume_all: bool,
    /// git, for work trees; nothing where no usable one was found.
    pub git: Option<Tool>,
    /// ttyd, when the web terminal is on.
    pub ttyd: Option<Tool>,
    /// The time.
    pub clock: Clock,
}

/// A receiver that holds its lock and its port, and does nothing yet.
#[derive(Debug)]
pub struct Daemon {
    setup: Setup,
    /// Given back before the other: who looks between the two finds nobody.
    registry_lock: DirLock,
    lock: LockFile,
    listener: tokio::net::TcpListener,
    control: tokio::net::UnixListener,
    address: SocketAddr,
    inbox: Inbox,
    registry: Registry,
    own_voice: OwnVoice,
    templates: Templates,
    metrics_listener: Option<tokio::net::TcpListener>,
    web: Option<web::Bound>,
    live: LiveConfig,
    reloader: Reloader,
}

impl Daemon {
    /// Takes the lock, opens the state and binds the port, in this order, so
    /// that a second receiver changes nothing before it is refused.
    pub async fn bind(setup: Setup) -> Result<Self, Failure> {
        let paths = &setup.paths;
        paths.make(&setup.env)?;
        let mut lock = take_lock(&paths.lock(), &paths.control()).await?;
        let dirs = Dirs::new(&setup.env)
            .map_err(|error| Failure::failed(error.to_string()).hint(error.hint()))?;
        let registry_lock = paths.claim_as_receiver(&setup.read.file, &dirs)?;
        // Only for commands that cannot read the configuration any more.
        if let Err(error) = paths.note(&setup.read.file, &dirs) {
            tracing::warn!(%error, "could not note where the state is kept");
        }
        let inbox = Inbox::open(&paths.inbox(), setup.clock.clone())
            .map_err(|error| error.failure("could not open the inbox"))?;
        let registry = Registry::of(paths).remembering();
        let key = paths.key().map_err(|error| {
            Failure::failed("could not read the key of our own voice").because(error)
        })?;
        let own_voice = OwnVoice::new(*key.bytes());
        let templates = read_templates(&setup.config.routing, &setup.read.file, &setup.read.text)?;
        let live = LiveConfig::new(setup.config.clone());
        let reloader = Reloader::new(
            setup.read.clone(),
            setup.env.clone(),
            live.clone(),
            setup.agents.names(),
            setup.clock.clone(),
        );
        let webhook = &setup.config.webhooks.gh_webhook;
        let wanted = SocketAddr::new(webhook.host, webhook.port);
        let listener = port::bind(wanted, "webhooks.ghWebhook.port").await?;
        let address = listener
            .local_addr()
            .map_err(|error| Failure::failed("could not learn the port").because(error))?;
        let metrics_listener = match setup.config.metrics.listen {
            None => None,
            Some(wanted) => Some(port::bind(wanted, "metrics.listen").await?),
        };
        let web = match &setup.ttyd {
            None => None,
            Some(_) => Some(web::Bound::bind(&setup.config.routing.web_terminal).await?),
        };
        let control = control::bind(&paths.control())?;
        lock.describe(&format!("pid {}, http://{address}", std::process::id()))
            .map_err(|error| Failure::failed("could not write the lock").because(error))?;
        Ok(Self {
            setup,
            registry_lock,
            lock,
            listener,
            control,
            address,
            inbox,
            registry,
            own_voice,
            templates,
            metrics_listener,
            web,
            live,
            reloader,
        })
    }

    /// Where the web terminal is, when it is on.
    pub fn web_url(&self) -> Option<&str> {
        self.web.as_ref().map(web::Bound::url)
    }

    /// Where deliveries are posted to.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.setup.config.webhooks.gh_webhook.path)
    }

    /// Reads the configuration again.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Registry entries that cannot be read, each with the reason.
    pub fn broken_sessions(&self) -> Vec<String> {
        self.registry
            .load_all()
            .broken
            .iter()
            .map(|broken| format!("`{}`: {}", broken.path.display(), broken.why))
            .collect()
    }

    /// Receives, routes and delivers until `stop` is cancelled, then ends within
    /// five seconds. What is under way stays in the inbox.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Failure> {
        let (url, web_url) = (self.url(), self.web_url().map(str::to_owned));
        let Self { setup, lock, listener, control, inbox, registry, own_voice, .. } = self;
        let Self { templates, metrics_listener, web, live, reloader, registry_lock, .. } = self;
        let Setup {
            config,
            read,
            env,
            paths,
            secret,
            tmux,
            program,
            agents,
            git,
            ttyd,
            clock,
            resume_all,
        } = setup;
        let config_file::Read { file, project, .. } = read;
        let workdir = project.join(&config.routing.spawn_workdir);
        let workspaces = trees::open(git, &config, &paths, &live)?;
        let trees = workspaces.as_deref();
        let lies = (workdir.as_path(), trees, &agents);
        rebuild(&registry, &inbox, &paths, tmux.as_ref(), &config.routing, lies, clock.now()).await;
        let tasks = TaskTracker::new();
        let arrived = Arc::new(Notify::new());
        let watcher = spool::Watcher::start(&paths.spool());
        if let Some(problem) = watcher.problem() {
            tracing::warn!(problem, "signals are looked for, not awaited");
        }
        let gate = Arc::new(Gate::new(registry.clone(), live.clone()));
        let process = Arc::new(ProcessRunner::new(ProcessRunnerParts {
            program: program.clone(),
            agents: agents.clone(),
            tmux: tmux.clone(),
            config: live.clone(),
            paths: paths.clone(),
            registry: registry.clone(),
            inbox: inbox.clone(),
            gate: Arc::clone(&gate),
            clock: clock.clone(),
        }));
        let tmux_socket = tmux.as_ref().and_then(|tmux| tmux.server().socket());
        let tmux_socket = tmux_socket.map(|path| path.display().to_string());
        let tmux_command = tmux.as_ref().and_then(Tmux::typed);
        let home = env.var_os("HOME").map(PathBuf::from);
        let github = github::Parts {
            inbox: inbox.clone(),
            config: live.clone(),
            paths: paths.clone(),
            env: env.clone(),
            clock: clock.clone(),
            rests: github::Rests::default(),
        };
        tasks.spawn(Redeliver::new(github.clone()).run(stop.clone()));
        let tell = Tell::new(github.clone(), registry.clone(), own_voice.clone(), reloader.news());
        tasks.spawn(tell.run(stop.clone()));
        let notifier = Notifier::new(live.clone(), env, tasks.clone(), stop.clone());
        notifier.check();
        let web = web.zip(ttyd.zip(tmux.clone())).map(|(bound, (ttyd, tmux))| {
            let web = web::Web::new(web::Parts {
                registry: registry.clone(),
                inbox: inbox.clone(),
                tmux,
                ttyd,
                program: program.clone(),
                agents: agents.clone(),
                home: home.clone(),
                config: live.clone(),
                paths: paths.clone(),
                clock: clock.clone(),
                tasks: tasks.clone(),
                stop: stop.clone(),
                url: bound.url().to_owned(),
                idle: web::IDLE,
            });
            (bound, web)
        });
        let server = tmux.clone();
        let tmux = tmux.map(|tmux| {
            Arc::new(TmuxRunner::new(TmuxRunnerParts {
                tmux,
                program,
                agents: agents.clone(),
                config: live.clone(),
                paths: paths.clone(),
                registry: registry.clone(),
                inbox: inbox.clone(),
                watcher,
                gate: Arc::clone(&gate),
                clock: clock.clone(),
                home,
                notifier: notifier.clone(),
                tasks: tasks.clone(),
                stop: stop.clone(),
            }))
        });
        if let Some(tmux) = &tmux {
            tmux.attend_all();
        }
        let runner = Runners {
            registry: registry.clone(),
            paths: paths.clone(),
            process,
            gate: Arc::clone(&gate),
            workspaces: workspaces.clone(),
            tmux,
        };
        let dispatcher = dispatch::start(
            runner,
            inbox.clone(),
            config.routing.max_concurrent_dispatches.into(),
            &tasks,
            stop.clone(),
        );
        if resume_all {
            let most = config.routing.max_sessions.into();
            revive_all(&registry, &dispatcher, server.as_ref(), most).await;
        }
        let sight = Sight::new(registry.clone(), agents.harnesses().clone(), &paths);
        let intake = Intake {
            inbox: inbox.clone(),
            registry: registry.clone(),
            project,
            config: live,
            workspaces: workspaces.filter(|_| config.routing.workspace.enabled),
            own_voice,
            templates,
            dispatcher: dispatcher.clone(),
            arrived: Arc::clone(&arrived),
            sight,
            clock: clock.clone(),
            together: intake::BATCH,
        };
        tasks.spawn(intake.run(stop.clone()));
        let keep = keep_of(&config.state.retention);
        let known = agents.harnesses().clone();
        tasks.spawn(forget(inbox.clone(), paths.clone(), keep, known, clock.clone(), stop.clone()));
        let about = Arc::new(Status {
            schema: 1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            url,
            web_url,
            tmux_socket,
            tmux_command,
            config: file.display().to_string(),
            runner: config.routing.runner.as_str().to_owned(),
            started_at: clock.now(),
            ..Status::default()
        });
        let refused = Arc::new(Refusals::new(clock.clone()));
        let control_app = control::router(Control {
            inbox: inbox.clone(),
            registry: registry.clone(),
            dispatcher,
            gate,
            arrived: Arc::clone(&arrived),
            refused: Arc::clone(&refused),
            reloader,
            github,
            stop: stop.clone(),
            about,
        });
        let metrics = Metrics {
            inbox: inbox.clone(),
            refused: Arc::clone(&refused),
            started_at: clock.now(),
        };
        let control_app = control_app.merge(metrics.clone().router());
        let receiver = Receiver {
            inbox: inbox.clone(),
            secret,
            path: config.webhooks.gh_webhook.path.clone(),
            arrived,
            refused,
        };
        tokio::join!(
            http::serve(Listener::Tcp(listener), receiver.router(), stop.clone()),
            http::serve(Listener::Unix(control), control_app, stop.clone()),
            async {
                if let Some(listener) = metrics_listener {
                    let app = metrics.router();
                    http::serve(Listener::Tcp(listener), app, stop.clone()).await;
                }
            },
            async {
                if let Some((bound, web)) = web {
                    bound.serve(web).await;
                }
            },
        );
        tasks.close();
        if tokio::time::timeout(TASKS_END_WITHIN, tasks.wait()).await.is_err() {
            tracing::warn!("some work was still under way; the next start takes it up");
        }
        inbox.close();
        let _ = fs_err::remove_file(paths.control());
        drop(registry_lock);
        drop(lock);
        Ok(())
    }
}
