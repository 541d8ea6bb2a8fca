//! How well memories are found, measured on a labelled set (`docs/memory-evaluation.md`).
//!
//! To print the tables, and with `RAWKO_EVALUATE_MISSES=1` what each task was given:
//! `cargo test -p rawko-core --test memory_evaluation -- --ignored --nocapture`.

#![allow(missing_docs, clippy::unwrap_used)]

mod figures;
mod search;
mod set;
mod unrelated;

use std::collections::BTreeSet;

use rawko_core::memory::words::stems;
use rawko_core::memory::{Header, Memory, Pattern};

use figures::{Answer, Figures, figures, table};
use search::{Context, found};
use set::{Half, Kind, LabelledQuery, LabelledSet, Patterns};
use unrelated::{Words, unrelated};

#[test]
fn it_is_large_enough_and_no_label_is_missing() {
    let set = LabelledSet::load();
    let memories = set.memories(Patterns::Careful);
    let pairs: usize = set.queries.iter().map(|query| query.relevant.len() + query.irrelevant.len()).sum();
    assert!(memories.len() >= 40 && set.queries.len() >= 60 && pairs >= 120);
    for query in &set.queries {
        assert_eq!(query.relevant.is_empty(), query.kind == Kind::None, "{}", query.id);
        assert!(!query.irrelevant.is_empty(), "{} has no lure", query.id);
        assert!(!query.irrelevant.iter().any(|id| query.relevant.contains(id)), "{}", query.id);
        for id in query.relevant.iter().chain(&query.irrelevant) {
            assert!(memories.iter().any(|memory| memory.path == *id), "{}: {id}", query.id);
        }
    }
}

#[test]
fn each_kind_shares_as_many_words_as_it_says() {
    let set = LabelledSet::load();
    let memories = set.memories(Patterns::Careful);
    let mut wrong = Vec::new();
    for query in &set.queries {
        let words = stems(&query.task);
        for id in &query.relevant {
            let memory = memories.iter().find(|memory| memory.path == *id).unwrap();
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

/// How many of the content words of one of a memory's natural-language patterns a task has, at most.
fn share(header: &Header, task: &BTreeSet<String>) -> f64 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap());
    let shares = header.when_to_use.iter().filter_map(|text| {
        let stems = Pattern::content_stems(text)?;
        Some(number(stems.intersection(task).count()) / number(stems.len()))
    });
    shares.fold(0.0, f64::max)
}

/// Answers to some queries.
fn answers<'a>(memories: &[Memory], queries: &[&'a LabelledQuery], context: Context) -> Vec<Answer<'a>> {
    queries.iter().map(|query| Answer { query, found: found(memories, query, context) }).collect()
}

/// For each task, what is found when the memories that are for it are not there.
fn without_its_own(memories: &[Memory], queries: &[&LabelledQuery], context: Context) -> Figures {
    let with_none: Vec<(LabelledQuery, Vec<String>)> = queries
        .iter()
        .map(|query| {
            let others: Vec<Memory> =
                memories.iter().filter(|memory| !query.relevant.contains(&memory.path)).cloned().collect();
            let found = found(&others, query, context);
            (LabelledQuery { relevant: Vec::new(), ..(*query).clone() }, found)
        })
        .collect();
    let answers: Vec<Answer<'_>> =
        with_none.iter().map(|(query, found)| Answer { query, found: found.clone() }).collect();
    figures(&answers)
}

/// Every natural-language pattern, given as a task.
fn own_words(memories: &[Memory]) -> Figures {
    let mut asked = Vec::new();
    for memory in memories {
        for pattern in memory.header.when_to_use.iter().filter(|text| !text.contains(['|', '\\'])) {
            asked.push(LabelledQuery {
                id: pattern.clone(),
                kind: Kind::Words,
                task: pattern.clone(),
                agent: "developer".to_owned(),
                relevant: vec![memory.path.clone()],
                irrelevant: Vec::new(),
            });
        }
    }
    figures(&answers(memories, &asked.iter().collect::<Vec<_>>(), Context::Task))
}

fn tables(set: &LabelledSet, half: Half) -> String {
    let queries = set.half(half);
    let of = |kind: Kind| -> Vec<&LabelledQuery> {
        queries.iter().copied().filter(|query| query.kind == kind).collect()
    };
    let mut rows = Vec::new();
    for (author, patterns) in Patterns::ALL {
        let memories = set.memories(patterns);
        for (name, context) in Context::ALL {
            let all = figures(&answers(&memories, &queries, context));
            rows.push((format!("{author}, {name}, all"), all));
        }
        for (name, kind) in [
            ("words in common", Kind::Words),
            ("a word in common", Kind::Partly),
            ("paraphrases", Kind::Paraphrase),
            ("none fits", Kind::None),
        ] {
            let figures = figures(&answers(&memories, &of(kind), Context::Task));
            rows.push((format!("{author}, task alone, {name}"), figures));
        }
        for (name, context) in Context::ALL {
            let figures = without_its_own(&memories, &queries, context);
            rows.push((format!("{author}, {name}, all, without those that fit"), figures));
        }
        rows.push((format!("{author}, the patterns as tasks"), own_words(&memories)));
    }
    table(&rows)
}

#[test]
fn what_is_found_is_mostly_right_and_authors_find_their_own() {
    let set = LabelledSet::load();
    let memories = set.memories(Patterns::Careful);
    let all: Vec<&LabelledQuery> = set.queries.iter().collect();
    for (name, context) in Context::ALL {
        let found = figures(&answers(&memories, &all, context));
        assert!(found.precision >= 0.85, "{name}: {found:?}");
    }
    for (author, patterns) in Patterns::ALL {
        let memories = set.memories(patterns);
        assert!(own_words(&memories).recall >= 0.9, "{author}");
        let words: Vec<&LabelledQuery> =
            all.iter().copied().filter(|query| query.kind == Kind::None).collect();
        let found = figures(&answers(&memories, &words, Context::Plan));
        assert!(found.false_finds * 5 <= words.len(), "{author}: {found:?}");
    }
}

/// The matches among so many unrelated memories, as the mean over the authors of patterns.
fn beside(set: &LabelledSet, queries: &[&LabelledQuery], from: Words, count: usize) -> (Figures, f64) {
    let others = unrelated(from, count);
    let (mut sum, mut wrong) = ([0.0; 3], 0.0);
    for (_, patterns) in Patterns::ALL {
        let mut memories = set.memories(patterns);
        memories.extend(others.iter().cloned());
        let of = figures(&answers(&memories, queries, Context::Task));
        for (sum, one) in sum.iter_mut().zip([of.precision, of.recall, of.f1]) {
            *sum += one / 3.0;
        }
        wrong += (1.0 - of.precision) * of.found / 3.0;
    }
    let [precision, recall, f1] = sum;
    (Figures { precision, recall, f1, ..figures(&[]) }, wrong)
}

#[test]
fn unrelated_memories_take_little_away() {
    let set = LabelledSet::load();
    let all: Vec<&LabelledQuery> = set.queries.iter().collect();
    let (alone, _) = beside(&set, &all, Words::OfOthers, 0);
    let (among, wrong) = beside(&set, &all, Words::OfOthers, 200);
    assert!(among.f1 >= alone.f1 - 0.06 && wrong <= 0.2, "{alone:?} {among:?} {wrong}");
    let memories = set.memories(Patterns::Careful);
    let chosen = figures(&answers(&memories, &set.half(Half::Chosen), Context::Task));
    assert!(chosen.f1 >= 0.6 - 1e-9, "{chosen:?}");
}

#[test]
#[ignore = "prints the tables of docs/memory-evaluation.md"]
fn print_the_tables() {
    let set = LabelledSet::load();
    for (name, half) in [("chosen", Half::Chosen), ("reported", Half::Reported)] {
        println!("{name}\n\n{}", tables(&set, half));
    }
    for (name, from) in Words::ALL {
        println!("beside unrelated memories, words of {name}\n");
        for (half, queries) in [("chosen", set.half(Half::Chosen)), ("reported", set.half(Half::Reported))] {
            for count in [0, 20, 40, 100, 300, 1_000] {
                let (of, wrong) = beside(&set, &queries, from, count);
                let Figures { precision, recall, f1, .. } = of;
                println!("| {half} | {count} | {precision:.2} | {recall:.2} | {f1:.3} | {wrong:.2} |");
            }
        }
    }
    if std::env::var_os("RAWKO_EVALUATE_MISSES").is_some() {
        for (author, patterns) in Patterns::ALL {
            let memories = set.memories(patterns);
            for answer in answers(&memories, &set.queries.iter().collect::<Vec<_>>(), Context::Task) {
                let query = answer.query;
                println!(
                    "{author} {}: {:?} found {:?} for {}",
                    query.id, query.relevant, answer.found, query.task
                );
            }
        }
    }
}
