//! Listening on a port that the configuration names.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::base::failure::Failure;
use crate::base::http;
use crate::doctor::PortHolder;

/// Listens there. `key` is the one that says where; where another program has the
/// port, that one is named.
pub(super) async fn bind(wanted: SocketAddr, key: &str) -> Result<TcpListener, Failure> {
    http::bind(wanted).await.map_err(|error| {
        let in_use = error.kind() == io::ErrorKind::AddrInUse;
        let what = format!("could not listen on {wanted} (`{key}`)");
        let failure = Failure::failed(what).because(error);
        if in_use { failure.hint(PortHolder::of(wanted).hint(wanted.port(), key)) } else { failure }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_the_port_is_named_with_the_key() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wanted = taken.local_addr().unwrap();
        let failure = bind(wanted, "metrics.listen").await.unwrap_err();
        assert_eq!(failure.to_string(), format!("could not listen on {wanted} (`metrics.listen`)"));
        let hint = &failure.hints()[0];
        if cfg!(target_os = "linux") {
            assert!(hint.starts_with(&format!("process {} (", std::process::id())), "{hint}");
        }
        assert!(hint.ends_with("or set `metrics.listen`"), "{hint}");
    }
}
