//! A real Chromium, driven through chromedriver by the WebDriver protocol. Each
//! browser has a profile of its own, and ends with its test, whatever becomes of
//! that.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{eventually, short_dir};

const ARGUMENTS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--window-size=1280,800",
];

/// What the tests of pages need: chromedriver and the browser that it drives.
/// Where they are missing the test says so and passes, unless a browser was
/// promised (`THE_LOOP_TEST_BROWSER=1`, as CI does).
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn found() -> Option<(PathBuf, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap();
    let find = |names: &[&str]| {
        std::env::split_paths(&path)
            .flat_map(|dir| names.iter().map(move |name| dir.join(name)))
            .find(|path| path.is_file())
    };
    let driver = find(&["chromedriver"]);
    let browser = find(&["chromium", "chromium-browser", "google-chrome"]);
    let both = driver.zip(browser);
    if both.is_none() {
        let promised = std::env::var_os("THE_LOOP_TEST_BROWSER").is_some();
        assert!(!promised, "there is no chromium with its chromedriver here");
        eprintln!("skipped: install chromium and chromedriver (Debian: chromium chromium-driver)");
    }
    both
}

/// A browser with one window to begin with.
pub struct Browser {
    driver: Child,
    address: String,
    session: String,
    dir: tempfile::TempDir,
}

/// What WebDriver calls an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

impl Browser {
    /// Starts one; `None` where there is none, and that was said.
    pub async fn start() -> Option<Self> {
        Self::start_with(&[]).await
    }

    /// The same with more arguments.
    pub async fn start_with(more: &[&str]) -> Option<Self> {
        let (driver, browser) = found()?;
        let dir = short_dir();
        let home = dir.path();
        let said = home.join("driver.out");
        let child = Command::new(driver)
            .arg("--port=0")
            .env_clear()
            .env("HOME", home)
            .env("TMPDIR", home)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&said).unwrap())
            .stderr(Stdio::null())
            // The browser stays in the group, and the group ends as a whole.
            .process_group(0)
            .spawn()
            .unwrap();
        let mut one = Self { driver: child, address: String::new(), session: String::new(), dir };
        let port = eventually("chromedriver listens", async || {
            let text = std::fs::read_to_string(&said).unwrap_or_default();
            let (_, rest) = text.split_once("started successfully on port ")?;
            Some(rest.split_once('.')?.0.to_owned())
        })
        .await;
        one.address = format!("127.0.0.1:{port}");
        let profile = format!("--user-data-dir={}", one.profile().display());
        let arguments: Vec<_> =
            ARGUMENTS.iter().copied().chain(more.iter().copied()).chain([&*profile]).collect();
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": browser, "args": arguments },
            "goog:loggingPrefs": { "performance": "ALL", "browser": "ALL" },
        } } });
        let made = one.ask("POST", "/session", &wanted).await;
        one.session = made["sessionId"].as_str().expect("a session").to_owned();
        one.call("POST", "/timeouts", &json!({ "script": 10_000, "pageLoad": 20_000 })).await;
        Some(one)
    }

    fn profile(&self) -> PathBuf {
        self.dir.path().join("profile")
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let work = exchange(&self.address, method, path, body);
        let answer = tokio::time::timeout(Duration::from_secs(40), work).await;
        let answer = answer.expect("chromedriver answers in time").unwrap();
        answer["value"].clone()
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let value = self.ask(method, &format!("/session/{}{path}", self.session), body).await;
        assert!(value["error"].is_null() || value["message"].is_null(), "{path}: {value}");
        value
    }

    /// Goes to an address.
    pub async fn open(&self, url: &str) {
        self.call("POST", "/url", &json!({ "url": url })).await;
    }

    /// What a function with this body returns; a promise is waited for.
    pub async fn js(&self, body: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({ "script": body, "args": [] })).await
    }

    /// The value of an expression.
    pub async fn value(&self, expression: &str) -> Value {
        self.js(&format!("return ({expression})")).await
    }

    /// Waits until an expression is true.
    pub async fn until(&self, expression: &str) {
        eventually(expression, async || (self.value(expression).await == true).then_some(())).await;
    }

    /// What an element shows; of one that is hidden nothing.
    pub async fn text(&self, selector: &str) -> String {
        let expression = format!(
            "((it) => it?.checkVisibility() ? it.innerText : '')(document.querySelector({}))",
            json!(selector)
        );
        self.value(&expression).await.as_str().unwrap().to_owned()
    }

    /// Waits until an element shows a text.
    pub async fn shows(&self, selector: &str, text: &str) {
        let what = format!("{selector} shows {text:?}");
        eventually(&what, async || self.text(selector).await.contains(text).then_some(())).await;
    }

    /// Presses a mouse button on an element.
    pub async fn click(&self, selector: &str) {
        let found = self
            .call("POST", "/element", &json!({ "using": "css selector", "value": selector }))
            .await;
        let id = found[ELEMENT].as_str().expect("an element").to_owned();
        self.call("POST", &format!("/element/{id}/click"), &json!({})).await;
    }

    /// Types with the keyboard into whatever has the focus. Characters of
    /// WebDriver's private range are keys.
    pub async fn keys(&self, text: &str) {
        let actions: Vec<_> = text
            .chars()
            .flat_map(|c| {
                [json!({ "type": "keyDown", "value": c }), json!({ "type": "keyUp", "value": c })]
            })
            .collect();
        self.act(&json!([{ "type": "key", "id": "keyboard", "actions": actions }])).await;
    }

    /// Presses a key while others are held.
    pub async fn chord(&self, held: &[char], key: char) {
        let down = |c: &char| json!({ "type": "keyDown", "value": c });
        let up = |c: &char| json!({ "type": "keyUp", "value": c });
        let keys: Vec<_> = held
            .iter()
            .map(down)
            .chain([down(&key), up(&key)])
            .chain(held.iter().rev().map(up))
            .collect();
        self.act(&json!([{ "type": "key", "id": "keyboard", "actions": keys }])).await;
    }

    async fn act(&self, actions: &Value) {
        self.call("POST", "/actions", &json!({ "actions": actions })).await;
    }

    /// Turns the mouse's wheel over an element's middle.
    pub async fn wheel(&self, selector: &str, down: i32) {
        let found = self
            .call("POST", "/element", &json!({ "using": "css selector", "value": selector }))
            .await;
        let scroll = json!({ "type": "scroll", "x": 0, "y": 0, "deltaX": 0, "deltaY": down,
            "duration": 0, "origin": found });
        self.act(&json!([{ "type": "wheel", "id": "wheel", "actions": [scroll] }])).await;
    }

    /// An order of Chromium's own protocol.
    pub async fn cdp(&self, order: &str, parameters: &Value) -> Value {
        let body = json!({ "cmd": order, "params": parameters });
        self.call("POST", "/goog/cdp/execute", &body).await
    }

    /// Opens a tab, goes to an address, and gives its handle; the tab is in front.
    pub async fn tab(&self, url: &str) -> Value {
        let made = self.call("POST", "/window/new", &json!({ "type": "tab" })).await;
        self.front(&made["handle"]).await;
        self.open(url).await;
        made["handle"].clone()
    }

    /// Brings a tab to the front.
    pub async fn front(&self, handle: &Value) {
        self.call("POST", "/window", &json!({ "handle": handle })).await;
    }

    /// The tab that is in front.
    pub async fn handle(&self) -> Value {
        self.call("GET", "/window", &Value::Null).await
    }

    /// Makes it a phone with a screen of this size.
    pub async fn be_a_phone(&self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 2,
            "mobile": true });
        self.cdp("Emulation.setDeviceMetricsOverride", &metrics).await;
        self.cdp("Emulation.setTouchEmulationEnabled", &json!({ "enabled": true })).await;
    }

    /// Has the system prefer `dark` or `light`.
    pub async fn prefer(&self, scheme: &str) {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.cdp("Emulation.setEmulatedMedia", &media).await;
    }

    /// What the window shows, as a PNG file's bytes.
    pub async fn screenshot(&self) -> Vec<u8> {
        let shot = self.cdp("Page.captureScreenshot", &json!({ "format": "png" })).await;
        base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()
    }

    /// What the pages complained about since it was last asked.
    pub async fn complaints(&self) -> Vec<String> {
        self.log("browser").await.iter().map(|entry| entry["message"].to_string()).collect()
    }

    /// Every address that was asked for since it was last asked.
    pub async fn requests(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in self.log("performance").await {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let message = &message["message"];
            // Of the browser's own making: the tab that it begins with.
            let document = message["params"]["documentURL"].as_str().unwrap_or_default();
            if document.starts_with("chrome") {
                continue;
            }
            let url = match message["method"].as_str().unwrap() {
                "Network.requestWillBeSent" => &message["params"]["request"]["url"],
                "Network.webSocketCreated" => &message["params"]["url"],
                _ => continue,
            };
            found.push(url.as_str().unwrap().to_owned());
        }
        found
    }

    async fn log(&self, kind: &str) -> Vec<Value> {
        let log = self.call("POST", "/se/log", &json!({ "type": kind })).await;
        log.as_array().cloned().unwrap_or_default()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.driver);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.driver.wait();
        // Those that have left the group are known by their profile.
        for _ in 0..100 {
            let left = running(&self.profile());
            if left.is_empty() {
                return;
            }
            for pid in left {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The processes that have a profile on their command line.
fn running(profile: &Path) -> Vec<rustix::process::Pid> {
    let needle = profile.display().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let pid = path.file_name()?.to_str()?.parse().ok()?;
            let line = std::fs::read(path.join("cmdline")).ok()?;
            let is_one = String::from_utf8_lossy(&line).contains(&needle);
            rustix::process::Pid::from_raw(pid).filter(|_| is_one)
        })
        .collect()
}

async fn exchange(address: &str, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect(address).await?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    // It keeps the connection although it was asked not to.
    let mut answer = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, rest)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length = length.and_then(|length| length.trim().parse::<usize>().ok());
            if rest.len() >= length.unwrap_or(usize::MAX) {
                return Ok(serde_json::from_str(rest)?);
            }
        }
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..read]);
    }
}
