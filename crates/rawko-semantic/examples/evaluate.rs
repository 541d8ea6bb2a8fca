//! Prints every table of `docs/memory-evaluation.md`.
//!
//! `cargo run --release -p rawko-semantic --features model --example evaluate [-- MODEL_DIRECTORY]`

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use rawko_core::memory::Similarity;
use rawko_semantic::evaluation::{
    Answer, Figures, Half, Kind, LabelledQuery, LabelledSet, Row, Way, figures, found, table,
};
use rawko_semantic::{MARGIN, Model, THRESHOLD, Vectors, decide, model_directory, similarities, texts};

type Near = BTreeMap<String, BTreeMap<String, Similarity>>;

fn main() -> ExitCode {
    match evaluate() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn evaluate() -> Result<String, Box<dyn std::error::Error>> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../eval/memories.jsonl"));
    let set = LabelledSet::read(&std::fs::read_to_string(path)?)?;
    let env = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let directory = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .or_else(|| model_directory(env("XDG_DATA_HOME").as_deref(), env("HOME").as_deref()))
        .ok_or("neither XDG_DATA_HOME nor HOME says where the model is")?;

    let begin = Instant::now();
    let model = Model::load(&directory)?;
    let load = begin.elapsed();
    let mut vectors = Vectors::new(model.digest());
    let mut embed = |texts: &[&str]| model.embed(texts);
    let count = set.memories.iter().map(|memory| texts(&memory.header).len()).sum::<usize>();
    let begin = Instant::now();
    vectors.fill(set.memories.iter().flat_map(|memory| texts(&memory.header)), usize::MAX, &mut embed)?;
    let fill = begin.elapsed();
    let mut near = Near::new();
    let begin = Instant::now();
    for query in &set.queries {
        let of_query = similarities(&set.memories, &query.task, &mut vectors, &mut embed)?;
        near.insert(query.id.clone(), of_query.found);
    }
    let search = begin.elapsed();

    let mut text = String::new();
    for (name, half) in [("the half that chooses", Half::Chosen), ("the half that reports", Half::Reported)] {
        let queries = set.half(half);
        let mut rows = Vec::new();
        for way in [Way::Lexical, Way::Semantic, Way::Both, Way::Nearest] {
            for (kind, of_kind) in kinds(&queries) {
                rows.push(Row {
                    name: format!("{}, {kind}", way.as_str()),
                    figures: run(&set, &of_kind, way, &near),
                });
            }
        }
        text.push_str(&format!("{name}\n\n{}\n", table(&rows)));
    }
    text.push_str(&format!(
        "F1 of both on the half that chooses, by threshold and margin (in use: {THRESHOLD:.2} and {MARGIN:.2})\n\n| |"
    ));
    let margins = [0.0, 0.03, 0.05, 0.08, 0.15, 1.0];
    text.push_str(&margins.map(|margin| format!(" {margin:.2} |")).concat());
    text.push_str(&format!("\n|{}\n", " --- |".repeat(margins.len() + 1)));
    let queries = set.half(Half::Chosen);
    for hundredths in (22..=50).step_by(4) {
        let threshold = f64::from(hundredths) / 100.0;
        text.push_str(&format!("| {threshold:.2} |"));
        for margin in margins {
            let mut moved = near.clone();
            moved.values_mut().for_each(|found| decide(found, threshold, margin));
            let both = run(&set, &queries, Way::Both, &moved);
            text.push_str(&format!(" {:.2} ({:.2}/{:.2}) |", both.f1(), both.precision, both.recall));
        }
        text.push('\n');
    }
    let per = |time: std::time::Duration, count: usize| time.as_secs_f64() * 1_000.0 / count.max(1) as f64;
    text.push_str(&format!(
        "\nloading {:.0} ms; {count} texts of memories, {:.1} ms each; a query {:.1} ms\n",
        per(load, 1),
        per(fill, count),
        per(search, set.queries.len()),
    ));
    if std::env::var_os("RAWKO_EVALUATE_MISSES").is_some() {
        for query in &set.queries {
            let found = found(&set, query, Way::Both, &near[&query.id]);
            text.push_str(&format!("{}: {:?} found {found:?}\n", query.id, query.relevant));
        }
    }
    Ok(text)
}

fn kinds<'a>(queries: &[&'a LabelledQuery]) -> [(&'static str, Vec<&'a LabelledQuery>); 4] {
    let of = |kind: Kind| queries.iter().copied().filter(|query| query.kind == kind).collect();
    [
        ("all", queries.to_vec()),
        ("words in common", of(Kind::Words)),
        ("a word in common", of(Kind::Partly)),
        ("paraphrases", of(Kind::Paraphrase)),
    ]
}

fn run(set: &LabelledSet, queries: &[&LabelledQuery], way: Way, near: &Near) -> Figures {
    let answers: Vec<Answer<'_>> = queries
        .iter()
        .map(|query| Answer { query, found: found(set, query, way, &near[&query.id]) })
        .collect();
    figures(&answers)
}
