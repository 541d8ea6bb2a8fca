//! The Unix sockets of programs outside. A read-only mount does not keep a command from connecting to one that it sees, so
//! they are hidden from it.
//!
//! The kernel lists those at which somebody listens, in the network namespace of this process, by the path that they were
//! bound to. In the project and in what is granted they are also found by looking: there may be some of containers.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use rawko_sandbox::Step;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The kernel's list.
const TABLE: &str = "/proc/net/unix";
/// The bit of a socket's flags that says that it listens.
const LISTENS: u64 = 0x1_0000;
/// Folders of which every command has its own.
const OWN: [&str; 5] = ["/dev", "/proc", "/run", "/tmp", "/var/tmp"];

/// What was found out of sockets that were bound to a relative path, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Relative(BTreeMap<u64, Option<PathBuf>>);

/// The sockets at which programs outside listen and which a command sees whose view is built by `base`.
pub(super) fn seen(base: &[Step], relative: &mut Relative) -> Vec<PathBuf> {
    let table = fs::read_to_string(TABLE).unwrap_or_default();
    let bound = table.lines().filter_map(listening);
    let places = bound.filter_map(|(number, path)| {
        if path.is_absolute() { Some(path.to_owned()) } else { relative.resolve(number, path) }
    });
    let is_socket = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let real = places.filter(is_socket).filter_map(|path| fs::canonicalize(path).ok());
    real.filter(|path| shows(base, path)).collect()
}

/// The number and the path of a socket at which somebody listens, of a line of the kernel's list.
fn listening(line: &str) -> Option<(u64, &Path)> {
    // Its address in the kernel, users, protocol, flags, type, state, number, and what it is bound to.
    let mut fields = line.splitn(7, ' ');
    let flags = u64::from_str_radix(fields.nth(3)?, 16).ok()?;
    let (number, path) = fields.nth(2)?.trim_start().split_once(' ')?;
    let is_path = !path.is_empty() && !path.starts_with('@');
    (flags & LISTENS != 0 && is_path).then_some((number.parse().ok()?, Path::new(path)))
}

/// Whether a path is seen as it is outside: by the last step that lies over it, else as everything is.
fn shows(base: &[Step], path: &Path) -> bool {
    let over = base.iter().rev().find_map(|step| match step {
        Step::Show(place) | Step::Grant(place) => path.starts_with(place).then_some(true),
        // In a layer, the socket of the folder below is another one.
        Step::Cover(place) | Step::Layer { folder: place, .. } | Step::Private { place, .. } => {
            path.starts_with(place).then_some(false)
        }
        Step::Link { .. }
        | Step::Protect(_)
        | Step::Pin(_)
        | Step::Hide(_)
        | Step::Placeholders { .. }
        | Step::Text { .. } => None,
    });
    over.unwrap_or_else(|| !OWN.iter().any(|own| path.starts_with(own)))
}

impl Relative {
    /// Where the socket with this number lies. It was bound in the folder in which its program was then, and probably still is.
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

/// Whether somebody listens at a socket. It is asked by connecting to it, for no list has those of other namespaces.
pub(super) fn is_listening(path: &Path) -> bool {
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
    fn the_kernels_list_is_read() {
        let line = |flags: &str, path: &str| {
            format!("0000000000000000: 00000002 00000000 {flags} 0001 01 41215 {path}")
        };
        let cases = [
            ("00010000", "/run/a.sock", Some("/run/a.sock")),
            ("00010000", "with two words", Some("with two words")),
            ("00000000", "/run/a.sock", None),
            ("00010000", "@abstract", None),
            ("00010000", "", None),
        ];
        for (flags, path, expected) in cases {
            let line = line(flags, path);
            assert_eq!(listening(&line), expected.map(|path| (41_215, Path::new(path))), "{line}");
        }
        assert_eq!(listening("Num       RefCount Protocol Flags    Type St Inode Path"), None);
    }

    #[test]
    fn what_lies_over_a_path_decides_whether_it_is_seen() {
        let show = |place: &str| Step::Show(place.into());
        let private = Step::Private { place: "/home/u".into(), content: "/x".into() };
        let base = [Step::Cover("/srv".into()), private, show("/home/u/p"), show("/srv/p")];
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
        assert!(!is_listening(&place), "nobody listens any more");
        assert!(!is_listening(&folder.join("none")));
    }
}
