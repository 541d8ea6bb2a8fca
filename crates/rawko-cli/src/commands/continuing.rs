//! `rawko continue [ID] TASK`: the next task of a session that has ended.

use clap::Args;
use rawko::Run;
use rawko::journal::{JournalError, SessionStore};

use crate::busy::begin_when_free;
use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::{self, Given, InputArgs};
use crate::newcomer;
use crate::reporters::Verbosity;
use crate::run_args::SharedRunArgs;
use crate::workspace::Workspace;

/// The least number of characters by which a part of an id differs from a word of a task.
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
    #[command(flatten)]
    input: InputArgs,
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
    shared.carry(workspace, (false, arguments.config.granted()), || prepare(workspace, arguments))
}

fn prepare(workspace: &Workspace, arguments: ContinueArgs) -> Result<Run, Failure> {
    let ContinueArgs { words, shared, input, agent, yes, config } = arguments;
    workspace.check_project_is_chosen()?;
    let is_quiet = shared.verbosity() == Verbosity::Quiet;
    let (id, words) = match words.split_first() {
        Some((first, rest)) => match names_session(&workspace.sessions()?, first)? {
            true => (Some(first.as_str()), rest),
            false => (None, words.as_slice()),
        },
        None => (None, words.as_slice()),
    };
    workspace.gain_mounts_for(id)?;
    if words.is_empty() && !input.is_edited() && !shared.prints() {
        return Err(
            Failure::no_task().with_hint("say what to do next: rawko continue \"now also document it\"")
        );
    }
    let Given { task, attachments } = input::read(workspace, words, &input, shared.prints(), is_quiet)?;
    begin_when_free(workspace, |is_first| {
        let build = |config: ConfigArgs| {
            let mut builder = config.builder(workspace).trusted(yes).attach(attachments.iter().cloned());
            if let Some(agent) = &agent {
                builder = builder.first_agent(agent.clone());
            }
            shared.build(workspace, builder)
        };
        let mut rawko = build(config.clone())?;
        if let Some(found) = newcomer::choose(workspace, &rawko, is_quiet || !is_first)? {
            rawko = build(config.clone().with_provider(found))?;
        }
        if is_first && !is_quiet {
            workspace.warn(&rawko);
        }
        Ok(rawko.continue_session(id, &task))
    })
}

/// Whether the first word is a session rather than the beginning of a task.
///
/// # Errors
/// If it looks like a part of an id that no session has: a typing error must not continue another session.
fn names_session(sessions: &SessionStore, word: &str) -> Result<bool, Failure> {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    let could_be_part = word.len() >= SHORTEST_PART && has_digit && !word.contains(char::is_whitespace);
    if word == "last" {
        return Ok(true);
    }
    match sessions.find(word) {
        Ok(_) if could_be_part => return Ok(true),
        Err(error @ JournalError::Ambiguous { .. }) if could_be_part => {
            return Err(Failure::usage(error.to_string()).with_hint(
                "give more of the id\nif it is the beginning of the task, put the whole task in quotes",
            ));
        }
        Ok(_) | Err(_) => {}
    }
    if !looks_like_part(word) {
        return Ok(false);
    }
    let error = Failure::usage(format!("no session of this folder is named {word}"));
    Err(error.with_hint(
        "the sessions: rawko sessions list\nif it is the beginning of the task, put the whole task in quotes",
    ))
}

/// Whether `word` looks like the beginning or end of an id such as `20260123-094000-123-abcde`.
fn looks_like_part(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    let digits = |part: &str, count: usize| part.len() == count && part.bytes().all(|it| it.is_ascii_digit());
    let is_end =
        |part: &str| part.len() == 5 && part.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
    match parts.as_slice() {
        [day] => digits(day, 8) && day.starts_with("20"),
        [day, rest @ ..] if digits(day, 8) => {
            rest.iter().all(|part| part.bytes().all(|it| it.is_ascii_alphanumeric()))
        }
        [time, milliseconds, end] => digits(time, 6) && digits(milliseconds, 3) && is_end(end),
        // With a figure in it: `404-pages` are words.
        [milliseconds, end] => {
            digits(milliseconds, 3) && is_end(end) && end.bytes().any(|it| it.is_ascii_digit())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is taken for a session, in a folder without one; `None` if it is an error.
    #[track_caller]
    fn check(word: &str, expected: Option<bool>) {
        let empty = SessionStore::at(std::path::PathBuf::from("/nowhere/at/all"));
        assert_eq!(names_session(&empty, word).ok(), expected, "{word}");
    }

    #[test]
    fn a_word_of_a_task_is_no_session() {
        check("last", Some(true));
        for word in
            ["2026 was a good year", "2026", "also", "cdhz5", "utf16", "404", "404-pages", "x-20261123"]
        {
            check(word, Some(false));
        }
    }

    #[test]
    fn a_part_of_an_id_that_no_session_has_is_an_error() {
        for word in [
            "20261123-005048-471-cdhz5",
            "20261123-005048",
            "20261123-0050",
            "20261123-",
            "20261123",
            "005048-471-cdhz5",
            "471-cdhz5",
        ] {
            check(word, None);
        }
    }
}
