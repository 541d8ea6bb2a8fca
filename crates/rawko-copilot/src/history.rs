//! The messages that a session is sent: the first one, and those that follow.
//!
//! A session of the CLI holds its conversation by itself and cannot be given another one. Where rawko's conversation is
//! not the one that the session holds (a resumed run, a fork, a compaction, another provider before), a new session gets
//! the whole conversation as one text.

use std::sync::Arc;

use rawko_core::message::{Content, Image, Message, Role};
use serde_json::{Value, json};

use crate::turn::PendingCall;

/// What a session has seen, and what it waits for.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The messages of the conversation, with the model's own last.
    pub(crate) messages: Vec<Arc<Message>>,
    /// The calls of its last message, all of them.
    pub(crate) pending: Vec<PendingCall>,
}

/// The result of a call, as the CLI takes it.
#[derive(Debug, PartialEq)]
pub(crate) struct CallResult {
    /// The CLI's id of its request.
    pub(crate) request: String,
    /// `ToolResultExpanded` of the SDK.
    pub(crate) result: Value,
}

/// What continues a session.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// A message of the user.
    Message(String),
    /// The results of all calls.
    Results(Vec<CallResult>),
}

impl Held {
    /// What `messages` adds to this. `None` if it is not this conversation with one more message of rawko's, or if that
    /// does not hold what the session waits for.
    pub(crate) fn next(&self, messages: &[Arc<Message>]) -> Option<Next> {
        let (known, new) = messages.split_at_checked(self.messages.len())?;
        let [new] = new else { return None };
        let is_same = |(a, b): (&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(a, b) || a == b;
        if self.messages.is_empty()
            || new.role != Role::User
            || !known.iter().zip(&self.messages).all(is_same)
        {
            return None;
        }
        if self.pending.is_empty() {
            // A result without its call cannot be sent.
            return plain(new).map(Next::Message);
        }
        let mut results: Vec<CallResult> =
            self.pending.iter().map(|pending| result_of(new, pending)).collect::<Option<_>>()?;
        // What rawko says with the results goes to the model in the last one.
        let remark = new.text();
        if !remark.is_empty()
            && let Some(last) = results.last_mut()
            && let Some(Value::String(text)) = last.result.get_mut("textResultForLlm")
        {
            text.push_str("\n\n");
            text.push_str(&remark);
        }
        Some(Next::Results(results))
    }
}

fn result_of(message: &Message, pending: &PendingCall) -> Option<CallResult> {
    message.content.iter().find_map(|block| match block {
        Content::ToolResult { tool_use_id, content, is_error, images } if *tool_use_id == pending.call => {
            let kind = if *is_error { "failure" } else { "success" };
            let mut result = json!({"textResultForLlm": content, "resultType": kind});
            if !images.is_empty() {
                let picture = |image: &Image| json!({"data": image.data, "mimeType": image.media_type, "type": "image"});
                result["binaryResultsForLlm"] = images.iter().map(picture).collect();
            }
            Some(CallResult { request: pending.request.clone(), result })
        }
        _ => None,
    })
}

/// The first message to a session that is to continue `messages`.
///
/// Each earlier message is a line of JSON, so that nothing in it can pass for the end of the list.
pub(crate) fn first_message(messages: &[Arc<Message>]) -> String {
    if let [only] = messages
        && let Some(text) = plain(only)
    {
        return text;
    }
    let mut text = String::from(
        "This conversation continues an earlier one. Here are its messages so far, one JSON object in each line; \
         `assistant` is you. Calls in it have been made, and their results are known: do not repeat them.\n\
         <conversation>\n",
    );
    let last = messages.last().filter(|last| last.role == Role::User).and_then(|last| plain(last));
    let earlier = messages.len() - usize::from(last.is_some());
    for message in &messages[..earlier] {
        for block in &message.content {
            if let Some(line) = line(message.role, block) {
                text.push_str(&line.to_string());
                text.push('\n');
            }
        }
    }
    text.push_str("</conversation>\n\n");
    text.push_str(last.as_deref().unwrap_or("Continue from here."));
    text
}

/// A message of texts alone. A picture cannot be sent with a text, so a line says that it is left out.
fn plain(message: &Message) -> Option<String> {
    let is_plain = |block: &Content| matches!(block, Content::Text { .. } | Content::Image(_));
    if !message.content.iter().all(is_plain) {
        return None;
    }
    let mut text = message.text();
    for _ in message.content.iter().filter(|block| matches!(block, Content::Image(_))) {
        text.push_str("\n[A picture is left out here: you cannot be shown pictures.]");
    }
    Some(text)
}

fn line(role: Role, block: &Content) -> Option<Value> {
    let role = match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    Some(match block {
        Content::Text { text } => json!({"role": role, "text": text}),
        Content::Image(_) => json!({"role": role, "pictures": "1 left out"}),
        // Reasoning belongs to the session that it was made in.
        Content::Thinking { .. } | Content::RedactedThinking { .. } | Content::Hosted(_) => return None,
        Content::ToolUse(call) => match &call.invalid_input {
            Some(raw) => json!({"role": role, "call": call.id, "tool": call.name, "invalidInput": raw}),
            None => json!({"role": role, "call": call.id, "tool": call.name, "input": call.input}),
        },
        Content::ToolResult { tool_use_id, content, is_error, images } => {
            let mut line = json!({"role": role, "resultOf": tool_use_id, "result": content});
            if *is_error {
                line["isError"] = true.into();
            }
            if !images.is_empty() {
                line["pictures"] = json!(format!("{} left out", images.len()));
            }
            line
        }
    })
}

#[cfg(test)]
mod tests {
    use rawko_core::message::ToolCall;

    use super::*;

    fn call(id: &str) -> Content {
        let input = json!({"path": "a"});
        Content::ToolUse(ToolCall {
            id: id.into(),
            name: "Read".into(),
            input,
            invalid_input: None,
            withheld: None,
        })
    }

    fn result(id: &str, text: &str) -> Content {
        Content::ToolResult {
            tool_use_id: id.into(),
            content: text.into(),
            is_error: id == "b",
            images: Vec::new(),
        }
    }

    fn message(role: Role, content: Vec<Content>) -> Arc<Message> {
        Arc::new(Message { role, content })
    }

    fn conversation() -> Vec<Arc<Message>> {
        let calls = message(Role::Assistant, vec![Content::text("I read."), call("a"), call("b")]);
        let results =
            message(Role::User, vec![result("a", "one"), result("b", "two"), Content::text("Hurry.")]);
        vec![Arc::new(Message::user("Do it.")), calls, results]
    }

    #[test]
    fn a_known_conversation_gets_only_what_is_new() {
        let all = conversation();
        let pending = ["b", "a"].map(|id| PendingCall { call: id.into(), request: format!("r{id}") });
        let held = Held { messages: all[..2].to_vec(), pending: pending.to_vec() };
        let Some(Next::Results(results)) = held.next(&all) else { panic!("not continued") };
        assert_eq!(results[0].request, "rb");
        assert_eq!(results[0].result, json!({"textResultForLlm": "two", "resultType": "failure"}));
        assert_eq!(results[1].result, json!({"textResultForLlm": "one\n\nHurry.", "resultType": "success"}));
        // As a resumed run has it: equal, and not the same.
        let copies: Vec<_> = all.iter().map(|message| Arc::new(Message::clone(message))).collect();
        assert!(held.next(&copies).is_some());

        let answer = Arc::new(Message::assistant("Done."));
        let mut longer = all;
        longer.extend([Arc::clone(&answer), Arc::new(Message::user("More."))]);
        let held = Held { messages: longer[..4].to_vec(), pending: Vec::new() };
        assert_eq!(held.next(&longer), Some(Next::Message("More.".into())));
    }

    #[test]
    fn another_conversation_is_not_continued() {
        let all = conversation();
        let pending = |id: &str| vec![PendingCall { call: id.into(), request: "r".into() }];
        let held = |messages: &[Arc<Message>], pending| Held { messages: messages.to_vec(), pending };
        assert!(held(&[], Vec::new()).next(&all[..1]).is_none(), "nothing is held");
        assert!(held(&all[..2], pending("c")).next(&all).is_none(), "a result is missing");
        assert!(held(&all[..2], Vec::new()).next(&all).is_none(), "results that nothing waits for");
        assert!(held(&all[..2], pending("a")).next(&all[..2]).is_none(), "nothing is new");
        assert!(held(&all[..2], pending("a")).next(&all[..1]).is_none(), "shorter");
        let mut other = all.clone();
        other[0] = Arc::new(Message::user("Do something else."));
        assert!(held(&all[..2], pending("a")).next(&other).is_none(), "another beginning");
    }

    #[test]
    fn a_new_session_gets_the_conversation() {
        let mut all = conversation();
        assert_eq!(first_message(&all[..1]), "Do it.");
        let text = first_message(&all);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "<conversation>");
        assert_eq!(
            serde_json::from_str::<Value>(lines[4]).unwrap(),
            json!({"role": "assistant", "call": "a", "tool": "Read", "input": {"path": "a"}})
        );
        assert_eq!(text.matches("Hurry.").count(), 1);
        assert!(text.ends_with("</conversation>\n\nContinue from here."), "{text}");
        all.push(Arc::new(Message::assistant("line\n</conversation>\nline")));
        all.push(Arc::new(Message::user("More.")));
        let text = first_message(&all);
        assert!(text.ends_with("</conversation>\n\nMore."), "{text}");
        assert_eq!(text.lines().filter(|line| *line == "</conversation>").count(), 1, "{text}");
    }
}
