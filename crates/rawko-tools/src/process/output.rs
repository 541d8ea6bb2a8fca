//! Keeps output of any length in bounded memory: its head, its tail, and how much is between them.

use std::collections::VecDeque;

/// The first and the last bytes of a stream.
#[derive(Debug)]
pub(crate) struct HeadAndTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// The most bytes of each.
    half: usize,
    total: u64,
}

impl HeadAndTail {
    /// Keeps at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: limit / 2, total: 0 }
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.half - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// Takes the last word away if it may go on, that is if no white space follows it; nothing if it is longer than
    /// `limit`.
    pub(crate) fn take_open_word(&mut self, limit: usize) -> Vec<u8> {
        let backwards = self.tail.iter().rev().chain(self.head.iter().rev());
        let length = backwards.take_while(|byte| !byte.is_ascii_whitespace()).count();
        // A part of the stream is missing between head and tail.
        let is_cut = (self.head.len() + self.tail.len()) as u64 != self.total && length >= self.tail.len();
        if length > limit || is_cut {
            return Vec::new();
        }
        self.total -= length as u64;
        let from_tail = length.min(self.tail.len());
        let mut word = self.head.split_off(self.head.len() - (length - from_tail));
        word.extend(self.tail.drain(self.tail.len() - from_tail..));
        word
    }

    /// Whether nothing has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The kept bytes as text, with a note where something was cut.
    pub(crate) fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let kept = (self.head.len() + tail.len()) as u64;
        if kept == self.total {
            let whole = [self.head.as_slice(), &tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let head = String::from_utf8_lossy(whole_characters(&self.head));
        let broken = tail.iter().take(3).take_while(|b| is_continuation(**b)).count();
        let tail = String::from_utf8_lossy(&tail[broken..]);
        format!(
            "{head}\n[... {} of {} bytes cut from the middle of the output ...]\n{tail}",
            self.total - kept,
            self.total
        )
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// `bytes` without a character at their end that was cut off.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let started = bytes.iter().rev().take(3).position(|b| !is_continuation(*b));
    let Some(back) = started else { return bytes };
    let start = bytes.len() - 1 - back;
    match std::str::from_utf8(&bytes[start..]) {
        Err(error) if error.error_len().is_none() => &bytes[..start],
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(limit: usize, chunks: &[&[u8]], expected: &str) {
        let mut output = HeadAndTail::new(limit);
        chunks.iter().for_each(|chunk| output.push(chunk));
        assert_eq!(output.text(), expected);
    }

    #[test]
    fn head_and_tail_are_kept() {
        check(8, &[b"abc", b"defgh"], "abcdefgh");
        check(
            8,
            &[b"abcdefgh", b"ij"],
            "abcd\n[... 2 of 10 bytes cut from the middle of the output ...]\nghij",
        );
        check(4, &["ééé".as_bytes()], "é\n[... 2 of 6 bytes cut from the middle of the output ...]\né");
        check(
            6,
            &["日本語日本".as_bytes()],
            "日\n[... 9 of 15 bytes cut from the middle of the output ...]\n本",
        );
        check(4, &["a日日a".as_bytes()], "a\n[... 4 of 8 bytes cut from the middle of the output ...]\na");
    }

    #[track_caller]
    fn check_open(limit: usize, text: &str, rest: &str, word: &str) {
        let mut output = HeadAndTail::new(limit);
        output.push(text.as_bytes());
        let taken = output.take_open_word(6);
        assert_eq!(
            (output.text().as_str(), String::from_utf8_lossy(&taken).as_ref()),
            (rest, word),
            "{text}"
        );
    }

    #[test]
    fn a_word_that_may_go_on_is_taken_away() {
        check_open(80, "one two", "one ", "two");
        check_open(80, "one two\n", "one two\n", "");
        check_open(80, "two", "", "two");
        check_open(80, "one toolong", "one toolong", "");
        check_open(10, "one two", "one ", "two");
        check_open(
            8,
            "abcdefgh j k",
            "abcd\n[... 4 of 11 bytes cut from the middle of the output ...]\n j ",
            "k",
        );
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_short_output_is_whole(chunks in proptest::collection::vec("[aé日🀀\\n]{0,20}", 0..10)) {
            let mut output = HeadAndTail::new(50);
            chunks.iter().for_each(|chunk| output.push(chunk.as_bytes()));
            prop_assert!(output.head.len() + output.tail.len() <= 50);
            let whole = chunks.concat();
            if whole.len() <= 50 { prop_assert_eq!(output.text(), whole) } else {
                prop_assert!(!output.text().contains(char::REPLACEMENT_CHARACTER), "a character was cut");
            }
        }
    }
}
