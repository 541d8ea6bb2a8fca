//! Lines of a bounded length that are JSON. Of others, only who asked is remembered: a longer one is passed over without
//! being kept.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rmcp::model::RequestId;
use tokio::io::{AsyncBufRead as _, AsyncRead, BufReader, ReadBuf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A message that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreadMessage {
    /// The id of the request; absent where there is none, or it cannot be read.
    pub(super) id: Option<RequestId>,
    pub(super) why: WhyUnread,
}

/// Why a message is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WhyUnread {
    TooLong,
    /// What a parser of JSON says of it.
    NotJson(String),
}

/// Gives the lines of `input` that are JSON and no longer than the limit.
pub(super) struct BoundedLines<R> {
    input: BufReader<R>,
    longest: usize,
    line: Vec<u8>,
    /// How much of the line was given, once it is whole.
    given: Option<usize>,
    /// What is known of the line, if it is too long.
    passed_over: Option<RequestScan>,
    unread: UnboundedSender<UnreadMessage>,
}

impl<R: AsyncRead> BoundedLines<R> {
    /// The lines, and the messages that are no such lines.
    pub(super) fn new(input: R, longest: usize) -> (Self, UnboundedReceiver<UnreadMessage>) {
        let (unread, refused) = unbounded_channel();
        let input = BufReader::new(input);
        (Self { input, longest, line: Vec::new(), given: None, passed_over: None, unread }, refused)
    }

    /// Takes the next bytes of a line, and whether it ends with them.
    fn take(&mut self, bytes: &[u8], is_end: bool) {
        if let Some(scan) = &mut self.passed_over {
            scan.read(bytes);
        } else if self.line.len() + bytes.len() > self.longest {
            let mut scan = RequestScan::default();
            scan.read(&self.line);
            scan.read(bytes);
            self.line = Vec::new();
            self.passed_over = Some(scan);
        } else {
            self.line.extend_from_slice(bytes);
        }
        if !is_end {
            return;
        }
        match self.passed_over.take() {
            Some(scan) => self.refuse(scan, WhyUnread::TooLong),
            None => match not_json(&self.line) {
                Some(why) => {
                    let mut scan = RequestScan::default();
                    scan.read(&self.line);
                    self.line.clear();
                    self.refuse(scan, WhyUnread::NotJson(why));
                }
                None => self.given = Some(0),
            },
        }
    }

    fn refuse(&self, scan: RequestScan, why: WhyUnread) {
        // The receiver is gone only where nothing is read any more.
        let _ = self.unread.send(UnreadMessage { id: scan.id(), why });
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if let Some(given) = this.given {
                let rest = this.line.get(given..).unwrap_or_default();
                let part = rest.get(..rest.len().min(out.remaining())).unwrap_or_default();
                out.put_slice(part);
                let given = given + part.len();
                this.given = Some(given);
                if given == this.line.len() {
                    this.line.clear();
                    this.given = None;
                }
                return Poll::Ready(Ok(()));
            }
            let available = ready!(Pin::new(&mut this.input).poll_fill_buf(cx))?;
            if available.is_empty() {
                // A line without an end is no message.
                return Poll::Ready(Ok(()));
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let bytes =
                available.get(..newline.map_or(available.len(), |at| at + 1)).unwrap_or_default().to_vec();
            Pin::new(&mut this.input).consume(bytes.len());
            this.take(&bytes, newline.is_some());
        }
    }
}

/// Why a line is no JSON. An empty one is nothing, which is no mistake.
fn not_json(line: &[u8]) -> Option<String> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if line.trim_ascii().is_empty() {
        return None;
    }
    // As a value: what is only skipped may be nested deeper, or hold numbers that nobody can take.
    serde_json::from_slice::<serde_json::Value>(line).err().map(|error| error.to_string())
}

/// Reads the id of a JSON-RPC request as its bytes pass, wherever it stands in the message.
#[derive(Debug, Default)]
struct RequestScan {
    /// How many objects and lists are open.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The scalar at the top level that is being read, as far as it may be an id or a name.
    token: Vec<u8>,
    /// The name of the field whose value is being read.
    field: Vec<u8>,
    id: Option<RequestId>,
    has_method: bool,
}

impl RequestScan {
    /// Bytes of an id.
    const LONGEST_TOKEN: usize = 256;

    fn read(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.byte(*byte));
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.end_field();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.field = std::mem::take(&mut self.token),
            b',' => self.end_field(),
            _ if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < Self::LONGEST_TOKEN {
            self.token.push(byte);
        }
    }

    fn end_field(&mut self) {
        if self.depth != 1 {
            return;
        }
        let token = std::mem::take(&mut self.token);
        match std::mem::take(&mut self.field).as_slice() {
            b"\"id\"" => self.id = serde_json::from_slice(&token).ok(),
            b"\"method\"" => self.has_method = true,
            _ => {}
        }
    }

    /// The id, if it was a request. An answer of the client needs none.
    fn id(self) -> Option<RequestId> {
        self.id.filter(|_| self.has_method)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[track_caller]
    fn check(message: &str, id: Option<serde_json::Value>) {
        for parts in [1, 7, message.len()] {
            let mut scan = RequestScan::default();
            message.as_bytes().chunks(parts).for_each(|part| scan.read(part));
            assert_eq!(scan.id().map(|id| json!(id)), id, "{message}");
        }
    }

    #[test]
    fn an_id_is_found_wherever_it_stands() {
        check(r#"{"jsonrpc": "2.0", "id": 7, "method": "m", "params": {"id": 8}}"#, Some(json!(7)));
        check(r#"{"method":"m","params":{"x":[{"id":1}],"y":"\\\"}, id"},"id":"a\"b"}"#, Some(json!("a\"b")));
        check(r#"{"id": 7, "result": {"method": "m"}}"#, None);
        check(r#"{"method": "m", "params": {"id": 8}}"#, None);
        check(r#"{"id": {"id": 7}, "method": "m"}"#, None);
        check(r#"[{"id": 7, "method": "m"}]"#, None);
        check("no json, id: 7 }}]]", None);
    }

    #[tokio::test]
    async fn a_long_line_is_passed_over_and_the_next_ones_are_given() {
        let long = format!("{{\"method\":\"m\",\"id\":3,\"x\":\"{}\"}}\n", "y".repeat(50_000));
        let just = format!("\"{}\"\n", "z".repeat(97));
        let input = format!("{{\"id\":1}}\n{long}{just}\n{long}no end");
        let (mut lines, mut refused) = BoundedLines::new(input.as_bytes(), 100);
        let mut out = String::new();
        lines.read_to_string(&mut out).await.unwrap();
        assert_eq!(out, format!("{{\"id\":1}}\n{just}\n"));
        for _ in 0..2 {
            let message = refused.try_recv().unwrap();
            assert_eq!((message.id, message.why), (Some(RequestId::Number(3)), WhyUnread::TooLong));
        }
        assert!(refused.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_line_that_is_no_json_is_refused_and_json_of_any_kind_is_given() {
        let request = |params: &str| format!("{{\"id\":3,\"method\":\"m\",\"params\":{params}}}\n");
        let deep = request(&format!("{}{}", "[".repeat(200), "]".repeat(200)));
        let given = ["7\n", "\n", " \r\n", "\u{feff}{\"id\":1}\r\n", &request("[[1e300]]")].concat();
        let bad = [&*deep, &request("Infinity"), &request("1e999"), &request("\"\\ud800\""), "{bad json\n"];
        let input = format!("{}{given}", bad.concat());
        let (mut lines, mut refused) = BoundedLines::new(input.as_bytes(), 1_000);
        let mut out = String::new();
        lines.read_to_string(&mut out).await.unwrap();
        assert_eq!(out, given);
        for (line, id) in bad.iter().zip([3, 3, 3, 3, 0]) {
            let message = refused.try_recv().unwrap();
            assert_eq!(message.id, Some(RequestId::Number(id)).filter(|_| id > 0), "{line}");
            assert!(matches!(message.why, WhyUnread::NotJson(_)), "{line}");
        }
        assert!(refused.try_recv().is_err());
    }
}
