//! The Unix sockets of programs outside. A read-only mount does not keep a command from connecting to one that it sees, so
//! they are hidden from it.
//!
//! The kernel says which sockets have a listener, what they were bound to, and which files they are. In the project and
//! in granted folders, rawko also looks for the files: a bound socket may be renamed, and containers have lists of
//! their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use rawko_sandbox::ViewStep;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::listeners::listeners;

/// Folders of which every command has its own.
const OWN: [&str; 5] = ["/dev", "/proc", "/run", "/tmp", "/var/tmp"];

/// What was found out of sockets that were bound to a relative path, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Relative(BTreeMap<u64, Option<PathBuf>>);

/// The files of sockets that a walk found.
#[derive(Debug, Clone, Default)]
pub(super) struct SocketFiles {
    /// All of the last walk, by their paths.
    pub(super) files: BTreeMap<PathBuf, u32>,
    /// Those that were there before the first command, that are not in the kernel's list, and that had a listener.
    foreign: BTreeMap<PathBuf, u32>,
}

impl SocketFiles {
    /// What stays known for the next walk.
    pub(super) fn kept(&self) -> Self {
        let is_there = |(path, file): &(&PathBuf, &u32)| file_of(path) == Some(**file);
        let foreign = self.foreign.iter().filter(is_there).map(|(path, file)| (path.clone(), *file));
        Self { files: BTreeMap::new(), foreign: foreign.collect() }
    }

    /// Looks at those of a folder that was walked for the first time.
    pub(super) fn look(&mut self, folder: &Path) {
        let new = self.files.iter().filter(|(path, _)| path.starts_with(folder));
        let new: Vec<(PathBuf, u32)> = new.map(|(path, file)| (path.clone(), *file)).collect();
        if new.is_empty() {
            return;
        }
        let listed = listed().unwrap_or_default();
        let foreign = new.into_iter().filter(|(path, file)| !listed.contains(file) && is_listening(path));
        self.foreign.extend(foreign);
    }
}

/// The files of the sockets in the kernel's list.
fn listed() -> io::Result<BTreeSet<u32>> {
    Ok(listeners()?.into_iter().filter_map(|listener| listener.file).collect())
}

/// The number of a socket's file, as the kernel's list has it; `None` if there is none.
pub(super) fn file_of(path: &Path) -> Option<u32> {
    let found = path.symlink_metadata().ok().filter(|found| found.file_type().is_socket())?;
    u32::try_from(found.ino() & u64::from(u32::MAX)).ok()
}

/// The sockets at which programs outside listen and which a command sees whose view is built by `base`.
///
/// # Errors
/// If the kernel gives no list of them.
pub(super) fn of_others(
    base: &[ViewStep],
    found: &SocketFiles,
    relative: &mut Relative,
) -> io::Result<Vec<PathBuf>> {
    let listeners = listeners()?;
    let listed: BTreeSet<u32> = listeners.iter().filter_map(|listener| listener.file).collect();
    let by_name = listeners.into_iter().filter_map(|listener| {
        let path = if listener.path.is_absolute() {
            listener.path
        } else {
            relative.resolve(listener.number, &listener.path)?
        };
        let path = fs::canonicalize(path).ok()?;
        let file = file_of(&path)?;
        (listener.file.is_none_or(|its| its == file) && shows(base, &path)).then_some(path)
    });
    let mut others: Vec<PathBuf> = by_name.collect();
    others.extend(found.files.iter().filter(|(_, file)| listed.contains(file)).map(|(path, _)| path.clone()));
    others.extend(found.foreign.keys().cloned());
    others.sort();
    others.dedup();
    Ok(others)
}

/// Whether a path is seen as it is outside: by the last step that covers it, else like everything else.
fn shows(base: &[ViewStep], path: &Path) -> bool {
    let over = base.iter().rev().find_map(|step| match step {
        ViewStep::Show(place) | ViewStep::Grant(place) => path.starts_with(place).then_some(true),
        // In a layer, the socket of the folder below is another one.
        ViewStep::Cover(place) | ViewStep::Layer { folder: place, .. } | ViewStep::Private { place, .. } => {
            path.starts_with(place).then_some(false)
        }
        ViewStep::Link { .. }
        | ViewStep::Protect(_)
        | ViewStep::Pin(_)
        | ViewStep::Hide(_)
        | ViewStep::Placeholders { .. }
        | ViewStep::Text { .. } => None,
    });
    over.unwrap_or_else(|| !OWN.iter().any(|own| path.starts_with(own)))
}

impl Relative {
    /// Where the socket with this number is. It was bound in the folder in which its program was then, and probably
    /// still is.
    fn resolve(&mut self, number: u64, path: &Path) -> Option<PathBuf> {
        let found =
            self.0.entry(number).or_insert_with(|| folder_of_holder(number).map(|folder| folder.join(path)));
        found.clone()
    }
}

/// The folder of a program that holds a socket, where this user may know it.
fn folder_of_holder(number: u64) -> Option<PathBuf> {
    let target = PathBuf::from(format!("socket:[{number}]"));
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let user = rustix::process::geteuid();
    let holds = |process: &PathBuf| {
        let is_own = user.is_root() || fs::metadata(process).is_ok_and(|found| found.uid() == user.as_raw());
        let descriptors = is_own.then(|| fs::read_dir(process.join("fd")).ok()).flatten();
        let mut links =
            descriptors.into_iter().flatten().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links.any(|link| link == target)
    };
    let is_process = |path: &PathBuf| {
        path.components().next_back().is_some_and(
            |name| matches!(name, Component::Normal(name) if name.as_encoded_bytes().iter().all(u8::is_ascii_digit)),
        )
    };
    let holder = processes.map(|entry| entry.path()).filter(is_process).find(holds)?;
    fs::read_link(holder.join("cwd")).ok()
}

/// Whether a socket that is in no list has a listener. It finds out by connecting to the socket.
fn is_listening(path: &Path) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
    let Ok(folder) = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) else {
        return false;
    };
    // An address holds 107 bytes, and a path may be longer.
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    let Ok(address) = SocketAddrUnix::new(short) else { return true };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return true };
    match connect(&socket, &address) {
        Err(Errno::CONNREFUSED | Errno::NOENT | Errno::ACCESS) => false,
        Ok(()) | Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_mount_over_a_path_decides_whether_it_is_seen() {
        let show = |place: &str| ViewStep::Show(place.into());
        let private = ViewStep::Private { place: "/home/u".into(), content: "/x".into() };
        let base = [ViewStep::Cover("/srv".into()), private, show("/home/u/p"), show("/srv/p")];
        for (path, expected) in [
            ("/opt/a.sock", true),
            ("/tmp/a.sock", false),
            ("/run/user/1/a.sock", false),
            ("/srv/a.sock", false),
            ("/srv/p/a.sock", true),
            ("/home/u/.x/a.sock", false),
            ("/home/u/p/a.sock", true),
        ] {
            assert_eq!(shows(&base, Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn sockets_at_which_somebody_listens_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let folder =
            fs::canonicalize(folder.path()).unwrap().join("a folder with a rather long name ".repeat(5));
        fs::create_dir(&folder).unwrap();
        let place = folder.join("a.sock");
        // By a path that is short enough.
        let opened = open(&folder, OFlags::PATH, Mode::empty()).unwrap();
        let listener = UnixListener::bind(format!("/proc/self/fd/{}/a.sock", opened.as_raw_fd())).unwrap();
        assert!(is_listening(&place));
        drop(listener);
        assert!(!is_listening(&place), "no program listens any more");
        assert!(!is_listening(&folder.join("none")));
    }
}
