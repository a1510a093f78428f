//! From the text of a configuration file to its values, or to an error that
//! shows what is wrong and where.

use std::path::Path;

use serde::Deserialize;

use super::amounts::Span;
use super::error::{ConfigError, is_secret, token_at};
use super::locate::{Spot, What, locate};
use super::model::{Config, EVENT_NAMES, EVENTS};
use super::suggest::{nearest, one_of};
use super::tree::{Node, Step, dotted};
use super::values::{NO_PASSWORD, hinted, shown};
use super::walk::{Fault, FaultKind, Found};

mod args;
mod declared;
mod harnesses;
mod syntax;

/// The size beyond which a file is not looked at.
pub const MAX_BYTES: usize = 128 << 10;

/// Open brackets beyond which a file is not looked at.
const MAX_DEPTH: usize = 256;

/// Known words up to which a hint names all of them.
const FEW: usize = 6;

/// What to do where quotes make a text of what is none.
const UNQUOTE: &str = "leave out its quotes";

/// Columns of a hint behind its `hint: `.
const HINT_WIDTH: usize = 74;

/// Reads the bytes of the configuration file `file`.
pub fn parse_bytes(bytes: &[u8], file: &Path) -> Result<Config, ConfigError> {
    if bytes.len() > MAX_BYTES {
        return Err(too_big(file));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text, file),
        Err(error) => {
            let spot = Spot::behind(&String::from_utf8_lossy(&bytes[..error.valid_up_to()]));
            Err(ConfigError::whole(file, "this is not UTF-8 text")
                .at(&String::from_utf8_lossy(bytes), Some(spot))
                .hint("save the file in the encoding UTF-8"))
        }
    }
}

/// Reads the text of the configuration file `file`. The name is for messages
/// only. An empty text is the defaults.
pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigError> {
    if text.len() > MAX_BYTES {
        return Err(too_big(file));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(spot) = too_deep(text) {
        return Err(ConfigError::whole(file, syntax::TOO_DEEP).at(text, Some(spot)));
    }
    let tree: Node =
        serde_yaml::from_str(text).map_err(|error| syntax::explain(file, text, &error))?;
    if let Some(path) = tree.merge_key() {
        return Err(ConfigError::whole(file, "a merge key (`<<`) is not supported")
            .at(text, locate(text, &path, What::Key(0)))
            .hint("write the keys themselves here; an alias (`*name`) for a whole\n      value is fine"));
    }
    if let Some(path) = tree.duplicate() {
        return Err(duplicate(file, text, &path));
    }
    let config =
        Config::deserialize(&tree).map_err(|fault| explain(file, text, &fault.arrived()))?;
    harnesses::check(file, text, &config)?;
    args::check(file, text, &config)?;
    match config.clash() {
        Some(clash) => {
            let path: Vec<_> = clash.key.split('.').map(|key| Step::Key(key.to_owned())).collect();
            Err(ConfigError::whole(file, format!("`{}`: {}", clash.key, clash.what))
                .at(text, locate(text, &path, What::Value))
                .hint(clash.remedy))
        }
        None => Ok(config),
    }
}

/// Where brackets are nested so deeply that no configuration can be meant. The
/// YAML reader would refuse it too, after a time that grows with the square.
fn too_deep(text: &str) -> Option<Spot> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Some(Spot::behind(&text[..at]));
        }
    }
    None
}

fn too_big(file: &Path) -> ConfigError {
    ConfigError::whole(file, format!("the file is larger than {} KiB", MAX_BYTES / 1024))
}

fn duplicate(file: &Path, text: &str, path: &[Step]) -> ConfigError {
    let key = last_key(path);
    let error = ConfigError::whole(file, format!("key `{}` is given twice", shown(key)))
        .at(text, locate(text, path, What::Key(1)));
    match locate(text, path, What::Key(0)) {
        Some(first) => error.hint(format!("the first is in line {}; keep one", first.line)),
        None => error,
    }
}

fn explain(file: &Path, text: &str, fault: &Fault) -> ConfigError {
    let Fault { kind, path, at_key } = fault;
    let what = if *at_key { What::Key(0) } else { What::Value };
    let spot = locate(text, path, what);
    let name = match dotted(path) {
        path if path.is_empty() => "the file".to_owned(),
        path => format!("`{}`", shown(&path)),
    };
    // The value may be the secret itself, put where its variable's name belongs.
    let secret = is_secret(last_key(path))
        || matches!(kind, FaultKind::Invalid(text) if text == NO_PASSWORD);
    // As it is written: `4.0` is another thing than `4`.
    let written = spot.and_then(|spot| token_at(text, spot));
    let found = |found: &Found| match (found, written) {
        (Found::Number(number), Some(written)) if is_number(written, number) => {
            Found::Number(written.to_owned())
        }
        (found, _) => found.clone(),
    };
    let told = |found: &Found| match found {
        Found::Text(_) | Found::Number(_) if secret => "what stands here".to_owned(),
        found => in_words(found),
    };
    let error = |message: String| {
        let error = ConfigError::whole(file, message);
        if secret && !at_key { error.without_excerpt(spot) } else { error.at(text, spot) }
    };
    match kind {
        FaultKind::UnknownKey { known } => unknown_key(error, path, known),
        FaultKind::UnknownValue { value, known } => {
            let message = format!("unknown value `{}` for {name}", shown(value));
            let near = nearest(value, known.iter().copied());
            // Of GitHub's many events only those are worth a list that are acted on.
            let (kind, told) = if *known == EVENT_NAMES {
                ("events that are acted on", EVENTS)
            } else {
                ("values", *known)
            };
            suggest(error(message), near, kind, told)
        }
        FaultKind::WrongType { found: Found::Nothing, expected } => {
            error(format!("{name} has no value; it must be {expected}"))
        }
        FaultKind::WrongType { found: what, expected } => {
            let what = &found(what);
            let key = last_key(path);
            let hint = type_hint(what, expected).or_else(|| in_seconds(key, what));
            let hint = hint.filter(|_| !secret);
            // What is wrong with it are its quotes: they are shown.
            let quoted = written.filter(|_| hint.as_deref() == Some(UNQUOTE));
            let told = quoted.map_or_else(|| told(what), |written| format!("`{}`", shown(written)));
            let error = error(format!("{name} must be {expected}, not {told}"));
            match hint {
                Some(hint) => error.hint(hint),
                None => error,
            }
        }
        FaultKind::NeedsKeys { found: what, known } => {
            let error = error(format!("{name} must hold keys, not {}", told(&found(what))));
            match (what, known) {
                (Found::Text(text), [only]) => {
                    error.hint(format!("write it as `{{ {only}: {} }}`", hinted(text)))
                }
                _ => error.hint(list("known keys", known)),
            }
        }
        FaultKind::Invalid(text) => error(format!("{name}: {text}")),
    }
}

fn unknown_key(
    error: impl Fn(String) -> ConfigError,
    path: &[Step],
    known: &[&str],
) -> ConfigError {
    let key = last_key(path);
    let base = error(format!("unknown key `{}`", shown(key)));
    let near = nearest(key, known.iter().copied());
    let elsewhere = near.is_none().then(|| elsewhere(key)).flatten();
    let near = elsewhere.as_deref().or(near);
    let error = suggest(base, near, "keys", known);
    if is_secret(key) && near.is_some_and(is_secret) {
        error.hint(
            "the secret itself does not go into this file: name the variable or\n      \
             the file that holds it",
        )
    } else {
        error
    }
}

fn suggest(error: ConfigError, near: Option<&str>, kind: &str, known: &[&str]) -> ConfigError {
    let error = match near {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    };
    if near.is_none() || (2..=FEW).contains(&known.len()) {
        error.hint(list(&format!("known {kind}"), known))
    } else {
        error
    }
}

/// The full path of a key of this name that belongs in another place.
fn elsewhere(key: &str) -> Option<String> {
    fn collect(value: &serde_yaml::Value, at: &[Step], out: &mut Vec<(String, String)>) {
        for (key, value) in value.as_mapping().into_iter().flatten() {
            let Some(key) = key.as_str() else { continue };
            let path = [at, &[Step::Key(key.to_owned())]].concat();
            collect(value, &path, out);
            out.push((key.to_owned(), dotted(&path)));
        }
    }
    let mut paths = Vec::new();
    collect(&serde_yaml::to_value(Config::default()).ok()?, &[], &mut paths);
    let mut fitting = paths.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case(key));
    let (_, path) = fitting.next()?;
    // A name that stands in several places (`path`) says nothing.
    fitting.next().is_none().then_some(path)
}

/// Whether what is written is this number.
fn is_number(written: &str, number: &str) -> bool {
    written == number || written.parse::<f64>().ok() == number.parse::<f64>().ok()
}

fn type_hint(found: &Found, expected: &str) -> Option<String> {
    match (found, expected) {
        (Found::Text(text), "`true` or `false`") => match text.to_lowercase().as_str() {
            // Written in another way they are no text, but for their quotes.
            "true" | "false" => Some(UNQUOTE.to_owned()),
            "yes" | "on" | "y" | "1" => Some("did you mean `true`?".to_owned()),
            "no" | "off" | "n" | "0" => Some("did you mean `false`?".to_owned()),
            word => nearest(word, ["true", "false"]).map(|near| format!("did you mean `{near}`?")),
        },
        (Found::Text(text), "a list") => {
            // What was written as on a command line is a word each.
            let words: Vec<_> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
            // A brace or the like would be read as YAML's own.
            let is_plain = |c: char| c.is_alphanumeric() || "-_./~".contains(c);
            let quoted = words.iter().map(|word| {
                if word.chars().all(is_plain) {
                    (*word).to_owned()
                } else {
                    format!("'{}'", word.replace('\'', "''"))
                }
            });
            let quoted: Vec<_> = quoted.collect();
            Some(format!("write it as a list: `[{}]`", hinted(&quoted.join(", "))))
        }
        (Found::Text(text), _) if text.parse::<u32>().is_ok() => Some(UNQUOTE.to_owned()),
        (Found::Number(number), "text" | "a path") => {
            Some(format!("put it into quotes: `\"{}\"`", hinted(number)))
        }
        (Found::Bool(value), "text" | "a path") => {
            Some(format!("put it into quotes: `\"{value}\"`"))
        }
        _ => None,
    }
}

/// How a span with its unit is written where seconds are counted.
fn in_seconds(key: &str, found: &Found) -> Option<String> {
    let Found::Text(text) = found else { return None };
    let span = Span::read(text).filter(|_| key.ends_with("Seconds"))?;
    Some(format!("it is counted in seconds: `{}`", span.duration().as_secs()))
}

fn in_words(found: &Found) -> String {
    match found {
        Found::Nothing => "nothing".to_owned(),
        Found::List => "a list".to_owned(),
        Found::Keys => "keys".to_owned(),
        Found::Bool(value) => format!("`{value}`"),
        Found::Number(number) => format!("`{}`", shown(number)),
        Found::Huge => "a number beyond all bounds".to_owned(),
        Found::Text(text) => format!("`{}`", shown(text)),
    }
}

/// `known keys: …`, broken into lines.
fn list(what: &str, known: &[&str]) -> String {
    let sentence = format!("{what}: {}", one_of(known).replace(" or ", ", "));
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= HINT_WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n      ")
}

fn last_key(path: &[Step]) -> &str {
    path.iter()
        .rev()
        .find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        })
        .unwrap_or_default()
}

/// A fault that only shows when what a key names is looked at: at the key's value,
/// like those of the file itself.
pub fn fault_at(file: &Path, text: &str, key: &str, message: &str) -> ConfigError {
    let path: Vec<_> = key.split('.').map(|key| Step::Key(key.to_owned())).collect();
    ConfigError::whole(file, format!("`{key}`: {message}"))
        .at(text, locate(text, &path, What::Value))
}
