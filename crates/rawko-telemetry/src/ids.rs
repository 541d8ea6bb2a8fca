//! Ids of traces and spans, derived from what the journal holds, and the header by which they are handed on.

use std::fmt;
use std::str::FromStr;

use rawko_core::text::hex;
use sha2::{Digest as _, Sha256};

/// The id of a trace.
pub(crate) type TraceId = [u8; 16];
/// The id of a span.
pub(crate) type SpanId = [u8; 8];

/// A position in a trace, as `traceparent` of W3C Trace Context names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: [u8; 16],
    /// The span in it.
    pub span: [u8; 8],
    /// Whether the trace is recorded.
    pub sampled: bool,
}

/// The text is no `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it should look like 00-<32 hexadecimal digits>-<16 hexadecimal digits>-01")]
pub struct NotATraceParent;

impl FromStr for TraceParent {
    type Err = NotATraceParent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.trim().split('-');
        let [Some(version), Some(trace), Some(span), Some(flags)] =
            [parts.next(), parts.next(), parts.next(), parts.next()]
        else {
            return Err(NotATraceParent);
        };
        let [version] = bytes(version).ok_or(NotATraceParent)?;
        let [flags] = bytes(flags).ok_or(NotATraceParent)?;
        let (trace, span) = (bytes(trace).ok_or(NotATraceParent)?, bytes(span).ok_or(NotATraceParent)?);
        // A later version may add parts at the end.
        let is_known = version < 0xff && (version > 0 || parts.next().is_none());
        let is_valid = is_known && trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self { trace, span, sampled: flags & 1 == 1 }).ok_or(NotATraceParent)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", hex(&self.trace), hex(&self.span), u8::from(self.sampled))
    }
}

/// The bytes of lower-case hexadecimal digits.
fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.as_bytes();
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(*pair.first()?)? << 4 | value(*pair.last()?)?;
    }
    Some(bytes)
}

/// The trace of a session that no other trace called.
pub(crate) fn trace_of(session: &str) -> TraceId {
    first(&[b"trace", session.as_bytes()])
}

/// Span number `number` of its kind in a session.
pub(crate) fn span_of(session: &str, kind: &str, number: u64) -> SpanId {
    first(&[b"span", session.as_bytes(), kind.as_bytes(), &number.to_le_bytes()])
}

/// The first bytes of a digest. It is never all zeros, which would be no id.
fn first<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut id = [0; N];
    for (byte, from) in id.iter_mut().zip(hash.finalize()) {
        *byte = from;
    }
    if let Some(last) = id.last_mut().filter(|last| **last == 0) {
        *last = 1;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let parsed = text.parse::<TraceParent>().ok().map(|parent| parent.to_string());
        assert_eq!(parsed.as_deref(), expected, "{text}");
    }

    #[test]
    fn a_trace_parent_is_read_and_written() {
        check(PARENT, Some(PARENT));
        check(&format!(" {PARENT}\n"), Some(PARENT));
        check(&PARENT.replace("-01", "-00"), Some(&PARENT.replace("-01", "-00")));
        check(&PARENT.replace("-01", "-03"), Some(PARENT));
        check(&format!("cc{}-more", PARENT.trim_start_matches("00")), Some(PARENT));
    }

    #[test]
    fn a_text_that_is_no_trace_parent_is_refused() {
        check("", None);
        check("00", None);
        check(&format!("{PARENT}-more"), None);
        check(&format!("ff{}", PARENT.trim_start_matches("00")), None);
        check(&PARENT.to_uppercase(), None);
        check("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None);
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", None);
        check("00-4bf92f3577b34da6a3ce929d0e0e47é-00f067aa0ba902b7-01", None);
    }

    #[test]
    fn ids_differ_by_session_kind_and_number_and_repeat() {
        assert_eq!(trace_of("a"), trace_of("a"));
        assert_ne!(trace_of("a"), trace_of("b"));
        assert_ne!(span_of("a", "chat", 1), span_of("a", "chat", 2));
        assert_ne!(span_of("a", "chat", 1), span_of("a", "tool", 1));
        assert_ne!(span_of("ab", "c", 1), span_of("a", "bc", 1));
    }
}
