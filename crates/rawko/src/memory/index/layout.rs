//! How the index lies in its file: a header with a table, then sections, all numbers little-endian.
//!
//! Owns encoding and checking. What is read as a whole is checked as a whole; of the large sections single pieces are
//! read, which carry their own checksums. Nothing read from the file is believed: every access is bounded, and whatever does not fit
//! makes the index as good as absent.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;

use super::rules::edition;
use crate::memory::folder::{Stamp, stamp_of};

const MAGIC: [u8; 8] = *b"rawkomem";
/// Most bytes of a section. A million memories need a tenth of it.
const MAX_SECTION: u64 = 4 * 1024 * 1024 * 1024;

/// The parts of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    /// Front matter and reports of each file, as JSON. Read in pieces.
    Records,
    /// The folders with their stamps, and reports about them, as JSON.
    Folders,
    /// A stamp and a name for each file: [`FILE_LEN`].
    Files,
    /// The names, one behind the other.
    Names,
    /// What scoring needs of each memory: [`ROW_LEN`].
    Rows,
    /// Stems of titles, and tags, as hashes of four bytes.
    Lists,
    /// The patterns: [`PATTERN_LEN`].
    Patterns,
    /// Place, length and checksum of each pattern's text that must be looked into: [`TEXT_LEN`].
    Texts,
    /// Those texts. Read in pieces.
    TextBytes,
    /// The terms by hash: [`TERM_LEN`].
    Terms,
    /// Numbers of patterns for each term. Read in pieces.
    Postings,
    /// Numbers of texts that no term tells of.
    Always,
    /// References from memories to others: [`LINK_LEN`].
    Links,
    /// The hash of each memory's title. Read when something was found.
    Titles,
    /// The hashes of each memory's path and file name. Read when there are references.
    Keys,
    /// Numbers of the files about which there are reports.
    Reported,
}

const SECTIONS: usize = Section::Reported as usize + 1;
/// Magic, [`edition`], four counts, and for each section place, length and checksum; then a checksum.
pub(super) const HEADER_LEN: usize = 8 + 4 + 4 * 4 + SECTIONS * 24 + 8;
/// What is known of a file without reading it.
pub(super) const STAMP_LEN: usize = 28;
pub(super) const FILE_LEN: usize = STAMP_LEN + 4;
pub(super) const ROW_LEN: usize = 52;
pub(super) const PATTERN_LEN: usize = 12;
pub(super) const TEXT_LEN: usize = 16;
pub(super) const TERM_LEN: usize = 20;
pub(super) const LINK_LEN: usize = 16;

/// How many there are of what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) files: u32,
    /// Files that are memories.
    pub(super) memories: u32,
    /// Memories with natural-language patterns.
    pub(super) natural: u32,
    pub(super) patterns: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    offset: u64,
    len: u64,
    check: u64,
}

/// A space of hashes: the same text in two of them is two terms.
#[derive(Debug, Clone, Copy)]
pub(super) enum Space {
    Stem = 1,
    /// A word that a word of the query must begin with.
    Prefix,
    /// The first word of several.
    First,
    /// Some bytes of a text that must occur.
    Gram,
    Title,
    Tag,
    Agent,
    /// What a memory can be referred to by.
    Key,
}

/// A hash that is the same on every machine.
pub(super) fn hash(space: Space, text: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ (space as u64);
    for byte in text {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    // FNV's low bits are weak: mix once.
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

/// The upper half of a hash, where four bytes will do.
#[allow(clippy::cast_possible_truncation, reason = "the upper half")]
pub(super) fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// A checksum against damage, eight bytes at a time: it is in the way of every start. It keeps nobody out who means harm.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut lanes = [1_u64, 2, 3, 4];
    let mut chunks = bytes.chunks_exact(32);
    for chunk in &mut chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            *lane = (*lane ^ u64_at(word, 0).unwrap_or_default()).wrapping_mul(FACTOR).rotate_left(29);
        }
    }
    let mut sum = u64::try_from(bytes.len()).unwrap_or_default();
    for lane in lanes {
        sum = (sum ^ lane).wrapping_mul(FACTOR).rotate_left(31);
    }
    for byte in chunks.remainder() {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(FACTOR).rotate_left(29);
    }
    sum ^ (sum >> 32)
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// An index that is being written.
pub(super) struct Writer {
    out: BufWriter<File>,
    at: u64,
    places: [Place; SECTIONS],
}

impl Writer {
    /// Begins with room for the header; what is put first is [`Section::Records`].
    pub(super) fn new(file: File) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(256 * 1024, file);
        out.write_all(&[0; HEADER_LEN])?;
        let at = HEADER_LEN as u64;
        let mut places = [Place::default(); SECTIONS];
        places[Section::Records as usize].offset = at;
        Ok(Self { out, at, places })
    }

    /// Puts one record; its place.
    pub(super) fn record(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let place = self.at - HEADER_LEN as u64;
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        self.places[Section::Records as usize].len += bytes.len() as u64;
        Ok(place)
    }

    /// Puts a whole section.
    pub(super) fn section(&mut self, section: Section, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len() as u64;
        self.places[section as usize] = Place { offset: self.at, len, check: checksum(bytes) };
        self.out.write_all(bytes)?;
        self.at += len;
        Ok(())
    }

    /// Writes the header and hands the file back.
    pub(super) fn finish(mut self, counts: Counts) -> io::Result<File> {
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header(&self.places, counts))?;
        self.out.flush()?;
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

fn header(places: &[Place; SECTIONS], counts: Counts) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_LEN);
    header.extend_from_slice(&MAGIC);
    for number in [edition(), counts.files, counts.memories, counts.natural, counts.patterns] {
        header.extend_from_slice(&number.to_le_bytes());
    }
    for place in places {
        for number in [place.offset, place.len, place.check] {
            header.extend_from_slice(&number.to_le_bytes());
        }
    }
    header.extend_from_slice(&checksum(&header).to_le_bytes());
    header
}

/// The file, with its table read.
pub(super) struct Reader {
    file: File,
    places: [Place; SECTIONS],
    pub(super) counts: Counts,
}

impl Reader {
    /// `None` where the file is no index, or one of another layout or of other rules.
    pub(super) fn new(file: File) -> Option<Self> {
        let mut header = [0; HEADER_LEN];
        file.read_exact_at(&mut header, 0).ok()?;
        let end = HEADER_LEN - 8;
        let is_ours = header.starts_with(&MAGIC)
            && u32_at(&header, 8)? == edition()
            && u64_at(&header, end)? == checksum(&header[..end]);
        let counts = Counts {
            files: u32_at(&header, 12)?,
            memories: u32_at(&header, 16)?,
            natural: u32_at(&header, 20)?,
            patterns: u32_at(&header, 24)?,
        };
        let total = file.metadata().ok()?.len();
        let mut places = [Place::default(); SECTIONS];
        for (number, place) in places.iter_mut().enumerate() {
            let at = 28 + number * 24;
            *place = Place {
                offset: u64_at(&header, at)?,
                len: u64_at(&header, at + 8)?,
                check: u64_at(&header, at + 16)?,
            };
            if place.len > MAX_SECTION || place.offset.checked_add(place.len)? > total {
                return None;
            }
        }
        is_ours.then_some(Self { file, places, counts })
    }

    /// A section as a whole, checked.
    pub(super) fn section(&self, section: Section) -> Option<Vec<u8>> {
        let place = self.places[section as usize];
        let mut bytes = vec![0; usize::try_from(place.len).ok()?];
        self.file.read_exact_at(&mut bytes, place.offset).ok()?;
        (checksum(&bytes) == place.check).then_some(bytes)
    }

    /// Writes the same to `out`, but for these sections.
    pub(super) fn copied(&self, mut out: File, replaced: &[(Section, &[u8])]) -> io::Result<File> {
        out.write_all(&[0; HEADER_LEN])?;
        let mut at = HEADER_LEN as u64;
        let mut places = self.places;
        for (number, place) in places.iter_mut().enumerate() {
            match replaced.iter().find(|(section, _)| *section as usize == number) {
                Some((_, bytes)) => {
                    out.write_all(bytes)?;
                    *place = Place { offset: at, len: bytes.len() as u64, check: checksum(bytes) };
                }
                None => {
                    let mut source = &self.file;
                    source.seek(SeekFrom::Start(place.offset))?;
                    if io::copy(&mut source.take(place.len), &mut out)? != place.len {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    place.offset = at;
                }
            }
            at += place.len;
        }
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&header(&places, self.counts))?;
        Ok(out)
    }

    /// By what the file is known to be the same.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        stamp_of(self.file.as_fd()).ok()
    }

    /// How long a section is.
    pub(super) fn len(&self, section: Section) -> u64 {
        self.places[section as usize].len
    }

    /// A piece of a section, checked against its own checksum.
    pub(super) fn piece(&self, section: Section, at: u64, len: usize, check: u32) -> Option<Vec<u8>> {
        let place = self.places[section as usize];
        if at.checked_add(len as u64)? > place.len {
            return None;
        }
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, place.offset + at).ok()?;
        (short(checksum(&bytes)) == check).then_some(bytes)
    }
}

#[cfg(test)]
mod unit {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_changed_bit_shows(bytes in prop::collection::vec(any::<u8>(), 1..200), at: prop::sample::Index, bit in 0..8) {
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] ^= 1_u8 << bit;
            prop_assert_ne!(checksum(&bytes), checksum(&damaged));
            prop_assert_ne!(short(checksum(&bytes)), short(checksum(&damaged)));
        }
    }

    #[test]
    fn length_counts_and_spaces_differ() {
        assert_ne!(checksum(&[0; 32]), checksum(&[0; 64]));
        assert_ne!(checksum(&[]), checksum(&[0]));
        assert_ne!(hash(Space::Stem, b"auth"), hash(Space::Prefix, b"auth"));
    }
}
