//! Which lines of a text are its author's own words, as GitHub shows them: not
//! quoted, not code, not hidden. Our own voice, control lines and closing keywords
//! are looked for in those only.
//!
//! A Markdown parser decides, and not the look of the source: a line can belong to
//! a quote without a `>`, and a text that nobody sees has lines too.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Stands where something begins or ends that is more than plain text: emphasis, a
/// link, a tag, and in the place of code in a line.
const MARKUP: char = '\u{fffc}';

/// A line of an author's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// What is shown, with [`MARKUP`] where it is more than plain text.
    pub(super) text: String,
    /// Whether it is a line of a paragraph that stands in no list, table, heading
    /// or HTML element.
    pub(super) in_paragraph: bool,
}

impl Line {
    /// The line without the emphasis around it.
    pub(super) fn bare(&self) -> &str {
        self.text.trim_matches(|c: char| c == MARKUP || c.is_whitespace())
    }
}

/// The lines of a text that are its author's own words.
pub(super) fn own_lines(text: &str) -> Vec<Line> {
    let mut reader = Reader::default();
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
    for event in Parser::new_ext(text, options) {
        reader.read(event);
    }
    reader.end_line();
    reader.lines
}

#[derive(Default)]
struct Reader {
    lines: Vec<Line>,
    text: String,
    /// How many quotes and code blocks are open.
    foreign: usize,
    /// How many blocks are open that are no paragraph.
    blocks: usize,
    in_paragraph: bool,
    /// How many spans of emphasis and the like are open.
    spans: usize,
    /// The HTML of the block that is open.
    html: Option<String>,
    elements: Elements,
}

impl Reader {
    fn read(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text.push_str(&text),
            Event::SoftBreak | Event::HardBreak => self.end_line(),
            Event::Html(html) => self.html.get_or_insert_default().push_str(&html),
            Event::InlineHtml(html) => {
                self.text.push(MARKUP);
                // Before a tag counts, what stands before it is judged by those before.
                if html.contains('\n') {
                    self.end_line();
                }
                let mut elements = self.elements.clone();
                elements.read(&html, |_| {});
                if elements.are_foreign() != self.elements.are_foreign() {
                    self.end_line();
                }
                self.elements = elements;
            }
            Event::Code(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {
                self.text.push_str("\u{fffc}code\u{fffc}");
            }
            Event::Rule | Event::FootnoteReference(_) | Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Paragraph => {
                self.end_line();
                self.in_paragraph = true;
            }
            Tag::BlockQuote(_) | Tag::CodeBlock(_) => {
                self.end_line();
                self.foreign += 1;
            }
            Tag::HtmlBlock => {
                self.end_line();
                self.html = Some(String::new());
            }
            Tag::TableCell => self.text.push(' '),
            Tag::Emphasis
            | Tag::Strong
            | Tag::Strikethrough
            | Tag::Superscript
            | Tag::Subscript
            | Tag::Link { .. }
            | Tag::Image { .. } => {
                self.text.push(MARKUP);
                self.spans += 1;
            }
            _ => {
                self.end_line();
                self.blocks += 1;
            }
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                self.end_line();
                self.in_paragraph = false;
            }
            TagEnd::BlockQuote(_) | TagEnd::CodeBlock => {
                self.text.clear();
                self.foreign = self.foreign.saturating_sub(1);
            }
            TagEnd::HtmlBlock => self.html_block(),
            TagEnd::TableCell => {}
            TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::Link
            | TagEnd::Image => {
                self.text.push(MARKUP);
                self.spans = self.spans.saturating_sub(1);
            }
            _ => {
                self.end_line();
                self.blocks = self.blocks.saturating_sub(1);
            }
        }
    }

    /// What an HTML block shows as text.
    fn html_block(&mut self) {
        let html = self.html.take().unwrap_or_default();
        let mut elements = std::mem::take(&mut self.elements);
        let (mut lines, foreign) = (Vec::new(), self.foreign > 0);
        elements.read(&html, |(text, is_foreign)| {
            if !foreign && !is_foreign {
                let shown = text.lines().filter(|line| !line.trim().is_empty());
                lines.extend(shown.map(|line| Line { text: line.to_owned(), in_paragraph: false }));
            }
        });
        self.elements = elements;
        self.lines.extend(lines);
    }

    fn end_line(&mut self) {
        let text = std::mem::take(&mut self.text);
        if self.foreign == 0 && !self.elements.are_foreign() && !text.trim().is_empty() {
            let in_paragraph = self.in_paragraph
                && self.blocks == 0
                && self.spans == 0
                && self.elements.open.is_empty();
            self.lines.push(Line { text, in_paragraph });
        }
    }
}

/// Other elements that set what is in them apart. All others GitHub leaves out or
/// shows within the line: `Vec<u8>` is no element.
const APART: &[&str] = &[
    "details", "div", "table", "ul", "ol", "dl", "figure", "del", "s", "strike", "h1", "h2", "h3",
    "h4", "h5", "h6",
];
/// Elements whose text is not the author's own words.
const FOREIGN: &[&str] = &["blockquote", "q", "pre", "code", "samp", "kbd", "tt", "template"];
/// How many open elements are told apart: what is nested deeper is nobody's text.
const DEEPEST: usize = 256;

/// The HTML elements that are open, of those above.
#[derive(Debug, Clone, Default)]
struct Elements {
    open: Vec<String>,
}

impl Elements {
    fn are_foreign(&self) -> bool {
        self.open.len() >= DEEPEST || self.open.iter().any(|name| FOREIGN.contains(&name.as_str()))
    }

    /// Reads HTML. What stands between its tags is given out, and whether it is
    /// somebody else's.
    fn read(&mut self, html: &str, mut out: impl FnMut((&str, bool))) {
        let mut rest = html;
        while let Some((text, tag)) = rest.split_once('<') {
            out((text, self.are_foreign()));
            if let Some(comment) = tag.strip_prefix("!--") {
                // `<!-->` is one that is closed.
                rest = comment
                    .strip_prefix('>')
                    .unwrap_or_else(|| comment.split_once("-->").map_or("", |(_, after)| after));
                continue;
            }
            let (tag, after) = tag.split_once('>').unwrap_or((tag, ""));
            self.tag(tag);
            rest = after;
        }
        out((rest, self.are_foreign()));
    }

    fn tag(&mut self, tag: &str) {
        let (closes, name) = match tag.strip_prefix('/') {
            Some(name) => (true, name),
            None => (false, tag),
        };
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(name.len());
        let name = name[..end].to_ascii_lowercase();
        if !FOREIGN.contains(&name.as_str()) && !APART.contains(&name.as_str()) {
            return;
        }
        if !closes {
            if self.open.len() < DEEPEST {
                self.open.push(name);
            }
        } else if let Some(at) = self.open.iter().rposition(|open| *open == name) {
            self.open.truncate(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The lines, those of plain paragraphs with a `+`.
    fn own(text: &str) -> String {
        let line = |line: &Line| {
            let text = line.text.replace(MARKUP, "°");
            if line.in_paragraph { format!("+{text}") } else { text }
        };
        own_lines(text).iter().map(line).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn what_github_shows_as_the_authors_words_is_theirs_and_nothing_else() {
        for (text, expected) in [
            ("a\nb", "+a|+b"),
            ("a\r\nb  \r\nc", "+a|+b|+c"),
            // Quotes, also those that go on without a `>`.
            ("> a\nb\n  > c", ""),
            ("> a\n\nb", "+b"),
            ("- > a\n\nb", "+b"),
            (">> a\n\nb", "+b"),
            // Code.
            ("a\n```\nb\n```\nc", "+a|+c"),
            ("a\n~~~~ x\nb\n~~~\nc\n~~~~~\nd", "+a|+d"),
            ("a\n```\nb", "+a"),
            ("```a``` b\nc", "+°code° b|+c"),
            ("a\n\n    code\n\nb", "+a|+b"),
            ("a\n    goes on", "+a|+goes on"),
            // What is hidden.
            ("a\n<!--\nb\n-->\nc", "+a|+c"),
            ("<!-- x -->\na", "+a"),
            ("a <!--\nb\n--> c", "+a °|+ c"),
            ("<!--\nb", ""),
            ("[x]: a\nb", "+b"),
            // Blocks.
            ("- a\n- b\nc", "a|b|c"),
            ("# a\nb", "a|+b"),
            ("a\n---\nb", "a|+b"),
            ("|a|\n|-|\nb", " a| b"),
            ("**a** _b_ [c](d)", "+°a° °b° °c°"),
            // HTML.
            ("<details>\na\n</details>\nb\n\nc", "a|b|+c"),
            ("<details>\n\na\n\n</details>\n\nc", "a|+c"),
            ("a <blockquote>\n\nb", "+a °"),
            ("<blockquote>\n\nb\n\n</blockquote>\n\nc", "+c"),
            ("<blockquote>b</blockquote>\nc", "c"),
            ("a <code>b</code>", "+a °"),
            ("<pre>\na\n\nb</pre>\n\nc", "+c"),
            ("a<br>b\n<img src=x>\nc", "+a°b|+°|+c"),
            ("<sub>a</sub>", "+°a°"),
            ("a Vec<u8>\n\nb", "+a Vec°|+b"),
            ("~~a\nb\nc~~", "°a|b|+c°"),
        ] {
            assert_eq!(own(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "([a-z \n>`~<!|#*_()&;é\t-]|<!--|-->|<b>|</b>|<pre>|\n\n){0,80}") {
            let lines = own_lines(&text);
            prop_assert!(lines.iter().all(|line| !line.text.contains('\n')));
        }
    }
}
