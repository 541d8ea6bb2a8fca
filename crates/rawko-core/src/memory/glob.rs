//! Two readings of `*` and `?`: over a text, unanchored, as `docs/memory.md` decides it for `whenToUse`; and over the path of a file, as
//! `paths` are written.

use regex::{Regex, RegexBuilder};

/// Most bytes of a compiled glob: it may come from a stranger.
const SIZE_LIMIT: usize = 256 * 1024;

/// The regular expression that means the same, over one line.
pub(super) fn to_regex(glob: &str) -> String {
    let mut regex = String::with_capacity(glob.len() + 8);
    for c in glob.chars() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            _ => push(c, &mut regex),
        }
    }
    regex
}

/// Whether the file at `path` is the one that `pattern` means, one below it where it means a folder, or one that it matches as a glob.
/// A leading `./` makes no difference; an absolute path is one of the project's.
pub(super) fn means_file(pattern: &str, path: &str) -> bool {
    let pattern = pattern.trim().trim_start_matches("./");
    let path = path.trim_start_matches("./");
    if !pattern.contains(['*', '?', '[', '{']) {
        let wanted = pattern.trim_end_matches('/');
        let is_at = |rest: &str| {
            rest.strip_prefix(wanted).is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        let is_absolute = path.starts_with('/') && !wanted.starts_with('/');
        return !wanted.is_empty()
            && (is_at(path)
                || (is_absolute && path.match_indices('/').any(|(at, _)| is_at(&path[at + 1..]))));
    }
    PathGlob::read(pattern).is_some_and(|glob| glob.matches(path))
}

/// A glob as a memory's `paths` hold it: `*` and `?` stay within a folder, `**` does not; `[…]` is one character of several, `{…,…}` one
/// text of several. Whether a memory's files are there and whether an execution touched them is asked of the same reading.
#[derive(Debug, Clone)]
pub struct PathGlob(Regex);

impl PathGlob {
    /// `None` where it is no such glob, or too large a one.
    #[must_use]
    pub fn read(glob: &str) -> Option<Self> {
        of_paths(glob).map(Self)
    }

    /// Whether it means the file at `path`, which is one of the project or absolute.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

fn of_paths(glob: &str) -> Option<Regex> {
    let mut regex = "^(?:/(?:.*/)?)?".to_owned();
    let glob = if glob.ends_with('/') { format!("{glob}**") } else { glob.to_owned() };
    let (mut rest, mut depth, mut at_start) = (glob.as_str(), 0_u32, true);
    while let Some(c) = rest.chars().next() {
        let begins_part = at_start;
        at_start = c == '/';
        rest = &rest[c.len_utf8()..];
        match c {
            '*' => {
                let after = rest.trim_start_matches('*');
                let is_double = after.len() < rest.len() && begins_part;
                match after.strip_prefix('/') {
                    Some(below) if is_double => {
                        regex.push_str("(?:.*/)?");
                        (rest, at_start) = (below, true);
                        continue;
                    }
                    None if is_double && after.is_empty() => regex.push_str(".+"),
                    _ => regex.push_str("[^/]*"),
                }
                rest = after;
            }
            '?' => regex.push_str("[^/]"),
            '[' => rest = class(rest, &mut regex)?,
            '{' => {
                depth += 1;
                regex.push_str("(?:");
            }
            '}' => {
                depth = depth.checked_sub(1)?;
                regex.push(')');
            }
            ',' if depth > 0 => regex.push('|'),
            '\\' => {
                let escaped = rest.chars().next()?;
                rest = &rest[escaped.len_utf8()..];
                push(escaped, &mut regex);
            }
            _ => push(c, &mut regex),
        }
    }
    regex.push('$');
    (depth == 0)
        .then(|| RegexBuilder::new(&regex).size_limit(SIZE_LIMIT).nest_limit(50).build().ok())
        .flatten()
}

/// Translates what follows a `[`, and returns what follows its `]`.
fn class<'a>(rest: &'a str, regex: &mut String) -> Option<&'a str> {
    let (negated, rest) = match rest.strip_prefix(['!', '^']) {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    // A `]` that comes first is one of the characters.
    let first = rest.chars().next()?.len_utf8();
    let end = first + rest[first..].find(']')?;
    regex.push_str(if negated { "[^/" } else { "[" });
    for c in rest[..end].chars() {
        if matches!(c, '[' | ']' | '\\' | '^' | '&' | '~') {
            regex.push('\\');
        }
        regex.push(c);
    }
    regex.push(']');
    Some(&rest[end + 1..])
}

fn push(c: char, regex: &mut String) {
    regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_star_and_question_mark_mean_something_in_a_text() {
        assert_eq!(to_regex("add *auth?.rs"), r"add .*auth.\.rs");
        assert_eq!(to_regex("{a}"), r"\{a\}");
    }

    #[test]
    fn paths_mean_files() {
        let check = |pattern: &str, path: &str, expected: bool| {
            assert_eq!(means_file(pattern, path), expected, "{pattern} {path}");
        };
        check("src/a.rs", "src/a.rs", true);
        check("./src/a.rs", "src/a.rs", true);
        check("src/a.rs", "./src/a.rs", true);
        check("src/a.rs", "/p/src/a.rs", true);
        check("a.rs", "src/a.rs", false);
        check("src/a.rs", "src/a.rs2", false);
        for folder in ["src/auth/", "src/auth", "./src/auth/", "src/auth/**", "src/*/"] {
            check(folder, "src/auth/login/x.rs", true);
            check(folder, "/p/src/auth/x.rs", true);
            check(folder, "lib/src.rs", false);
        }
        check("src/auth", "src/authority.rs", false);
        check("**/*.rs", "src/deep/a.rs", true);
        check("**/*.rs", "a.rs", true);
        check("**/*.rs", "a.py", false);
        check("*.rs", "a.rs", true);
        check("*.rs", "src/a.rs", false);
        check("src/*.rs", "src/deep/a.rs", false);
        check("src/**/a.rs", "src/a.rs", true);
        check("src/**/a.rs", "src/b/c/a.rs", true);
        check("src/?.rs", "src/ab.rs", false);
        check("src/{a,b}*.{rs,py}", "src/bx.py", true);
        check("src/{a,b}*.{rs,py}", "src/c.py", false);
        check("src/[a-c].rs", "src/b.rs", true);
        check("src/[!a-c].rs", "src/b.rs", false);
        check("src/[]^].rs", "src/^.rs", true);
        check(r"src/\*.rs", "src/*.rs", true);
        check(r"src/\*.rs", "src/a.rs", false);
        for broken in ["src/[a", "{a", "a}*", "*\\", "", "/", "./"] {
            check(broken, "src/a.rs", false);
        }
    }

    proptest! {
        #[test]
        fn any_glob_can_be_read(glob in "[a/*?{},!\\[\\]^\\\\-]{0,12}", path in "[a/.-]{0,8}") {
            let _ = means_file(&glob, &path);
        }

        #[test]
        fn a_plain_path_means_itself(path in "[a-z]{1,4}(/[a-z]{1,4}){0,3}\\.rs") {
            prop_assert!(means_file(&path, &path));
            prop_assert!(means_file("**/*.rs", &path));
        }
    }
}
