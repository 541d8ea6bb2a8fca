//! Which few memories an execution is told, and why each of the others is not.
//!
//! Owns who may be told at all (matching, important enough, neither expired nor superseded), the order (score, then the newer one, then the
//! path), and what becomes of memories that contradict each other: they are told side by side, so that nobody gets one half of
//! a contradiction for the whole truth. Staleness costs a look at the tree, so that it is asked for the best of them
//! and what contradicts those only ([`Ranking::shortlist`]); nothing else is ever told.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::conflict::Conflicts;
use super::feedback::Feedback;
use super::header::Header;
use super::pattern::{Corpus, Pattern, PatternMatch};
use super::query::Query;
use super::recipient::Recipient;
use super::reference::{reference_key, referred_keys};
use super::score::{MAX_SEMANTIC, Score};
use super::staleness::Staleness;
use crate::Timestamp;

/// Most memories that are put beside one that they contradict.
const MAX_PARTNERS: usize = 2;
/// Most memories that are named as contradicting one.
const MAX_NAMED: usize = 4;
/// Least memories whose files are looked at.
const MIN_SHORTLIST: usize = 20;

/// A memory without its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Its path below the memories' folder, with `/` between the parts.
    pub path: String,
    /// Its front matter.
    pub header: Header,
}

/// How near a memory's natural-language patterns are to the query in meaning, where somebody has measured it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Similarity {
    /// From 0 to 1.
    pub cosine: f64,
    /// Whether that is near enough to match by itself.
    pub matches: bool,
}

/// What selection depends on besides memories, query and agent.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// How common words are.
    pub corpus: Corpus,
    /// What earlier uses say, by path.
    pub feedback: BTreeMap<String, Feedback>,
    /// Similarity of meaning, by path; empty where it is switched off.
    pub semantic: BTreeMap<String, Similarity>,
    /// The instant of the selection.
    pub now: Timestamp,
}

/// Memories that may be told, best first, and those that may not.
#[derive(Debug, Clone)]
pub struct Ranking<'a> {
    conflicts: Conflicts<'a>,
    ranked: Vec<Ranked<'a>>,
    left_out: Vec<LeftOut>,
    retired: BTreeSet<&'a str>,
    scores: BTreeMap<&'a str, Score>,
    max: usize,
    minimum: crate::agent::Importance,
}

#[derive(Debug, Clone)]
struct Ranked<'a> {
    memory: &'a Memory,
    score: Score,
    matches: Vec<PatternMatch>,
    similarity: Option<Similarity>,
}

/// What is told, in this order, and what is not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// What is told.
    pub chosen: Vec<Chosen>,
    /// What is not, those that came nearest first.
    pub left_out: Vec<LeftOut>,
}

/// A memory that is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The memory.
    pub memory: Memory,
    /// Its score.
    pub score: Score,
    /// Its patterns that match; none where it is told because it contradicts another.
    pub matches: Vec<PatternMatch>,
    /// How near it is in meaning, where that was measured.
    pub similarity: Option<Similarity>,
    /// What was found of the files that it speaks of.
    pub staleness: Staleness,
    /// Memories that say otherwise.
    pub contradictions: Vec<Contradiction>,
}

/// A memory that says otherwise than another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contradiction {
    /// Its path.
    pub path: String,
    /// Its title.
    pub title: String,
    /// Its date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovered_at: Option<Timestamp>,
    /// Whether it is told too; else only that it exists.
    pub shown: bool,
}

/// A memory that is not told.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// Its path.
    pub path: String,
    /// Its title.
    pub title: String,
    /// Why.
    #[serde(flatten)]
    pub reason: Reason,
    /// Its score, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
    /// Its patterns that match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<PatternMatch>,
}

/// Why a memory is not told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Reason {
    /// Others matter more, and there is no place left.
    NoPlace {
        /// Its place in the order, from 1.
        rank: usize,
    },
    /// It matches, but is less important than the agent wants.
    TooUnimportant,
    /// It has expired.
    Expired {
        /// When.
        at: Timestamp,
    },
    /// Another memory takes its place.
    Superseded {
        /// That one's path.
        by: String,
    },
    /// None of its patterns matches.
    NoMatch,
}

impl Reason {
    /// In words.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::NoPlace { rank } => format!("no place left: it is number {rank} in the order"),
            Self::TooUnimportant => "less important than this agent wants".to_owned(),
            Self::Expired { at } => format!("expired at {}", at.to_rfc3339()),
            Self::Superseded { by } => format!("superseded by {by}"),
            Self::NoMatch => "no pattern matches".to_owned(),
        }
    }

    fn order(&self) -> usize {
        match self {
            Self::NoPlace { rank } => *rank,
            Self::TooUnimportant => usize::MAX - 3,
            Self::Expired { .. } | Self::Superseded { .. } => usize::MAX - 2,
            Self::NoMatch => usize::MAX - 1,
        }
    }
}

/// How many memories have their files looked at, where at most `max` are told.
#[must_use]
pub fn shortlist_len(max: usize) -> usize {
    max.saturating_mul(4).max(MIN_SHORTLIST)
}

/// Matches and scores memories. They may be all there are, or those that an index found, with all that contradict or
/// supersede these.
#[must_use]
pub fn rank<'a>(
    memories: &'a [Memory],
    query: &Query,
    recipient: &Recipient,
    around: &Surroundings,
) -> Ranking<'a> {
    let superseded = superseded(memories);
    let mut ranking = Ranking {
        conflicts: Conflicts::among(memories),
        ranked: Vec::new(),
        left_out: Vec::new(),
        retired: BTreeSet::new(),
        scores: BTreeMap::new(),
        max: usize::try_from(recipient.max_injected).unwrap_or(usize::MAX),
        minimum: recipient.min_importance,
    };
    for memory in memories {
        let header = &memory.header;
        let expired = header.expires_at.filter(|at| *at <= around.now);
        let retired = match (superseded.get(memory.path.as_str()), expired) {
            (Some(by), _) => Some(Reason::Superseded { by: (*by).to_owned() }),
            (None, Some(at)) => Some(Reason::Expired { at }),
            (None, None) => None,
        };
        if let Some(reason) = retired {
            ranking.retired.insert(&memory.path);
            ranking.leave_out(memory, reason, None, Vec::new());
            continue;
        }
        let patterns = header.when_to_use.iter().map(|text| Pattern::read(text));
        let matches: Vec<PatternMatch> =
            patterns.filter_map(|pattern| pattern.matches(query, &around.corpus)).collect();
        let similarity = around.semantic.get(&memory.path).copied();
        let feedback = around.feedback.get(&memory.path).map_or(0.0, Feedback::bonus);
        let semantic = similarity.map_or(0.0, |near| semantic_points(near.cosine));
        let score = Score::of(header, query, recipient, (feedback, semantic), around.now);
        ranking.scores.insert(&memory.path, score);
        if matches.is_empty() && !similarity.is_some_and(|near| near.matches) {
            ranking.leave_out(memory, Reason::NoMatch, None, matches);
        } else if header.importance < recipient.min_importance {
            ranking.leave_out(memory, Reason::TooUnimportant, Some(score), matches);
        } else {
            ranking.ranked.push(Ranked { memory, score, matches, similarity });
        }
    }
    ranking.ranked.sort_by(|one, other| before(one, other));
    ranking
}

/// Tenths, so that what is printed adds up.
#[must_use]
pub fn semantic_points(cosine: f64) -> f64 {
    ((cosine.clamp(0.0, 1.0) * MAX_SEMANTIC * 10.0).round() / 10.0).clamp(0.0, MAX_SEMANTIC)
}

/// The path of what takes a memory's place, by the memory's path.
#[must_use]
pub fn superseded(memories: &[Memory]) -> BTreeMap<&str, &str> {
    let mut by_key: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for memory in memories {
        for reference in &memory.header.supersedes {
            by_key.entry(reference_key(reference)).or_default().push(&memory.path);
        }
    }
    if by_key.is_empty() {
        return BTreeMap::new();
    }
    let of = |memory: &Memory| {
        let keys = referred_keys(&memory.path, &memory.header.title);
        let mut all = keys.iter().filter_map(|key| by_key.get(key)).flatten();
        all.find(|by| **by != memory.path).copied()
    };
    memories.iter().filter_map(|memory| Some((memory.path.as_str(), of(memory)?))).collect()
}

fn before(one: &Ranked<'_>, other: &Ranked<'_>) -> std::cmp::Ordering {
    (other.score.total.total_cmp(&one.score.total))
        .then_with(|| other.memory.header.discovered_at.cmp(&one.memory.header.discovered_at))
        .then_with(|| one.memory.path.cmp(&other.memory.path))
}

impl<'a> Ranking<'a> {
    fn leave_out(
        &mut self,
        memory: &Memory,
        reason: Reason,
        score: Option<Score>,
        matches: Vec<PatternMatch>,
    ) {
        let (path, title) = (memory.path.clone(), memory.header.title.clone());
        self.left_out.push(LeftOut { path, title, reason, score, matches });
    }

    /// The memories whose files are worth looking at, by path: those that may be told, and those that would be told with one of them.
    #[must_use]
    pub fn shortlist(&self) -> Vec<&'a Memory> {
        let best = self.ranked.iter().take(shortlist_len(self.max)).map(|ranked| ranked.memory);
        let all = best.flat_map(|memory| std::iter::once(memory).chain(self.partners(memory)));
        let by_path: BTreeMap<&str, &Memory> = all.map(|memory| (memory.path.as_str(), memory)).collect();
        by_path.into_values().collect()
    }

    /// What is told, with what was found of the shortlist's files, by path.
    #[must_use]
    pub fn choose(mut self, found: &BTreeMap<String, Staleness>) -> Selection {
        let malus = |path: &str| found.get(path).map_or(0.0, Staleness::malus);
        for ranked in &mut self.ranked {
            ranked.score = ranked.score.stale(malus(&ranked.memory.path));
        }
        for (path, score) in &mut self.scores {
            *score = score.stale(malus(path));
        }
        let end = shortlist_len(self.max).min(self.ranked.len());
        self.ranked[..end].sort_by(|one, other| before(one, other));

        let mut places = self.max;
        let mut chosen: Vec<Chosen> = Vec::new();
        let mut beyond: Vec<(usize, Ranked<'a>)> = Vec::new();
        let ranked = std::mem::take(&mut self.ranked);
        // By path, so that a partner brings its own matches along.
        let by_path: BTreeMap<&str, Ranked<'a>> =
            ranked.iter().map(|ranked| (ranked.memory.path.as_str(), ranked.clone())).collect();
        let mut told: BTreeSet<&str> = BTreeSet::new();
        // What matches nothing is told beside what it contradicts where a place is left: a memory that names others must not push out what
        // matches.
        let mut unmatched: Vec<(usize, Ranked<'a>)> = Vec::new();
        for (at, one) in ranked.iter().enumerate() {
            if told.contains(one.memory.path.as_str()) {
                continue;
            }
            if places == 0 {
                beyond.push((at + 1, one.clone()));
                continue;
            }
            let mut group = vec![one.clone()];
            for partner in self.partners(one.memory) {
                match by_path.get(partner.path.as_str()) {
                    Some(matched) => group.push(matched.clone()),
                    None => unmatched.push((chosen.len(), self.unmatched(partner))),
                }
            }
            for member in group {
                if places > 0 && told.insert(&member.memory.path) {
                    places -= 1;
                    chosen.push(member.into_chosen(found));
                }
            }
        }
        for (shift, (at, one)) in self.with_a_place(unmatched, places, &mut told).into_iter().enumerate() {
            chosen.insert((at + shift + 1).min(chosen.len()), one.into_chosen(found));
        }
        for (rank, one) in beyond {
            self.leave_out(one.memory, Reason::NoPlace { rank }, Some(one.score), one.matches);
        }
        self.left_out.retain(|left| !told.contains(left.path.as_str()));
        self.left_out
            .sort_by(|a, b| a.reason.order().cmp(&b.reason.order()).then_with(|| a.path.cmp(&b.path)));
        for one in &mut chosen {
            one.contradictions = self.contradictions(&one.memory, &told);
        }
        Selection { chosen, left_out: self.left_out }
    }

    /// Memories that contradict `memory` and may be told beside it, the newest first. They do not depend on what is told already, so that
    /// those in the shortlist are the ones.
    fn partners(&self, memory: &Memory) -> Vec<&'a Memory> {
        let may_be_told = |other: &&Memory| self.is_alive(other) && other.header.importance >= self.minimum;
        let mut partners: Vec<&Memory> = self.conflicts.of(memory).filter(may_be_told).collect();
        partners.sort_by(|a, b| {
            let dates = b.header.discovered_at.cmp(&a.header.discovered_at);
            dates.then_with(|| a.path.cmp(&b.path))
        });
        partners.truncate(MAX_PARTNERS);
        partners
    }

    /// Those that have one of so many places, each once.
    fn with_a_place(
        &self,
        unmatched: Vec<(usize, Ranked<'a>)>,
        places: usize,
        told: &mut BTreeSet<&'a str>,
    ) -> Vec<(usize, Ranked<'a>)> {
        let new = unmatched.into_iter().filter(|(_, one)| told.insert(&one.memory.path));
        new.take(places).collect()
    }

    /// A memory that is told although none of its patterns matches.
    fn unmatched(&self, memory: &'a Memory) -> Ranked<'a> {
        let score = self.scores.get(memory.path.as_str()).copied().unwrap_or_default();
        Ranked { memory, score, matches: Vec::new(), similarity: None }
    }

    fn contradictions(&self, memory: &Memory, told: &BTreeSet<&str>) -> Vec<Contradiction> {
        let others = self.conflicts.of(memory).filter(|other| self.is_alive(other));
        let mut all: Vec<Contradiction> = others
            .map(|other| Contradiction {
                path: other.path.clone(),
                title: other.header.title.clone(),
                discovered_at: other.header.discovered_at,
                shown: told.contains(other.path.as_str()),
            })
            .collect();
        // Those that are told first, then the newest: what is said of them must not fill the prompt.
        all.sort_by(|a, b| {
            let order = b.shown.cmp(&a.shown).then_with(|| b.discovered_at.cmp(&a.discovered_at));
            order.then_with(|| a.path.cmp(&b.path))
        });
        all.truncate(MAX_NAMED);
        all
    }

    fn is_alive(&self, memory: &Memory) -> bool {
        !self.retired.contains(memory.path.as_str())
    }
}

impl Ranked<'_> {
    fn into_chosen(self, found: &BTreeMap<String, Staleness>) -> Chosen {
        Chosen {
            memory: self.memory.clone(),
            score: self.score,
            matches: self.matches,
            similarity: self.similarity,
            staleness: found.get(&self.memory.path).cloned().unwrap_or_default(),
            contradictions: Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
