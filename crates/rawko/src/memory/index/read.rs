//! An index as it lies on the disk, opened.
//!
//! What every query needs is read as bytes and looked into where it lies, without an allocation a memory; the rest is read when it is asked for.
//! `None` from any of these means that the index is damaged and to be done without.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::sync::OnceLock;

use rawko_core::Timestamp;
use rawko_core::agent::Importance;

use super::build::{FolderRow, Folders, Known, NEVER, USABLE};
use super::layout::{
    Counts, FILE_LEN, LINK_LEN, PATTERN_LEN, ROW_LEN, Reader, STAMP_LEN, Section, TERM_LEN, TEXT_LEN, u16_at,
    u32_at, u64_at,
};
use crate::memory::file::Entry;
use crate::memory::folder::{Stamp, below};
use crate::memory::report::Report;

/// An opened index: what finding changes needs is read at once, the rest when a query needs it.
pub(super) struct Index {
    reader: Reader,
    pub(super) folders: Vec<FolderRow>,
    /// About the folders.
    pub(super) reports: Vec<Report>,
    /// Whether a folder could not be read.
    pub(super) is_partial: bool,
    /// Whether there are more expressions than are looked into.
    pub(super) is_beyond: bool,
    files: Vec<u8>,
    names: Vec<u8>,
    /// `None` inside where it is damaged.
    rest: OnceLock<Option<Rest>>,
    /// All texts that must be looked into, where there are many to look into.
    text_bytes: OnceLock<Option<Vec<u8>>>,
}

/// What queries need.
struct Rest {
    rows: Vec<u8>,
    lists: Vec<u8>,
    patterns: Vec<u8>,
    texts: Vec<u8>,
    terms: Vec<u8>,
    links: Vec<u8>,
}

/// What scoring needs of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) usable: bool,
    pub(super) importance: Importance,
    pub(super) discovered_at: Option<Timestamp>,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) agent: u64,
    list: usize,
    titles: usize,
    tags: usize,
}

/// A pattern: of which memory, and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternRow {
    pub(super) memory: u32,
    pub(super) kind: u8,
    /// What its words weigh together, or the number of its text.
    pub(super) value: u32,
}

/// That a memory names another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) memory: u32,
    pub(super) kind: u8,
    pub(super) key: u64,
}

impl Index {
    /// Opens the index in this file.
    pub(super) fn open(file: File) -> Option<Self> {
        let reader = Reader::new(file)?;
        let Folders { folders, reports, is_partial, is_beyond } =
            serde_json::from_slice(&reader.section(Section::Folders)?).ok()?;
        let index = Self {
            folders,
            reports,
            is_partial,
            is_beyond,
            files: reader.section(Section::Files)?,
            names: reader.section(Section::Names)?,
            reader,
            rest: OnceLock::new(),
            text_bytes: OnceLock::new(),
        };
        let mut next = 0;
        let is_whole = index.files.len() == index.counts().files as usize * FILE_LEN
            && index.folders.iter().all(|folder| {
                let follows = folder.first == next && folder.end >= folder.first;
                next = folder.end;
                follows
            })
            && next == index.counts().files;
        is_whole.then_some(index)
    }

    /// Reads what queries need; whether it is sound. Without it every term would seem to be none.
    pub(super) fn is_sound(&self) -> bool {
        self.rest().is_some()
    }

    fn rest(&self) -> Option<&Rest> {
        let load = || {
            let Counts { files, patterns, .. } = self.counts();
            let rest = Rest {
                rows: self.reader.section(Section::Rows)?,
                lists: self.reader.section(Section::Lists)?,
                patterns: self.reader.section(Section::Patterns)?,
                texts: self.reader.section(Section::Texts)?,
                terms: self.reader.section(Section::Terms)?,
                links: self.reader.section(Section::Links)?,
            };
            let is_whole = rest.rows.len() == files as usize * ROW_LEN
                && rest.patterns.len() == patterns as usize * PATTERN_LEN
                && rest.terms.len().is_multiple_of(TERM_LEN)
                && rest.links.len().is_multiple_of(LINK_LEN);
            is_whole.then_some(rest)
        };
        self.rest.get_or_init(load).as_ref()
    }

    pub(super) fn counts(&self) -> Counts {
        self.reader.counts
    }

    /// The name of a file.
    pub(super) fn name(&self, id: u32) -> Option<&str> {
        let start = |id: u32| u32_at(&self.files, id as usize * FILE_LEN + STAMP_LEN).map(|at| at as usize);
        let end = if id + 1 == self.counts().files { self.names.len() } else { start(id + 1)? };
        std::str::from_utf8(self.names.get(start(id)?..end)?).ok()
    }

    /// What is known of a file without reading it.
    pub(super) fn known(&self, id: u32) -> Option<Known> {
        let at = id as usize * FILE_LEN;
        Known::from_bytes(self.files.get(at..at + STAMP_LEN)?)
    }

    /// The same index in the file `out`, with these folders, reports about them, and what is known of these files. Everything else is copied as it
    /// lies, damage included, which its checksums go on to tell.
    pub(super) fn copied(&self, out: File, folders: &Folders, known: &[(u32, Known)]) -> io::Result<File> {
        let mut files = self.files.clone();
        for (id, known) in known {
            let at = *id as usize * FILE_LEN;
            let place = files.get_mut(at..at + STAMP_LEN).ok_or(io::ErrorKind::InvalidData)?;
            place.copy_from_slice(&known.to_bytes());
        }
        let folders = serde_json::to_vec(folders)?;
        self.reader.copied(out, &[(Section::Folders, &folders), (Section::Files, &files)])
    }

    /// By what the file that this was read from is known to be the same.
    pub(super) fn own_stamp(&self) -> Option<Stamp> {
        self.reader.stamp()
    }

    /// The folder of this path: they are sorted.
    pub(super) fn folder(&self, path: &str) -> Option<&FolderRow> {
        let at = self.folders.binary_search_by(|row| row.path.as_str().cmp(path)).ok()?;
        self.folders.get(at)
    }

    /// The folder of a file.
    pub(super) fn folder_of(&self, id: u32) -> Option<&FolderRow> {
        let at = self.folders.partition_point(|folder| folder.end <= id);
        self.folders.get(at).filter(|folder| folder.first <= id)
    }

    /// The path of a file.
    pub(super) fn path(&self, id: u32) -> Option<String> {
        let (folder, name) = (&self.folder_of(id)?.path, self.name(id)?);
        Some(below(folder, name))
    }

    /// The file at a path.
    pub(super) fn find(&self, path: &str) -> Option<u32> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = self.folder(folder)?;
        let (mut low, mut high) = (folder.first, folder.end);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.name(middle)?.cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// What scoring needs of a file.
    pub(super) fn row(&self, id: u32) -> Option<Row> {
        let at = id as usize * ROW_LEN;
        let instant = |at| u64_at(&self.rest()?.rows, at).map(|ms| (ms != NEVER).then_some(Timestamp(ms)));
        Some(Row {
            usable: *self.rest()?.rows.get(at)? & USABLE != 0,
            importance: match self.rest()?.rows.get(at + 1)? {
                0 => Importance::Low,
                1 => Importance::Medium,
                2 => Importance::High,
                _ => Importance::Critical,
            },
            titles: usize::from(u16_at(&self.rest()?.rows, at + 2)?),
            tags: usize::from(u16_at(&self.rest()?.rows, at + 4)?),
            discovered_at: instant(at + 8)?,
            expires_at: instant(at + 16)?,
            agent: u64_at(&self.rest()?.rows, at + 24)?,
            list: u32_at(&self.rest()?.rows, at + 32)? as usize,
        })
    }

    /// How many of a memory's title stems and tags are among these (sorted hashes).
    pub(super) fn shared(&self, row: &Row, stems: &[u32], tags: &[u32]) -> (usize, usize) {
        let lists = self.rest().map_or(&[][..], |rest| &rest.lists);
        let count = |from: usize, len: usize, among: &[u32]| {
            let is_one =
                |at: &usize| u32_at(lists, at * 4).is_some_and(|hash| among.binary_search(&hash).is_ok());
            (from..from + len).filter(is_one).count()
        };
        (count(row.list, row.titles, stems), count(row.list + row.titles, row.tags, tags))
    }

    /// What a file says of itself.
    pub(super) fn entry(&self, id: u32) -> Option<Entry> {
        let at = id as usize * ROW_LEN;
        let (len, place) = (u32_at(&self.rest()?.rows, at + 36)?, u64_at(&self.rest()?.rows, at + 40)?);
        let check = u32_at(&self.rest()?.rows, at + 48)?;
        serde_json::from_slice(&self.reader.piece(Section::Records, place, len as usize, check)?).ok()
    }

    pub(super) fn pattern(&self, id: u32) -> Option<PatternRow> {
        let at = id as usize * PATTERN_LEN;
        let (memory, value) = (u32_at(&self.rest()?.patterns, at)?, u32_at(&self.rest()?.patterns, at + 8)?);
        (memory < self.counts().files).then_some(PatternRow {
            memory,
            kind: *self.rest()?.patterns.get(at + 4)?,
            value,
        })
    }

    /// The number of texts that must be looked into.
    pub(super) fn texts(&self) -> usize {
        self.rest().map_or(0, |rest| rest.texts.len() / TEXT_LEN)
    }

    /// Reads all texts at once: many of them are going to be asked for.
    pub(super) fn load_texts(&self) {
        self.text_bytes.get_or_init(|| self.reader.section(Section::TextBytes));
    }

    pub(super) fn text(&self, id: u32) -> Option<Cow<'_, str>> {
        let at = id as usize * TEXT_LEN;
        let texts = &self.rest()?.texts;
        let (place, len) = (u64_at(texts, at)?, u32_at(texts, at + 8)? as usize);
        if let Some(Some(bytes)) = self.text_bytes.get() {
            let start = usize::try_from(place).ok()?;
            return std::str::from_utf8(bytes.get(start..start.checked_add(len)?)?).ok().map(Cow::Borrowed);
        }
        let check = u32_at(texts, at + 12)?;
        String::from_utf8(self.reader.piece(Section::TextBytes, place, len, check)?).ok().map(Cow::Owned)
    }

    /// Where a term stands among the terms; `None` where it is none.
    fn term(&self, hash: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.rest()?.terms.len() / TERM_LEN);
        while low < high {
            let middle = low + (high - low) / 2;
            match u64_at(&self.rest()?.terms, middle * TERM_LEN)?.cmp(&hash) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// In how many memories a stem occurs.
    pub(super) fn spread(&self, hash: u64) -> Option<u32> {
        self.term(hash).and_then(|at| u32_at(&self.rest()?.terms, at * TERM_LEN + 12))
    }

    /// The patterns of a term, four bytes each, and in how many memories it occurs. Outer `None`: damaged.
    pub(super) fn postings(&self, hash: u64) -> Option<Option<(Vec<u8>, u32)>> {
        let Some(at) = self.term(hash) else { return Some(None) };
        let row = at * TERM_LEN;
        let start = u64::from(u32_at(&self.rest()?.terms, row + 8)?) * 4;
        let end = match u32_at(&self.rest()?.terms, row + TERM_LEN + 8) {
            Some(next) => u64::from(next) * 4,
            None => self.reader.len(Section::Postings),
        };
        let len = usize::try_from(end.checked_sub(start)?).ok()?;
        let check = u32_at(&self.rest()?.terms, row + 16)?;
        let bytes = self.reader.piece(Section::Postings, start, len, check)?;
        Some(Some((bytes, u32_at(&self.rest()?.terms, row + 12)?)))
    }

    /// Patterns that no term tells of.
    pub(super) fn always(&self) -> Option<Vec<u8>> {
        self.reader.section(Section::Always)
    }

    pub(super) fn links(&self) -> impl Iterator<Item = Link> + '_ {
        self.rest().map_or(&[][..], |rest| &rest.links).chunks_exact(LINK_LEN).filter_map(|link| {
            Some(Link { memory: u32_at(link, 0)?, kind: *link.get(4)?, key: u64_at(link, 8)? })
        })
    }

    /// The hash of each file's title, eight bytes each.
    pub(super) fn titles(&self) -> Option<Vec<u8>> {
        self.reader.section(Section::Titles).filter(|titles| titles.len() == self.counts().files as usize * 8)
    }

    /// The hashes of each file's path and name, eight bytes each.
    pub(super) fn keys(&self) -> Option<Vec<u8>> {
        self.reader.section(Section::Keys).filter(|keys| keys.len() == self.counts().files as usize * 16)
    }

    /// The files about which there are reports.
    pub(super) fn reported(&self) -> Option<Vec<u32>> {
        let bytes = self.reader.section(Section::Reported)?;
        Some(bytes.chunks_exact(4).filter_map(|id| u32_at(id, 0)).collect())
    }
}
