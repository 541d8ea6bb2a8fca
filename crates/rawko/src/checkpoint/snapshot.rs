//! A tree as a list of its files.

use std::collections::BTreeMap;

use super::listing::{TreePath, is_plain};

/// The files of a tree, by path.
pub(super) type Snapshot = BTreeMap<TreePath, TreeEntry>;

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) kind: TreeEntryKind,
    /// Names the content.
    pub(super) id: String,
    /// The permissions of a file, where they are known.
    pub(super) mode: Option<u32>,
}

impl TreeEntry {
    /// Whether both are the same as far as it is known. Content that is named by hashes of different kinds cannot be
    /// compared.
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
pub(super) enum TreeEntryKind {
    /// A regular file.
    File,
    /// One that can be executed.
    Executable,
    /// A symbolic link; the content is where it leads.
    Link,
    /// A folder that is of interest for itself: an empty one. Git keeps none.
    Folder,
}

impl TreeEntryKind {
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

/// The contents of a tree: files, and the trees below it. Other repositories, and names that no honest tree holds, are
/// left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TreeContent {
    pub(super) files: Vec<(TreePath, TreeEntry)>,
    /// Each with its id.
    pub(super) trees: Vec<(TreePath, String)>,
}

impl TreeContent {
    /// Reads a tree of git. A name of an object has so many bytes.
    pub(super) fn read(mut tree: &[u8], bytes: usize) -> Self {
        let mut content = Self::default();
        let mut next = || {
            let end = tree.iter().position(|byte| *byte == 0)?;
            let mut words = tree.get(..end)?.splitn(2, |byte| *byte == b' ');
            let (mode, name) = (std::str::from_utf8(words.next()?).ok()?, words.next()?);
            let id = hex::encode(tree.get(end + 1..)?.get(..bytes)?);
            tree = tree.get(end + 1 + bytes..)?;
            Some((mode, name.to_vec(), id))
        };
        while let Some((mode, name, id)) = next() {
            match TreeEntryKind::of_mode(mode) {
                _ if !is_plain(&name) => {}
                Some(kind) => content.files.push((name, TreeEntry { kind, id, mode: None })),
                None if mode == "40000" => content.trees.push((name, id)),
                None => {}
            }
        }
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; 20] = [0xab; 20];

    /// A tree with one entry, and what is read of it.
    #[track_caller]
    fn check(entry: &[u8], expected: Option<(&[u8], &str)>) {
        let read = TreeContent::read(&[entry, &ID].concat(), ID.len());
        let trees = read.trees.iter().map(|(name, id)| (name.as_slice(), "040000", id));
        let files = read.files.iter().map(|(name, entry)| (name.as_slice(), entry.kind.mode(), &entry.id));
        let read = files.chain(trees).map(|(name, mode, id)| {
            assert_eq!(*id, hex::encode(ID));
            (name, mode)
        });
        assert_eq!(read.collect::<Vec<_>>(), Vec::from_iter(expected), "{}", entry.escape_ascii());
    }

    #[test]
    fn what_git_writes_is_read() {
        check(b"100644 b c\0", Some((b"b c", "100644")));
        check(b"100755 x\t\n\xff\0", Some((b"x\t\n\xff", "100755")));
        check(b"120000 link\0", Some((b"link", "120000")));
        check(b"40000 folder\0", Some((b"folder", "040000")));
        check(b"160000 sub\0", None);
        for name in [".git", ".GIT", "..", "", ".", "a/../b", "/x"] {
            check(format!("100644 {name}\0").as_bytes(), None);
            check(format!("40000 {name}\0").as_bytes(), None);
        }
        check(b"", None);
        check(b"100644\0", None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let read = TreeContent::read(&bytes, 20);
            let names = read.files.iter().map(|(name, _)| name).chain(read.trees.iter().map(|(name, _)| name));
            for name in names {
                proptest::prop_assert!(is_plain(name));
            }
        }
    }
}
