//! What a person may have meant: the nearest known word.

/// The known word nearest to `word`, when one is near enough to be meant.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = plain(word);
    known
        .into_iter()
        .filter_map(|candidate| {
            let other = plain(candidate);
            let short = word.chars().count().min(other.chars().count());
            let long = word.chars().count().max(other.chars().count());
            let distance = strsim::damerau_levenshtein(&word, &other);
            let is_part = short >= 3 && (other.starts_with(&word) || word.starts_with(&other));
            (distance * 3 <= long || is_part).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters stand between two words.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(one, other)
}

/// `` `a`, `b` or `c` ``.
pub(super) fn one_of(known: &[&str]) -> String {
    let quoted: Vec<_> = known.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Case, dashes and underscores are what people mix up; they do not count.
fn plain(word: &str) -> String {
    word.chars().take(80).filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_meant_and_what_is_far_is_not() {
        let known = ["runner", "repositories", "tmux", "secretEnv"];
        for (word, meant) in [
            ("rnner", Some("runner")),
            ("Runner", Some("runner")),
            ("tmx", Some("tmux")),
            ("secret", Some("secretEnv")),
            ("secret_env", Some("secretEnv")),
            ("repos", Some("repositories")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }

    #[test]
    fn alternatives_are_joined_as_in_a_sentence() {
        assert_eq!(one_of(&["a"]), "`a`");
        assert_eq!(one_of(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
