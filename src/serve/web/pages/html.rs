//! What all pages have in common: their frame, and how a text becomes part of
//! one.

use std::fmt::Write as _;

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};

use crate::base::text::visible;

/// A text of others as part of a page: nothing in it is markup, and what acts
/// unseen is shown.
pub(super) fn escape(text: &str) -> String {
    escape_only(&visible(text))
}

/// A text without anything that acts unseen, as part of a page.
pub(super) fn escape_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A page.
#[derive(Debug, Default)]
pub(super) struct Page<'a> {
    /// The name of the assets' version.
    pub(super) version: &'a str,
    /// The text of its tab.
    pub(super) title: &'a str,
    /// The class of its body.
    pub(super) class: &'a str,
    /// Style sheets beside the common one.
    pub(super) styles: &'a [&'a str],
    /// Its script, when it has one.
    pub(super) script: Option<&'a str>,
    /// Its content: markup.
    pub(super) body: &'a str,
}

impl Page<'_> {
    /// The page as an answer.
    pub(super) fn answer(&self, status: StatusCode) -> Response {
        (status, Html(self.markup())).into_response()
    }

    fn markup(&self) -> String {
        let Self { version, class, body, .. } = self;
        let title = escape(self.title);
        let mut styles = String::new();
        for name in ["style.css"].iter().chain(self.styles) {
            let _ = writeln!(styles, "<link rel=\"stylesheet\" href=\"/assets/{version}/{name}\">");
        }
        let script = self.script.map_or_else(String::new, |name| {
            format!("<script type=\"module\" src=\"/assets/{version}/{name}\"></script>\n")
        });
        format!(
            "<!doctype html>\n\
             <html lang=\"en\" data-version=\"{version}\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1, \
             interactive-widget=resizes-content\">\n\
             <meta name=\"color-scheme\" content=\"dark light\">\n\
             <title>{title}</title>\n\
             <link rel=\"icon\" type=\"image/svg+xml\" href=\"/assets/{version}/icon.svg\">\n\
             {styles}{script}</head>\n<body class=\"{class}\">\n{body}\n</body>\n</html>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_never_markup_and_hides_nothing() {
        assert_eq!(
            escape("<script>\"'&\u{202e}\n</script>"),
            "&lt;script&gt;&quot;&#39;&amp;\\u{202e}\\n&lt;/script&gt;"
        );
    }
}
