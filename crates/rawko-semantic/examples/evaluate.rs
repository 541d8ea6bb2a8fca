//! Prints what meaning adds to words on the labelled set (`docs/memory-evaluation.md`).
//!
//! `cargo run --release -p rawko-semantic --features model --example evaluate [-- MODEL_DIRECTORY]`

#![allow(clippy::unwrap_used, dead_code, reason = "the set and the search are those of rawko-core's tests")]

#[path = "../../rawko-core/tests/memory_evaluation/figures.rs"]
mod figures;
#[path = "../../rawko-core/tests/memory_evaluation/search.rs"]
mod search;
#[path = "../../rawko-core/tests/memory_evaluation/set.rs"]
mod set;

use std::collections::BTreeMap;
use std::path::PathBuf;

use figures::{Answer, figures, table};
use rawko_semantic::{Model, Vectors, model_directory, similarities};
use search::{Context, found};
use set::{Half, LabelledSet, Patterns};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let env = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let directory = std::env::args_os().nth(1).map(PathBuf::from);
    let directory =
        directory.or_else(|| model_directory(env("XDG_DATA_HOME").as_deref(), env("HOME").as_deref()));
    let model = Model::load(&directory.ok_or("neither XDG_DATA_HOME nor HOME says where the model is")?)?;
    let mut vectors = Vectors::new(model.digest());
    let mut embed = |texts: &[&str]| model.embed(texts);
    let set = LabelledSet::load();
    for (name, half) in [("chosen", Half::Chosen), ("reported", Half::Reported)] {
        let mut rows = Vec::new();
        for (author, patterns) in Patterns::ALL {
            let memories = set.memories(patterns);
            let (mut by_words, mut by_both) = (Vec::new(), Vec::new());
            for query in set.half(half) {
                let near = similarities(&memories, &query.task, &mut vectors, &mut embed)?.found;
                let answer = |near| Answer { query, found: found(&memories, query, Context::Task, near) };
                by_words.push(answer(&BTreeMap::new()));
                by_both.push(answer(&near));
            }
            rows.push((format!("{author}, by words"), figures(&by_words)));
            rows.push((format!("{author}, by words and meaning"), figures(&by_both)));
        }
        println!("{name}\n\n{}", table(&rows));
    }
    Ok(())
}
