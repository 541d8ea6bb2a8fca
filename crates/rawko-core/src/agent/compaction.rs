//! Making a conversation shorter: first old tool results are cut, then the middle is replaced by a summary.
//!
//! Pure functions over messages; `execution::window` decides when and by how much. They never touch the first block of
//! the first message (task, plan, earlier work), the model's own text in the last turns, or the pairing of calls and
//! results, without which a provider refuses the conversation. The system prompt is not seen here. Unchanged messages
//! stay shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::control::UPDATE_PLAN;
use crate::conversation::weight;
use crate::message::{Content, Message, Role};
use crate::text::{keep_ends, truncate};

/// Results up to this length are not cut.
const SHORT_RESULT: usize = 600;
/// The length to which results of the last turns are cut, when nothing else is left to cut.
const TRIMMED_RESULT: usize = 2_000;

/// The position of the first message to keep: the last turns that fit in `budget` bytes, at least one.
/// It is that of an assistant's message, so that calls and their results stay together.
#[must_use]
pub(super) fn tail(messages: &[Arc<Message>], budget: usize) -> usize {
    let mut start = messages.len();
    let mut used = 0_usize;
    let mut has_turn = false;
    for (at, message) in messages.iter().enumerate().skip(1).rev() {
        used = used.saturating_add(weight(message));
        if message.role == Role::Assistant {
            if has_turn && used > budget {
                break;
            }
            has_turn = true;
            start = at;
        }
    }
    start
}

/// Cuts tool results before `end` until `excess` bytes are gone: the largest and oldest first, each at most once.
/// The last result of `UpdatePlan` stays. `None` if nothing could be cut.
#[must_use]
pub(super) fn cut_results(messages: &[Arc<Message>], end: usize, excess: usize) -> Option<Vec<Arc<Message>>> {
    let mut found = results(messages, 0..end);
    let plan = found.iter().rposition(|result| result.tool == UPDATE_PLAN && !result.is_error);
    if let Some(plan) = plan {
        found.remove(plan);
    }
    found.retain(|result| result.bytes > SHORT_RESULT);
    let age = |result: &ResultPosition| result.bytes.saturating_mul(end - result.message);
    found.sort_by_key(|result| (std::cmp::Reverse(age(result)), result.message, result.block));
    let mut freed = 0_usize;
    let mut changes = BTreeMap::new();
    for result in found {
        if freed >= excess {
            break;
        }
        let words = format!(
            "[{} bytes of this result were cut to save room. If you still need them, make the call again, unless it \
             changes something.]",
            result.bytes
        );
        freed = freed.saturating_add(result.bytes.saturating_sub(encoded(&words)));
        changes.insert((result.message, result.block), words);
    }
    replaced(messages, &changes)
}

/// The last resort: cuts the middle of the results from `start` on, the longest first, until `excess` bytes are gone.
/// `None` if nothing could be cut.
#[must_use]
pub(super) fn trim_results(
    messages: &[Arc<Message>],
    start: usize,
    excess: usize,
) -> Option<Vec<Arc<Message>>> {
    let mut found = results(messages, start..messages.len());
    found.retain(|result| result.bytes > TRIMMED_RESULT + SHORT_RESULT);
    found.sort_by_key(|result| (std::cmp::Reverse(result.bytes), result.message, result.block));
    let mut freed = 0_usize;
    let mut changes = BTreeMap::new();
    for result in found {
        let Some(left) = excess.checked_sub(freed).filter(|left| *left > 0) else { break };
        let Some(Content::ToolResult { content, .. }) =
            messages.get(result.message).and_then(|message| message.content.get(result.block))
        else {
            continue;
        };
        // Escapes make the encoded text longer than the text, so `left` is applied as a share.
        let share = content.len().saturating_mul(left) / result.bytes.max(1);
        let kept = content.len().saturating_sub(share + SHORT_RESULT).max(TRIMMED_RESULT);
        let words = format!(
            "{}\n[Shortened: all of it does not fit beside the conversation. Ask for a smaller part.]",
            keep_ends(content, kept)
        );
        let gain = result.bytes.saturating_sub(encoded(&words));
        if gain == 0 {
            continue;
        }
        freed = freed.saturating_add(gain);
        changes.insert((result.message, result.block), words);
    }
    replaced(messages, &changes)
}

/// The conversation with `summary` in place of everything between the opening and `start`. The summary is part of the
/// first message, because some servers refuse two user messages in a row.
#[must_use]
pub(super) fn summarised(messages: &[Arc<Message>], start: usize, summary: String) -> Vec<Arc<Message>> {
    let opening = messages.first().map_or(&[][..], |message| message.content.as_slice());
    // The first text, and the pictures that the user gave with the task.
    let kept =
        opening.iter().enumerate().filter(|(at, block)| *at == 0 || matches!(block, Content::Image(_)));
    let content = kept.map(|(_, block)| block.clone()).chain([Content::text(summary)]).collect();
    let first = Arc::new(Message { role: Role::User, content });
    std::iter::once(first).chain(messages.iter().skip(start).cloned()).collect()
}

/// `after`, a shorter form of `before`, without the signed thinking after the first changed message: the provider
/// refuses it there
/// (<https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks>).
#[must_use]
pub(super) fn without_unbound_thinking(
    before: &[Arc<Message>],
    mut after: Vec<Arc<Message>>,
) -> Vec<Arc<Message>> {
    let same = before.iter().zip(&after).take_while(|(a, b)| Arc::ptr_eq(a, b)).count();
    for message in after.iter_mut().skip(same) {
        if let Some(other) = message.without_signed_thinking() {
            *message = Arc::new(other.or_placeholder());
        }
    }
    after
}

/// The messages up to `end` without the opening, as text of at most `max` bytes for the model that summarizes it.
#[must_use]
pub(super) fn transcript(messages: &[Arc<Message>], end: usize, max: usize) -> String {
    let mut text = String::new();
    // The same share for all messages: a little of each is better than nothing of some.
    for share in [4_000, 2_000, 1_000, 500, 250] {
        text = messages.iter().take(end).enumerate().fold(String::new(), |text, (at, message)| {
            let skipped = usize::from(at == 0);
            message
                .content
                .iter()
                .skip(skipped)
                .fold(text, |text, block| with_block(text, message.role, block, share))
        });
        if text.len() <= max {
            return text;
        }
    }
    keep_ends(&text, max.saturating_sub(64))
}

/// Adds a line for `block` to `text`, with at most `share` bytes of it.
fn with_block(mut text: String, role: Role, block: &Content, share: usize) -> String {
    let (head, body) = match (block, role) {
        (Content::Text { text }, Role::Assistant) => ("The agent said", keep_ends(text.trim(), share)),
        (Content::Text { text }, Role::User) => ("rawko said", keep_ends(text.trim(), share)),
        (Content::ToolUse(call), _) => {
            let input = keep_ends(&call.input.to_string(), share / 2);
            ("The agent called", format!("{} {input}", truncate(&call.name, 100)))
        }
        (Content::ToolResult { content, is_error: false, .. }, _) => {
            ("Result", keep_ends(content.trim(), share / 2))
        }
        (Content::ToolResult { content, is_error: true, .. }, _) => {
            ("Failed", keep_ends(content.trim(), share / 2))
        }
        (Content::Hosted(block), _) => match (&block.call, &block.result) {
            (_, Some(result)) => ("Found", keep_ends(result.content.trim(), share / 2)),
            (Some(call), None) => ("The agent searched", keep_ends(&call.input.to_string(), share / 2)),
            (None, None) => return text,
        },
        (Content::Image(_) | Content::Thinking { .. } | Content::RedactedThinking { .. }, _) => return text,
    };
    text.push_str(head);
    text.push_str(": ");
    text.push_str(&body);
    text.push('\n');
    text
}

/// The position of a tool result in the conversation, with its tool and size.
struct ResultPosition {
    message: usize,
    block: usize,
    tool: String,
    is_error: bool,
    bytes: usize,
}

fn results(messages: &[Arc<Message>], range: std::ops::Range<usize>) -> Vec<ResultPosition> {
    let mut found = Vec::new();
    for at in range {
        let Some(message) = messages.get(at) else { break };
        for (block, content) in message.content.iter().enumerate() {
            let Content::ToolResult { tool_use_id, content, is_error, images } = content else { continue };
            let before = at.checked_sub(1).and_then(|before| messages.get(before));
            let tool = before
                .and_then(|before| before.tool_calls().find(|call| call.id == *tool_use_id))
                .map(|call| call.name.clone());
            let pictures = if images.is_empty() { 0 } else { weight_of_images(message, block) };
            found.push(ResultPosition {
                message: at,
                block,
                tool: tool.unwrap_or_default(),
                is_error: *is_error,
                bytes: encoded(content) + pictures,
            });
        }
    }
    found
}

/// The bytes that the pictures of one block count for.
fn weight_of_images(message: &Message, block: usize) -> usize {
    let Some(content) = message.content.get(block) else { return 0 };
    let with = Message { role: message.role, content: vec![content.clone()] };
    let mut without = with.clone();
    for content in &mut without.content {
        if let Content::ToolResult { images, .. } = content {
            images.clear();
        }
    }
    weight(&with).saturating_sub(weight(&without))
}

fn encoded(text: &str) -> usize {
    serde_json::to_string(text).map_or(text.len(), |encoded| encoded.len())
}

/// The messages with these texts in place of the old results, whose pictures are removed.
fn replaced(
    messages: &[Arc<Message>],
    changes: &BTreeMap<(usize, usize), String>,
) -> Option<Vec<Arc<Message>>> {
    if changes.is_empty() {
        return None;
    }
    let mut messages = messages.to_vec();
    for ((at, block), words) in changes {
        let Some(message) = messages.get_mut(*at) else { continue };
        if let Some(Content::ToolResult { content, images, .. }) =
            Arc::make_mut(message).content.get_mut(*block)
        {
            content.clone_from(words);
            images.clear();
        }
    }
    Some(messages)
}

#[cfg(test)]
#[path = "compaction_tests.rs"]
mod tests;
