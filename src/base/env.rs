//! What the process was given: variables, working directory, its own path.
//!
//! Read once at the start and passed down as a value. Nothing else in the
//! program looks at the process's environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables that a program we start may see. Everything else, above all our
/// own secrets, stays with us.
const PASSED_ON: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "TERMINFO",
    "TERMINFO_DIRS",
    "TMPDIR",
    "TMUX_TMPDIR",
    "COLORTERM",
    "SSH_AUTH_SOCK",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Families of variables that a program we start may see.
const PASSED_ON_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// A snapshot of the process's surroundings.
#[derive(Debug, Clone)]
pub struct Env {
    vars: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
    is_cwd_gone: bool,
    program: PathBuf,
}

impl Env {
    /// Reads the surroundings of this process.
    #[expect(clippy::disallowed_methods, reason = "this is the one reader")]
    pub fn from_os() -> Self {
        let (cwd, is_cwd_gone) = match std::env::current_dir() {
            Ok(cwd) => (cwd, false),
            Err(_) => (PathBuf::from("/"), true),
        };
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("the-loop"));
        Self { is_cwd_gone, ..Self::fixed(std::env::vars_os(), cwd, program) }
    }

    /// Surroundings made by hand, for tests.
    pub fn fixed<K: Into<OsString>, V: Into<OsString>>(
        vars: impl IntoIterator<Item = (K, V)>,
        cwd: impl Into<PathBuf>,
        program: impl Into<PathBuf>,
    ) -> Self {
        let vars = vars.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { vars, cwd: cwd.into(), is_cwd_gone: false, program: program.into() }
    }

    /// A variable's value; unset and empty are the same.
    pub fn var_os(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable's value when it is UTF-8; unset and empty are the same.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.var_os(name).and_then(OsStr::to_str)
    }

    /// The user's home directory.
    pub fn home(&self) -> Option<&Path> {
        self.var_os("HOME").map(Path::new)
    }

    /// The directory the process was started in; `/` where that was removed.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Whether the directory the process was started in was removed. What is looked
    /// for from there, or to be made there, is then to be looked for nowhere.
    pub fn is_cwd_gone(&self) -> bool {
        self.is_cwd_gone
    }

    /// The path of the running `the-loop` binary.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The absolute directories of `PATH`, in order. Relative entries are left
    /// out: they would resolve inside whatever tree the caller stands in.
    pub fn path_dirs(&self) -> Vec<PathBuf> {
        self.var_os("PATH")
            .map(|path| std::env::split_paths(path).filter(|dir| dir.is_absolute()).collect())
            .unwrap_or_default()
    }

    /// The variables that a started program may see, with a UTF-8 locale and
    /// without anything of an enclosing tmux.
    pub fn passed_on(&self) -> BTreeMap<OsString, OsString> {
        let mut passed: BTreeMap<_, _> = self
            .vars
            .iter()
            .filter(|(name, _)| {
                name.to_str().is_some_and(|name| {
                    PASSED_ON.contains(&name)
                        || PASSED_ON_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
                })
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !self.locale_is_utf8() {
            passed.remove(OsStr::new("LC_ALL"));
            passed.insert("LC_CTYPE".into(), "C.UTF-8".into());
        }
        passed
    }

    /// Whether the locale that decides about characters is UTF-8.
    pub fn locale_is_utf8(&self) -> bool {
        ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| self.var(name))
            .map(str::to_ascii_lowercase)
            .is_some_and(|locale| locale.contains("utf-8") || locale.contains("utf8"))
    }

    /// A copy with one variable set, for tests and for the demo.
    #[must_use]
    pub fn with_var(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.vars.insert(name.into(), value.into());
        self
    }

    /// A copy that stands in another directory, for tests and for the demo.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(vars: &[(&str, &str)]) -> Env {
        Env::fixed(vars.iter().copied(), "/srv", "/bin/the-loop")
    }

    #[test]
    fn a_secret_is_not_passed_on() {
        let env =
            env(&[("HOME", "/h"), ("THE_LOOP_GH_WEBHOOK_SECRET", "s"), ("GITHUB_TOKEN", "t")]);
        let passed = env.passed_on();
        assert!(passed.contains_key(OsStr::new("HOME")));
        assert!(!passed.contains_key(OsStr::new("THE_LOOP_GH_WEBHOOK_SECRET")));
        assert!(!passed.contains_key(OsStr::new("GITHUB_TOKEN")));
    }

    #[test]
    fn an_enclosing_tmux_is_not_passed_on() {
        let env = env(&[("TMUX", "/tmp/x,1,2"), ("TMUX_PANE", "%1")]);
        assert!(env.passed_on().keys().all(|name| !name.to_string_lossy().starts_with("TMUX")));
    }

    #[test]
    fn a_started_program_always_has_a_utf8_locale() {
        let passed = env(&[("LC_ALL", "C"), ("LANG", "C")]).passed_on();
        assert_eq!(passed.get(OsStr::new("LC_CTYPE")), Some(&"C.UTF-8".into()));
        assert!(!passed.contains_key(OsStr::new("LC_ALL")));
    }

    #[test]
    fn relative_path_entries_are_ignored() {
        let env = env(&[("PATH", "bin:/usr/bin::./x:/bin")]);
        assert_eq!(env.path_dirs(), [PathBuf::from("/usr/bin"), PathBuf::from("/bin")]);
    }
}
