//! How near each memory is to a task in meaning.
//!
//! Decides which texts represent a memory, what part of the query is compared with them, and the threshold. Only a
//! memory with a natural-language `whenToUse` can match by meaning: a user who wrote a regular expression or a single
//! word meant exactly that. The task alone is compared: an agent's name has no meaning here, and a plan or a history
//! speaks of so much that it is near to everything a little.

use std::collections::BTreeMap;

use rawko_core::memory::{Header, Memory, Pattern, Reading, Similarity};

use crate::error::Error;
use crate::vector::{Packed, nearest};
use crate::vectors::{Embed, Vectors};

/// The cosine below which nothing matches by meaning. Chosen, as [`MARGIN`], on one half of the labelled set and reported
/// on the other: `docs/memory-evaluation.md`.
pub const THRESHOLD: f64 = 0.30;

/// How far below the nearest memory's cosine that of another one may be and still match. How large cosines are depends
/// on the task more than on what is near to it: one threshold high enough for every task finds nothing for most, and
/// one low enough finds everything for some.
pub const MARGIN: f64 = 0.05;

/// Most texts that are embedded for one selection: some seconds of work. In a fresh clone with thousands of memories the first selections
/// compare those that they have come to, and say how many are left.
pub const MAX_EMBEDDED: usize = 1_000;

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Compared {
    /// How near each memory is, by path.
    pub found: BTreeMap<String, Similarity>,
    /// Texts of memories that are not embedded yet.
    pub left: usize,
}

/// The texts that represent a memory: its natural-language patterns, and then its title. Empty where it has no such
/// pattern.
#[must_use]
pub fn texts(header: &Header) -> Vec<&str> {
    let patterns = header.when_to_use.iter().map(String::as_str);
    let mut texts: Vec<&str> =
        patterns.filter(|text| Pattern::reading_of(text) == Reading::Words).map(str::trim).collect();
    if !texts.is_empty() {
        texts.push(header.title.trim());
    }
    texts
}

/// How near each memory is to the task, with what `embed` gives for texts whose vectors are not known yet, [`MAX_EMBEDDED`] of
/// them. Memories that cannot match by meaning are not in the answer.
///
/// # Errors
/// Where `embed` fails.
pub fn similarities(
    memories: &[Memory],
    task: &str,
    vectors: &mut Vectors,
    embed: &mut Embed<'_>,
) -> Result<Compared, Error> {
    let all: Vec<(&str, Vec<&str>)> = memories
        .iter()
        .map(|memory| (memory.path.as_str(), texts(&memory.header)))
        .filter(|(_, texts)| !texts.is_empty())
        .collect();
    if all.is_empty() || task.trim().is_empty() {
        return Ok(Compared::default());
    }
    let left = vectors.fill(all.iter().flat_map(|(_, texts)| texts.iter().copied()), MAX_EMBEDDED, embed)?;
    let query = embed(&[task.trim()])?;
    let Some(query) = query.first().map(|vector| Packed::new(vector)) else {
        return Err(Error::Embedding("it gave no vector for the task".to_owned()));
    };
    let measured = all.iter().map(|(path, texts)| ((*path).to_owned(), measure(&query, texts, vectors)));
    let mut found = measured.collect();
    decide(&mut found, THRESHOLD, MARGIN);
    Ok(Compared { found, left })
}

/// Says which of these match: those that reach the threshold, and come within the margin of the nearest.
pub fn decide(found: &mut BTreeMap<String, Similarity>, threshold: f64, margin: f64) {
    // Cosines are thousandths, so that a half of one keeps rounding out of the comparison.
    const HALF: f64 = 0.0005;
    let best = found.values().map(|near| near.cosine).fold(0.0, f64::max);
    for near in found.values_mut() {
        near.matches = near.cosine > threshold.max(best - margin) - HALF;
    }
}

/// How near the nearest of these texts is, in thousandths: what is printed, journaled and compared is the same number.
fn measure(query: &Packed, texts: &[&str], vectors: &Vectors) -> Similarity {
    let known = texts.iter().filter_map(|text| vectors.get(text));
    let cosine = nearest(query, known, 1).first().map_or(0.0, |(_, cosine)| *cosine).max(0.0);
    Similarity { cosine: (f64::from(cosine) * 1000.0).round() / 1000.0, matches: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::DIMENSIONS;
    use serde_json::json;

    fn memory(path: &str, title: &str, when: &[&str]) -> Memory {
        let value = json!({"title": title, "whenToUse": when, "importance": "low", "discoveredBy": "x"});
        Memory::new(path, Header::read(&value).0.unwrap(), "")
    }

    /// A text's vector points where its last digit says, in degrees of ten.
    fn embed(texts: &[&str]) -> Result<Vec<Vec<f32>>, Error> {
        let vector = |text: &&str| {
            let degrees = text.chars().last().and_then(|c| c.to_digit(10)).unwrap() as f32 * 10.0;
            let mut vector = vec![0.0; DIMENSIONS];
            (vector[0], vector[1]) = (degrees.to_radians().cos(), degrees.to_radians().sin());
            vector
        };
        Ok(texts.iter().map(vector).collect())
    }

    #[test]
    fn only_natural_language_stands_for_a_memory() {
        let check = |when: &[&str], expected: &[&str]| {
            assert_eq!(texts(&memory("a", "the title", when).header), expected);
        };
        check(&["adding an endpoint"], &["adding an endpoint", "the title"]);
        check(&["api", "adding an endpoint", "v1|v2"], &["adding an endpoint", "the title"]);
        check(&["api", "add.*endpoint", "end*"], &[]);
    }

    #[test]
    fn the_nearest_text_counts_and_the_threshold_decides() {
        let memories = [
            memory("near", "title 9", &["far away 9", "nearly the same 1"]),
            memory("title", "in the title 0", &["far away 9"]),
            memory("far", "title 9", &["far away 8"]),
            memory("other", "title 0", &["regex|0"]),
        ];
        let mut vectors = Vectors::new([0; 32]);
        let Compared { found, left } =
            similarities(&memories, "the task 0", &mut vectors, &mut embed).unwrap();
        assert_eq!(left, 0);
        let seen: Vec<(&str, f64, bool)> =
            found.iter().map(|(path, near)| (path.as_str(), near.cosine, near.matches)).collect();
        assert_eq!(seen, [("far", 0.171, false), ("near", 0.985, true), ("title", 1.0, true)]);
        let (threshold, margin) = (THRESHOLD, MARGIN);
        assert!(0.17 < threshold && 1.0 - margin < 0.98);
        assert_eq!(vectors.len(), 5, "the task itself is not kept");
    }

    #[test]
    fn what_matches_reaches_the_threshold_and_is_not_far_behind_the_nearest() {
        let check = |cosines: &[f64], expected: &[bool]| {
            let near = |cosine: &f64| Similarity { cosine: *cosine, matches: false };
            let mut found = cosines.iter().enumerate().map(|(n, c)| (n.to_string(), near(c))).collect();
            decide(&mut found, 0.30, 0.05);
            assert_eq!(found.values().map(|near| near.matches).collect::<Vec<_>>(), expected, "{cosines:?}");
        };
        check(&[0.29, 0.30, 0.31], &[false, true, true]);
        check(&[0.54, 0.55, 0.60], &[false, true, true]);
        check(&[0.10, 0.12], &[false, false]);
        check(&[], &[]);
    }

    #[test]
    fn a_selection_embeds_so_many_and_the_next_ones_the_others() {
        let memories: Vec<Memory> = (0..MAX_EMBEDDED)
            .map(|n| memory(&format!("m{n:04}"), &format!("title {n} 0"), &[&format!("a few words {n} 0")]))
            .collect();
        let mut vectors = Vectors::new([0; 32]);
        for (left, known) in [(MAX_EMBEDDED, MAX_EMBEDDED), (0, 2 * MAX_EMBEDDED)] {
            let compared = similarities(&memories, "task 0", &mut vectors, &mut embed).unwrap();
            assert_eq!((compared.left, vectors.len()), (left, known));
            assert!(compared.found.values().any(|near| near.matches));
        }
    }

    #[test]
    fn without_a_task_or_texts_nothing_is_embedded() {
        let mut never = |_: &[&str]| -> Result<Vec<Vec<f32>>, Error> { panic!("embedded") };
        let mut vectors = Vectors::new([0; 32]);
        let other = [memory("other", "title 0", &["regex|0"])];
        let words = [memory("words", "title 0", &["a few words 0"])];
        assert!(similarities(&other, "task 0", &mut vectors, &mut never).unwrap().found.is_empty());
        assert!(similarities(&words, " \n", &mut vectors, &mut never).unwrap().found.is_empty());
    }
}
