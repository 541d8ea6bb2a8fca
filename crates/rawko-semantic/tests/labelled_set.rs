//! The labelled set keeps its word, and the lexical half of the published tables is what rawko does.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rawko_core::memory::words::stems;
use rawko_core::memory::{Header, Pattern};
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
fn each_kind_shares_as_many_words_as_it_says() {
    let set = set();
    let mut wrong = Vec::new();
    for query in &set.queries {
        let words = stems(&query.task);
        for id in &query.relevant {
            let memory = set.memories.iter().find(|memory| memory.path == *id).unwrap();
            let said = format!("{} {}", memory.header.title, memory.header.when_to_use.join(" "));
            let shared: Vec<String> = stems(&said).intersection(&words).cloned().collect();
            let is_so = match query.kind {
                Kind::Words => !shared.is_empty(),
                Kind::Partly => !shared.is_empty() && share(&memory.header, &words) < 0.5,
                Kind::Paraphrase => shared.is_empty(),
                Kind::None => false,
            };
            if !is_so {
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
            ("lexical, a word in common", of(Kind::Partly)),
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

/// A lure that shares no word with its task lures nobody who goes by words: the document says how many do.
#[test]
fn the_document_says_how_many_lures_share_a_word() {
    let set = set();
    let (mut lures, mut sharing, mut taken) = (0, 0, 0);
    for query in &set.queries {
        let words = stems(&query.task);
        let found = found(&set, query, Way::Lexical, &BTreeMap::new());
        for id in &query.irrelevant {
            let memory = set.memories.iter().find(|memory| memory.path == *id).unwrap();
            let said = format!("{} {}", memory.header.title, memory.header.when_to_use.join(" "));
            lures += 1;
            sharing += usize::from(!stems(&said).is_disjoint(&words));
            taken += usize::from(found.contains(id));
        }
    }
    let sentence = format!("of {lures} lures {sharing} share a content word with the task, and {taken}");
    let doc = std::fs::read_to_string(root().join("docs/memory-evaluation.md")).unwrap();
    assert!(doc.contains(&sentence), "docs/memory-evaluation.md must say: {sentence}");
}

/// How many of the content words of one of a memory's natural-language patterns a task has, at most.
fn share(header: &Header, task: &BTreeSet<String>) -> f64 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap());
    let shares = header.when_to_use.iter().filter_map(|text| {
        let stems = Pattern::content_stems(text)?;
        Some(number(stems.intersection(task).count()) / number(stems.len()))
    });
    shares.fold(0.0, f64::max)
}
