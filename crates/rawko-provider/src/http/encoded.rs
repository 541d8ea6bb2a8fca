//! The conversation as bytes, each message encoded only once.
//!
//! Keeps the bytes of each message that a session has sent, recognised by pointer and position. A request consists of a
//! head, these pieces and a tail, none of them copied, and therefore begins with the bytes of the request before it. The
//! wire decides how a message is encoded.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use rawko_core::message::Message;

/// Closes the array of messages and the request object.
const TAIL: &[u8] = b"]}";

/// The encoded messages of one conversation.
#[derive(Debug, Default)]
pub(crate) struct EncodedConversation {
    /// The messages of `pieces`, kept so that no other message can get the same address.
    messages: Vec<Arc<Message>>,
    pieces: Vec<Bytes>,
}

impl EncodedConversation {
    /// The body of a request: `head` (which ends inside the array of messages), the messages, the tail.
    ///
    /// `array_begun` says whether `head` already contains an element of the array. `encode` returns the message at a
    /// position as array elements joined by commas, or nothing if the wire cannot express it. It is called only for new
    /// messages. `instead` is another form of the message at a position, for this request alone.
    ///
    /// # Errors
    /// The errors of `encode`.
    pub(crate) fn body<E>(
        &mut self,
        head: Bytes,
        array_begun: bool,
        messages: &[Arc<Message>],
        instead: Option<(usize, Vec<u8>)>,
        encode: impl Fn(usize, &Message) -> Result<Vec<u8>, E>,
    ) -> Result<RequestBody, E> {
        let kept = self.messages.iter().zip(messages).take_while(|(a, b)| Arc::ptr_eq(a, b)).count();
        self.messages.truncate(kept);
        self.pieces.truncate(kept);
        let mut begun = array_begun || self.pieces.iter().any(|p| !p.is_empty());
        for (at, message) in messages.iter().enumerate().skip(kept) {
            let mut piece = encode(at, message)?;
            if begun && !piece.is_empty() {
                piece.insert(0, b',');
            }
            begun |= !piece.is_empty();
            self.messages.push(Arc::clone(message));
            self.pieces.push(Bytes::from(piece));
        }
        let mut chunks = VecDeque::with_capacity(self.pieces.len() + 2);
        chunks.push_back(head);
        chunks.extend(self.pieces.iter().filter(|p| !p.is_empty()).cloned());
        if let Some((at, piece)) =
            instead.filter(|(at, _)| self.pieces.get(*at).is_some_and(|p| !p.is_empty()))
        {
            let before = self.pieces.iter().take(at).filter(|p| !p.is_empty()).count();
            let comma = chunks.get(before + 1).is_some_and(|chunk| chunk.first() == Some(&b','));
            let piece = if comma { [b",", piece.as_slice()].concat() } else { piece };
            if let Some(chunk) = chunks.get_mut(before + 1) {
                *chunk = Bytes::from(piece);
            }
        }
        chunks.push_back(Bytes::from_static(TAIL));
        let length = chunks.iter().map(|c| c.len() as u64).sum();
        Ok(RequestBody { chunks, left: length })
    }
}

/// A body of known length whose pieces are shared with the [`EncodedConversation`].
#[derive(Debug, Clone)]
pub(crate) struct RequestBody {
    chunks: VecDeque<Bytes>,
    left: u64,
}

impl RequestBody {
    /// The number of bytes still to be sent.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.chunks.pop_front();
        if let Some(chunk) = &chunk {
            self.left = self.left.saturating_sub(chunk.len() as u64);
        }
        Poll::Ready(chunk.map(|c| Ok(Frame::data(c))))
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
impl RequestBody {
    /// The whole body in one piece.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.chunks.iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    fn encode(_: usize, message: &Message) -> Result<Vec<u8>, Infallible> {
        Ok(message.text().into_bytes())
    }

    fn messages(texts: &[&str]) -> Vec<Arc<Message>> {
        texts.iter().map(|t| Arc::new(Message::user(*t))).collect()
    }

    #[track_caller]
    fn check(begun: bool, texts: &[&str], expected: &str) {
        let mut transcript = EncodedConversation::default();
        let body = transcript
            .body(Bytes::from_static(b"["), begun, &messages(texts), None, encode)
            .expect("infallible");
        assert_eq!(String::from_utf8_lossy(&body.to_vec()), expected);
        assert_eq!(body.size_hint().exact(), Some(expected.len() as u64));
    }

    #[test]
    fn commas_stand_between_elements() {
        check(false, &["a", "b"], "[a,b]}");
        check(true, &["a", "b"], "[,a,b]}");
        check(false, &["", "a", "", "b"], "[a,b]}");
        check(false, &[], "[]}");
    }

    #[test]
    fn one_request_may_have_another_form_of_a_message() {
        let all = messages(&["", "a", "", "b", "c"]);
        let mut transcript = EncodedConversation::default();
        let mut body = |instead: Option<(usize, &str)>| {
            let instead = instead.map(|(at, text)| (at, text.as_bytes().to_vec()));
            let body = transcript.body(Bytes::from_static(b"["), false, &all, instead, encode);
            String::from_utf8(body.expect("infallible").to_vec()).expect("text")
        };
        assert_eq!(body(Some((1, "A"))), "[A,b,c]}");
        assert_eq!(body(Some((3, "BB"))), "[a,BB,c]}");
        assert_eq!(body(Some((2, "x"))), "[a,b,c]}", "what the wire cannot express stays away");
        assert_eq!(body(Some((9, "x"))), "[a,b,c]}");
        assert_eq!(body(None), "[a,b,c]}");
    }

    #[test]
    fn what_was_encoded_is_neither_encoded_again_nor_copied() {
        let mut transcript = EncodedConversation::default();
        let calls = Cell::new(0);
        let counting = |at: usize, m: &Message| {
            calls.set(calls.get() + 1);
            encode(at, m)
        };
        let mut all = messages(&["one", "two"]);
        let first = transcript.body(Bytes::new(), false, &all, None, counting).expect("infallible");
        all.extend(messages(&["three"]));
        let second = transcript.body(Bytes::new(), false, &all, None, counting).expect("infallible");
        assert_eq!(calls.get(), 3);
        assert_eq!(first.chunks[1].as_ptr(), second.chunks[1].as_ptr());
        let other = messages(&["one"]);
        let third = transcript.body(Bytes::new(), false, &other, None, counting).expect("infallible");
        assert_eq!(
            (calls.get(), third.to_vec()),
            (4, b"one]}".to_vec()),
            "an equal message elsewhere is a new one"
        );
    }

    proptest! {
        #[test]
        fn the_next_request_begins_with_this_one(texts in proptest::collection::vec("[a-z]{0,5}", 1..12), cut in any::<prop::sample::Index>()) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let all = messages(&texts);
            let mut transcript = EncodedConversation::default();
            let head = Bytes::from_static(b"{\"messages\":[");
            let at = cut.index(all.len() + 1);
            let before = transcript.body(head.clone(), false, &all[..at], None, encode).expect("infallible").to_vec();
            let after = transcript.body(head, false, &all, None, encode).expect("infallible").to_vec();
            prop_assert!(after.starts_with(&before[..before.len() - TAIL.len()]));
        }
    }
}
