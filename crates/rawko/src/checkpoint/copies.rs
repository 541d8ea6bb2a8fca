//! Kept trees where there is no git program: plain copies, each content once, in the session's own folder.
//!
//! What is ignored is read from the project's `.gitignore` files by rawko itself. Everything is bounded as strangers'
//! files are with git: without it, every file is one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, readlinkat, statat};
use sha2::{Digest as _, Sha256};

use super::error::CheckpointError;
use super::listing::{
    Listing, MAX_BYTES, MAX_FILE, MAX_FILES, Never, Sieve, TreePath, open_beneath, too_much,
};
use super::own::{self, create_folder, remove};
use super::snapshot::{self, Entry, EntryKind, Snapshot};
use crate::hex::hex;

/// Begins the name of every tree that is kept like this.
const PREFIX: &str = "copy-";
/// Begins a record of what a tree lacks.
const NOT_KEPT: &str = "not-kept\t";
/// What is heeded of one ignore file.
const MAX_IGNORE_BYTES: u64 = 256 * 1024;
const MAX_IGNORE_LINES: usize = 2_000;
const MAX_IGNORE_LINE: usize = 1_024;
/// Entries that are looked at.
const MAX_ENTRIES: usize = 500_000;
/// Nesting of folders.
const MAX_DEPTH: usize = 200;

/// Whether a tree was kept by copies.
pub(super) fn is_copy(id: &str) -> bool {
    id.strip_prefix(PREFIX).is_some_and(is_digest)
}

fn is_digest(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The copies of one session.
#[derive(Debug)]
pub(super) struct Copies<'a> {
    pub(super) project: &'a Path,
    /// `checkpoints/` in the session's directory.
    pub(super) folder: &'a Path,
}

impl Copies<'_> {
    /// Keeps the files of `listing` under `name`.
    pub(super) fn keep(
        &self,
        name: &str,
        listing: &Listing,
        forget: Option<&str>,
    ) -> Result<String, CheckpointError> {
        self.create_folders()?;
        let snapshot = self.read(listing, |id, content| self.store(id, content))?;
        let mut manifest = manifest_of(&snapshot);
        for (path, why) in &listing.skipped {
            manifest.extend(format!("{NOT_KEPT}{} ({why})\0", path.escape_ascii()).bytes());
        }
        let id = self.name(name, &manifest)?;
        forget.map_or(Ok(()), |other| remove(&self.names_folder().join(other)))?;
        Ok(id)
    }

    pub(super) fn create_folders(&self) -> Result<(), CheckpointError> {
        create_folder(&self.contents_folder())?;
        create_folder(&self.names_folder())
    }

    /// Holds the tree with this manifest under `name`.
    pub(super) fn name(&self, name: &str, manifest: &[u8]) -> Result<String, CheckpointError> {
        let digest = digest(manifest);
        self.store(&digest, manifest)?;
        let id = format!("{PREFIX}{digest}");
        own::write(self.folder, &self.names_folder().join(name), format!("{id}\n").as_bytes())?;
        Ok(id)
    }

    /// The tree as it is, with nothing kept.
    pub(super) fn present(&self, listing: &Listing) -> Result<Snapshot, CheckpointError> {
        self.read(listing, |_, _| Ok(()))
    }

    /// Names a tree, whatever may be missing of it.
    pub(super) fn name_of(&self, snapshot: &Snapshot) -> String {
        format!("{PREFIX}{}", digest(&manifest_of(snapshot)))
    }

    /// The content of a file as it is now.
    pub(super) fn present_content(&self, path: &[u8]) -> Option<Vec<u8>> {
        read_file(&open_root(self.project).ok()?, path).map(|(_, content)| content)
    }

    /// All names with what they hold.
    pub(super) fn names(&self) -> BTreeMap<String, String> {
        let Ok(entries) = std::fs::read_dir(self.names_folder()) else { return BTreeMap::new() };
        let held = |entry: std::fs::DirEntry| {
            let name = entry
                .file_name()
                .into_string()
                .ok()
                .filter(|_| entry.file_type().is_ok_and(|kind| kind.is_file()))?;
            let id = std::fs::read_to_string(entry.path()).ok()?.trim().to_owned();
            is_copy(&id).then_some((name, id))
        };
        entries.filter_map(Result::ok).filter_map(held).collect()
    }

    /// The files of a kept tree.
    pub(super) fn snapshot(&self, id: &str) -> Result<Snapshot, CheckpointError> {
        Ok(snapshot::parse(&self.manifest(id)?))
    }

    /// What a kept tree lacks.
    pub(super) fn not_kept(&self, id: &str) -> Result<Vec<String>, CheckpointError> {
        let manifest = self.manifest(id)?;
        let records = manifest.split(|byte| *byte == 0).filter_map(|record| std::str::from_utf8(record).ok());
        Ok(records.filter_map(|record| record.strip_prefix(NOT_KEPT)).map(str::to_owned).collect())
    }

    /// The contents of these files, in their order.
    pub(super) fn contents(&self, ids: &[&str]) -> Result<Vec<Vec<u8>>, CheckpointError> {
        ids.iter().map(|id| self.content(id)).collect()
    }

    pub(super) fn manifest(&self, id: &str) -> Result<Vec<u8>, CheckpointError> {
        self.content(id.strip_prefix(PREFIX).unwrap_or(id))
    }

    /// A content is what its name says, or it is not there.
    pub(super) fn content(&self, id: &str) -> Result<Vec<u8>, CheckpointError> {
        let gone =
            || CheckpointError::Gone { id: id.escape_debug().to_string(), store: self.folder.to_owned() };
        if !is_digest(id) {
            return Err(gone());
        }
        let content = own::read(&self.contents_folder().join(id)).ok_or_else(gone)?;
        if digest(&content) == id { Ok(content) } else { Err(gone()) }
    }

    pub(super) fn store(&self, id: &str, content: &[u8]) -> Result<(), CheckpointError> {
        let path = self.contents_folder().join(id);
        let is_there = |found: std::fs::Metadata| found.is_file() && found.len() == content.len() as u64;
        if path.symlink_metadata().is_ok_and(is_there) {
            return Ok(());
        }
        own::write(self.folder, &path, content)
    }

    fn read(
        &self,
        listing: &Listing,
        mut each: impl FnMut(&str, &[u8]) -> Result<(), CheckpointError>,
    ) -> Result<Snapshot, CheckpointError> {
        let root = open_root(self.project)?;
        let mut snapshot = Snapshot::new();
        for path in &listing.files {
            // What is gone since it was listed is not part of the tree.
            let Some((kind, content)) = read_file(&root, path) else { continue };
            let id = digest(&content);
            each(&id, &content)?;
            snapshot.insert(path.clone(), Entry { kind, id, size: content.len() as u64 });
        }
        Ok(snapshot)
    }

    fn contents_folder(&self) -> PathBuf {
        self.folder.join("copies")
    }

    fn names_folder(&self) -> PathBuf {
        self.folder.join("names")
    }
}

/// Lists the tree, and what of `also` is there, ignored or not.
pub(super) fn list(
    project: &Path,
    never: &Never,
    also: &BTreeSet<TreePath>,
) -> Result<Listing, CheckpointError> {
    let mut sieve = Sieve::new(project, never)?;
    for path in not_ignored(project)?.iter().chain(also) {
        sieve.take(path);
        if sieve.listing.files.len() > MAX_FILES || sieve.bytes > MAX_BYTES {
            return Err(too_much(project, sieve.listing.files.len(), sieve.bytes));
        }
    }
    Ok(sieve.listing)
}

/// All files that no `.gitignore` ignores.
pub(super) fn not_ignored(project: &Path) -> Result<BTreeSet<TreePath>, CheckpointError> {
    let mut found = BTreeSet::new();
    let mut seen = 0;
    let root = open_root(project)?;
    let mut waiting = vec![(TreePath::new(), Vec::<Gitignore>::new(), 0_usize)];
    while let Some((folder, mut rules, depth)) = waiting.pop() {
        let name = if folder.is_empty() { b"." } else { folder.as_slice() };
        // Gone since it was listed, or not to be read: nothing of it can be kept.
        let Ok(opened) = open_beneath(&root, name) else { continue };
        let Ok(entries) = Dir::read_from(&opened) else { continue };
        let at = project.join(path_of(&folder));
        rules.extend(rules_in(&opened, &at));
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || name.eq_ignore_ascii_case(b".git") {
                continue;
            }
            seen += 1;
            if seen > MAX_ENTRIES {
                return Err(too_much(project, seen, 0));
            }
            let Ok(stat) = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let mut path = folder.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(name);
            if is_ignored(&rules, &project.join(path_of(&path)), is_folder) {
                continue;
            }
            if !is_folder {
                found.insert(path);
            } else if depth < MAX_DEPTH && !is_repository(&opened, name) {
                waiting.push((path, rules.clone(), depth + 1));
            }
        }
    }
    Ok(found)
}

fn open_root(project: &Path) -> Result<OwnedFd, CheckpointError> {
    rustix::fs::open(project, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| CheckpointError::io("cannot open the project", project, errno))
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn is_repository(at: &OwnedFd, name: &[u8]) -> bool {
    statat(at, [name, b"/.git"].concat(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn is_ignored(rules: &[Gitignore], path: &Path, is_folder: bool) -> bool {
    for rule in rules.iter().rev() {
        match rule.matched(path, is_folder) {
            Match::None => {}
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
        }
    }
    false
}

fn rules_in(folder: &OwnedFd, at: &Path) -> Option<Gitignore> {
    let file = File::from(open_beneath(folder, b".gitignore").ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_IGNORE_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(at);
    for line in text.lines().take(MAX_IGNORE_LINES).filter(|line| line.len() <= MAX_IGNORE_LINE) {
        // A pattern that makes no sense ignores nothing, as in git.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}

fn read_file(root: &OwnedFd, path: &[u8]) -> Option<(EntryKind, Vec<u8>)> {
    let kind = FileType::from_raw_mode(statat(root, path, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_mode);
    if kind == FileType::Symlink {
        return Some((EntryKind::Link, readlinkat(root.as_fd(), path, Vec::new()).ok()?.into_bytes()));
    }
    let file = File::from(open_beneath(root, path).ok()?);
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut content = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut content).ok()?;
    let kind = if metadata.mode() & 0o100 == 0 { EntryKind::File } else { EntryKind::Executable };
    Some((kind, content))
}

fn manifest_of(snapshot: &Snapshot) -> Vec<u8> {
    let mut manifest = Vec::new();
    for (path, Entry { kind, id, size }) in snapshot {
        manifest.extend(format!("{} blob {id} {size}\t", kind.mode()).bytes());
        manifest.extend(path);
        manifest.push(0);
    }
    manifest
}

fn digest(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}
