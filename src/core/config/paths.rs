//! Paths of the configuration: `~/` is the user's home, and what is relative is
//! relative to the project, wherever the program was started. A program's path is
//! never relative.

use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::load::fault_at;
use super::model::Config;
use crate::base::files::SOCKET_PATH;

impl Config {
    /// Makes every path absolute.
    pub fn resolve_paths(&mut self, project: &Path, home: Option<&Path>) {
        let tools = &mut self.tools;
        let optional = [
            &mut self.routing.prompt_template,
            &mut self.routing.spawn_prompt_template,
            &mut self.routing.tmux.socket,
            &mut self.routing.web_terminal.socket,
            &mut self.webhooks.gh_webhook.secret_file,
            &mut self.state.dir,
            &mut self.routing.workspace.root,
        ];
        for path in optional.into_iter().flatten() {
            *path = resolve(path, project, home);
        }
        let programs = [&mut tools.tmux, &mut tools.ttyd, &mut tools.git, &mut tools.claude];
        for path in programs.into_iter().filter_map(|tool| tool.path.as_mut()) {
            // Never out of the project: without a home it stays relative, and the
            // doctor refuses it.
            if let (Ok(rest), Some(home)) = (path.strip_prefix("~"), home) {
                *path = home.join(rest).components().collect();
            }
        }
        let workdir = &mut self.routing.spawn_workdir;
        *workdir = resolve(workdir, project, home);
    }
}

impl Config {
    /// The fault of the first socket whose path has no room in its address. The paths are
    /// absolute; `text` is the file's.
    pub fn long_socket(&self, file: &Path, text: &str) -> Option<ConfigError> {
        let routing = &self.routing;
        let sockets = [
            ("routing.tmux.socket", &routing.tmux.socket),
            ("routing.webTerminal.socket", &routing.web_terminal.socket),
        ];
        sockets.into_iter().find_map(|(key, path)| {
            let length = path.as_ref()?.as_os_str().len();
            let what = format!("its path has {length} bytes; a socket's may have {SOCKET_PATH}");
            (length > SOCKET_PATH)
                .then(|| fault_at(file, text, key, &what).hint("choose a shorter path for it"))
        })
    }
}

fn resolve(path: &Path, project: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest).components().collect(),
        // `components` drops the `.` of `./x`, so that messages read well.
        _ => project.join(path).components().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn no_program_is_taken_out_of_the_project() {
        let tool = |path: &str, home| {
            let mut config = Config::default();
            config.tools.tmux.path = Some(PathBuf::from(path));
            config.resolve_paths(Path::new("/p"), home);
            config.tools.tmux.path.unwrap()
        };
        let home = Some(Path::new("/home/u"));
        assert_eq!(tool("~/bin/tmux", home), Path::new("/home/u/bin/tmux"));
        assert_eq!(tool("~/bin/tmux", None), Path::new("~/bin/tmux"));
        assert_eq!(tool("bin/tmux", home), Path::new("bin/tmux"));
    }

    #[test]
    fn relative_means_relative_to_the_project() {
        let mut config = Config::default();
        config.state.dir = Some(PathBuf::from("~/state"));
        config.tools.tmux.path = Some(PathBuf::from("/opt/tmux"));
        config.webhooks.gh_webhook.secret_file = Some(PathBuf::from("./secret"));
        config.resolve_paths(Path::new("/p"), Some(Path::new("/home/u")));
        assert_eq!(config.routing.spawn_workdir, Path::new("/p"));
        assert_eq!(config.state.dir.unwrap(), Path::new("/home/u/state"));
        assert_eq!(config.tools.tmux.path.unwrap(), Path::new("/opt/tmux"));
        let secret = config.webhooks.gh_webhook.secret_file.unwrap();
        assert_eq!(secret.as_os_str(), "/p/secret");
    }

    #[test]
    fn a_socket_has_a_path_of_a_hundred_bytes_at_most_wherever_it_is() {
        let long = |text: &str| {
            let mut config = parse(text, Path::new("c")).unwrap();
            config.resolve_paths(Path::new("/p"), None);
            config.long_socket(Path::new("c"), text).map(|fault| fault.render())
        };
        let fits = "x".repeat(100 - "/p/".len());
        let text =
            format!("routing:\n  tmux: {{socket: {fits}}}\n  webTerminal: {{socket: {fits}}}\n");
        assert_eq!(long(&text), None);
        for key in ["tmux", "webTerminal"] {
            let text = format!("routing:\n  {key}:\n    socket: {fits}y\n");
            let told = long(&text).unwrap();
            let place = "c:3:13";
            let what = "its path has 101 bytes; a socket's may have 100";
            let head = told.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                head.starts_with(&format!("{place}: `routing.{key}.socket`: {what} ")),
                "{told}"
            );
            assert!(told.ends_with("\nhint: choose a shorter path for it"), "{told}");
        }
    }
}
