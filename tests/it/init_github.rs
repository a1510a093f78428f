//! `init --github` where the secret's place holds something already, and where
//! repositories of two hosts have one name.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

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

fn private(file: &std::path::Path, bytes: &[u8]) {
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
