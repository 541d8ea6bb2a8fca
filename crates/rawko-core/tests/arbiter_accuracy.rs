//! How well rules and fallback decide the labelled situations of `eval/situations.jsonl`, and that the figures that
//! `docs/arbiter.md` publishes are these.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rawko_core::arbiter::{Situation, parse_situations};
use rawko_core::machine::Decision;
use rawko_core::setup::Edition;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The lines of the document around the table.
const BEGIN: &str = "<!-- figures: tests/arbiter_accuracy.rs -->";
const END: &str = "<!-- end of figures -->";
const HELD_OUT: &str = "held-out";

fn situations() -> Vec<Situation> {
    let text = std::fs::read_to_string(format!("{ROOT}/eval/situations.jsonl")).expect("the situations");
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
        let ruling = situation.question.rule(Edition::NEWEST);
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
    let held_out = |situation: &&Situation| situation.set.as_deref() == Some(HELD_OUT);
    let columns = [
        figures(situations.iter().filter(|situation| !held_out(situation))),
        figures(situations.iter().filter(held_out)),
        figures(situations.iter()),
    ];
    let mut table =
        String::from("| | seen while the rules were written | held out | all |\n| --- | --- | --- | --- |\n");
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
        let ruling = situation.question.rule_or_fallback(Edition::NEWEST, None).expect("there are agents");
        let (decision, rule, certain) = (Some(ruling.decision), ruling.rule, ruling.certain);
        let is_right = decision.as_ref().is_some_and(|decision| situation.accepts(decision));
        if !is_right || !certain {
            let got = decision.as_ref().map(|decision| rawko_core::arbiter::Label::of(decision).to_string());
            let wanted: Vec<String> = situation.acceptable.iter().map(ToString::to_string).collect();
            let mark = if is_right { "unsure" } else { "WRONG" };
            println!("{mark} {}: {rule} says {got:?}, certain: {certain}; wanted {wanted:?}", situation.id);
        }
    }
}
