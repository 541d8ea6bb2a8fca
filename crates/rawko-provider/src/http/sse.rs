//! Parses server-sent events from bytes that arrive in arbitrary pieces.
//!
//! Follows the format
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>): byte order mark, CRLF,
//! LF and CR line ends, comments, events of several data lines. Ignores ids and `retry`, because a model's answer is not
//! resumed. Holds at most one event of bounded size. ADR 32 says why this is not a library.

/// The largest event, in bytes. The largest real ones contain a whole tool call.
pub(crate) const MAX_EVENT: usize = 16 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The `event` field; empty if there was none.
    pub(crate) name: String,
    /// The `data` lines, joined by line feeds.
    pub(crate) data: String,
}

/// An event was larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {0} bytes")]
pub(crate) struct EventTooLarge(usize);

/// Parses bytes into events.
#[derive(Debug)]
pub(crate) struct SseDecoder {
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    /// The last byte was a CR: a following LF belongs to it.
    after_cr: bool,
    first_line: bool,
    max: usize,
}

impl SseDecoder {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            line: Vec::new(),
            name: String::new(),
            data: String::new(),
            has_data: false,
            after_cr: false,
            first_line: true,
            max,
        }
    }

    /// Parses the next bytes; `emit` gets every event that they complete.
    ///
    /// # Errors
    /// If an event is larger than the limit. The decoder cannot be used after that.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut emit: impl FnMut(SseEvent),
    ) -> Result<(), EventTooLarge> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                self.line.extend_from_slice(bytes);
                return self.check_size();
            };
            self.after_cr = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.take_line(&bytes[..end], &mut emit);
            } else {
                self.line.extend_from_slice(&bytes[..end]);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, &mut emit);
                self.line = line;
                self.line.clear();
            }
            self.check_size()?;
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// The stream has ended: `emit` gets an event that lacks only its last line ends. Some servers leave them out, and an
    /// event that was really cut fails to parse.
    pub(crate) fn finish(&mut self, mut emit: impl FnMut(SseEvent)) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, &mut emit);
        }
        self.take_line(b"", &mut emit);
    }

    fn check_size(&self) -> Result<(), EventTooLarge> {
        if self.line.len() + self.data.len() > self.max { Err(EventTooLarge(self.max)) } else { Ok(()) }
    }

    fn take_line(&mut self, mut line: &[u8], emit: &mut impl FnMut(SseEvent)) {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(emit);
        }
        let (field, value) = match line.iter().position(|b| *b == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(&String::from_utf8_lossy(value));
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
    }

    fn dispatch(&mut self, emit: &mut impl FnMut(SseEvent)) {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            emit(SseEvent { name, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::new(MAX_EVENT);
        let mut events = Vec::new();
        for piece in pieces {
            decoder.feed(piece, |e| events.push((e.name, e.data))).expect("small events");
        }
        decoder.finish(|e| events.push((e.name, e.data)));
        events
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let found = decode(&[text.as_bytes()]);
        let found: Vec<_> = found.iter().map(|(n, d)| (n.as_str(), d.as_str())).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn events_follow_the_format() {
        check("data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]);
        check("event: ping\ndata: {}\n\n", &[("ping", "{}")]);
        check("data: a\r\n\r\ndata:b\r\rdata: c\n\n", &[("", "a"), ("", "b"), ("", "c")]);
        check("data: one\ndata:  two\n\n", &[("", "one\n two")]);
        check(": comment\n\ndata: a\n: more\nid: 7\nretry: 10\n\n", &[("", "a")]);
        check("\u{feff}data: a\n\n", &[("", "a")]);
        check("data\n\n", &[("", "")]);
        check("event: lost\n\ndata: a\n\n", &[("", "a")]);
        check("data: [DONE]", &[("", "[DONE]")]);
        check("data: a:b: c\n\n", &[("", "a:b: c")]);
        check("", &[]);
        check("\n\n\n", &[]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut decoder = SseDecoder::new(1_000);
        let mut fed = 0;
        let error = loop {
            fed += 1;
            if let Err(error) = decoder.feed(b"data: 0123456789\n", |_| {}) {
                break error;
            }
            assert!(fed < 200, "never refused");
        };
        assert_eq!(error, EventTooLarge(1_000));
        assert_eq!(SseDecoder::new(10).feed(&[b'x'; 11], |_| {}), Err(EventTooLarge(10)));
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            "data: ?[ -~é日😀]{0,20}",
            "event: [a-z]{1,8}",
            ":[ -~]{0,10}",
            "[a-z]{1,5}",
            Just(String::new()),
            Just(String::new()),
        ];
        let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
        proptest::collection::vec((line, end), 0..30)
            .prop_map(|lines| lines.into_iter().flat_map(|(l, e)| format!("{l}{e}").into_bytes()).collect())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(bytes in stream(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8)) {
            let whole = decode(&[&bytes]);
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(&decode(&pieces), &whole);
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(&decode(&single), &whole);
        }

        #[test]
        fn no_bytes_at_all_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&[&bytes]);
        }
    }
}
