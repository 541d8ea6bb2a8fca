use serde_json::json;

use super::*;
use crate::memory::header::Header;
use crate::memory::query::Query;

fn memory(path: &str, title: &str, when: &[&str], body: &str) -> Memory {
    let front = json!({"title": title, "whenToUse": when});
    Memory::new(path, Header::read(&front).0.unwrap(), body)
}

/// So many memories that it counts how rare a word is.
fn others() -> Vec<Memory> {
    let other = |number: usize| {
        let title = format!("Implementing feature{number}");
        memory(
            &format!("other{number}"),
            &title,
            &[&format!("When implementing feature{number}")],
            "Nothing more.",
        )
    };
    (0..30).map(other).collect()
}

/// The paths of what fits a task among these and thirty others.
fn fitting(memories: &[Memory], task: &str, agent: &str) -> Vec<String> {
    let others = others();
    let all: Vec<&Memory> = memories.iter().chain(&others).collect();
    fitting_among(&all, task, agent)
}

fn fitting_among(all: &[&Memory], task: &str, agent: &str) -> Vec<String> {
    let query = Query::new(task, agent, None);
    let found = search(all, query.task()).found;
    found.iter().filter(|(_, evidence)| evidence.fits).map(|(at, _)| all[*at].path.clone()).collect()
}

#[test]
fn a_memory_with_clumsy_patterns_is_found_by_what_it_says() {
    let clumsy =
        memory("retries", "The token service wants retries with jitter", &["misc"], "Else it answers 503.");
    let check = |task: &str, expected: &[&str]| {
        assert_eq!(fitting(std::slice::from_ref(&clumsy), task, "developer"), expected, "{task}");
    };
    check("Call the token service from the login form, with retries", &["retries"]);
    check("Why do we get 503 from the token service?", &["retries"]);
    // One word of a title is chance, and so is the body alone.
    check("Port the parser to the new token type of the compiler", &[]);
    check("The page answers slowly when somebody prints else", &[]);
}

#[test]
fn common_words_are_weak_and_rare_ones_strong() {
    let check =
        |task: &str, expected: &[&str]| assert_eq!(fitting(&[], task, "developer"), expected, "{task}");
    check("Implement feature7", &["other7"]);
    check("Break feature7 in the parser of the compiler", &["other7"]);
    check("Implement the password reset", &[]);
}

#[test]
fn a_memory_that_fits_much_worse_than_the_best_is_left_out() {
    let memories = [
        memory("vat", "VAT is computed for each invoice", &["vat"], "By the tax office."),
        memory("pages", "Lists page with cursors", &["line"], ""),
    ];
    assert_eq!(fitting(&memories, "Compute the VAT of an invoice, by line", "developer"), ["vat"]);
    assert_eq!(fitting(&memories, "Draw a line below the diagram", "developer"), ["pages"]);
}

#[test]
fn a_pattern_that_names_the_agent_is_for_the_agent() {
    let memories = [memory("mine", "House style", &["tester"], ""), memory("prefix", "Ports", &["test"], "")];
    assert_eq!(fitting(&memories, "Draw the diagram of the parser", "tester"), ["mine"]);
    assert_eq!(fitting(&memories, "Draw the diagram of the parser", "developer"), [""; 0]);
}

#[test]
fn among_few_memories_every_declared_match_counts() {
    let all = [
        memory("exact", "A", &["login"], ""),
        memory("half", "B", &["compiling the parser"], ""),
        memory("other", "C", &["nothing"], ""),
    ];
    let all: Vec<&Memory> = all.iter().collect();
    assert_eq!(
        fitting_among(&all, "Repair the login form and draw a diagram of the parser", "x"),
        ["exact", "half"]
    );
}

#[test]
fn the_step_counts_half() {
    let known = memory(
        "outbox",
        "Mail leaves through the outbox worker",
        &["mail", "outbox worker"],
        "Never directly.",
    );
    let mut all = others();
    all.push(known);
    let all: Vec<&Memory> = all.iter().collect();
    let fits = |step: &str| {
        let query = Query::new("x", "developer", Some(step));
        let found = search(&all, query.step().unwrap()).found;
        found.values().filter(|evidence| evidence.fits).count()
    };
    // A word is enough for a task, and not for a step.
    assert_eq!((fitting_among(&all, "Send the mail", "developer").len(), fits("Send the mail")), (1, 0));
    assert_eq!(fits("Hand the mail to the worker of the outbox"), 1);
}

#[test]
fn costly_expressions_are_tried_only_where_what_they_need_occurs() {
    let count = usize::try_from(MAX_COMPILED).unwrap() + 3;
    let memories: Vec<Memory> =
        (0..count).map(|at| memory(&at.to_string(), "T", &[&format!("(login|logout) {at}")], "")).collect();
    let all: Vec<&Memory> = memories.iter().collect();
    let untried = |task: &str| search(&all, Query::new(task, "x", None).task()).untried;
    // None of the numbers is in the first task; every one is in the second.
    assert_eq!(untried("The login form"), 0);
    let numbers: Vec<String> = (0..count).map(|at| at.to_string()).collect();
    assert_eq!(untried(&format!("The login form {}", numbers.join(" "))), 3);
}

/// Memories that share no word with any task of these tests.
fn unrelated(count: usize) -> Vec<Memory> {
    let topic = |at: usize| format!("topic{at}");
    (0..count).map(|at| memory(&topic(at), &topic(at), &[&topic(at)], "")).collect()
}

/// How many of these fit a task when so many unrelated memories are there.
fn fitting_beside(memories: &[Memory], task: &str, beside: usize) -> usize {
    let unrelated = unrelated(beside);
    let all: Vec<&Memory> = memories.iter().chain(&unrelated).collect();
    fitting_among(&all, task, "developer").len()
}

#[test]
fn a_declared_match_survives_an_unrelated_memory() {
    let same = |pattern: &str| -> Vec<Memory> {
        (0..5).map(|at| memory(&format!("m{at}"), &format!("Note {at}"), &[pattern], "")).collect()
    };
    let mixed = vec![
        memory("one", "Sessions", &["auth"], "They are kept in a table."),
        memory("two", "Passwords", &["auth|login"], ""),
        memory("three", "Forms are made of parts", &["the login form"], "Each part has a name."),
        memory("four", "Cookies", &["fix * auth"], ""),
    ];
    let task = "Fix the auth module so that the login form of the web page says what is wrong";
    let check = |memories: &[Memory]| {
        let counts: Vec<usize> = (0..=60).map(|beside| fitting_beside(memories, task, beside)).collect();
        assert_eq!(counts[0], memories.len(), "{counts:?}");
        assert!(!counts.contains(&0), "{counts:?}");
    };
    for pattern in ["auth", "login form", "auth|login", "fix * auth"] {
        check(&same(pattern));
    }
    check(&mixed);
    // Nineteen memories and twenty.
    let counts = [14, 15].map(|beside| fitting_beside(&same("auth"), task, beside));
    assert_eq!(counts, [5, 5]);
}

#[test]
fn among_many_a_common_word_declares_little_beside_a_rare_one() {
    let mut memories: Vec<Memory> =
        (0..5).map(|at| memory(&format!("m{at}"), &format!("Note {at}"), &["auth"], "")).collect();
    memories.push(memory("rare", "Magnets in the login form", &["magnet"], ""));
    let fits = |beside| {
        let unrelated = unrelated(beside);
        let all: Vec<&Memory> = memories.iter().chain(&unrelated).collect();
        fitting_among(&all, "Repair auth of the magnet in the login form", "developer")
    };
    assert_eq!(fits(10).len(), 6);
    assert_eq!(fits(200), ["rare"]);
    // One word of a longer sentence declares little, and no pattern of an agent's name declares anything for a task.
    let half =
        [memory("half", "Note", &["compiling the parser"], "A long one, of many other things to say.")];
    let all: Vec<Memory> = half.into_iter().chain(unrelated(200)).collect();
    let all: Vec<&Memory> = all.iter().collect();
    let long = "Draw a diagram of the parser, its tokens, tables, states, errors and limits";
    assert_eq!(fitting_among(&all, long, "developer"), [""; 0]);
}
