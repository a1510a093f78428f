//! What a declaration of a harness says that cannot be meant: found when the file is
//! read, not by the first event.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use super::super::model::{DeclaredHarness, Identity};
use super::super::suggest::nearest;
use super::super::tree::Step;
use super::super::values::shown;
use crate::core::platform::Version;

/// What a word of a command line may name.
const PLACEHOLDERS: [&str; 7] =
    ["{id}", "{cwd}", "{cwdString}", "{hook}", "{hookString}", "{trust}", "{args}"];

/// The longest pause that makes sense while somebody waits, in milliseconds.
const LONGEST: u32 = 60_000;

/// A fault: the keys below the declaration that lead to it, and what is wrong.
pub(super) struct Fault {
    pub(super) path: Vec<Step>,
    pub(super) what: String,
    pub(super) hint: String,
}

/// The first fault in what a declaration itself says.
pub(super) fn fault(own: &DeclaredHarness) -> Option<Fault> {
    at_paths(own).or_else(|| at_placeholders(own)).or_else(|| at_values(own))
}

fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}

fn new(path: Vec<Step>, what: impl Into<String>, hint: impl Into<String>) -> Fault {
    Fault { path, what: what.into(), hint: hint.into() }
}

/// Files stand below the user's home, and stay there.
fn at_paths(own: &DeclaredHarness) -> Option<Fault> {
    let files = own.files.keys().map(|file| (vec![key("files")], file));
    let first_run = own.first_run.iter().enumerate().map(|(at, question)| {
        (vec![key("firstRun"), Step::Index(at), key("file")], &question.file)
    });
    let settled_by = own.first_run.iter().enumerate().flat_map(|(at, question)| {
        let place = move |file: &String| {
            vec![key("firstRun"), Step::Index(at), key("settledBy"), key(file)]
        };
        question.settled_by.keys().map(move |file| (place(file), file))
    });
    let (path, file) =
        files.chain(first_run).chain(settled_by).find(|(_, file)| !is_below_home(file))?;
    let what = format!("`{}` is not below the home", shown(file));
    Some(new(path, what, "write it as `~/…`, without `..`: no other file is touched"))
}

fn is_below_home(path: &str) -> bool {
    path.strip_prefix("~/").is_some_and(|below| {
        !below.is_empty()
            && Path::new(below).components().all(|part| matches!(part, Component::Normal(_)))
    })
}

fn command_lines(of: &DeclaredHarness) -> [(&'static str, &Vec<String>); 6] {
    [
        ("create", &of.create),
        ("spawn", &of.spawn),
        ("resume", &of.resume),
        ("oneShot", &of.one_shot),
        ("resumeOneShot", &of.resume_one_shot),
        ("trust", &of.trust),
    ]
}

fn at_placeholders(own: &DeclaredHarness) -> Option<Fault> {
    let words = command_lines(own).into_iter().flat_map(|(name, words)| {
        let path = move |at| vec![key(name), Step::Index(at)];
        words.iter().enumerate().map(move |(at, word)| (path(at), word))
    });
    let env = |env: &BTreeMap<String, String>| -> Vec<(Vec<Step>, String)> {
        env.iter().map(|(name, value)| (vec![key("env"), key(name)], value.clone())).collect()
    };
    let all = words.map(|(path, word)| (path, word.clone())).chain(env(&own.env));
    let (path, unknown) =
        all.into_iter().find_map(|(path, word)| Some((path, unknown_in(&word)?)))?;
    let hint = match nearest(&unknown, PLACEHOLDERS) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "there are `{id}`, `{cwd}`, `{cwdString}`, `{hook}`, `{hookString}`,\n      \
                 `{trust}` and `{args}`"
            .to_owned(),
    };
    Some(new(path, format!("`{}` stands for nothing", shown(&unknown)), hint))
}

/// A name in braces that is no placeholder.
fn unknown_in(word: &str) -> Option<String> {
    word.match_indices('{').find_map(|(at, _)| {
        let rest = &word[at..];
        let end = rest.find(|c: char| c != '{' && !c.is_ascii_alphanumeric() && c != '_')?;
        let name = rest.get(..=end).filter(|name| name.ends_with('}') && name.len() > 2)?;
        let is_one = !name[1..].contains('{') && !PLACEHOLDERS.contains(&name);
        is_one.then(|| name.to_owned())
    })
}

/// A conversation that cannot be named cannot be begun by us, nor gone on with.
/// `whole` has what the declaration itself does not say.
pub(super) fn at_ids(own: &DeclaredHarness, whole: &DeclaredHarness) -> Option<Fault> {
    let is_ours = !matches!(whole.identity, Some(Identity::Captured));
    command_lines(own).into_iter().find_map(|(name, words)| {
        let must = match name {
            "spawn" | "oneShot" => is_ours,
            "resume" | "resumeOneShot" => true,
            _ => false,
        };
        let has = words.iter().any(|word| word.contains("{id}"));
        let hint = match name {
            "spawn" | "oneShot" => "say `identity: captured` where the agent chooses its own",
            _ => "`{id}` stands for the conversation",
        };
        let lacks = must && !words.is_empty() && !has;
        lacks.then(|| new(vec![key(name)], "it does not name the conversation (`{id}`)", hint))
    })
}

fn at_values(own: &DeclaredHarness) -> Option<Fault> {
    if let Some(program) = &own.program
        && program.contains('/')
        && !program.starts_with('/')
        && !program.starts_with("~/")
    {
        let what = format!("`{}` would be looked for in the work tree", shown(program));
        let hint = "a name on `PATH`, an absolute path, or one that begins with `~/`";
        return Some(new(vec![key("program")], what, hint));
    }
    if let Some(minimum) = &own.minimum
        && Version::parse(minimum).is_none()
    {
        let what = format!("`{}` is no version", shown(minimum));
        return Some(new(vec![key("minimum")], what, "write it as in `1.2.0`"));
    }
    if own.screen.prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        let hint = "name the sign that stands before the input, as in `>`";
        return Some(new(vec![key("screen"), key("prompt")], "it is empty", hint));
    }
    let typing = &own.typing;
    let times = [
        ("gapMs", typing.gap_ms),
        ("retryGapMs", typing.retry_gap_ms),
        ("proofMs", typing.proof_ms),
    ];
    let (name, time) = times.into_iter().find(|(_, time)| time.is_some_and(|ms| ms > LONGEST))?;
    let what = format!("{} ms is more than {LONGEST}", time.unwrap_or_default());
    Some(new(vec![key("typing"), key(name)], what, "it is in milliseconds"))
}

#[cfg(test)]
mod tests {
    use super::super::super::{declarations, shipped};
    use super::*;

    #[test]
    fn what_is_shipped_has_no_fault() {
        for (name, declaration) in shipped() {
            let whole = &declarations(&BTreeMap::new())[name];
            let found = fault(declaration).or_else(|| at_ids(declaration, whole));
            assert!(found.is_none(), "{name}");
        }
    }

    #[test]
    fn a_name_in_braces_that_stands_for_nothing_is_found() {
        for (word, unknown) in [
            ("{idd}", Some("{idd}")),
            ("--x={cwd}/{Id}", Some("{Id}")),
            ("p={{cwdString}={trust_level=\"trusted\"}}", None),
            ("[{hooks=[{type=\"command\",command={hookString}}]}]", None),
            ("{}", None),
            ("{\"a\": 1}", None),
            ("{args", None),
        ] {
            assert_eq!(unknown_in(word).as_deref(), unknown, "{word}");
        }
    }
}
