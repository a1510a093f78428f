//! `scripts/install.sh`, with a PATH that holds only what a host is given. The
//! program that it installs is a double here; the walk on a bare Debian has the
//! real one.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

/// What every host has.
const BASE: &[&str] = &[
    "awk", "cat", "chmod", "cp", "cut", "dirname", "getconf", "grep", "head", "ln", "mkdir",
    "mktemp", "mv", "pwd", "rm", "uname",
];
const USUAL: &[&str] = &["sha256sum", "tar", "gzip"];
const OURS: &str = "#!/bin/sh\n\
    case $1 in --version) echo the-loop 9.9.9 ;; doctor) echo healthy ;; esac\n";

/// A host with these programs, and the files of a release.
struct Host {
    dir: tempfile::TempDir,
}

struct Said {
    code: i32,
    err: String,
    out: String,
}

impl Host {
    fn new(programs: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let this = Self { dir };
        for place in ["bin", "home", "release", "tmp", "pack"] {
            std::fs::create_dir(this.path(place)).unwrap();
        }
        let path = std::env::var("PATH").unwrap();
        for name in BASE.iter().chain(programs) {
            let mut found = path.split(':').map(|dir| Path::new(dir).join(name));
            if let Some(found) = found.find(|file| file.is_file()) {
                symlink(found, this.path("bin").join(name)).unwrap();
            }
        }
        this.release(OURS.as_bytes());
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn archive(&self) -> PathBuf {
        let libc = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let target = match std::env::consts::OS {
            "macos" => format!("{}-apple-darwin", std::env::consts::ARCH),
            _ => libc,
        };
        self.path(&format!("release/the-loop-{target}.tar.gz"))
    }

    /// A release with this program.
    fn release(&self, program: &[u8]) {
        self.script("pack/the-loop", std::str::from_utf8(program).unwrap());
        self.pack(&["the-loop"]);
    }

    fn pack(&self, members: &[&str]) {
        let pack = self.path("pack");
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(self.archive()).arg("-C").arg(pack).args(members);
        assert!(tar.status().unwrap().success());
        let digest = hex::encode(Sha256::digest(std::fs::read(self.archive()).unwrap()));
        let name = self.archive().file_name().unwrap().to_str().unwrap().to_owned();
        let sums = format!("{}  other.tar.gz\n{digest}  {name}\n", "0".repeat(64));
        std::fs::write(self.path("release/SHA256SUMS"), sums).unwrap();
    }

    fn script(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.path(name), executable).unwrap();
    }

    fn command(&self, shell: &str, args: &[&str]) -> Command {
        let mut command = Command::new(shell);
        command
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/install.sh"))
            .args(args)
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("THE_LOOP_RELEASES", self.path("release"))
            .current_dir(self.dir.path());
        command
    }

    /// Runs it, and looks that nothing is left behind.
    fn say(&self, command: &mut Command) -> Said {
        let output = command.output().unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        let left: Vec<_> = std::fs::read_dir(self.path("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}\n{err}");
        Said { code: output.status.code().unwrap(), err, out }
    }

    fn installed(&self) -> PathBuf {
        self.path("home/.local/bin/the-loop")
    }

    /// It fails with these words, and what was installed before is there.
    fn refuses(&self, command: &mut Command, words: &[&str]) {
        let before = std::fs::read(self.installed()).ok();
        let said = self.say(command);
        assert_eq!(said.code, 1, "{}", said.err);
        for word in words {
            assert!(said.err.contains(word), "no `{word}` in: {}", said.err);
        }
        assert!(said.err.lines().any(|line| line.starts_with("install.sh: ")), "{}", said.err);
        assert_eq!(std::fs::read(self.installed()).ok(), before);
        if let Ok(entries) = std::fs::read_dir(self.path("home/.local/bin")) {
            let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            assert!(names.iter().all(|name| name == "the-loop"), "litter: {names:?}");
        }
        // What it says of itself fits; a path, and what others say, may be long.
        let here = self.dir.path().to_str().unwrap();
        let others = |line: &str| line.contains(here) || line.contains("tar");
        for line in said.err.lines().filter(|line| !others(line)) {
            assert!(line.len() <= 80, "{line}");
        }
    }
}

fn shells() -> Vec<&'static str> {
    let shells = ["/bin/sh", "/usr/bin/dash", "/usr/bin/bash", "/usr/bin/ksh"];
    shells.into_iter().filter(|shell| Path::new(shell).exists()).collect()
}

#[test]
fn a_release_in_a_directory_is_installed_and_the_doctor_asked() {
    for shell in shells() {
        let host = Host::new(USUAL);
        let said = host.say(&mut host.command(shell, &[]));
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(said.out, "healthy\n");
        assert!(said.err.contains("the-loop 9.9.9 is in "), "{}", said.err);
        assert!(said.err.contains("not on your PATH yet: export PATH="), "{}", said.err);
        assert_eq!(std::fs::read(host.installed()).unwrap(), OURS.as_bytes());
        // Again, over it, from a file URL.
        let url = format!("file://{}/", host.path("release").display());
        let mut again = host.command(shell, &[]);
        assert_eq!(host.say(again.env("THE_LOOP_RELEASES", url)).code, 0);
    }
}

#[test]
fn it_goes_where_it_is_told() {
    let host = Host::new(USUAL);
    for to in ["--to=a place", "--to=/dev/../tmp"] {
        let to = to.replace("/dev/../tmp", host.path("x/y").to_str().unwrap());
        assert_eq!(host.say(&mut host.command("/bin/sh", &[&to])).code, 0);
    }
    assert!(host.path("a place/the-loop").is_file());
    assert!(host.path("x/y/the-loop").is_file());
    let mut command = host.command("/bin/sh", &[]);
    assert_eq!(host.say(command.env("XDG_BIN_HOME", host.path("xdg"))).code, 0);
    assert!(host.path("xdg/the-loop").is_file());
    assert!(!host.installed().exists());
    for wrong in [&["--to"][..], &["--what"]] {
        assert_eq!(host.say(&mut host.command("/bin/sh", wrong)).code, 2);
    }
}

#[test]
fn what_is_not_the_file_of_the_release_is_not_installed() {
    let host = Host::new(USUAL);
    assert_eq!(host.say(&mut host.command("/bin/sh", &[])).code, 0);
    let archive = std::fs::read(host.archive()).unwrap();
    let whole = hex::encode(Sha256::digest(&archive));
    let refuses = |words: &[&str]| host.refuses(&mut host.command("/bin/sh", &[]), words);

    let cut = &archive[..archive.len() / 2];
    std::fs::write(host.archive(), cut).unwrap();
    let got = hex::encode(Sha256::digest(cut));
    refuses(&["is not that of the release", &whole, &got]);

    std::fs::remove_file(host.archive()).unwrap();
    refuses(&["there is no such file", ".tar.gz"]);

    std::fs::write(host.path("pack/other"), "").unwrap();
    host.pack(&["other"]);
    refuses(&["cannot be unpacked"]);

    std::fs::remove_file(host.path("pack/the-loop")).unwrap();
    symlink("/bin/true", host.path("pack/the-loop")).unwrap();
    host.pack(&["the-loop"]);
    refuses(&["holds no plain file the-loop"]);
    std::fs::remove_file(host.path("pack/the-loop")).unwrap();

    for broken in ["", "\x7fELF and then nothing", "#!/bin/sh\nexit 3\n"] {
        host.release(broken.as_bytes());
        if !broken.is_empty() {
            refuses(&["the binary does not run in "]);
        }
    }

    let other = format!("{}  the-loop-vax-dec-ultrix.tar.gz\n", "0".repeat(64));
    std::fs::write(host.path("release/SHA256SUMS"), other).unwrap();
    refuses(&["the release has no binary for this host"]);
    std::fs::remove_file(host.path("release/SHA256SUMS")).unwrap();
    refuses(&["there is no such file", "SHA256SUMS"]);
}

#[test]
fn what_a_host_lacks_is_named() {
    let host = |programs: &[&str]| Host::new(programs);
    let bare = host(&[]);
    bare.refuses(&mut bare.command("/bin/sh", &[]), &["nothing here can check a digest"]);
    let no_tar = host(&["sha256sum"]);
    no_tar.refuses(&mut no_tar.command("/bin/sh", &[]), &["there is no tar"]);
    let no_gzip = host(&["sha256sum", "tar"]);
    no_gzip.refuses(&mut no_gzip.command("/bin/sh", &[]), &["tar and gzip are needed"]);
    // Other ways to the same digest.
    for digest in ["shasum", "openssl"] {
        let host = host(&[digest, "tar", "gzip", "perl"]);
        if host.path("bin").join(digest).exists() {
            assert_eq!(host.say(&mut host.command("/bin/sh", &[])).code, 0, "{digest}");
        }
    }
    for (missing, words) in [("awk", "there is no awk"), ("mktemp", "there is no mktemp")] {
        let host = host(USUAL);
        std::fs::remove_file(host.path("bin").join(missing)).unwrap();
        host.refuses(&mut host.command("/bin/sh", &[]), &[words]);
    }
    let offline = host(USUAL);
    let mut command = offline.command("/bin/sh", &[]);
    command.env("THE_LOOP_RELEASES", "https://127.0.0.1:1/");
    offline.refuses(&mut command, &["neither curl nor wget"]);
    for (program, code, words) in [
        ("curl", 60, "certificate cannot be checked"),
        ("curl", 77, "certificate cannot be checked"),
        ("curl", 22, "the server has no such file"),
        ("curl", 28, "its exit code is 28"),
        ("wget", 5, "certificate cannot be checked"),
        ("wget", 8, "the server has no such file"),
        ("wget", 4, "its exit code is 4"),
    ] {
        let host = host(USUAL);
        host.script(&format!("bin/{program}"), &format!("#!/bin/sh\nexit {code}\n"));
        let mut command = host.command("/bin/sh", &[]);
        command.env("THE_LOOP_RELEASES", "https://127.0.0.1:1/r");
        host.refuses(&mut command, &[words]);
    }
}

/// What says where the authorities are, in the way that each program knows.
#[test]
fn the_variable_that_names_the_authorities_is_one_that_counts() {
    let host = Host::new(USUAL);
    for (program, version, bundle, named) in [
        ("curl", 0, None, "SSL_CERT_FILE"),
        ("curl", 0, Some("/bundle"), "CURL_CA_BUNDLE"),
        ("wget", 0, Some("/bundle"), "SSL_CERT_FILE"),
        ("wget", 1, None, "SSL_CERT_FILE"),
    ] {
        let exit = if program == "curl" { 60 } else { 5 };
        let told = host.path("told");
        let script = format!(
            "#!/bin/sh\ncase $1 in --version) exit {version} ;; esac\n\
             echo \"$*\" >'{}'\nexit {exit}\n",
            told.display()
        );
        host.script(&format!("bin/{program}"), &script);
        let mut command = host.command("/bin/sh", &[]);
        command.env("THE_LOOP_RELEASES", "https://127.0.0.1:1/r").env("SSL_CERT_FILE", "/my own");
        if let Some(bundle) = bundle {
            command.env("CURL_CA_BUNDLE", bundle);
        }
        host.refuses(&mut command, &["certificate cannot be checked", &format!("{named}; or")]);
        let is_passed =
            std::fs::read_to_string(&told).unwrap().contains("--ca-certificate=/my own");
        assert_eq!(is_passed, program == "wget" && version == 0, "{program} {version}");
        std::fs::remove_file(host.path("bin").join(program)).unwrap();
    }
}

/// By what runs, and not by what lies around: a binary for glibc is one for a host of
/// glibc alone, and one for musl for both.
#[test]
#[cfg(target_os = "linux")]
fn the_libc_is_that_of_the_programs_here() {
    let getconf =
        |libc: &str| format!("#!/bin/sh\ncase $1 in LONG_BIT) echo 64 ;; *) {libc} ;; esac\n");
    let (glibc, none) = ("echo glibc 2.36", "exit 1");
    let musl = "echo 'musl libc (x86_64)' >&2; exit 1";
    for (getconf_says, ldd, takes_gnu) in [
        (glibc, musl, true),
        (none, musl, false),
        (none, "echo 'ldd (Debian GLIBC 2.36-9) 2.36'", true),
        (none, "echo 'ldd (GNU libc) 2.41'", true),
    ] {
        let host = Host::new(USUAL);
        std::fs::remove_file(host.path("bin/getconf")).unwrap();
        host.script("bin/getconf", &getconf(getconf_says));
        host.script("bin/ldd", &format!("#!/bin/sh\n{ldd}\n"));
        assert_eq!(host.say(&mut host.command("/bin/sh", &[])).code, 0, "musl's runs on both");
        let sums = std::fs::read_to_string(host.path("release/SHA256SUMS")).unwrap();
        std::fs::write(host.path("release/SHA256SUMS"), sums.replace("-musl", "-gnu")).unwrap();
        let gnu = host.archive().to_str().unwrap().replace("-musl", "-gnu");
        std::fs::rename(host.archive(), gnu).unwrap();
        let mut command = host.command("/bin/sh", &[]);
        if takes_gnu {
            assert_eq!(host.say(&mut command).code, 0, "{getconf_says} {ldd}");
        } else {
            host.refuses(&mut command, &["the release has no binary for this host"]);
        }
    }
}

#[test]
fn nothing_is_read_over_a_way_that_is_not_encrypted() {
    let host = Host::new(&["sha256sum", "tar", "gzip", "curl", "wget"]);
    for (url, words) in [
        ("http://192.0.2.1/r", "it is not encrypted"),
        ("http://localhost.example/r", "it is not encrypted"),
        ("http://127.0.0.1.example/r", "it is not encrypted"),
        ("ftp://127.0.0.1/r", "ftp://127.0.0.1/r is not read"),
        // What stands before the host's name is nobody's address.
        ("http://127.0.0.1:80@example.com/", "it is not encrypted"),
        ("http://127.0.0.1@example.com/", "it is not encrypted"),
        ("http://localhost:x@192.0.2.1", "it is not encrypted"),
        ("http://localhost:80:x@192.0.2.1", "it is not encrypted"),
        ("http://[::1]:@192.0.2.1", "it is not encrypted"),
        ("http://[::1]@192.0.2.1/", "it is not encrypted"),
        ("http://[::1].example/", "it is not encrypted"),
        ("http://127.0.0.1\\@example.com/", "it is not encrypted"),
        ("http://127.0.0.1:80\\@example.com/", "it is not encrypted"),
        ("http://127.0.0.1?@example.com/", "it is not encrypted"),
        ("http://127.0.0.1:1#@example.com/", "it is not encrypted"),
        ("http://localhost:80x/", "it is not encrypted"),
        ("http://127.0.0.1:1%40example.com/", "it is not encrypted"),
        ("http://127.0.0.1.example.com:80/", "it is not encrypted"),
        ("http:///127.0.0.1/", "it is not encrypted"),
        ("HTTP://192.0.2.1/", "is not read"),
    ] {
        let mut command = host.command("/bin/sh", &[]);
        host.refuses(command.env("THE_LOOP_RELEASES", url), &[words]);
    }
}

#[tokio::test]
async fn a_release_on_a_server_is_installed_with_curl_and_with_wget() {
    for program in ["curl", "wget"] {
        let host = Host::new(&["sha256sum", "tar", "gzip", program]);
        if !host.path("bin").join(program).exists() {
            continue;
        }
        let root = host.path("release");
        let app = axum::Router::new().fallback(move |uri: axum::http::Uri| {
            let file = root.join(uri.path().trim_start_matches("/r/"));
            async move { std::fs::read(file).map_err(|_| axum::http::StatusCode::NOT_FOUND) }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let url = format!("http://{address}/r");
        let mut command = host.command("/bin/sh", &[]);
        command.env("THE_LOOP_RELEASES", &url);
        let host = tokio::task::spawn_blocking(move || {
            let said = host.say(&mut command);
            assert_eq!(said.code, 0, "{program}: {}", said.err);
            std::fs::remove_file(host.path("release/SHA256SUMS")).unwrap();
            host.refuses(&mut command, &["the server has no such file", "/SHA256SUMS"]);
            host
        })
        .await
        .unwrap();
        assert!(host.installed().is_file());
        server.abort();
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let host = Host::new(USUAL);
    let words = ["home/.local/bin cannot be made", "--to DIR"];
    std::fs::write(host.path("home/.local"), "").unwrap();
    host.refuses(&mut host.command("/bin/sh", &[]), &words);
    std::fs::remove_file(host.path("home/.local")).unwrap();
    let mut homeless = host.command("/bin/sh", &[]);
    host.refuses(homeless.env_remove("HOME"), &["HOME is not set", "--to DIR"]);
    host.refuses(&mut host.command("/bin/sh", &["--to", "/proc"]), &["/proc cannot be written"]);
    let mut command = host.command("/bin/sh", &[]);
    command.env("TMPDIR", host.path("missing"));
    host.refuses(&mut command, &["no temporary directory", "TMPDIR"]);
    // A directory where the program belongs.
    std::fs::create_dir_all(host.installed().join("x")).unwrap();
    let said = host.say(&mut host.command("/bin/sh", &[]));
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("the-loop is a directory"), "{}", said.err);
}

#[test]
fn without_a_release_it_is_built_where_that_can_be_done() {
    let host = Host::new(USUAL);
    let mut command = host.command("/bin/sh", &[]);
    host.refuses(command.env_remove("THE_LOOP_RELEASES"), &["no cargo", "rustup.rs"]);
    // A copy of the script by itself, as it is piped into a shell.
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/install.sh");
    std::fs::copy(script, host.path("tmp.sh")).unwrap();
    let mut alone = Command::new("/bin/sh");
    alone.arg(host.path("tmp.sh")).env_clear().env("PATH", host.path("bin"));
    alone.env("HOME", host.path("home")).env("TMPDIR", host.path("tmp"));
    host.refuses(&mut alone, &["THE_LOOP_RELEASES is not set", "no checkout"]);
    let build = format!(
        "#!/bin/sh\nmkdir -p \"$CARGO_TARGET_DIR/release\"\n\
         cat >\"$CARGO_TARGET_DIR/release/the-loop\" <<'X'\n{OURS}X\n\
         chmod 755 \"$CARGO_TARGET_DIR/release/the-loop\"; echo \"$*\"\n"
    );
    host.script("bin/cargo", &build);
    let mut command = host.command("/bin/sh", &[]);
    command.env_remove("THE_LOOP_RELEASES").env("CARGO_TARGET_DIR", host.path("target"));
    let said = host.say(&mut command);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.out, "build --release --locked --bin the-loop\nhealthy\n");
    host.script("bin/cargo", "#!/bin/sh\nexit 101\n");
    let mut command = host.command("/bin/sh", &[]);
    command.env_remove("THE_LOOP_RELEASES").env("CARGO_TARGET_DIR", host.path("target"));
    host.refuses(&mut command, &["cargo could not build it"]);
}

/// As it may come through a pipe that breaks.
#[test]
fn half_the_script_does_nothing() {
    let host = Host::new(USUAL);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/install.sh");
    let text = std::fs::read_to_string(script).unwrap();
    for part in 1..20 {
        let half = &text[..text.floor_char_boundary(text.len() * part / 20)];
        std::fs::write(host.path("half.sh"), half).unwrap();
        let mut command = host.command("/bin/sh", &[]);
        let mut command_line = Command::new("/bin/sh");
        command_line.arg(host.path("half.sh")).env_clear();
        for (name, value) in command.env("LANG", "C").get_envs() {
            command_line.env(name, value.unwrap());
        }
        command_line.output().unwrap();
        assert_eq!(std::fs::read_dir(host.path("home")).unwrap().count(), 0, "{part}");
        assert_eq!(std::fs::read_dir(host.path("tmp")).unwrap().count(), 0, "{part}");
    }
}
