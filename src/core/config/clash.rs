//! Keys that are right one by one and wrong together.

use std::net::{IpAddr, Ipv4Addr};

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
        self.web_clash().or_else(|| self.port_clash())
    }

    /// Two listeners cannot have one address; port 0 is a free one each time.
    fn port_clash(&self) -> Option<Clash> {
        let webhook = &self.webhooks.gh_webhook;
        let receiver = Listener {
            key: "webhooks.ghWebhook.port",
            who: "the receiver itself",
            host: Some(webhook.host),
            port: webhook.port,
        };
        let web = &self.routing.web_terminal;
        let pages = (web.enabled && web.socket.is_none()).then(|| Listener {
            key: "routing.webTerminal.port",
            who: "the web terminal",
            // A name is an interface's: what address it has is known at start.
            host: match web.host.as_str() {
                "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
                host => host.parse().ok(),
            },
            port: web.port,
        });
        let metrics = self.metrics.listen.map(|listen| Listener {
            key: "metrics.listen",
            who: "metrics",
            host: Some(listen.ip()),
            port: listen.port(),
        });
        let all: Vec<_> = [Some(receiver), pages, metrics].into_iter().flatten().collect();
        let pairs = all.iter().enumerate().flat_map(|(at, one)| {
            all[at + 1..].iter().filter(|other| one.overlaps(other)).map(move |other| (one, other))
        });
        let (one, other) = pairs.into_iter().next()?;
        let at = match one.host {
            Some(IpAddr::V6(host)) => format!("[{host}]:{}", one.port),
            Some(host) => format!("{host}:{}", one.port),
            None => format!("port {}", one.port),
        };
        Some(Clash {
            key: other.key,
            what: format!("{} listens on {at}", one.who),
            remedy: match one.key {
                "routing.webTerminal.port" => {
                    "choose another port for one of them (`routing.webTerminal.port`)"
                }
                _ => "choose another port for one of them (`webhooks.ghWebhook.port`)",
            },
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

/// What listens where.
struct Listener {
    key: &'static str,
    who: &'static str,
    /// Nothing where only the start can tell.
    host: Option<IpAddr>,
    port: u16,
}

impl Listener {
    fn overlaps(&self, other: &Self) -> bool {
        let [one, other_host] =
            [self.host, other.host].map(|host| host.map(|host| host.to_canonical()));
        let is_all = |host: Option<IpAddr>| host.is_some_and(|host| host.is_unspecified());
        let is_same = one.is_some() && one == other_host;
        self.port != 0 && self.port == other.port && (is_same || is_all(one) || is_all(other_host))
    }
}
