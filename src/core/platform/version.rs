//! Versions as tools print them.

use std::cmp::Ordering;
use std::fmt;

/// A version: numbers and at most one letter, as in `3.3a` or `1.7.7`. Compared
/// as numbers; what follows them (`-40e79c7`, `-rc`) is kept for show only.
#[derive(Debug, Clone)]
pub struct Version {
    numbers: Vec<u32>,
    letter: Option<char>,
    text: String,
}

impl Version {
    /// Reads one word: `3.3a`, `next-3.8`, `1.7.7-40e79c7`, `v2.1`.
    pub fn parse(word: &str) -> Option<Self> {
        let text = word.strip_prefix("next-").unwrap_or(word);
        let text = text.strip_prefix('v').unwrap_or(text);
        if text.len() > 40
            || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-+_~".contains(&b))
        {
            return None;
        }
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let numbers = text[..end]
            .split('.')
            .map(|number| number.parse().ok())
            .collect::<Option<Vec<u32>>>()
            .filter(|numbers| (2..=4).contains(&numbers.len()))?;
        let mut rest = text[end..].chars();
        let letter = match (rest.next(), rest.next()) {
            (None | Some('-' | '+' | '~' | '_'), _) => None,
            (Some(letter), None | Some('-' | '+' | '~')) if letter.is_ascii_lowercase() => {
                Some(letter)
            }
            _ => return None,
        };
        Some(Self { numbers, letter, text: text.to_owned() })
    }

    /// The first word of what a tool printed that is a version, looked for on
    /// its first line. Of `tmux-2.6 2.6` that is the last word.
    pub fn find(said: &str) -> Option<Self> {
        let line = said.lines().find(|line| !line.trim().is_empty())?;
        // It may end a sentence.
        line.split_whitespace().find_map(|word| Self::parse(word.trim_end_matches(['.', ','])))
    }

    /// The version without what follows its letter: `1.7.7` of `1.7.7-40e79c7`.
    pub fn short(&self) -> String {
        let numbers: Vec<String> = self.numbers.iter().map(ToString::to_string).collect();
        let letter = self.letter.map(String::from).unwrap_or_default();
        format!("{}{letter}", numbers.join("."))
    }

    fn key(&self) -> ([u32; 4], Option<char>) {
        let mut numbers = [0; 4];
        for (slot, number) in numbers.iter_mut().zip(&self.numbers) {
            *slot = *number;
        }
        (numbers, self.letter)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(said: &str) -> Option<String> {
        Version::find(said).map(|version| version.short())
    }

    #[test]
    fn what_tools_print_is_read() {
        for (said, version) in [
            ("tmux 3.3a\n", "3.3a"),
            ("tmux next-3.8\n", "3.8"),
            ("tmux 3.1-rc\n", "3.1"),
            ("tmux-2.6 2.6\n", "2.6"),
            ("ttyd version 1.7.7-40e79c7\n", "1.7.7"),
            ("git version 2.39.5 (Apple Git-154)\n", "2.39.5"),
            ("\n2.1.3 (Claude Code)\n", "2.1.3"),
            ("GitHub Copilot CLI 1.0.102.\nRun it.\n", "1.0.102"),
        ] {
            assert_eq!(found(said).as_deref(), Some(version), "{said:?}");
        }
    }

    #[test]
    fn garbage_is_no_version() {
        for said in
            ["", "hello", "tmux", "3", "tmux three", "1.2.\u{1b}[31m", "3.3ab", "9999999999999.1"]
        {
            assert_eq!(found(said), None, "{said:?}");
        }
    }

    #[test]
    fn versions_compare_as_numbers_then_letter() {
        let in_order = ["2.9a", "3.0a", "3.1c", "3.2", "3.2a", "3.3a", "3.7b", "3.7c", "3.10"];
        for pair in in_order.windows(2) {
            assert!(Version::parse(pair[0]) < Version::parse(pair[1]), "{pair:?}");
        }
        assert_eq!(Version::parse("1.7"), Version::parse("1.7.0"));
    }
}
