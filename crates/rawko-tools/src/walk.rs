//! Walks a directory tree for `Glob` and `Grep`, honouring ignore files.
//!
//! Opens every directory through its parent without following a link, and judges it by its real path. So the walk stays
//! inside what is granted even while others move files. The cost of ignore files is bounded: a hostile one slows nothing
//! down and hides at most itself.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rawko_core::agent::Permissions;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

use crate::access::{FileAccess, OpenedDir, file_type, open_regular};
use crate::call::Cancel;

/// The most entries visited in one walk.
const MAX_ENTRIES: usize = 500_000;
/// The deepest nesting below the start.
const MAX_DEPTH: usize = 200;
/// Names of ignore files; a later one overrides an earlier one.
const IGNORE_FILES: [&str; 3] = [".gitignore", ".ignore", ".rgignore"];
/// The most bytes, lines, and bytes of a line that are read of one ignore file.
const MAX_IGNORE_BYTES: u64 = 256 * 1024;
const MAX_IGNORE_LINES: usize = 2_000;
const MAX_IGNORE_LINE: usize = 1_024;
/// The most lines that are read of all ignore files of one walk.
const MAX_RULES: usize = 5_000;
/// Directories of version control, which a search never enters.
const SKIPPED: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// A regular file that the walk visits.
pub(crate) struct WalkedFile<'a> {
    /// The directory that contains it.
    pub(crate) dir: &'a OwnedFd,
    /// Its name there.
    pub(crate) name: &'a std::ffi::OsStr,
    /// Its real path.
    pub(crate) real: &'a Path,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    /// Everything was visited.
    Complete,
    /// The visitor stopped, or the call was cancelled.
    Stopped,
    /// There are more entries than the limit.
    TooLarge,
}

/// A directory still to be listed.
struct PendingDir {
    /// The directory that contains it, and its name there; `None` for the start itself.
    parent: Option<(Arc<OwnedFd>, std::ffi::OsString)>,
    real: PathBuf,
    rules: IgnoreRules,
    depth: usize,
}

/// The ignore rules that apply in a directory, the nearest last.
type IgnoreRules = Vec<Arc<Gitignore>>;

/// Calls `visit` with every regular file below `start` that may be read and is not ignored, in order of names, until it
/// returns `false`.
pub(crate) fn walk(
    access: &FileAccess,
    start: OpenedDir,
    cancel: &Cancel,
    visit: impl FnMut(&WalkedFile<'_>) -> bool,
) -> WalkEnd {
    let bounds =
        WalkLimits { entries: MAX_ENTRIES, enters: |name| SKIPPED.iter().all(|skipped| name != *skipped) };
    walk_within(access, start, bounds, &mut RuleReader::default(), cancel, visit)
}

/// How much of a tree is walked.
#[derive(Clone, Copy)]
struct WalkLimits {
    /// The most entries.
    entries: usize,
    /// Whether a directory of this name is entered.
    enters: fn(&std::ffi::OsStr) -> bool,
}

/// The result of looking at a project's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesSeen {
    /// Whether all were seen.
    pub complete: bool,
    /// Ignore files that were not read to their end, because of their size.
    pub cut: Vec<PathBuf>,
    /// Ignore files that were not read, because they are no regular files.
    pub odd: Vec<PathBuf>,
}

/// Calls `visit` with the path of every regular file below `start` that no ignore file excludes, from `root` on; at most
/// `most` entries are looked at. `start` is in `root`, and both are real paths.
///
/// # Errors
/// If one of them cannot be opened.
pub fn project_files(
    root: &Path,
    start: &Path,
    most: usize,
    enters: fn(&std::ffi::OsStr) -> bool,
    mut visit: impl FnMut(&Path),
) -> std::io::Result<FilesSeen> {
    let access = FileAccess::new(root, &Permissions::default()).map_err(std::io::Error::other)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(CWD, start, flags, Mode::empty())?;
    let start = OpenedDir { fd, real: start.to_owned() };
    let mut reader = RuleReader::default();
    let bounds = WalkLimits { entries: most, enters };
    let end = walk_within(&access, start, bounds, &mut reader, &Cancel::default(), |file| {
        visit(file.real);
        true
    });
    Ok(FilesSeen { complete: end == WalkEnd::Complete, cut: reader.cut, odd: reader.odd })
}

fn walk_within(
    access: &FileAccess,
    start: OpenedDir,
    bounds: WalkLimits,
    reader: &mut RuleReader,
    cancel: &Cancel,
    mut visit: impl FnMut(&WalkedFile<'_>) -> bool,
) -> WalkEnd {
    let mut seen = 0;
    let rules = reader.above(access, &start.real);
    let mut start_fd = Some(start.fd);
    let mut waiting = vec![PendingDir { parent: None, real: start.real, rules, depth: 0 }];
    while let Some(here) = waiting.pop() {
        let fd = match &here.parent {
            None => start_fd.take(),
            Some((parent, name)) => enter(parent, name),
        };
        // It was removed, or became inaccessible, after it was listed.
        let Some(fd) = fd.map(Arc::new) else { continue };
        let mut rules = here.rules;
        rules.extend(reader.rules_in(&fd, &here.real));
        let mut below = Vec::new();
        for name in sorted_names(&fd, bounds.entries - seen) {
            seen += 1;
            if cancel.is_set() {
                return WalkEnd::Stopped;
            }
            let real = here.real.join(&name);
            let Ok(kind) = statat(&fd, &name, AtFlags::SYMLINK_NOFOLLOW).map(|s| file_type(&s)) else {
                continue;
            };
            let is_dir = kind == FileType::Directory;
            if is_ignored(&rules, &real, is_dir) {
                continue;
            }
            if is_dir && here.depth < MAX_DEPTH {
                if (bounds.enters)(&name) && access.may_enter(&real) {
                    let parent = Some((Arc::clone(&fd), name));
                    below.push(PendingDir { parent, real, rules: rules.clone(), depth: here.depth + 1 });
                }
            } else if kind == FileType::RegularFile && access.may_read(&real) {
                let file = WalkedFile { dir: &fd, name: &name, real: &real };
                if !visit(&file) {
                    return WalkEnd::Stopped;
                }
            }
        }
        if seen >= bounds.entries {
            return WalkEnd::TooLarge;
        }
        waiting.extend(below.into_iter().rev());
    }
    WalkEnd::Complete
}

fn enter(parent: &OwnedFd, name: &std::ffi::OsStr) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty()).ok()
}

fn sorted_names(fd: &OwnedFd, max: usize) -> Vec<std::ffi::OsString> {
    use std::os::unix::ffi::OsStrExt as _;
    let Ok(entries) = Dir::read_from(fd) else { return Vec::new() };
    let mut names: Vec<std::ffi::OsString> = entries
        .flatten()
        .map(|entry| std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()).to_owned())
        .filter(|name| name != "." && name != "..")
        .take(max)
        .collect();
    names.sort_unstable();
    names
}

fn is_ignored(rules: &IgnoreRules, real: &Path, is_dir: bool) -> bool {
    for rule in rules.iter().rev() {
        match rule.matched(real, is_dir) {
            Match::None => {}
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
        }
    }
    false
}

/// Reads ignore files as long as there are not too many lines in all.
struct RuleReader {
    /// Lines that may still be read.
    left: usize,
    /// Files that were not read to their end.
    cut: Vec<PathBuf>,
    /// What is no regular file.
    odd: Vec<PathBuf>,
}

impl Default for RuleReader {
    fn default() -> Self {
        Self { left: MAX_RULES, cut: Vec::new(), odd: Vec::new() }
    }
}

impl RuleReader {
    /// The rules of the project's directories above `start`, which apply below it too.
    fn above(&mut self, access: &FileAccess, start: &Path) -> IgnoreRules {
        let Ok(rest) = start.strip_prefix(access.root()) else { return Vec::new() };
        let mut rules = Vec::new();
        let mut path = access.root().to_owned();
        for part in rest {
            if let Some(dir) = path.to_str().and_then(|p| access.open_dir(p).ok()) {
                rules.extend(self.rules_in(&dir.fd, &path));
            }
            path.push(part);
        }
        rules
    }

    fn rules_in(&mut self, dir: &OwnedFd, real: &Path) -> IgnoreRules {
        IGNORE_FILES.iter().filter_map(|name| self.rules_of(dir, name, real)).map(Arc::new).collect()
    }

    fn rules_of(&mut self, dir: &OwnedFd, name: &str, real: &Path) -> Option<Gitignore> {
        let Some(file) = open_regular(dir.as_fd(), name).ok()? else {
            self.odd.push(real.join(name));
            return None;
        };
        let mut bytes = Vec::new();
        file.take(MAX_IGNORE_BYTES + 1).read_to_end(&mut bytes).ok()?;
        let is_whole = bytes.len() as u64 <= MAX_IGNORE_BYTES;
        let text = String::from_utf8_lossy(&bytes);
        let mut builder = GitignoreBuilder::new(real);
        let mut lines = text.lines();
        let (mut read, mut is_short) = (0, true);
        for line in lines.by_ref().take(MAX_IGNORE_LINES.min(self.left)) {
            read += 1;
            is_short &= line.len() <= MAX_IGNORE_LINE;
            if line.len() <= MAX_IGNORE_LINE {
                // An invalid pattern ignores nothing, as in git.
                let _ = builder.add_line(None, line);
            }
        }
        self.left -= read;
        if !is_whole || !is_short || lines.next().is_some() {
            self.cut.push(real.join(name));
        }
        builder.build().ok()
    }
}
