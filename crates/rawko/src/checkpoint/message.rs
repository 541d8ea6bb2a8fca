//! The message of the commit that keeps a tree: what a git tree cannot hold.
//!
//! Modes beyond the executable bit, empty folders, files that were not kept and why, the time, and, if a rewind
//! replaced the tree, the one that it restored.

use std::collections::{BTreeMap, BTreeSet};

use super::listing::{TreeListing, TreePath, is_plain};

/// Begins the line that names a file which was not kept.
const NOT_KEPT: &str = "not kept: ";
/// Most such lines.
const MAX_NOT_KEPT: usize = 1_000;
/// Begins the line with the moment, in milliseconds since 1970.
const AT: &str = "at: ";
/// Begins the line with the tree that a rewind restored.
const TO: &str = "to: ";
/// The line of a tree that a session left which was killed: what changed after its last record is not in it.
const KILLED: &str = "killed";
/// Begins the line with the modes of most files: of those that can be executed, and of the others.
const MODES: &str = "modes: ";
/// Begins the line of a file with another mode.
const MODE: &str = "mode: ";
/// The line that says that all empty folders follow.
const FOLDERS: &str = "empty folders:";
/// Begins the line of a file that was kept before and is not there any more.
const GONE: &str = "gone: ";
/// Begins the line of an empty folder.
const FOLDER: &str = "folder: ";
/// Most lines of modes, of folders, and of what is gone. Where there are more, none are recorded.
const MAX_LINES: usize = 20_000;

/// What the message of a tree's commit says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommitMessage {
    /// When the tree was kept.
    pub(super) at: Option<u64>,
    /// What a rewind then restored.
    pub(super) to: Option<String>,
    /// Whether a killed session left the tree. Who changed what differs from it is not known.
    pub(super) killed: bool,
    /// What was not kept, each with why.
    pub(super) not_kept: Vec<String>,
    /// The permissions, where they are known.
    pub(super) modes: Option<Modes>,
    /// The empty folders, where they are known.
    pub(super) folders: Option<BTreeSet<TreePath>>,
    /// Files that were not there, ignored or not.
    pub(super) gone: BTreeSet<TreePath>,
}

/// The permissions of files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Modes {
    plain: u32,
    executable: u32,
    others: BTreeMap<TreePath, u32>,
}

impl Modes {
    /// Of the files of a listing: the commonest modes cover most.
    fn of(listing: &TreeListing) -> Self {
        let modes = || listing.files.iter().filter_map(|(path, mode)| Some((path, (*mode)?)));
        let commonest = |executable: bool, default: u32| {
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            for (_, mode) in modes().filter(|(_, mode)| is_executable(*mode) == executable) {
                *counts.entry(mode).or_default() += 1;
            }
            counts.into_iter().max_by_key(|(_, count)| *count).map_or(default, |(mode, _)| mode)
        };
        let (plain, executable) = (commonest(false, 0o644), commonest(true, 0o755));
        let other = |mode: u32| mode != if is_executable(mode) { executable } else { plain };
        let others = modes().filter(|(_, mode)| other(*mode)).map(|(path, mode)| (path.clone(), mode));
        Self { plain, executable, others: others.collect() }
    }

    /// The permissions of a file.
    pub(super) fn of_file(&self, path: &[u8], is_executable: bool) -> u32 {
        let common = if is_executable { self.executable } else { self.plain };
        self.others.get(path).copied().unwrap_or(common)
    }
}

/// Git keeps the owner's bit alone.
fn is_executable(mode: u32) -> bool {
    mode & 0o100 != 0
}

impl CommitMessage {
    /// What is to be said of a tree that is kept now.
    pub(super) fn of(listing: &TreeListing, folders: BTreeSet<TreePath>, at: u64, to: Option<&str>) -> Self {
        let not_kept = listing.skipped.iter().take(MAX_NOT_KEPT);
        let modes = Modes::of(listing);
        Self {
            at: Some(at),
            to: to.map(str::to_owned),
            killed: false,
            not_kept: not_kept.map(|(path, why)| format!("{} ({why})", path.escape_ascii())).collect(),
            modes: (modes.others.len() <= MAX_LINES).then_some(modes),
            folders: (folders.len() <= MAX_LINES).then_some(folders),
            gone: if listing.gone.len() <= MAX_LINES { listing.gone.clone() } else { BTreeSet::new() },
        }
    }

    /// The message, of what `name` keeps for `session`.
    pub(super) fn write(&self, session: &str, name: &str) -> String {
        let mut text = format!("rawko session {session}, {name}\n");
        let mut line = |begin: &str, rest: &str| {
            text.push('\n');
            text.push_str(begin);
            text.push_str(rest);
        };
        if let Some(at) = self.at {
            line(AT, &at.to_string());
        }
        if let Some(to) = &self.to {
            line(TO, to);
        }
        if self.killed {
            line(KILLED, "");
        }
        if let Some(Modes { plain, executable, others }) = &self.modes {
            line(MODES, &format!("{plain:o} {executable:o}"));
            for (path, mode) in others {
                line(MODE, &format!("{mode:o} {}", path.escape_ascii()));
            }
        }
        if let Some(folders) = &self.folders {
            line(FOLDERS, "");
            folders.iter().for_each(|path| line(FOLDER, &path.escape_ascii().to_string()));
        }
        self.gone.iter().for_each(|path| line(GONE, &path.escape_ascii().to_string()));
        self.not_kept.iter().for_each(|not_kept| line(NOT_KEPT, not_kept));
        text.push('\n');
        text
    }

    /// Reads a commit. Not every one was made by rawko.
    pub(super) fn read(commit: &[u8]) -> Self {
        let text = String::from_utf8_lossy(commit);
        let mut message = Self::default();
        for line in text.lines() {
            if let Some(not_kept) = line.strip_prefix(NOT_KEPT) {
                message.not_kept.push(not_kept.to_owned());
            } else if let Some(at) = line.strip_prefix(AT) {
                message.at = at.parse().ok();
            } else if let Some(to) = line.strip_prefix(TO) {
                message.to = Some(to.to_owned());
            } else if line == KILLED {
                message.killed = true;
            } else if let Some((plain, executable)) =
                line.strip_prefix(MODES).and_then(|it| it.split_once(' '))
            {
                let modes = permissions(plain).zip(permissions(executable));
                message.modes =
                    modes.map(|(plain, executable)| Modes { plain, executable, ..Modes::default() });
            } else if let Some((mode, path)) = line.strip_prefix(MODE).and_then(|it| it.split_once(' ')) {
                if let (Some(modes), Some(mode), Some(path)) =
                    (&mut message.modes, permissions(mode), unescaped(path))
                {
                    modes.others.insert(path, mode);
                }
            } else if let Some(path) = line.strip_prefix(GONE) {
                message.gone.extend(unescaped(path));
            } else if line == FOLDERS {
                message.folders = Some(BTreeSet::new());
            } else if let Some(path) = line.strip_prefix(FOLDER)
                && let (Some(folders), Some(path)) = (&mut message.folders, unescaped(path))
                && is_plain(&path)
            {
                folders.insert(path);
            }
        }
        message
    }
}

fn permissions(octal: &str) -> Option<u32> {
    u32::from_str_radix(octal, 8).ok().filter(|mode| *mode <= 0o777)
}

/// The bytes that `escape_ascii` wrote.
fn unescaped(text: &str) -> Option<TreePath> {
    let mut bytes = text.bytes();
    let mut plain = TreePath::new();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digits = [bytes.next()?, bytes.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                other => other,
            },
            other => other,
        });
    }
    Some(plain)
}

/// The tree that a commit holds.
pub(super) fn tree_of(commit: &[u8]) -> Option<&str> {
    let line = commit.strip_prefix(b"tree ")?.split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(files: &[(&[u8], u32)]) -> TreeListing {
        let files = files.iter().map(|(path, mode)| (path.to_vec(), Some(*mode)));
        TreeListing {
            files: files.collect(),
            skipped: [(b"huge".to_vec(), "larger than 100 MB")].into(),
            gone: [b"gone\n".to_vec()].into(),
            ..TreeListing::default()
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let odd: &[u8] = b"odd\n\t\r'\"\\x41\xff name";
        let listing = listing(&[
            (b"a", 0o644),
            (b"b", 0o644),
            (b"secret", 0o600),
            (odd, 0o640),
            (b"run", 0o755),
            (b"own", 0o700),
            (b"x", 0o755),
        ]);
        let folders = [odd.to_vec(), b"empty".to_vec()].into();
        let message =
            CommitMessage { killed: true, ..CommitMessage::of(&listing, folders, 17, Some("0123")) };
        let read = CommitMessage::read(message.write("s", "rewind-1").as_bytes());
        assert_eq!(read, message);
        let modes = read.modes.unwrap();
        assert_eq!(modes.others.len(), 3, "the commonest modes cover most");
        for (path, mode) in
            [(b"a".as_slice(), 0o644), (b"secret", 0o600), (odd, 0o640), (b"own", 0o700), (b"run", 0o755)]
        {
            assert_eq!(modes.of_file(path, is_executable(mode)), mode, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn no_message_leads_out_of_the_project_or_sets_other_bits() {
        let read = CommitMessage::read(
            b"empty folders:\nfolder: ../x\nfolder: a/.git/b\nmodes: 644 755\nmode: 4755 x\nmode: 9 y\n",
        );
        assert_eq!(read.folders, Some(BTreeSet::new()));
        assert_eq!(read.modes.unwrap().others, BTreeMap::new());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let _ = CommitMessage::read(&bytes);
        }

        #[test]
        fn any_path_comes_back(path: Vec<u8>) {
            proptest::prop_assert_eq!(unescaped(&path.escape_ascii().to_string()), Some(path));
        }
    }
}
