//! Compares what a memory refers to with the project as it is now.
//!
//! Owns looking; the core decides what the result means ([`Staleness::malus`]). A memory may come from a stranger: only
//! paths inside the project are looked at, and one look costs no more than a bounded number of files, bytes and globs,
//! whatever the memories name.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use ignore::WalkBuilder;
use rawko_core::memory::{CitedFile, Header, PathGlob, Staleness};
use sha2::{Digest as _, Sha256};

use rawko_core::text::hex;

/// Most cited files of one memory that are looked at.
const MAX_CITED: usize = 20;
/// Most bytes of a file that is hashed. Larger ones count as unchanged.
const MAX_HASHED: u64 = 4 * 1024 * 1024;
/// Most bytes that one look hashes. Files beyond that count as unchanged.
const MAX_HASHED_IN_ALL: u64 = 64 * 1024 * 1024;
/// Most globs that one look tries, most bytes of one of them, and most paths that all of them are tried on. Anything
/// beyond counts as found.
const MAX_GLOBS: usize = 1_000;
const MAX_GLOB: usize = 1_000;
const MAX_TRIED: u64 = 4_000_000;
/// Most files of the project among which globs are looked for. In larger projects they count as found.
const MAX_WALKED: usize = 20_000;

/// Most folders whose ignored files are looked through, of [`MAX_WALKED`] each. Globs below others count as found.
const MAX_FOLDERS: usize = 5;

/// The project's tree as one look finds it; nothing is listed, read or tried twice.
#[derive(Debug)]
pub(super) struct Tree {
    project: PathBuf,
    bounds: Bounds,
    /// Digests by real path; `None` where a file cannot be read, or there was no more to spend on it.
    digests: RefCell<BTreeMap<PathBuf, Option<String>>>,
    /// Whether anything is there, by glob.
    globs: RefCell<BTreeMap<String, bool>>,
    /// `None` where there are too many.
    files: OnceCell<Option<Vec<PathBuf>>>,
    /// The same below a folder, with what git ignores; by the folder as the globs name it.
    ignored_too: RefCell<BTreeMap<PathBuf, Option<Vec<PathBuf>>>>,
}

/// What a look may still cost.
#[derive(Debug)]
struct Bounds {
    bytes: Cell<u64>,
    tries: Cell<u64>,
}

enum Found {
    Same,
    Changed,
    Missing,
}

impl Tree {
    /// The tree of `project`. Nothing is read yet.
    pub(super) fn new(project: &Path) -> Self {
        Self {
            project: project.canonicalize().unwrap_or_else(|_| project.to_owned()),
            bounds: Bounds { bytes: Cell::new(MAX_HASHED_IN_ALL), tries: Cell::new(MAX_TRIED) },
            digests: RefCell::default(),
            globs: RefCell::default(),
            files: OnceCell::new(),
            ignored_too: RefCell::default(),
        }
    }

    /// What became of the files that a memory speaks of.
    pub(super) fn look(&self, header: &Header) -> Staleness {
        let mut staleness = Staleness::default();
        for file in header.files.iter().take(MAX_CITED) {
            match self.cited(file) {
                Found::Same => {}
                Found::Changed => staleness.changed.push(file.path.clone()),
                Found::Missing => staleness.missing.push(file.path.clone()),
            }
        }
        staleness.nothing_left =
            !header.paths.is_empty() && !header.paths.iter().any(|pattern| self.has(pattern));
        staleness
    }

    fn cited(&self, file: &CitedFile) -> Found {
        let Some(path) = self.inside(&file.path) else { return Found::Same };
        let Ok(real) = path.canonicalize() else { return Found::Missing };
        let is_ours = real.starts_with(&self.project);
        if !is_ours {
            return Found::Same;
        }
        let mut digests = self.digests.borrow_mut();
        match digests.entry(real).or_insert_with_key(|real| self.digest(real)) {
            Some(digest) if *digest != file.sha256 => Found::Changed,
            Some(_) | None => Found::Same,
        }
    }

    /// `None` where there is none to be had, or it would cost too much.
    fn digest(&self, real: &Path) -> Option<String> {
        // Only a plain file is opened: a pipe would be waited for.
        let data = real.metadata().ok().filter(|data| data.is_file() && data.len() <= MAX_HASHED)?;
        self.bounds.bytes.set(self.bounds.bytes.get().checked_sub(data.len())?);
        digest(real).ok()
    }

    fn has(&self, pattern: &str) -> bool {
        let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
        if !pattern.contains(['*', '?', '[', '{']) {
            // One that leaves the project is unknown.
            return self.inside(pattern).is_none_or(|path| path.symlink_metadata().is_ok());
        }
        if let Some(known) = self.globs.borrow().get(pattern) {
            return *known;
        }
        if pattern.len() > MAX_GLOB || self.globs.borrow().len() >= MAX_GLOBS {
            return true;
        }
        let found = self.finds(pattern);
        self.globs.borrow_mut().insert(pattern.to_owned(), found);
        found
    }

    fn finds(&self, pattern: &str) -> bool {
        // One that is no glob, or a tree that is too large to look for it, is unknown too.
        let (Some(glob), Some(files)) = (PathGlob::read(pattern), self.files()) else { return true };
        let tries = &self.bounds.tries;
        let is_one = |path: &PathBuf| match tries.get().checked_sub(1) {
            Some(left) => {
                tries.set(left);
                glob.matches(&path.to_string_lossy())
            }
            None => true,
        };
        files.iter().any(is_one) || self.ignored(fixed(pattern), is_one)
    }

    /// What git would have: most globs mean one of these.
    fn files(&self) -> Option<&[PathBuf]> {
        let list = || {
            let mut walk = WalkBuilder::new(&self.project);
            walk.hidden(false)
                .git_global(false)
                .require_git(false)
                .filter_entry(|entry| entry.file_name() != ".git");
            self.walked(&walk)
        };
        self.files.get_or_init(list).as_deref()
    }

    /// Whether one of the files below `folder` is one, those that git ignores among them: a file that is there is
    /// there. If it is not known, it counts as found.
    fn ignored(&self, folder: &str, is_one: impl Fn(&PathBuf) -> bool) -> bool {
        let inside = if folder.is_empty() { Some(self.project.clone()) } else { self.inside(folder) };
        let Some(path) = inside else { return true };
        let Ok(real) = path.canonicalize() else { return false };
        // Not through a link either.
        if !real.starts_with(&self.project) {
            return true;
        }
        let mut known = self.ignored_too.borrow_mut();
        if known.len() >= MAX_FOLDERS && !known.contains_key(&path) {
            return true;
        }
        let files = known.entry(path).or_insert_with_key(|path| {
            let mut walk = WalkBuilder::new(path);
            walk.standard_filters(false)
                .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
            self.walked(&walk)
        });
        files.as_ref().is_none_or(|files| files.iter().any(is_one))
    }

    /// The paths in the project; `None` where there are too many.
    fn walked(&self, walk: &WalkBuilder) -> Option<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in walk.build().flatten() {
            if files.len() >= MAX_WALKED {
                return None;
            }
            files.extend(entry.path().strip_prefix(&self.project).ok().map(Path::to_owned));
        }
        Some(files)
    }

    /// The path in the project; `None` where it leaves it.
    fn inside(&self, path: &str) -> Option<PathBuf> {
        let path = Path::new(path);
        let stays = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        (stays && !path.as_os_str().is_empty()).then(|| self.project.join(path))
    }
}

/// The folder that all files of a glob are in.
fn fixed(pattern: &str) -> &str {
    let end = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    pattern[..end].rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// SHA-256 of a file's first bytes, up to [`MAX_HASHED`].
fn digest(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?.take(MAX_HASHED);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// A project's file as a memory cites it: its path and its content's digest; `None` where it cannot be read or is too large.
#[must_use]
pub fn cite(project: &Path, path: &str) -> Option<CitedFile> {
    let tree = Tree::new(project);
    let real = tree.inside(path)?.canonicalize().ok()?;
    let data = real.metadata().ok()?;
    let fits = real.starts_with(&tree.project) && data.is_file() && data.len() <= MAX_HASHED;
    fits.then(|| digest(&real).ok()).flatten().map(|sha256| CitedFile { path: path.to_owned(), sha256 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The test would hang: a pipe without a writer blocks its reader.
    #[cfg(unix)]
    #[test]
    fn a_pipe_that_a_memory_cites_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let header = json!({
            "title": "t", "whenToUse": ["x"], "importance": "low",
            "files": [{"path": "pipe", "sha256": "0".repeat(64)}],
        });
        let header = serde_json::from_value(header).unwrap();
        assert!(!Tree::new(dir.path()).look(&header).is_stale());
    }

    #[test]
    fn what_changed_or_went_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("p");
        std::fs::create_dir_all(project.join("src/deep")).unwrap();
        std::fs::write(project.join("src/a.rs"), "a").unwrap();
        std::fs::write(project.join("src/deep/b.rs"), "b").unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("../../secret", project.join("src/link")).unwrap();
        let a = cite(&project, "src/a.rs").unwrap();
        assert!(cite(&project, "src/link").is_none() && cite(&project, "../secret").is_none());
        let tree = Tree::new(&project);
        let check = |paths: &[&str], files: &[(&str, &str)], expected: (&[&str], &[&str], bool)| {
            let files: Vec<_> =
                files.iter().map(|(path, sha256)| json!({"path": path, "sha256": sha256})).collect();
            let front = json!({"title": "T", "whenToUse": "x", "paths": paths, "files": files});
            let found = tree.look(&Header::read(&front).0.unwrap());
            let changed: Vec<&str> = found.changed.iter().map(String::as_str).collect();
            let missing: Vec<&str> = found.missing.iter().map(String::as_str).collect();
            assert_eq!((&changed[..], &missing[..], found.nothing_left), expected, "{paths:?}");
        };
        let other = "00".repeat(32);
        check(&[], &[("src/a.rs", &a.sha256)], (&[], &[], false));
        check(&[], &[("src/a.rs", &other), ("src/c.rs", &other)], (&["src/a.rs"], &["src/c.rs"], false));
        check(&["src/a.rs"], &[], (&[], &[], false));
        check(&["./src/"], &[], (&[], &[], false));
        check(&["lib/**", "src/*/b.rs"], &[], (&[], &[], false));
        check(&["lib/**", "src/c.rs"], &[], (&[], &[], true));
        check(&["src/*.txt"], &[], (&[], &[], true));
        // Outside of the project nothing is looked at, not even through a link.
        check(&["../secret2"], &[("../secret", &other), ("src/link", &other)], (&[], &[], false));
        check(&["src/[a"], &[], (&[], &[], false));
    }

    #[test]
    fn a_look_costs_no_more_than_its_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::new(dir.path());
        let changed = |name: &str| {
            let file = CitedFile { path: name.to_owned(), sha256: "00".repeat(32) };
            matches!(tree.cited(&file), Found::Changed)
        };
        for (name, text) in [("a", "12345"), ("b", "123456"), ("c", "1234")] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        tree.bounds.bytes.set(10);
        assert!(changed("a"));
        // Not again, for another memory that cites it.
        assert!(changed("a") && changed("./a"));
        assert_eq!((changed("b"), changed("c"), tree.bounds.bytes.get()), (false, true, 1));

        // Three files that are listed, and again those that git would ignore.
        tree.bounds.tries.set(10);
        let check = |pattern: &str, is_there: bool, left: u64| {
            assert_eq!((tree.has(pattern), tree.bounds.tries.get()), (is_there, left), "{pattern}");
        };
        let listed = u64::try_from(tree.files().unwrap().len()).unwrap() * 2;
        check("*.txt", false, 10 - listed);
        check("*.txt", false, 10 - listed);
        check("./*.txt", false, 10 - listed);
        // More than is left: it is unknown.
        check("*.css", true, 0);
        check("*.txt", false, 0);
        let tree = Tree::new(dir.path());
        assert!(tree.has(&format!("*{}", "x".repeat(MAX_GLOB))));
        let found = (0..=MAX_GLOBS).filter(|number| tree.has(&format!("*.{number}")));
        assert_eq!(found.collect::<Vec<_>>(), [MAX_GLOBS]);
    }

    #[test]
    fn what_git_ignores_is_there_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("p");
        let put = |path: &str| {
            std::fs::create_dir_all(project.join(path).parent().unwrap()).unwrap();
            std::fs::write(project.join(path), "").unwrap();
        };
        for path in
            ["src/a.rs", "build/out/app.js", ".git/hooks/pre-commit", "deep/er/x.log", "../outside/o.rs"]
        {
            put(path);
        }
        std::fs::write(project.join(".gitignore"), "build/\n*.log\n").unwrap();
        std::os::unix::fs::symlink("../outside", project.join("link")).unwrap();
        std::os::unix::fs::symlink("build", project.join("output")).unwrap();
        let tree = Tree::new(&project);
        let check = |pattern: &str, is_there| assert_eq!(tree.has(pattern), is_there, "{pattern}");
        check("build/**", true);
        check("./build/*/app.{js,ts}", true);
        check("build/**/*.css", false);
        check("**/*.log", true);
        check("**/*.css", false);
        check("dist/**", false);
        check(".git/hooks/*", true);
        check("output/*/app.js", true);
        // Outside of the project nothing is looked at, so that nothing is said of it.
        check("link/*.css", true);
        check("../outside/*.css", true);
        assert!(tree.ignored_too.borrow().len() <= MAX_FOLDERS);
        for folder in 0..=MAX_FOLDERS {
            put(&format!("{folder}/a"));
        }
        let tree = Tree::new(&project);
        let found = (0..=MAX_FOLDERS).filter(|folder| tree.has(&format!("{folder}/*.css")));
        assert_eq!(found.collect::<Vec<_>>(), [MAX_FOLDERS], "beyond the bound it is not known");
    }
}
