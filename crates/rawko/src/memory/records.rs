//! What was read of the memories' files, kept for the next look.
//!
//! A record holds what a file says and the stamp of the file that was read; where the stamp is still the same, the file is not read again.
//! A run keeps the records in memory. Large folders have them in one file too, a line of JSON each, for the next process. That file is
//! a cache: whatever is odd about it, it is deleted and made anew, and where it cannot be written everything is read each time.

use std::fs;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rawko_core::memory::Memory;
use rawko_tools::open_regular;
use rustix::fs::{AtFlags, statat};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::file::{self, Care, Entry};
use super::folder::{self, Listed, Stamp};
use super::parallel::in_runs;
use super::report::Report;
use super::store::ignore_derived;
use rawko_core::text::hex;

/// The cache's name.
pub(super) const NAME: &str = ".index";
/// Files from which on a cache is worth its place; fewer are read in some milliseconds. (Tests would be slow with so many.)
const WORTH: usize = if cfg!(test) { 3 } else { 500 };
/// The form of the lines, and what decides what is in them.
const FORMAT: &str = concat!("rawko memories 4, ", env!("CARGO_PKG_VERSION"));

/// All files, by path.
#[derive(Debug, Default)]
pub(super) struct Records {
    records: Vec<Record>,
    /// What is wrong with folders and with what is no file.
    pub(super) reports: Vec<Report>,
}

/// One file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    /// Absent where the file may change again without its stamp changing.
    stamp: Option<Stamp>,
    content: Content,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reports: Vec<Report>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::large_enum_variant, reason = "most are memories")]
enum Content {
    Memory(Memory),
    /// The path of a file that cannot be used.
    Unusable(String),
}

impl Record {
    fn path(&self) -> &str {
        match &self.content {
            Content::Memory(memory) => &memory.path,
            Content::Unusable(path) => path,
        }
    }

    fn memory(&self) -> Option<&Memory> {
        match &self.content {
            Content::Memory(memory) => Some(memory),
            Content::Unusable(_) => None,
        }
    }
}

impl Records {
    /// The memories that can be used.
    pub(super) fn memories(&self) -> impl Iterator<Item = &Memory> {
        self.records.iter().filter_map(Record::memory)
    }

    /// What is wrong with folders and files.
    pub(super) fn all_reports(&self) -> Vec<Report> {
        self.reports.iter().chain(self.records.iter().flat_map(|record| &record.reports)).cloned().collect()
    }

    /// The folder as it is now: what is not as it was in `known` is read. Without `known` the cache in the folder `cache` is asked, and it
    /// is written there where it has become another.
    pub(super) fn look(root: &OwnedFd, known: Option<Self>, cache: Option<&Path>) -> Self {
        let listing = folder::list(root.as_fd());
        let count: usize = listing.folders.iter().map(|folder| folder.names.len()).sum();
        let cache = cache.filter(|_| count >= WORTH).map(|folder| folder.join(NAME));
        let known = known.or_else(|| load(cache.as_deref()?));
        let is_first = known.is_none();
        let (records, changed) = renew(root, &listing.folders, known.unwrap_or_default(), Care::Quick);
        let records = Self { records, reports: listing.reports };
        if let Some(cache) = cache.filter(|_| changed || is_first) {
            // Without it everything is read again, which is slow and no failure.
            let _ = save(&cache, &records.records);
        }
        records
    }

    /// The folder as it is now, every file read with care.
    pub(super) fn read(root: &OwnedFd) -> Self {
        let listing = folder::list(root.as_fd());
        let (records, _) = renew(root, &listing.folders, Self::default(), Care::Full);
        Self { records, reports: listing.reports }
    }
}

/// Deletes the cache in `folder`.
pub(super) fn forget(folder: &Path) {
    let _ = fs::remove_file(folder.join(NAME));
}

/// A file that was seen.
struct Seen {
    path: String,
    stamp: Option<Stamp>,
}

/// The records of the files in these folders, and whether any is new or gone for good.
fn renew(root: &OwnedFd, folders: &[Listed], known: Records, care: Care) -> (Vec<Record>, bool) {
    let files: Vec<(&str, &str)> = folders
        .iter()
        .flat_map(|folder| folder.names.iter().map(|name| (folder.path.as_str(), name.as_str())))
        .collect();
    let seen = in_runs(&files, |run| {
        by_folder(root, run, |folder, name, path| Seen {
            stamp: statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| Stamp::of(&stat)),
            path,
        })
    });
    let mut changed = seen.len() != known.records.len();
    let mut known: Vec<Option<Record>> = known.records.into_iter().map(Some).collect();
    let mut records = Vec::with_capacity(seen.len());
    let mut unread = Vec::new();
    for (at, Seen { path, stamp }) in seen.into_iter().enumerate() {
        let place = known.binary_search_by(|one| one.as_ref().map_or("", Record::path).cmp(&path));
        let same = |record: &mut Record| record.path() == path && stamp.is_some() && record.stamp == stamp;
        match place.ok().and_then(|place| known[place].take_if(same)) {
            Some(record) => records.push(record),
            None => unread.push(files[at]),
        }
    }
    let read = in_runs(&unread, |run| {
        by_folder(root, run, |folder, name, path| {
            let now = now_ns();
            let (Entry { header, terms, reports }, stamp) = file::read_entry(folder, name, &path, care);
            let stamp = stamp.filter(|stamp| !stamp.is_racy(now));
            let content = match header {
                Some(header) => Content::Memory(Memory { path, header, terms }),
                None => Content::Unusable(path),
            };
            Record { stamp, content, reports }
        })
    });
    changed |= read.iter().any(|record| record.stamp.is_some());
    records.extend(read);
    records.sort_unstable_by(|a, b| a.path().cmp(b.path()));
    (records, changed)
}

/// What `look` makes of each file; each folder is opened once in a row.
fn by_folder<R>(
    root: &OwnedFd,
    files: &[(&str, &str)],
    look: impl Fn(std::os::fd::BorrowedFd<'_>, &str, String) -> R,
) -> Vec<R> {
    let mut open: Option<(&str, Option<OwnedFd>)> = None;
    let mut all = Vec::with_capacity(files.len());
    for (path, name) in files {
        if open.as_ref().is_none_or(|(known, _)| known != path) {
            open = Some((path, folder::open_below(root.as_fd(), path).ok()));
        }
        // A folder that went meanwhile is looked for in vain below its name.
        let folder = open.as_ref().and_then(|(_, folder)| folder.as_ref()).unwrap_or(root);
        all.push(look(folder.as_fd(), name, folder::below(path, name)));
    }
    all
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The cache's records; where there are none, or something is odd about them, it is deleted.
fn load(path: &Path) -> Option<Records> {
    match try_load(path) {
        Ok(records) => Some(Records { records, reports: Vec::new() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => {
            path.parent().map(forget);
            None
        }
    }
}

fn try_load(path: &Path) -> io::Result<Vec<Record>> {
    let odd = || io::Error::other("it is no cache");
    let mut file = BufReader::with_capacity(1 << 20, open_regular(path)?);
    let mut digest = Sha256::new();
    let mut line = Vec::new();
    let mut records: Vec<Record> = Vec::new();
    let mut is_first = true;
    loop {
        line.clear();
        file.read_until(b'\n', &mut line)?;
        let is_format = line.trim_ascii_end() == FORMAT.as_bytes();
        if line.is_empty() || is_first != is_format {
            return Err(odd());
        }
        if line.starts_with(END.as_bytes()) {
            return if line == end(digest).as_bytes() { Ok(records) } else { Err(odd()) };
        }
        digest.update(&line);
        if !is_first {
            records.push(serde_json::from_slice(&line)?);
        }
        is_first = false;
    }
}

/// How the last line begins.
const END: &str = "sha256 ";

/// The last line: a digest of all before it.
fn end(digest: Sha256) -> String {
    format!("{END}{}\n", hex(&digest.finalize()))
}

/// Writes the cache whole, and then in the place of the old one.
fn save(path: &Path, records: &[Record]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    ignore_derived(folder)?;
    if path.is_dir() {
        forget(folder);
    }
    let mut part = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    let mut to = BufWriter::with_capacity(1 << 20, part.as_file_mut());
    let mut digest = Sha256::new();
    let mut line = format!("{FORMAT}\n").into_bytes();
    digest.update(&line);
    to.write_all(&line)?;
    for record in records {
        line.clear();
        serde_json::to_writer(&mut line, record)?;
        line.push(b'\n');
        digest.update(&line);
        to.write_all(&line)?;
    }
    to.write_all(end(digest).as_bytes())?;
    to.flush()?;
    drop(to);
    part.persist(path).map(drop).map_err(|error| error.error)
}
