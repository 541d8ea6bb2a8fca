//! Which files a memory is learned from: those that it cites with their hashes, so that it is marked when they change.
//!
//! An execution reads many files that have nothing to do with what it learned. A memory that cited them all would be taken for stale
//! after the next ordinary edit, and then the mark says nothing.

use super::extraction::Draft;
use super::glob::means_file;
use super::mention::names_file;

/// Most files that are cited because the execution changed them, where the draft names none.
const MAX_MODIFIED: usize = 5;
/// Most files that are cited.
const MAX_CITED: usize = 10;

/// The files that a draft was learned from, of those that the execution changed and read: what its `paths` name, and what its title or
/// body names. Where it names none, some of what was changed.
#[must_use]
pub fn learned_from(draft: &Draft, modified: &[String], read: &[String]) -> Vec<String> {
    let others = read.iter().filter(|file| !modified.contains(file));
    let named = |file: &&String| {
        let in_paths = draft.paths.iter().filter(|path| !path.contains(['*', '?', '[', '{']));
        let is_file = |path: &str| means_file(path, file) && !is_below(path, file);
        in_paths.into_iter().any(|path| is_file(path))
            || names_file(&draft.title, file)
            || names_file(&draft.body, file)
    };
    let mut files: Vec<String> = modified.iter().chain(others).filter(named).cloned().collect();
    if files.is_empty() {
        files = modified.iter().take(MAX_MODIFIED).cloned().collect();
    }
    files.truncate(MAX_CITED);
    files
}

/// Whether the path is that of a folder in which the file is: that names no file.
fn is_below(path: &str, file: &str) -> bool {
    let name = |path: &str| path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    name(path) != name(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_draft_names_is_cited() {
        #[track_caller]
        fn check(paths: &[&str], body: &str, expected: &[&str]) {
            let value = serde_json::json!({"learned": true, "title": "The ports are fixed", "paths": paths, "body": body});
            let draft: Draft = serde_json::from_value(value).unwrap();
            let owned = |files: &[&str]| files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>();
            let modified = owned(&["src/a.rs", "src/b.rs", "src/c.rs", "src/d.rs", "src/e.rs", "src/f.rs"]);
            let read = owned(&["src/a.rs", "src/ports.rs", "src/auth/mod.rs", "README.md"]);
            assert_eq!(learned_from(&draft, &modified, &read), expected);
        }
        check(&["./src/ports.rs", "src/b.rs"], "", &["src/b.rs", "src/ports.rs"]);
        check(&[], "They stand in ports.rs, as auth/mod.rs has it.", &["src/ports.rs", "src/auth/mod.rs"]);
        check(&["src/ports.rs"], "See `src/c.rs`.", &["src/c.rs", "src/ports.rs"]);
        // Nothing is named: a folder, a glob, a file that was not looked at, a name that says nothing.
        let some = ["src/a.rs", "src/b.rs", "src/c.rs", "src/d.rs", "src/e.rs"];
        check(&["src/auth", "src/**", "src/never.rs"], "See mod.rs and README.md", &some);
        assert!(
            learned_from(&serde_json::from_str(r#"{"learned": true}"#).unwrap(), &[], &["x.rs".into()])
                .is_empty()
        );
    }
}
