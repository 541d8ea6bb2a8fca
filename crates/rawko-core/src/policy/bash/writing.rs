//! Whether a command says that it writes a file. No verdict depends on it: it only tells work from idling.

use super::parser;
use super::script::{Redirection, RedirectionEffect, ShellWord};

/// Programs that change the files that they name.
const WRITERS: &[&str] = &["cp", "mv", "rm", "patch", "tee", "ex", "ed"];
/// Programs that change the files that they name where they have `-i`.
const IN_PLACE: &[&str] = &["sed", "perl", "ruby"];
/// What `git` does to the files of the work tree.
const GIT: &[&str] = &["apply", "am", "checkout", "mv", "restore", "revert", "rm", "stash"];

/// Whether `command` names a file that it writes: by a redirection, or by a program that is known to write. A command
/// that cannot be understood does not.
#[must_use]
pub fn names_written_files(command: &str) -> bool {
    let Ok(script) = parser::check_size(command).and_then(|()| parser::parse(command)) else { return false };
    script.redirections.iter().any(writes)
        || script.commands.iter().any(|simple| simple.redirections.iter().any(writes) || edits(&simple.words))
}

/// Whether it opens a file for writing that keeps what is written.
fn writes(redirection: &Redirection) -> bool {
    redirection.effect == RedirectionEffect::Writes && !redirection.target.shown.starts_with("/dev/")
}

fn edits(words: &[ShellWord]) -> bool {
    let mut words = words.iter().map(|word| word.shown.as_str());
    let Some(name) = words.next() else { return false };
    let name = name.rsplit('/').next().unwrap_or(name);
    let mut arguments = words;
    if name == "git" {
        return arguments.find(|word| !word.starts_with('-')).is_some_and(|word| GIT.contains(&word));
    }
    let in_place = |word: &str| word.starts_with("--in-place") || is_short_i(word);
    WRITERS.contains(&name) || (IN_PLACE.contains(&name) && arguments.any(in_place))
}

/// `-i`, alone or among other letters, or with a suffix.
fn is_short_i(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|letters| !letters.starts_with('-') && letters.contains('i'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: bool, commands: &[&str]) {
        for command in commands {
            assert_eq!(names_written_files(command), expected, "{command}");
        }
    }

    #[test]
    fn what_writes_a_file_is_known_by_its_words() {
        check(
            true,
            &[
                "echo hi > notes.txt",
                "cat >> src/a.py <<'EOF'\nx = 1\nEOF",
                "cd src && sed -i 's/a/b/' lib.rs",
                "sed --in-place=.bak s/a/b/ lib.rs",
                "make | tee log",
                "cp a b",
                "git apply fix.patch",
                "for f in *.py; do sed -i s/a/b/ $f; done",
                "{ echo a; echo b; } > both",
            ],
        );
        check(
            false,
            &[
                "echo hi",
                "echo hi > /dev/null",
                "make test 2>&1 | tail -5",
                "sed -n 1,20p lib.rs",
                "git status",
                "git -C x log > /dev/null",
                "grep '>' a",
                "sleep 5",
                "echo 'unfinished > a",
            ],
        );
    }
}
