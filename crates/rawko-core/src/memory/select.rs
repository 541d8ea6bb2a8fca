//! Which few memories an execution is given, and why each of the others is not.
//!
//! Decides which memories may be given at all (matching, important enough, neither expired nor superseded), the order
//! (what it fits, score, then the newer one, then the path), and what becomes of memories that contradict each other:
//! they are given side by side, so that no agent takes one half of a contradiction for the whole truth. Staleness costs
//! a look at the tree, so it is checked only for the best of them and for what contradicts those
//! ([`Ranking::shortlist`]); nothing else is ever given.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::conflict::Conflicts;
use super::evidence::{Evidence, Findings, search};
use super::feedback::Feedback;
use super::header::Confirmation;
use super::pattern::PatternMatch;
use super::query::Query;
use super::recalled::Unmet;
use super::recipient::Recipient;
use super::reference::{reference_key, referred_keys};
use super::score::Score;
use super::staleness::Staleness;
use super::stored::Memory;
use crate::Timestamp;

/// Most memories that are put beside one that they contradict.
const MAX_PARTNERS: usize = 2;
/// Most memories that are named as contradicting one.
const MAX_NAMED: usize = 4;
/// Least memories whose files are looked at.
const MIN_SHORTLIST: usize = 20;

/// What selection depends on besides memories, query and agent.
#[derive(Debug, Clone, Default)]
pub struct RankInput {
    /// What earlier uses say, by path.
    pub feedback: BTreeMap<String, Feedback>,
    /// The instant of the selection.
    pub now: Timestamp,
}

impl Unmet {
    /// Of what was left out.
    #[must_use]
    pub fn of(left_out: &[LeftOut]) -> Self {
        let mut unmet = Self::default();
        for one in left_out {
            match one.reason {
                Reason::NoPlace { .. } => unmet.no_place += 1,
                Reason::TooWeak if !one.matches.is_empty() => unmet.too_weak += 1,
                Reason::TooUnimportant => unmet.too_unimportant += 1,
                Reason::TooWeak | Reason::Expired { .. } | Reason::Superseded { .. } | Reason::NoMatch => {}
            }
        }
        unmet
    }
}

/// Memories that may be given, best first, and those that may not.
#[derive(Debug, Clone)]
pub struct Ranking<'a> {
    conflicts: Conflicts<'a>,
    ranked: Vec<Ranked<'a>>,
    left_out: Vec<LeftOut>,
    retired: BTreeSet<&'a str>,
    recipient: &'a Recipient,
    query: &'a Query,
    around: &'a RankInput,
    untried: u32,
}

#[derive(Debug, Clone)]
struct Ranked<'a> {
    memory: &'a Memory,
    score: Score,
    words: Vec<String>,
    matches: Vec<PatternMatch>,
    fits: Fits,
}

/// What a memory fits, the most telling first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fits {
    Task,
    /// The agent's name alone.
    Agent,
    /// The plan's step alone.
    Step,
}

/// What is given, in this order, and what is not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// What is given.
    pub chosen: Vec<Chosen>,
    /// What is not, those that came nearest first.
    pub left_out: Vec<LeftOut>,
    /// How many of those match, also where not all of them are listed.
    pub unmet: Unmet,
}

/// A memory that is given.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The memory.
    pub memory: Memory,
    /// Whether a run proposed it, no person has kept it, and it has not helped yet.
    pub unconfirmed: bool,
    /// Its score.
    pub score: Score,
    /// Words of the task (or the step) that it has.
    pub words: Vec<String>,
    /// Its patterns that match; none where its words alone fit, or it is given because it contradicts another.
    pub matches: Vec<PatternMatch>,
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
    /// Whether it is given too; else only that it exists.
    pub shown: bool,
}

/// A memory that is not given.
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

/// Why a memory is not given.
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
    /// Something of it matches, but too little, or other memories fit much better.
    TooWeak,
    /// Nothing of it matches.
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
            Self::TooWeak => "too little of it matches".to_owned(),
            Self::NoMatch => "no pattern matches".to_owned(),
        }
    }

    fn order(&self) -> usize {
        match self {
            Self::NoPlace { rank } => *rank,
            Self::TooUnimportant => usize::MAX - 4,
            Self::TooWeak => usize::MAX - 3,
            Self::Expired { .. } | Self::Superseded { .. } => usize::MAX - 2,
            Self::NoMatch => usize::MAX - 1,
        }
    }
}

/// How many memories have their files looked at, where at most `max` are given.
#[must_use]
pub fn shortlist_len(max: usize) -> usize {
    max.saturating_mul(4).max(MIN_SHORTLIST)
}

/// Matches and scores memories: all there are.
#[must_use]
pub fn rank<'a>(
    memories: impl IntoIterator<Item = &'a Memory>,
    query: &'a Query,
    recipient: &'a Recipient,
    around: &'a RankInput,
) -> Ranking<'a> {
    let memories: Vec<&Memory> = memories.into_iter().collect();
    let superseded = superseded(memories.iter().copied());
    let mut ranking = Ranking {
        conflicts: Conflicts::among(memories.clone()),
        ranked: Vec::new(),
        left_out: Vec::new(),
        retired: BTreeSet::new(),
        recipient,
        query,
        around,
        untried: 0,
    };
    let mut alive: Vec<&Memory> = Vec::with_capacity(memories.len());
    for memory in memories {
        let expired = memory.header.expires_at.filter(|at| *at <= around.now);
        let retired = match (superseded.get(memory.path.as_str()), expired) {
            (Some(by), _) => Some(Reason::Superseded { by: (*by).to_owned() }),
            (None, Some(at)) => Some(Reason::Expired { at }),
            (None, None) => None,
        };
        match retired {
            Some(reason) => {
                ranking.retired.insert(&memory.path);
                ranking.leave_out(memory, reason, None, Vec::new());
            }
            None => alive.push(memory),
        }
    }
    ranking.rank(&alive);
    ranking
}

/// The path of what takes a memory's place, by the memory's path.
#[must_use]
pub fn superseded<'a>(memories: impl IntoIterator<Item = &'a Memory> + Clone) -> BTreeMap<&'a str, &'a str> {
    let mut by_key: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for memory in memories.clone() {
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
    memories.into_iter().filter_map(|memory| Some((memory.path.as_str(), of(memory)?))).collect()
}

fn before(one: &Ranked<'_>, other: &Ranked<'_>) -> std::cmp::Ordering {
    (one.fits.cmp(&other.fits))
        .then_with(|| other.score.total.total_cmp(&one.score.total))
        .then_with(|| other.memory.header.discovered_at.cmp(&one.memory.header.discovered_at))
        .then_with(|| one.memory.path.cmp(&other.memory.path))
}

impl<'a> Ranking<'a> {
    fn rank(&mut self, alive: &[&'a Memory]) {
        let Findings { found: mut by_task, untried } = search(alive, self.query.task());
        let by_step = self.query.step().map(|step| search(alive, step)).unwrap_or_default();
        self.untried = untried + by_step.untried;
        let mut by_step = by_step.found;
        for (at, memory) in alive.iter().enumerate() {
            let of_task = by_task.remove(&at).unwrap_or_default();
            let of_step = by_step.remove(&at).unwrap_or_default();
            let is_by_step = !of_task.fits && of_step.fits;
            let Evidence { words, matches, fits, by_agent, .. } = if is_by_step { of_step } else { of_task };
            if !fits {
                let reason =
                    if words.is_empty() && matches.is_empty() { Reason::NoMatch } else { Reason::TooWeak };
                self.leave_out(memory, reason, None, matches);
                continue;
            }
            let score = self.score(memory);
            if memory.header.effective_importance() < self.recipient.min_importance {
                self.leave_out(memory, Reason::TooUnimportant, Some(score), matches);
            } else {
                let fits = match (is_by_step, by_agent) {
                    (true, _) => Fits::Step,
                    (false, true) => Fits::Agent,
                    (false, false) => Fits::Task,
                };
                self.ranked.push(Ranked { memory, score, words, matches, fits });
            }
        }
        self.ranked.sort_by(|one, other| before(one, other));
    }

    fn score(&self, memory: &Memory) -> Score {
        let feedback = self.around.feedback.get(&memory.path).map_or(0.0, Feedback::malus);
        Score::of(&memory.header, self.query, self.recipient, feedback, self.around.now)
    }

    fn max(&self) -> usize {
        usize::try_from(self.recipient.max_injected).unwrap_or(usize::MAX)
    }

    /// How many regular expressions were not tried, because there are too many of them.
    #[must_use]
    pub fn untried(&self) -> u32 {
        self.untried
    }

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

    /// The memories whose files are worth looking at, by path: those that may be given, and those that would be given with one of them.
    #[must_use]
    pub fn shortlist(&self) -> Vec<&'a Memory> {
        let best = self.ranked.iter().take(shortlist_len(self.max())).map(|ranked| ranked.memory);
        let all = best.flat_map(|memory| std::iter::once(memory).chain(self.partners(memory)));
        let by_path: BTreeMap<&str, &Memory> = all.map(|memory| (memory.path.as_str(), memory)).collect();
        by_path.into_values().collect()
    }

    /// What is given, with what was found of the shortlist's files, by path.
    #[must_use]
    pub fn choose(mut self, found: &BTreeMap<String, Staleness>) -> Selection {
        let malus = |path: &str| found.get(path).map_or(0.0, Staleness::malus);
        for ranked in &mut self.ranked {
            ranked.score = ranked.score.stale(malus(&ranked.memory.path));
        }
        let end = shortlist_len(self.max()).min(self.ranked.len());
        self.ranked[..end].sort_by(|one, other| before(one, other));

        let mut places = self.max();
        let mut chosen: Vec<Chosen> = Vec::new();
        let mut beyond: Vec<(usize, Ranked<'a>)> = Vec::new();
        let ranked = std::mem::take(&mut self.ranked);
        // By path, so that a partner brings its own matches along.
        let by_path: BTreeMap<&str, Ranked<'a>> =
            ranked.iter().map(|ranked| (ranked.memory.path.as_str(), ranked.clone())).collect();
        let mut given: BTreeSet<&str> = BTreeSet::new();
        // What matches nothing is given beside what it contradicts where a place is left: a memory that names others must not push out what
        // matches.
        let mut unmatched: Vec<(usize, Ranked<'a>)> = Vec::new();
        for (at, one) in ranked.iter().enumerate() {
            if given.contains(one.memory.path.as_str()) {
                continue;
            }
            if places == 0 {
                beyond.push((at + 1, one.clone()));
                continue;
            }
            let mut group = vec![one.clone()];
            for partner in self.partners(one.memory) {
                match by_path.get(partner.path.as_str()) {
                    Some(matched) if matched.fits <= one.fits => group.push(matched.clone()),
                    Some(matched) => unmatched.push((chosen.len(), matched.clone())),
                    None => unmatched.push((chosen.len(), self.unmatched(partner, malus(&partner.path)))),
                }
            }
            for member in group {
                if places > 0 && given.insert(&member.memory.path) {
                    places -= 1;
                    chosen.push(member.into_chosen(found));
                }
            }
        }
        for (shift, (at, one)) in self.with_a_place(unmatched, places, &mut given).into_iter().enumerate() {
            chosen.insert((at + shift + 1).min(chosen.len()), one.into_chosen(found));
        }
        for (rank, one) in beyond {
            self.leave_out(one.memory, Reason::NoPlace { rank }, Some(one.score), one.matches);
        }
        self.left_out.retain(|left| !given.contains(left.path.as_str()));
        self.left_out
            .sort_by(|a, b| a.reason.order().cmp(&b.reason.order()).then_with(|| a.path.cmp(&b.path)));
        for one in &mut chosen {
            let helped =
                self.around.feedback.get(&one.memory.path).is_some_and(|feedback| feedback.helped > 0);
            one.unconfirmed = one.memory.header.status == Confirmation::Proposed && !helped;
            one.contradictions = self.contradictions(&one.memory, &given);
        }
        Selection { chosen, unmet: Unmet::of(&self.left_out), left_out: self.left_out }
    }

    /// Memories that contradict `memory` and may be given beside it, the newest first. They do not depend on what is given already, so that
    /// those in the shortlist are the ones.
    fn partners(&self, memory: &Memory) -> Vec<&'a Memory> {
        let may_be_given = |other: &&Memory| {
            self.is_alive(other) && other.header.effective_importance() >= self.recipient.min_importance
        };
        let mut partners: Vec<&Memory> = self.conflicts.of(memory).into_iter().filter(may_be_given).collect();
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
        given: &mut BTreeSet<&'a str>,
    ) -> Vec<(usize, Ranked<'a>)> {
        let new = unmatched.into_iter().filter(|(_, one)| given.insert(&one.memory.path));
        new.take(places).collect()
    }

    /// A memory that is given although none of its patterns matches.
    fn unmatched(&self, memory: &'a Memory, malus: f64) -> Ranked<'a> {
        let score = self.score(memory).stale(malus);
        Ranked { memory, score, words: Vec::new(), matches: Vec::new(), fits: Fits::Task }
    }

    fn contradictions(&self, memory: &Memory, given: &BTreeSet<&str>) -> Vec<Contradiction> {
        let others = self.conflicts.of(memory).into_iter().filter(|other| self.is_alive(other));
        let mut all: Vec<Contradiction> = others
            .map(|other| Contradiction {
                path: other.path.clone(),
                title: other.header.title.clone(),
                discovered_at: other.header.discovered_at,
                shown: given.contains(other.path.as_str()),
            })
            .collect();
        // Those that are given first, then the newest: what is said of them must not fill the prompt.
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
            unconfirmed: false,
            score: self.score,
            words: self.words,
            matches: self.matches,
            staleness: found.get(&self.memory.path).cloned().unwrap_or_default(),
            contradictions: Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
