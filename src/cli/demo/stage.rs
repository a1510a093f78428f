//! The demo's surroundings: a directory, a receiver and a tmux server of its
//! own, and their end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::base::failure::Failure;
use crate::base::files::{self, atomic};
use crate::base::http::post_tcp;
use crate::base::ids::{DeliveryId, WorkItem};
use crate::base::process::shell_word;
use crate::base::random;
use crate::base::text::visible;
use crate::cli::Context;
use crate::cli::background::Background;
use crate::core::outcome::State;
use crate::doctor::Report;
use crate::doctor::tool::{Tool, ToolId};
use crate::host::tmux::{Server, Tmux};
use crate::serve::receiver::Secret;
use crate::state::inbox::Inbox;
use crate::state::paths::StatePaths;

use super::payloads;

const SECRET_VAR: &str = "THE_LOOP_GH_WEBHOOK_SECRET";
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the last file of the demo may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// The surroundings.
#[derive(Debug)]
pub(super) struct Stage {
    dir: PathBuf,
    paths: StatePaths,
    program: Tool,
    tmux: Tmux,
    tmux_path: PathBuf,
    secret: String,
    item: WorkItem,
    url: String,
    last: Option<DeliveryId>,
    receiver: Option<Background>,
}

/// The tmux that the doctor found.
pub(super) fn tmux_of(report: &Report) -> Result<Tool, Failure> {
    report.tool(ToolId::Tmux).cloned().ok_or_else(|| Failure::refused("tmux was not found"))
}

impl Stage {
    /// Makes the directory and the configuration in it.
    pub(super) fn set(context: &Context, tmux: Tool) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::failed("could not make the demo's directory").because(error)
        };
        // A short path: a socket in it must fit into 100 bytes.
        let dir = tempfile::Builder::new()
            .prefix("the-loop-demo-")
            .tempdir_in("/tmp")
            .map_err(failed)?
            .keep();
        let config_dir = dir.join(".the-loop");
        files::private_dir(&config_dir).map_err(failed)?;
        let socket = dir.join("tmux.sock");
        let state = dir.join("state");
        let text = format!(
            "routing:\n  runner: tmux\n  defaultHarness: demo\n  spawnOnUnmatched: labeled\n  \
             autoExecuteLabel: '{}'\n  authorizedUsers: [{}]\n  tmux:\n    socket: {}\n\
             tools:\n  tmux:\n    path: {}\n\
             webhooks:\n  ghWebhook:\n    port: 0\nstate:\n  dir: {}\n",
            payloads::LABEL,
            payloads::USER,
            socket.display(),
            tmux.path().display(),
            state.display(),
        );
        let config = config_dir.join("config.yaml");
        atomic::write(&config, text.as_bytes()).map_err(failed)?;
        let paths = Context { config: Some(config), ..context.clone() }.load_own()?.paths;
        Ok(Self {
            program: Tool::this_program(&context.env),
            tmux_path: tmux.path().to_path_buf(),
            tmux: Tmux::new(tmux, Server::Socket(socket), paths.instance()),
            paths,
            secret: hex::encode(random::bytes::<32>()),
            item: payloads::ITEM.parse().map_err(|error: crate::base::ids::InvalidId| {
                Failure::failed("the demo's item has no name").because(error)
            })?,
            url: String::new(),
            last: None,
            receiver: None,
            dir,
        })
    }

    /// Starts the receiver in the background.
    pub(super) async fn start(&mut self, context: &Context) -> Result<(), Failure> {
        let invocation = self.program.invocation().env(SECRET_VAR, &self.secret).args([
            "gh-webhook",
            "start",
            "--detached",
        ]);
        let config = self.dir.join(".the-loop/config.yaml");
        let receiver = Background::start(&context.env, invocation, &config, &self.paths)?;
        self.url = self.receiver.insert(receiver).ready().await?.url;
        Ok(())
    }

    /// The directory that everything is in.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where deliveries are posted to.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The name of the tmux session.
    pub(super) fn session(&self) -> String {
        self.item.slug().tmux_name()
    }

    /// The id of the delivery that was posted last.
    pub(super) fn last_delivery(&self) -> String {
        self.last.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// Posts a signed delivery, as GitHub does; gives the answer in words.
    pub(super) async fn post(&mut self, event: &str, body: &Value) -> Result<String, Failure> {
        let body = body.to_string().into_bytes();
        let secret = Secret::new(self.secret.clone(), "the demo")
            .map_err(|error| Failure::failed("the demo has no secret").because(error))?;
        let id: DeliveryId = format!("demo-{}", hex::encode(random::bytes::<6>()))
            .parse()
            .map_err(|error: crate::base::ids::InvalidId| {
                Failure::failed("the demo's delivery has no name").because(error)
            })?;
        let headers = [
            ("x-github-event", event.to_owned()),
            ("x-github-delivery", id.to_string()),
            ("x-hub-signature-256", secret.sign(&body)),
        ];
        let (status, said) = post_tcp(&self.url, &headers, body)
            .await
            .map_err(|error| Failure::failed("the receiver did not answer").because(error))?;
        if status != 202 {
            let said = visible(&String::from_utf8_lossy(&said));
            return Err(Failure::failed(format!("the receiver answered {status}: {said}")));
        }
        self.last = Some(id);
        Ok(format!("The receiver answers {status}"))
    }

    /// Waits until the last delivery was taken by the agent.
    pub(super) async fn delivered(&self, within: Duration) -> Result<(), Failure> {
        let Some(id) = &self.last else { return Ok(()) };
        let failed = |error| Failure::failed("could not read the inbox").because(error);
        let inbox = Inbox::read_only(&self.paths.inbox()).map_err(failed)?;
        let deadline = Instant::now() + within;
        loop {
            let history = inbox.history(id).map_err(failed)?;
            if let Some(history) = history {
                let now = history.delivery;
                if now.state == State::Delivered {
                    return Ok(());
                }
                if now.state.is_final() || Instant::now() > deadline {
                    return Err(Failure::failed(format!(
                        "the delivery is {}: {}",
                        now.state,
                        now.reason.explain()
                    )));
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What the agent's terminal shows, without blank lines.
    pub(super) async fn screen(&self) -> Result<String, Failure> {
        let failed = |error| Failure::failed("could not look at the session").because(error);
        let pane = self.tmux.find(&self.session()).await.map_err(failed)?;
        let Some(pane) = pane else {
            return Err(Failure::failed("the session is gone"));
        };
        let lines = self.tmux.last_lines(&pane, 60).await.map_err(failed)?;
        let lines: Vec<_> = lines.iter().map(|line| visible(line)).collect();
        let shown: Vec<_> = lines.iter().filter(|line| !line.is_empty()).cloned().collect();
        Ok(shown[shown.len().saturating_sub(16)..].join("\n"))
    }

    /// The steps of the last delivery.
    pub(super) fn history(&self) -> Result<String, Failure> {
        let failed = |error| Failure::failed("could not read the inbox").because(error);
        let Some(id) = &self.last else { return Ok(String::new()) };
        let inbox = Inbox::read_only(&self.paths.inbox()).map_err(failed)?;
        let steps = inbox.history(id).map_err(failed)?.map(|history| history.steps);
        let lines: Vec<_> = steps
            .unwrap_or_default()
            .iter()
            .map(|step| format!("{:.3}  {:10} {}", step.at, step.state, step.reason.explain()))
            .collect();
        Ok(lines.join("\n"))
    }

    /// What a person can type while it runs.
    pub(super) fn instructions(&self) -> String {
        let dir = shell_word(&self.dir.display().to_string());
        let tmux = shell_word(&self.tmux_path.display().to_string());
        format!(
            "  cd {dir}\n  \
             the-loop sessions list        the session\n  \
             the-loop sessions attach '#1' look at it and type along (C-b d leaves)\n  \
             the-loop sessions send '#1' 'hello'\n  \
             the-loop events               what became of every delivery\n\
             End it with:\n  \
             the-loop gh-webhook stop; {tmux} -S tmux.sock kill-server; sleep 1; rm -r {dir}"
        )
    }

    /// Ends everything and removes the directory.
    pub(super) async fn clear(mut self) {
        if let Some(receiver) = &mut self.receiver {
            receiver.end().await;
        }
        // What did not start needs no end: errors here have nothing to tell.
        let _ = self.tmux.kill_server().await;
        // The agent's last signal may be on its way while the directory goes.
        let deadline = Instant::now() + GONE_WITHIN;
        while let Err(error) = fs_err::remove_dir_all(&self.dir)
            && error.kind() != std::io::ErrorKind::NotFound
            && Instant::now() < deadline
        {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
