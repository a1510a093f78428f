//! `--report`: what a bug report needs, without what is nobody's business. No
//! secret, login, repository or host name is in it; the home directory is `~`.
//! Texts are hidden before they are laid out, so that lines stay straight.

use std::fmt::Write as _;
use std::path::Path;

use super::Context;
use super::hide::Hider;
use super::managed::WIDTH;
use crate::base::text::{count, visible};
use crate::core::config::{Config, leaves};
use crate::doctor::{Finding, Report};

/// Variables whose values tell something about a fault and nothing of a person.
const SHOWN: &[&str] =
    &["LANG", "LC_ALL", "LC_CTYPE", "TERM", "COLORTERM", "SHELL", "PATH", "TMPDIR", "TMUX_TMPDIR"];
/// Variables of which only their being set is told.
const NAMED: &[&str] = &[
    "TMUX",
    "SSH_CONNECTION",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "SSL_CERT_FILE",
    "THE_LOOP_MIRROR",
    "THE_LOOP_HOME",
    "THE_LOOP_CONFIG",
    "TERMINFO",
    "TERMINFO_DIRS",
    "XDG_RUNTIME_DIR",
];

/// The bundle as text.
pub(super) fn text(
    context: &Context,
    report: &mut Report,
    config: Option<&Config>,
    project: Option<&Path>,
) -> String {
    let env = &context.env;
    let place = project.and_then(Path::file_name).map(|name| name.to_string_lossy());
    let hider = Hider::new(context, config, place.as_deref());
    report.reword(|text| hider.hide(text));
    let mut out = format!("the-loop {}\n\n", env!("CARGO_PKG_VERSION"));
    out.push_str(&report.render(true));
    out.push_str("\nvariables:\n");
    for name in SHOWN {
        if let Some(value) = env.var_os(name) {
            let mut line = format!("  {name}={}", hider.hide(&visible(&value.to_string_lossy())));
            if line.chars().count() > WIDTH {
                // One entry of a list on each line: none is broken.
                line = line.replace(':', ":\n    ");
            }
            let _ = writeln!(out, "{line}");
        }
    }
    for name in NAMED.iter().filter(|name| env.var_os(name).is_some()) {
        let _ = writeln!(out, "  {name} is set");
    }
    if let Some(config) = config {
        let routing = &config.routing;
        let _ = write!(
            out,
            "\nconfiguration:\n  runner {}, harness {}, {}, {}\n",
            routing.runner.as_str(),
            routing.default_harness.as_str(),
            count(routing.authorized_users.len(), "user"),
            match routing.repositories.len() {
                1 => "1 repository".to_owned(),
                number => format!("{number} repositories"),
            },
        );
    }
    out
}

/// What is wrong with a configuration, without what stands in it: where it
/// cannot be understood, nobody knows which of its words are names.
pub(super) fn masked(mut about: Finding) -> Finding {
    mask(&about.what).trim_end_matches(':').clone_into(&mut about.what);
    // Its lines are shown with a pointer; the place is told with the fault.
    about.evidence.retain(|line| !line.starts_with(' ') && !line.contains(" |"));
    about.evidence.iter_mut().for_each(|line| *line = mask(line));
    about.remedy = None;
    about
}

/// Replaces what is quoted, but for the names of keys.
fn mask(text: &str) -> String {
    let keys = leaves(&Config::default());
    let is_key = |quoted: &str| {
        let quoted = quoted.split('[').next().unwrap_or_default();
        keys.iter().any(|leaf| {
            leaf.key
                .strip_prefix(quoted)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['`', '"', '\'']) {
        let mark = char::from(rest.as_bytes()[at]);
        let (before, quoted) = rest.split_at(at + 1);
        out.push_str(before);
        let end = quoted.find(mark).unwrap_or(quoted.len());
        out.push_str(if is_key(&quoted[..end]) { &quoted[..end] } else { "…" });
        rest = &quoted[end..];
        if let Some(behind) = rest.strip_prefix(mark) {
            out.push(mark);
            rest = behind;
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_the_configuration_is_told_without_its_words() {
        let said = mask("x.yaml:2:3: `routing.repositories[1]` is not `octo7`: \"hunter2\" is `a");
        assert_eq!(said, "x.yaml:2:3: `routing.repositories[1]` is not `…`: \"…\" is `…");
    }
}
