//! The Unix sockets at which programs listen, in the network namespace of this process: what the kernel says of them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// The same list as a table of text, without the sockets' files.
const TABLE: &str = "/proc/net/unix";
/// The bit of a socket's flags in that table that says that it listens.
const LISTENS: u64 = 0x1_0000;

/// The state of a socket that listens, as one of the states that are asked for.
const LISTENING: u32 = 1 << 10;
/// What is asked of each: its name, and the file that it is.
const SHOW: u32 = 0b11;
const NAME: u16 = 0;
const FILE: u16 = 1;
/// The kinds of message: a question about sockets with its answers, an error, the end.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// A request for all.
const REQUEST_ALL: u16 = 0x301;
/// Bytes of the kernel's answers that are read at once.
const PART: usize = 64 * 1024;

/// A socket that is bound to a path and has a listener.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listener {
    /// Its number, as in `/proc/PID/fd`.
    pub(super) number: u64,
    /// What it was bound to, perhaps relative to a folder.
    pub(super) path: PathBuf,
    /// The number of its file, as far as the kernel gives it: the lower half.
    pub(super) file: Option<u32>,
}

/// All of them.
///
/// # Errors
/// If the kernel gives no list.
pub(super) fn listeners() -> io::Result<Vec<Listener>> {
    asked().or_else(|_| Ok(of_table(&std::fs::read(TABLE)?)))
}

/// Asks the kernel.
fn asked() -> io::Result<Vec<Listener>> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    send(&socket, &request(), SendFlags::empty())?;
    let (mut found, mut part) = (Vec::new(), vec![0; PART]);
    loop {
        let (_, length) = recv(&socket, part.as_mut_slice(), RecvFlags::empty())?;
        let mut rest =
            part.get(..length).filter(|rest| !rest.is_empty()).ok_or(io::ErrorKind::UnexpectedEof)?;
        while let Some((kind, body, after)) = message(rest) {
            match kind {
                NLMSG_DONE => return Ok(found),
                NLMSG_ERROR => return Err(io::Error::other("the kernel lists no sockets")),
                _ => found.extend(listener(body)),
            }
            rest = after;
        }
    }
}

/// `nlmsghdr` and `unix_diag_req`.
fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    bytes.extend(40_u32.to_ne_bytes());
    bytes.extend([SOCK_DIAG_BY_FAMILY, REQUEST_ALL].into_iter().flat_map(u16::to_ne_bytes));
    // A sequence number, and whose port it is: the kernel's.
    bytes.extend([0; 8]);
    bytes.extend([AddressFamily::UNIX.as_raw().to_le_bytes()[0], 0, 0, 0]);
    bytes.extend([LISTENING, 0, SHOW, 0, 0].into_iter().flat_map(u32::to_ne_bytes));
    bytes
}

/// The kind and the body of the first message, and what comes after it.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
    let body = bytes.get(16..length)?;
    Some((u16_at(bytes, 4)?, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// `unix_diag_msg` and its attributes.
fn listener(body: &[u8]) -> Option<Listener> {
    let number = u64::from(u32_at(body, 4)?);
    let (mut path, mut file) = (None, None);
    let mut rest = body.get(16..)?;
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let length = usize::from(length);
        let Some(value) = rest.get(4..length) else { break };
        match kind {
            NAME => path = path_of(value),
            FILE => file = u32_at(value, 0),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(Listener { number, path: path?, file })
}

/// The path in a name; a name that begins with a zero or `@` is no path.
fn path_of(name: &[u8]) -> Option<PathBuf> {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let name = name.get(..end).filter(|name| !name.is_empty() && !name.starts_with(b"@"))?;
    Some(Path::new(OsStr::from_bytes(name)).to_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Those of the table.
fn of_table(table: &[u8]) -> Vec<Listener> {
    let of_line = |line: &[u8]| {
        // Its address in the kernel, users, protocol, flags, type, state, number, and what it is bound to.
        let mut fields = line.splitn(7, |byte| *byte == b' ');
        let flags = u64::from_str_radix(std::str::from_utf8(fields.nth(3)?).ok()?, 16).ok()?;
        let rest = fields.nth(2)?.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ')?;
        let number = std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()?;
        let path = path_of(rest.get(end + 1..)?)?;
        (flags & LISTENS != 0).then_some(Listener { number, path, file: None })
    };
    table.split(|byte| *byte == b'\n').filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_table_is_read() {
        let check = |flags: &str, name: &[u8], expected: Option<&str>| {
            let mut table = b"Num       RefCount Protocol Flags    Type St Inode Path\n".to_vec();
            table.extend(format!("0000000000000000: 00000002 00000000 {flags} 0001 01 41215 ").bytes());
            table.extend(name);
            let expected = expected.map(|path| Listener { number: 41_215, path: path.into(), file: None });
            assert_eq!(of_table(&table), Vec::from_iter(expected), "{flags} {name:?}");
        };
        check("00010000", b"/run/a.sock", Some("/run/a.sock"));
        check("00010000", b"with two words", Some("with two words"));
        check("00000000", b"/run/a.sock", None);
        check("00010000", b"@abstract", None);
        check("00010000", b"", None);
    }

    /// Both lists have a socket of this test, and none is lost because another one has a name that is no text.
    #[test]
    fn the_kernel_lists_who_listens() {
        let folder = tempfile::tempdir().unwrap();
        let (place, odd) = (folder.path().join("a.sock"), OsStr::from_bytes(b"\xff\xfe"));
        let _odd = UnixListener::bind(folder.path().join(odd)).unwrap();
        let listener = UnixListener::bind(&place).unwrap();
        let file = u32::try_from(place.symlink_metadata().unwrap().ino() & u64::from(u32::MAX)).unwrap();
        let named = |list: Vec<Listener>| list.into_iter().find(|listener| listener.path == place);
        let table = named(of_table(&std::fs::read(TABLE).unwrap())).unwrap();
        assert_eq!(table.file, None);
        if let Ok(asked) = asked() {
            let asked = named(asked).unwrap();
            assert_eq!((asked.number, asked.file), (table.number, Some(file)));
        }
        drop(listener);
        assert_eq!(named(listeners().unwrap()), None);
    }
}
