//! The words of what is said on GitHub. They are ours, but for the item, the
//! delivery's id and the event's address: no path of this machine, nothing of what
//! an agent or an error said.

use super::telling::{Saying, Words};
use crate::base::ids::WorkItem;
use crate::core::config::WebTerminal;
use crate::core::routing::OwnVoice;

/// A comment: where it goes, how it is found again, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The issue or pull request.
    pub on: WorkItem,
    /// What only this comment has in it.
    pub key: String,
    /// Its text, in Markdown.
    pub text: String,
}

/// The comment that a saying is; nothing for a reaction.
pub fn comment(saying: &Saying, voice: &OwnVoice, web: &WebTerminal) -> Option<Comment> {
    let (on, what, text) = match &saying.words {
        Words::React { .. } => return None,
        Words::Started { item, created_at, is_headless } => {
            (item, format!("started {item} {created_at}"), started(item, *is_headless, web))
        }
        Words::GivenUp { on, delivery, reason, url } => {
            let of = url.as_ref().map(|url| format!(", of {url}\n"));
            let advice = reason.advice(delivery, Some(on));
            let advice = advice.map(|advice| format!("\nWhat helps: {advice}\n"));
            let text = format!(
                "An event could not be handed to the agent: `{reason}`. {}\n\nIts delivery is \
                 `{delivery}`{}{}",
                reason.explain(),
                of.as_deref().unwrap_or(".\n"),
                advice.unwrap_or_default()
            );
            (on, format!("given up {delivery}"), text)
        }
    };
    let (key, line) = (voice.key_of(&what), voice.line(on));
    // Our own line comes last: by it the comment is known when it comes back.
    let text = format!("{text}\n<!-- the-loop: {key} -->\n\n{line}\n");
    Some(Comment { on: on.clone(), key, text })
}

fn started(item: &WorkItem, is_headless: bool, web: &WebTerminal) -> String {
    let (item_name, slug) = (item.short(), item.slug());
    let attach = format!("    the-loop sessions attach {item_name}\n");
    let text = if is_headless {
        format!(
            "An agent works on this now. On the machine where it does, this shows what it \
             did:\n\n    the-loop sessions logs {item_name}\n\nand this takes its conversation \
             over:\n\n{attach}"
        )
    } else {
        format!(
            "An agent works on this now. On the machine where it does, this shows it, and \
             types to it:\n\n{attach}"
        )
    };
    let Some(base) = web.public_url.as_ref().filter(|_| web.enabled) else { return text };
    let (base, place) = (base.trim_end_matches('/'), if is_headless { "v" } else { "s" });
    format!("{text}\nIn a browser: {base}/{place}/{slug}/\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::outcome::Reason;

    fn text(words: Words, web: &WebTerminal) -> String {
        let saying = Saying {
            repo: "o/r".parse().unwrap(),
            words,
            at: jiff::Timestamp::UNIX_EPOCH,
            tried: None,
            tries: 0,
        };
        let voice = OwnVoice::new([7; 32]);
        let comment = comment(&saying, &voice, web).unwrap();
        assert!(comment.text.contains(&comment.key) && voice.is_own(&comment.text, &comment.on));
        comment.text.replace(&comment.key, "KEY").replace(&voice.line(&comment.on), "LINE")
    }

    #[test]
    fn the_start_of_a_session_says_how_to_attach_and_the_web_only_where_it_is_published() {
        let started = |is_headless| {
            let created_at = jiff::Timestamp::UNIX_EPOCH;
            Words::Started { item: "o/r.js#7".parse().unwrap(), created_at, is_headless }
        };
        let mut web = WebTerminal { enabled: true, ..WebTerminal::default() };
        assert_eq!(
            text(started(false), &web),
            "An agent works on this now. On the machine where it does, this shows it, and types \
             to it:\n\n    the-loop sessions attach o/r.js#7\n\n<!-- the-loop: KEY -->\n\nLINE\n"
        );
        web.public_url = Some("https://loop.example/".to_owned());
        let said = text(started(false), &web);
        assert!(said.contains("\n\nIn a browser: https://loop.example/s/o+r++js+7/\n"), "{said}");
        let said = text(started(true), &web);
        assert!(said.contains("https://loop.example/v/o+r++js+7/\n"), "{said}");
        assert!(said.contains("    the-loop sessions logs o/r.js#7\n"), "{said}");
        web.enabled = false;
        assert!(!text(started(true), &web).contains("browser"));
    }

    #[test]
    fn an_event_that_is_given_up_is_told_with_its_reason_and_what_helps() {
        let given_up = |url| Words::GivenUp {
            on: "o/r#7".parse().unwrap(),
            delivery: "d-1".parse().unwrap(),
            reason: Reason::HarnessExited,
            url,
        };
        let web = WebTerminal::default();
        assert_eq!(
            text(given_up(None), &web),
            "An event could not be handed to the agent: `harness-exited`. The agent ended before \
             it was ready.\n\nIts delivery is `d-1`.\n\nWhat helps: mend the cause, then \
             `the-loop gh-webhook replay d-1`\n\n<!-- the-loop: KEY -->\n\nLINE\n"
        );
        let said = text(given_up(Some("https://github.com/o/r/issues/7".to_owned())), &web);
        assert!(said.contains("`d-1`, of https://github.com/o/r/issues/7\n"), "{said}");
        for reason in Reason::ALL {
            let on = "o/r#7".parse().unwrap();
            let said =
                Words::GivenUp { on, delivery: "d".parse().unwrap(), reason: *reason, url: None };
            text(said, &web);
        }
    }
}
