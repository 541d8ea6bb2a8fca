//! `rawko continue [ID] TASK`: the next task of a session that has ended.

use clap::Args;
use rawko::Run;
use rawko::journal::SessionStore;

use crate::commands::run::{no_task, task};
use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::reporters::Verbosity;
use crate::run_args::SharedRunArgs;
use crate::workspace::Workspace;

/// The least characters of a part of an id that is told from a word of a task.
const SHORTEST_PART: usize = 4;

/// Options of `rawko continue`.
#[derive(Debug, Clone, Default, Args)]
#[command(
    override_usage = "rawko continue [OPTIONS] [ID] TASK...\n       rawko continue [OPTIONS] [ID] -\n       rawko -c TASK..."
)]
pub(crate) struct ContinueArgs {
    /// The next task, in words; `-` reads it from standard input. If the first word is the id of a session, or the
    /// beginning or end of one, that session is continued, otherwise the newest
    #[arg(value_name = "TASK")]
    words: Vec<String>,
    #[command(flatten)]
    shared: SharedRunArgs,
    /// Start with this agent, without asking the arbiter
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Trust this folder's configuration and the session's journal this once
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Continues the session.
pub(crate) fn run(workspace: &Workspace, arguments: ContinueArgs) -> Result<Exit, Failure> {
    let shared = arguments.shared.clone();
    shared.carry(workspace, false, || prepare(workspace, arguments))
}

fn prepare(workspace: &Workspace, arguments: ContinueArgs) -> Result<Run, Failure> {
    let ContinueArgs { words, shared, agent, yes, config } = arguments;
    workspace.check_project_is_chosen()?;
    let mut builder = config.builder(workspace).trusted(yes);
    if let Some(agent) = agent {
        builder = builder.first_agent(agent);
    }
    let rawko = shared.verify.apply(builder).build()?;
    let (id, words) = match words.split_first() {
        Some((first, rest)) if names_session(&rawko.sessions(), first) => (Some(first.as_str()), rest),
        _ => (None, words.as_slice()),
    };
    if words.is_empty() {
        return Err(no_task().with_hint("say what to do next: rawko continue \"now also document it\""));
    }
    let task = task(words)?;
    if shared.verbosity() != Verbosity::Quiet {
        workspace.warn(&rawko);
    }
    Ok(rawko.continue_session(id, &task)?)
}

/// Whether the first word is a session rather than the beginning of a task. A whole id that is not known is one too, so that
/// a typing error does not continue another session.
fn names_session(sessions: &SessionStore, word: &str) -> bool {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    let could_be_part = word.len() >= SHORTEST_PART && has_digit && !word.contains(char::is_whitespace);
    word == "last" || is_whole_id(word) || (could_be_part && sessions.find(word).is_ok())
}

/// Whether `word` has the form of an id: `20260123-094000-123-abcde`.
fn is_whole_id(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    let digits = |part: &str, count: usize| part.len() == count && part.bytes().all(|it| it.is_ascii_digit());
    matches!(parts.as_slice(), [day, time, ..] if digits(day, 8) && digits(time, 6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: bool) {
        let empty = SessionStore::at(std::path::PathBuf::from("/nowhere/at/all"));
        assert_eq!(names_session(&empty, word), expected, "{word}");
    }

    #[test]
    fn a_word_of_a_task_is_no_session() {
        check("last", true);
        check("20261123-005048-471-cdhz5", true);
        check("20261123-005048", true);
        check("2026 was a good year", false);
        check("also", false);
        check("cdhz5", false);
    }
}
