//! What the YAML reader says about a text that is no YAML, in plain words.

use std::path::Path;

use crate::core::config::error::{ConfigError, yaml_lines};
use crate::core::config::locate::Spot;

/// What is said of values nested without end.
pub(super) const TOO_DEEP: &str = "the values are nested too deeply";

/// The error for a text that could not be read as YAML.
pub(super) fn explain(file: &Path, text: &str, error: &serde_yaml::Error) -> ConfigError {
    let said = error.to_string();
    let spot = error.location().map(|at| Spot { line: at.line(), column: at.column() });
    let has = |part: &str| said.contains(part);
    let fault = |message: &str| ConfigError::whole(file, message).at(text, spot);
    let line = spot
        .and_then(|spot| yaml_lines(text).get(spot.line.checked_sub(1)?).copied())
        .unwrap_or_default();
    let here = spot.and_then(|spot| line.chars().nth(spot.column.checked_sub(1)?));

    if has("cannot start any token") && line.trim_start_matches(' ').starts_with('\t') {
        let column = line.chars().take_while(|c| *c == ' ').count() + 1;
        let spot = spot.map(|spot| Spot { column, ..spot });
        return ConfigError::whole(file, "a tab cannot indent a line")
            .at(text, spot)
            .hint("indent with spaces");
    }
    if has("cannot start any token") {
        let here = crate::base::text::visible(&here.unwrap_or(' ').to_string());
        return fault(&format!("a value cannot start with `{here}`")).hint("put it into quotes");
    }
    if has("mapping values are not allowed") {
        return fault("a `:` where no key can be").hint("put a value that holds `: ` into quotes");
    }
    if has("while scanning a quoted scalar") {
        let spot = last_position(&said).or(spot);
        return ConfigError::whole(file, "a quote is opened here and not closed").at(text, spot);
    }
    let rest = spot.map(|spot| yaml_lines(text).into_iter().skip(spot.line - 1));
    let is_at_end = rest.is_some_and(|mut rest| rest.all(|line| line.trim().is_empty()));
    if has("while parsing a flow") && is_at_end {
        let spot = last_open(text).or(spot);
        return ConfigError::whole(file, "a bracket is opened here and not closed").at(text, spot);
    }
    if has("did not find expected key") {
        return fault("this is neither a key nor the rest of a value")
            .hint("the keys of one group start in the same column");
    }
    if has("could not find expected ':'") {
        let spot = last_position(&said).or(spot);
        return ConfigError::whole(file, "a key without a `:`").at(text, spot);
    }
    if has("recursion limit exceeded") {
        return ConfigError::whole(file, TOO_DEEP).at(text, spot);
    }
    if has("repetition limit exceeded") {
        return ConfigError::whole(file, "the aliases multiply without bounds");
    }
    if has("more than one document") {
        return ConfigError::whole(file, "a second document begins here")
            .at(text, second_document(text))
            .hint("the file is one document: remove this line, or what follows");
    }
    if let Some((_, position)) = said.split_once("control characters are not allowed at position ")
    {
        let digits: String = position.chars().take_while(char::is_ascii_digit).collect();
        let spot = digits.parse().ok().and_then(|at: usize| text.get(..at)).map(Spot::behind);
        return ConfigError::whole(file, "a control character").at(text, spot);
    }
    if has("expected a string") {
        return fault("a key must be text");
    }
    if has("cannot have a tag") {
        return fault("a value cannot have a tag (`!…`)");
    }
    fault(&without_positions(&said))
}

/// Where the second document begins: at its `---`, or at what follows a `...`.
fn second_document(text: &str) -> Option<Spot> {
    let is_mark = |line: &str, mark: &str| {
        line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
    };
    let (mut has_begun, mut has_ended) = (false, false);
    for (number, line) in yaml_lines(text).into_iter().enumerate() {
        let here = Some(Spot { line: number + 1, column: 1 });
        let says_nothing = line.trim().is_empty() || line.trim_start().starts_with('#');
        if is_mark(line, "...") {
            has_ended = has_begun;
        } else if is_mark(line, "---") {
            if std::mem::replace(&mut has_begun, true) {
                return here;
            }
        } else if !says_nothing && has_ended {
            return here;
        } else if !says_nothing && (has_begun || !line.starts_with('%')) {
            has_begun = true;
        }
    }
    None
}

/// The last bracket that is opened and not closed, as far as one can tell without
/// reading the text as YAML.
fn last_open(text: &str) -> Option<Spot> {
    let mut open = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '[' | '{' => open.push(at),
            ']' | '}' => drop(open.pop()),
            _ => {}
        }
    }
    open.pop().map(|at| Spot::behind(&text[..at]))
}

/// The last position that a message names: where what it could not finish began.
fn last_position(said: &str) -> Option<Spot> {
    let (_, position) = said.rsplit_once(" at line ")?;
    let (line, column) = position.split_once(" column ")?;
    let column: String = column.chars().take_while(char::is_ascii_digit).collect();
    Some(Spot { line: line.parse().ok()?, column: column.parse().ok()? })
}

/// A message without its positions: ours stand in front of it.
fn without_positions(said: &str) -> String {
    let mut parts = said.split(" at line ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once(" column ").map_or("", |(_, rest)| rest);
        out.push_str(rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    format!("not YAML: {}", crate::base::text::visible(&out))
}
