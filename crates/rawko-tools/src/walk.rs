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
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

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
const MAX_RULES: usize = 20_000;
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
    mut visit: impl FnMut(&WalkedFile<'_>) -> bool,
) -> WalkEnd {
    let mut seen = 0;
    let mut budget = MAX_RULES;
    let rules = rules_above(access, &start.real, &mut budget);
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
        rules.extend(rules_in(&fd, &here.real, &mut budget));
        let mut below = Vec::new();
        for name in sorted_names(&fd, MAX_ENTRIES - seen) {
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
                if !SKIPPED.iter().any(|s| name == **s) && access.may_enter(&real) {
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
        if seen >= MAX_ENTRIES {
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

/// The rules of the project's directories above `start`, which apply below it too.
fn rules_above(access: &FileAccess, start: &Path, budget: &mut usize) -> IgnoreRules {
    let Ok(rest) = start.strip_prefix(access.root()) else { return Vec::new() };
    let mut rules = Vec::new();
    let mut path = access.root().to_owned();
    for part in rest {
        if let Some(dir) = path.to_str().and_then(|p| access.open_dir(p).ok()) {
            rules.extend(rules_in(&dir.fd, &path, budget));
        }
        path.push(part);
    }
    rules
}

fn rules_in(dir: &OwnedFd, real: &Path, budget: &mut usize) -> IgnoreRules {
    IGNORE_FILES.iter().filter_map(|name| rules_of(dir, name, real, budget)).map(Arc::new).collect()
}

fn rules_of(dir: &OwnedFd, name: &str, real: &Path, budget: &mut usize) -> Option<Gitignore> {
    let file = open_regular(dir.as_fd(), name).ok()??;
    let mut bytes = Vec::new();
    file.take(MAX_IGNORE_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(real);
    let lines = text.lines().take(MAX_IGNORE_LINES.min(*budget));
    for line in lines.filter(|line| line.len() <= MAX_IGNORE_LINE) {
        *budget -= 1;
        // An invalid pattern ignores nothing, as in git.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}
