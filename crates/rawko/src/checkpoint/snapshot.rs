//! A tree as a list of its files.

use std::collections::BTreeMap;

use super::listing::{TreePath, is_plain};

/// The files of a tree, by path.
pub(super) type Snapshot = BTreeMap<TreePath, TreeEntry>;

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) kind: EntryKind,
    /// Names the content.
    pub(super) id: String,
    pub(super) size: u64,
    /// The permissions of a file, where they are known.
    pub(super) mode: Option<u32>,
}

impl TreeEntry {
    /// Whether both are the same as far as it is known. What is named in different ways cannot be compared.
    fn is_like(&self, other: &Self) -> bool {
        let same_mode = self.mode.is_none() || other.mode.is_none() || self.mode == other.mode;
        let same_content = self.id == other.id || self.id.len() != other.id.len();
        self.kind == other.kind && same_content && same_mode
    }
}

/// Whether what is at a path in two trees is the same.
pub(super) fn same(a: Option<&TreeEntry>, b: Option<&TreeEntry>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.is_like(b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// A regular file.
    File,
    /// One that can be executed.
    Executable,
    /// A symbolic link; the content is where it leads.
    Link,
    /// A folder that is of interest for itself: an empty one. Git keeps none.
    Folder,
}

impl EntryKind {
    /// As git writes it.
    pub(super) fn mode(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
            Self::Folder => "040000",
        }
    }

    pub(super) fn of_mode(mode: &str) -> Option<Self> {
        [Self::File, Self::Executable, Self::Link].into_iter().find(|kind| kind.mode() == mode)
    }
}

/// Reads what `git ls-tree -r -z -l` writes. Other repositories, and names that no honest tree holds, are left out.
pub(super) fn parse(answer: &[u8]) -> Snapshot {
    let records = answer.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    records.filter_map(record).filter(|(path, _)| is_plain(path)).collect()
}

fn record(record: &[u8]) -> Option<(TreePath, TreeEntry)> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let mut words = std::str::from_utf8(record.get(..tab)?).ok()?.split_ascii_whitespace();
    let kind = EntryKind::of_mode(words.next()?)?;
    let id = words.nth(1)?.to_owned();
    let size = words.next()?.parse().ok()?;
    Some((record.get(tab + 1..)?.to_vec(), TreeEntry { kind, id, size, mode: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(record: &[u8], expected: Option<(&[u8], &str, u64)>) {
        let read = parse(record);
        let read = read.iter().next().map(|(path, entry)| (path.as_slice(), entry.kind.mode(), entry.size));
        assert_eq!(read, expected, "{}", record.escape_ascii());
    }

    #[test]
    fn what_git_writes_is_read() {
        check(b"100644 blob 0123abcd      12\ta/b c\0", Some((b"a/b c", "100644", 12)));
        check(b"100755 blob 0123abcd       0\tx\t\n\xff\0", Some((b"x\t\n\xff", "100755", 0)));
        check(b"120000 blob 0123abcd       4\tlink\0", Some((b"link", "120000", 4)));
        check(b"160000 commit 0123abcd       -\tsub\0", None);
        for name in [".git/hooks/x", "a/.GIT/x", "../x", "a/../x", "a//x", "./x", "/x"] {
            check(format!("100644 blob 0123abcd       1\t{name}\0").as_bytes(), None);
        }
        check(b"", None);
        check(b"100644\0", None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            for path in parse(&bytes).keys() {
                proptest::prop_assert!(is_plain(path));
            }
        }
    }
}
