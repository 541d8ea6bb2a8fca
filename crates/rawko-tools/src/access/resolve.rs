//! Resolves a path one component at a time, without letting the kernel follow links.
//!
//! The result is an open directory and a plain name in it, together with the real path of both. Opening that name with
//! `O_NOFOLLOW` gives exactly the file whose path was judged: a link that is swapped in between is an error, not an
//! escape. (`openat2(RESOLVE_BENEATH)` gives the same promise on Linux only, and neither for links between two granted
//! directories nor for a root that is itself reached by a link.)
//!
//! It opens only directories, and these without the right to read them (`O_PATH`, where that exists).

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

/// The most links followed in one path, as in Linux.
const MAX_LINKS: u32 = 40;
/// The most components of one path after its links are followed.
const MAX_COMPONENTS: u32 = 4_096;

#[cfg(any(target_os = "linux", target_os = "android"))]
const PLACE: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const PLACE: OFlags = OFlags::RDONLY;

/// Where a path leads.
#[derive(Debug)]
pub(super) struct ResolvedPath {
    /// The deepest directory on the path that exists.
    pub(super) dir: OwnedFd,
    /// Directories between `dir` and `leaf` that do not exist.
    pub(super) missing: Vec<OsString>,
    /// The last name, which was not a link when it was checked; `None` if the path leads to `dir` itself.
    pub(super) leaf: Option<OsString>,
    /// The real path of the whole.
    pub(super) real: PathBuf,
    /// The folders on that path, `dir` last, from the root on without it.
    pub(super) folders: Vec<(OsString, OwnedFd)>,
}

/// Why a path could not be resolved, and how far it led.
#[derive(Debug)]
pub(super) struct UnresolvedPath {
    /// The real path up to and including the component that failed.
    pub(super) real: PathBuf,
    /// The kernel's error.
    pub(super) errno: Errno,
}

/// Resolves `path`, which must be absolute.
pub(super) fn resolve(path: &Path) -> Result<ResolvedPath, UnresolvedPath> {
    let mut resolver = PathResolver::start(path)?;
    while let Some(part) = resolver.pending.pop() {
        if let Some(place) = resolver.step(part)? {
            return Ok(place);
        }
    }
    resolver.here()
}

struct PathResolver {
    /// Components still to be resolved, the next one last.
    pending: Vec<OsString>,
    /// The path asks for a directory (`a/`, `a/.`).
    wants_dir: bool,
    base: OwnedFd,
    stack: Vec<(OsString, OwnedFd)>,
    links: u32,
    steps: u32,
}

impl PathResolver {
    fn start(path: &Path) -> Result<Self, UnresolvedPath> {
        let lost = |errno| UnresolvedPath { real: PathBuf::from("/"), errno };
        let flags = PLACE | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = openat(CWD, "/", flags, Mode::empty()).map_err(lost)?;
        let mut resolver =
            Self { pending: Vec::new(), wants_dir: false, base, stack: Vec::new(), links: 0, steps: 0 };
        resolver.push(path.as_os_str());
        Ok(resolver)
    }

    /// Puts the components of `path` before those still to be resolved.
    fn push(&mut self, path: &OsStr) {
        let bytes = path.as_bytes();
        let parts: Vec<&[u8]> = bytes.split(|b| *b == b'/').collect();
        if self.pending.is_empty() {
            self.wants_dir |= matches!(parts.last(), Some(&(b"" | b"." | b"..")));
        }
        let named = parts.into_iter().rev().filter(|p| !p.is_empty() && *p != b".");
        self.pending.extend(named.map(|p| OsString::from_vec(p.to_vec())));
    }

    fn step(&mut self, part: OsString) -> Result<Option<ResolvedPath>, UnresolvedPath> {
        self.steps += 1;
        if self.steps > MAX_COMPONENTS {
            return Err(self.lost(&part, Errno::NAMETOOLONG));
        }
        if part == ".." {
            self.stack.pop();
            return Ok(None);
        }
        match readlinkat(self.top(), &part, Vec::new()) {
            Ok(target) => {
                self.links += 1;
                if self.links > MAX_LINKS {
                    return Err(self.lost(&part, Errno::LOOP));
                }
                let target = OsString::from_vec(target.into_bytes());
                if target.as_bytes().starts_with(b"/") {
                    self.stack.clear();
                }
                self.push(&target);
                Ok(None)
            }
            Err(Errno::INVAL) if self.pending.is_empty() && !self.wants_dir => self.leaf(part).map(Some),
            Err(Errno::INVAL) => self.enter(part),
            Err(Errno::NOENT) => self.missing(part).map(Some),
            Err(errno) => Err(self.lost(&part, errno)),
        }
    }

    fn enter(&mut self, part: OsString) -> Result<Option<ResolvedPath>, UnresolvedPath> {
        let flags = PLACE | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(self.top(), &part, flags, Mode::empty()) {
            Ok(fd) => {
                self.stack.push((part, fd));
                Ok(None)
            }
            // It may have become a link since it was checked: check again. The limit on steps ends an endless race.
            Err(Errno::LOOP | Errno::NOTDIR) if readlinkat(self.top(), &part, Vec::new()).is_ok() => {
                self.pending.push(part);
                Ok(None)
            }
            Err(errno) => Err(self.lost(&part, errno)),
        }
    }

    fn leaf(&mut self, part: OsString) -> Result<ResolvedPath, UnresolvedPath> {
        let real = self.real().join(&part);
        let dir = self.dir()?;
        Ok(ResolvedPath { dir, missing: Vec::new(), leaf: Some(part), real, folders: self.folders() })
    }

    /// From here on nothing exists: the remaining components must be plain names.
    fn missing(&mut self, part: OsString) -> Result<ResolvedPath, UnresolvedPath> {
        let mut names = vec![part];
        while let Some(next) = self.pending.pop() {
            if next == ".." {
                return Err(self.lost(&names[0], Errno::NOENT));
            }
            names.push(next);
        }
        let real = names.iter().fold(self.real(), |path, name| path.join(name));
        if self.wants_dir {
            return Err(UnresolvedPath { real, errno: Errno::NOENT });
        }
        let leaf = names.pop();
        Ok(ResolvedPath { dir: self.dir()?, missing: names, leaf, real, folders: self.folders() })
    }

    /// The path leads to a directory.
    fn here(mut self) -> Result<ResolvedPath, UnresolvedPath> {
        let (dir, real) = (self.dir()?, self.real());
        Ok(ResolvedPath { dir, missing: Vec::new(), leaf: None, real, folders: self.folders() })
    }

    fn folders(&mut self) -> Vec<(OsString, OwnedFd)> {
        std::mem::take(&mut self.stack)
    }

    fn top(&self) -> BorrowedFd<'_> {
        self.stack.last().map_or(self.base.as_fd(), |(_, fd)| fd.as_fd())
    }

    fn dir(&self) -> Result<OwnedFd, UnresolvedPath> {
        rustix::io::fcntl_dupfd_cloexec(self.top(), 0).map_err(|errno| self.lost(OsStr::new(""), errno))
    }

    fn real(&self) -> PathBuf {
        let mut path = PathBuf::from("/");
        path.extend(self.stack.iter().map(|(name, _)| name));
        path
    }

    fn lost(&self, part: &OsStr, errno: Errno) -> UnresolvedPath {
        UnresolvedPath { real: self.real().join(part), errno }
    }
}
