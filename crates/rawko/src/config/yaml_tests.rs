use proptest::prelude::*;
use serde_json::json;

use super::*;

#[track_caller]
fn check(text: &str, expected: &Value) {
    assert_eq!(Document::parse(text, 0).map(|d| d.value).as_ref(), Ok(expected), "{text}");
}

#[track_caller]
fn check_error(text: &str, line: usize, column: usize, part: &str) {
    let errors = Document::parse(text, 0).expect_err(text);
    let first = &errors[0];
    assert!(first.message.contains(part), "{text:?}: {first:?}");
    assert_eq!((first.place.line, first.place.column), (line, column), "{text:?}: {first:?}");
}

#[test]
fn scalars_follow_the_core_schema() {
    check("", &json!({}));
    check("# nothing\n", &json!({}));
    check("a: 1\nb: -2\nc: 1.5\nd: 1e3\ne: 0x1f", &json!({"a": 1, "b": -2, "c": 1.5, "d": 1000.0, "e": 31}));
    check("a: true\nb: ~\nc: yes\nd: off", &json!({"a": true, "b": null, "c": "yes", "d": "off"}));
    check("a: '1'\nb: \"x\\n\"\nc: 1.2.3\nd: 30m", &json!({"a": "1", "b": "x\n", "c": "1.2.3", "d": "30m"}));
    check("a: inf\nb: nan\nc: e5\nd: .", &json!({"a": "inf", "b": "nan", "c": "e5", "d": "."}));
    check("a: !!str 5", &json!({"a": "5"}));
    check("a: |\n  one\n  two\nb: >-\n  one\n  two", &json!({"a": "one\ntwo\n", "b": "one two"}));
    check("a: [1, {b: c}]\r\nd:\r\n  - e\r\n", &json!({"a": [1, {"b": "c"}], "d": ["e"]}));
    check("a: &x [1]\nb: *x", &json!({"a": [1], "b": [1]}));
}

#[test]
fn what_is_wrong_is_said_where_it_stands() {
    check_error("a: 1\nb: 2\na: 3", 3, 1, "duplicate key `a`, first used in line 1");
    check_error("a:\n\tb: 1", 2, 1, "there is a tab in the indentation");
    check_error("a: b: c", 1, 5, "not valid YAML");
    check_error("a: !secret x", 1, 4, "the tag `!secret` is not supported");
    check_error("a: *x", 1, 4, "unknown anchor");
    check_error("a: &x 1\n<<: *x", 2, 1, "merge keys");
    check_error("a: 1\n---\nb: 2", 2, 1, "more than one YAML document");
    check_error("{a: 1}: 2", 1, 1, "a key must be a string");
    check_error("a: .inf", 1, 4, "infinite numbers");
    check_error("a: &x k\n*x : 1", 2, 1, "an alias cannot be a key");
    check_error("a: &x [*x]", 1, 8, "contains it");
    check_error("a: [1", 1, 5, "not valid YAML");
    check_error("a: [1\n\n", 1, 5, "not valid YAML");
    check_error("a: 'x", 1, 4, "not valid YAML");
}

#[test]
fn lines_are_those_of_the_file() {
    let errors = Document::parse("a: 1\na: 2\nb: [", 10).expect_err("errors");
    assert!(errors[0].message.ends_with("first used in line 11"), "{errors:?}");
    assert_eq!(errors.iter().map(|error| error.place.line).collect::<Vec<_>>(), [12, 13]);
}

#[test]
fn bombs_are_bounded() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let errors = Document::parse(&bomb, 0).expect_err("a bomb");
    assert!(errors[0].message.contains("more than 20000 values"), "{errors:?}");
    for deep in ["[".repeat(2_000), "- ".repeat(2_000), "{a: ".repeat(2_000)] {
        assert!(Document::parse(&deep, 0).is_err());
    }
}

#[test]
fn every_part_knows_its_place() {
    let text = "one: 1\ntwo:\n  - x\n  - key: value\n'a/b': {c~d: e}\n";
    let document = Document::parse(text, 10).expect("valid");
    let line_column = |place: Position| (place.line, place.column, place.width);
    assert_eq!(line_column(document.place("/one")), (11, 6, 1));
    assert_eq!(line_column(document.key_place("/one")), (11, 1, 3));
    assert_eq!(line_column(document.place("/two/1/key")), (14, 10, 5));
    assert_eq!(line_column(document.key_place("/two/1/key")), (14, 5, 3));
    assert_eq!(line_column(document.place("/a~1b/c~0d")), (15, 14, 1));
    assert_eq!(line_column(document.place("/two/1/absent/too")), (14, 5, 1));
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(?s).{0,200}") {
        let _ = Document::parse(&text, 0);
    }

    #[test]
    fn no_yaml_like_text_makes_it_panic(parts in prop::collection::vec(
        prop::sample::select(vec![
            "a", ": ", "- ", "\n", "  ", "{", "}", "[", "]", ", ", "&x ", "*x", "!t ", "|\n", ">", "'", "\"", "#",
            "---\n", "...\n", "\t", "\r\n", "? ", "é", "<<", "1", "~", "%YAML 1.2\n",
        ]),
        0..40,
    )) {
        let text = parts.concat();
        if let Ok(document) = Document::parse(&text, 0) {
            prop_assert!(document.place("").line >= 1);
        }
    }
}
