//! Paths of the configuration: `~/` is the user's home, and what is relative is
//! relative to the project, wherever the program was started. A program's path is
//! never relative.

use std::path::{Path, PathBuf};

use super::model::Config;

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

fn resolve(path: &Path, project: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest).components().collect(),
        // `components` drops the `.` of `./x`, so that messages read well.
        _ => project.join(path).components().collect(),
    }
}

#[cfg(test)]
mod tests {
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
}
