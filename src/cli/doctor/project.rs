//! What the doctor is told of a project: by its configuration, and of its webhooks by
//! what the receiver wrote down and by the pings in the inbox.

use std::net::SocketAddr;

use crate::cli::setup::Loaded;
use crate::core::config::WebTerminal;
use crate::doctor::{InboxLook, Project, Webhook, Webhooks};
use crate::serve::github::{TOKENS, tokens_of};
use crate::state::github::{Memory, read_telling};
use crate::state::inbox::Inbox;

use super::stalls::workdir_of;

/// What a configuration says that is to be checked.
pub(crate) fn project_of(loaded: &Loaded) -> Project {
    let Loaded { config, paths, .. } = loaded;
    let webhook = &config.webhooks.gh_webhook;
    let workspace = &config.routing.workspace;
    Project {
        workdir: Some(workdir_of(config, paths)),
        state: Some(paths.dir.clone()),
        lock: Some(paths.lock()),
        control: Some(paths.control()),
        inbox: Some((paths.inbox(), |path| {
            let kept = Inbox::damaged_files(path);
            let missing = kept.iter().map(|kept| Inbox::missing_of(kept)).sum();
            InboxLook { trouble: Inbox::trouble(path), kept, missing }
        })),
        listen: Some((webhook.host, webhook.port).into()),
        web_listen: web_address(&config.routing.web_terminal),
        shared: (!workspace.enabled).then(|| loaded.project.join(&config.routing.spawn_workdir)),
        secret_env: Some(webhook.secret_env.clone()),
        secret_file: webhook.secret_file.clone(),
        tmux_socket: config.routing.tmux.socket.clone(),
        own_tmux_socket: Some(paths.tmux_socket()),
        webhooks: Some(webhooks(loaded)),
    }
}

/// Where the web terminal listens: `None` where it is off, on a socket, or where an
/// interface is named, whose address the receiver finds.
fn web_address(web: &WebTerminal) -> Option<SocketAddr> {
    let host = web.host.parse().ok().filter(|_| web.enabled && web.socket.is_none())?;
    Some(SocketAddr::new(host, web.port))
}

/// What is known of the webhooks.
fn webhooks(loaded: &Loaded) -> Webhooks {
    let Loaded { config, paths, .. } = loaded;
    // What is wrong with the inbox is `state.inbox`'s to say.
    let mut memory = Memory::read(&paths.github()).unwrap_or_default();
    if let Ok(inbox) = Inbox::read_only(&paths.inbox())
        && let Err(error) = memory.learn(&inbox)
    {
        tracing::debug!(%error, "the pings cannot be read");
    }
    for repo in &config.routing.repositories {
        memory.repositories.entry(repo.clone()).or_default();
    }
    let telling = read_telling(&paths.telling()).unwrap_or_default();
    let repositories = memory.repositories.into_iter().map(|(repository, of)| Webhook {
        tokens: tokens_of(repository.host()),
        is_mute: telling.mute.contains(repository.host()),
        repository,
        hook: of.hook,
        was_asked: of.looked_at.is_some(),
        trouble: of.trouble,
        silent: of.silent,
        lost: of.lost.len(),
    });
    let repositories: Vec<_> = repositories.collect();
    let tells = [
        (config.github.reactions, "`github.reactions`"),
        (config.github.comments, "`github.comments`"),
    ];
    Webhooks {
        repositories,
        wanted: config.webhooks.gh_webhook.events.clone(),
        redeliver: config.github.redeliver,
        tells: tells.into_iter().filter_map(|(is_on, key)| is_on.then_some(key)).collect(),
        can_tell: telling.is_on(),
        untold: telling.trouble,
        tokens: TOKENS,
    }
}
