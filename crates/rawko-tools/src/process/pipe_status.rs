//! Exit statuses of the members of a shell command's last pipeline: bash's `PIPESTATUS`, written at the shell's exit to
//! a descriptor of its own.
//!
//! Nothing else of the command changes. A command whose last pipeline has one member runs as it is: its exit status says
//! the same. So does one that sets traps itself or uses the descriptor. What the command's own processes write to the
//! descriptor could forge a status; it is a record, not a wall.

use std::io::{PipeReader, Read as _};

use rawko_core::facts::ends_with_pipe;

use super::stream::has_news;

/// Hardly any script uses this descriptor: people take those below 10, bash the next ones and those from 63 down.
const DESCRIPTOR: &str = "97";
/// Bytes of statuses that are read: a pipeline has few members.
const MAX_BYTES: usize = 4_096;

/// Whether the statuses of `command` are recorded.
pub(crate) fn is_recorded(command: &str) -> bool {
    !["trap", DESCRIPTOR, "BASH_EXECUTION_STRING"].into_iter().any(|text| command.contains(text))
        && ends_with_pipe(command)
}

/// The command with its record. On the same line, so that bash's messages name the same lines. The group keeps
/// `set -x` quiet, and its last part keeps `set -e` from changing the exit status.
pub(super) fn recorded(command: &str) -> String {
    format!(
        "trap '{{ printf \"%s\\n\" \"${{PIPESTATUS[*]}}\" >&{DESCRIPTOR}; }} 2>/dev/null || :' EXIT; {command}"
    )
}

/// Redirections of a shell whose stderr is the record: they give it the descriptor, and stdout for stderr.
pub(super) fn redirections() -> String {
    format!("{DESCRIPTOR}>&2 2>&1")
}

/// The statuses that were written; none if the shell did not come to its end.
pub(super) fn read(mut record: PipeReader) -> Vec<i32> {
    let mut buffer = [0; MAX_BYTES];
    let length = if has_news(&record) { record.read(&mut buffer).unwrap_or_default() } else { 0 };
    let text = String::from_utf8_lossy(&buffer[..length]);
    // A member of the pipeline that breaks off may write too, before the shell.
    let last = text.trim_end().lines().next_back().unwrap_or_default();
    let statuses: Result<Vec<i32>, _> = last.split_whitespace().map(str::parse).collect();
    statuses.unwrap_or_default()
}
