//! The GitHub repositories behind a work tree's remotes.

use crate::base::ids::{GITHUB, Repo};

/// A remote that leads to GitHub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remote {
    /// Its name.
    pub(super) name: String,
    /// Its repository.
    pub(super) repo: Repo,
}

/// The remotes out of `git remote -v` that lead to GitHub: to github.com, to a
/// host that the GitHub CLI knows, or to one that is called so. Each repository
/// once. Besides, the hosts of the other remotes.
pub(super) fn parse(listing: &str, known: &[String]) -> (Vec<Remote>, Vec<String>) {
    let mut remotes: Vec<Remote> = Vec::new();
    let mut others: Vec<String> = Vec::new();
    for line in listing.lines() {
        let Some((name, rest)) = line.split_once('\t') else { continue };
        let url = rest.rsplit_once(" (").map_or(rest, |(url, _)| url);
        let Some(repo) = repo_of(url) else { continue };
        let host = repo.host().to_owned();
        let is_github = host == GITHUB
            || known.contains(&host)
            || host.split('.').any(|label| label == "github" || label == "ghe");
        if !is_github {
            if !others.contains(&host) {
                others.push(host);
            }
        } else if remotes.iter().all(|remote| remote.repo != repo) {
            remotes.push(Remote { name: name.to_owned(), repo });
        }
    }
    // git lists them by name. Where one comes from is what it is about.
    remotes.sort_by_key(|remote| remote.name != "origin");
    (remotes, others)
}

/// The repository in a URL. What may be a password in it is dropped.
fn repo_of(url: &str) -> Option<Repo> {
    let (host, path, is_web) = if let Some((scheme, rest)) = url.split_once("://") {
        if scheme == "file" {
            return None;
        }
        let (authority, path) = rest.split_once('/')?;
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        (host, path, scheme.starts_with("http"))
    } else {
        // `git@host:owner/name`, and nothing that is a path.
        let (host, path) = url.split_once(':')?;
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        if host.contains('/') {
            return None;
        }
        (host, path, false)
    };
    let bare = host.split(':').next()?;
    // The port of SSH is not the one of the web.
    let host = if is_web { host } else { bare };
    let host = if bare == "ssh.github.com" || bare == "www.github.com" { GITHUB } else { host };
    let path = path.trim_matches('/');
    let (owner, name) = path.strip_suffix(".git").unwrap_or(path).split_once('/')?;
    Repo::new(host, owner, name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_url_names_its_repository() {
        for (url, repo) in [
            ("https://github.com/Octo/Hello.git", Some("octo/hello")),
            ("https://github.com/octo/hello/", Some("octo/hello")),
            ("https://me:gho_secret@github.com/octo/hello", Some("octo/hello")),
            ("git@github.com:octo/hello.git", Some("octo/hello")),
            ("github.com:octo/hello", Some("octo/hello")),
            ("ssh://git@ssh.github.com:443/octo/hello.git", Some("octo/hello")),
            ("ssh://git@ghe.corp:2222/octo/hello.git", Some("ghe.corp/octo/hello")),
            ("https://ghe.corp:8443/octo/hello.git", Some("ghe.corp:8443/octo/hello")),
            ("git://github.com/octo/hello", Some("octo/hello")),
            ("/srv/git/hello.git", None),
            ("../hello", None),
            ("file:///srv/octo/hello", None),
            ("https://github.com/octo", None),
            ("https://github.com/octo/hello/tree", None),
            ("git@github.com:octo/$(x).git", None),
        ] {
            let found = repo_of(url).map(|repo| repo.to_string());
            assert_eq!(found.as_deref(), repo, "{url}");
        }
    }

    #[test]
    fn only_what_leads_to_github_is_taken_and_each_once() {
        let listing = "origin\tgit@github.com:me/hello.git (fetch)\n\
                       origin\tgit@github.com:me/hello.git (push)\n\
                       upstream\thttps://github.com/octo/hello (fetch) [blob:none]\n\
                       work\thttps://code.corp/octo/hello (fetch)\n\
                       ghe\thttps://github.corp.example/octo/hello (fetch)\n\
                       lab\thttps://gitlab.com/octo/hello (fetch)\n";
        let (remotes, others) = parse(listing, &["code.corp".to_owned()]);
        let said: Vec<_> =
            remotes.iter().map(|remote| format!("{} {}", remote.name, remote.repo)).collect();
        assert_eq!(
            said,
            [
                "origin me/hello",
                "upstream octo/hello",
                "work code.corp/octo/hello",
                "ghe github.corp.example/octo/hello",
            ]
        );
        assert_eq!(others, ["gitlab.com"]);
        let listing =
            "ghe\thttps://ghe.corp/o/x (fetch)\norigin\tgit@github.com:me/x.git (fetch)\n";
        assert_eq!(parse(listing, &[]).0[0].name, "origin");
    }
}
