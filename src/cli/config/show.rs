//! `the-loop config show`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::base::failure::{Failure, chain};
use crate::base::terminal::table;
use crate::base::text::{visible, wrapped};
use crate::cli::setup::{FileOrigin, Loaded};
use crate::cli::{Context, json};
use crate::core::config::{HarnessOrigin, Leaf, harness_leaves, leaves, lines};
use crate::serve::receiver::Secret;

/// Columns of a line for people.
const WIDTH: usize = 80;

/// Show every value that is in effect, and where it comes from
///
/// A long value is cut; `--json` has all of it. The webhook's secret is never
/// shown, only whether there is one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop config show --json")]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Where a value comes from.
enum Origin {
    Default,
    Line(usize),
    Shipped,
    Environment(&'static str),
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load_own()?;
    let values = values(context, &loaded);
    if values.is_empty() {
        return Err(Failure::failed("a path of the configuration is not UTF-8 text"));
    }
    let secret = Secret::load(&context.env, &loaded.config.webhooks.gh_webhook);
    let secret = match secret {
        Ok(_) if context.env.var_os(&loaded.config.webhooks.gh_webhook.secret_env).is_some() => {
            Ok("environment")
        }
        Ok(_) => Ok("file"),
        Err(error) => Err(chain(&error)),
    };
    if args.json {
        context.printer.data(&json::render(&as_json(&loaded, &values, secret.ok())))?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = values
        .iter()
        .map(|(leaf, origin)| {
            let origin = match origin {
                Origin::Default => "default".to_owned(),
                Origin::Line(line) => format!("line {line}"),
                Origin::Shipped => "shipped".to_owned(),
                Origin::Environment(name) => (*name).to_owned(),
            };
            vec![leaf.key.clone(), origin, leaf.shown()]
        })
        .collect();
    let file = visible(&loaded.file.display().to_string());
    let secret = match secret {
        Ok(from) => format!("there is one, from the {from}"),
        Err(error) => visible(&error),
    };
    context.printer.data(&format!(
        "{file}\n({})\n\n{}\n{}",
        loaded.origin.why(),
        shortened(&table(&["KEY", "FROM", "VALUE"], &rows, usize::MAX)),
        wrapped(&format!("webhook's secret: {secret}"), WIDTH, "  ").trim_start()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The values in effect. Where none is set for the state, its place is shown.
fn values(context: &Context, loaded: &Loaded) -> Vec<(Leaf, Origin)> {
    let set: BTreeMap<_, _> = lines(&loaded.text);
    let mut config = loaded.config.clone();
    config.state.dir.get_or_insert_with(|| loaded.paths.dir.clone());
    let home = context.env.var_os("THE_LOOP_HOME").is_some();
    let harnesses = harness_leaves(&config, &loaded.text);
    let harnesses = harnesses.into_iter().map(|(leaf, origin)| match origin {
        HarnessOrigin::Line(line) => (leaf, Origin::Line(line)),
        HarnessOrigin::Shipped => (leaf, Origin::Shipped),
        HarnessOrigin::Default => (leaf, Origin::Default),
    });
    let harnesses: Vec<_> = harnesses.collect();
    // Each value of those that are used, instead of all in one line.
    let is_shown = |leaf: &Leaf| leaf.key != "harnesses" || harnesses.is_empty();
    let others: Vec<_> = leaves(&config)
        .into_iter()
        .filter(is_shown)
        .map(|leaf| {
            let origin = match set.get(&leaf.key) {
                Some(line) => Origin::Line(*line),
                None if home && leaf.key == "state.dir" => Origin::Environment("THE_LOOP_HOME"),
                None => Origin::Default,
            };
            (leaf, origin)
        })
        .collect();
    others.into_iter().chain(harnesses).collect()
}

fn as_json(loaded: &Loaded, values: &[(Leaf, Origin)], secret: Option<&str>) -> Value {
    let values: Vec<_> = values
        .iter()
        .map(|(leaf, origin)| {
            // What may be a secret in the wrong place stays hidden here too.
            let value =
                if leaf.shown() == "(not shown)" { Value::Null } else { leaf.value.clone() };
            let mut value = json!({ "key": leaf.key, "value": value });
            match origin {
                Origin::Default => value["origin"] = "default".into(),
                Origin::Shipped => value["origin"] = "shipped".into(),
                Origin::Line(line) => {
                    value["origin"] = "file".into();
                    value["line"] = (*line).into();
                }
                Origin::Environment(name) => {
                    value["origin"] = "environment".into();
                    value["variable"] = (*name).into();
                }
            }
            value
        })
        .collect();
    let origin = match loaded.origin {
        FileOrigin::CommandLine => "commandLine",
        FileOrigin::Environment => "environment",
        FileOrigin::Found => "found",
        FileOrigin::User => "user",
    };
    json!({
        "schema": 1, "file": loaded.file.display().to_string(), "fileOrigin": origin,
        "secretFrom": secret, "values": values,
    })
}

/// Lines that fit; a cut one says so.
fn shortened(table: &str) -> String {
    let lines = table.lines().map(|line| {
        if line.chars().count() <= WIDTH {
            return format!("{line}\n");
        }
        format!("{}…\n", line.chars().take(WIDTH - 1).collect::<String>())
    });
    lines.collect()
}
