//! The view of recorded sessions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use rawko::journal::{Journal, read};
use rawko_inspect::{EntryKind, SessionEntry, SessionView, ViewBuilder, ViewLimits};
use support::golden_session;

fn journal() -> Journal {
    read(&golden_session().join("journal.jsonl")).unwrap()
}

#[test]
fn a_session_is_shown_from_its_beginning_to_its_end() {
    insta::assert_json_snapshot!(SessionView::of(&journal(), ViewLimits { text: 60, whole: None }));
}

#[test]
fn everything_that_happened_is_shown() {
    let journal = journal();
    let view = SessionView::of(&journal, ViewLimits::default());
    assert_eq!(view.head.records, journal.records.len() as u64);
    assert!(!view.head.path.is_empty() && !view.head.executions.is_empty());
    assert!(view.entries.iter().enumerate().all(|(at, entry)| entry.number == at));
    let decisions = view.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Decision { .. }));
    assert_eq!(decisions.count(), rawko::explain(&journal).len());
}

#[test]
fn a_follower_sees_in_the_end_what_a_later_reader_sees() {
    let journal = journal();
    let whole = SessionView::of(&journal, ViewLimits::default());
    for known in 0..=journal.records.len() {
        let mut builder = ViewBuilder::new(&journal.header, ViewLimits::default());
        let mut seen: Vec<SessionEntry> = Vec::new();
        for (seq, record) in (1_u64..).zip(&journal.records) {
            builder.record(seq, record);
            if seq == known as u64 {
                seen = builder.entries().to_vec();
            }
        }
        for entry in builder.changed_since(known as u64).cloned() {
            match seen.get_mut(entry.number) {
                Some(place) => *place = entry,
                None => seen.push(entry),
            }
        }
        let numbers = |entries: &[SessionEntry]| serde_json::to_value(entries).unwrap();
        assert_eq!(numbers(&seen), numbers(&whole.entries), "after record {known}");
    }
}

#[test]
fn a_long_result_is_cut_in_the_list_and_whole_where_it_is_asked_for() {
    let journal = journal();
    let result =
        |limits, number: usize| match SessionView::of(&journal, limits).entries.swap_remove(number).kind {
            EntryKind::ToolCall { result: Some(result), .. } => result.content,
            other => panic!("{other:?}"),
        };
    let list = SessionView::of(&journal, ViewLimits::default());
    let is_cut = |entry: &SessionEntry| match &entry.kind {
        EntryKind::ToolCall { result: Some(result), .. } => result.content.cut_bytes > 0,
        _ => false,
    };
    let number = list.entries.iter().position(is_cut).expect("a result longer than 64 KiB, in a blob");
    let short = result(ViewLimits::default(), number);
    let whole = result(ViewLimits { whole: Some(number), ..ViewLimits::default() }, number);
    assert_eq!(short.text.len(), 400);
    assert_eq!(whole.cut_bytes, 0);
    assert_eq!(whole.text.len(), short.text.len() + short.cut_bytes);
    assert!(whole.text.starts_with(&short.text));
}
