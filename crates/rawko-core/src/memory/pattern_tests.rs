use proptest::prelude::*;

use super::*;

const TASK: &str = "Implement a password reset, with authentication by e-mail and rate limiting";

#[track_caller]
fn check(pattern: &str, reading: Reading, matches: bool) {
    let task = format!("{TASK}. Draw the\nlogin form, as oauth wants it");
    let query = Query::new(&task, "developer", None);
    let read = Pattern::read(pattern);
    let found = read.matches(&query);
    assert_eq!(
        (read.reading(), found.is_some()),
        (reading, matches),
        "{pattern}: {found:?} {:?}",
        read.problem()
    );
}

#[test]
fn regular_expressions_are_read_as_such() {
    use Reading::{Regex, Substring};
    check("auth|login|security", Regex, true);
    check("OAUTH|saml", Regex, true);
    check(" saml | login ", Regex, true);
    check("saml|", Regex, false);
    check("implement.*auth", Regex, true);
    check("implement.{0,5}auth", Regex, false);
    // Not from one part into another, but over a line break within one.
    check("limiting.*developer", Regex, false);
    check("the.+login", Regex, true);
    check(r"\breset\b", Regex, true);
    check("^developer$", Regex, true);
    check("[xyz]{3}", Regex, false);
    check("rate(", Substring, false);
    check("C++", Regex, false);
    check("C++ | login", Regex, true);
    check("(oauth)", Regex, true);
    check("(?=x)", Substring, false);
    check("((((a{99}){99}){99}){99})", Substring, false);
}

#[test]
fn two_pluses_after_a_letter_are_literal() {
    let check = |pattern: &str, task: &str, expected: bool| {
        let query = Query::new(task, "x", None);
        assert_eq!(Pattern::read(pattern).matches(&query).is_some(), expected, "{pattern} {task}");
    };
    check("C++", "Port the parser to c++17", true);
    check("C++", "Port the parser to C", false);
    check("C++ | Rust", "rust, then", true);
    check("C++|Rust", "a C++ compiler", true);
    check("(C|g)++", "cg", true);
    check(r"\d++x", "12x", true);
    check(r"a\++", "a++", true);
    check("colou?r+", "COLORRR", true);
}

#[test]
fn globs_are_unanchored() {
    use Reading::Glob;
    check("pass*reset", Glob, true);
    check("PASS*reset", Glob, true);
    check("rese?", Glob, true);
    check("rese?pass", Glob, false);
    check("*", Glob, true);
}

#[test]
fn one_word_is_the_beginning_of_one() {
    use Reading::Prefix;
    check("auth", Prefix, true);
    check("Auth", Prefix, true);
    check("oauth", Prefix, true);
    check("mail", Prefix, true);
    check("entication", Prefix, false);
    check("rate-lim", Prefix, true);
    check("rat-lim", Prefix, false);
    check("limiting-rate", Prefix, false);
    check("developer", Prefix, true);
    check("...", Prefix, false);
    check("", Prefix, false);
}

#[test]
fn half_of_the_content_words_will_do() {
    use Reading::Words;
    check("When implementing authentication", Words, true);
    check("When implementing database migrations for users", Words, false);
    check("resetting databases", Words, true);
    check("before the reset of passwords and users", Words, true);
    check("when to use it", Words, false);
    // Words are words: none of these is one of the task.
    check("to wit of pass", Words, false);
}

#[test]
fn a_match_says_what_matched() {
    let query = Query::new(TASK, "developer", None);
    let matched = |pattern: &str| Pattern::read(pattern).matches(&query).map(|m| (m.part, m.found, m.words));
    assert_eq!(matched("develop"), Some((Part::Agent, "developer".to_owned(), None)));
    assert_eq!(matched("implement.*?reset").map(|t| t.1), Some("Implement a password reset".to_owned()));
    assert_eq!(
        matched("authenticated users with passwords"),
        Some((Part::Task, "authentication, password".to_owned(), Some((2, 3))))
    );
}

#[test]
fn problems_are_reported() {
    let check = |pattern: &str, part: &str| {
        let read = Pattern::read(pattern);
        assert!(
            read.problem().is_some_and(|problem| problem.contains(part)),
            "{pattern}: {:?}",
            read.problem()
        );
    };
    check("a(b", "unclosed group");
    check("((((a{99}){99}){99}){99})", "too large");
    check("(auth)?", "every text");
    check("...", "no word");
    check("what it is", "says nothing");
    check(&"x ".repeat(600), "longer than");
    assert_eq!(Pattern::read("auth|login").problem(), None);
}

proptest! {
    #[test]
    fn any_pattern_can_be_read_and_matched(pattern in "\\PC{0,40}", task in "\\PC{0,60}") {
        let query = Query::new(&task, "developer", None);
        let read = Pattern::read(&pattern);
        let _ = read.matches(&query);
        if read.reading() != Reading::Substring {
            prop_assert_eq!(read.reading(), Pattern::reading_of(&pattern));
        }
    }

    #[test]
    fn a_word_of_the_task_matches_itself(word in "[a-z]{2,12}") {
        let query = Query::new(&format!("do {word} now"), "developer", None);
        prop_assert!(Pattern::read(&word).matches(&query).is_some());
    }
}
