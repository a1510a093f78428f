//! Questions to a person: the answer that is proposed stands in brackets and is
//! taken by Enter.

use std::io::{self, Write as _};

use crate::base::failure::Failure;
use crate::base::terminal::Printer;
use crate::base::text::visible;

/// Asks until the answer can be read.
pub(super) fn ask<T>(
    printer: Printer,
    question: &str,
    proposed: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    loop {
        let shown = visible(proposed);
        write!(printer.err(), "{question} [{shown}]: ")?;
        printer.err().flush()?;
        let mut line = String::new();
        let length = io::stdin().read_line(&mut line)?;
        if length == 0 {
            return Err(Failure::refused("there was no answer; nothing was written"));
        }
        let answer = match line.trim() {
            "" => proposed,
            answer => answer,
        };
        match read(answer) {
            Ok(value) => return Ok(value),
            Err(why) => printer.note(&format!("  {why}")),
        }
    }
}

/// The words of a list, divided by commas or blanks. `none` is none.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split([',', ' '])
        .filter(|word| !word.is_empty() && *word != "none")
        .map(str::to_owned)
        .collect()
}
