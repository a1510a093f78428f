//! `the-loop init`: a configuration for this repository, out of what can be
//! found here and of a few answers.

mod ask;
mod files;
mod found;
mod gh;
mod github;
mod ignore;
mod remotes;

use std::collections::BTreeMap;
use std::process::ExitCode;

use self::ask::{ask, words};
use self::files::{is_no_folder, stays_in, write};
use self::found::Found;
use super::Context;
use super::doctor::needs_of;
use super::doctor::notes::Notes;
use super::doctor::stalls;
use super::setup::failure;
use crate::base::dirs::Dirs;
use crate::base::failure::{Failure, Kind};
use crate::base::ids::Repo;
use crate::base::process::{Household, shell_word};
use crate::base::text::visible;
use crate::core::config::{HarnessName, Routing, RunnerKind, SpawnPolicy, Starter, variable_shown};
use crate::core::harness::Harnesses;
use crate::doctor;
use crate::state::config_file::{self, dangles, is_there};
use crate::state::paths::StatePaths;

/// Write a configuration for this repository
///
/// Finds the repository on GitHub, your login and the agents, asks about the
/// rest, and writes `.the-loop/config.yaml`. One that is there is kept. Ends with
/// a look at what this host still lacks, and with what to do next.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop init --yes --user octocat")]
#[expect(clippy::struct_excessive_bools, reason = "they are switches of a command line")]
pub(super) struct Args {
    /// Ask nothing: take what is found and what is given here
    #[arg(long, short)]
    yes: bool,

    #[arg(long, value_name = "NAME", value_parser = read_harness, help = harness_help())]
    harness: Option<HarnessName>,

    /// How sessions are hosted: tmux or process
    #[arg(long, value_name = "RUNNER", value_parser = read_runner)]
    runner: Option<RunnerKind>,

    /// A repository that is listened to; may be given several times
    #[arg(long, value_name = "OWNER/NAME", value_parser = read_repo)]
    repo: Vec<Repo>,

    /// A GitHub login that is listened to; may be given several times
    #[arg(long, value_name = "LOGIN", value_parser = login)]
    user: Vec<String>,

    /// The label that arms an issue
    #[arg(long, value_parser = read_label)]
    label: Option<String>,

    /// When an event starts a session: never, labeled or always
    #[arg(long, value_name = "WHEN", value_parser = read_spawn)]
    spawn: Option<SpawnPolicy>,

    /// A git work tree for each item; else all sessions share one directory
    #[arg(long)]
    worktrees: bool,

    /// Show the sessions in the browser
    #[arg(long)]
    web: bool,

    /// Print the call that registers the webhook, and make its secret
    #[arg(long, requires = "url")]
    github: bool,

    /// Where GitHub reaches this host, as in `https://hooks.example.net`
    #[arg(long, value_name = "URL", requires = "github")]
    url: Option<String>,

    /// Write a new configuration over one that is there (kept beside it)
    #[arg(long)]
    force: bool,
}

impl Args {
    /// The answers that are given, by their flags: they are for a new file.
    fn answers(&self) -> Vec<&'static str> {
        [
            ("--harness", self.harness.is_some()),
            ("--runner", self.runner.is_some()),
            ("--repo", !self.repo.is_empty()),
            ("--user", !self.user.is_empty()),
            ("--label", self.label.is_some()),
            ("--spawn", self.spawn.is_some()),
            ("--worktrees", self.worktrees),
            ("--web", self.web),
        ]
        .into_iter()
        .filter_map(|(flag, is_given)| is_given.then_some(flag))
        .collect()
    }
}

/// Those that there are without a configuration.
fn known_harnesses() -> Harnesses {
    Harnesses::new(&BTreeMap::new(), None)
}

fn harness_help() -> String {
    format!("The agent: {}", known_harnesses().list().replace('`', ""))
}

fn read_harness(text: &str) -> Result<HarnessName, String> {
    let known = known_harnesses();
    let found = known.names().into_iter().find(|name| name.as_str() == text);
    found.ok_or_else(|| format!("it is one of: {}", known.list()))
}

/// How sessions of an agent can be hosted, the one that is proposed first.
fn hosts_of(name: &HarnessName) -> Vec<RunnerKind> {
    let known = known_harnesses().get(name);
    let can_be = |runner: &RunnerKind| known.as_ref().is_ok_and(|one| one.can_be(*runner));
    [RunnerKind::Tmux, RunnerKind::Process].into_iter().filter(can_be).collect()
}

fn read_runner(text: &str) -> Result<RunnerKind, String> {
    [RunnerKind::Tmux, RunnerKind::Process]
        .into_iter()
        .find(|runner| runner.as_str() == text)
        .ok_or_else(|| "it is one of: tmux, process".to_owned())
}

fn read_spawn(text: &str) -> Result<SpawnPolicy, String> {
    [SpawnPolicy::Never, SpawnPolicy::Labeled, SpawnPolicy::Always]
        .into_iter()
        .find(|policy| policy.as_str() == text)
        .ok_or_else(|| "it is one of: never, labeled, always".to_owned())
}

fn read_repo(text: &str) -> Result<Repo, String> {
    text.parse().map_err(|error: crate::base::ids::InvalidId| error.to_string())
}

fn read_label(text: &str) -> Result<String, String> {
    let is_name = !text.trim().is_empty() && !text.chars().any(char::is_control);
    is_name.then(|| text.trim().to_owned()).ok_or_else(|| "a label is one line of text".to_owned())
}

/// A GitHub login.
fn login(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('@').unwrap_or(text);
    let name = text.strip_suffix("[bot]").unwrap_or(text);
    let fits = (1..=100).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    fits.then(|| text.to_owned()).ok_or_else(|| format!("`{}` is no GitHub login", visible(text)))
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    context.block_on(Box::pin(init(context, args)))
}

async fn init(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let printer = context.printer;
    context.in_a_directory()?;
    let dirs = context.dirs()?;
    let found = Found::look(context, &dirs).await;
    let root = found.root.clone().unwrap_or_else(|| context.env.cwd().to_path_buf());
    let file = match context.named() {
        Some((file, _)) => file,
        // In a work tree, the work tree's; elsewhere one above is already the one.
        None => Some(root.join(".the-loop/config.yaml"))
            .filter(|file| found.root.is_some() || is_there(file))
            .or_else(|| config_file::search(&root))
            .unwrap_or_else(|| root.join(".the-loop/config.yaml")),
    };
    if context.named().is_none() {
        stays_in(&root, &file)?;
    }
    let shown = visible(&file.display().to_string());
    is_no_folder(&file)?;
    let made = if is_there(&file) && !dangles(&file) && !args.force {
        None
    } else {
        let starter = choose(context, args, &found, &dirs)?;
        write(&file, &starter.text(), args.force)?.then_some(starter)
    };
    if let Some(starter) = &made {
        printer.note(&format!("written  {shown}"));
        if starter.users.is_empty() {
            printer.note(&context.with_config(
                "warning: no login is listed, so no person's event is acted on;\n  \
                 `the-loop init --force --user LOGIN` lists one",
            ));
        }
        if starter.repositories.is_empty() {
            printer.note(
                "warning: no repository is listed, so every one is listened to whose deliveries\n  \
                 carry the secret; `--force --repo HOST/OWNER/NAME` lists one",
            );
        }
    } else {
        printer.note(&format!("kept     {shown} (`--force` writes a new one)"));
        let unused = args.answers();
        if !unused.is_empty() {
            printer.note(&format!(
                "warning: the file is kept, so these were not used:\n  {}\nhint: `--force` writes a new one out of them",
                unused.join(", ")
            ));
        }
    }
    let read =
        config_file::read(&file, &context.env).map_err(|error| failure(error, "`init` uses it"))?;
    let (config, paths) = (&read.config, StatePaths::new(&read.file, &read.config, &dirs));
    ignore::sessions(context, &read, &paths)?;
    if made.is_none() && config.routing.authorized_users.is_empty() {
        printer
            .note("warning: `routing.authorizedUsers` is empty, so no person's event is acted on");
    }
    let webhook = &config.webhooks.gh_webhook;
    let mut next = Vec::new();
    if let (true, Some(url)) = (args.github, &args.url) {
        let url = github::address(url, &webhook.path)
            .map_err(|why| Failure::new(Kind::Usage, format!("`--url`: {why}")))?;
        if let Some(warning) = github::doubt(&url) {
            printer.note(&format!("warning: {warning}"));
        }
        next.extend(github::calls(
            &context.env,
            webhook,
            &config.routing.repositories,
            &url,
            &paths,
        )?);
        if context.env.var_os(&webhook.secret_env).is_some() {
            printer.note(&format!(
                "warning: `{}` is set here and comes before the secret's file",
                variable_shown(&webhook.secret_env)
            ));
        }
    } else {
        next.push(context.with_config("the-loop init --github --url https://YOUR-ADDRESS"));
    }
    next.push(context.with_config("the-loop gh-webhook start"));
    next.extend(first_session(context, &config.routing));

    let request = doctor::Request {
        env: &context.env,
        dirs: &dirs,
        tools: &config.tools,
        needs: &needs_of(config),
        project: &doctor::Project::default(),
        only: &[],
    };
    // Without a person to ask, what is missing is said and nothing is fetched.
    let asks = !args.yes && printer.can_ask();
    let mut agree =
        |question: &str| asks && ask(printer, question, "yes", read_yes).unwrap_or_default();
    let notes = Notes::new(context);
    let reword = |text: &str| context.with_config(text);
    let household = Household::enter();
    let is_ready = Box::pin(doctor::offer_installs(&request, &notes, &reword, &mut agree)).await;
    drop(household);
    if !is_ready {
        printer.note(
            &context.with_config("\nThis host is not ready yet; `the-loop doctor` looks again."),
        );
    }
    stalls::warn(context, config, &paths).await?;
    printer.note("\nNext:");
    printer.data(&next.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// What a person does for the first session, where a label starts one; else says what
/// does.
fn first_session(context: &Context, routing: &Routing) -> Option<String> {
    let repo = match &routing.repositories[..] {
        [repo, ..] => repo.to_string(),
        [] => "OWNER/NAME".to_owned(),
    };
    if !routing.enabled {
        context.printer.note("warning: `routing.enabled` is false: deliveries are only recorded");
        return None;
    }
    if routing.spawn_on_unmatched != SpawnPolicy::Never {
        let label = shell_word(&routing.auto_execute_label);
        return Some(format!("gh issue edit NUMBER --repo {repo} --add-label {label}"));
    }
    let by_comment =
        if routing.control { "\n  does so, or a comment `the-loop start`" } else { " does" };
    let register = format!("the-loop sessions register {repo}#NUMBER");
    context.printer.note(&context.with_config(&format!(
        "note: no label starts a session here (`routing.spawnOnUnmatched: never`):\n  \
         `{register}`{by_comment}"
    )));
    Some(context.with_config(&register))
}

fn read_yes(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "y" => Ok(true),
        "no" | "n" => Ok(false),
        _ => Err("it is `yes` or `no`".to_owned()),
    }
}

/// What the configuration is to say: what is given, what is found, and answers.
fn choose(context: &Context, args: &Args, found: &Found, dirs: &Dirs) -> Result<Starter, Failure> {
    let printer = context.printer;
    for remote in &found.remotes {
        printer.note(&format!("found    {} (remote `{}`)", remote.repo, visible(&remote.name)));
    }
    for host in &found.other_hosts {
        printer.note(&format!("passed   a remote on {host}: not known as a GitHub"));
    }
    for (login, who) in &found.logins {
        printer.note(&format!("found    you are {login} ({who})"));
    }
    for host in &found.refused_at {
        printer.note(&format!(
            "warning: {host} does not take the GitHub CLI's log-in any more:\n  \
             `gh auth login --hostname {host}` renews it"
        ));
    }
    for (agent, path) in &found.agents {
        printer.note(&format!("found    {agent} ({})", visible(&path.display().to_string())));
    }
    let asks = !args.yes && printer.can_ask();
    if !args.yes && !asks {
        return Err(Failure::refused("there is no terminal to ask on; nothing was written")
            .hint("`the-loop init --yes` takes what is found; `the-loop init --help`\n      shows what can be given"));
    }
    let all = |text: &str| words(text).iter().map(|word| read_repo(word)).collect();
    let found_repos: Vec<_> = found.remotes.iter().map(|remote| remote.repo.clone()).collect();
    let names: Vec<_> = found_repos.iter().map(ToString::to_string).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let repositories: Vec<Repo> = match (&args.repo[..], asks) {
        ([], true) => ask(printer, "Repositories to listen to", &names, all)?,
        ([], false) => found_repos,
        (given, _) => given.to_vec(),
    };
    let found_logins: Vec<_> = found.logins.iter().map(|(login, _)| login.clone()).collect();
    let me = if found_logins.is_empty() { "none".to_owned() } else { found_logins.join(", ") };
    let logins = |text: &str| words(text).iter().map(|word| login(word)).collect();
    let users: Vec<String> = match (&args.user[..], asks) {
        ([], true) => ask(printer, "GitHub logins to listen to", &me, logins)?,
        ([], false) => found_logins,
        (given, _) => given.to_vec(),
    };
    let proposed = found.agents.first().map_or(HarnessName::Claude, |(name, _)| name.clone());
    let harness = match &args.harness {
        Some(harness) => harness.clone(),
        None if asks => {
            let question = format!("Agent ({})", known_harnesses().list());
            ask(printer, &question, proposed.as_str(), read_harness)?
        }
        None => proposed,
    };
    let hosts = hosts_of(&harness);
    let runner = match args.runner {
        Some(runner) if !hosts.contains(&runner) => {
            let why = format!("`--runner`: {harness} cannot be hosted by {}", runner.as_str());
            return Err(Failure::new(Kind::Usage, why));
        }
        Some(runner) => runner,
        None if asks && hosts.len() > 1 => {
            ask(printer, "Hosted in (tmux, process)", "tmux", read_runner)?
        }
        None => hosts[0],
    };
    let spawn = match args.spawn {
        Some(spawn) => spawn,
        None if asks => {
            ask(printer, "Start a session (never, labeled, always)", "labeled", read_spawn)?
        }
        None => SpawnPolicy::Labeled,
    };
    let default = "the-loop: auto-execute";
    let label = match &args.label {
        Some(label) => label.clone(),
        None if asks && spawn == SpawnPolicy::Labeled => {
            ask(printer, "The label that arms an issue", default, read_label)?
        }
        None => default.to_owned(),
    };
    let worktrees = args.worktrees
        || (asks && ask(printer, "A git work tree for each item (yes, no)", "no", read_yes)?);
    let secret_file = secret_file(context, dirs, repositories.first());
    Ok(Starter {
        runner,
        harness,
        others: found.agents.iter().map(|(name, _)| name.clone()).collect(),
        spawn,
        label,
        secret_file,
        users: once(users),
        repositories: once(repositories),
        worktrees,
        web: args.web,
    })
}

/// Each once, where it stands first.
fn once<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    all.into_iter().fold(Vec::new(), |mut kept, one| {
        if !kept.contains(&one) {
            kept.push(one);
        }
        kept
    })
}

/// Where the webhook's secret is kept: with the user, not with the project.
fn secret_file(context: &Context, dirs: &Dirs, repo: Option<&Repo>) -> String {
    let named = |repo: &Repo| match (repo.host(), repo.owner(), repo.name()) {
        ("github.com", owner, name) => format!("{owner}+{name}"),
        // Another host in front, as in the names of sessions.
        (host, owner, name) => format!("{}+{owner}+{name}", host.replace(':', "_")),
    };
    let name = repo.map_or_else(|| "webhook".to_owned(), named);
    let path = dirs.state.join("secrets").join(name);
    let below = context.env.home().and_then(|home| path.strip_prefix(home).ok());
    below.map_or_else(|| path.display().to_string(), |below| format!("~/{}", below.display()))
}
