//! The labelled set keeps its word, and the lexical half of the published tables is what rawko does.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawko_core::memory::words::stems;
use rawko_semantic::evaluation::{
    Answer, Half, Kind, LabelledQuery, LabelledSet, Row, Way, figures, found, table,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn set() -> LabelledSet {
    LabelledSet::read(&std::fs::read_to_string(root().join("eval/memories.jsonl")).unwrap()).unwrap()
}

#[test]
fn it_is_large_enough_and_no_label_is_missing() {
    let set = set();
    assert!(set.memories.len() >= 40 && set.queries.len() >= 60 && set.pairs() >= 120);
    for query in &set.queries {
        assert_eq!(query.relevant.is_empty(), query.kind == Kind::None, "{}", query.id);
        assert!(!query.irrelevant.is_empty(), "{} has no lure", query.id);
        assert!(!query.irrelevant.iter().any(|id| query.relevant.contains(id)), "{}", query.id);
    }
}

#[test]
fn a_paraphrase_shares_no_content_word_with_what_it_is_for() {
    let set = set();
    let mut wrong = Vec::new();
    for query in &set.queries {
        let words = stems(&query.task);
        for id in &query.relevant {
            let memory = set.memories.iter().find(|memory| memory.path == *id).unwrap();
            let said = format!("{} {}", memory.header.title, memory.header.when_to_use.join(" "));
            let shared: Vec<String> = stems(&said).intersection(&words).cloned().collect();
            if shared.is_empty() == (query.kind == Kind::Words) {
                wrong.push(format!("{} and {id}: {shared:?}", query.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_halves_share_nothing() {
    let set = set();
    let (one, other) = (set.half(Half::Chosen), set.half(Half::Reported));
    assert_eq!(one.len() + other.len(), set.queries.len());
    assert!(one.iter().all(|query| !other.contains(query)));
}

#[test]
fn the_published_lexical_table_is_what_rawko_does() {
    let set = set();
    let figures_of = |queries: &[&LabelledQuery]| {
        let answer = |query| Answer { query, found: found(&set, query, Way::Lexical, &BTreeMap::new()) };
        figures(&queries.iter().map(|query| answer(query)).collect::<Vec<_>>())
    };
    let doc = std::fs::read_to_string(root().join("docs/memory-evaluation.md")).unwrap();
    for half in [Half::Chosen, Half::Reported] {
        let all = set.half(half);
        let of = |kind| all.iter().copied().filter(|query| query.kind == kind).collect::<Vec<_>>();
        let rows = [
            ("lexical, all", all.clone()),
            ("lexical, words in common", of(Kind::Words)),
            ("lexical, paraphrases", of(Kind::Paraphrase)),
        ];
        let rows = rows.map(|(name, queries)| Row { name: name.to_owned(), figures: figures_of(&queries) });
        let expected = table(&rows);
        assert!(
            doc.contains(&expected),
            "docs/memory-evaluation.md is out of date. Put this there, and the rest of what \
             `cargo run --release -p rawko-semantic --features model --example evaluate` prints:\n{expected}"
        );
    }
}
