//! Copies a folder as it is: contents, rights, links and times. Files share their blocks where the file system lets them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use rawko_tools::FileStamp;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, fchmod, flistxattr, fstat,
    futimens, mkdirat, openat, readlinkat, statat, symlinkat,
};
use rustix::io::Errno;

use super::manifest::Manifest;

/// Most threads that copy: more of them wait for each other.
const MAX_THREADS: usize = 4;
/// A file of up to so many bytes is copied by one read and one write.
const SMALL: usize = 64 * 1024;
/// How a folder is opened, and never through a link.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The bits of a mode that are copied.
const RIGHTS: u32 = 0o7777;

/// What becomes of an entry of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// It is copied.
    Copied,
    /// A folder: it is made, and stays empty.
    Empty,
    /// It is left out.
    Nothing,
}

/// Copies what is in `from` into the folder `to`, and gives what it copied. `share` decides about each entry by its path in
/// `from`. What may not be read is left out: no command could read it either. Where `to` has something already, it becomes
/// the same; of its files, those stay that `earlier` still describes.
///
/// # Errors
/// If nothing can be written, or there is more than `most` bytes.
pub(super) fn copy(
    from: &Path,
    to: &Path,
    most: u64,
    earlier: &Manifest,
    share: &(dyn Fn(&Path, FileType) -> Share + Sync),
) -> io::Result<Manifest> {
    std::fs::create_dir_all(to)?;
    let copying = Copying {
        to,
        from,
        most,
        earlier,
        share,
        queue: Mutex::new(Queue { waiting: vec![PathBuf::new()], working: 0 }),
        changed: Condvar::new(),
        bytes: AtomicU64::new(0),
        shares_blocks: AtomicBool::new(true),
        done: Mutex::default(),
    };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS));
    std::thread::scope(|scope| {
        let working: Vec<_> = (0..threads).map(|_| scope.spawn(|| copying.work())).collect();
        working
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })?;
    let Done { folders, files } = copying.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Only now nothing is made in them any more. The innermost first: one may be closed to writing.
    for (folder, found) in folders.into_iter().rev() {
        let opened = openat(CWD, to.join(folder), FOLDER, Mode::empty())?;
        futimens(&opened, &times(&found))?;
        fchmod(&opened, Mode::from_raw_mode(found.st_mode & RIGHTS))?;
    }
    let mut copied = Manifest::default();
    copied.extend(files);
    Ok(copied)
}

struct Copying<'a> {
    from: &'a Path,
    to: &'a Path,
    most: u64,
    earlier: &'a Manifest,
    share: &'a (dyn Fn(&Path, FileType) -> Share + Sync),
    queue: Mutex<Queue>,
    changed: Condvar,
    bytes: AtomicU64,
    /// Whether the file system has not refused to share blocks.
    shares_blocks: AtomicBool,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    folders: BTreeMap<PathBuf, Stat>,
    files: Vec<(PathBuf, (FileStamp, FileStamp))>,
}

/// Folders, by their paths in the one that is copied.
struct Queue {
    waiting: Vec<PathBuf>,
    /// How many are being copied; these may add others.
    working: usize,
}

impl Copying<'_> {
    fn work(&self) -> io::Result<()> {
        while let Some(folder) = self.next() {
            let found = self.folder(&folder);
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.working -= 1;
            match found {
                Ok(inner) => queue.waiting.extend(inner),
                Err(error) => {
                    queue.waiting.clear();
                    self.changed.notify_all();
                    return Err(error);
                }
            }
            self.changed.notify_all();
        }
        Ok(())
    }

    fn next(&self) -> Option<PathBuf> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(folder) = queue.waiting.pop() {
                queue.working += 1;
                return Some(folder);
            }
            if queue.working == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Copies the entries of one folder, and gives the folders in it.
    fn folder(&self, within: &Path) -> io::Result<Vec<PathBuf>> {
        let place = openat(CWD, self.to.join(within), FOLDER, Mode::empty())?;
        let mut there = entries_of(&place)?;
        let source = match openat(CWD, self.from.join(within), FOLDER, Mode::empty()) {
            Ok(source) => source,
            // It is closed, or somebody removed it meanwhile.
            Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                self.remove(there, within)?;
                return Ok(Vec::new());
            }
            Err(error) => return Err(error.into()),
        };
        let (mut inner, mut copied) = (Vec::new(), Vec::new());
        for entry in Dir::read_from(&source)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let path = within.join(name);
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(&source, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => FileType::from_raw_mode(found.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            let share = (self.share)(&path, kind);
            if share == Share::Nothing {
                continue;
            }
            match kind {
                FileType::Directory => {
                    let stays = share == Share::Copied && there.contains(name) && reopen(&place, name);
                    if !stays {
                        self.clear(&mut there, name, within)?;
                        mkdirat(&place, name, Mode::from_raw_mode(0o700))?;
                    }
                    there.remove(name);
                    if share == Share::Copied {
                        inner.push(path);
                    }
                }
                FileType::RegularFile => {
                    let Ok(found) = statat(&source, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                    self.count(&found)?;
                    if let Some(known) = self.earlier.holds(&path, &found, &place) {
                        there.remove(name);
                        copied.push((path, known));
                        continue;
                    }
                    self.clear(&mut there, name, within)?;
                    copied.extend(self.file(&source, &place, name)?.map(|stamps| (path, stamps)));
                }
                FileType::Symlink => {
                    self.clear(&mut there, name, within)?;
                    if let Ok(target) = readlinkat(&source, name, Vec::new()) {
                        symlinkat(target, &place, name)?;
                    }
                }
                // Sockets, pipes and devices belong to programs that run.
                _ => {}
            }
        }
        self.remove(there, within)?;
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.folders.insert(within.to_owned(), fstat(&source)?);
        done.files.extend(copied);
        Ok(inner)
    }

    /// Makes room for an entry.
    fn clear(&self, there: &mut BTreeSet<OsString>, name: &OsStr, within: &Path) -> io::Result<()> {
        let taken = there.take(name);
        self.remove(taken, within)
    }

    /// Removes what is in the copy already.
    fn remove(&self, names: impl IntoIterator<Item = OsString>, within: &Path) -> io::Result<()> {
        names.into_iter().try_for_each(|name| {
            let path = self.to.join(within).join(name);
            if path.symlink_metadata()?.is_dir() {
                return rawko_tools::temporary::remove_all(&path);
            }
            std::fs::remove_file(path)
        })
    }

    /// Counts the bytes of a file.
    fn count(&self, found: &Stat) -> io::Result<()> {
        let size = u64::try_from(found.st_size).unwrap_or_default();
        if self.bytes.fetch_add(size, Ordering::Relaxed) + size > self.most {
            let message = format!("more than {} bytes", self.most);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok(())
    }

    /// Copies a file; nothing where it cannot be read. Gives what it was, and what the copy is, if both can be known again.
    fn file(
        &self,
        source: &OwnedFd,
        place: &OwnedFd,
        name: &OsStr,
    ) -> io::Result<Option<(FileStamp, FileStamp)>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let from = match openat(source, name, flags, Mode::empty()) {
            Ok(from) => from,
            Err(_) => return Ok(None),
        };
        let found = fstat(&from)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let was = FileStamp::of_stat(&found);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = found.st_mode & RIGHTS;
        let to = openat(place, name, flags, Mode::from_raw_mode(mode | 0o200))?;
        let mut to = File::from(to);
        if !self.clones(&from, &to) {
            contents(File::from(from), &mut to, u64::try_from(found.st_size).unwrap_or_default())?;
        }
        // The umask took some of it away.
        fchmod(&to, Mode::from_raw_mode(mode))?;
        futimens(&to, &times(&found))?;
        // What changed just now may change again without showing it.
        Ok(if was.is_settled() { Some((was, FileStamp::of_stat(&fstat(&to)?))) } else { None })
    }

    fn clones(&self, from: &OwnedFd, to: &File) -> bool {
        if !self.shares_blocks.load(Ordering::Relaxed) {
            return false;
        }
        let cloned = cloned(from, to);
        if !cloned {
            self.shares_blocks.store(false, Ordering::Relaxed);
        }
        cloned
    }
}

/// The names in a folder.
fn entries_of(folder: &OwnedFd) -> io::Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for entry in Dir::read_from(folder)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.insert(name);
        }
    }
    Ok(names)
}

/// Makes sure that a folder can be entered and written, if it is one and has nothing that is not copied: rights for others that
/// new files in it would have too, and other attributes.
fn reopen(place: &OwnedFd, name: &OsStr) -> bool {
    let Ok(opened) = openat(place, name, FOLDER, Mode::empty()) else { return false };
    let mut names = [0; 256];
    let is_plain = match flistxattr(&opened, &mut names) {
        Ok(length) => {
            let names = names.get(..length).unwrap_or_default().split(|byte| *byte == 0);
            names.filter(|name| !name.is_empty()).all(|name| name.starts_with(b"security."))
        }
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => true,
        Err(_) => false,
    };
    is_plain && fchmod(&opened, Mode::from_raw_mode(0o700)).is_ok()
}

/// Has a new file share the blocks of another.
#[cfg(target_os = "linux")]
fn cloned(from: &OwnedFd, to: &File) -> bool {
    rustix::fs::ioctl_ficlone(to.as_fd(), from.as_fd()).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn cloned(_: &OwnedFd, _: &File) -> bool {
    false
}

fn contents(mut from: File, to: &mut File, size: u64) -> io::Result<()> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > SMALL {
        return io::copy(&mut from, to).map(drop);
    }
    let mut content = Vec::with_capacity(size + 1);
    from.read_to_end(&mut content)?;
    to.write_all(&content)
}

fn times(of: &Stat) -> Timestamps {
    let at = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    Timestamps {
        last_access: at(of.st_atime, of.st_atime_nsec.try_into().unwrap_or_default()),
        last_modification: at(of.st_mtime, of.st_mtime_nsec.try_into().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};

    #[test]
    fn a_copy_is_like_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir_all(from.join("a/b/closed")).unwrap();
        std::fs::create_dir_all(from.join("packages/one")).unwrap();
        for (name, content) in
            [("a/x", "text"), ("a/b/run", "#!/bin/sh\n"), ("packages/one/p", "p"), ("gone", "")]
        {
            std::fs::write(from.join(name), content).unwrap();
        }
        std::fs::write(from.join("large"), vec![7_u8; SMALL * 3]).unwrap();
        let mode =
            |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        mode(&from.join("a/b/run"), 0o755);
        mode(&from.join("a/x"), 0o444);
        mode(&from.join("a/b/closed"), 0o500);
        symlink("../x", from.join("a/b/link")).unwrap();
        symlink("/nowhere", from.join("dangling")).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1_234_567_890_123);
        for name in ["a/b/run", "a"] {
            File::open(from.join(name)).unwrap().set_modified(old).unwrap();
        }
        let share = |path: &Path, _: FileType| match path.to_str() {
            Some("packages") => Share::Empty,
            Some("gone") => Share::Nothing,
            _ => Share::Copied,
        };
        copy(&from, &to, u64::MAX, &Manifest::default(), &share).unwrap();
        for name in ["a", "a/x", "a/b", "a/b/run", "a/b/closed", "a/b/link", "dangling", "large"] {
            let found = |root: &Path| {
                let found = root.join(name).symlink_metadata().unwrap();
                let content = found.is_file().then(|| std::fs::read(root.join(name)).unwrap());
                (found.mode(), content, found.is_symlink() || found.modified().unwrap() == old || name != "a")
            };
            assert_eq!(found(&from), found(&to), "{name}");
        }
        let written = |root: &Path| root.join("a/b/run").metadata().unwrap().modified().unwrap();
        assert_eq!(written(&from), written(&to));
        assert_eq!(std::fs::read_dir(to.join("packages")).unwrap().count(), 0);
        assert!(!to.join("gone").exists());
        mode(&to.join("a/b/closed"), 0o700);
    }

    /// All that is in a folder, with content, mode and time.
    fn all(root: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
        let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let is = path.symlink_metadata().unwrap();
                let content = if is.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
                found.insert(path.strip_prefix(root).unwrap().to_owned(), (is.mode(), is.mtime(), content));
                if is.is_dir() {
                    folders.push(path);
                }
            }
        }
        found
    }

    /// Whatever was done to an earlier copy, a copy that is made of it is like the folder.
    #[test]
    fn a_copy_is_made_of_an_earlier_one() {
        // Files that were not changed just now.
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        let share = |_: &Path, _: FileType| Share::Copied;
        let first = copy(&from, &to, u64::MAX, &Manifest::default(), &share).unwrap();
        let place = folder.path().join("manifest");
        first.write(&place).unwrap();
        let read = Manifest::read(&place);
        assert_eq!(
            (read.len(), first.len()),
            (first.len(), all(&from).values().filter(|is| is.0 & 0o170_000 == 0o100_000).count())
        );
        let inode = |name: &str| to.join(name).metadata().unwrap().ino();
        let before = inode("lib.rs");
        // An agent writes as many bytes, and has the file look as old as it was.
        let error = to.join("error.rs");
        let was = error.metadata().unwrap();
        std::fs::write(&error, vec![b'x'; usize::try_from(was.len()).unwrap()]).unwrap();
        File::options().write(true).open(&error).unwrap().set_modified(was.modified().unwrap()).unwrap();
        std::fs::write(to.join("run/extra.rs"), "").unwrap();
        std::fs::remove_file(to.join("clock.rs")).unwrap();
        std::fs::create_dir_all(to.join("clock.rs/deep")).unwrap();
        std::fs::remove_dir_all(to.join("setup")).unwrap();
        symlink("/etc", to.join("setup")).unwrap();
        std::fs::rename(to.join("config"), to.join("moved")).unwrap();
        std::fs::set_permissions(to.join("hooks"), PermissionsExt::from_mode(0o000)).unwrap();
        let second = copy(&from, &to, u64::MAX, &read, &share).unwrap();
        assert_eq!(all(&to), all(&from));
        assert_eq!(second.len(), first.len());
        assert_eq!(inode("lib.rs"), before, "what nobody changed is not copied again");
        // A record that is not whole describes nothing.
        let bytes = std::fs::read(&place).unwrap();
        std::fs::write(&place, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(Manifest::read(&place).len(), 0);
    }

    /// What an earlier run left where nothing can be copied from, or as an attribute, is not there any more.
    #[test]
    fn nothing_is_left_of_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for name in ["closed", "marked"] {
            std::fs::create_dir_all(from.join(name)).unwrap();
            std::fs::create_dir_all(to.join(name)).unwrap();
            std::fs::write(to.join(name).join("evil"), "").unwrap();
        }
        let set = rustix::fs::setxattr(to.join("marked"), "user.evil", b"x", rustix::fs::XattrFlags::empty());
        // Nobody can open a folder that is gone, which happens between listing and opening too.
        let share = |path: &Path, _: FileType| {
            if path == Path::new("closed") {
                std::fs::remove_dir(from.join("closed")).unwrap();
            }
            Share::Copied
        };
        copy(&from, &to, u64::MAX, &Manifest::default(), &share).unwrap();
        assert_eq!(std::fs::read_dir(to.join("closed")).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(to.join("marked")).unwrap().count(), 0);
        if set.is_ok() {
            assert!(rustix::fs::getxattr(to.join("marked"), "user.evil", &mut [0; 8]).is_err());
        }
    }

    #[test]
    fn a_copy_ends_where_there_is_too_much() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        std::fs::create_dir(&from).unwrap();
        std::fs::write(from.join("a"), [0; 100]).unwrap();
        let all = |_: &Path, _: FileType| Share::Copied;
        assert!(copy(&from, &folder.path().join("one"), 100, &Manifest::default(), &all).is_ok());
        let error = copy(&from, &folder.path().join("two"), 99, &Manifest::default(), &all).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
