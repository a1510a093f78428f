//! From the terminal's bytes to keys. Between the marks of a bracketed paste
//! every byte is text, whatever it is.

/// The most that one paste may hold; the rest is dropped.
const MAX_PASTE: usize = 4 << 20;

const PASTE_END: &[u8] = b"\x1b[201~";

/// What was pressed, or pasted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// A character.
    Char(char),
    /// The submit key (CR).
    Enter,
    /// A line break in the text (LF).
    Newline,
    /// Backspace.
    Backspace,
    /// `^U`.
    Clear,
    /// `^C`.
    Interrupt,
    /// `^D`.
    End,
    /// A whole paste, its line ends as newlines.
    Paste(String),
}

/// Keeps what the last read left unfinished.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    state: State,
    /// The bytes of a character that is not complete.
    partial: Vec<u8>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    /// Inside `ESC [` or `ESC O`.
    Sequence(Vec<u8>),
    Paste(Vec<u8>),
}

impl Decoder {
    /// The keys in these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        for &byte in bytes {
            self.take(byte, &mut keys);
        }
        keys
    }

    fn take(&mut self, byte: u8, keys: &mut Vec<Key>) {
        match &mut self.state {
            State::Ground => self.press(byte, keys),
            State::Escape => match byte {
                b'[' | b'O' => self.state = State::Sequence(Vec::new()),
                // A lone ESC is nothing here, and swallows nothing.
                0x1b => {}
                _ => {
                    self.state = State::Ground;
                    self.press(byte, keys);
                }
            },
            State::Sequence(so_far) => match byte {
                0x40..=0x7e => {
                    let is_paste = byte == b'~' && so_far == b"200";
                    self.state = if is_paste { State::Paste(Vec::new()) } else { State::Ground };
                }
                0x20..=0x3f if so_far.len() < 32 => so_far.push(byte),
                _ => self.state = State::Ground,
            },
            State::Paste(text) => {
                text.push(byte);
                if text.ends_with(PASTE_END) {
                    text.truncate((text.len() - PASTE_END.len()).min(MAX_PASTE));
                    keys.push(Key::Paste(pasted(text)));
                    self.state = State::Ground;
                } else if text.len() > MAX_PASTE + PASTE_END.len() {
                    // The end mark must still be found: its length is kept.
                    text.remove(MAX_PASTE);
                }
            }
        }
    }

    fn press(&mut self, byte: u8, keys: &mut Vec<Key>) {
        if byte >= 0x80 || !self.partial.is_empty() {
            self.partial.push(byte);
            match str::from_utf8(&self.partial) {
                Ok(text) => keys.extend(text.chars().map(Key::Char)),
                Err(error) if error.error_len().is_none() => return,
                Err(_) => keys.push(Key::Char(char::REPLACEMENT_CHARACTER)),
            }
            self.partial.clear();
            return;
        }
        match byte {
            b'\r' => keys.push(Key::Enter),
            b'\n' => keys.push(Key::Newline),
            0x7f | 0x08 => keys.push(Key::Backspace),
            0x15 => keys.push(Key::Clear),
            0x03 => keys.push(Key::Interrupt),
            0x04 => keys.push(Key::End),
            0x1b => self.state = State::Escape,
            b'\t' => keys.extend((0..4).map(|_| Key::Char(' '))),
            0x20..=0x7e => keys.push(Key::Char(char::from(byte))),
            _ => {}
        }
    }
}

fn pasted(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        Decoder::default().feed(bytes)
    }

    #[test]
    fn every_byte_between_the_marks_is_text() {
        let hostile = b"a\x03\x04\x15\x1b[A\x1bb\r\n\x7f/exit\r!touch x\x00";
        let mut bytes = b"\x1b[200~".to_vec();
        bytes.extend_from_slice(hostile);
        bytes.extend_from_slice(b"\x1b[201~");
        let text = "a\u{3}\u{4}\u{15}\u{1b}[A\u{1b}b\n\u{7f}/exit\n!touch x\0";
        assert_eq!(keys(&bytes), [Key::Paste(text.into())]);
    }

    #[test]
    fn a_paste_and_a_character_may_be_cut_anywhere() {
        let bytes = "ü\x1b[200~é\nx\x1b[201~\r€".as_bytes();
        let whole = keys(bytes);
        assert_eq!(whole, [Key::Char('ü'), Key::Paste("é\nx".into()), Key::Enter, Key::Char('€')]);
        let mut decoder = Decoder::default();
        let single: Vec<_> = bytes.iter().flat_map(|&byte| decoder.feed(&[byte])).collect();
        assert_eq!(single, whole);
    }

    #[test]
    fn arrows_and_a_lone_escape_do_nothing() {
        assert_eq!(keys(b"\x1b[A\x1b[1;5D\x1bOPx\x1b\x1by"), [Key::Char('x'), Key::Char('y')]);
    }

    #[test]
    fn a_paste_without_end_is_bounded() {
        let mut decoder = Decoder::default();
        decoder.feed(b"\x1b[200~");
        decoder.feed(&vec![b'x'; MAX_PASTE]);
        decoder.feed(b"some more than fits");
        let keys = decoder.feed(b"\x1b[201~a");
        assert_eq!(keys.len(), 2);
        assert!(matches!(&keys[0], Key::Paste(text) if text.len() == MAX_PASTE));
    }
}
