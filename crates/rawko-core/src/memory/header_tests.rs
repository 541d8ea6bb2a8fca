use proptest::prelude::*;
use serde_json::json;

use super::*;

fn sound() -> Value {
    json!({
        "title": "Project uses JWT",
        "whenToUse": ["auth", {"pattern": "login|session"}],
        "importance": "high",
        "discoveredAt": "2026-01-23T10:30:00+01:00",
        "discoveredBy": "planner",
    })
}

/// Front matter with one key set to `value` (absent where null): what is found, as `pointer: message`.
#[track_caller]
fn check(key: &str, value: Value, usable: bool, part: &str) -> Option<Header> {
    let mut front = sound();
    match value {
        Value::Null => drop(front.as_object_mut().unwrap().remove(key)),
        value => front[key] = value,
    }
    let (header, findings) = Header::read(&front);
    let shown: Vec<String> = findings.iter().map(|f| format!("{}: {}", f.pointer, f.message)).collect();
    assert_eq!(header.is_some(), usable, "{key}: {shown:?}");
    match part {
        "" => assert!(shown.is_empty(), "{shown:?}"),
        part => assert!(shown.len() == 1 && shown[0].contains(part), "{part}: {shown:?}"),
    }
    header
}

#[test]
fn sound_front_matter_is_read_whole() {
    let header = check("own", json!({"a": [1]}), true, "").unwrap();
    assert_eq!(header.when_to_use, ["auth", "login|session"]);
    assert_eq!(header.discovered_at.map(Timestamp::to_rfc3339).as_deref(), Some("2026-01-23T09:30:00.000Z"));
    assert_eq!(header.other["own"], json!({"a": [1]}));
    let header = check("whenToUse", json!("auth"), true, "").unwrap();
    assert_eq!(header.when_to_use, ["auth"]);
    assert_eq!(check("kind", json!("avoid"), true, "").unwrap().kind, Kind::Avoid);
    let digest = "AB".repeat(32);
    let header = check("files", json!([{"path": "src/x.rs", "sha256": digest}]), true, "").unwrap();
    assert_eq!(header.files[0].sha256, "ab".repeat(32));
    assert_eq!(check("supersedes", json!("old.md"), true, "").unwrap().supersedes, ["old.md"]);
}

#[test]
fn without_title_or_patterns_it_cannot_be_used() {
    check("title", Value::Null, false, "`title` is missing");
    check("title", json!(" "), false, "/title: `title` is empty");
    check("title", json!(404), false, "/title: `title` is a number");
    check("whenToUse", Value::Null, false, "`whenToUse` is missing");
    check("whenToUse", json!([]), false, "no pattern");
    let (header, findings) = Header::read(&json!([1]));
    assert!(header.is_none() && findings[0].message.contains("not a mapping"));
}

#[test]
fn everything_else_is_reported_and_done_without() {
    assert_eq!(check("importance", Value::Null, true, "is missing").unwrap().importance, Importance::Low);
    assert_eq!(
        check("importance", json!("urgent"), true, "`urgent` is no").unwrap().importance,
        Importance::Low
    );
    check("importance", json!(3), true, "/importance: `importance` is a number");
    check("discoveredAt", Value::Null, true, "is missing");
    check("discoveredAt", json!("yesterday"), true, "/discoveredAt: `discoveredAt` is no date");
    check("discoveredAt", json!("2026-01-23T10:30:00"), true, "no date");
    check("discoveredAt", json!(20_260_123), true, "is a number");
    check("discoveredBy", Value::Null, true, "`discoveredBy` is missing");
    check("discoveredBy", json!(["a"]), true, "is a list");
    check("kind", json!("rule"), true, "/kind: this kind is unknown");
    assert_eq!(check("tags", json!(["a", 7]), true, "/tags/1: an entry").unwrap().tags, ["a"]);
    check("expiresAt", json!("soon"), true, "/expiresAt");
    check("files", json!([{"path": "x", "sha256": "12"}]), true, "/files/0");
    check("records", json!([1, "x"]), true, "/records");
    check("whenToUse", json!(["auth", 7]), true, "/whenToUse/1: this pattern is a number");
    check(
        "whenToUse",
        json!(["auth", "a(b"]),
        true,
        "/whenToUse/1: the pattern `a(b` is no regular expression",
    );
    check("discoverdAt", json!("x"), true, "/discoverdAt: `discoverdAt` means nothing");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from)
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("(pattern|path|sha256|x)", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_read_or_refused_with_a_reason(
        values in prop::collection::vec((prop::sample::select(KEYS.to_vec()), any_value()), 0..15),
    ) {
        let front: Map<String, Value> = values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let (header, findings) = Header::read(&Value::Object(front));
        let refused = findings.iter().any(|finding| finding.severity == Severity::Error);
        prop_assert_eq!(header.is_none(), refused);
        if let Some(header) = header {
            let stored = serde_json::to_string(&header).unwrap();
            prop_assert_eq!(serde_json::from_str::<Header>(&stored).unwrap(), header);
        }
    }
}
