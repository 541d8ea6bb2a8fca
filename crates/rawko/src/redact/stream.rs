//! Redacting a stream piece by piece, for those who watch it: a secret may be split over pieces.

use super::Redactor;

/// The pieces of one stream. A text that may be the beginning of a secret is held back until the next piece is known.
pub(crate) struct RedactedStream<'a> {
    redactor: &'a Redactor,
    /// What the run had seen when the stream began: a model says nothing between its request and its answer that would add
    /// to it.
    tokens: Vec<String>,
    held: String,
}

impl<'a> RedactedStream<'a> {
    pub(crate) fn new(redactor: &'a Redactor) -> Self {
        Self { redactor, tokens: redactor.seen_tokens(), held: String::new() }
    }

    /// Takes a piece, and gives what may be shown now.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let rest = self.held.split_off(self.known());
        let known = std::mem::replace(&mut self.held, rest);
        self.redactor.text(&known)
    }

    /// What is still held back, at the stream's end.
    pub(crate) fn finish(self) -> String {
        self.redactor.text(&self.held)
    }

    /// How much of what is held cannot become part of a secret any more. Never ends inside a whole one.
    fn known(&self) -> usize {
        let begins = |at: usize| {
            let end = self.held.get(at..).unwrap_or_default();
            self.texts().any(|secret| secret.len() > end.len() && secret.starts_with(end))
        };
        let longest = self.texts().map(str::len).max().unwrap_or(0);
        let from = self.held.len().saturating_sub(longest);
        let ends = self.held.char_indices().map(|(at, _)| at).filter(|at| *at >= from);
        let mut cut = ends.into_iter().find(|at| begins(*at)).unwrap_or(self.held.len());
        while let Some(start) = self.secret_around(cut) {
            cut = start;
        }
        cut
    }

    /// Where the whole secret begins that `cut` would divide.
    fn secret_around(&self, cut: usize) -> Option<usize> {
        let starts = self.texts().flat_map(|secret| {
            let matches = self.held.match_indices(secret).map(|(at, _)| at);
            matches.filter(move |at| *at < cut && cut < at + secret.len())
        });
        starts.min()
    }

    /// What must not be divided.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let secrets = self.redactor.secrets.iter().map(|secret| secret.text.as_str());
        secrets.chain(self.tokens.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::super::redactor;
    use super::*;
    use proptest::prelude::*;

    /// Secrets that begin like each other, and like themselves.
    fn secrets() -> Redactor {
        redactor(&["rtzrtzrt-rtzrtzrt", "rtzrtzrt-rtzrtzrtXYZ", "ähnliches, ähnliches"])
    }

    fn streamed(pieces: &[String]) -> String {
        let redactor = secrets();
        let mut stream = RedactedStream::new(&redactor);
        let mut shown: String = pieces.iter().map(|piece| stream.push(piece)).collect();
        shown.push_str(&stream.finish());
        shown
    }

    #[test]
    fn what_cannot_become_a_secret_is_shown_at_once() {
        let redactor = secrets();
        let mut stream = RedactedStream::new(&redactor);
        assert_eq!(stream.push("hello rt"), "hello ");
        assert_eq!(stream.push("x"), "rtx");
        assert_eq!(stream.push("rtzrtzrt-rtzrtzrt"), "");
        assert_eq!(stream.push("!"), "[redacted]!");
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn a_token_that_was_seen_is_held_back_like_a_secret() {
        let redactor = secrets();
        let token = format!("ghp_{}", "a1B2".repeat(9));
        assert_ne!(redactor.masked(&format!("T={token}\n")).shown, format!("T={token}\n"));
        let mut stream = RedactedStream::new(&redactor);
        let (one, two) = token.split_at(11);
        assert_eq!(stream.push(&format!("it is x{one}")), "it is x");
        let shown = stream.push(two) + &stream.push(".") + &stream.finish();
        assert!(shown.starts_with("[redacted:github-token:") && shown.ends_with("]."), "{shown}");
    }

    proptest! {
        #[test]
        fn no_split_lets_a_secret_through(pieces in prop::collection::vec("(rtz|rt|rtzrtzrt-|X|YZ|ähn|liches, |liches| |z){0,4}", 0..12)) {
            let shown = streamed(&pieces);
            for secret in &secrets().secrets {
                prop_assert!(!shown.contains(secret.text.as_str()), "{shown}");
            }
        }

        #[test]
        fn text_without_secrets_is_left_alone(pieces in prop::collection::vec("[rtz é-]{0,3}", 0..9)) {
            let whole = pieces.concat();
            prop_assume!(!whole.contains("rtzrtzrt-rtzrtzrt"));
            prop_assert_eq!(streamed(&pieces), whole);
        }
    }
}
