//! `scripts/pins` against a stand-in of every host that it asks. The real ones are
//! not reached from here.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use sha2::{Digest as _, Sha256};

type Files = Arc<Mutex<std::collections::HashMap<String, Vec<u8>>>>;

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// All hosts in one, and a copy of the pins.
struct Hosts {
    files: Files,
    base: String,
    dir: tempfile::TempDir,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.server.abort();
    }
}

const TTYD: &str = "github.com/tsl0922/ttyd/releases/download";
/// Upstream's own, by another way.
const API: &str = "api.github.com/repos/TSL0922/ttyd/releases/tags";
const ELSEWHERE: &str = "github.com/somebody/list/raw/main";
const NAMES: [&str; 2] = ["x86_64", "aarch64"];

impl Hosts {
    async fn new() -> Self {
        let files = Files::default();
        let served = Arc::clone(&files);
        let app = axum::Router::new().fallback(move |uri: axum::http::Uri| {
            let file = served.lock().unwrap().get(uri.path().trim_start_matches('/')).cloned();
            async move { file.ok_or(axum::http::StatusCode::NOT_FOUND) }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let dir = tempfile::tempdir().unwrap();
        let this = Self { files, base, dir, server };
        let pin = |arch: &str| {
            format!(
                "  - version: \"1.7.7\"\n    os: linux\n    arch: {arch}\n    \
                 url: https://{TTYD}/1.7.7/ttyd.{arch}\n    format: binary\n    \
                 sha256: {old}\n    # A word about it.\n    binarySha256: {old}\n    \
                 size: 3\n    sources: 2\n",
                old = digest(b"old")
            )
        };
        let yaml = format!(
            "tool: ttyd\npins:\n{}# Between them.\n{}guidance:\n  - {{ managed: true }}\n",
            pin(NAMES[0]),
            pin(NAMES[1])
        );
        std::fs::write(this.yaml(), yaml).unwrap();
        std::fs::write(
            this.dir.path().join("sources"),
            format!(
                "ttyd text https://{TTYD}/{{version}}/SHA256SUMS # upstream\n\
                 ttyd text https://{ELSEWHERE}/{{version}}\n\
                 ttyd@1.7.7 wheel carrier==1.0 /{{asset}}\n\
                 ttyd@2.0 release https://{API}/{{version}}\n"
            ),
        )
        .unwrap();
        this
    }

    fn yaml(&self) -> PathBuf {
        self.dir.path().join("ttyd.yaml")
    }

    fn read(&self) -> String {
        std::fs::read_to_string(self.yaml()).unwrap()
    }

    fn serve(&self, place: &str, bytes: impl Into<Vec<u8>>) {
        self.files.lock().unwrap().insert(place.to_owned(), bytes.into());
    }

    /// A version of the program, and what upstream and others say of it.
    fn publish(&self, version: &str, said_of: &dyn Fn(&[u8]) -> Option<String>) {
        self.publish_alone(version, said_of);
        let sums = self.files.lock().unwrap()[&format!("{TTYD}/{version}/SHA256SUMS")].clone();
        self.serve(&format!("{ELSEWHERE}/{version}"), sums);
    }

    /// A version of the program, and what upstream says of it.
    fn publish_alone(&self, version: &str, said_of: &dyn Fn(&[u8]) -> Option<String>) {
        let mut sums = String::new();
        for name in NAMES {
            let content = format!("ttyd {version} for {name}");
            if let Some(digest) = said_of(content.as_bytes()) {
                sums += &[&digest, " *ttyd.", name, "\n"].concat();
            }
            self.serve(&format!("{TTYD}/{version}/ttyd.{name}"), content);
        }
        self.serve(&format!("{TTYD}/{version}/SHA256SUMS"), sums);
    }

    async fn run(&self, args: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/pins");
        let mut command = Command::new("python3");
        command
            .arg(script)
            .args(args)
            .arg("--platforms")
            .arg(self.dir.path())
            .arg("--sources")
            .arg(self.dir.path().join("sources"))
            .env("THE_LOOP_PINS_BASE", &self.base)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    async fn says(&self, args: &[&str], code: i32, words: &[&str]) {
        let output = self.run(args).await;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        for word in words {
            assert!(said.contains(word), "no `{word}` in: {said}");
        }
    }
}

#[tokio::test]
async fn what_two_agree_on_is_written_and_shown_and_nothing_else_changes() {
    let hosts = Hosts::new().await;
    hosts.publish("1.7.7", &|content| Some(digest(content).to_uppercase()));
    let before = hosts.read();
    let new = digest(b"ttyd 1.7.7 for x86_64");
    hosts.says(&["ttyd"], 0, &[&format!("+    sha256: {new}"), "agrees: https://"]).await;
    let mut expected = before;
    for name in NAMES.iter().rev() {
        let content = format!("ttyd 1.7.7 for {name}");
        let at = expected.find(&format!("arch: {name}")).unwrap();
        let (head, tail) = expected.split_at(at);
        let tail = tail.replacen(&digest(b"old"), &digest(content.as_bytes()), 2);
        let tail = tail.replacen("size: 3", &format!("size: {}", content.len()), 1);
        expected = format!("{head}{tail}");
    }
    assert_eq!(hosts.read(), expected);
    // The second time there is nothing to show.
    let output = hosts.run(&["ttyd"]).await;
    assert!(!String::from_utf8_lossy(&output.stdout).contains("+++"));
    assert_eq!(hosts.read(), expected);
}

#[tokio::test]
async fn a_newer_version_takes_the_place_of_the_newest() {
    let hosts = Hosts::new().await;
    hosts.publish("2.0", &|content| Some(digest(content)));
    let assets: Vec<_> = NAMES
        .iter()
        .map(|name| {
            let digest = digest(format!("ttyd 2.0 for {name}").as_bytes());
            serde_json::json!({ "name": format!("ttyd.{name}"), "digest": format!("sha256:{digest}") })
        })
        .collect();
    let told = serde_json::json!({ "assets": assets }).to_string();
    hosts.serve(&format!("{API}/2.0"), told);
    hosts.says(&["ttyd@2.0"], 0, &["-  - version: \"1.7.7\"", "+  - version: \"2.0\""]).await;
    let yaml = hosts.read();
    assert!(!yaml.contains("1.7.7"), "{yaml}");
    assert_eq!(yaml.matches("sources: 2").count(), 2, "{yaml}");
    assert_eq!(yaml.matches(&format!("{TTYD}/2.0/ttyd.")).count(), 2, "{yaml}");
}

#[tokio::test]
async fn what_only_one_says_or_two_say_differently_is_not_written() {
    let hosts = Hosts::new().await;
    let before = hosts.read();
    let other = digest(b"something else");
    hosts.says(&["ttyd"], 1, &["stays as it is: there is no https://"]).await;
    hosts.publish("1.7.7", &|_| None);
    hosts.says(&["ttyd"], 1, &["nobody else says what ttyd.aarch64 is", "says nothing"]).await;
    hosts.publish("1.7.7", &|_| Some(other.clone()));
    let own = digest(b"ttyd 1.7.7 for x86_64");
    hosts.says(&["ttyd"], 1, &[&format!("says {other}, and the download is {own}")]).await;
    // What upstream says in two ways is said by one: who replaces the file replaces both.
    hosts.publish_alone("2.0", &|content| Some(digest(content)));
    let assets = NAMES.map(|name| {
        let digest = digest(format!("ttyd 2.0 for {name}").as_bytes());
        serde_json::json!({ "name": format!("ttyd.{name}"), "digest": digest })
    });
    let told = serde_json::json!({ "assets": assets }).to_string();
    hosts.serve(&format!("{API}/2.0"), told);
    let words = ["nobody else says", "agrees, and is no other source: https://api."];
    hosts.says(&["ttyd@2.0"], 1, &words).await;
    hosts.publish("2.0", &|_| None);
    hosts.says(&["ttyd@2.0"], 1, &["nobody else says"]).await;
    hosts.serve(&format!("{API}/2.0"), "<html>");
    hosts.says(&["ttyd@2.0"], 1, &["stays as it is"]).await;
    assert_eq!(hosts.read(), before);
    for wrong in [&["none"][..], &["ttyd@$(x)"]] {
        hosts.says(wrong, 2, &[]).await;
    }
}

#[tokio::test]
async fn a_package_that_carries_the_same_binary_counts() {
    let hosts = Hosts::new().await;
    hosts.publish("1.7.7", &|_| None);
    let make = "import sys, zipfile\n\
         with zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n\
         \x20   for name in sys.argv[3:]:\n\
         \x20       wheel.writestr(f'data/ttyd.{name}', sys.argv[2] + name)\n";
    let file = hosts.dir.path().join("wheel");
    for (content, code) in [("ttyd 1.7.7 for ", 0), ("another ", 1)] {
        let mut python = Command::new("python3");
        python.args(["-c", make]).arg(&file).arg(content).args(NAMES);
        assert!(python.status().unwrap().success());
        let wheel = std::fs::read(&file).unwrap();
        let told = serde_json::json!({ "urls": [{
            "packagetype": "bdist_wheel",
            "url": "https://files.example/carrier.whl",
            "digests": { "sha256": digest(&wheel) },
        }] });
        hosts.serve("files.example/carrier.whl", wheel);
        hosts.serve("pypi.org/pypi/carrier/1.0/json", told.to_string());
        hosts.says(&["ttyd"], code, &["carrier==1.0"]).await;
    }
    hosts.serve("files.example/carrier.whl", "not that");
    hosts.says(&["ttyd"], 1, &["is not the file that PyPI describes"]).await;
}

#[test]
fn every_place_that_is_asked_is_of_a_tool_with_pins() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = std::fs::read_to_string(root.join("scripts/pins.sources")).unwrap();
    for line in sources.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let [tool, kind, _] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let tool = tool.split('@').next().unwrap();
        assert!(root.join(format!("platforms/{tool}.yaml")).exists(), "{line}");
        assert!(["text", "wheel", "release"].contains(&kind), "{line}");
    }
}
