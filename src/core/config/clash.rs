//! Keys that are right one by one and wrong together.

use std::net::IpAddr;

use super::Config;

/// A value that another key does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clash {
    /// The key whose value it is.
    pub(super) key: &'static str,
    /// What is wrong with it.
    pub(super) what: String,
    /// What to do next.
    pub(super) remedy: &'static str,
}

impl Config {
    /// The first value that another key does not allow.
    pub(super) fn clash(&self) -> Option<Clash> {
        self.web_clash().or_else(|| self.metrics_clash())
    }

    /// Two listeners cannot have one address; port 0 is a free one each time.
    fn metrics_clash(&self) -> Option<Clash> {
        let webhook = &self.webhooks.gh_webhook;
        let listen = self.metrics.listen.filter(|listen| listen.port() == webhook.port)?;
        let (one, other) = (listen.ip().to_canonical(), webhook.host.to_canonical());
        let overlap = one == other || one.is_unspecified() || other.is_unspecified();
        (overlap && listen.port() != 0).then(|| Clash {
            key: "metrics.listen",
            what: format!("the receiver itself listens on {}:{}", webhook.host, webhook.port),
            remedy: "choose another port for one of them (`webhooks.ghWebhook.port`)",
        })
    }

    fn web_clash(&self) -> Option<Clash> {
        let web = &self.routing.web_terminal;
        // A name is an interface's: what address it has is known at start.
        let host: Option<IpAddr> = web.host.parse().ok().filter(|_| web.socket.is_none());
        let host = host.map(|host| host.to_canonical())?;
        let key = "routing.webTerminal.host";
        if host.is_unspecified() && !web.expose_all {
            return Some(Clash {
                key,
                what: format!("`{}` is every address of this machine", web.host),
                remedy: "name one address or interface, or set `exposeAll: true` beside it",
            });
        }
        if !host.is_loopback() && web.allowed_hosts.is_empty() {
            return Some(Clash {
                key,
                what: format!("others can reach `{}`, and `allowedHosts` is empty", web.host),
                remedy: "list the names by which a browser may ask for it in `allowedHosts`",
            });
        }
        None
    }
}
