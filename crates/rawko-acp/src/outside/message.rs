//! What an agent's program has said so far: its last message, and what it has spent.

use std::collections::VecDeque;

use agent_client_protocol::v1::schema::{ContentBlock, SessionUpdate, ToolCallId, ToolCallUpdate, ToolKind};
use rawko_core::text::truncate;

/// Bytes of its text that are kept while it works.
const TEXT_BYTES: usize = 256 * 1024;
/// Tool calls that are remembered.
const CALLS: usize = 256;
/// The longest id of such a call, in bytes, and what is kept of its title, in characters.
const ID_BYTES: usize = 1_024;
const TITLE_CHARS: usize = 1_000;

/// What a program has said of a call of its own.
#[derive(Debug, Clone)]
pub(super) struct SaidCall {
    id: ToolCallId,
    pub(super) kind: ToolKind,
    pub(super) title: String,
}

/// The last message of a program, and its spend.
#[derive(Debug, Default)]
pub(super) struct Said {
    text: String,
    /// Whether something came between: the next words begin a message.
    is_over: bool,
    /// Which message it is, where the program numbers them.
    id: Option<String>,
    /// Its latest calls. A question about one need not say again what it is.
    calls: VecDeque<SaidCall>,
    /// In US dollars.
    pub(super) cost_usd: Option<f64>,
}

impl Said {
    /// Takes in what the program reports, and gives the text in it.
    pub(super) fn take(&mut self, update: &SessionUpdate) -> Option<String> {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                let ContentBlock::Text(piece) = &chunk.content else { return None };
                let id = chunk.message_id.as_ref().map(ToString::to_string);
                let is_another = id.is_some() && self.id.is_some() && id != self.id;
                self.id = id.or(self.id.take());
                if std::mem::take(&mut self.is_over) || is_another {
                    self.text.clear();
                }
                self.text.push_str(&piece.text);
                self.shorten();
                Some(piece.text.clone())
            }
            SessionUpdate::ToolCall(call) => {
                self.is_over = true;
                let (id, kind) = (call.tool_call_id.clone(), call.kind);
                let title = truncate(&call.title, TITLE_CHARS);
                self.remember(SaidCall { id, kind, title });
                None
            }
            SessionUpdate::ToolCallUpdate(update) => {
                self.is_over = true;
                let _ = self.call(update);
                None
            }
            SessionUpdate::UsageUpdate(usage) => {
                let dollars = usage.cost.as_ref().filter(|cost| cost.currency.eq_ignore_ascii_case("USD"));
                self.cost_usd = dollars.map(|cost| cost.amount).or(self.cost_usd);
                None
            }
            _ => None,
        }
    }

    /// The call that this is about, with what was said of it before.
    pub(super) fn call(&mut self, update: &ToolCallUpdate) -> SaidCall {
        let id = &update.tool_call_id;
        let known = self.calls.iter().position(|call| call.id == *id).and_then(|at| self.calls.remove(at));
        let mut call =
            known.unwrap_or_else(|| SaidCall { id: id.clone(), kind: ToolKind::Other, title: String::new() });
        let fields = &update.fields;
        call.kind = fields.kind.unwrap_or(call.kind);
        if let Some(title) = fields.title.as_ref().or(fields.name.as_ref()) {
            call.title = truncate(title, TITLE_CHARS);
        }
        self.remember(call.clone());
        call
    }

    fn remember(&mut self, call: SaidCall) {
        if call.id.0.len() > ID_BYTES {
            return;
        }
        self.calls.retain(|known| known.id != call.id);
        self.calls.push_back(call);
        while self.calls.len() > CALLS {
            self.calls.pop_front();
        }
    }

    /// The last message.
    pub(super) fn text(&self) -> String {
        self.text.trim().to_owned()
    }

    /// Keeps the end of a text that grows too long.
    fn shorten(&mut self) {
        if self.text.len() > 2 * TEXT_BYTES {
            let mut from = self.text.len() - TEXT_BYTES;
            while !self.text.is_char_boundary(from) {
                from += 1;
            }
            self.text.drain(..from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(updates: impl IntoIterator<Item = serde_json::Value>) -> Said {
        let mut said = Said::default();
        for update in updates {
            let _ = said.take(&serde_json::from_value(update).unwrap());
        }
        said
    }

    fn chunk(text: &str) -> serde_json::Value {
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
    }

    #[test]
    fn the_last_message_is_what_follows_the_last_call() {
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "edit"});
        let cost = |amount: f64, currency: &str| {
            json!({"sessionUpdate": "usage_update", "used": 1, "size": 2,
                "cost": {"amount": amount, "currency": currency}})
        };
        let updates = [
            chunk("I begin."),
            call.clone(),
            cost(0.5, "USD"),
            chunk(" Do"),
            chunk("ne."),
            cost(7.0, "credits"),
        ];
        let said = taken(updates);
        assert_eq!((said.text().as_str(), said.cost_usd), ("Done.", Some(0.5)));
        let said = taken([chunk("Done."), call]);
        assert_eq!((said.text().as_str(), said.cost_usd), ("Done.", None), "a call may come last");
    }

    #[test]
    fn a_question_about_a_call_need_not_say_what_it_is() {
        let call =
            json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "make test", "kind": "execute"});
        let asked = |update: serde_json::Value| {
            let call = taken([call.clone()]).call(&serde_json::from_value(update).unwrap());
            (call.kind, call.title)
        };
        assert_eq!(asked(json!({"toolCallId": "1"})), (ToolKind::Execute, "make test".to_owned()));
        assert_eq!(
            asked(json!({"toolCallId": "1", "kind": "edit"})),
            (ToolKind::Edit, "make test".to_owned())
        );
        assert_eq!(asked(json!({"toolCallId": "2"})), (ToolKind::Other, String::new()));
    }

    #[test]
    fn a_flood_is_bounded() {
        let said = taken((0..1_000).map(|_| chunk(&"ü".repeat(1_000))));
        assert!(said.text.len() <= 2 * TEXT_BYTES);
        let call = |id: String| json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "x".repeat(100_000), "kind": "edit"});
        let said = taken((0..1_000).map(|id| call(id.to_string())).chain([call("x".repeat(100_000))]));
        assert_eq!(said.calls.len(), CALLS);
        assert!(said.calls.iter().all(|call| call.id.0.len() < 5 && call.title.len() < 2 * TITLE_CHARS));
    }
}
