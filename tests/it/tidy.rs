//! Rules of this repository that the compiler cannot hold: which room may use
//! which, which crate belongs to which room, how long a file may grow.

use std::path::{Path, PathBuf};

/// The rooms, from the ground up: each may use only those before it.
const ROOMS: &[&str] = &["base", "core", "doctor", "state", "host", "serve", "cli"];

/// Crates that only some files may know.
const FENCES: &[(&str, &[&str])] = &[
    ("axum", &["base/http", "serve/"]),
    ("hyper", &["base/http", "serve/"]),
    ("hyper_util", &["base/http", "serve/"]),
    ("reqwest", &["base/https", "doctor/install", "serve/github"]),
    ("indicatif", &["cli/doctor"]),
    ("tar", &["doctor/install"]),
    ("flate2", &["doctor/install", "serve/web/pages/assets"]),
    ("rusqlite", &["state/inbox"]),
    ("clap", &["cli"]),
    ("minijinja", &["core/routing/prompt"]),
    ("pulldown_cmark", &["core/routing/markdown"]),
    ("serde_yaml", &["core/config", "core/platform"]),
    (
        "tokio",
        &[
            "base/http",
            "base/process",
            "base/runtime",
            "doctor",
            "state/inbox",
            "state/changes",
            "state/spool",
            "host",
            "serve",
            "cli",
        ],
    ),
    ("schemars", &["core/config"]),
    ("directories", &["base/dirs"]),
    ("notify", &["state/changes", "state/spool"]),
    ("anstream", &["base/terminal"]),
    ("nix", &["serve/web/listener"]),
    ("tokio_tungstenite", &["serve/web/relay"]),
];

/// Names that only some files may use.
const MAKERS: &[(&str, &[&str])] =
    &[("Invocation::new(", &["base/process", "doctor/tool"]), ("std::process::exit", &[])];

const MAX_CODE_LINES: usize = 400;
const MAX_LINES: usize = 700;

struct Source {
    path: String,
    text: String,
}

impl Source {
    fn code(&self) -> &str {
        self.text.split("\n#[cfg(test)]").next().unwrap()
    }

    fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }
}

fn sources() -> Vec<Source> {
    let sources = rust_files("src");
    assert!(sources.len() > 10, "the sources were not found");
    sources
}

/// The Rust files below a directory of the repository.
fn rust_files(below: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(below);
    let mut found = Vec::new();
    let mut todo: Vec<PathBuf> = vec![root.clone()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                found.push(Source { text: std::fs::read_to_string(&path).unwrap(), path: name });
            }
        }
    }
    found
}

fn room_of(path: &str) -> Option<usize> {
    let first = path.split(['/', '.']).next().unwrap();
    ROOMS.iter().position(|room| *room == first)
}

#[test]
fn a_room_uses_only_the_rooms_before_it() {
    let mut faults = Vec::new();
    for source in sources() {
        let Some(room) = room_of(&source.path) else { continue };
        for (number, line) in source.code().lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            for used in line.split("crate::").skip(1) {
                let used = used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                if ROOMS.iter().position(|room| *room == used).is_some_and(|used| used > room) {
                    faults.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "a room uses one above it:\n{}", faults.join("\n"));
}

#[test]
fn a_crate_is_known_only_where_it_belongs() {
    let mut faults = Vec::new();
    for source in sources() {
        for (name, places) in FENCES {
            let uses = source.code().lines().any(|line| {
                let line = line.trim_start();
                !line.starts_with("//")
                    && line.match_indices(&format!("{name}::")).any(|(at, _)| {
                        !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
                    })
            });
            if uses && !source.is_in(places) {
                faults.push(format!("{} uses {name}", source.path));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_command_line_is_made_only_by_the_doctor() {
    for source in sources() {
        for (name, places) in MAKERS {
            let uses = source.code().contains(name);
            assert!(!uses || source.is_in(places), "{} uses {name}", source.path);
        }
    }
}

#[test]
fn the_decision_cores_are_synchronous() {
    for source in sources().iter().filter(|source| source.path.starts_with("core")) {
        for word in ["async fn", "async move", ".await", "Clock", "std::fs", "fs_err"] {
            assert!(!source.code().contains(word), "{} has `{word}`", source.path);
        }
    }
}

#[test]
fn files_stay_short() {
    for source in sources() {
        let code = source.code().lines().filter(|line| !line.trim().is_empty()).count();
        let all = source.text.lines().count();
        assert!(code <= MAX_CODE_LINES, "{} has {code} lines of code", source.path);
        assert!(all <= MAX_LINES, "{} has {all} lines", source.path);
    }
    for source in rust_files("tests") {
        let all = source.text.lines().count();
        assert!(all <= MAX_LINES, "tests/{} has {all} lines", source.path);
    }
}

#[test]
fn every_module_says_what_it_is_for() {
    for source in sources() {
        assert!(source.text.starts_with("//!"), "{} has no module doc", source.path);
    }
}

#[test]
fn every_invariant_of_the_architecture_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docs/ARCHITECTURE.md")).unwrap();
    let part = text.split("## What must hold").nth(1).unwrap().split("\n## ").next().unwrap();
    let files = sources().into_iter().chain(rust_files("tests/it"));
    let code: String = files.map(|file| file.text).collect();
    let rows = part.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let mut named = 0;
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for test in tests.split('`').skip(1).step_by(2) {
            named += 1;
            assert!(code.contains(&format!("fn {test}(")), "{test} is no test: {row}");
        }
    }
    assert!(named > 30, "the table was not found");
}
