//! How well rules decide situations that were written from the contracts alone, before anyone measured them
//! (`eval/held_out.jsonl`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use rawko_core::arbiter::{Situation, parse_situations};

const SITUATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../eval/held_out.jsonl");

fn situations() -> Vec<Situation> {
    let text = std::fs::read_to_string(SITUATIONS).expect("the situations");
    parse_situations(&text).unwrap_or_else(|errors| {
        panic!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    })
}

#[test]
fn there_are_enough_of_them() {
    assert!(situations().len() >= 90);
}
