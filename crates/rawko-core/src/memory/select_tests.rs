use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::memory::Header;

const NOW: Timestamp = Timestamp(1_769_160_600_000);
const DAY: u64 = 86_400_000;

fn memory(path: &str, front: Value) -> Memory {
    let mut value = json!({
        "title": path, "whenToUse": "auth", "importance": "medium", "discoveredBy": "planner",
        "discoveredAt": Timestamp(NOW.0 - 30 * DAY).to_rfc3339(),
    });
    value.as_object_mut().unwrap().extend(front.as_object().unwrap().clone());
    let (header, findings) = Header::read(&value);
    Memory::new(path, header.unwrap_or_else(|| panic!("{findings:?}")), "")
}

fn recipient(options: &Value) -> Recipient {
    let agent = json!({"name": "developer", "systemPrompt": "", "memory": options});
    Recipient::of(&serde_json::from_value(agent).unwrap(), 5, crate::agent::Importance::Low)
}

fn select(memories: &[Memory], options: &Value, stale: &[(&str, Staleness)]) -> Selection {
    let query = Query::new("Fix the auth module", "developer", None);
    let around = RankInput { now: NOW, ..RankInput::default() };
    let stale = stale.iter().map(|(path, staleness)| ((*path).to_owned(), staleness.clone())).collect();
    let recipient = recipient(options);
    rank(memories, &query, &recipient, &around).choose(&stale)
}

#[track_caller]
fn check(memories: &[Memory], options: &Value, chosen: &[&str], left_out: &[(&str, Reason)]) {
    let selection = select(memories, options, &[]);
    let paths: Vec<&str> = selection.chosen.iter().map(|one| one.memory.path.as_str()).collect();
    assert_eq!(paths, chosen);
    let left: Vec<(&str, Reason)> =
        selection.left_out.iter().map(|one| (one.path.as_str(), one.reason.clone())).collect();
    assert_eq!(left, left_out);
}

#[test]
fn the_best_are_given() {
    let memories = [
        memory("low", json!({"importance": "low"})),
        memory("critical", json!({"importance": "critical"})),
        memory("other", json!({"whenToUse": "payment"})),
        memory("high", json!({"importance": "high"})),
    ];
    check(&memories, &json!({}), &["critical", "high", "low"], &[("other", Reason::NoMatch)]);
    check(
        &memories,
        &json!({"maxInjected": 1}),
        &["critical"],
        &[
            ("high", Reason::NoPlace { rank: 2 }),
            ("low", Reason::NoPlace { rank: 3 }),
            ("other", Reason::NoMatch),
        ],
    );
    check(
        &memories,
        &json!({"minImportance": "high"}),
        &["critical", "high"],
        &[("low", Reason::TooUnimportant), ("other", Reason::NoMatch)],
    );
    assert!(select(&memories, &json!({"maxInjected": 0}), &[]).chosen.is_empty());
    let unmet = |options| select(&memories, &options, &[]).unmet.sentence();
    assert_eq!(unmet(json!({})), None);
    assert_eq!(unmet(json!({"maxInjected": 1})).unwrap(), "others that match: 2 without a place");
    let picky = json!({"maxInjected": 1, "minImportance": "high"});
    assert_eq!(unmet(picky).unwrap(), "others that match: 1 without a place, 1 too unimportant");
}

#[test]
fn what_the_agents_name_alone_finds_comes_after_what_the_task_finds() {
    let memories = [
        memory("mine", json!({"whenToUse": "developer", "importance": "critical"})),
        memory("low", json!({"importance": "low"})),
        // The task finds this one too.
        memory("both", json!({"whenToUse": ["developer", "auth"]})),
    ];
    check(&memories, &json!({}), &["both", "low", "mine"], &[]);
    let left = [("low", Reason::NoPlace { rank: 2 }), ("mine", Reason::NoPlace { rank: 3 })];
    check(&memories, &json!({"maxInjected": 1}), &["both"], &left);
}

#[test]
fn among_equals_the_newer_comes_first_and_then_the_path() {
    let at = |days: u64| Timestamp(NOW.0 - days * DAY).to_rfc3339();
    let memories = [
        memory("b", json!({"discoveredAt": at(40)})),
        memory("a", json!({"discoveredAt": at(40)})),
        memory("c", json!({"discoveredAt": at(39)})),
        memory("undated", json!({"discoveredAt": null})),
    ];
    check(&memories, &json!({}), &["c", "a", "b", "undated"], &[]);
}

#[test]
fn what_is_superseded_or_expired_is_never_given() {
    let memories = [
        memory("old.md", json!({"importance": "critical"})),
        memory("new.md", json!({"supersedes": ["old"]})),
        memory("sub/past.md", json!({"expiresAt": NOW.to_rfc3339()})),
        memory("soon.md", json!({"expiresAt": Timestamp(NOW.0 + 1).to_rfc3339(), "supersedes": "soon.md"})),
    ];
    check(
        &memories,
        &json!({}),
        &["new.md", "soon.md"],
        &[
            ("old.md", Reason::Superseded { by: "new.md".to_owned() }),
            ("sub/past.md", Reason::Expired { at: NOW }),
        ],
    );
}

#[test]
fn contradictions_are_given_side_by_side() {
    let memories = [
        memory("a.md", json!({"title": "Tokens live an hour", "importance": "critical"})),
        memory("b.md", json!({"title": "tokens  live an Hour", "importance": "low", "whenToUse": "nothing"})),
        memory("c.md", json!({"importance": "high"})),
        memory("d.md", json!({"conflictsWith": "c"})),
    ];
    check(&memories, &json!({}), &["a.md", "b.md", "c.md", "d.md"], &[]);
    let said = |max: u32| -> Vec<(String, bool)> {
        let selection = select(&memories, &json!({"maxInjected": max}), &[]);
        let of = |one: &Chosen| one.contradictions.clone();
        selection.chosen.iter().flat_map(of).map(|other| (other.path, other.shown)).collect()
    };
    let check = |max, expected: &[(&str, bool)]| {
        let expected: Vec<(String, bool)> =
            expected.iter().map(|(path, shown)| ((*path).to_owned(), *shown)).collect();
        assert_eq!(said(max), expected, "{max}");
    };
    // A contradiction is mentioned even if there is no room for the other memory. A memory that matches nothing gets
    // the last place.
    check(4, &[("b.md", true), ("a.md", true), ("d.md", true), ("c.md", true)]);
    check(3, &[("b.md", false), ("d.md", true), ("c.md", true)]);
    check(2, &[("b.md", false), ("d.md", false)]);
}

#[test]
fn a_memory_that_names_others_pushes_out_none_that_matches() {
    let best = |name: &str| memory(name, json!({"title": name, "importance": "critical"}));
    let mut memories = ["a", "b", "c", "d", "e"].map(best).to_vec();
    memories.push(memory("x", json!({"whenToUse": "nothing", "conflictsWith": ["a", "b", "c", "d", "e"]})));
    check(&memories, &json!({}), &["a", "b", "c", "d", "e"], &[("x", Reason::NoMatch)]);
    check(&memories, &json!({"maxInjected": 6}), &["a", "x", "b", "c", "d", "e"], &[]);
}

#[test]
fn a_memory_of_a_changed_tree_is_demoted() {
    let memories = [
        memory("gone", json!({"title": "gone"})),
        memory("changed", json!({"title": "changed"})),
        memory("sound", json!({"importance": "low", "tags": ["code"]})),
    ];
    let stale = [
        ("gone", Staleness { nothing_left: true, ..Staleness::default() }),
        ("changed", Staleness { changed: vec!["src/x.rs".to_owned()], ..Staleness::default() }),
    ];
    let selection = select(&memories, &json!({}), &stale);
    let scores: Vec<(&str, f64)> =
        selection.chosen.iter().map(|one| (one.memory.path.as_str(), one.score.total)).collect();
    assert_eq!(scores, [("changed", 10.0), ("sound", 10.0), ("gone", 0.0)]);
}

#[test]
fn feedback_counts() {
    let memories = [memory("used", json!({})), memory("unused", json!({}))];
    let query = Query::new("Fix the auth module", "developer", None);
    let mut around = RankInput { now: NOW, ..RankInput::default() };
    around.feedback.insert("used".to_owned(), Feedback { uses: 4, misled: 2, ..Feedback::default() });
    let recipient = recipient(&json!({}));
    let selection = rank(&memories, &query, &recipient, &around).choose(&BTreeMap::new());
    let scores: Vec<(&str, f64)> =
        selection.chosen.iter().map(|one| (one.memory.path.as_str(), one.score.total)).collect();
    assert_eq!(scores, [("unused", 15.0), ("used", 12.5)]);
}

proptest! {
    #[test]
    fn every_memory_is_given_or_left_out_for_a_reason(
        fronts in prop::collection::vec(
            (
                prop::sample::select(vec!["low", "medium", "high"]),
                prop::sample::select(vec!["auth", "payment", "fix the module", "auth|x"]),
                prop::sample::select(vec!["A", "B", "C"]),
                prop::collection::vec(prop::sample::select(vec!["0", "1", "2", "A"]), 0..2),
            ),
            0..12,
        ),
        max in 0u32..6,
    ) {
        let memories: Vec<Memory> = fronts
            .iter()
            .enumerate()
            .map(|(at, (importance, pattern, title, refs))| memory(&at.to_string(), json!({
                "importance": importance, "whenToUse": pattern, "title": title,
                "supersedes": refs.iter().take(at % 2).collect::<Vec<_>>(),
                "conflictsWith": refs,
            })))
            .collect();
        let selection = select(&memories, &json!({"maxInjected": max}), &[]);
        prop_assert!(selection.chosen.len() <= max as usize);
        let mut paths: Vec<&str> = selection.chosen.iter().map(|one| one.memory.path.as_str()).collect();
        paths.extend(selection.left_out.iter().map(|one| one.path.as_str()));
        paths.sort_unstable();
        let mut all: Vec<&str> = memories.iter().map(|memory| memory.path.as_str()).collect();
        all.sort_unstable();
        prop_assert_eq!(paths, all);
    }
}
