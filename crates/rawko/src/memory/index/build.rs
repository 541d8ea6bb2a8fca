//! Making an index: files go in one by one, in order of folder and name; the file comes out.
//!
//! Front matter is written as it comes and not kept; what is kept while building is what the terms need.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;

use rawko_core::agent::Importance;
use rawko_core::memory::words::{fold, stems, words};
use rawko_core::memory::{
    Header, Pattern, Reading, reference_key, referred_keys, required_literals, tag_key, weight,
};
use serde::{Deserialize, Serialize};

use super::layout::{Counts, STAMP_LEN, Section, Space, Writer, checksum, hash, short, u32_at, u64_at};
use crate::memory::effort::Effort;
use crate::memory::file::Entry;
use crate::memory::folder::{Listing, Stamp, below};
use crate::memory::report::Report;

/// An instant that is none.
pub(super) const NEVER: u64 = u64::MAX;
/// Most bytes of a gram: some bytes of a literal.
pub(super) const GRAM: usize = 4;
/// Fewest bytes of a literal that is looked for.
pub(super) const MIN_GRAM: usize = 2;

/// The file's flags.
pub(super) const USABLE: u8 = 1;
/// In the place of the ctime of a file: [`Known::Racy`].
const RACY: i64 = i64::MIN;
/// In the same place: [`Known::Unreadable`].
const UNREADABLE: i64 = i64::MIN + 1;

/// What the number of a pattern's row means.
pub(super) const NATURAL: u8 = 0;
/// One word, found by its term alone.
pub(super) const PREFIX: u8 = 1;
/// One that must be looked into.
pub(super) const LOOKED_INTO: u8 = 2;

/// What a link says.
pub(super) const SUPERSEDES: u8 = 0;
pub(super) const CONFLICTS: u8 = 1;

/// What is known of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// With this stamp it is what it was.
    By(Stamp),
    /// It changed so shortly before it was read that no stamp could be believed.
    Racy,
    /// It could not be read, and is what it was as long as it cannot.
    Unreadable,
}

impl Known {
    /// Of a file that was read, with this stamp, by somebody who began at `seen`.
    pub(super) fn of(stamp: Option<Stamp>, seen: i64) -> Self {
        match stamp {
            Some(stamp) if stamp.is_racy(seen) => Self::Racy,
            // As it is kept: what has 4 GB and more is no memory.
            Some(stamp) => Self::By(Stamp { size: stamp.size.min(u64::from(u32::MAX)), ..stamp }),
            None => Self::Unreadable,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; STAMP_LEN] {
        let none = Stamp::default();
        let stamp = match self {
            Self::By(stamp) => stamp,
            Self::Racy => Stamp { ctime: RACY, ..none },
            Self::Unreadable => Stamp { ctime: UNREADABLE, ..none },
        };
        let mut bytes = [0; STAMP_LEN];
        bytes[..8].copy_from_slice(&stamp.ino.to_le_bytes());
        bytes[8..12].copy_from_slice(&u32::try_from(stamp.size).unwrap_or(u32::MAX).to_le_bytes());
        bytes[12..20].copy_from_slice(&stamp.mtime.to_le_bytes());
        bytes[20..].copy_from_slice(&stamp.ctime.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let signed = |at| u64_at(bytes, at).map(u64::cast_signed);
        let (ino, size) = (u64_at(bytes, 0)?, u64::from(u32_at(bytes, 8)?));
        let (mtime, ctime) = (signed(12)?, signed(20)?);
        Some(match ctime {
            RACY => Self::Racy,
            UNREADABLE => Self::Unreadable,
            _ => Self::By(Stamp { ino, size, mtime, ctime }),
        })
    }
}

/// A folder, and which of the files are right in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderRow {
    pub(super) path: String,
    /// Inode, size, mtime, ctime.
    pub(super) stamp: (u64, u64, i64, i64),
    /// Whether it changed so shortly before it was listed that its stamp cannot be trusted.
    pub(super) racy: bool,
    pub(super) first: u32,
    pub(super) end: u32,
}

/// The section [`Section::Folders`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Folders {
    pub(super) folders: Vec<FolderRow>,
    pub(super) reports: Vec<Report>,
    /// Whether a folder could not be read.
    pub(super) is_partial: bool,
    /// Whether there are more expressions than are looked into.
    pub(super) is_beyond: bool,
}

pub(super) fn folder_row(path: &str, stamp: Stamp, racy: bool) -> FolderRow {
    let stamp = (stamp.ino, stamp.size, stamp.mtime, stamp.ctime);
    FolderRow { path: path.to_owned(), stamp, racy, first: 0, end: 0 }
}

/// An index in the making.
pub(super) struct Builder {
    writer: Writer,
    counts: Counts,
    folders: Vec<FolderRow>,
    files: Vec<u8>,
    names: Vec<u8>,
    rows: Vec<u8>,
    lists: Vec<u8>,
    /// Memory, kind, and what is a text's number where the pattern must be looked into.
    patterns: Vec<(u32, u8, u32)>,
    texts: HashMap<String, u32>,
    /// The patterns of each text.
    text_patterns: Vec<Vec<u32>>,
    terms: HashMap<u64, Vec<u32>>,
    /// In how many memories' natural-language patterns a stem occurs.
    spread: HashMap<u64, u32>,
    links: Vec<u8>,
    titles: Vec<u8>,
    keys: Vec<u8>,
    reported: Vec<u8>,
}

impl Builder {
    pub(super) fn new(file: File) -> io::Result<Self> {
        Ok(Self {
            writer: Writer::new(file)?,
            counts: Counts::default(),
            folders: Vec::new(),
            files: Vec::new(),
            names: Vec::new(),
            rows: Vec::new(),
            lists: Vec::new(),
            patterns: Vec::new(),
            texts: HashMap::new(),
            text_patterns: Vec::new(),
            terms: HashMap::new(),
            spread: HashMap::new(),
            links: Vec::new(),
            titles: Vec::new(),
            keys: Vec::new(),
            reported: Vec::new(),
        })
    }

    /// The files that follow are right in this folder.
    pub(super) fn folder(&mut self, row: FolderRow) {
        self.folders.push(FolderRow { first: self.counts.files, end: self.counts.files, ..row });
    }

    /// Adds a file of the current folder.
    pub(super) fn file(&mut self, name: &str, known: Known, entry: &Entry) -> io::Result<()> {
        let id = self.counts.files;
        self.counts.files += 1;
        let folder = self.folders.last_mut().map_or(String::new(), |folder| {
            folder.end = id + 1;
            folder.path.clone()
        });
        put(&mut self.files, &known.to_bytes());
        put(&mut self.files, &number(self.names.len())?.to_le_bytes());
        put(&mut self.names, name.as_bytes());
        let record = serde_json::to_vec(entry)?;
        let place = self.writer.record(&record)?;
        if !entry.reports.is_empty() {
            put(&mut self.reported, &id.to_le_bytes());
        }
        let path = below(&folder, name);
        self.row(id, entry.header.as_ref(), (place, &record))?;
        match &entry.header {
            Some(header) => {
                self.counts.memories += 1;
                self.of_memory(id, &path, header)
            }
            None => {
                put(&mut self.titles, &[0; 8]);
                put(&mut self.keys, &[0; 16]);
                Ok(())
            }
        }
    }

    fn row(&mut self, id: u32, header: Option<&Header>, (place, record): (u64, &[u8])) -> io::Result<()> {
        let flags = if header.is_some() { USABLE } else { 0 };
        let importance = header.map_or(0, |header| importance_number(header.importance));
        let instant = |at: Option<rawko_core::Timestamp>| at.map_or(NEVER, |at| at.0).to_le_bytes();
        let list = number(self.lists.len() / 4)?;
        let titles: BTreeSet<String> = header.map(|header| stems(&header.title)).unwrap_or_default();
        let tags: BTreeSet<String> =
            header.into_iter().flat_map(|header| &header.tags).map(|tag| tag_key(tag)).collect();
        for stem in &titles {
            put(&mut self.lists, &short(hash(Space::Title, stem.as_bytes())).to_le_bytes());
        }
        for tag in &tags {
            put(&mut self.lists, &short(hash(Space::Tag, tag.as_bytes())).to_le_bytes());
        }
        let agent = header.and_then(|header| header.discovered_by.as_deref());
        let agent = agent.map_or(0, |agent| hash(Space::Agent, agent.as_bytes()));
        let row = &mut self.rows;
        put(row, &[flags, importance]);
        put(row, &u16::try_from(titles.len()).unwrap_or(u16::MAX).to_le_bytes());
        put(row, &u16::try_from(tags.len()).unwrap_or(u16::MAX).to_le_bytes());
        put(row, &[0; 2]);
        put(row, &instant(header.and_then(|header| header.discovered_at)));
        put(row, &instant(header.and_then(|header| header.expires_at)));
        put(row, &agent.to_le_bytes());
        put(row, &list.to_le_bytes());
        put(row, &number(record.len())?.to_le_bytes());
        put(row, &place.to_le_bytes());
        put(row, &short(checksum(record)).to_le_bytes());
        debug_assert_eq!(row.len(), (id as usize + 1) * super::layout::ROW_LEN);
        Ok(())
    }

    fn of_memory(&mut self, id: u32, path: &str, header: &Header) -> io::Result<()> {
        let [by_path, by_name, by_title] = referred_keys(path, &header.title);
        let key = |text: &str| hash(Space::Key, text.as_bytes()).to_le_bytes();
        put(&mut self.titles, &key(&by_title));
        put(&mut self.keys, &key(&by_path));
        put(&mut self.keys, &key(&by_name));
        for (kind, references) in [(SUPERSEDES, &header.supersedes), (CONFLICTS, &header.conflicts_with)] {
            for reference in references {
                put(&mut self.links, &id.to_le_bytes());
                put(&mut self.links, &[kind, 0, 0, 0]);
                put(&mut self.links, &key(&reference_key(reference)));
            }
        }
        let mut natural: BTreeSet<u64> = BTreeSet::new();
        for text in &header.when_to_use {
            natural.extend(self.pattern(id, text)?);
        }
        if !natural.is_empty() {
            self.counts.natural += 1;
        }
        for stem in natural {
            *self.spread.entry(stem).or_default() += 1;
        }
        Ok(())
    }

    /// Adds a pattern; the terms of its words where it is natural language.
    fn pattern(&mut self, memory: u32, text: &str) -> io::Result<Vec<u64>> {
        let pattern = self.counts.patterns;
        let post = |terms: &mut HashMap<u64, Vec<u32>>, term| terms.entry(term).or_default().push(pattern);
        let mut natural = Vec::new();
        let (kind, value) = match Pattern::reading_of(text) {
            Reading::Words => {
                for stem in Pattern::content_stems(text).unwrap_or_default() {
                    let term = hash(Space::Stem, stem.as_bytes());
                    post(&mut self.terms, term);
                    natural.push(term);
                }
                (NATURAL, 0)
            }
            Reading::Prefix => {
                let mut parts = words(Pattern::cut(text));
                let first = parts.next();
                let more = parts.next().is_some();
                match (first, more) {
                    (Some(word), false) => {
                        post(&mut self.terms, hash(Space::Prefix, word.as_bytes()));
                        (PREFIX, 0)
                    }
                    (Some(word), true) => {
                        post(&mut self.terms, hash(Space::First, word.as_bytes()));
                        (LOOKED_INTO, self.text(text, None)?)
                    }
                    (None, _) => (PREFIX, 0),
                }
            }
            Reading::Regex | Reading::Substring | Reading::Glob => {
                (LOOKED_INTO, self.text(text, Some(pattern))?)
            }
        };
        self.counts.patterns += 1;
        self.patterns.push((memory, kind, value));
        Ok(natural)
    }

    /// The number of a text, for which a term is chosen later where a pattern is given.
    fn text(&mut self, text: &str, pattern: Option<u32>) -> io::Result<u32> {
        let next = number(self.texts.len())?;
        let id = *self.texts.entry(text.to_owned()).or_insert_with(|| {
            self.text_patterns.push(Vec::new());
            next
        });
        if let (Some(pattern), Some(patterns)) = (pattern, self.text_patterns.get_mut(id as usize)) {
            patterns.push(pattern);
        }
        Ok(id)
    }

    /// Writes everything that is left.
    pub(super) fn finish(mut self, listing: &Listing) -> io::Result<File> {
        let mut texts: Vec<(u32, &str)> = self.texts.iter().map(|(text, id)| (*id, text.as_str())).collect();
        texts.sort_unstable();
        let (always, is_beyond) = choose_terms(&texts, &self.text_patterns, &mut self.terms);
        let (mut rows, mut bytes) = (Vec::new(), Vec::new());
        for (_, text) in &texts {
            put(&mut rows, &(bytes.len() as u64).to_le_bytes());
            put(&mut rows, &number(text.len())?.to_le_bytes());
            put(&mut rows, &short(checksum(text.as_bytes())).to_le_bytes());
            put(&mut bytes, text.as_bytes());
        }
        drop(texts);

        // What a natural-language pattern's words weigh together.
        let mut weights = vec![0_u32; self.patterns.len()];
        for (term, spread) in &self.spread {
            let one = weight(self.counts.natural, *spread);
            for pattern in self.terms.get(term).into_iter().flatten() {
                if let Some(sum) = weights.get_mut(*pattern as usize) {
                    *sum = sum.saturating_add(one);
                }
            }
        }
        let mut patterns = Vec::with_capacity(self.patterns.len() * super::layout::PATTERN_LEN);
        for ((memory, kind, value), weight) in self.patterns.iter().zip(&weights) {
            put(&mut patterns, &memory.to_le_bytes());
            put(&mut patterns, &[*kind, 0, 0, 0]);
            put(&mut patterns, &if *kind == NATURAL { *weight } else { *value }.to_le_bytes());
        }

        let mut terms: Vec<(u64, Vec<u32>)> = std::mem::take(&mut self.terms).into_iter().collect();
        terms.sort_unstable_by_key(|(term, _)| *term);
        let (mut term_rows, mut postings) = (Vec::new(), Vec::new());
        for (term, patterns) in terms {
            let start = postings.len();
            patterns.iter().for_each(|pattern| put(&mut postings, &pattern.to_le_bytes()));
            put(&mut term_rows, &term.to_le_bytes());
            put(&mut term_rows, &number(start / 4)?.to_le_bytes());
            put(&mut term_rows, &self.spread.get(&term).copied().unwrap_or_default().to_le_bytes());
            put(&mut term_rows, &short(checksum(&postings[start..])).to_le_bytes());
        }
        let always: Vec<u8> = always.iter().flat_map(|pattern| pattern.to_le_bytes()).collect();
        let folders = serde_json::to_vec(&Folders {
            folders: std::mem::take(&mut self.folders),
            reports: listing.reports.clone(),
            is_partial: listing.is_partial,
            is_beyond,
        })?;
        for (section, bytes) in [
            (Section::Folders, &folders),
            (Section::Files, &self.files),
            (Section::Names, &self.names),
            (Section::Rows, &self.rows),
            (Section::Lists, &self.lists),
            (Section::Patterns, &patterns),
            (Section::Texts, &rows),
            (Section::TextBytes, &bytes),
            (Section::Terms, &term_rows),
            (Section::Postings, &postings),
            (Section::Always, &always),
            (Section::Links, &self.links),
            (Section::Titles, &self.titles),
            (Section::Keys, &self.keys),
            (Section::Reported, &self.reported),
        ] {
            self.writer.section(section, bytes)?;
        }
        self.writer.finish(self.counts)
    }
}

/// Enters each text that must be looked into under the rarest of what must occur for it to match; the patterns of those of which nothing
/// is known are returned, and whether there were more expressions than may be looked into.
fn choose_terms(
    texts: &[(u32, &str)],
    text_patterns: &[Vec<u32>],
    terms: &mut HashMap<u64, Vec<u32>>,
) -> (Vec<u32>, bool) {
    let (looking, compiling) = (Effort::looking(), Effort::compiling());
    let needed = |text: &str| {
        let sets = required(text, &looking);
        // Of what no text tells, only what is looked for as it is written after all.
        let is_open = sets.is_empty() && !looking.is_spent() && !Pattern::is_simple(text);
        let written = |text| Pattern::read(text).reading() == Reading::Substring;
        match is_open && compiling.takes(text) && written(text) {
            true => as_written(text).map(|run| vec![run]).into_iter().collect(),
            false => sets,
        }
    };
    let required: Vec<Vec<Vec<String>>> = texts.iter().map(|(_, text)| needed(text)).collect();
    let mut common: HashMap<&[u8], u32> = HashMap::new();
    for gram in required.iter().flatten().flatten().flat_map(|literal| grams(literal.as_bytes())) {
        *common.entry(gram).or_default() += 1;
    }
    let rarest = |literal: &'_ String| -> Option<(u32, Vec<u8>)> {
        grams(literal.as_bytes())
            .map(|gram| (common.get(gram).copied().unwrap_or_default(), gram.to_vec()))
            .min()
    };
    let mut always = Vec::new();
    for (sets, patterns) in required.iter().zip(text_patterns) {
        let chosen = sets
            .iter()
            .filter_map(|set| set.iter().map(rarest).collect::<Option<Vec<_>>>())
            .min_by_key(|set| set.iter().map(|(count, _)| u64::from(*count)).sum::<u64>());
        match chosen {
            None => always.extend(patterns),
            Some(set) => {
                let grams: BTreeSet<u64> = set.iter().map(|(_, gram)| hash(Space::Gram, gram)).collect();
                for gram in grams {
                    terms.entry(gram).or_default().extend(patterns);
                }
            }
        }
    }
    (always, looking.is_spent() || compiling.is_spent())
}

/// What must occur for a pattern to match that must be looked into: of each set one. Nothing is compiled for it.
pub(super) fn required(text: &str, looking: &Effort) -> Vec<Vec<String>> {
    let Some(expression) = Pattern::expression_of(text) else { return Vec::new() };
    if Pattern::is_simple(text) {
        return required_literals(&expression);
    }
    if !looking.takes(text) {
        return Vec::new();
    }
    let mut sets = required_literals(&expression);
    // It may be too large, and is looked for as it is written then.
    match as_written(text) {
        Some(run) => sets.iter_mut().for_each(|set| set.push(run.clone())),
        None => sets.clear(),
    }
    sets
}

/// What must occur where a pattern is looked for as it is written.
fn as_written(text: &str) -> Option<String> {
    let folded = fold(Pattern::cut(text));
    let longest = folded.split(|c: char| !c.is_ascii()).max_by_key(|run| run.len());
    longest.filter(|run| run.len() >= MIN_GRAM).map(str::to_owned)
}

/// What is said where there are more expressions than may be looked into beforehand.
pub(super) fn beyond() -> Report {
    let message = "there are more expressions than are looked into beforehand: some are tried at each selection, and not all \
                   are checked";
    let help = "use words instead of expressions, or remove memories; `rawko memory check` checks all";
    Report::warning("", message, help)
}

/// The grams of a literal: runs of [`GRAM`] bytes, or all of it where it is shorter.
fn grams(literal: &[u8]) -> impl Iterator<Item = &[u8]> {
    literal.windows(GRAM.min(literal.len()).max(1)).filter(|gram| gram.len() >= MIN_GRAM)
}

fn importance_number(importance: Importance) -> u8 {
    match importance {
        Importance::Low => 0,
        Importance::Medium => 1,
        Importance::High => 2,
        Importance::Critical => 3,
    }
}

fn put(bytes: &mut Vec<u8>, more: &[u8]) {
    bytes.extend_from_slice(more);
}

fn number(count: usize) -> io::Result<u32> {
    u32::try_from(count).map_err(|_| io::Error::other("the memories are too many for an index"))
}
