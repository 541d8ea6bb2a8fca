//! Whether a text mentions a file or a title.
//!
//! Whole names and whole words alone count: `a.md` is not in `data.md`. A name that half of all projects have says nothing by itself;
//! with the folder before it, it does.

use super::words::{fold, stems, words};

/// File names, without the extension, that say nothing by themselves.
const COMMON: [&str; 26] = [
    "__init__",
    "agents",
    "app",
    "build",
    "changelog",
    "claude",
    "config",
    "error",
    "index",
    "init",
    "lib",
    "license",
    "main",
    "makefile",
    "memory",
    "mod",
    "note",
    "notes",
    "readme",
    "setup",
    "test",
    "tests",
    "todo",
    "types",
    "util",
    "utils",
];
/// Fewest characters of a name that says something.
const MIN_NAME: usize = 3;
/// Fewest content words of a title that says something.
const MIN_TITLE: usize = 2;

/// Whether the text names the file at `path`: all of the path, its last parts, or its name where that says something.
pub(super) fn names_file(text: &str, path: &str) -> bool {
    let (text, path) = (fold(text), fold(path.trim_start_matches("./").trim_matches('/')));
    if path.is_empty() {
        return false;
    }
    let mut rest = path.as_str();
    let mut is_whole = true;
    loop {
        let tells = rest.contains('/') || is_telling(rest);
        if tells && occurs(&text, rest, is_whole && rest.contains('/')) {
            return true;
        }
        let Some((_, shorter)) = rest.split_once('/') else { return false };
        (rest, is_whole) = (shorter, false);
    }
}

/// Whether the text says the title: word by word, or all its content words in one sentence ("I used port 7070, which the tests need"). A
/// title of fewer than two content words is said by chance, and so are two of them that are not side by side.
pub(super) fn says_title(text: &str, title: &str) -> bool {
    let wanted = stems(title);
    if wanted.len() < MIN_TITLE {
        return false;
    }
    if wanted.len() > MIN_TITLE && sentences(text).any(|sentence| wanted.is_subset(&stems(sentence))) {
        return true;
    }
    let title: Vec<String> = words(title).collect();
    let text: Vec<String> = words(text).collect();
    text.windows(title.len()).any(|window| window == title)
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| matches!(c, '\n' | '!' | '?' | ';');
    text.split(is_end).flat_map(|part| part.split(". "))
}

fn is_telling(name: &str) -> bool {
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    stem.chars().count() >= MIN_NAME && COMMON.binary_search(&stem).is_err()
}

/// Whether `name` occurs with nothing around it that would make it a part of another name.
fn occurs(text: &str, name: &str, may_follow_slash: bool) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(name).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + name.len()..]);
        let begins = before
            .chars()
            .next_back()
            .is_none_or(|c| !is_part(c) && !matches!(c, '.' | '\\') && (c != '/' || may_follow_slash));
        let mut after = after.chars();
        let ends = match after.next() {
            Some('.') => !after.next().is_some_and(is_part),
            Some(c) => !is_part(c) && c != '/',
            None => true,
        };
        begins && ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_are_found() {
        let check = |text: &str, path: &str, expected: bool| {
            assert_eq!(names_file(text, path), expected, "{text} {path}");
        };
        check("See src/api/client.rs.", "src/api/client.rs", true);
        check("see `./src/api/client.rs:12`", "src/api/client.rs", true);
        check("at /home/me/p/src/api/client.rs", "./src/api/client.rs", true);
        check("In api/client.rs, and elsewhere", "src/api/client.rs", true);
        check("CLIENT.rs is it", "src/api/client.rs", true);
        check("other/client.rs", "src/api/client.rs", false);
        check("client.rs.bak my-client.rs client.rsx", "src/api/client.rs", false);
        check("client", "src/api/client.rs", false);
        // Half of all projects have these.
        check("the README.md says so", "readme.md", false);
        check("see mod.rs", "src/auth/mod.rs", false);
        check("see auth/mod.rs", "src/auth/mod.rs", true);
        check("x a.md y", "a.md", false);
        check("anything", "", false);
    }

    #[test]
    fn titles_are_said_word_by_word() {
        let check = |text: &str, title: &str, expected: bool| {
            assert_eq!(says_title(text, title), expected, "{text} {title}");
        };
        check("As noted (the API\nwants RETRIES), so", "The API wants retries", true);
        check("The API wants retriesX", "The API wants retries", false);
        check("Used port 7070, which the tests need; all pass", "The tests need port 7070", true);
        check("The tests need a port.\nIt is 7070", "The tests need port 7070", false);
        check("The tests need it. A port is 7070", "The tests need port 7070", false);
        check("the retries of the client", "Client retries", false);
        check("I tested it all", "Test", false);
        check("tests of a kind", "a", false);
        check("what is to be done", "What is to be done", false);
    }

    #[test]
    fn the_list_is_sorted() {
        assert!(COMMON.is_sorted());
    }
}
