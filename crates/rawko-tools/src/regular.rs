//! Reads regular files and nothing else: a project may hold a FIFO, on which a reader waits for ever, or a link to a device
//! that never ends.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// Neither a FIFO nor a terminal is waited for.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Whether this is a file that can be run.
pub(crate) fn is_program(found: &Metadata) -> bool {
    found.is_file() && found.mode() & 0o111 != 0
}

/// Opens the regular file at `path`, through links.
///
/// # Errors
/// If it cannot be opened, or something else is there: that is never waited for.
pub fn open_regular(path: &Path) -> io::Result<File> {
    only_regular(openat(CWD, path, READ, Mode::empty())?)
}

/// Opens the regular file at `inside`, a path below `root`, if there is no link on the way: a program that can make
/// links in `root` must not choose what is read.
///
/// # Errors
/// If it cannot be opened, is outside `root`, is reached by a link, or is no regular file.
pub fn open_regular_below(root: &Path, inside: &Path) -> io::Result<File> {
    let outside = || io::Error::new(io::ErrorKind::InvalidInput, "the path leads out");
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = openat(CWD, root, directory, Mode::empty())?;
    let mut parts = inside.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(outside()) };
        if parts.peek().is_none() {
            return only_regular(openat(folder, name, READ | OFlags::NOFOLLOW, Mode::empty())?);
        }
        folder = openat(folder, name, directory | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Err(outside())
}

fn only_regular(file: OwnedFd) -> io::Result<File> {
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(File::from(file))
}

/// The first `most` bytes of the regular file at `path`.
///
/// # Errors
/// As [`open_regular`], or if it cannot be read.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a regular file, if it is there, not longer than `most` bytes, and text.
#[must_use]
pub fn text_of(path: &Path, most: u64) -> Option<String> {
    let bytes = read_regular(path, most.saturating_add(1)).ok()?;
    String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_regular_file_is_read_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("file"), "content").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("endless")).unwrap();
        assert_eq!(read_regular(&path("link"), 4).unwrap(), b"cont");
        for name in ["fifo", "endless", "."] {
            let error = read_regular(&path(name), 4).unwrap_err();
            assert_eq!(error.to_string(), "it is not a regular file", "{name}");
        }
        assert_eq!(read_regular(&path("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn nothing_behind_a_link_is_read_below_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(path("root/a")).unwrap();
        std::fs::write(path("root/a/file"), "content").unwrap();
        std::fs::write(path("secret"), "secret").unwrap();
        for (link, target) in
            [("root/link", "../secret"), ("root/a/link", "file"), ("root/b", "a"), ("top", "root")]
        {
            std::os::unix::fs::symlink(target, path(link)).unwrap();
        }
        let opens = |root: &str, inside: &str| open_regular_below(&path(root), Path::new(inside)).is_ok();
        assert!(opens("root", "a/file") && opens("top", "a/file"));
        for inside in ["link", "a/link", "b/file", "a", "../secret", "a/../a/file", "/etc/passwd", "", "none"]
        {
            assert!(!opens("root", inside), "{inside}");
        }
    }
}
