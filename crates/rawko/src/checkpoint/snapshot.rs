//! A tree as a list of its files.

use std::collections::{BTreeMap, BTreeSet};

use super::error::CheckpointError;
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

/// What `git ls-tree -r -t -z -l` writes of the objects in a tree.
#[derive(Debug, Default)]
pub(super) struct Listed<'a> {
    /// The sizes of the files' contents.
    pub(super) sizes: BTreeMap<&'a str, u64>,
    /// The trees in it.
    pub(super) trees: BTreeSet<&'a str>,
}

/// Reads what `git ls-tree -r -t -z -l` writes.
pub(super) fn listed(answer: &[u8]) -> Listed<'_> {
    let mut listed = Listed::default();
    for record in answer.split(|byte| *byte == 0) {
        let words =
            record.split(|byte| *byte == b'\t').next().and_then(|words| std::str::from_utf8(words).ok());
        let words: Vec<&str> = words.into_iter().flat_map(str::split_ascii_whitespace).collect();
        match words.as_slice() {
            [_, "tree", id, _] => drop(listed.trees.insert(id)),
            [_, "blob", id, size] => drop(listed.sizes.insert(id, size.parse().unwrap_or_default())),
            _ => {}
        }
    }
    listed
}

/// The files of the tree `root`, where `tree` gives the content of each tree in it. Other repositories, and names that no
/// honest tree holds, are left out.
pub(super) fn of_trees<'a>(
    root: &str,
    sizes: &BTreeMap<&str, u64>,
    tree: &dyn Fn(&str) -> Result<&'a [u8], CheckpointError>,
) -> Result<Snapshot, CheckpointError> {
    let mut files = Snapshot::new();
    let mut open = vec![(TreePath::new(), root.to_owned())];
    while let Some((folder, id)) = open.pop() {
        for (mode, name, id) in entries(tree(&id)?, id.len() / 2) {
            let path =
                if folder.is_empty() { name.to_vec() } else { [&folder, b"/".as_slice(), name].concat() };
            if !is_plain(&path) {
                continue;
            }
            match EntryKind::of_mode(mode) {
                Some(kind) => {
                    let size = sizes.get(id.as_str()).copied().unwrap_or_default();
                    files.insert(path, TreeEntry { kind, id, size, mode: None });
                }
                None if mode == "40000" => open.push((path, id)),
                None => {}
            }
        }
    }
    Ok(files)
}

/// What stands in a tree: mode, name and id. A name of an object has so many bytes.
fn entries(mut tree: &[u8], bytes: usize) -> Vec<(&str, &[u8], String)> {
    let mut entries = Vec::new();
    let mut next = || {
        let end = tree.iter().position(|byte| *byte == 0)?;
        let mut words = tree.get(..end)?.splitn(2, |byte| *byte == b' ');
        let (mode, name) = (std::str::from_utf8(words.next()?).ok()?, words.next()?);
        let id = hex::encode(tree.get(end + 1..)?.get(..bytes)?);
        tree = tree.get(end + 1 + bytes..)?;
        Some((mode, name, id))
    };
    while let Some(entry) = next() {
        entries.push(entry);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; 20] = [0xab; 20];

    /// A tree with one entry, and what is read of it.
    #[track_caller]
    fn check(entry: &[u8], expected: Option<(&[u8], &str, u64)>) {
        let (id, content) = (hex::encode(ID), [entry, &ID].concat());
        let sizes = BTreeMap::from([(id.as_str(), 12)]);
        let read = of_trees(&"0".repeat(40), &sizes, &|_| Ok(content.as_slice())).unwrap();
        let read = read.iter().next().map(|(path, entry)| (path.as_slice(), entry.kind.mode(), entry.size));
        assert_eq!(read, expected, "{}", entry.escape_ascii());
    }

    #[test]
    fn what_git_writes_is_read() {
        check(b"100644 b c\0", Some((b"b c", "100644", 12)));
        check(b"100755 x\t\n\xff\0", Some((b"x\t\n\xff", "100755", 12)));
        check(b"120000 link\0", Some((b"link", "120000", 12)));
        check(b"160000 sub\0", None);
        for name in [".git", ".GIT", "..", "", ".", "a/../b", "/x"] {
            check(format!("100644 {name}\0").as_bytes(), None);
            check(format!("40000 {name}\0").as_bytes(), None);
        }
        check(b"", None);
        check(b"100644\0", None);
    }

    #[test]
    fn what_lies_in_folders_is_read() {
        let id = |byte: u8| hex::encode([byte; 20]);
        let top = [b"40000 dir\0".as_slice(), &[1; 20], b"100644 file\0", &[2; 20]].concat();
        let below = [b"100755 run\0".as_slice(), &[3; 20]].concat();
        let tree = |wanted: &str| Ok(if wanted == id(1) { below.as_slice() } else { top.as_slice() });
        let read = of_trees(&id(9), &BTreeMap::new(), &tree).unwrap();
        let read: Vec<_> = read.iter().map(|(path, entry)| (path.as_slice(), entry.id.clone())).collect();
        assert_eq!(read, [(b"dir/run".as_slice(), id(3)), (b"file", id(2))]);
        let listed = listed(
            b"040000 tree 0101       -\tdir\0100755 blob 0303      12\tdir/run\0160000 commit 04 -\tx\0",
        );
        assert_eq!(listed.trees, BTreeSet::from(["0101"]));
        assert_eq!(listed.sizes, BTreeMap::from([("0303", 12)]));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let _ = listed(&bytes);
            // A tree that holds itself has no end.
            let once = std::cell::Cell::new(bytes.as_slice());
            let read = of_trees(&"0".repeat(40), &BTreeMap::new(), &|_| Ok(once.take()));
            for path in read.unwrap().keys() {
                proptest::prop_assert!(is_plain(path));
            }
        }
    }
}
