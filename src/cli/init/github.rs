//! `init --github`: the call that registers the webhook, and its secret.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::base::dirs::MissingHome;
use crate::base::env::Env;
use crate::base::failure::Failure;
use crate::base::files::{atomic, private_dir};
use crate::base::ids::{GITHUB, Repo};
use crate::base::process::shell_word;
use crate::base::random;
use crate::core::config::GhWebhook;
use crate::serve::receiver::{SecretError, secret_in};
use crate::state::paths::StatePaths;

/// The calls that register the webhook, one for each repository. The secret is
/// in none of them: it is in the file that the call sends.
pub(super) fn calls(
    env: &Env,
    webhook: &GhWebhook,
    repositories: &[Repo],
    url: &str,
    paths: &StatePaths,
) -> Result<Vec<String>, Failure> {
    let Some(file) = &webhook.secret_file else {
        return Err(Failure::refused("the configuration names no file for the webhook's secret")
            .hint("set `webhooks.ghWebhook.secretFile`, as in `~/.config/the-loop/secret`"));
    };
    if repositories.is_empty() {
        return Err(Failure::refused("no repository is known to register the webhook in")
            .hint("set `routing.repositories`"));
    }
    let secret = secret(file).map_err(|failure| match MissingHome::of(env, file) {
        Some(home) => failure.hint(format!("{home}: {}", MissingHome::HINT)),
        None => failure,
    })?;
    paths.make(env)?;
    repositories
        .iter()
        .map(|repo| {
            let body = json!({
                "name": "web", "active": true, "events": webhook.events,
                "config": {
                    "url": url, "content_type": "json", "insecure_ssl": "0", "secret": secret,
                },
            });
            // github.com's has the short name, as everywhere.
            let host = match repo.host() {
                GITHUB => String::new(),
                host => format!("{host}+"),
            };
            let name = format!("hook-{host}{}+{}.json", repo.owner(), repo.name());
            let request = paths.dir.join(name);
            atomic::write(&request, body.to_string().as_bytes()).map_err(|error| {
                Failure::failed("could not write the request to GitHub").because(error)
            })?;
            let host = match repo.host() {
                GITHUB => String::new(),
                host => format!(" --hostname {host}"),
            };
            let file = shell_word(&request.to_string_lossy());
            Ok(format!(
                "gh api{host} --method POST repos/{}/{}/hooks --input {file} --silent && rm {file}",
                repo.owner(),
                repo.name(),
            ))
        })
        .collect()
}

/// The secret in the file, which is made with a fresh one when it is not there.
fn secret(file: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        let text = format!("could not make the webhook's secret `{}`", file.display());
        Failure::failed(text).because(error)
    };
    if !file.exists() && file.is_symlink() {
        let text = format!("the webhook's secret `{}` is a link to nothing", file.display());
        return Err(Failure::refused(text).hint("remove the link, and a fresh secret is made"));
    }
    if !file.exists() {
        let dir = file.parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
        private_dir(&dir).map_err(failed)?;
        let mut fresh =
            tempfile::Builder::new().prefix(".tmp-").tempfile_in(&dir).map_err(failed)?;
        writeln!(fresh, "{}", hex::encode(random::bytes::<32>())).map_err(failed)?;
        fresh.as_file().sync_all().map_err(failed)?;
        // One that appeared meanwhile is the secret.
        if let Err(error) = fresh.persist_noclobber(file)
            && error.error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(failed(error.error));
        }
    }
    let text = secret_in(file).map_err(|error| match error {
        SecretError::Empty { .. } => {
            Failure::refused(error.to_string()).hint("remove the file, and a fresh one is made")
        }
        // Somebody may have read it.
        SecretError::Exposed { .. } => Failure::refused(error.to_string())
            .hint("if somebody may have read it, remove the file, and a fresh one is made"),
        SecretError::NotAFile { .. } => Failure::refused(error.to_string())
            .hint("move it away, or set `webhooks.ghWebhook.secretFile` to another path"),
        error => Failure::failed("could not read the webhook's secret").because(error),
    })?;
    String::from_utf8(text).map_err(|_| {
        let text = format!("the webhook's secret `{}` is no text", file.display());
        Failure::refused(text).hint("remove the file, and a fresh one is made")
    })
}

/// The address that GitHub posts to: what was given, with the receiver's path
/// when it has none.
pub(super) fn address(given: &str, path: &str) -> Result<String, String> {
    let rest = given.strip_prefix("https://").or_else(|| given.strip_prefix("http://"));
    let plain = given.chars().all(|c| c.is_ascii_graphic() && !"\"'<>\\`@".contains(c));
    match rest {
        Some(rest) if plain && !rest.is_empty() && !rest.starts_with('/') => {
            match rest.split_once('/') {
                None | Some((_, "")) => Ok(format!("{}{path}", given.trim_end_matches('/'))),
                Some(_) => Ok(given.to_owned()),
            }
        }
        _ => Err("this is not a web address, as in `https://hooks.example.net`".to_owned()),
    }
}

/// What is doubtful about an address that GitHub is to post to.
pub(super) fn doubt(url: &str) -> Option<&'static str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_own = host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| {
            let ip = ip.to_canonical();
            ip.is_loopback() || ip.is_unspecified()
        });
    if is_own {
        Some("GitHub cannot reach this address: it is each machine's own")
    } else if url.starts_with("http://") {
        Some("without TLS anybody on the way can read what GitHub sends")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_github_cannot_reach_or_that_others_can_read_is_doubted() {
        for own in [
            "https://localhost",
            "https://LOCALHOST:8/x",
            "http://127.0.0.1:1/",
            "https://[::1]:1/x",
            "https://0.0.0.0",
        ] {
            assert!(doubt(own).unwrap().contains("cannot reach"), "{own}");
        }
        assert!(doubt("http://a.example/x").unwrap().contains("without TLS"));
        for fine in ["https://a.example", "https://localhost.example/x", "https://10.0.0.1"] {
            assert_eq!(doubt(fine), None, "{fine}");
        }
    }

    #[test]
    fn an_address_without_a_path_gets_the_receivers() {
        let at = |given| address(given, "/gh-webhook");
        assert_eq!(at("https://a.example").unwrap(), "https://a.example/gh-webhook");
        assert_eq!(at("https://a.example/").unwrap(), "https://a.example/gh-webhook");
        assert_eq!(at("https://a.example/x").unwrap(), "https://a.example/x");
        for wrong in ["", "a.example", "ftp://a", "https://", "https:///x", "https://u:p@a"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
