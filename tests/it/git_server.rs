//! The double of GitHub's git: `git http-backend` behind HTTP on loopback, and
//! bare repositories that it serves.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use hyper::body::Frame;
use tokio::io::AsyncWriteExt as _;

/// No answer is cut.
const WHOLE: usize = usize::MAX;

/// A server of bare repositories.
pub struct GitServer {
    dir: tempfile::TempDir,
    url: String,
    cut_after: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl GitServer {
    /// A server without repositories.
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let cut_after = Arc::new(AtomicUsize::new(WHOLE));
        let shared = (dir.path().to_path_buf(), Arc::clone(&cut_after));
        let app = axum::Router::new().fallback(serve).with_state(shared);
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { dir, url, cut_after, task }
    }

    /// Makes this home's git take `https://github.com/` from here.
    pub fn stand_in_for_github(&self, home: &Path) {
        let text = format!(
            "[url \"{}\"]\n\tinsteadOf = https://github.com/\n\
             [user]\n\tname = Somebody\n\temail = somebody@example.com\n",
            self.url
        );
        std::fs::create_dir_all(home).unwrap();
        std::fs::write(home.join(".gitconfig"), text).unwrap();
    }

    /// Makes a repository with one commit on `main`.
    pub fn repository(&self, name: &str) -> PathBuf {
        let bare = self.dir.path().join(format!("{name}.git"));
        std::fs::create_dir_all(&bare).unwrap();
        git(&bare, &["init", "--bare", "--quiet", "-b", "main"]);
        git(&bare, &["config", "http.receivepack", "true"]);
        let commit = self.commit(name, "README", "first\n", None);
        git(&bare, &["update-ref", "refs/heads/main", &commit]);
        bare
    }

    /// The directory of a repository.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.git"))
    }

    /// Makes a commit of one file, on no ref, and gives its name.
    pub fn commit(&self, name: &str, file: &str, text: &str, parent: Option<&str>) -> String {
        let bare = self.dir.path().join(format!("{name}.git"));
        let blob = git_with(&bare, &["hash-object", "-w", "--stdin"], text);
        let tree = git_with(&bare, &["mktree"], &format!("100644 blob {blob}\t{file}\n"));
        let mut args = vec!["commit-tree", &tree, "-m", text.trim()];
        args.extend(parent.iter().flat_map(|parent| ["-p", parent]));
        git(&bare, &args)
    }

    /// Points a ref at a commit.
    pub fn set(&self, name: &str, reference: &str, commit: &str) {
        git(&self.dir.path().join(format!("{name}.git")), &["update-ref", reference, commit]);
    }

    /// Takes a ref away.
    pub fn unset(&self, name: &str, reference: &str) {
        git(&self.dir.path().join(format!("{name}.git")), &["update-ref", "-d", reference]);
    }

    /// Cuts every answer with a body longer than this, until it is told else.
    pub fn cut_after(&self, bytes: Option<usize>) {
        self.cut_after.store(bytes.unwrap_or(WHOLE), Ordering::Relaxed);
    }
}

/// Runs git in a directory and gives what it said.
pub fn git(dir: &Path, args: &[&str]) -> String {
    git_with(dir, args, "")
}

fn git_with(dir: &Path, args: &[&str], input: &str) -> String {
    use std::io::Write as _;
    let mut child = Command::new("git")
        .current_dir(dir)
        .args(args)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.com")])
        .envs([("GIT_COMMITTER_NAME", "A"), ("GIT_COMMITTER_EMAIL", "a@example.com")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "git {args:?} in {}: {}",
        dir.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

type Shared = (PathBuf, Arc<AtomicUsize>);

/// One CGI request.
async fn serve(
    State((root, cut_after)): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let header = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("GIT_PROJECT_ROOT", &root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "somebody")
        .env("PATH_INFO", uri.path())
        .env("QUERY_STRING", uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", method.as_str())
        .env("CONTENT_TYPE", header("content-type").unwrap_or_default())
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding").unwrap_or_default())
        .env("GIT_PROTOCOL", header("git-protocol").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = tokio::spawn(async move {
        // It may end without having read everything.
        let _ = stdin.write_all(&body).await;
    });
    let output = child.wait_with_output().await.unwrap();
    writer.await.unwrap();
    let end = output.stdout.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&output.stdout[..end]).into_owned();
    let content = Bytes::copy_from_slice(&output.stdout[end + 4..]);
    let mut response = Response::builder();
    for line in head.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = if name == "Status" {
            let code = value.split(' ').next().unwrap().parse().unwrap();
            response.status(StatusCode::from_u16(code).unwrap())
        } else {
            response.header(name, value)
        };
    }
    let limit = cut_after.load(Ordering::Relaxed);
    let body = if content.len() > limit {
        // Announced whole, sent in part: the connection breaks in the middle.
        response = response.header("content-length", content.len());
        Body::new(Cut(Some(content.slice(..limit))))
    } else {
        Body::from(content)
    };
    response.body(body).unwrap()
}

/// A body that breaks after its first piece.
struct Cut(Option<Bytes>);

impl hyper::body::Body for Cut {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(Some(match self.0.take() {
            Some(piece) => Ok(Frame::data(piece)),
            None => Err(std::io::Error::other("cut off")),
        }))
    }
}
