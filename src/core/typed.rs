//! What a browser's terminal has typed, told apart from what it answers by itself.
//!
//! The terminal in a page (xterm.js) knows the modes of tmux's client, not those of
//! the agent: its arrow is written for a program that the agent is not. So keys are
//! read here, and tmux writes them as the agent's pane wants them. What no key
//! makes (reports of a mouse, of the focus, of a cursor, of colours) ends here.

/// One thing that was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// Text, or a key that is the same in every mode: these very bytes.
    Bytes(Vec<u8>),
    /// A key that is written as the program wants it.
    Key(Key),
    /// What was pasted as a whole.
    Paste(Vec<u8>),
}

/// A key with what is held beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub name: Name,
    /// The shift key, where it makes another key of it.
    pub shift: bool,
    /// The meta key, on most keyboards Alt.
    pub meta: bool,
    /// The control key.
    pub control: bool,
}

/// A key that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// A letter or a digit of ASCII, which is here only with control or meta.
    Letter(char),
    /// The space bar, which is here only with control.
    Space,
    /// Up.
    Up,
    /// Down.
    Down,
    /// Right.
    Right,
    /// Left.
    Left,
    /// Home.
    Home,
    /// End.
    End,
    /// Insert.
    Insert,
    /// Delete.
    Delete,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// A function key, from 1 to 12.
    Function(u8),
    /// Enter.
    Enter,
    /// Tab.
    Tab,
    /// Tab with shift.
    Backtab,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
}

impl Name {
    /// The key alone.
    pub const fn alone(self) -> Key {
        Key { name: self, shift: false, meta: false, control: false }
    }
}

/// The longest paste that is kept as one; what comes after it is another.
const MAX_PASTE: usize = 1 << 20;

const ESCAPE: u8 = 0x1b;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Reads what one terminal types, frame by frame. A sequence ends with its frame:
/// the page sends each key in one. Only a paste goes on in the next.
#[derive(Debug, Default)]
pub struct Reader {
    /// What was pasted until now, while a paste goes on.
    paste: Option<Vec<u8>>,
}

impl Reader {
    /// What a frame holds.
    pub fn read(&mut self, frame: &[u8]) -> Vec<Typed> {
        let mut typed = Found(Vec::new());
        let mut rest = frame;
        loop {
            if let Some(paste) = &mut self.paste {
                // The end may have begun in the frame before.
                let from = paste.len().saturating_sub(PASTE_ENDS.len() - 1);
                paste.extend_from_slice(rest);
                let end = find(&paste[from..], PASTE_ENDS).map(|at| from + at);
                let Some(end) = end else {
                    // What may be the beginning of the end stays.
                    if paste.len() > MAX_PASTE + PASTE_ENDS.len() {
                        let kept = paste.split_off(MAX_PASTE);
                        typed.paste(std::mem::replace(paste, kept));
                    }
                    return typed.0;
                };
                let after = paste.len() - end - PASTE_ENDS.len();
                paste.truncate(end);
                typed.paste(std::mem::take(paste));
                self.paste = None;
                rest = &rest[rest.len() - after..];
            }
            let Some(begin) = find(rest, PASTE_BEGINS) else {
                keys(rest, &mut typed);
                return typed.0;
            };
            keys(&rest[..begin], &mut typed);
            rest = &rest[begin + PASTE_BEGINS.len()..];
            self.paste = Some(Vec::new());
        }
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// What was found until now.
struct Found(Vec<Typed>);

impl Found {
    fn bytes(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            Some(Typed::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(Typed::Bytes(bytes.to_vec())),
        }
    }

    fn paste(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.0.push(Typed::Paste(bytes));
        }
    }

    fn key(&mut self, key: Key) {
        self.0.push(Typed::Key(key));
    }
}

/// Reads what is no paste.
fn keys(mut rest: &[u8], typed: &mut Found) {
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match (first, after.first().copied()) {
            (ESCAPE, Some(b'[' | b'O')) if after.len() > 1 => {
                rest = sequence(after, typed);
            }
            // What a terminal says by itself: a title, a colour, its name.
            (ESCAPE, Some(b']' | b'P' | b'X' | b'^' | b'_')) if after.len() > 1 => {
                rest = after_string(&after[1..]);
            }
            (ESCAPE, Some(next)) if next != ESCAPE => {
                rest = &after[1..];
                match control(next).or_else(|| letter(next)) {
                    Some(key) => typed.key(Key { meta: true, ..key }),
                    None => typed.bytes(&[ESCAPE, next]),
                }
            }
            _ => match control(first) {
                Some(key) => typed.key(key),
                None => typed.bytes(&[first]),
            },
        }
    }
}

/// The key that a control character is.
fn control(byte: u8) -> Option<Key> {
    let with_control = |name| Key { control: true, ..Name::alone(name) };
    Some(match byte {
        0 => with_control(Name::Space),
        b'\t' => Name::Tab.alone(),
        b'\r' => Name::Enter.alone(),
        ESCAPE => Name::Escape.alone(),
        1..=26 => with_control(Name::Letter(char::from(byte - 1 + b'a'))),
        0x7f => Name::Backspace.alone(),
        _ => return None,
    })
}

fn letter(byte: u8) -> Option<Key> {
    byte.is_ascii_alphanumeric().then(|| Name::Letter(char::from(byte)).alone())
}

/// Reads a sequence behind its escape character; what comes after it.
fn sequence<'a>(text: &'a [u8], typed: &mut Found) -> &'a [u8] {
    let (kind, body) = (text[0], &text[1..]);
    if kind == b'O' {
        if let Some(name) = by_letter(body[0]) {
            typed.key(name.alone());
        }
        return &body[1..];
    }
    // Parameters, then what is between, then the one that ends it.
    let end = body.iter().position(|byte| !(0x20..0x40).contains(byte));
    let Some(end) = end else { return &[] };
    let (parameters, last) = (&body[..end], body[end]);
    let rest = &body[end + 1..];
    if last == b'M' && parameters.is_empty() {
        // A mouse's report of the old kind: a button and a place.
        return rest.get(3..).unwrap_or_default();
    }
    if !(0x40..0x7f).contains(&last) {
        // Broken off by something else, which counts.
        return &body[end..];
    }
    if let Some(key) = key_of(parameters, last) {
        typed.key(key);
    }
    rest
}

/// What comes after a string that a terminal sends by itself.
fn after_string(text: &[u8]) -> &[u8] {
    for (at, byte) in text.iter().enumerate() {
        match byte {
            0x07 => return &text[at + 1..],
            &ESCAPE => return text[at + 1..].strip_prefix(b"\\").unwrap_or(&text[at..]),
            _ => {}
        }
    }
    &[]
}

/// The key that a sequence means; nothing for what is none.
fn key_of(parameters: &[u8], last: u8) -> Option<Key> {
    let parameters = std::str::from_utf8(parameters).ok()?;
    let mut numbers = parameters.split(';').map(|number| match number {
        "" => Some(1_u8),
        number => number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok())?,
    });
    let first = numbers.next()??;
    let held = numbers.next().unwrap_or(Some(1))?;
    if numbers.next().is_some() {
        return None;
    }
    let name = match last {
        b'~' => by_number(first)?,
        b'Z' if first == 1 && held == 1 => return Some(Name::Backtab.alone()),
        _ if first == 1 => by_letter(last)?,
        _ => return None,
    };
    let bits = held.checked_sub(1).filter(|bits| *bits < 16)?;
    let is_held = |bit: u8| bits & bit != 0;
    Some(Key { name, shift: is_held(1), meta: is_held(2) || is_held(8), control: is_held(4) })
}

fn by_letter(letter: u8) -> Option<Name> {
    Some(match letter {
        b'A' => Name::Up,
        b'B' => Name::Down,
        b'C' => Name::Right,
        b'D' => Name::Left,
        b'H' => Name::Home,
        b'F' => Name::End,
        b'P'..=b'S' => Name::Function(letter - b'P' + 1),
        _ => return None,
    })
}

fn by_number(number: u8) -> Option<Name> {
    Some(match number {
        1 | 7 => Name::Home,
        2 => Name::Insert,
        3 => Name::Delete,
        4 | 8 => Name::End,
        5 => Name::PageUp,
        6 => Name::PageDown,
        11..=15 => Name::Function(number - 10),
        17..=21 => Name::Function(number - 11),
        23 | 24 => Name::Function(number - 12),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(frame: &[u8]) -> Vec<Typed> {
        Reader::default().read(frame)
    }

    fn bytes(text: &[u8]) -> Typed {
        Typed::Bytes(text.to_vec())
    }

    fn key(name: Name, held: &str) -> Typed {
        let is_held = |mark| held.contains(mark);
        Typed::Key(Key { name, shift: is_held('S'), meta: is_held('M'), control: is_held('C') })
    }

    #[test]
    fn each_key_of_the_page_is_read() {
        use Name::*;
        for (text, name, held) in [
            ("\x1bOA", Up, ""),
            ("\x1b[A", Up, ""),
            ("\x1bOB", Down, ""),
            ("\x1b[C", Right, ""),
            ("\x1b[D", Left, ""),
            ("\x1b[1;2A", Up, "S"),
            ("\x1b[1;3B", Down, "M"),
            ("\x1b[1;5C", Right, "C"),
            ("\x1b[1;8D", Left, "SMC"),
            ("\x1b[1;9D", Left, "M"),
            ("\x1bOH", Home, ""),
            ("\x1b[H", Home, ""),
            ("\x1b[1~", Home, ""),
            ("\x1b[1;5H", Home, "C"),
            ("\x1bOF", End, ""),
            ("\x1b[4~", End, ""),
            ("\x1b[2~", Insert, ""),
            ("\x1b[3~", Delete, ""),
            ("\x1b[3;5~", Delete, "C"),
            ("\x1b[5~", PageUp, ""),
            ("\x1b[6;2~", PageDown, "S"),
            ("\x1bOP", Function(1), ""),
            ("\x1bOS", Function(4), ""),
            ("\x1b[1;2P", Function(1), "S"),
            ("\x1b[15~", Function(5), ""),
            ("\x1b[17~", Function(6), ""),
            ("\x1b[21~", Function(10), ""),
            ("\x1b[23~", Function(11), ""),
            ("\x1b[24;6~", Function(12), "SC"),
            ("\r", Enter, ""),
            ("\x1b\r", Enter, "M"),
            ("\t", Tab, ""),
            ("\x1b[Z", Backtab, ""),
            ("\x1b", Escape, ""),
            ("\x7f", Backspace, ""),
            ("\x1b\x7f", Backspace, "M"),
            ("\x08", Letter('h'), "C"),
            ("\x01", Letter('a'), "C"),
            ("\x1a", Letter('z'), "C"),
            ("\n", Letter('j'), "C"),
            ("\0", Space, "C"),
            ("\x1bx", Letter('x'), "M"),
            ("\x1b7", Letter('7'), "M"),
            ("\x1bO", Letter('O'), "M"),
            ("\x1b\x02", Letter('b'), "MC"),
        ] {
            assert_eq!(read(text.as_bytes()), [key(name, held)], "{text:?}");
        }
    }

    #[test]
    fn text_and_keys_without_a_name_are_their_bytes() {
        for text in ["a", "hello ✓", "~;'\"{}#\\$%", "\x1c", "\x1f", "\x1b;", "\x1b["] {
            assert_eq!(read(text.as_bytes()), [bytes(text.as_bytes())], "{text:?}");
        }
        assert_eq!(
            read(b"ls\r\x1b\x1b[Ax"),
            [
                bytes(b"ls"),
                key(Name::Enter, ""),
                key(Name::Escape, ""),
                key(Name::Up, ""),
                bytes(b"x")
            ]
        );
        // Half of a letter is all the same.
        assert_eq!(read(b"\xe2\x9c"), [bytes(b"\xe2\x9c")]);
    }

    #[test]
    fn what_no_key_makes_ends_here() {
        for text in [
            "\x1b[I",
            "\x1b[O",
            "\x1b[?1;2c",
            "\x1b[>0;276;0c",
            "\x1b[12;40R",
            "\x1b[?2026;2$y",
            "\x1b[8;30;100t",
            "\x1b[<0;5;5M",
            "\x1b[<0;5;5m",
            "\x1b[0;5;5M",
            "\x1b[M !!",
            "\x1b[M !",
            "\x1b]11;rgb:14/16/1b\x1b\\",
            "\x1b]10;rgb:14/16/1b\x07",
            "\x1bP>|xterm.js(5.6)\x1b\\",
            "\x1bP1$r0m",
            "\x1b_Gi=1;OK\x1b\\",
            "\x1b[27;5;13~",
            "\x1b[13;2u",
            "\x1b[201~",
            "\x1b[1;17A",
            "\x1b[1;0A",
            "\x1b[2A",
            "\x1b[99~",
            "\x1b[1;",
        ] {
            assert_eq!(read(text.as_bytes()), [], "{text:?}");
        }
        assert_eq!(read(b"\x1b]11;rgb:1/2/3\x1b\\x"), [bytes(b"x")]);
        assert_eq!(read(b"\x1b[M !!x"), [bytes(b"x")]);
        assert_eq!(read(b"\x1b[12\rx"), [key(Name::Enter, ""), bytes(b"x")]);
    }

    #[test]
    fn a_paste_is_one_whatever_frames_it_comes_in() {
        let text = b"a\x1b[200~line\rother \x1b[A line\x1b[201~b";
        let whole = [bytes(b"a"), Typed::Paste(b"line\rother \x1b[A line".to_vec()), bytes(b"b")];
        assert_eq!(read(text), whole);
        // After its mark it may be cut anywhere.
        for cut in 7..text.len() {
            let mut reader = Reader::default();
            let mut typed = reader.read(&text[..cut]);
            typed.extend(reader.read(&text[cut..]));
            assert_eq!(typed, whole, "{cut}");
        }
        assert_eq!(read(b"\x1b[200~\x1b[201~"), []);
        // One without an end is not kept for ever, and has an end all the same.
        let mut reader = Reader::default();
        reader.read(b"\x1b[200~");
        let mut typed = Vec::new();
        for _ in 0..140 {
            typed.extend(reader.read(&[b'x'; 8 << 10]));
        }
        assert_eq!(typed, [Typed::Paste(vec![b'x'; MAX_PASTE])]);
        let rest = reader.read(b"\x1b[201~y");
        assert_eq!(rest, [Typed::Paste(vec![b'x'; (140 << 13) - MAX_PASTE]), bytes(b"y")]);
    }

    proptest! {
        #[test]
        fn nothing_is_typed_that_is_no_key_and_no_text(frame in prop::collection::vec(
            prop_oneof![Just(ESCAPE), Just(b'['), Just(b'O'), Just(b';'), Just(b'~'), any::<u8>()],
            0..40,
        )) {
            let mut reader = Reader::default();
            let typed = reader.read(&frame);
            // Bytes stand as they stood, in their order; keys are of the table.
            let mut at = 0;
            for one in &typed {
                match one {
                    Typed::Bytes(bytes) => {
                        prop_assert!(!bytes.is_empty());
                        for byte in bytes {
                            let more = frame[at..].iter().position(|other| other == byte);
                            prop_assert!(more.is_some());
                            at += more.unwrap() + 1;
                        }
                    }
                    Typed::Key(Key { name: Name::Letter(c), meta, control, .. }) => {
                        prop_assert!(c.is_ascii_alphanumeric() && (*meta || *control));
                    }
                    Typed::Key(Key { name: Name::Function(n), .. }) => {
                        prop_assert!((1..=12).contains(n));
                    }
                    Typed::Key(_) => {}
                    Typed::Paste(_) => prop_assert!(find(&frame, PASTE_BEGINS).is_some()),
                }
            }
        }

        #[test]
        fn plain_text_comes_through_whole(text in "[^\\x00-\\x1f\\x7f]{1,200}") {
            prop_assert_eq!(read(text.as_bytes()), [Typed::Bytes(text.into_bytes())]);
        }
    }
}
