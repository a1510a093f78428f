//! `the-loop web`: where the sessions can be seen in a browser.

use std::process::ExitCode;

use super::Context;
use super::sessions::resolve;
use super::setup::Loaded;
use crate::base::failure::{Failure, chain};
use crate::base::ids::Slug;
use crate::base::text::visible;
use crate::core::session::SessionRecord;
use crate::doctor;
use crate::serve::control;

/// What opens an address on a desktop, the first that is there.
const OPENERS: &[&str] =
    if cfg!(target_os = "macos") { &["/usr/bin/open"] } else { &["xdg-open", "wslview", "gio"] };

/// Print the address of the web terminal, or of a session in it
///
/// The receiver must run, with `routing.webTerminal.enabled`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop web octo/hello#15 --open")]
pub(super) struct Args {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: Option<String>,

    /// Only watch: the page takes no keys
    #[arg(long, requires = "item")]
    watch: bool,

    /// Open it in the browser of this desktop too
    #[arg(long)]
    open: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let page = match &args.item {
        None => String::new(),
        Some(item) => {
            let (slug, record) = resolve(&loaded, item)?;
            page_of(&slug, &record, args.watch)
        }
    };
    let status = context.block_on(control::ask_status(&loaded.paths.control()))?;
    let status = status.ok_or_else(|| {
        Failure::refused("no receiver runs with this configuration")
            .hint("`the-loop gh-webhook start` starts it")
    })?;
    let base = status.web_url.ok_or_else(|| {
        Failure::refused("the receiver serves no web terminal: `routing.webTerminal.enabled`")
            .hint("set it to `true`, and `the-loop gh-webhook stop` and `start`")
    })?;
    let url = address(&base, &page);
    context.printer.data(&visible(&url))?;
    if args.open {
        open(context, &url)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of a session, below the web terminal's address.
fn page_of(slug: &Slug, record: &SessionRecord, watch: bool) -> String {
    let place = if watch || record.is_headless() { "v" } else { "s" };
    format!("{place}/{slug}/")
}

fn address(base: &str, page: &str) -> String {
    // A socket file has no pages in its name.
    if base.starts_with("unix:") { base.to_owned() } else { format!("{base}{page}") }
}

/// Where the session can be seen in a browser, while the receiver serves that.
pub(super) fn url_of(base: Option<&str>, record: &SessionRecord) -> Option<String> {
    let base = base.filter(|base| !base.starts_with("unix:"))?;
    Some(address(base, &page_of(&record.slug(), record, false)))
}

/// The web terminal's address; nothing where there is none, or no answer.
pub(super) fn base(context: &Context, loaded: &Loaded) -> Option<String> {
    let status = context.block_on(control::ask_status(&loaded.paths.control()));
    status.ok().flatten()?.web_url
}

fn open(context: &Context, url: &str) -> Result<(), Failure> {
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(Failure::refused("a browser cannot open a socket file")
            .hint("forward a port to it: `ssh -L 7681:SOCKET HOST`, then http://localhost:7681/"));
    }
    let found =
        OPENERS.iter().find_map(|name| Some((name, doctor::named(name, &context.env).ok()?)));
    let Some((name, (tool, desktop))) = found else {
        let names = OPENERS.join("`, `");
        return Err(Failure::refused(format!("nothing here opens a browser: no `{names}`"))
            .hint("paste the address into one"));
    };
    let verb: &[&str] = if *name == "gio" { &["open"] } else { &[] };
    let call = desktop
        .iter()
        .fold(tool.invocation(), |call, (name, value)| call.env(name, value))
        .args(verb)
        .arg(url);
    context.block_on(async {
        call.run_ok().await.map(drop).map_err(|error| {
            Failure::failed(format!("`{name}` did not open the address: {}", chain(&error)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_file_has_no_pages() {
        assert_eq!(address("http://h:1/", "s/o+r+1/"), "http://h:1/s/o+r+1/");
        assert_eq!(address("unix:/x/y", "s/o+r+1/"), "unix:/x/y");
    }
}
