//! What the model was asked: the same bytes, whichever process was killed in between.

use serde_json::{Value, json};
use testkit::ModelServer;

use crate::baseline::Baseline;
use crate::script::{blocks, is_unknown};
use crate::world::World;

/// A request's body, with the project's folder under one name in every world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body(String);

/// Figures of time in prompts: those of another run differ.
const TIMES: [&str; 2] = ["Duration: ", "Time elapsed: "];

/// A line of a prompt that is there only where executions take some time.
const ESTIMATE: &str = "\\nEstimated time remaining: ";

/// Where commands log what they do.
const LOG: &str = "/out/log";

/// Characters shown of a request that differs, before and after the place.
const SHOWN: usize = 300;

impl Body {
    /// The same without figures of time.
    fn timeless(&self) -> String {
        let mut lines = self.0.split(ESTIMATE);
        let first = lines.next().unwrap_or_default().to_owned();
        let rest = |line: &str| line.split_once(')').map_or(String::new(), |(_, rest)| rest.to_owned());
        let whole = lines.fold(first, |text, line| text + &rest(line));
        TIMES.iter().fold(whole, |text, words| {
            let mut pieces = text.split(words);
            let first = pieces.next().unwrap_or_default().to_owned();
            pieces.fold(first, |text, piece| {
                text + words + "0" + piece.trim_start_matches(|c: char| c.is_ascii_digit())
            })
        })
    }

    /// Its last characters.
    fn end(&self) -> &str {
        &self.0[self.0.floor_char_boundary(self.0.len().saturating_sub(SHOWN))..]
    }

    /// Whether it tells the agent of an unknown outcome.
    pub(crate) fn reports_unknown(&self) -> bool {
        let json: Value = serde_json::from_str(&self.0).unwrap();
        let messages = json["messages"].as_array().cloned().unwrap_or_default();
        messages.iter().flat_map(blocks).any(|block| is_unknown(&block))
    }

    /// The request with those results left out that are of unknown outcome here or, in the same place, in `other`.
    fn but_for_unknown(&self, other: &Self) -> Value {
        let mut own: Value = serde_json::from_str(&self.timeless()).unwrap();
        let others: Value = serde_json::from_str(&other.0).unwrap();
        let Some(messages) = own["messages"].as_array_mut() else { return own };
        for (at, message) in messages.iter_mut().enumerate() {
            let beside = blocks(&others["messages"][at]);
            let Some(content) = message["content"].as_array_mut() else { continue };
            for (at, block) in content.iter_mut().enumerate() {
                if is_unknown(block) || beside.get(at).is_some_and(is_unknown) {
                    *block = json!({"unknown": block["tool_use_id"]});
                }
            }
        }
        own
    }
}

/// What a server was asked from this world.
pub(crate) fn bodies(server: &ModelServer, world: &World) -> Vec<Body> {
    let folder = world.project().canonicalize().unwrap().display().to_string();
    let body = |body: Vec<u8>| {
        Body(without_folder_of_log(&String::from_utf8(body).unwrap().replace(&folder, "/project")))
    };
    server.asked().into_iter().map(|asked| body(asked.body)).collect()
}

/// The same wherever the log outside of the project is.
fn without_folder_of_log(text: &str) -> String {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let mut pieces: Vec<&str> = text.split(LOG).collect();
    let last = pieces.pop().unwrap_or_default();
    pieces
        .into_iter()
        .map(|piece| piece.trim_end_matches(is_of_path))
        .chain([last])
        .collect::<Vec<_>>()
        .join(LOG)
}

/// Compares what was asked from the `first` question on with what the run that was not killed asked. Questions that
/// were put again, because the answer was lost, count once. In conversations up to `opened` even the figures of time
/// are the same. After the first unknown outcome the conversation differs; up to there it does not.
#[track_caller]
pub(crate) fn check(what: &str, asked: &[Body], baseline: &Baseline, first: usize, opened: u64) {
    let mut expected = baseline.asked.iter().skip(first);
    let mut before = None;
    for body in asked {
        if before == Some(body) {
            continue;
        }
        before = Some(body);
        let (conversation, other) =
            expected.next().unwrap_or_else(|| panic!("{what}: one question more: {}", body.end()));
        if body.reports_unknown() {
            let (own, others) = (body.but_for_unknown(other), other.but_for_unknown(body));
            same(&format!("{what}: reports of unknown outcomes"), &own.to_string(), &others.to_string());
            return;
        }
        if *conversation <= opened {
            same(&format!("{what}: in a conversation that goes on"), &body.0, &other.0);
        } else {
            same(what, &body.timeless(), &other.timeless());
        }
    }
    assert_eq!(expected.count(), 0, "{what}: questions are missing");
}

/// Requests are long: only the place is shown where they differ.
#[track_caller]
fn same(what: &str, own: &str, expected: &str) {
    if own != expected {
        let at = own.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
        let around = |text: &str| {
            let from = text.floor_char_boundary(at.saturating_sub(SHOWN));
            let to = text.floor_char_boundary((at + SHOWN).min(text.len()));
            text[from..to].to_owned()
        };
        panic!("{what}: at byte {at} the model was asked\n{}\ninstead of\n{}", around(own), around(expected));
    }
}
