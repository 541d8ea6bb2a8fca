//! Empty folders, which git does not keep.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use super::listing::{Never, TreeListing, TreePath, is_plain};

/// The sandbox holds its place, so that no command makes it. A killed run leaves it there.
const HELD: &[u8] = b".claude";
/// Deepest chain of folders that is followed to find out whether it is empty.
const DEPTH: usize = 64;

/// The empty folders beside and below the files of `listing`. A folder with nothing but ignored files is none.
pub(super) fn empty(project: &Path, listing: &TreeListing, never: &Never) -> BTreeSet<TreePath> {
    let mut known: BTreeSet<&[u8]> = BTreeSet::from([b"".as_slice()]);
    for path in listing.files.keys() {
        let mut above = path.as_slice();
        while let Some(end) = above.iter().rposition(|byte| *byte == b'/') {
            above = above.get(..end).unwrap_or_default();
            if !known.insert(above) {
                break;
            }
        }
    }
    let mut empty = BTreeSet::new();
    for folder in &known {
        for path in folders_in(project, folder).unwrap_or_default() {
            if !known.contains(path.as_slice()) {
                let mut leaves = Vec::new();
                if is_empty(project, path, never, DEPTH, &mut leaves) {
                    empty.extend(leaves.into_iter().filter(|leaf| leaf != HELD));
                }
            }
        }
    }
    empty
}

/// The folders right below a folder.
fn folders_in(project: &Path, folder: &[u8]) -> std::io::Result<Vec<TreePath>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(project.join(OsStr::from_bytes(folder)))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(joined(folder, entry.file_name().into_vec()));
        }
    }
    folders.retain(|path| is_plain(path));
    Ok(folders)
}

/// Whether nothing but folders is below `folder`; then `leaves` has those with nothing at all.
fn is_empty(
    project: &Path,
    folder: TreePath,
    never: &Never,
    depth: usize,
    leaves: &mut Vec<TreePath>,
) -> bool {
    if never.covers(&folder) {
        return false;
    }
    let Ok(entries) = std::fs::read_dir(project.join(OsStr::from_bytes(&folder))) else { return false };
    let mut is_leaf = true;
    for entry in entries {
        let Ok(entry) = entry else { return false };
        is_leaf = false;
        let path = joined(&folder, entry.file_name().into_vec());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if depth == 0 || !is_folder || !is_plain(&path) || !is_empty(project, path, never, depth - 1, leaves)
        {
            return false;
        }
    }
    if is_leaf {
        leaves.push(folder);
    }
    true
}

fn joined(folder: &[u8], name: Vec<u8>) -> TreePath {
    if folder.is_empty() { name } else { [folder, b"/", &name].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_without_any_file_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let made = |path: &str| std::fs::create_dir_all(dir.path().join(path)).unwrap();
        for path in ["a/b/c", "src/deep/none", "out/x", ".git/refs", ".rawko/sessions/one", "top"] {
            made(path);
        }
        for path in ["src/main.rs", "out/x/ignored.o", "src/deep/kept"] {
            std::fs::write(dir.path().join(path), "").unwrap();
        }
        std::os::unix::fs::symlink("top", dir.path().join("link")).unwrap();
        let files = [b"src/main.rs".as_slice(), b"src/deep/kept"].map(|path| (path.to_vec(), None));
        let listing = TreeListing { files: files.into(), ..TreeListing::default() };
        let never = Never::of(dir.path(), &dir.path().join(".rawko/sessions/one"));
        let found: Vec<String> =
            empty(dir.path(), &listing, &never).iter().map(|path| path.escape_ascii().to_string()).collect();
        assert_eq!(found, ["a/b/c", "src/deep/none", "top"]);
    }
}
