//! The files of a plug-in: read with bounds, known by a digest, and copied.
//!
//! Nothing in a plug-in leads out of it: a link has to end, by every step of its path, inside the folder. What git and Python
//! keep beside the files (`.git`, `__pycache__`) is no part of a plug-in: it is neither copied nor counted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use rawko_core::text::hex;
use rawko_tools::open_regular_below;
use sha2::{Digest as _, Sha256};

use crate::config::Diagnostic;

/// Most files and folders of a plug-in.
const MAX_ENTRIES: usize = 5_000;
/// Deepest folder in a plug-in.
const MAX_DEPTH: usize = 16;
/// Most bytes of all files together: they are read at every start.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// What is no part of a plug-in.
const NOT_COUNTED: [&str; 2] = [".git", "__pycache__"];
/// The bit of a file that can be run.
const RUNS: u32 = 0o100;

/// The files of a plug-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PluginTree {
    /// SHA-256 of all of it, in hex.
    pub(crate) digest: String,
    /// What is known of each file, by its path: SHA-256, whether it can be run, or where a link leads.
    pub(crate) files: BTreeMap<String, String>,
}

impl PluginTree {
    /// Reads the plug-in at `root`, shown as `shown`.
    ///
    /// # Errors
    /// If it is too large, leads out of the folder, or cannot be read.
    pub(crate) fn read(root: &Path, shown: &Path) -> Result<Self, Box<Diagnostic>> {
        let mut files = BTreeMap::new();
        let mut left = MAX_BYTES;
        walk(root, shown, &mut |path, kind| {
            let known = match kind {
                TreeEntry::Folder => return Ok(()),
                TreeEntry::Link(target) => format!("link {}", sha256(target.as_os_str().as_encoded_bytes())),
                TreeEntry::File { mut file, runs } => {
                    let digest = hashed(&mut file, &mut left)?;
                    format!("{} {digest}", if runs { "program" } else { "file" })
                }
            };
            files.insert(path.to_string_lossy().into_owned(), known);
            Ok(())
        })?;
        let mut whole = Sha256::new();
        for (path, known) in &files {
            // A path may hold a line break, so each part is escaped.
            whole.update(format!("{} {}\n", path.escape_default(), known));
        }
        Ok(Self { digest: hex(&whole.finalize()), files })
    }

    /// The paths that differ from `before`, at most this many.
    pub(crate) fn changed(&self, before: &BTreeMap<String, String>, most: usize) -> Vec<String> {
        let now = self.files.iter().filter(|(path, known)| before.get(*path) != Some(*known));
        let gone = before.keys().filter(|path| !self.files.contains_key(*path));
        let mut paths: Vec<String> = now.map(|(path, _)| path).chain(gone).cloned().collect();
        paths.sort();
        paths.truncate(most);
        paths
    }
}

/// Copies the plug-in at `from`, shown as `shown`, into the empty folder `to`.
///
/// # Errors
/// As [`PluginTree::read`], or if it cannot be written.
pub(crate) fn copy(from: &Path, shown: &Path, to: &Path) -> Result<(), Box<Diagnostic>> {
    let mut left = MAX_BYTES;
    walk(from, shown, &mut |path, kind| {
        let target = to.join(path);
        match kind {
            TreeEntry::Folder => fs::create_dir(&target).map_err(TreeFault::Unreadable),
            TreeEntry::Link(leads_to) => symlink(leads_to, &target).map_err(TreeFault::Unreadable),
            TreeEntry::File { mut file, runs } => {
                let mut copy = File::create_new(&target).map_err(TreeFault::Unreadable)?;
                each_chunk(&mut file, &mut left, |bytes| copy.write_all(bytes))?;
                let mode = if runs { 0o755 } else { 0o644 };
                copy.set_permissions(Permissions::from_mode(mode)).map_err(TreeFault::Unreadable)
            }
        }
    })
}

enum TreeEntry {
    Folder,
    Link(PathBuf),
    File { file: File, runs: bool },
}

enum TreeFault {
    TooMuch,
    LeadsOut,
    Special,
    Unreadable(io::Error),
}

type Visit<'a> = &'a mut dyn FnMut(&Path, TreeEntry) -> Result<(), TreeFault>;

fn walk(root: &Path, shown: &Path, visit: Visit<'_>) -> Result<(), Box<Diagnostic>> {
    let mut entries = 0;
    folder(root, Path::new(""), 0, &mut entries, visit).map_err(|(path, stop)| {
        let shown = shown.join(&path);
        let (message, help) = match stop {
            TreeFault::TooMuch => (
                format!(
                    "the plug-in is too large: it may have {MAX_ENTRIES} files and folders, {MAX_DEPTH} levels, and {} MiB",
                    MAX_BYTES >> 20
                ),
                "name the folder of the plug-in itself (--folder), or take out what it does not need",
            ),
            TreeFault::LeadsOut => (
                "this link leads out of the plug-in".to_owned(),
                "put the file itself there, or use a relative link within the plug-in",
            ),
            TreeFault::Special => {
                ("this is neither a file, a folder nor a link".to_owned(), "remove it from the plug-in")
            }
            TreeFault::Unreadable(error) => {
                (format!("this cannot be read or copied: {error}"), "check its permissions")
            }
        };
        Box::new(Diagnostic::of_file(&shown, message, Some(help.to_owned())))
    })
}

fn folder(
    root: &Path,
    below: &Path,
    depth: usize,
    entries: &mut usize,
    visit: Visit<'_>,
) -> Result<(), (PathBuf, TreeFault)> {
    let unreadable = |error| (below.to_owned(), TreeFault::Unreadable(error));
    let listed = fs::read_dir(root.join(below)).map_err(unreadable)?;
    let mut names = Vec::new();
    for entry in listed {
        let name = entry.map_err(unreadable)?.file_name();
        if !NOT_COUNTED.iter().any(|not| name == *not) {
            names.push(name);
        }
        if *entries + names.len() > MAX_ENTRIES {
            return Err((below.to_owned(), TreeFault::TooMuch));
        }
    }
    *entries += names.len();
    names.sort_unstable();
    for name in names {
        let path = below.join(name);
        let at = |stop| (path.clone(), stop);
        if path.to_str().is_none() {
            return Err(at(TreeFault::Unreadable(io::Error::other("its name is not UTF-8"))));
        }
        let found = root.join(&path).symlink_metadata().map_err(|error| at(TreeFault::Unreadable(error)))?;
        if found.is_dir() {
            if depth == MAX_DEPTH {
                return Err(at(TreeFault::TooMuch));
            }
            visit(&path, TreeEntry::Folder).map_err(at)?;
            folder(root, &path, depth + 1, entries, visit)?;
        } else {
            let kind = entry(root, &path, &found).map_err(at)?;
            visit(&path, kind).map_err(at)?;
        }
    }
    Ok(())
}

fn entry(root: &Path, path: &Path, found: &Metadata) -> Result<TreeEntry, TreeFault> {
    if found.is_symlink() {
        let target = fs::read_link(root.join(path)).map_err(TreeFault::Unreadable)?;
        let ends_inside = || {
            let (real, root) = (root.join(path).canonicalize().ok()?, root.canonicalize().ok()?);
            real.strip_prefix(root).ok().filter(|inside| !has_uncounted(inside)).map(|_| ())
        };
        // By its text too: the folder gets another name when it is copied.
        if stays_inside(path, &target) && ends_inside().is_some() {
            return Ok(TreeEntry::Link(target));
        }
        return Err(TreeFault::LeadsOut);
    }
    if !found.is_file() {
        return Err(TreeFault::Special);
    }
    if found.len() > MAX_BYTES {
        return Err(TreeFault::TooMuch);
    }
    let file = open_regular_below(root, path).map_err(TreeFault::Unreadable)?;
    Ok(TreeEntry::File { file, runs: found.permissions().mode() & RUNS != 0 })
}

/// Whether a link at `path` in a folder never leaves the folder on the way to `target`.
fn stays_inside(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    target.components().all(|part| match part {
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::CurDir => true,
        Component::ParentDir => depth.checked_sub(1).is_some_and(|up| {
            depth = up;
            true
        }),
        Component::RootDir | Component::Prefix(_) => false,
    })
}

/// Whether a path leads to what does not count.
fn has_uncounted(path: &Path) -> bool {
    path.components().any(|part| NOT_COUNTED.iter().any(|not| part.as_os_str() == OsStr::new(not)))
}

fn hashed(file: &mut File, left: &mut u64) -> Result<String, TreeFault> {
    let mut hash = Sha256::new();
    each_chunk(file, left, |bytes| {
        hash.update(bytes);
        Ok(())
    })?;
    Ok(hex(&hash.finalize()))
}

fn each_chunk(
    file: &mut File,
    left: &mut u64,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), TreeFault> {
    let mut chunk = [0; 64 * 1024];
    loop {
        let read = file.read(&mut chunk).map_err(TreeFault::Unreadable)?;
        let Some(bytes) = chunk.get(..read).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        *left = left.checked_sub(bytes.len() as u64).ok_or(TreeFault::TooMuch)?;
        take(bytes).map_err(TreeFault::Unreadable)?;
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn put(&self, name: &str, text: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), text).unwrap();
        }

        fn read(&self) -> Result<PluginTree, Box<Diagnostic>> {
            PluginTree::read(&self.path("p"), Path::new("p"))
        }
    }

    #[test]
    fn each_file_counts_with_its_name_and_rights_and_what_programs_keep_does_not() {
        let folder = Folder::new();
        folder.put("p/plugin.json", "{}");
        folder.put("p/bin/run", "echo 1");
        let first = folder.read().unwrap();
        folder.put("p/.git/HEAD", "x");
        folder.put("p/bin/__pycache__/a.pyc", "x");
        assert_eq!(folder.read().unwrap(), first);
        let mut seen = vec![first.digest.clone()];
        let mut differs = |what: &str, paths: &[&str]| {
            let now = folder.read().unwrap();
            assert!(!seen.contains(&now.digest), "{what}");
            assert_eq!(now.changed(&first.files, 9), paths, "{what}");
            seen.push(now.digest);
        };
        folder.put("p/bin/run", "echo 2");
        differs("a changed file", &["bin/run"]);
        fs::set_permissions(folder.path("p/bin/run"), Permissions::from_mode(0o755)).unwrap();
        differs("a file that can be run", &["bin/run"]);
        symlink("run", folder.path("p/bin/link")).unwrap();
        differs("a new link", &["bin/link", "bin/run"]);
        fs::remove_file(folder.path("p/plugin.json")).unwrap();
        differs("a file that is gone", &["bin/link", "bin/run", "plugin.json"]);
    }

    #[test]
    fn nothing_leads_out_of_it() {
        let folder = Folder::new();
        folder.put("secret", "secret");
        folder.put("p/a/file", "x");
        folder.put("p/.git/config", "x");
        for good in ["file", "../a/file", "./../a", ".."] {
            symlink(good, folder.path("p/a/link")).unwrap();
            folder.read().unwrap_or_else(|error| panic!("{good}: {error}"));
            fs::remove_file(folder.path("p/a/link")).unwrap();
        }
        let absolute = folder.path("p/a/file");
        let absolute = absolute.to_str().unwrap();
        for bad in
            ["../../secret", "../../p/a/file", "../..", "/etc/passwd", "nowhere", "../.git/config", absolute]
        {
            symlink(bad, folder.path("p/a/link")).unwrap();
            let error = folder.read().unwrap_err().to_string();
            assert!(
                error.contains("leads out of the plug-in") && error.contains("p/a/link"),
                "{bad}: {error}"
            );
            let target = Folder::new();
            assert!(copy(&folder.path("p"), Path::new("p"), target.0.path()).is_err(), "{bad}");
            fs::remove_file(folder.path("p/a/link")).unwrap();
        }
    }

    #[test]
    fn a_copy_is_the_same_plugin() {
        let (folder, target) = (Folder::new(), Folder::new());
        folder.put("p/bin/run", "echo 1");
        folder.put("p/.git/HEAD", "x");
        fs::set_permissions(folder.path("p/bin/run"), Permissions::from_mode(0o700)).unwrap();
        symlink("bin/run", folder.path("p/run")).unwrap();
        copy(&folder.path("p"), Path::new("p"), target.0.path()).unwrap();
        assert_eq!(PluginTree::read(target.0.path(), Path::new("")).unwrap(), folder.read().unwrap());
        assert!(!target.path(".git").exists());
    }

    #[test]
    fn what_is_too_much_or_no_file_is_refused() {
        let folder = Folder::new();
        let deep: Vec<&str> = std::iter::repeat_n("d", MAX_DEPTH + 1).collect();
        folder.put(&format!("p/{}/file", deep.join("/")), "");
        assert!(folder.read().unwrap_err().to_string().contains("too large"));
        fs::remove_dir_all(folder.path("p")).unwrap();
        folder.put("p/big", "");
        File::options().write(true).open(folder.path("p/big")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(folder.read().unwrap_err().to_string().contains("64 MiB"));
        fs::remove_file(folder.path("p/big")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.path("p/fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(folder.read().unwrap_err().to_string().contains("neither a file"));
    }
}
