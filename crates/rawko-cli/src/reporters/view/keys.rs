//! What a terminal sends, as keys.

/// A key, or a pasted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// A printable character.
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    Delete,
    /// Text that was pasted as a whole.
    Paste(String),
}

const PASTE: &[u8] = b"\x1b[200~";
const PASTED: &[u8] = b"\x1b[201~";
/// Most bytes of a paste that are kept.
const LONGEST_PASTE: usize = 64 * 1024;

/// Turns bytes into keys. What a sequence or a character lacks may come with the next bytes.
#[derive(Debug, Default)]
pub(super) struct KeyReader {
    rest: Vec<u8>,
}

impl KeyReader {
    /// The keys of these bytes.
    pub(super) fn keys(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.rest.extend_from_slice(bytes);
        let mut keys = Vec::new();
        loop {
            let (key, used) = next(&self.rest);
            if used == 0 {
                break;
            }
            keys.extend(key);
            self.rest.drain(..used);
        }
        keys
    }

    /// Nothing more came for a while: an escape that stands alone is the key.
    pub(super) fn pause(&mut self) -> Option<Key> {
        let is_key = self.rest == b"\x1b";
        is_key.then(|| self.rest.clear()).map(|()| Key::Escape)
    }
}

/// The first key, and how many bytes it took: none if it is not complete.
fn next(bytes: &[u8]) -> (Option<Key>, usize) {
    match bytes {
        [] | [0x1b] => (None, 0),
        [b'\n' | b'\r', ..] => (Some(Key::Enter), 1),
        [0x7f | 0x08, ..] => (Some(Key::Backspace), 1),
        [0x01, ..] => (Some(Key::Home), 1),
        [0x05, ..] => (Some(Key::End), 1),
        [0x1b, b'[', ..] if bytes.starts_with(PASTE) => paste(bytes),
        [0x1b, b'[', parameters @ ..] => {
            let Some(end) = parameters.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                // Longer than any real one: let go.
                return (None, if bytes.len() > 64 { bytes.len() } else { 0 });
            };
            (of_sequence(&parameters[..=end]), end + 3)
        }
        [0x1b, b'O'] => (None, 0),
        [0x1b, b'O', letter, ..] => (of_sequence(&[*letter]), 3),
        // Alt with a key.
        [0x1b, _, ..] => (None, 2),
        [0x00..=0x1f, ..] => (None, 1),
        [first, ..] => {
            let length = match first {
                0x00..=0x7f => 1,
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf7 => 4,
                _ => return (None, 1),
            };
            let Some(character) = bytes.get(..length) else { return (None, 0) };
            let c = std::str::from_utf8(character).ok().and_then(|text| text.chars().next());
            (c.map(Key::Char), if c.is_some() { length } else { 1 })
        }
    }
}

fn of_sequence(sequence: &[u8]) -> Option<Key> {
    match sequence {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"C" => Some(Key::Right),
        b"D" => Some(Key::Left),
        b"H" | b"1~" | b"7~" => Some(Key::Home),
        b"F" | b"4~" | b"8~" => Some(Key::End),
        b"3~" => Some(Key::Delete),
        _ => None,
    }
}

fn paste(bytes: &[u8]) -> (Option<Key>, usize) {
    let text = &bytes[PASTE.len()..];
    let end = text.windows(PASTED.len()).position(|window| window == PASTED);
    match end {
        Some(end) => {
            let pasted = String::from_utf8_lossy(&text[..end.min(LONGEST_PASTE)]).into_owned();
            (Some(Key::Paste(pasted)), PASTE.len() + end + PASTED.len())
        }
        // What has no end is given up.
        None if text.len() > LONGEST_PASTE => (None, bytes.len()),
        None => (None, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &[Key]) {
        assert_eq!(KeyReader::default().keys(bytes), expected);
        // Byte by byte it is the same.
        let mut reader = KeyReader::default();
        let keys: Vec<Key> = bytes.iter().flat_map(|byte| reader.keys(&[*byte])).collect();
        assert_eq!(keys, expected);
    }

    #[test]
    fn bytes_are_keys() {
        check(b"p?\n\r", &[Key::Char('p'), Key::Char('?'), Key::Enter, Key::Enter]);
        check("é日".as_bytes(), &[Key::Char('é'), Key::Char('日')]);
        check(
            b"\x1b[A\x1bOB\x1b[3~\x7f\x08",
            &[Key::Up, Key::Down, Key::Delete, Key::Backspace, Key::Backspace],
        );
        check(b"\x1b[1;5Cx\x1bq\x04\xff", &[Key::Char('x')]);
        check(b"\x1b[200~q\ny\x1b[201~m", &[Key::Paste("q\ny".to_owned()), Key::Char('m')]);
    }

    #[test]
    fn an_escape_is_a_key_once_nothing_follows() {
        let mut reader = KeyReader::default();
        assert_eq!((reader.keys(b"\x1b"), reader.pause()), (vec![], Some(Key::Escape)));
        assert_eq!((reader.keys(b"\x1b"), reader.keys(b"[A"), reader.pause()), (vec![], vec![Key::Up], None));
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = KeyReader::default();
            let keys = reader.keys(&bytes);
            prop_assert!(keys.len() <= bytes.len());
        }
    }
}
