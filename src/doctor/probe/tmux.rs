//! Lets tmux do what sessions need of it: a private server shows a pane, and a
//! bracketed paste of awkward bytes arrives in it byte for byte. The user's own
//! server and configuration are not touched.

use std::path::Path;
use std::time::Duration;

use fs_err as fs;

use super::scratch::{Doomed, Scratch, wait_for};
use super::{SHOWN, Unchecked};
use crate::base::process::{ExecError, Invocation, ending};
use crate::base::runtime::more;
use crate::base::text::{cap, visible};
use crate::doctor::tool::Tool;
use crate::doctor::trouble::Trouble;

/// How long one command of tmux may take.
const COMMAND_DEADLINE: Duration = Duration::from_secs(5);
/// How long the pane may take to be ready, and the paste to arrive.
const PANE_DEADLINE: Duration = Duration::from_secs(5);
/// How long the server may take to be gone after it was told to end.
const END_DEADLINE: Duration = Duration::from_secs(2);

const SOCKET: &str = "s";
const PANE: &str = "probe:";
const BUFFER: &str = "the-loop-probe";

/// Asks for bracketed paste, says so, and keeps every byte. `$1` is the file. It
/// ends by itself, and the server with it, when nobody is left to end it.
const READER: &str = r#"PATH="$PATH:/usr/bin:/bin"
(sleep 30; kill $$) &
stty raw -echo && printf '\033[?2004h' && printf 'reader is ready' && exec cat > "$1""#;
const READY: &str = "reader is ready";

/// What a careless path would change: a shell mode's mark, tabs, line ends,
/// characters of two to four bytes, a key's name, spaces at the end.
const PAYLOAD: &str =
    "plain\n!echo no\n\ttab\ttab\n/slash\näß 漢字 🦀 e\u{301}\nEnter\n$(x) `y` \\ \"q\" '\n  end  ";
const PASTE_START: &str = "\x1b[200~";
const PASTE_END: &str = "\x1b[201~";

/// Probes a tmux. `Ok(Some(_))` when this host gave no room for the probe.
pub(super) async fn probe(tool: &Tool) -> Result<Option<Unchecked>, Trouble> {
    let dir = match Scratch::new(tool, SOCKET) {
        Ok(dir) => dir,
        Err(why) => return Ok(Some(Unchecked { check: "paste", why })),
    };
    let server = Server { tool, dir: dir.path() };
    let mut doomed = Doomed::new(None);
    let result = server.paste(&mut doomed).await;
    // Whatever happened: no server stays behind. One that never started has nobody to tell.
    let _ = server.command("kill-server").deadline(END_DEADLINE).run().await;
    doomed.wait(END_DEADLINE).await;
    dir.judged("paste", result)
}

struct Server<'a> {
    tool: &'a Tool,
    dir: &'a Path,
}

impl Server<'_> {
    fn command(&self, verb: &str) -> Invocation {
        self.tool
            .invocation()
            .arg("-S")
            .arg(self.dir.join(SOCKET))
            .args(["-f", "/dev/null", verb])
            .deadline(COMMAND_DEADLINE)
    }

    async fn paste(&self, doomed: &mut Doomed) -> Result<(), Trouble> {
        let got = self.dir.join("got");
        let started = self
            .command("new-session")
            .args(["-d", "-x", "80", "-y", "24", "-s", "probe", "-P", "-F", "#{pid}"])
            .args(["/bin/sh", "-c", READER, "reader"])
            .arg(&got)
            .run_ok()
            .await
            .map_err(|error| misbehaved("server", "new-session", error))?;
        *doomed = Doomed::new(started.stdout_text().trim().parse().ok());

        let ready = wait_for(PANE_DEADLINE, async || {
            let capture = self.command("capture-pane").args(["-p", "-t", PANE]);
            match capture.run_ok().await {
                Ok(shown) => shown.stdout_text().contains(READY).then_some(Ok(())),
                // A server that answered once and then does not is gone.
                Err(error) => Some(Err(misbehaved("pane", "capture-pane", error))),
            }
        });
        let what = "does not show the text of a program in a pane of a private server";
        let silent = || Trouble::Misbehaved { probe: "pane", what: what.to_owned() };
        ready.await.ok_or_else(silent)??;

        let load = self.command("load-buffer").args(["-b", BUFFER, "-"]).stdin(PAYLOAD);
        load.run_ok().await.map_err(|error| misbehaved("paste", "load-buffer", error))?;
        let paste = self.command("paste-buffer");
        let paste = paste.args(["-p", "-r", "-d", "-b", BUFFER, "-t", PANE]);
        paste.run_ok().await.map_err(|error| misbehaved("paste", "paste-buffer", error))?;
        let expected = format!("{PASTE_START}{PAYLOAD}{PASTE_END}");
        let arrived = wait_for(PANE_DEADLINE, async || {
            fs::read(&got).ok().filter(|bytes| bytes.len() >= expected.len())
        });
        let arrived = match arrived.await {
            Some(arrived) => arrived,
            None => fs::read(&got).unwrap_or_default(),
        };
        if arrived == expected.as_bytes() {
            return Ok(());
        }
        let shown = cap(&visible(&String::from_utf8_lossy(&arrived)), SHOWN);
        Err(Trouble::Misbehaved {
            probe: "paste",
            what: format!(
                "changed a bracketed paste: {} bytes arrived and not {}: `{shown}`",
                arrived.len(),
                expected.len()
            ),
        })
    }
}

/// About a command of tmux that failed: by its name, for all of it is long and says
/// no more.
fn misbehaved(probe: &'static str, verb: &str, error: ExecError) -> Trouble {
    let how = match error {
        ExecError::NotStarted { source, .. } | ExecError::Io { source, .. }
            if more(&source).is_some() =>
        {
            return Trouble::Unreadable { source };
        }
        ExecError::NotStarted { source, .. } => format!("could not be started: {source}"),
        ExecError::Io { source, .. } => format!("broke off: {source}"),
        ExecError::TimedOut { after, .. } => format!("did not end within {} s", after.as_secs()),
        ExecError::Failed { output, .. } => {
            let said = output.complaint();
            let said = if said.is_empty() { said } else { format!(": {said}") };
            format!("ended with {}{said}", ending(output.status))
        }
    };
    let what = format!("did not serve on a private socket: {verb} {how}");
    Trouble::Misbehaved { probe, what }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::base::env::Env;
    use crate::doctor::tool::Origin;

    #[tokio::test]
    async fn the_step_that_failed_is_named_and_not_its_command() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tmux");
        let env = Env::fixed([("PATH", "/usr/bin:/bin")], "/", "/bin/the-loop");
        let begins = "did not serve on a private socket: ";
        for (does, how) in [
            (
                "echo 'create session failed' >&2; exit 1",
                "new-session ended with exit code 1: create session failed",
            ),
            (
                "case \"$*\" in *new-session*) echo 1; exit 0;; *capture*) echo gone >&2;; esac; exit 1",
                "capture-pane ended with exit code 1: gone",
            ),
        ] {
            fs::write(&path, format!("#!/bin/sh\n{does}\n")).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
            let tool = Tool::candidate("tmux", &path, Origin::System, &env);
            let why = probe(&tool).await.unwrap_err().to_string();
            assert_eq!(why, format!("{begins}{how}"));
        }
    }
}
