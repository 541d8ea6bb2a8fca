//! What comparing a task with every memory costs, beside embedding the task.
//!
//! `cargo bench -p rawko-semantic --bench search` (`-- --memories 1000` for another number). Vectors are random: the search
//! looks at all of them, whatever they are. With `--features model` and the weights it also times embedding one task, with the
//! real model. Figures are in `docs/memory-evaluation.md`.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use rawko_core::memory::{Header, Memory};
use rawko_semantic::{DIMENSIONS, FILE_NAME, Vectors, similarities, texts};
use serde_json::json;

const TASK: &str = "Notify subscribers as soon as their parcel is on its way";
const TIMES: usize = 15;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == "--memories");
    let count = at.map_or(10_000, |at| arguments[at + 1].parse().unwrap());
    let memories: Vec<Memory> = (0..count).map(memory).collect();
    let mut embed = |texts: &[&str]| Ok(texts.iter().map(|text| vector(text)).collect());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    let mut vectors = Vectors::new([0; 32]);
    let all = memories.iter().flat_map(|memory| texts(&memory.header));
    assert_eq!(vectors.fill(all, usize::MAX, &mut embed).unwrap(), 0);
    vectors.save(&path).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    println!("{count} memories, {} vectors, {:.1} MB on the disk", vectors.len(), bytes as f64 / 1e6);
    say("reading the vectors, once a process", best(|| drop(Vectors::open(&path, [0; 32]))));
    let mut vectors = Vectors::open(&path, [0; 32]);
    assert_eq!(vectors.len(), 2 * count);
    let search = best(|| {
        let compared = similarities(&memories, TASK, &mut vectors, &mut embed).unwrap();
        assert_eq!((compared.found.len(), compared.left), (count, 0));
    });
    say("comparing a task with all of them", search);
    embedding();
}

#[cfg(feature = "model")]
fn embedding() {
    let home = |name: &str| std::env::var_os(name).map(std::path::PathBuf::from);
    let (data, home) = (home("XDG_DATA_HOME"), home("HOME"));
    let Some(directory) = rawko_semantic::model_directory(data.as_deref(), home.as_deref()) else { return };
    let begun = Instant::now();
    match rawko_semantic::Model::load(&directory) {
        Ok(model) => {
            say("loading the model, once a process", begun.elapsed());
            say("embedding a task", best(|| drop(model.embed(&[TASK]).unwrap())));
        }
        Err(error) => println!("embedding a task: not measured, {error}"),
    }
}

#[cfg(not(feature = "model"))]
fn embedding() {
    println!("embedding a task: not measured, run it with --features model");
}

fn best(mut work: impl FnMut()) -> Duration {
    let times = (0..TIMES).map(|_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    });
    times.min().unwrap()
}

fn say(what: &str, took: Duration) {
    println!("{what:<40} {:>8.1} ms", took.as_secs_f64() * 1e3);
}

fn memory(number: usize) -> Memory {
    let front = json!({
        "title": format!("Title of memory {number}"), "whenToUse": [format!("when working on part {number}")],
        "importance": "low",
    });
    Memory::new(&format!("{number}.md"), Header::read(&front).0.unwrap(), "")
}

/// A vector that depends on the text (splitmix64).
fn vector(text: &str) -> Vec<f32> {
    let mut state = text.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    (0..DIMENSIONS).map(|_| next()).collect()
}
