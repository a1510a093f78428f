//! What is too long to be typed: its beginning is, and names the file that has
//! all of it.

use std::path::Path;

use crate::base::text::visible;

/// The prompt in about `limit` bytes: the first and the last line, everything of
/// ours, and the beginning of what others wrote, in its fence as before. Where
/// there is no fence, the text between the first and the last line is cut. What
/// is ours is whole, however small the limit is.
pub fn shortened(prompt: &str, limit: usize, file: &Path) -> String {
    let whole = || prompt.to_owned();
    let Some((first, rest)) = prompt.split_once('\n') else { return whole() };
    let Some((middle, last)) = rest.rsplit_once('\n') else { return whole() };
    let note = format!(
        "This text is long. All of it, {} bytes, is in the file `{}`;\n\
         here is its beginning.\n",
        prompt.len(),
        visible(&file.display().to_string())
    );
    let (ours, text, end) = match fence_of(middle) {
        Some((ours, text, fence)) => (ours, text, format!("\n{fence}")),
        None => ("", middle, String::new()),
    };
    let fixed = first.len() + note.len() + ours.len() + end.len() + last.len() + 40;
    let room = limit.saturating_sub(fixed);
    if text.len() <= room {
        return whole();
    }
    let cut = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let left = text[cut..].chars().count();
    format!("{first}\n{note}{ours}{}… [cut: {left} more characters]{end}\n{last}", &text[..cut])
}

/// What stands before the fenced text, that text, and the fence. The fence is
/// longer than every run of its character in the text.
fn fence_of(middle: &str) -> Option<(&str, &str, &str)> {
    let (before, fence) = middle.rsplit_once('\n')?;
    let c = fence.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    if fence.len() < 3 || !fence.chars().all(|other| other == c) {
        return None;
    }
    let begin = if before.starts_with(&format!("{fence}\n")) {
        fence.len() + 1
    } else {
        before.find(&format!("\n{fence}\n"))? + fence.len() + 2
    };
    Some((&before[..begin], &before[begin..], fence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> &'static Path {
        Path::new("/state/texts/x")
    }

    #[test]
    fn what_is_ours_and_the_fence_stay_and_the_file_is_named() {
        let text = "ü".repeat(5000);
        let prompt =
            format!("[the-loop event m] x\nours\n````\nbody (1 line):\n{text}\n````\n[end]");
        let short = shortened(&prompt, 1000, file());
        assert!(short.len() <= 1000, "{}", short.len());
        assert!(short.starts_with("[the-loop event m] x\nThis text is long. All of it, 10"));
        assert!(short.contains("`/state/texts/x`") && short.contains("\nours\n````\nbody"));
        assert!(short.ends_with(" more characters]\n````\n[end]"), "{short}");
    }

    #[test]
    fn a_text_without_a_fence_is_cut_and_a_short_one_is_left_alone() {
        let prompt = format!("[first]\n{}\n[last]", "a b\n".repeat(1000));
        let short = shortened(&prompt, 600, file());
        assert!(short.len() <= 600 && short.starts_with("[first]\nThis text"), "{short}");
        assert!(short.ends_with(" more characters]\n[last]"), "{short}");
        let prompt = "[first]\nhello\n[last]";
        assert_eq!(shortened(prompt, 600, file()), prompt);
        assert!(shortened(&"x\n".repeat(1000), 1, file()).contains("/state/texts/x"));
    }

    #[test]
    fn a_fence_inside_the_text_is_not_taken_for_ours() {
        let text = format!("```\nnot the fence\n```\n{}", "z".repeat(4000));
        let prompt = format!("[first]\nours\n````\n{text}\n````\n[last]");
        let short = shortened(&prompt, 900, file());
        assert!(short.contains("ours\n````\n```\nnot the fence"), "{short}");
    }
}
