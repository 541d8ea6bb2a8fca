//! Which of the files that a shell command names differ after it. The text of a command only suggests what it writes; the
//! files themselves show it, at the price of a few system calls.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Names that are looked at.
const MOST: usize = 64;
/// Folders that are no part of the work.
const NO_WORK: [&str; 2] = [".git", ".rawko"];

/// The files that a command names, as they are before it runs.
pub(crate) struct NamedFiles {
    root: PathBuf,
    before: Vec<(String, Option<ContentStamp>)>,
}

/// What changes with a file's content, and not with its mode or its other names, which [`FileStamp`](crate::FileStamp) also
/// shows: a command that changes those has not written the file.
#[derive(Debug, PartialEq)]
struct ContentStamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl NamedFiles {
    /// Of a command that is about to run in `root`.
    pub(crate) fn before(command: &str, root: &Path) -> Self {
        let before = names(command, root).into_iter().map(|name| {
            let stamp = ContentStamp::of(&root.join(&name));
            (name, stamp)
        });
        Self { root: root.to_owned(), before: before.collect() }
    }

    /// Those that are other ones now: written, new or gone.
    pub(crate) fn changed(self) -> Vec<String> {
        let changed = self
            .before
            .into_iter()
            .filter(|(name, before)| ContentStamp::of(&self.root.join(name)) != *before);
        changed.map(|(name, _)| name).collect()
    }
}

impl ContentStamp {
    /// Of a regular file; `None` where there is none.
    fn of(path: &Path) -> Option<Self> {
        let found = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self { inode: found.ino(), length: found.len(), modified: (found.mtime(), found.mtime_nsec()) })
    }
}

/// The words of a command that may be names of files below `root`, relative to it. Those that look like one come first.
fn names(command: &str, root: &Path) -> Vec<String> {
    let is_of_a_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | '@' | '+');
    let root = root.to_string_lossy();
    let mut folders = vec![String::new()];
    let (mut likely, mut possible) = (BTreeSet::new(), BTreeSet::new());
    let mut before = "";
    for word in command.split(|c| !is_of_a_name(c)).filter(|word| !word.is_empty()) {
        let within = word.strip_prefix(&*root).map_or(word, |rest| rest.trim_start_matches('/'));
        let within = within.trim_start_matches("./").trim_end_matches('/');
        let is_inside = !within.starts_with(['/', '-'])
            && within.contains(char::is_alphabetic)
            && within.split('/').all(|part| part != ".." && !NO_WORK.contains(&part));
        if is_inside && before == "cd" {
            folders.push(format!("{within}/"));
        } else if is_inside {
            let names = if within.contains(['.', '/']) { &mut likely } else { &mut possible };
            names.extend(folders.iter().map(|folder| format!("{folder}{within}")));
        }
        before = word;
    }
    likely.into_iter().chain(possible).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: &[&str]) {
        let project = tempfile::tempdir().unwrap();
        let root = project.path().join("p");
        std::fs::create_dir_all(root.join("src/.git")).unwrap();
        for name in ["a.py", "src/b.py", "Makefile", "src/.git/config"] {
            std::fs::write(root.join(name), "old").unwrap();
        }
        let command = command.replace("ROOT", root.to_str().unwrap());
        let named = NamedFiles::before(&command, &root);
        let run =
            std::process::Command::new("bash").args(["-c", &command]).current_dir(&root).output().unwrap();
        assert!(run.status.success(), "{command}: {run:?}");
        assert_eq!(named.changed(), expected, "{command}");
    }

    #[test]
    fn what_a_command_names_and_changes_is_seen() {
        check("sed -i s/old/new/ a.py", &["a.py"]);
        check("cat a.py; echo more words >> ./new.md", &["new.md"]);
        check("cd src && sed -i 's/old/new/' b.py", &["src/b.py"]);
        check("echo x > ROOT/src/b.py", &["src/b.py"]);
        check(
            "python3 - <<'E'\nfrom pathlib import Path\nPath('src/b.py').write_text('x')\nE",
            &["src/b.py"],
        );
        check("mv a.py c.py && rm Makefile", &["a.py", "c.py", "Makefile"]);
    }

    #[test]
    fn what_a_command_only_reads_or_does_not_name_is_not() {
        check("cat a.py src/b.py Makefile && true > /dev/null", &[]);
        check("for f in src/*.py; do echo new > \"$f\"; done", &[]);
        check("echo x > src/.git/config; echo y > ../outside.txt; mkdir folder", &[]);
    }

    #[test]
    fn a_long_command_is_looked_at_in_part() {
        let text: String = (0..500).map(|number| format!("word{number} path/{number}.rs ")).collect();
        let names = names(&text, Path::new("/p"));
        assert_eq!(names.len(), MOST);
        assert!(names.iter().all(|name| name.starts_with("path/")), "{names:?}");
    }
}
