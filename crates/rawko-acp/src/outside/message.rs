//! What an agent's program has said so far: its last message, and what it has spent.

use agent_client_protocol::v1::schema::{ContentBlock, SessionUpdate};

/// Bytes of its text that are kept while it works.
const TEXT_BYTES: usize = 256 * 1024;

/// The last message of a program, and its spend.
#[derive(Debug, Default)]
pub(super) struct Said {
    text: String,
    /// Whether something came between: the next words begin a message.
    is_over: bool,
    /// Which message it is, where the program numbers them.
    id: Option<String>,
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
            SessionUpdate::ToolCall(_) | SessionUpdate::ToolCallUpdate(_) => {
                self.is_over = true;
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
    fn a_flood_is_bounded() {
        let said = taken((0..1_000).map(|_| chunk(&"ü".repeat(1_000))));
        assert!(said.text.len() <= 2 * TEXT_BYTES);
    }
}
