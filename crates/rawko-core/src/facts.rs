//! What rawko itself observes, as opposed to what agents claim: changes to the tree, results of commands
//! (`docs/spec/tools-and-permissions.md`, "Verified completion"; `docs/spec/arbiter.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tool name under which a failed verification is reported.
pub const VERIFY: &str = "verify";

/// The tool name under which a COMPLETE against the record is reported.
pub const RECORD: &str = "record";

/// A summary of changes to the tree, in files and lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffStat {
    /// Files added, changed or removed.
    pub files: u32,
    /// Lines added in text files.
    pub insertions: u64,
    /// Lines removed from text files.
    pub deletions: u64,
    /// The first of these files, each with its own counts, e.g. `src/lib.rs +12 -3`. Bounded; `files` counts all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl DiffStat {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files == 0
    }
}

/// The tree at the end of an execution that may have changed it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeInspection {
    /// The hash of the tree's content.
    pub tree: String,
    /// The changes since before the execution.
    pub execution: DiffStat,
    /// The changes since before the run's first change.
    pub run: DiffStat,
}

/// One command that rawko itself ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandRun {
    /// The command line.
    pub command: String,
    /// Its exit status; absent if it was killed, timed out or could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Head and tail of its output, bounded.
    pub output: String,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl CommandRun {
    /// Whether it exited with 0.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.exit_code == Some(0)
    }
}

/// The results of the verification commands, and the tree they ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The commands in order, up to the first that failed.
    pub runs: Vec<CommandRun>,
    /// The hash of the content of the tree they ran on; absent if it could not be determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Whether the commands themselves changed the tree: then the results prove nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tree_changed: bool,
}

impl Verification {
    /// Whether every command exited with 0 on one known tree.
    #[must_use]
    pub fn proves(&self) -> bool {
        self.passed() && self.tree.is_some() && !self.tree_changed
    }

    /// Whether there was a command, and every one exited with 0.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(CommandRun::passed)
    }
}

/// What is left of a run's budgets; a field is absent if there is no such budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetFacts {
    /// Tokens of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_left: Option<u64>,
    /// Cost of model calls, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd_left: Option<f64>,
    /// Wall time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_left_ms: Option<u64>,
}

/// Whether a command line is known to run tests or other checks of a project and exits with their status. Only a hint:
/// the arbiter sees other commands too, just not as checks. A pipe, an `||`, a background job or another command after
/// the check would hide its status.
#[must_use]
pub fn is_check(command: &str) -> bool {
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
