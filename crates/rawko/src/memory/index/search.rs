//! Finding the memories that may be told, without looking at the others.
//!
//! Each word of the query leads to the patterns that it may satisfy: by stem, by the beginnings of words, by pieces of what an
//! expression needs. Only what these lead to is looked into, and only the best of what matches is read. It may find too much, for
//! the core judges again; it may not find too little, but for a bound on the expressions that one query may cost.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rawko_core::Timestamp;
use rawko_core::memory::{
    Corpus, Feedback, Memory, Pattern, Query, Recipient, Score, Similarity, five_each, of_importance,
    of_recency, reference_key, referred_keys, semantic_points, shortlist_len, weight,
};

use super::build::{CONFLICTS, GRAM, LOOKED_INTO, MIN_GRAM, NATURAL, PREFIX, SUPERSEDES, required};
use super::layout::{Space, hash, short, u32_at, u64_at};
use super::read::{Index, Row};
use super::refresh::Current;
use crate::memory::effort::{Effort, MAX_COMPILED};
use crate::memory::report::Report;
use crate::memory::store::Inventory;

/// Texts from which on all of them are read at once.
const MANY_TEXTS: usize = 200;
/// Most memories that are read because they contradict one that was found.
const MAX_PARTNERS: usize = 64;
/// Most reports about files that are handed on with a selection.
const MAX_REPORTS: usize = 100;

/// What a query led to.
pub(in crate::memory) struct Found {
    /// The memories that may be told, and those that contradict them.
    pub(in crate::memory) memories: Vec<Memory>,
    /// How common their words are.
    pub(in crate::memory) corpus: Corpus,
    /// How many memories there are.
    pub(in crate::memory) total: usize,
    pub(in crate::memory) reports: Vec<Report>,
}

/// What a search depends on besides the query.
pub(in crate::memory) struct Around<'a> {
    pub(in crate::memory) recipient: &'a Recipient,
    pub(in crate::memory) feedback: &'a BTreeMap<String, Feedback>,
    pub(in crate::memory) semantic: &'a BTreeMap<String, Similarity>,
    pub(in crate::memory) now: Timestamp,
}

impl Current {
    /// All memories and reports. `None` where the index is damaged.
    pub(in crate::memory) fn inventory(&self) -> Option<Inventory> {
        if !self.index.is_sound() {
            return None;
        }
        let (mut memories, mut reports) = (self.fresh.clone(), self.reports.clone());
        for id in (0..self.index.counts().files).filter(|id| !self.is_dead(*id)) {
            let entry = self.index.entry(id)?;
            reports.extend(entry.reports);
            let path = self.index.path(id)?;
            memories.extend(entry.header.map(|header| Memory { path, header }));
        }
        memories.sort_by(|a, b| a.path.cmp(&b.path));
        Some(Inventory { memories, reports })
    }

    /// The memories that may be told. `None` where the index is damaged.
    pub(in crate::memory) fn search(&self, query: &Query, around: &Around<'_>) -> Option<Found> {
        if !self.index.is_sound() {
            return None;
        }
        let mut reports = self.reports.clone();
        let mut matched = self.matched(query, &mut reports)?;
        for path in around.semantic.iter().filter(|(_, near)| near.matches).map(|(path, _)| path) {
            if let Some(matched) = self.index.find(path).and_then(|id| matched.get_mut(id as usize)) {
                *matched = true;
            }
        }
        let superseding = Superseding::of(self)?;
        let mut best = self.best(query, around, &matched, &superseding)?;
        // A memory that is told because it contradicts another may be contradicted itself.
        for _ in 0..2 {
            let partners = self.partners(&best, around, &superseding)?;
            best.extend(partners);
        }
        let mut memories = Vec::with_capacity(best.len() + self.fresh.len());
        for id in best {
            let path = self.index.path(id)?;
            memories.extend(self.index.entry(id)?.header.map(|header| Memory { path, header }));
        }
        memories.extend(self.fresh.iter().filter(|memory| !superseding.takes(memory)).cloned());
        let corpus = self.corpus(&memories);
        for id in self.index.reported()?.into_iter().filter(|id| !self.is_dead(*id)) {
            if reports.len() >= MAX_REPORTS {
                break;
            }
            reports.extend(self.index.entry(id)?.reports);
        }
        Some(Found { memories, corpus, total: self.total()?, reports })
    }

    fn is_dead(&self, id: u32) -> bool {
        self.dead.get(id as usize).copied().unwrap_or(true)
    }

    fn total(&self) -> Option<usize> {
        let mut total = self.index.counts().memories as usize + self.fresh.len();
        for (id, _) in self.dead.iter().enumerate().filter(|(_, dead)| **dead) {
            total -= usize::from(self.index.row(u32::try_from(id).ok()?)?.usable);
        }
        Some(total)
    }

    /// Which memories have a pattern that matches.
    fn matched(&self, query: &Query, reports: &mut Vec<Report>) -> Option<Vec<bool>> {
        let index = &self.index;
        let counts = index.counts();
        let mut matched = vec![false; counts.files as usize];
        let mut mark = |memory: u32| {
            if let Some(matched) = matched.get_mut(memory as usize) {
                *matched = true;
            }
        };
        // Natural language: what of each pattern's weight is there.
        let mut present = vec![0_u32; counts.patterns as usize];
        for stem in query.stems() {
            let Some((patterns, spread)) = index.postings(hash(Space::Stem, stem.as_bytes()))? else {
                continue;
            };
            let one = weight(counts.natural, spread);
            for pattern in numbers(&patterns) {
                let sum = present.get_mut(pattern as usize)?;
                *sum = sum.saturating_add(one);
            }
        }
        for (pattern, sum) in (0..).zip(&present).filter(|(_, sum)| **sum > 0) {
            let row = index.pattern(pattern)?;
            if row.kind == NATURAL && u64::from(*sum) * 2 >= u64::from(row.value) {
                mark(row.memory);
            }
        }
        drop(present);
        // The beginnings of all words, and the words that may be the first of several.
        let mut looked_into: Vec<u32> = Vec::new();
        let words: BTreeSet<&str> = query.words().collect();
        let mut seen = HashSet::new();
        for word in words {
            for end in word.char_indices().map(|(at, c)| at + c.len_utf8()) {
                let term = hash(Space::Prefix, &word.as_bytes()[..end]);
                if !seen.insert(term) {
                    continue;
                }
                for pattern in numbers(&index.postings(term)?.unwrap_or_default().0) {
                    let row = index.pattern(pattern)?;
                    if row.kind == PREFIX {
                        mark(row.memory);
                    }
                }
            }
            looked_into
                .extend(numbers(&index.postings(hash(Space::First, word.as_bytes()))?.unwrap_or_default().0));
        }
        // Expressions of which a piece occurs, and those of which nothing is known.
        seen.clear();
        for line in query.folded_lines().map(str::as_bytes) {
            for length in MIN_GRAM..=GRAM {
                for gram in line.windows(length) {
                    let term = hash(Space::Gram, gram);
                    if seen.insert(term) {
                        looked_into.extend(numbers(&index.postings(term)?.unwrap_or_default().0));
                    }
                }
            }
        }
        looked_into.extend(numbers(&index.always()?));
        if looked_into.len() > MANY_TEXTS {
            index.load_texts();
        }
        let mut texts = Texts {
            index,
            query,
            known: vec![None; index.texts()],
            looking: Effort::looking(),
            compiling: Effort::compiling(),
        };
        for pattern in looked_into {
            let row = index.pattern(pattern)?;
            if row.kind == LOOKED_INTO && texts.matches(row.value)? {
                mark(row.memory);
            }
        }
        if texts.compiling.is_spent() {
            let message = format!(
                "more than {MAX_COMPILED} expressions come near this query, or large ones; the others were passed over"
            );
            reports.push(Report::warning(
                "",
                message,
                "retire memories, or use words instead of expressions",
            ));
        }
        Some(matched)
    }

    /// The best of what matches and may be told, as many as the core looks at.
    fn best(
        &self,
        query: &Query,
        around: &Around<'_>,
        matched: &[bool],
        superseding: &Superseding,
    ) -> Option<Vec<u32>> {
        let index = &self.index;
        let recipient = around.recipient;
        let hashes = |space, texts: &mut dyn Iterator<Item = &String>| {
            let mut hashes: Vec<u32> = texts.map(|text| short(hash(space, text.as_bytes()))).collect();
            hashes.sort_unstable();
            hashes
        };
        let stems = hashes(Space::Title, &mut query.task_stems().iter());
        let tags = hashes(Space::Tag, &mut recipient.tag_keys().iter());
        let agent = hash(Space::Agent, recipient.name.as_bytes());
        let feedback: HashMap<u32, f64> = around
            .feedback
            .iter()
            .filter_map(|(path, of_it)| Some((index.find(path)?, of_it.bonus())))
            .collect();
        let semantic: HashMap<u32, f64> = around
            .semantic
            .iter()
            .filter_map(|(path, near)| Some((index.find(path)?, semantic_points(near.cosine))))
            .collect();
        let mut found: Vec<(f64, Option<Timestamp>, u32)> = Vec::new();
        for (id, _) in (0..).zip(matched).filter(|(id, matched)| **matched && !self.is_dead(*id)) {
            let row = index.row(id)?;
            if !may_be_told(&row, around)
                || row.importance < recipient.min_importance
                || superseding.takes_known(id)
            {
                continue;
            }
            let (titles, shared) = index.shared(&row, &stems, &tags);
            let score = Score {
                importance: of_importance(row.importance),
                recency: of_recency(row.discovered_at, around.now),
                title_words: five_each(titles, 20.0),
                tags: five_each(shared, 15.0),
                same_agent: if row.agent == agent { 10.0 } else { 0.0 },
                agent_bonus: recipient.score_bonus,
                feedback: feedback.get(&id).copied().unwrap_or_default(),
                semantic: semantic.get(&id).copied().unwrap_or_default(),
                ..Score::default()
            };
            found.push((score.summed().total, row.discovered_at, id));
        }
        let before = |one: &(f64, Option<Timestamp>, u32), other: &(f64, Option<Timestamp>, u32)| {
            let order = other.0.total_cmp(&one.0).then_with(|| other.1.cmp(&one.1));
            order.then_with(|| by_path(index, one.2, other.2))
        };
        let wanted = shortlist_len(usize::try_from(recipient.max_injected).unwrap_or(usize::MAX));
        if found.len() > wanted {
            found.select_nth_unstable_by(wanted, before);
            found.truncate(wanted);
        }
        Some(found.into_iter().map(|(_, _, id)| id).collect())
    }

    /// Memories that contradict one of `best` and may be told.
    fn partners(&self, best: &[u32], around: &Around<'_>, superseding: &Superseding) -> Option<Vec<u32>> {
        if best.is_empty() && self.fresh.is_empty() {
            return Some(Vec::new());
        }
        let titles = self.index.titles()?;
        let title = |id: u32| u64_at(&titles, id as usize * 8);
        let mut same: HashSet<u64> = best.iter().filter_map(|id| title(*id)).collect();
        let mut named: HashSet<u64> = HashSet::new();
        for memory in &self.fresh {
            let [by_path, by_name, by_title] = referred_keys(&memory.path, &memory.header.title);
            same.insert(key(&by_title));
            named.extend([key(&by_path), key(&by_name), key(&by_title)]);
            same.extend(memory.header.conflicts_with.iter().map(|reference| key(&reference_key(reference))));
        }
        let conflicts: Vec<_> =
            self.index.links().filter(|link| link.kind == CONFLICTS && !self.is_dead(link.memory)).collect();
        let by_fresh = self.fresh.iter().any(|memory| !memory.header.conflicts_with.is_empty());
        let keys = if conflicts.is_empty() && !by_fresh { Vec::new() } else { self.index.keys()? };
        let own = |id: u32| [u64_at(&keys, id as usize * 16), u64_at(&keys, id as usize * 16 + 8)];
        let mut partners: BTreeSet<u32> = BTreeSet::new();
        named.extend(best.iter().flat_map(|id| own(*id).into_iter().chain([title(*id)])).flatten());
        for link in &conflicts {
            if best.contains(&link.memory) {
                same.insert(link.key);
            }
            if named.contains(&link.key) {
                partners.insert(link.memory);
            }
        }
        for id in 0..self.index.counts().files {
            let is_named = title(id).is_some_and(|title| same.contains(&title))
                || own(id).iter().flatten().any(|key| same.contains(key));
            if is_named {
                partners.insert(id);
            }
        }
        let mut told: Vec<(bool, Option<Timestamp>, u32)> = Vec::new();
        for id in partners.into_iter().filter(|id| !best.contains(id) && !self.is_dead(*id)) {
            let row = self.index.row(id)?;
            if row.usable && may_be_told(&row, around) && !superseding.takes_known(id) {
                told.push((row.importance >= around.recipient.min_importance, row.discovered_at, id));
            }
        }
        told.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then_with(|| by_path(&self.index, a.2, b.2)));
        Some(told.into_iter().take(MAX_PARTNERS).map(|(_, _, id)| id).collect())
    }

    fn corpus(&self, memories: &[Memory]) -> Corpus {
        let texts = memories.iter().flat_map(|memory| &memory.header.when_to_use);
        let stems: BTreeSet<String> =
            texts.filter_map(|text| Pattern::content_stems(text)).flatten().collect();
        let spread = stems.into_iter().filter_map(|stem| {
            let spread = self.index.spread(hash(Space::Stem, stem.as_bytes()))?;
            Some((stem, spread))
        });
        Corpus { memories: self.index.counts().natural, spread: spread.collect() }
    }
}

/// The texts that must be looked into, each at most once.
struct Texts<'a> {
    index: &'a Index,
    query: &'a Query,
    known: Vec<Option<bool>>,
    looking: Effort,
    compiling: Effort,
}

impl Texts<'_> {
    fn matches(&mut self, id: u32) -> Option<bool> {
        if let Some(known) = *self.known.get(id as usize)? {
            return Some(known);
        }
        let text = self.index.text(id)?;
        let is_simple = Pattern::is_simple(&text);
        let sets = if is_simple { Vec::new() } else { required(&text, &self.looking) };
        let occurs =
            |set: &Vec<String>, line: &str| set.iter().any(|literal| line.contains(literal.as_str()));
        let may_match = self.query.folded_lines().any(|line| sets.iter().all(|set| occurs(set, line)));
        let matches = may_match
            && (is_simple || self.compiling.takes(&text))
            && Pattern::read(&text).matches(self.query, &Corpus::default()).is_some();
        *self.known.get_mut(id as usize)? = Some(matches);
        Some(matches)
    }
}

/// Which memories have their place taken by another.
struct Superseding {
    /// What is named, and by which memories; those that are new or changed have no number.
    named: HashMap<u64, Vec<Option<u32>>>,
    titles: Vec<u8>,
    keys: Vec<u8>,
}

impl Superseding {
    fn of(current: &Current) -> Option<Self> {
        let mut named: HashMap<u64, Vec<Option<u32>>> = HashMap::new();
        let links =
            current.index.links().filter(|link| link.kind == SUPERSEDES && !current.is_dead(link.memory));
        for link in links {
            named.entry(link.key).or_default().push(Some(link.memory));
        }
        for memory in &current.fresh {
            for reference in &memory.header.supersedes {
                named.entry(key(&reference_key(reference))).or_default().push(None);
            }
        }
        let (titles, keys) = match named.is_empty() {
            true => (Vec::new(), Vec::new()),
            false => (current.index.titles()?, current.index.keys()?),
        };
        Some(Self { named, titles, keys })
    }

    /// Whether the place of a memory in the index is taken.
    fn takes_known(&self, id: u32) -> bool {
        if self.named.is_empty() {
            return false;
        }
        let at = id as usize;
        let keys =
            [u64_at(&self.titles, at * 8), u64_at(&self.keys, at * 16), u64_at(&self.keys, at * 16 + 8)];
        keys.iter().flatten().filter_map(|key| self.named.get(key)).flatten().any(|by| *by != Some(id))
    }

    /// Whether a memory in the index takes the place of one that is not; what those do among themselves is the core's to say.
    fn takes(&self, memory: &Memory) -> bool {
        let keys = referred_keys(&memory.path, &memory.header.title);
        keys.iter().filter_map(|text| self.named.get(&key(text))).flatten().any(Option::is_some)
    }
}

fn key(text: &str) -> u64 {
    hash(Space::Key, text.as_bytes())
}

fn may_be_told(row: &Row, around: &Around<'_>) -> bool {
    row.usable && row.expires_at.is_none_or(|at| at > around.now)
}

fn by_path(index: &Index, one: u32, other: u32) -> Ordering {
    let same_folder =
        index.folder_of(one).zip(index.folder_of(other)).is_some_and(|(a, b)| a.first == b.first);
    if same_folder {
        index.name(one).cmp(&index.name(other))
    } else {
        index.path(one).cmp(&index.path(other))
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).filter_map(|number| u32_at(number, 0))
}
