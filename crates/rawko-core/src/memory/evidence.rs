//! Which memories fit a query: by their declared patterns, and by the words of title, patterns and body (BM25 with fields).
//!
//! ```text
//! strength = Σ  rarity(word) · tf · (K + 1) / (tf + K · (1 − B + B · length / average))     over the query's words, by stem
//! tf       = 1 in the title + 1 in a pattern + ½ in the body
//! rarity   = BM25's IDF, where a word that one memory has is 1
//! ```
//!
//! A memory fits if it is nearly as strong as the strongest, and strong enough by itself or the better part of what the query says. One
//! of whose patterns matches needs less strength, and none where it has its share of the strongest: that share grows with the number of
//! memories, so that one memory more never takes all of them away. Figures, and what else was tried: `docs/memory-evaluation.md` and ADR 30.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::literal::required_literals;
use super::pattern::{Pattern, PatternMatch};
use super::query::{Part, QueryTerms};
use super::reading::Reading;
use super::stored::Memory;
use super::words::{stem, words};

/// What a word counts in each field.
const TITLE: f64 = 1.0;
const PATTERN: f64 = 1.0;
const BODY: f64 = 0.5;
/// BM25's usual constants: how soon more of the same adds nothing, and how much the length of a memory matters.
const K: f64 = 1.2;
const B: f64 = 0.75;

/// Memories from which on the rarity of words counts, and a pattern that matches may be too weak ([`share_of_declared`]). Among fewer, "rare"
/// is chance.
const MANY: usize = 20;
/// Share of the greatest strength that a memory must have.
const NEAR: f64 = 0.8;
/// Least strength of a memory one of whose patterns matches.
const DECLARED: f64 = 1.0;
/// The same where all that matches is one word of a longer sentence, which declares little.
const HALF_DECLARED: f64 = 1.3;
/// Least strength of a memory none of whose patterns matches.
const UNDECLARED: f64 = 1.5;
/// Share of the query's words, weighted by rarity, that needs no strength.
const COVERED: f64 = 0.5;
/// What the plan's step counts beside the task.
const OF_STEP: f64 = 0.5;

/// Most expressions that are compiled for one query, and what they may cost together ([`cost`]). A memory may come from a stranger. (Tests
/// would be slow with so many.)
const MAX_COMPILED: u32 = if cfg!(test) { 20 } else { 2_000 };
const MAX_COST: u64 = 400_000;

/// The evidence for a memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    /// Words of the query that the memory has, by stem.
    pub(super) words: Vec<String>,
    /// Its patterns that match.
    pub(super) matches: Vec<PatternMatch>,
    /// Whether all this is enough.
    pub(super) fits: bool,
    /// Whether it fits by the agent's name alone.
    pub(super) by_agent: bool,
}

/// The memories with any evidence.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// By their place among those that were searched.
    pub(super) found: BTreeMap<usize, Evidence>,
    /// Expressions that were not tried because there were too many.
    pub(super) untried: u32,
}

/// Searches memories for the task or the step.
pub(super) fn search(memories: &[&Memory], asked: &QueryTerms) -> Findings {
    let weight = if asked.is_step() { OF_STEP } else { 1.0 };
    let search = Search::new(asked);
    let mut all: Vec<(usize, Signs)> = Vec::new();
    let mut length = 0.0;
    for (at, memory) in memories.iter().enumerate() {
        let signs = search.signs(memory);
        length += signs.length;
        if !signs.matches.is_empty() || signs.fields.iter().any(|fields| *fields > 0.0) {
            all.push((at, signs));
        }
    }
    let rarity = search.rarity(memories.len(), &all);
    let average = length / number(memories.len().max(1));
    let whole = search.weight_of_query(&rarity);
    let strengths: Vec<f64> =
        all.iter().map(|(_, signs)| weight * signs.strength(&rarity, average)).collect();
    let strongest = strengths.iter().copied().fold(0.0, f64::max);
    let of_declared = share_of_declared(memories.len()) * strongest;
    let mut found = BTreeMap::new();
    for ((at, signs), strength) in all.into_iter().zip(strengths) {
        let covered = signs.covered(&rarity) >= COVERED * whole && whole > 0.0 && !asked.is_step();
        let least = if asked.is_step() {
            // A plan has many steps, and some pattern matches one of them.
            UNDECLARED
        } else {
            signs.least_strength()
        };
        let is_enough = strength >= least || covered;
        let is_near = strength >= NEAR * strongest;
        let is_among_few = !signs.matches.is_empty() && memories.len() < MANY;
        let is_declared =
            signs.is_declared() && !asked.is_step() && strength > 0.0 && strength >= of_declared;
        let fits = (is_enough && is_near) || signs.names_agent || is_among_few || is_declared;
        let is_of_agent =
            !signs.matches.is_empty() && signs.matches.iter().all(|one| one.part == Part::Agent);
        let by_agent = fits && is_of_agent && !(is_enough && is_near);
        let words = search.words(&signs);
        found.insert(at, Evidence { words, matches: signs.matches, fits, by_agent });
    }
    Findings { found, untried: search.untried.get() }
}

/// Share of the greatest strength that is enough for a memory one of whose patterns matches: the more memories there are, the more of them
/// match by chance. None among 20, half among 28, nine tenths among 63.
fn share_of_declared(memories: usize) -> f64 {
    (1.0 - (number(MANY) / number(memories.max(1))).powi(2)).max(0.0)
}

/// Whether all that matches is one word of a longer sentence.
fn is_half(found: &PatternMatch) -> bool {
    matches!(found.words, Some((1, all)) if all > 1)
}

/// What of a query one memory has.
struct Signs {
    /// For each word of the query what the fields count that have it.
    fields: Vec<f64>,
    matches: Vec<PatternMatch>,
    /// Words of the memory, weighted by field.
    length: f64,
    names_agent: bool,
}

impl Signs {
    fn strength(&self, rarity: &[f64], average: f64) -> f64 {
        let slow = K * (1.0 - B + B * self.length / average.max(1.0));
        self.fields.iter().zip(rarity).map(|(tf, rarity)| rarity * tf * (K + 1.0) / (tf + slow)).sum()
    }

    /// The weight of those of the query's words that the memory has.
    fn covered(&self, rarity: &[f64]) -> f64 {
        self.fields.iter().zip(rarity).filter(|(tf, _)| **tf > 0.0).map(|(_, rarity)| rarity).sum()
    }

    /// What strength is enough.
    fn least_strength(&self) -> f64 {
        let of = |one: &PatternMatch| if is_half(one) { HALF_DECLARED } else { DECLARED };
        self.matches.iter().map(of).fold(UNDECLARED, f64::min)
    }

    /// Whether it says itself that it is for the task: by more than one word of a sentence, and not by the agent's name.
    fn is_declared(&self) -> bool {
        self.matches.iter().any(|one| one.part != Part::Agent && !is_half(one))
    }
}

/// One search.
struct Search<'a> {
    asked: &'a QueryTerms,
    /// The place of each word of the query.
    places: BTreeMap<&'a str, usize>,
    /// The stems of the query, with their places; a word of the agent's name has none.
    known: BTreeMap<&'a str, Option<usize>>,
    compiled: Cell<u32>,
    cost: Cell<u64>,
    untried: Cell<u32>,
}

impl<'a> Search<'a> {
    fn new(asked: &'a QueryTerms) -> Self {
        let stems = asked.content().iter().chain(asked.joined().keys());
        let places: BTreeMap<&str, usize> = stems.enumerate().map(|(at, stem)| (stem.as_str(), at)).collect();
        let all = asked.stems().chain(places.keys().copied());
        let known = all.map(|stem| (stem, places.get(stem).copied())).collect();
        Self { asked, places, known, compiled: Cell::new(0), cost: Cell::new(0), untried: Cell::new(0) }
    }

    fn signs(&self, memory: &Memory) -> Signs {
        let mut signs = Signs {
            fields: vec![0.0; self.places.len()],
            matches: Vec::new(),
            length: 0.0,
            names_agent: false,
        };
        let last = memory.header.when_to_use.len() + 1;
        let mut in_patterns: BTreeSet<usize> = BTreeSet::new();
        for (number_of_field, field) in memory.terms.fields().enumerate() {
            let mut known = 0;
            for stem in field {
                let Some(place) = self.known.get(stem.as_str()) else { continue };
                known += 1;
                match *place {
                    Some(at) if number_of_field == 0 => signs.fields[at] += TITLE,
                    Some(at) if number_of_field == last => signs.fields[at] += BODY,
                    Some(at) => drop(in_patterns.insert(at)),
                    None => {}
                }
            }
            signs.length += number(field.len()) * if number_of_field == last { BODY } else { 1.0 };
            let pattern = number_of_field.checked_sub(1).and_then(|at| memory.header.when_to_use.get(at));
            if let Some(found) = pattern.and_then(|text| self.matched(text, known, field.len())) {
                signs.names_agent |= self.names_agent(&found);
                if found.part != Part::Agent {
                    in_patterns.extend(self.said(&found.found));
                }
                signs.matches.push(found);
            }
        }
        for at in in_patterns {
            signs.fields[at] += PATTERN;
        }
        signs
    }

    /// The first and the last word of what a pattern matched, where they are content words: a pattern `auth` speaks of "authentication". What
    /// `.*` matched between them is not what it speaks of.
    fn said(&self, found: &str) -> impl Iterator<Item = usize> {
        let mut words = words(found);
        let ends = [words.next(), words.last()];
        ends.into_iter().flatten().filter_map(|word| self.places.get(stem(&word).as_str()).copied())
    }

    /// How a pattern matches, `known` of whose `all` stems the query has.
    fn matched(&self, text: &str, known: usize, all: usize) -> Option<PatternMatch> {
        let may_match = match Pattern::reading_of(text) {
            Reading::Words => known > 0 && 2 * known >= all,
            Reading::Regex | Reading::Substring | Reading::Glob | Reading::Prefix => self.may_be_tried(text),
        };
        if may_match { Pattern::read(text).find_in(self.asked) } else { None }
    }

    /// Whether a pattern needs no engine; or what it needs occurs, and there is something left to spend on it.
    fn may_be_tried(&self, text: &str) -> bool {
        if Pattern::is_simple(text) {
            return true;
        }
        let expression = Pattern::expression_of(text).unwrap_or_default();
        let occurs = |set: &Vec<String>| set.iter().any(|text| self.asked.may_contain(text));
        if !required_literals(&expression).iter().all(occurs) {
            return false;
        }
        self.compiled.set(self.compiled.get() + 1);
        self.cost.set(self.cost.get().saturating_add(cost(&expression)));
        let is_left = self.compiled.get() <= MAX_COMPILED && self.cost.get() <= MAX_COST;
        self.untried.set(self.untried.get() + u32::from(!is_left));
        is_left
    }

    /// A pattern that is an agent's name was written for that agent; `test` was not written for the tester.
    fn names_agent(&self, found: &PatternMatch) -> bool {
        let name = self.asked.lines.iter().find(|line| line.part == Part::Agent);
        found.part == Part::Agent
            && found.words.is_none()
            && name.is_some_and(|name| {
                [&found.pattern, &found.found].iter().all(|text| text.to_lowercase().contains(&name.folded))
            })
    }

    /// How rare each word of the query is, as a weight.
    fn rarity(&self, memories: usize, all: &[(usize, Signs)]) -> Vec<f64> {
        let mut having = vec![0_usize; self.places.len()];
        for (_, signs) in all {
            for (count, tf) in having.iter_mut().zip(&signs.fields) {
                *count += usize::from(*tf > 0.0);
            }
        }
        let idf = |having: f64| (1.0 + (number(memories) - having + 0.5).max(0.0) / (having + 0.5)).ln();
        let of = |having: usize| match (memories < MANY, having) {
            (true, _) | (false, 0) => 1.0,
            (false, having) => idf(number(having)) / idf(1.0),
        };
        having.into_iter().map(of).collect()
    }

    /// The weight of all words of the query, without those that were joined.
    fn weight_of_query(&self, rarity: &[f64]) -> f64 {
        let of = |stem: &String| self.places.get(stem.as_str()).map_or(0.0, |at| rarity[*at]);
        self.asked.content().iter().map(of).sum()
    }

    /// The query's words that a memory has, as the query has them.
    fn words(&self, signs: &Signs) -> Vec<String> {
        let found = self.places.iter().filter(|(_, at)| signs.fields[**at] > 0.0);
        let word = |stem: &str| match self.asked.find_stem(stem) {
            Some((_, word)) => Some(word.to_owned()),
            None => self.asked.joined().get(stem).cloned(),
        };
        found.filter_map(|(stem, _)| word(stem)).collect()
    }
}

/// About what compiling an expression costs: a class of characters counts as thousands, a bounded repetition as many
/// times itself, and flags of its own multiply all of it.
fn cost(expression: &str) -> u64 {
    let weight = |c| match c {
        '\\' | '[' | '.' => 100,
        '{' => 500,
        _ => 1,
    };
    let sum: u64 = expression.chars().map(weight).sum();
    let has_flags = expression.match_indices("(?").any(|(at, _)| !expression[at..].starts_with("(?:"));
    if has_flags { sum * 10 } else { sum }
}

#[allow(clippy::cast_precision_loss, reason = "a number of memories or words")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
