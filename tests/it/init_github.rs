//! `init --github` where the secret's place holds something already, and where
//! repositories of two hosts have one name.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::init::{DEMO, Place};

const GITHUB: &[&str] = &["--user", "a", "--github", "--url", "https://hook.example"];

fn run(place: &Place) -> (i32, String, String) {
    place.run(&[DEMO, GITHUB].concat())
}

/// A project whose secret was made.
fn with_a_secret() -> (Place, PathBuf) {
    let place = Place::repository(&[("origin", "git@github.com:octo/hello.git")]);
    assert_eq!(run(&place).0, 0);
    let secrets = place.home.path().join(".local/state/the-loop/secrets");
    let file = std::fs::read_dir(secrets).unwrap().next().unwrap().unwrap().path();
    (place, file)
}

#[test]
fn a_secret_that_others_can_read_is_not_taken() {
    let (place, file) = with_a_secret();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, out, err) = run(&place);
    assert_eq!((code, out.contains("gh api")), (1, false), "{out}{err}");
    for said in ["others have access to the webhook secret", "(mode 0644)", "a fresh one is made"] {
        assert!(err.contains(said), "{said} in {err}");
    }
    assert!(err.contains(&format!("`chmod 600 {}`", file.display())), "{err}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(run(&place).0, 0);
}

#[test]
fn what_is_no_secret_is_named_and_nothing_waits_for_it() {
    let (place, file) = with_a_secret();
    let make_pipe = || {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &file, pipe, mode, 0).unwrap();
    };
    let cases: [(&str, &dyn Fn(), &str); 5] = [
        ("is not a regular file", &make_pipe, "secretFile"),
        ("is a link to nothing", &|| symlink("missing", &file).unwrap(), "remove the link"),
        ("is empty", &|| private(&file, b" \n"), "a fresh one is made"),
        ("is no text", &|| private(&file, b"\xff\n"), "a fresh one is made"),
        ("is not a regular file", &|| std::fs::create_dir(&file).unwrap(), "move it away"),
    ];
    for (said, put, help) in cases {
        std::fs::remove_file(&file).unwrap();
        put();
        let (code, out, err) = run(&place);
        assert_eq!((code, out.contains("gh api")), (1, false), "{said}: {out}{err}");
        assert!(err.contains(said) && err.contains(help), "{said}: {err}");
    }
}

fn private(file: &Path, bytes: &[u8]) {
    std::fs::write(file, bytes).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn two_hosts_have_requests_of_their_own() {
    let (place, _) = with_a_secret();
    let text = std::fs::read_to_string(place.file()).unwrap();
    let both = text.replace("\"octo/hello\"", "octo/hello, ghe.example.com/octo/hello");
    assert_ne!(text, both);
    std::fs::write(place.file(), both).unwrap();
    let (code, out, err) = run(&place);
    assert_eq!(code, 0, "{err}");
    let files: Vec<_> = out.lines().filter_map(|line| line.split(" --input ").nth(1)).collect();
    let [one, other] = files[..] else { panic!("{out}") };
    assert_ne!(one, other);
    for file in [one, other] {
        let file = file.split(" --silent").next().unwrap();
        assert!(std::fs::metadata(file).unwrap().is_file(), "{file}");
    }
}

#[test]
fn with_remotes_on_two_hosts_the_login_at_each_is_proposed() {
    let place = Place::repository(&[
        ("origin", "git@ghe.corp:octo/hello.git"),
        ("upstream", "git@github.com:octo/hello.git"),
    ]);
    place
        .gh("ghe.corp:\n    user: corp-me\ngithub.com:\n    user: me\nother.corp:\n    user: no\n");
    let (code, _, err) = place.run(DEMO);
    assert_eq!(code, 0, "{err}");
    let config = place.config();
    assert_eq!(config.routing.authorized_users, ["corp-me", "me"]);
    // Two GitHubs share no secret, whatever their repositories are called.
    let secret = config.webhooks.gh_webhook.secret_file.unwrap();
    assert!(secret.ends_with("secrets/ghe.corp+octo+hello"), "{}", secret.display());
}

#[test]
fn a_github_enterprise_host_is_known_from_the_github_cli() {
    let place = Place::repository(&[("origin", "ssh://git@code.corp:2222/octo/hello.git")]);
    place.gh("github.com:\n    user: octocat\ncode.corp:\n    user: ocorp\n");
    let (code, out, err) = place.run(&[DEMO, &["--github", "--url", "https://hook.corp"]].concat());
    assert_eq!(code, 0, "{err}");
    let routing = place.config().routing;
    assert_eq!(routing.repositories, ["code.corp/octo/hello".parse().unwrap()]);
    assert_eq!(routing.authorized_users, ["ocorp"]);
    assert!(
        out.starts_with(
            "gh api --hostname code.corp --method POST repos/octo/hello/hooks --input "
        ),
        "{out}"
    );
}

#[test]
fn the_github_cli_is_asked_who_somebody_is_and_its_files_where_it_does_not_answer() {
    let place = Place::repository(&[("origin", "git@github.com:octo/hello.git")]);
    place.git(&["config", "github.user", "by-git"]);
    let found = |place: &Place| {
        let output = place
            .command(&[DEMO, &["--force"]].concat())
            .env("GH_TOKEN", "gho_secret")
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !err.contains("gho_secret"), "{err}");
        (place.config().routing.authorized_users.join(" "), err)
    };
    assert_eq!(found(&place).0, "by-git", "it says nothing, and it has no file");
    place.gh("github.com:\n    user: by-file\n");
    assert_eq!(found(&place).0, "by-file");
    // It is asked for its status, at its word, with the token and with no terminal.
    place.gh_says(
        "echo \"$*\" > $HOME/asked; [ \"$GH_TOKEN\" = gho_secret ] || exit 1; [ -t 1 ] && exit 1\n\
         echo github.com\n\
         echo '  ✓ Logged in to github.com account by-gh (GH_TOKEN)'\n\
         echo '  - Active account: true'\n\
         echo '  X Failed to log in to ghe.corp account x (keyring)'; exit 1",
    );
    let (user, err) = found(&place);
    assert_eq!(user, "by-gh");
    assert!(err.contains("found    you are by-gh (the GitHub CLI)"), "{err}");
    assert!(!err.contains("log-in"), "another host's log-in says nothing here: {err}");
    let asked = std::fs::read_to_string(place.home.path().join("asked")).unwrap();
    assert_eq!(asked, "auth status\n");
    // A log-in that is over is told, with what renews it.
    place.gh_says("echo '  X Failed to log in to github.com account by-gh (keyring)' >&2; exit 1");
    let (user, err) = found(&place);
    assert_eq!(user, "by-gh");
    assert!(err.contains("`gh auth login --hostname github.com` renews it"), "{err}");
    // One that hangs is given up, with all that it started.
    let begin = std::time::Instant::now();
    place.gh_says("sleep 600 & echo $! > $HOME/hangs; wait");
    assert_eq!(found(&place).0, "by-file");
    assert!(begin.elapsed() < std::time::Duration::from_mins(1));
    let pid = std::fs::read_to_string(place.home.path().join("hangs")).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}

#[test]
fn the_webhooks_secret_is_in_private_files_and_in_no_command() {
    let place = Place::repository(&[("origin", "git@github.com:octo/hello.git")]);
    let (code, out, err) =
        place.run(&[DEMO, &["--user", "a", "--github", "--url", "https://hook.example/"]].concat());
    assert_eq!(code, 0, "{err}");
    let file = place.home.path().join(".local/state/the-loop/secrets/octo+hello");
    let secret = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    assert_eq!(secret.len(), 64);
    assert!(!out.contains(&secret) && !err.contains(&secret));
    let call = out.lines().next().unwrap();
    let request = call
        .strip_prefix("gh api --method POST repos/octo/hello/hooks --input ")
        .and_then(|rest| rest.split(" --silent && rm ").next())
        .unwrap_or_else(|| panic!("{call}"));
    for file in [&file, Path::new(request)] {
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let body: serde_json::Value = serde_json::from_slice(&std::fs::read(request).unwrap()).unwrap();
    assert_eq!(body["config"]["url"], "https://hook.example/gh-webhook");
    assert_eq!(body["config"]["secret"], secret);
    assert_eq!((&body["name"], &body["active"]), (&"web".into(), &true.into()));
    assert!(body["events"].as_array().unwrap().contains(&"issue_comment".into()));
    // A second call asks for the same secret, and prints it no more than the first.
    let again = ["init", "--yes", "--github", "--url", "https://hook.example/"];
    let (code, again, err) = place.run(&again);
    assert_eq!((code, again.lines().next()), (0, Some(call)), "{err}");
    assert!(!again.contains(&secret) && !err.contains(&secret));
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), secret);
    let body: serde_json::Value = serde_json::from_slice(&std::fs::read(request).unwrap()).unwrap();
    assert_eq!(body["config"]["secret"], secret);
    // The receiver finds it where the configuration says.
    let (_, out, _) = place.run(&["config", "show"]);
    assert!(out.contains("webhook's secret: there is one, from the file"), "{out}");
    let (code, _, err) = place.run(&["init", "--github"]);
    assert!(code == 2 && err.contains("--url"), "{err}");
}
