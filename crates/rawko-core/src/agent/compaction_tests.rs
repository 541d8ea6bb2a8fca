//! A shortened conversation stays one that a provider accepts.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::message::{Image, ToolCall};

fn call(id: &str, name: &str) -> Content {
    Content::ToolUse(ToolCall {
        id: id.into(),
        name: name.into(),
        input: json!({"n": 1}),
        invalid_input: None,
        withheld: None,
    })
}

fn result(id: &str, content: String, images: Vec<Image>) -> Content {
    Content::ToolResult { tool_use_id: id.into(), content, is_error: false, images }
}

/// A conversation: each turn with its calls, whose results have these lengths.
fn conversation(turns: &[Vec<usize>]) -> Vec<Arc<Message>> {
    let mut messages = vec![Message::user("# Task\ndo it")];
    for (turn, lengths) in turns.iter().enumerate() {
        let id = |at: usize| format!("{turn}-{at}");
        let mut answer = vec![Content::text(format!("turn {turn}"))];
        let mut results = vec![];
        for (at, length) in lengths.iter().enumerate() {
            let name = if *length % 7 == 0 { UPDATE_PLAN } else { "Read" };
            answer.push(call(&id(at), name));
            let images =
                (*length % 5 == 0).then(|| Image { media_type: "image/png".into(), data: "A".repeat(90) });
            results.push(result(&id(at), "x\n".repeat(*length), images.into_iter().collect()));
        }
        if results.is_empty() {
            results.push(Content::text("go on"));
        }
        messages.push(Message { role: Role::Assistant, content: answer });
        messages.push(Message { role: Role::User, content: results });
    }
    messages.into_iter().map(Arc::new).collect()
}

fn total(messages: &[Arc<Message>]) -> usize {
    messages.iter().map(|message| weight(message)).sum()
}

/// What every provider demands: user and assistant in turn, every call answered in the next message, and no result
/// without a call.
#[track_caller]
fn check_form(messages: &[Arc<Message>]) {
    assert_eq!(messages[0].role, Role::User);
    for pair in messages.windows(2) {
        assert_ne!(pair[0].role, pair[1].role);
    }
    let mut open = BTreeSet::new();
    for message in messages {
        let answered: BTreeSet<String> = message
            .content
            .iter()
            .filter_map(|content| match content {
                Content::ToolResult { tool_use_id, .. } => Some(tool_use_id.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(answered, open);
        open = message.tool_calls().map(|call| call.id.clone()).collect();
    }
    assert!(open.is_empty());
}

#[test]
fn the_largest_and_oldest_go_first_and_the_plan_stays() {
    let messages = conversation(&[vec![1_000], vec![4_000], vec![3_500], vec![1_002], vec![1]]);
    let cut = cut_results(&messages, 9, 9_000).unwrap();
    let changed: Vec<usize> = (0..messages.len()).filter(|at| messages[*at] != cut[*at]).collect();
    assert_eq!(changed, [4], "one large one is enough, and the plan (3,500 = 7 × 500) is not touched");
    let text = format!("{:?}", cut[4]);
    assert!(text.contains("bytes of this result were cut") && text.contains("call again"), "{text}");
    let all = cut_results(&messages, 9, usize::MAX).unwrap();
    assert_eq!(all[6], messages[6], "the last result of UpdatePlan");
    assert_eq!(cut_results(&all, 9, usize::MAX), None, "nothing is cut twice");
}

/// The cut part is counted as it is encoded, quotes included: one byte more than a result frees takes the next one,
/// too.
#[test]
fn cutting_stops_when_the_excess_is_gone_and_not_before() {
    let messages = conversation(&[vec![225, 5_255], vec![]]);
    let start = tail(&messages, 0);
    let freed = |excess| {
        let cut = cut_results(&messages, start, excess).unwrap();
        total(&messages) - total(&cut)
    };
    let one = freed(1);
    let all = freed(usize::MAX);
    assert!(one < all);
    assert_eq!(freed(one), one);
    assert_eq!(freed(one + 1), all);
}

#[test]
fn the_tail_is_of_whole_turns() {
    let messages = conversation(&[vec![10], vec![10], vec![10], vec![10], vec![10], vec![10]]);
    let four: usize = messages[5..].iter().map(|message| weight(message)).sum();
    assert_eq!(tail(&messages, four), 13 - 8, "four turns");
    assert_eq!(tail(&messages, usize::MAX), 1, "all that fit");
    assert_eq!(tail(&messages, 0), 11, "the last one in any case");
    assert_eq!(tail(&messages[..1], 0), 1, "an opening alone has none");
}

#[test]
fn a_transcript_has_something_of_everything() {
    let messages = conversation(&(0..40).map(|turn| vec![400 + turn]).collect::<Vec<_>>());
    let text = transcript(&messages, messages.len(), 30_000);
    assert!(text.len() <= 30_000, "{}", text.len());
    for turn in 0..40 {
        assert!(text.contains(&format!("The agent said: turn {turn}\n")), "{turn}");
    }
    assert!(!text.contains("# Task"), "the opening stays, and is not summed up");
    assert!(transcript(&messages, messages.len(), 1_000).len() <= 1_000);
    let again = summarised(&messages, 79, "the first summary".into());
    assert!(
        transcript(&again, again.len(), 9_000).contains("the first summary"),
        "what was summed up before is"
    );
}

proptest! {
    #[test]
    fn what_is_shorter_is_still_a_conversation(
        turns in proptest::collection::vec(proptest::collection::vec(0usize..6_000, 0..4), 0..12),
        budget in 0usize..40_000,
        excess in 0usize..60_000,
    ) {
        let messages = conversation(&turns);
        let start = tail(&messages, budget);
        let cut = cut_results(&messages, start, excess);
        if let Some(cut) = &cut {
            check_form(cut);
            prop_assert!(total(cut) < total(&messages));
            prop_assert_eq!(&cut[0], &messages[0]);
            prop_assert_eq!(&cut[start..], &messages[start..]);
            if total(&messages) - total(cut) < excess {
                prop_assert_eq!(cut_results(cut, start, usize::MAX), None, "all that there is was cut");
            }
        }
        let shorter = summarised(cut.as_ref().unwrap_or(&messages), start, "summary".into());
        check_form(&shorter);
        prop_assert_eq!(&shorter[0].content[0], &messages[0].content[0]);
        prop_assert_eq!(&shorter[1..], &messages[start..]);
        prop_assert_eq!(tail(&shorter, budget), shorter.len() - (messages.len() - start), "the same tail");
        if let Some(trimmed) = trim_results(&shorter, 1, excess) {
            check_form(&trimmed);
            prop_assert!(total(&trimmed) < total(&shorter));
        }
    }
}

#[test]
fn thinking_is_dropped_after_the_first_change_and_nowhere_else() {
    let thinking = |signature: Option<&str>| Content::Thinking {
        thinking: "hm".into(),
        signature: signature.map(str::to_owned),
    };
    let mut messages = conversation(&[vec![1], vec![4_001], vec![1]]);
    for at in [1, 3, 5] {
        let content = &mut Arc::make_mut(&mut messages[at]).content;
        content.insert(0, thinking(Some("signed")));
        content.insert(1, Content::RedactedThinking { data: "sealed".into() });
        content.insert(2, thinking(None));
    }
    let cut = cut_results(&messages, 5, usize::MAX).unwrap();
    let shorter = without_unbound_thinking(&messages, cut);
    let kinds = |at: usize| -> Vec<bool> {
        let is_thought =
            |block: &Content| matches!(block, Content::Thinking { .. } | Content::RedactedThinking { .. });
        shorter[at].content.iter().map(is_thought).collect()
    };
    assert!(Arc::ptr_eq(&shorter[1], &messages[1]) && Arc::ptr_eq(&shorter[3], &messages[3]));
    assert_ne!(shorter[4], messages[4], "the result that was cut");
    assert_eq!(kinds(5), [true, false, false], "only unsigned thinking stays");
    assert!(Arc::ptr_eq(&shorter[6], &messages[6]));
    check_form(&shorter);
    let summed = without_unbound_thinking(&messages, summarised(&messages, 5, "summary".into()));
    assert_eq!(summed[1].content.len(), 3, "signed thinking after a summary stays");
    // A message of thinking alone is not left empty.
    let only = vec![Arc::new(Message { role: Role::Assistant, content: vec![thinking(Some("signed"))] })];
    assert_eq!(without_unbound_thinking(&[], only)[0].text(), "(no answer)");
}
