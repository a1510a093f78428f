//! Which lines of a text are its author's own words: not quoted, not shown as
//! code. Our own voice and the closing keywords are looked for in those only.

/// The lines of `text` outside quotes (`>`), fences and indented code.
pub(super) fn own_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<(char, usize)> = None;
    let mut after_blank = true;
    let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    lines.filter(move |line| {
        let trimmed = line.trim_start_matches(' ');
        let indent = line.len() - trimmed.len();
        let code = (indent >= 4 || trimmed.starts_with('\t')) && after_blank;
        let run = |c: char| trimmed.chars().take_while(|other| *other == c).count();
        if let Some((c, length)) = fence {
            if indent < 4 && run(c) >= length && trimmed[run(c)..].trim().is_empty() {
                fence = None;
                after_blank = false;
            }
            return false;
        }
        if code {
            return false;
        }
        for c in ['`', '~'] {
            let length = run(c);
            // Backticks behind a run of backticks make it code in a line.
            if length >= 3 && (c == '~' || !trimmed[length..].contains('`')) {
                fence = Some((c, length));
                return false;
            }
        }
        after_blank = trimmed.trim().is_empty();
        !trimmed.starts_with('>')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_code_are_not_the_authors_words() {
        for (text, own) in [
            ("a\nb", "a|b"),
            ("> a\nb\n  > c", "b"),
            ("a\n```\nb\n```\nc", "a|c"),
            ("a\n~~~~ x\nb\n~~~\nc\n~~~~~\nd", "a|d"),
            ("a\n```\nb", "a"),
            ("```a``` b\nc", "```a``` b|c"),
            ("a\n\n    code\n\nb", "a|||b"),
            ("a\n    goes on", "a|    goes on"),
            ("a\r\n    goes on\r\n\r\n    code", "a|    goes on|"),
        ] {
            assert_eq!(own_lines(text).collect::<Vec<_>>().join("|"), own, "{text:?}");
        }
    }
}
