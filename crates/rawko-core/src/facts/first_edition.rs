//! Which commands are checks by the rules of the first edition ([`Edition::First`](crate::setup::Edition)): runs begun
//! under it are folded as they were.

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
}
