//! File access for agents: resolves every path to its real path, judges that, and opens exactly that.
//!
//! This is the second wall around files; the first is the policy in the core. No link, no `..` and no race leads outside
//! what the permissions grant, `deny` wins, and only regular files are read or replaced. Paths are not interpreted: `~`,
//! variables and patterns are ordinary characters here.

mod check;
mod error;
mod grants;
mod hard_links;
mod private;
mod protected;
mod replace;
mod repository;
mod resolve;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rawko_core::agent::Permissions;
use rawko_core::tool::Refusal;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

pub(crate) use check::{FileUse, check, leads_out};
pub use error::AccessError;
pub use grants::protected_name;
use grants::{Barrier, PathGrants};
pub(crate) use grants::{PROTECTED, lexical};
use hard_links::DeniedLinks;
pub(crate) use private::PRIVATE;
use protected::ProtectedPlaces;
pub(crate) use replace::WriteTarget;
pub(crate) use repository::is_repository;
use resolve::{ResolvedPath, UnresolvedPath};

use crate::file_stamp::file_id;
use crate::tool::ToolContext;

/// The most bytes of a file that is read, edited or overwritten as a whole.
pub(crate) const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;
/// How often a path that changes during the access is resolved again.
const TRIES: u32 = 16;

/// The files that one agent may access.
#[derive(Debug)]
pub struct FileAccess {
    /// The project's path as it was given: other paths may be spelt through it.
    given_root: PathBuf,
    root: PathBuf,
    grants: PathGrants,
    protected: ProtectedPlaces,
    /// Found when the first file with several names is opened.
    denied_links: OnceLock<DeniedLinks>,
}

/// The folders that a resolved path leads through.
type Folders = [(OsString, OwnedFd)];

/// A regular file, open for reading.
#[derive(Debug)]
pub struct OpenedFile {
    pub(crate) file: File,
    /// Its name for people and for the tracker: relative to the project if it is inside.
    pub(crate) name: String,
}

/// A directory, open for listing.
#[derive(Debug)]
pub(crate) struct OpenedDir {
    pub(crate) fd: OwnedFd,
    /// Its real path.
    pub(crate) real: PathBuf,
}

impl FileAccess {
    /// The access that `permissions` grant in the project at `root`.
    ///
    /// # Errors
    /// If the project does not exist or an entry of the permissions cannot be used.
    pub fn new(root: &Path, permissions: &Permissions) -> Result<Self, AccessError> {
        let shown = root.display().to_string();
        let given_root =
            std::path::absolute(root).map_err(|e| AccessError::io(&shown, "finding the project", e))?;
        let real = std::fs::canonicalize(&given_root)
            .map_err(|e| AccessError::io(&shown, "finding the project", e))?;
        let grants = PathGrants::new(permissions, &given_root, &real, real_place)?;
        let protected = ProtectedPlaces::of(&real);
        Ok(Self { given_root, root: real, grants, protected, denied_links: OnceLock::new() })
    }

    /// The access that a call has: what its agent's permissions grant, and what a person granted to this call alone.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn of(context: &ToolContext) -> Result<Self, AccessError> {
        let mut access = Self::new(&context.root, &context.permissions)?;
        access.grants.approve(&context.approved);
        Ok(access)
    }

    /// The real path of the project.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The real paths below which everything may be read, `deny` aside.
    pub(crate) fn readable(&self) -> &[PathBuf] {
        &self.grants.read
    }

    /// The real paths below which everything may be written that is neither denied nor protected.
    pub(crate) fn writable(&self) -> &[PathBuf] {
        &self.grants.write
    }

    /// Those of them that lie outside the project, or around it.
    #[must_use]
    pub fn writable_outside(&self) -> Vec<PathBuf> {
        self.writable().iter().filter(|place| !place.starts_with(&self.root)).cloned().collect()
    }

    /// The denied paths that are no patterns, and whether there are patterns too.
    pub(crate) fn denied_places(&self) -> (Vec<PathBuf>, bool) {
        self.grants.denied_places()
    }

    /// The names that are protected besides those that always are.
    pub(crate) fn protect(&self) -> &[String] {
        &self.grants.protect
    }

    /// Whether a name on the way to a real path is protected, in the project or outside of it.
    pub(crate) fn is_protected(&self, real: &Path) -> bool {
        self.grants.protected_name(real.strip_prefix(&self.root).unwrap_or(real)).is_some()
    }

    /// For each pattern of `deny`, the folder that contains all its matches.
    pub(crate) fn pattern_folders(&self) -> Vec<PathBuf> {
        self.grants.pattern_folders()
    }

    /// Whether an entry of `deny` covers this real path.
    pub(crate) fn is_denied(&self, path: &Path) -> bool {
        matches!(self.grants.denied(path), Some(Barrier::Entry(_)))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// If the path is not granted, does not exist or is not a regular file.
    pub fn open_file(&self, path: &str) -> Result<OpenedFile, AccessError> {
        for _ in 0..TRIES {
            let place =
                self.place(path, |real, spelt, folders| self.judge_read(path, real, spelt, folders))?;
            let kind = |kind| AccessError::WrongKind { path: path.to_owned(), kind, wanted: "a file" };
            let Some(leaf) = place.leaf.as_deref().filter(|_| place.missing.is_empty()) else {
                return Err(match place.leaf {
                    None => kind("a directory"),
                    Some(_) => self.not_found(path, &place),
                });
            };
            // Do not even open a device or FIFO: opening alone can block or have an effect.
            match statat(&place.dir, leaf, AtFlags::SYMLINK_NOFOLLOW).map(|stat| file_type(&stat)) {
                Ok(FileType::RegularFile) => {}
                Ok(FileType::Symlink) => continue,
                Ok(other) => return Err(kind(kind_name(other))),
                Err(Errno::NOENT) => return Err(self.not_found(path, &place)),
                Err(errno) => return Err(AccessError::io(path, "looking", errno)),
            }
            match open_regular(place.dir.as_fd(), leaf) {
                Ok(Some(file)) if self.is_denied_link(&file) => {
                    return Err(AccessError::DeniedLink { path: path.to_owned() });
                }
                Ok(Some(file)) => {
                    return Ok(OpenedFile { file, name: self.display(&place.real) });
                }
                Ok(None) => return Err(kind("no regular file any more")),
                Err(Errno::LOOP) => {}
                Err(Errno::NOENT) => return Err(self.not_found(path, &place)),
                Err(errno) => return Err(AccessError::io(path, "opening", errno)),
            }
        }
        Err(AccessError::Changed { path: path.to_owned() })
    }

    /// Opens a directory for listing, also one that is not granted itself but contains something that is.
    ///
    /// # Errors
    /// If the path is not granted, does not exist or is not a directory.
    pub(crate) fn open_dir(&self, path: &str) -> Result<OpenedDir, AccessError> {
        let place = self.place(path, |real, spelt, folders| self.judge_list(path, real, spelt, folders))?;
        let leaf = match (&place.leaf, place.missing.is_empty()) {
            (None, _) => Path::new("."),
            (Some(leaf), true) => Path::new(leaf),
            (Some(_), false) => return Err(self.not_found(path, &place)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&place.dir, leaf, flags, Mode::empty()) {
            Ok(fd) => Ok(OpenedDir { fd, real: place.real }),
            Err(Errno::NOENT) => Err(self.not_found(path, &place)),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(AccessError::WrongKind {
                path: path.to_owned(),
                kind: "no directory",
                wanted: "a directory",
            }),
            Err(errno) => Err(AccessError::io(path, "opening", errno)),
        }
    }

    /// Resolves the path of a file to write, whether it exists or not.
    ///
    /// # Errors
    /// If the path may not be written, or something else than a regular file is there.
    pub(crate) fn write_target(&self, path: &str) -> Result<WriteTarget, AccessError> {
        let place = self.place(path, |real, spelt, folders| self.judge_write(path, real, spelt, folders))?;
        let name = self.display(&place.real);
        let Some(leaf) = place.leaf else {
            return Err(AccessError::WrongKind {
                path: path.to_owned(),
                kind: "a directory",
                wanted: "a file",
            });
        };
        if place.missing.is_empty() {
            match statat(&place.dir, &leaf, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if file_type(&stat) == FileType::RegularFile => {
                    if stat.st_nlink > 1 && self.denied_links().may_contain(protected::id(&stat)) {
                        return Err(AccessError::DeniedLink { path: path.to_owned() });
                    }
                }
                Err(Errno::NOENT) => {}
                Ok(other) => {
                    let kind = kind_name(file_type(&other));
                    return Err(AccessError::WrongKind { path: path.to_owned(), kind, wanted: "a file" });
                }
                Err(errno) => return Err(AccessError::io(path, "looking", errno)),
            }
        }
        Ok(WriteTarget { dir: place.dir, missing: place.missing, leaf, name, path: path.to_owned() })
    }

    /// Whether a walk may enter this directory.
    pub(crate) fn may_enter(&self, real: &Path) -> bool {
        self.grants.leads_to_readable(real) && self.is_open(real)
    }

    /// Whether a walk may read this file.
    pub(crate) fn may_read(&self, real: &Path) -> bool {
        self.grants.reads(real) && self.is_open(real)
    }

    fn is_open(&self, real: &Path) -> bool {
        self.grants.denied(real).is_none() && !self.protected.is_of_sessions(real, &[])
    }

    /// Whether this is a denied file under another name.
    pub(crate) fn is_denied_link(&self, file: &File) -> bool {
        match file.metadata() {
            Ok(found) if found.nlink() <= 1 => false,
            Ok(found) => self.denied_links().may_contain(file_id(&found)),
            Err(_) => true,
        }
    }

    fn denied_links(&self) -> &DeniedLinks {
        self.denied_links.get_or_init(|| DeniedLinks::of(&self.grants))
    }

    /// A real path for display: relative to the project if it is inside.
    pub(crate) fn display(&self, real: &Path) -> String {
        let shown = real.strip_prefix(&self.root).unwrap_or(real);
        if shown.as_os_str().is_empty() { ".".to_owned() } else { shown.to_string_lossy().into_owned() }
    }

    fn place(
        &self,
        path: &str,
        judge: impl Fn(&Path, &Path, &Folders) -> Result<(), AccessError>,
    ) -> Result<ResolvedPath, AccessError> {
        let malformed = |why| Err(AccessError::Malformed { path: path.escape_debug().to_string(), why });
        if path.contains('\0') {
            return malformed("it contains a NUL");
        }
        if path.is_empty() {
            return malformed("it is empty");
        }
        let whole = self.root.join(path);
        let spelt = self.spelt(&whole);
        match resolve::resolve(&whole) {
            Ok(place) => judge(&place.real, &spelt, &place.folders).map(|()| place),
            Err(UnresolvedPath { real, errno }) => {
                // Judge first: an agent may not learn whether a path exists that is not granted.
                judge(&real, &spelt, &[])?;
                Err(match errno {
                    Errno::NOENT => AccessError::NotFound { path: path.to_owned(), hint: String::new() },
                    Errno::NOTDIR => AccessError::WrongKind {
                        path: path.to_owned(),
                        kind: "a file or leads through one",
                        wanted: "a directory",
                    },
                    errno => AccessError::io(path, "finding it", errno),
                })
            }
        }
    }

    /// The path as text, with the project's given path replaced by its real one.
    fn spelt(&self, whole: &Path) -> PathBuf {
        let plain = grants::lexical(whole);
        match plain.strip_prefix(&self.given_root) {
            Ok(rest) => self.root.join(rest),
            Err(_) => plain,
        }
    }

    fn judge_deny(&self, path: &str, real: &Path, spelt: &Path) -> Result<(), AccessError> {
        match self.grants.denied(real).or_else(|| self.grants.denied(spelt)) {
            None => Ok(()),
            Some(Barrier::Entry(entry)) => {
                Err(AccessError::Denied { path: path.to_owned(), entry: entry.to_owned() })
            }
            Some(Barrier::Never(place)) => Err(AccessError::Never { path: path.to_owned(), place }),
            Some(Barrier::Private(place)) => {
                Err(AccessError::Private { path: path.to_owned(), place: place.display().to_string() })
            }
        }
    }

    fn judge_read(
        &self,
        path: &str,
        real: &Path,
        spelt: &Path,
        folders: &Folders,
    ) -> Result<(), AccessError> {
        self.judge_deny(path, real, spelt)?;
        if self.protected.is_of_sessions(real, folders) {
            return Err(AccessError::Sessions { path: path.to_owned() });
        }
        if self.grants.reads(real) {
            Ok(())
        } else {
            let needs = Refusal::Read { path: name_of(real) };
            Err(self.outside(path, "read", "read", &self.grants.read, real, needs))
        }
    }

    /// A directory may also be listed if it is not granted itself but contains something that is.
    fn judge_list(
        &self,
        path: &str,
        real: &Path,
        spelt: &Path,
        folders: &Folders,
    ) -> Result<(), AccessError> {
        if self.grants.leads_to_readable(real) && !self.protected.is_of_sessions(real, folders) {
            self.judge_deny(path, real, spelt)
        } else {
            self.judge_read(path, real, spelt, folders)
        }
    }

    fn judge_write(
        &self,
        path: &str,
        real: &Path,
        spelt: &Path,
        folders: &Folders,
    ) -> Result<(), AccessError> {
        self.judge_deny(path, real, spelt)?;
        let protected = |name| Err(AccessError::Protected { path: path.to_owned(), name });
        match self.grants.writes(real) {
            Ok(true) => match self.protected.name_of(real, folders) {
                Some(name) => protected(name.to_owned()),
                None => Ok(()),
            },
            Ok(false) => {
                let needs = Refusal::Write { path: name_of(real) };
                Err(self.outside(path, "written", "write", &self.grants.write, real, needs))
            }
            Err(name) => protected(name),
        }
    }

    fn outside(
        &self,
        path: &str,
        verb: &'static str,
        list: &'static str,
        grants: &[PathBuf],
        real: &Path,
        needs: Refusal,
    ) -> AccessError {
        let granted: Vec<String> = grants
            .iter()
            .map(|g| if *g == self.root { "the project".to_owned() } else { self.display(g) })
            .collect();
        let granted = if granted.is_empty() { "nothing".to_owned() } else { granted.join(", ") };
        let hint = "Work with files inside, or say in your report that the task needs it.";
        // What no grant opens is not worth a question, and a name that is no text cannot be shown in one.
        let is_grantable = real.to_str().is_some() && (list == "read" || !self.is_protected(real));
        let needs = Some(needs).filter(|_| is_grantable);
        AccessError::Outside { path: path.to_owned(), verb, list, granted, hint, needs }
    }

    fn not_found(&self, path: &str, place: &ResolvedPath) -> AccessError {
        let hint = similar_names(place).map_or_else(String::new, |names| {
            let parent = place.real.parent().unwrap_or(&self.root);
            let shown: Vec<_> = names
                .into_iter()
                .map(|name| parent.join(name))
                .filter(|real| self.may_read(real))
                .map(|real| format!("`{}`", self.display(&real)))
                .collect();
            if shown.is_empty() { String::new() } else { format!(" Did you mean {}?", shown.join(" or ")) }
        });
        AccessError::NotFound { path: path.to_owned(), hint }
    }
}

impl OpenedFile {
    /// The whole content, up to 32 MiB.
    ///
    /// # Errors
    /// If it is larger, or cannot be read.
    pub fn read_all(&mut self, path: &str) -> Result<Vec<u8>, AccessError> {
        read_bounded(&mut self.file, path)
    }
}

pub(super) fn read_bounded(file: &mut File, path: &str) -> Result<Vec<u8>, AccessError> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    let read = read.map_err(|e| AccessError::io(path, "reading", e))?;
    if read as u64 > MAX_FILE_BYTES {
        let size = file.metadata().map_or(read as u64, |m| m.size());
        return Err(AccessError::TooLarge { path: path.to_owned(), size, limit: MAX_FILE_BYTES });
    }
    Ok(bytes)
}

/// Opens `name` without blocking if it is a regular file; `None` if it is something else.
pub(crate) fn open_regular(
    dir: std::os::fd::BorrowedFd<'_>,
    name: impl rustix::path::Arg,
) -> Result<Option<File>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = openat(dir, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    Ok((file_type(&stat) == FileType::RegularFile).then(|| File::from(fd)))
}

pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of unknown kind",
    }
}

/// A real path as a person is asked for it. A folder ends in `/`: all that is in it is meant.
fn name_of(real: &Path) -> String {
    let folder = if real.is_dir() { "/" } else { "" };
    format!("{}{folder}", real.to_string_lossy().trim_end_matches('/'))
}

/// The real path of an entry of the permissions. A path that does not exist yet is resolved as text.
fn real_place(path: &Path) -> PathBuf {
    match resolve::resolve(path) {
        Ok(place) => place.real,
        Err(_) => grants::lexical(path),
    }
}

/// Up to two names in the directory that resemble the missing one.
fn similar_names(place: &ResolvedPath) -> Option<Vec<std::ffi::OsString>> {
    if !place.missing.is_empty() {
        return None;
    }
    let wanted = place.leaf.as_ref()?.to_string_lossy().to_lowercase();
    let fd =
        openat(&place.dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let entries = rustix::fs::Dir::read_from(&fd).ok()?;
    let mut near: Vec<(f64, String)> = entries
        .take(2_000)
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
        .map(|name| (strsim::jaro_winkler(&wanted, &name.to_lowercase()), name))
        .filter(|(score, _)| *score > 0.85)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    Some(near.into_iter().take(2).map(|(_, name)| name.into()).collect())
}
