//! How well rules and fallback decide the labelled situations of `eval/situations.jsonl` and `eval/held_out.jsonl`, and
//! that the figures that `docs/arbiter.md` publishes are these.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rawko_core::arbiter::{ArbiterQuestion, Label, Situation, parse_situations};
use rawko_core::machine::Decision;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The lines of the document around the table.
const BEGIN: &str = "<!-- figures: tests/arbiter_accuracy.rs -->";
const END: &str = "<!-- end of figures -->";
const HELD_OUT: &str = "held-out";

fn situations() -> Vec<Situation> {
    read("situations")
}

/// Written from the contracts, before anyone measured how the rules decide them.
fn held_out() -> Vec<Situation> {
    read("held_out")
}

fn read(name: &str) -> Vec<Situation> {
    let text = std::fs::read_to_string(format!("{ROOT}/eval/{name}.jsonl")).expect("the situations");
    parse_situations(&text).unwrap_or_else(|errors| {
        panic!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    })
}

/// A count and its total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Share {
    of: usize,
    right: usize,
}

impl Share {
    fn add(&mut self, is_right: bool) {
        self.of += 1;
        self.right += usize::from(is_right);
    }

    fn cell(self) -> String {
        // Whole numbers: with a hundred situations, decimals mean nothing.
        let percent = (self.right * 100 + self.of / 2).checked_div(self.of).unwrap_or(0);
        format!("{} of {} ({percent} %)", self.right, self.of)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    rules: Share,
    fallback: Share,
    certain: Share,
    right_if_certain: Share,
}

fn by_fallback(situation: &Situation) -> Option<Decision> {
    situation.question.fallback(None)
}

fn figures<'a>(situations: impl Iterator<Item = &'a Situation>) -> Figures {
    let mut figures = Figures::default();
    for situation in situations {
        let is_right =
            |decision: Option<&Decision>| decision.is_some_and(|decision| situation.accepts(decision));
        let fallback = by_fallback(situation);
        let ruling = situation.question.rule();
        figures.fallback.add(is_right(fallback.as_ref()));
        figures.rules.add(is_right(ruling.as_ref().map(|ruling| &ruling.decision).or(fallback.as_ref())));
        let certain = ruling.filter(|ruling| ruling.certain);
        figures.certain.add(certain.is_some());
        if let Some(ruling) = certain {
            figures.right_if_certain.add(situation.accepts(&ruling.decision));
        }
    }
    figures
}

fn table(situations: &[Situation]) -> String {
    let is_held_out = |situation: &&Situation| situation.set.as_deref() == Some(HELD_OUT);
    let columns = [
        figures(situations.iter().filter(|situation| !is_held_out(situation))),
        figures(situations.iter().filter(is_held_out)),
        figures(held_out().iter()),
    ];
    let mut table = String::from(
        "| | seen while the rules were written | set aside from these | written apart from the rules |\n\
         | --- | --- | --- | --- |\n",
    );
    let mut row = |name: &str, share: fn(&Figures) -> Share| {
        let cells: Vec<String> = columns.iter().map(|figures| share(figures).cell()).collect();
        let _ = writeln!(table, "| {name} | {} |", cells.join(" | "));
    };
    row("`rules`: right", |figures| figures.rules);
    row("`hybrid`: decided without a model", |figures| figures.certain);
    row("`hybrid`: of those, right", |figures| figures.right_if_certain);
    row("fallback alone: right", |figures| figures.fallback);
    table
}

#[test]
fn the_published_figures_are_these() {
    let document = std::fs::read_to_string(format!("{ROOT}/docs/arbiter.md")).expect("docs/arbiter.md");
    let (_, rest) = document.split_once(BEGIN).expect("the mark before the table");
    let (published, _) = rest.split_once(END).expect("the mark after the table");
    let table = table(&situations());
    assert_eq!(published.trim(), table.trim(), "put this table into docs/arbiter.md:\n{table}");
}

/// The decisions that its tags forbid: `forbid:COMPLETE`, or `forbid:` and an agent.
fn forbids(situation: &Situation, decision: &Decision) -> bool {
    let Label { decision: _, mode } = Label::of(decision);
    let name = mode.unwrap_or_else(|| Label::of(decision).to_string());
    situation.tags.iter().any(|tag| tag.strip_prefix("forbid:") == Some(&name))
}

#[test]
fn rules_hold_on_situations_that_were_written_apart_from_them() {
    let situations = held_out();
    assert!(situations.len() >= 90, "{}", situations.len());
    let found = figures(situations.iter());
    assert!(found.rules.right * 100 >= found.rules.of * 95, "rules: {}", found.rules.cell());
    assert!(found.certain.right * 100 >= found.certain.of * 70, "hybrid: {}", found.certain.cell());
    assert_eq!(found.right_if_certain.right, found.right_if_certain.of, "certain and wrong");
    for situation in &situations {
        let ruling = situation.question.rule_or_fallback(None).expect("there are agents");
        assert!(!forbids(situation, &ruling.decision), "{}: {:?}", situation.id, ruling);
    }
}

/// A model that finds everything done, whatever it is shown. Other decisions of a model stand.
#[test]
fn no_answer_of_a_model_is_a_completion_against_the_record() {
    let mut refused = 0;
    for situation in held_out().iter().chain(&situations()) {
        if !situation.question.some_agent_ran() {
            continue;
        }
        let complete = Decision::Complete { summary: "Everything is done.".to_owned() };
        let checked = situation.question.checked(complete);
        refused += usize::from(checked.is_err());
        if let Some(reason) = against_the_record(&situation.question) {
            let ruling = checked.expect_err(&format!("{}: {reason}", situation.id));
            assert!(!matches!(ruling.decision, Decision::Complete { .. }), "{}", situation.id);
        }
        for agent in situation.question.names() {
            let select = Decision::SelectMode { mode: agent, reason: String::new() };
            assert_eq!(situation.question.checked(select.clone()), Ok(select), "{}", situation.id);
        }
    }
    assert!(refused >= 30, "{refused}");
}

/// What the last execution with a finding has against a COMPLETE, read from the JSON without the rules: its newest
/// check after its last write is red, or its verdict is not an approval.
fn against_the_record(question: &ArbiterQuestion) -> Option<String> {
    let input = match question {
        ArbiterQuestion::Select(input) => serde_json::to_value(input).unwrap(),
        ArbiterQuestion::Evaluate { input, .. } => serde_json::to_value(input).unwrap(),
    };
    let verified = &input["facts"]["verification"];
    if verified.is_object() && verified["isStale"] != true {
        return (verified["passed"] != true).then(|| format!("{verified}"));
    }
    let last = input.get("lastExecution").or_else(|| input["history"].as_array()?.last())?;
    let verdict = &last["facts"]["verdict"];
    if verdict == "rejected" || verdict == "blocked" {
        return Some(format!("{verdict}"));
    }
    let history = input["history"].as_array()?;
    let wrote = history.iter().any(|entry| entry["output"]["filesModified"].is_array());
    let red = |fact: &serde_json::Value| {
        let own = fact["ownStatus"]["exited"].as_i64().or_else(|| fact["exitCode"].as_i64());
        fact["summary"]["failed"] == true || own.is_some_and(|code| ![0, 126, 127].contains(&code))
    };
    let newest = last["facts"]["commands"].as_array()?.iter().rev().find(|fact| fact["isCheck"] == true)?;
    let is_fresh = newest["beforeLastWrite"] != true && newest["beforePossibleWrite"] != true;
    let is_hidden = newest["ownStatus"] == "hidden" && newest["summary"]["failed"] != true;
    // Only running the checks may have been the task.
    (wrote && is_fresh && !is_hidden && red(newest)).then(|| format!("{newest}"))
}

/// The situations cover every kind of input.
#[test]
fn every_decision_category_and_edge_is_covered() {
    let situations = situations();
    assert!(situations.len() >= 60, "{}", situations.len());
    let held_out = situations.iter().filter(|situation| situation.set.as_deref() == Some(HELD_OUT)).count();
    assert!(held_out * 4 >= situations.len(), "{held_out} are held out");
    let lines: Vec<serde_json::Value> =
        situations.iter().map(|situation| serde_json::from_str(&situation.to_line()).unwrap()).collect();
    let mut seen = BTreeSet::new();
    for (situation, line) in situations.iter().zip(&lines) {
        let point = line["point"].as_str().unwrap();
        for label in &situation.acceptable {
            seen.insert(format!(
                "{point} {}",
                serde_json::to_value(label.decision).unwrap().as_str().unwrap()
            ));
        }
        if let Some(category) = line["input"]["lastError"]["category"].as_str() {
            seen.insert(category.to_owned());
        }
        seen.extend(situation.tags.iter().cloned());
    }
    for wanted in [
        "select SELECT_MODE",
        "select RETRY",
        "select COMPLETE",
        "evaluate SELECT_MODE",
        "evaluate CONTINUE",
        "evaluate RETRY",
        "evaluate COMPLETE",
        "tool_failure",
        "provider_error",
        "validation_error",
        "timeout",
        "permission_error",
        "unknown",
        "custom",
        "claims",
        "injection",
        "repeated",
        "out-of-turns",
        "denied",
        "language",
        "empty",
        "verification",
        "budget",
        "stalled",
        "refusal",
        "record",
        "human",
    ] {
        assert!(seen.contains(wanted), "no situation covers {wanted}");
    }
}

/// Prints what the rules get wrong, without the held-out part: `cargo test -p rawko-core --test arbiter_accuracy --
/// --ignored --nocapture`.
#[test]
#[ignore = "prints; for work on the rules"]
fn what_is_wrong() {
    for situation in situations().iter().filter(|situation| situation.set.is_none()) {
        let ruling = situation.question.rule_or_fallback(None).expect("there are agents");
        let (decision, rule, certain) = (Some(ruling.decision), ruling.rule, ruling.certain);
        let is_right = decision.as_ref().is_some_and(|decision| situation.accepts(decision));
        if !is_right || !certain {
            let got = decision.as_ref().map(|decision| Label::of(decision).to_string());
            let wanted: Vec<String> = situation.acceptable.iter().map(ToString::to_string).collect();
            let mark = if is_right { "unsure" } else { "WRONG" };
            println!("{mark} {}: {rule} says {got:?}, certain: {certain}; wanted {wanted:?}", situation.id);
        }
    }
}
