//! Templates of people's own for the prompt, in MiniJinja. A template chooses
//! the words around the blocks; it can neither leave a mandatory block out nor
//! reach a text of others outside the fence.

use std::collections::BTreeMap;

use minijinja::{Environment, UndefinedBehavior};

use super::super::sanitise::sanitise;

/// How much work one rendering may be.
const FUEL: u64 = 20_000;

/// How long a template may be, and how long what it makes of our own blocks.
const MAX_TEMPLATE: usize = 6 * 1024;

const NAME: &str = "prompt";

/// A template cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// It is longer than a prompt may be.
    #[error("the template `{file}` makes more than {MAX_TEMPLATE} bytes")]
    TooLong {
        /// Its file.
        file: String,
    },
    /// It is no template, or cannot be rendered.
    #[error("the template `{file}` cannot be used")]
    Broken {
        /// Its file.
        file: String,
        /// What is wrong, with the line.
        #[source]
        source: minijinja::Error,
    },
}

/// The templates of a configuration; a prompt without one is ours.
#[derive(Debug, Clone, Default)]
pub struct Templates {
    /// For every event but the first of a conversation.
    event: Option<Template>,
    /// For the first.
    spawn: Option<Template>,
}

#[derive(Debug, Clone)]
struct Template {
    file: String,
    environment: Environment<'static>,
}

/// What a template may use. All but `event` is ours.
#[derive(Debug)]
pub(super) struct Blocks<'a> {
    /// The words for the kind of event.
    pub(super) kind: &'a str,
    /// `OWNER/REPO#N`.
    pub(super) item: &'a str,
    /// The item that it happened on, when that is another.
    pub(super) on: &'a str,
    /// A sentence of ours, or nothing.
    pub(super) sentence: &'a str,
    /// The standing rules.
    pub(super) rules: &'a str,
    /// How to end what is posted.
    pub(super) voice: &'a str,
    /// What others wrote, fenced.
    pub(super) event: &'a str,
}

impl Templates {
    /// Reads templates, each with the name of its file, and tries them.
    pub fn parse(
        event: Option<(String, String)>,
        spawn: Option<(String, String)>,
    ) -> Result<Self, TemplateError> {
        let template = |given: Option<(String, String)>| {
            given.map(|(file, text)| Template::parse(file, &text)).transpose()
        };
        Ok(Self { event: template(event)?, spawn: template(spawn)? })
    }

    pub(super) fn render(&self, blocks: &Blocks<'_>, first: bool) -> Option<String> {
        let template = if first { &self.spawn } else { &self.event };
        // It was tried when it was read. What fails only now must not hold an
        // event back: our own words do.
        template.as_ref()?.render(blocks).ok()
    }
}

impl Template {
    fn parse(file: String, text: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_TEMPLATE {
            return Err(TemplateError::TooLong { file });
        }
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        let text = sanitise(text).text;
        if let Err(source) = environment.add_template_owned(NAME, text) {
            return Err(TemplateError::Broken { file, source });
        }
        let template = Self { file, environment };
        for on in ["", "o/r#2"] {
            template.render(&Blocks {
                kind: "comment",
                item: "o/r#1",
                on,
                sentence: "",
                rules: "",
                voice: "",
                event: "",
            })?;
        }
        Ok(template)
    }

    fn render(&self, blocks: &Blocks<'_>) -> Result<String, TemplateError> {
        let Blocks { kind, item, on, sentence, rules, voice, event } = blocks;
        let values = BTreeMap::from([
            ("kind", (*kind).to_owned()),
            ("item", (*item).to_owned()),
            ("on", (*on).to_owned()),
            ("sentence", (*sentence).to_owned()),
            ("rules", (*rules).to_owned()),
            ("voice", (*voice).to_owned()),
            ("event", (*event).to_owned()),
        ]);
        let broken = |source| TemplateError::Broken { file: self.file.clone(), source };
        let template = self.environment.get_template(NAME).map_err(broken)?;
        let mut text = template.render(values).map_err(broken)?;
        if text.len() > MAX_TEMPLATE + rules.len() + voice.len() + event.len() {
            return Err(TemplateError::TooLong { file: self.file.clone() });
        }
        // A block that was left out, or cut, is added; whole lines, so that a
        // word around it cannot join it.
        for block in [sentence, rules, voice, event] {
            if !block.trim().is_empty() && !format!("\n{text}\n").contains(&format!("\n{block}")) {
                if !text.ends_with('\n') {
                    text.push('\n');
                }
                text.push_str(block);
            }
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }
}
