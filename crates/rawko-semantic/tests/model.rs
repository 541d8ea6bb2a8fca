//! The model with its real weights. They are 90 MB and not in the repository, so the tests that need them are ignored;
//! `scripts/test-semantic.sh` fetches the weights and runs them.

#![cfg(feature = "model")]
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "the whole set is rawko-core's")]
#[path = "../../rawko-core/tests/memory_evaluation/set.rs"]
mod set;

use std::path::PathBuf;

use rawko_semantic::{DIMENSIONS, Error, Model, Packed, cosine, model_directory, texts};
use serde::Deserialize;
use set::{LabelledSet, Patterns};

fn model() -> Model {
    let env = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let directory = model_directory(env("XDG_DATA_HOME").as_deref(), env("HOME").as_deref()).unwrap();
    Model::load(&directory).unwrap()
}

/// The first numbers of a text's vector, as an implementation of the network in numpy, in double precision and without padding, has
/// computed them from the same weights.
#[derive(Deserialize)]
struct Reference {
    text: String,
    repeat: usize,
    head: Vec<f32>,
}

#[test]
#[ignore = "needs the weights: scripts/test-semantic.sh"]
fn vectors_are_those_of_another_implementation() {
    let model = model();
    let all: Vec<Reference> = serde_json::from_str(include_str!("reference.json")).unwrap();
    let texts: Vec<String> = all.iter().map(|one| one.text.repeat(one.repeat)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    // All at once, so that the short ones are padded to 256 pieces.
    let together = model.embed(&texts).unwrap();
    for ((reference, vector), text) in all.iter().zip(&together).zip(&texts) {
        assert_eq!(vector.len(), DIMENSIONS);
        let off = reference.head.iter().zip(vector).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
        assert!(off < 1e-4, "{:?} is off by {off}", reference.text);
        let alone = model.embed(&[text]).unwrap();
        assert!(cosine(&alone[0], vector) > 0.99999, "{:?} depends on its neighbours", reference.text);
        let length = vector.iter().map(|x| x * x).sum::<f32>();
        assert!((length - 1.0).abs() < 1e-4, "{length}");
    }
    assert!(model.embed(&[]).unwrap().is_empty());
}

#[test]
#[ignore = "needs the weights: scripts/test-semantic.sh"]
fn what_is_behind_256_pieces_is_not_read() {
    let model = model();
    let long = "word ".repeat(300);
    let vectors = model.embed(&[&long, &format!("{long} and something else entirely")]).unwrap();
    assert!(cosine(&vectors[0], &vectors[1]) > 0.99999);
}

#[test]
#[ignore = "needs the weights: scripts/test-semantic.sh"]
fn packing_moves_no_cosine_of_the_labelled_set_by_a_hundredth() {
    let model = model();
    let set = LabelledSet::load();
    let all = set.memories(Patterns::Careful);
    let memories: Vec<&str> = all.iter().flat_map(|memory| texts(&memory.header)).collect();
    let tasks: Vec<&str> = set.queries.iter().map(|query| query.task.as_str()).collect();
    let (memories, tasks) = (model.embed(&memories).unwrap(), model.embed(&tasks).unwrap());
    let mut worst = 0.0_f32;
    for task in &tasks {
        let packed = Packed::new(task);
        for memory in &memories {
            worst = worst.max((cosine(task, memory) - packed.cosine(&Packed::new(memory))).abs());
        }
    }
    eprintln!("the worst error of a packed cosine is {worst}");
    assert!(worst < 0.01 && worst > 0.0, "{worst}");
}

#[test]
fn what_is_no_model_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let check = |expected: &str| {
        let error = Model::load(folder.path()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.help().contains("scripts/fetch-model.sh"), "{error:?}");
    };
    check("no config.json in");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("config.json", "{}");
    check("no tokenizer.json in");
    write("tokenizer.json", "{}");
    check("no model.safetensors in");
    write("model.safetensors", "");
    check("config.json is not what belongs there");
    let config = r#"{"hidden_size": 768, "vocab_size": 9, "num_hidden_layers": 1, "num_attention_heads": 1,
        "intermediate_size": 1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "max_position_embeddings": 9,
        "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0}"#;
    write("config.json", config);
    check("768 dimensions, not 384");
    write("config.json", &config.replace("768", "384"));
    check("tokenizer.json is not what belongs there");
}
