//! Resolves a path by hand, one component at a time, never letting the kernel follow a link.
//!
//! The result is an open directory and a plain name in it, together with the real place of both. Whoever
//! opens that name with `O_NOFOLLOW` gets exactly the file whose place was judged: a link that is swapped in
//! between is an error, not an escape. (`openat2(RESOLVE_BENEATH)` gives the same promise on Linux alone, and
//! neither for links between two granted directories nor for a root that is itself reached by a link.)
//!
//! Nothing is opened but directories, and these only as places (`O_PATH` where there is such a thing).

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

/// Links followed in one path, as in Linux.
const MAX_LINKS: u32 = 40;
/// Components in one path after its links are followed.
const MAX_COMPONENTS: u32 = 4_096;

#[cfg(any(target_os = "linux", target_os = "android"))]
const PLACE: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const PLACE: OFlags = OFlags::RDONLY;

/// Where a path leads.
#[derive(Debug)]
pub(super) struct Place {
    /// The deepest directory that exists on the way.
    pub(super) dir: OwnedFd,
    /// Directories between `dir` and `leaf` that do not exist.
    pub(super) missing: Vec<OsString>,
    /// The last name, not a link when it was looked at; `None` if the path leads to `dir` itself.
    pub(super) leaf: Option<OsString>,
    /// The real path of it all.
    pub(super) real: PathBuf,
}

/// Why a path leads nowhere, and how far it led.
#[derive(Debug)]
pub(super) struct LostWay {
    /// The real path up to and with the component that failed.
    pub(super) real: PathBuf,
    /// What the kernel said.
    pub(super) errno: Errno,
}

/// Follows `path`, which must be absolute.
pub(super) fn follow(path: &Path) -> Result<Place, LostWay> {
    let mut way = Way::start(path)?;
    while let Some(part) = way.pending.pop() {
        if let Some(place) = way.step(part)? {
            return Ok(place);
        }
    }
    way.here()
}

struct Way {
    /// Components still to be walked, the next one last.
    pending: Vec<OsString>,
    /// The path demands a directory (`a/`, `a/.`).
    wants_dir: bool,
    base: OwnedFd,
    stack: Vec<(OsString, OwnedFd)>,
    links: u32,
    steps: u32,
}

impl Way {
    fn start(path: &Path) -> Result<Self, LostWay> {
        let lost = |errno| LostWay { real: PathBuf::from("/"), errno };
        let flags = PLACE | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = openat(CWD, "/", flags, Mode::empty()).map_err(lost)?;
        let mut way =
            Self { pending: Vec::new(), wants_dir: false, base, stack: Vec::new(), links: 0, steps: 0 };
        way.push(path.as_os_str());
        Ok(way)
    }

    /// Puts the components of `path` in front of what is still to be walked.
    fn push(&mut self, path: &OsStr) {
        let bytes = path.as_bytes();
        let parts: Vec<&[u8]> = bytes.split(|b| *b == b'/').collect();
        if self.pending.is_empty() {
            self.wants_dir |= matches!(parts.last(), Some(&(b"" | b"." | b"..")));
        }
        let named = parts.into_iter().rev().filter(|p| !p.is_empty() && *p != b".");
        self.pending.extend(named.map(|p| OsString::from_vec(p.to_vec())));
    }

    fn step(&mut self, part: OsString) -> Result<Option<Place>, LostWay> {
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

    fn enter(&mut self, part: OsString) -> Result<Option<Place>, LostWay> {
        let flags = PLACE | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(self.top(), &part, flags, Mode::empty()) {
            Ok(fd) => {
                self.stack.push((part, fd));
                Ok(None)
            }
            // It may have become a link since it was looked at: a second look tells, and the count of
            // steps ends a race that goes on and on.
            Err(Errno::LOOP | Errno::NOTDIR) if readlinkat(self.top(), &part, Vec::new()).is_ok() => {
                self.pending.push(part);
                Ok(None)
            }
            Err(errno) => Err(self.lost(&part, errno)),
        }
    }

    fn leaf(&self, part: OsString) -> Result<Place, LostWay> {
        let real = self.real().join(&part);
        Ok(Place { dir: self.dir()?, missing: Vec::new(), leaf: Some(part), real })
    }

    /// From here on nothing exists: the rest is plain names, or it is an error.
    fn missing(&mut self, part: OsString) -> Result<Place, LostWay> {
        let mut names = vec![part];
        while let Some(next) = self.pending.pop() {
            if next == ".." {
                return Err(self.lost(&names[0], Errno::NOENT));
            }
            names.push(next);
        }
        let real = names.iter().fold(self.real(), |path, name| path.join(name));
        if self.wants_dir {
            return Err(LostWay { real, errno: Errno::NOENT });
        }
        let leaf = names.pop();
        Ok(Place { dir: self.dir()?, missing: names, leaf, real })
    }

    /// The path led to a directory.
    fn here(self) -> Result<Place, LostWay> {
        Ok(Place { dir: self.dir()?, missing: Vec::new(), leaf: None, real: self.real() })
    }

    fn top(&self) -> BorrowedFd<'_> {
        self.stack.last().map_or(self.base.as_fd(), |(_, fd)| fd.as_fd())
    }

    fn dir(&self) -> Result<OwnedFd, LostWay> {
        rustix::io::fcntl_dupfd_cloexec(self.top(), 0).map_err(|errno| self.lost(OsStr::new(""), errno))
    }

    fn real(&self) -> PathBuf {
        let mut path = PathBuf::from("/");
        path.extend(self.stack.iter().map(|(name, _)| name));
        path
    }

    fn lost(&self, part: &OsStr, errno: Errno) -> LostWay {
        LostWay { real: self.real().join(part), errno }
    }
}
