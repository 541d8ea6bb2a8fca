//! What was known of commands by the rules of earlier editions ([`Edition`](crate::setup::Edition)): runs begun under
//! these are folded as they were. Nothing here changes any more; what holds for new runs is in `shell`.

use crate::policy::parse_script;
use crate::policy::script::{Redirection, RedirectionEffect, ShellWord};

/// Programs that change the files that they name.
const WRITERS: &[&str] = &["cp", "mv", "rm", "patch", "tee", "ex", "ed"];
/// Programs that change the files that they name where they have `-i`.
const IN_PLACE: &[&str] = &["sed", "perl", "ruby"];
/// What `git` does to the files of the work tree.
const GIT: &[&str] = &["apply", "am", "checkout", "mv", "restore", "revert", "rm", "stash"];

/// Whether a command line is known to run tests or other checks of a project and exits with their status. Only a hint:
/// the arbiter sees other commands too, just not as checks. A pipe, an `||`, a background job or another command after
/// the check would hide its status.
pub(crate) fn is_check(command: &str) -> bool {
    // Redirections are the only harmless use of `&` and `|` besides `&&`.
    let plain = command.replace("2>&1", "").replace("&>", ">").replace(">&2", "").replace(">|", ">");
    let alone = plain.replace("&&", "\u{1}");
    if alone.contains(['|', '&', '`']) || alone.contains("$(") {
        return false;
    }
    let last = alone.split([';', '\n']).rfind(|part| !part.trim().is_empty()).unwrap_or_default();
    last.split('\u{1}').any(runs_check)
}

/// Whether one simple command is a check: by the program at its front, assignments and the like left out.
fn runs_check(command: &str) -> bool {
    let mut words = command
        .split_whitespace()
        .skip_while(|word| word.contains('=') || matches!(*word, "env" | "time" | "exec" | "command"))
        .skip_while(|word| word.starts_with('-'));
    let Some(first) = words.next() else { return false };
    let arguments: Vec<&str> = words.take(3).collect();
    match first.rsplit('/').next().unwrap_or(first) {
        "pytest" | "tox" | "nox" | "jest" | "vitest" | "mocha" | "rspec" | "phpunit" | "ctest" | "ruff"
        | "mypy" | "eslint" | "tsc" | "test.sh" | "check.sh" => true,
        "cargo" | "npm" | "pnpm" | "yarn" | "bun" | "deno" | "go" | "make" | "just" | "mvn" | "gradle"
        | "gradlew" | "dotnet" | "mix" | "bundle" | "swift" | "zig" | "bazel" | "rake" | "composer" => {
            arguments.iter().any(|word| CHECKS.contains(word))
        }
        "python" | "python3" => arguments.iter().any(|word| matches!(*word, "pytest" | "unittest")),
        "bash" | "sh" => arguments.iter().any(|word| word.ends_with("test.sh") || word.ends_with("check.sh")),
        _ => false,
    }
}

/// Subcommands, targets and scripts by which projects call their checks.
const CHECKS: &[&str] =
    &["test", "tests", "t", "check", "clippy", "nextest", "build", "lint", "vet", "verify", "ci", "doc"];

/// Whether `command` names a file that it writes: by a redirection, or by a program that is known to write. A command
/// that cannot be understood does not.
pub(crate) fn names_written_files(command: &str) -> bool {
    let Ok(script) = parse_script(command) else { return false };
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

/// The program that makes a command line a check, with its subcommand: `cargo test` of `cd x && cargo test -p y | tail`. Where
/// the table knows no runner in a command, it is still its name.
pub(crate) fn runner(command: &str) -> String {
    let parts = || command.split(['|', '&', ';', '\n']).map(str::trim).filter(|part| !part.is_empty());
    let part = parts().find(|part| is_check(part)).or_else(|| parts().next()).unwrap_or_default();
    let is_setting = |word: &&str| word.contains('=') || matches!(*word, "env" | "time" | "exec" | "command");
    let mut words = part.split_whitespace().skip_while(is_setting);
    let base = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let program = words.next().map(base).unwrap_or_default();
    let mut arguments = words.filter(|word| !word.starts_with('-'));
    match program.as_str() {
        // These only start the runner that they name.
        "python" | "python3" | "bash" | "sh" | "npx" => arguments.next().map(base).unwrap_or(program),
        "cargo" | "npm" | "pnpm" | "yarn" | "bun" | "deno" | "go" | "make" | "just" | "mvn" | "gradle"
        | "gradlew" | "dotnet" | "mix" | "bundle" | "swift" | "zig" | "bazel" | "rake" | "composer" => {
            match arguments.find(|word| !word.starts_with('+') && *word != "run") {
                Some(subcommand) => format!("{program} {subcommand}"),
                None => program,
            }
        }
        _ => program,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: bool) {
        assert_eq!(is_check(command), expected, "{command}");
    }

    #[test]
    fn the_usual_checks_are_known() {
        for command in [
            "cargo test",
            "cd x && cargo nextest run --workspace",
            "RUST_LOG=1 cargo clippy --all-targets",
            "npm run test",
            "npm test 2>&1",
            "cd x; make test",
            "python -m pytest -q",
            "./test.sh",
            "go test ./...",
            "make check",
        ] {
            check(command, true);
        }
        for command in [
            "ls",
            "git status",
            "cargo add serde",
            "echo cargo test",
            "npm install",
            "make install",
            // The exit status is not that of the check.
            "npm test 2>&1 | tail -5",
            "make test || true",
            "make test; true",
            "make test; echo done",
            "make test &",
            "! make test",
            "echo $(make test)",
        ] {
            check(command, false);
        }
    }

    #[track_caller]
    fn check_writes(expected: bool, commands: &[&str]) {
        for command in commands {
            assert_eq!(names_written_files(command), expected, "{command}");
        }
    }

    #[test]
    fn what_writes_a_file_is_known_by_its_words() {
        check_writes(
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
        check_writes(
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

    #[test]
    fn a_runner_was_known_by_its_words() {
        for (command, expected) in [
            ("cd x && RUST_LOG=1 cargo +nightly nextest run | tail", "cargo nextest"),
            ("npm run test && bash test.sh", "npm test"),
            ("uv run pytest", "uv"),
            ("", ""),
        ] {
            assert_eq!(runner(command), expected, "{command}");
        }
    }
}
