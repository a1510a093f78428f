//! What an agent is told of an event: the fields that are chosen for it. A text
//! of somebody who is not listed is left out here, before anything is written.

use super::texts::Approved;
use super::who::Who;
use crate::base::ids::WorkItem;
use crate::core::event::{
    Actor, Check, Conclusion, DiffPlace, DiffSide, Post, Pull, ReviewState, Thread,
};

/// An event as it is told to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What it is, in our own words.
    pub kind: Kind,
    /// Where it happened, when that is not the session's own item.
    pub on: Option<WorkItem>,
    /// A sentence of ours, with nothing foreign in it.
    pub sentence: Option<String>,
    /// What others wrote, by label: data, not instructions.
    pub fields: Vec<Field>,
    /// The review that it belongs to: a review and its comments are told
    /// together.
    pub review: Option<u64>,
    /// Whether it is told without waiting for the end of the turn.
    pub now: bool,
}

/// The kinds of events that an agent is told of: a closed vocabulary, because
/// it stands in the prompt's first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The item was armed by its label.
    Armed,
    /// The item was opened.
    Opened,
    /// The item's title or body was edited.
    Edited,
    /// A comment.
    Comment,
    /// A comment was edited.
    CommentEdited,
    /// A review.
    Review,
    /// A comment on lines of a pull request.
    ReviewComment,
    /// A pull request was merged.
    Merged,
    /// A check failed.
    CheckFailed,
}

impl Kind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Armed,
        Self::Opened,
        Self::Edited,
        Self::Comment,
        Self::CommentEdited,
        Self::Review,
        Self::ReviewComment,
        Self::Merged,
        Self::CheckFailed,
    ];

    /// The words for the first line: `<these> on OWNER/REPO#N`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Armed => "start of work",
            Self::Opened => "opening",
            Self::Edited => "edited text",
            Self::Comment => "comment",
            Self::CommentEdited => "edited comment",
            Self::Review => "review",
            Self::ReviewComment => "review comment",
            Self::Merged => "merge",
            Self::CheckFailed => "failed check",
        }
    }
}

/// A labelled part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Our name for it.
    pub label: &'static str,
    /// What it says.
    pub value: Value,
}

/// What a field says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text on one line.
    Line(String),
    /// An address, which is never cut in a usual length.
    Url(String),
    /// A text of many lines.
    Block(String),
    /// Nothing: it may not be told.
    Withheld(Withheld),
}

/// Why a field is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// Whoever wrote it is not in `routing.authorizedUsers`.
    Author,
    /// Whoever edited it since is not.
    Editor,
    /// It is more than a plain name, and anybody could have written it.
    Name,
}

impl Withheld {
    /// What is told instead.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Author => "[withheld: author not listed]",
            Self::Editor => "[withheld: edited by somebody who is not listed]",
            Self::Name => "[withheld: not a plain name]",
        }
    }
}

impl Message {
    fn new(kind: Kind) -> Self {
        Self { kind, on: None, sentence: None, fields: Vec::new(), review: None, now: false }
    }

    /// The item's title, where the message tells it.
    pub fn title(&self) -> Option<&str> {
        self.fields.iter().find_map(|field| match &field.value {
            Value::Line(title) if field.label == "title" => Some(title.as_str()),
            _ => None,
        })
    }

    fn field(mut self, label: &'static str, value: Value) -> Self {
        self.fields.push(Field { label, value });
        self
    }

    fn line(self, label: &'static str, text: &str) -> Self {
        self.field(label, Value::Line(text.to_owned()))
    }

    fn url(self, url: Option<&String>) -> Self {
        match url {
            Some(url) => self.field("url", Value::Url(url.clone())),
            None => self,
        }
    }

    fn block(self, label: &'static str, text: &str) -> Self {
        if text.trim().is_empty() {
            return self.line(label, "(empty)");
        }
        self.field(label, Value::Block(text.to_owned()))
    }
}

/// The item's own text, which a listed user armed as it is.
pub(super) fn armed(thread: &Thread, sender: &Actor) -> Message {
    let message = Message::new(Kind::Armed).line("title", &thread.title);
    let message = message.line("author", &thread.author.login).line("armed by", &sender.login);
    message.url(thread.url.as_ref()).block("body", &thread.body)
}

/// The item's own text, armed as it is by a listed user's comment.
pub(super) fn started(item: &Thread, post: &Post, sender: &Actor) -> Message {
    armed(item, sender).block("comment", &post.body)
}

/// A merged pull request: one sentence, nothing of theirs.
pub(super) fn merged(pull: &Pull, sender: &Actor) -> Message {
    let item = pull.thread.item.short();
    // Only a listed login comes here, so it holds what the list holds.
    let by = plain_name(&sender.login).unwrap_or("a listed user");
    let mut message = Message::new(Kind::Merged);
    message.sentence = Some(format!("Pull request {item} was merged by {by}."));
    message
}

/// A failed check: names by a pattern, for anybody may choose them.
pub(super) fn check(check: &Check, conclusion: Conclusion) -> Message {
    let mut message = Message::new(Kind::CheckFailed).field("check", name(&check.name, false));
    if let Some(app) = &check.app {
        message = message.field("app", name(app, false));
    }
    message = message.line("conclusion", conclusion.as_str()).line("commit", &check.sha);
    message.url(check.url.as_ref().filter(|url| plain_url(url)))
}

/// Makes the messages in which some fields may have to be withheld.
#[derive(Debug, Clone, Copy)]
pub(super) struct Teller<'a> {
    /// Who may act.
    pub(super) who: Who<'a>,
    /// Which of the item's own texts nobody has changed who may not.
    pub(super) texts: Approved,
}

impl Teller<'_> {
    /// The item's own text, which a listed user wrote.
    pub(super) fn thread(self, kind: Kind, thread: &Thread, sender: &Actor) -> Message {
        let title = self.title(thread);
        let message = Message::new(kind).field("title", title).line("author", &thread.author.login);
        let message = match kind {
            Kind::Edited => message.line("edited by", &sender.login),
            _ => message,
        };
        let message = message.url(thread.url.as_ref());
        if thread.body.trim().is_empty() {
            return message.block("body", "");
        }
        message.field("body", self.body(thread))
    }

    /// A comment; with the item's own text when it is the first that the agent
    /// hears of it.
    pub(super) fn comment(self, kind: Kind, thread: &Thread, post: &Post, first: bool) -> Message {
        let message = self.post(Message::new(kind), thread, post);
        self.context(message, thread, first).block("body", &post.body)
    }

    /// A review.
    pub(super) fn review(
        self,
        pull: &Pull,
        post: &Post,
        state: ReviewState,
        review: Option<u64>,
        first: bool,
    ) -> Message {
        let mut message = self.post(Message::new(Kind::Review), &pull.thread, post).line(
            "state",
            match state {
                ReviewState::Approved => "approved",
                ReviewState::ChangesRequested => "changes requested",
                ReviewState::Commented | ReviewState::Other => "commented",
            },
        );
        message.review = review;
        let message = self.branch(self.context(message, &pull.thread, first), pull);
        if post.body.trim().is_empty() { message } else { message.block("body", &post.body) }
    }

    /// A comment on lines of a pull request.
    pub(super) fn review_comment(
        self,
        pull: &Pull,
        post: &Post,
        place: &DiffPlace,
        review: Option<u64>,
        first: bool,
    ) -> Message {
        let trusted = self.who.lists(&pull.thread.author);
        let mut message = self.post(Message::new(Kind::ReviewComment), &pull.thread, post);
        message.review = review;
        message = message.field("path", name(&place.path, trusted));
        message = match (place.start_line, place.line) {
            (Some(start), Some(end)) if start != end => {
                message.line("lines", &format!("{start}-{end}"))
            }
            (_, Some(line)) => message.line("line", &line.to_string()),
            (_, None) => message,
        };
        if let Some(side) = place.side {
            let side = match side {
                DiffSide::Left => "LEFT (before the change)",
                DiffSide::Right => "RIGHT (after the change)",
            };
            message = message.line("side", side);
        }
        message = self.branch(self.context(message, &pull.thread, first), pull);
        message = if trusted || place.hunk.is_empty() {
            message.block("hunk", &place.hunk)
        } else {
            message.field("hunk", Value::Withheld(Withheld::Author))
        };
        message.block("body", &post.body)
    }

    fn post(self, message: Message, thread: &Thread, post: &Post) -> Message {
        message
            .line("author", &post.author.login)
            .url(post.url.as_ref())
            .field("title", self.title(thread))
    }

    fn context(self, message: Message, thread: &Thread, first: bool) -> Message {
        if !first {
            return message;
        }
        let message = message.line("opened by", &thread.author.login);
        if thread.body.trim().is_empty() {
            return message;
        }
        message.field("description", self.body(thread))
    }

    fn branch(self, message: Message, pull: &Pull) -> Message {
        if pull.branch.is_empty() {
            return message;
        }
        message.field("branch", name(&pull.branch, self.who.lists(&pull.thread.author)))
    }

    fn title(self, thread: &Thread) -> Value {
        let withheld = self.withheld(&thread.author, self.texts.title);
        withheld.map_or_else(|| Value::Line(thread.title.clone()), Value::Withheld)
    }

    fn body(self, thread: &Thread) -> Value {
        let withheld = self.withheld(&thread.author, self.texts.body);
        withheld.map_or_else(|| Value::Block(thread.body.clone()), Value::Withheld)
    }

    fn withheld(self, author: &Actor, is_approved: bool) -> Option<Withheld> {
        if !self.who.lists(author) {
            return Some(Withheld::Author);
        }
        (!is_approved).then_some(Withheld::Editor)
    }
}

/// A name that its author may have chosen freely: told when it is plain, or
/// when the author is listed.
fn name(text: &str, trusted: bool) -> Value {
    if trusted || plain_name(text).is_some() {
        Value::Line(text.to_owned())
    } else {
        Value::Withheld(Withheld::Name)
    }
}

/// The text when it is `[A-Za-z0-9 ._/()-]{1,80}`.
fn plain_name(text: &str) -> Option<&str> {
    let fits = (1..=80).contains(&text.len())
        && text.chars().all(|c| {
            c.is_ascii_alphanumeric() || matches!(c, ' ' | '.' | '_' | '/' | '(' | ')' | '-')
        });
    fits.then_some(text)
}

/// Whether a text is an address and has no room for anything else.
fn plain_url(text: &str) -> bool {
    (text.starts_with("https://") || text.starts_with("http://"))
        && text.len() <= 1000
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_has_no_room_for_instructions_in_another_script() {
        for (text, plain) in [
            ("build (ubuntu-latest, 3.12)", false),
            ("build (ubuntu-latest)", true),
            ("ci/test_1.2", true),
            ("", false),
            ("a\nb", false),
            ("`a`", false),
            ("é", false),
        ] {
            assert_eq!(plain_name(text).is_some(), plain, "{text:?}");
        }
        assert!(plain_name(&"a".repeat(80)).is_some());
        assert!(plain_name(&"a".repeat(81)).is_none());
    }

    #[test]
    fn an_address_is_one_word() {
        assert!(plain_url("https://ci.example/1?a=b#c"));
        for text in ["javascript:1", "https://a b", "https://a\n", "https://\u{e9}", "https://`"] {
            assert!(!plain_url(text), "{text}");
        }
    }
}
