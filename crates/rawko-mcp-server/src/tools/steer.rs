//! `steer` and `answer`: what the user says to a session, through the client. Both go the way of `rawko steer` and `rawko
//! approve`, so that it does not matter which process runs the session.

use std::time::Duration;

use rawko::journal::SessionStatus;
use rawko::{Cancelled, Override, Steered, answer_question, open_question, waiting_sessions};
use serde::Deserialize;
use serde_json::json;

use super::DoneAnswer;
use crate::follow::{self, OpenQuestion};
use crate::project::ToolProblem;
use crate::server::RawkoServer;

/// How long the process that runs the session may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a run may take to end once it was cancelled.
const CANCEL_PATIENCE: Duration = Duration::from_secs(15);

/// Characters of a digest that name a call.
const SHORTEST_CALL: usize = 8;

/// The arguments of `steer`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SteerArguments {
    session: Option<String>,
    command: SteerWord,
    text: Option<String>,
    agent: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SteerWord {
    Pause,
    Go,
    Say,
    Force,
    Skip,
    Retry,
    Reset,
    Cancel,
}

/// The arguments of `answer`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerArguments {
    session: Option<String>,
    call: String,
    allow: bool,
}

/// Gives a session a command.
pub(super) async fn steer(server: &RawkoServer, asked: SteerArguments) -> Result<DoneAnswer, ToolProblem> {
    let command = command(&asked)?;
    let session = asked.session;
    let session = server.blocking(move |server| follow::running_id(server, session.as_deref())).await?;
    match command {
        Some(command) => {
            let word = command.word();
            let (session, steered) = server
                .blocking(move |server| {
                    let (store, trust) = (server.project.sessions(), server.project.key_store()?);
                    let folder = &server.project.project;
                    rawko::steer(&store, folder, trust, &session, command, PATIENCE)
                        .map_err(|error| server.project.words(error))
                })
                .await?;
            match steered {
                Steered::Taken => Ok(DoneAnswer::new(
                    format!("session {session}: `{word}` was carried out"),
                    json!({"session": session, "command": word, "taken": true}),
                )),
                Steered::Ignored { reason } => Err(ToolProblem {
                    message: format!("session {session} ignored `{word}`: {reason}"),
                    hint: None,
                }),
            }
        }
        None => cancel(server, session).await,
    }
}

/// The command; `None` for `cancel`.
fn command(asked: &SteerArguments) -> Result<Option<Override>, ToolProblem> {
    let needed = |value: &Option<String>, name: &str, command: &str| {
        let given = value.as_deref().map(str::trim).filter(|value| !value.is_empty());
        given.map(str::to_owned).ok_or_else(|| {
            ToolProblem::new(format!("`{command}` needs `{name}`"), format!("give `{name}` as well"))
        })
    };
    Ok(Some(match asked.command {
        SteerWord::Pause => Override::Pause,
        SteerWord::Go => Override::Go,
        SteerWord::Say => Override::Say { text: needed(&asked.text, "text", "say")? },
        SteerWord::Force => Override::ForceAgent { agent: needed(&asked.agent, "agent", "force")? },
        SteerWord::Skip => Override::SkipStep,
        SteerWord::Retry => Override::Retry,
        SteerWord::Reset => Override::Reset,
        SteerWord::Cancel => return Ok(None),
    }))
}

/// Cancels a session. One of this process is not asked by a signal, which would end the server.
async fn cancel(server: &RawkoServer, session: String) -> Result<DoneAnswer, ToolProblem> {
    if let Some(mut ended) = server.runs.cancel(&session, "cancelled by a client of the MCP server") {
        let _ = tokio::time::timeout(CANCEL_PATIENCE, ended.wait_for(|ended| *ended)).await;
    }
    server
        .blocking(move |server| {
            let store = server.project.sessions();
            let status = store.info(&session).map_err(|error| server.project.words(error))?;
            let outcome = match status.as_ref().map(|info| (info.status, info.outcome.clone())) {
                Some((SessionStatus::Ended, Some(outcome))) => outcome,
                _ => match rawko::cancel(&store, &session, CANCEL_PATIENCE) {
                    Ok(
                        Cancelled::AlreadyEnded(outcome)
                        | Cancelled::Closed(outcome)
                        | Cancelled::Stopped { outcome, .. },
                    ) => outcome,
                    Err(error) => return Err(server.project.words(error)),
                },
            };
            let status = outcome.status.as_str();
            Ok(DoneAnswer::new(
                format!("session {session} has ended: {status}"),
                json!({"session": session, "command": "cancel", "taken": true, "status": status}),
            ))
        })
        .await
}

/// Answers for the call that a session waits for.
pub(super) async fn answer(server: &RawkoServer, asked: AnswerArguments) -> Result<DoneAnswer, ToolProblem> {
    server
        .blocking(move |server| {
            let session = match asked.session {
                Some(session) => session,
                None => only_waiting(server)?,
            };
            answered(server, &session, &asked.call, asked.allow)
        })
        .await
}

/// The same for a question whose session is known. Takes files.
pub(super) fn answered(
    server: &RawkoServer,
    session: &str,
    call: &str,
    allow: bool,
) -> Result<DoneAnswer, ToolProblem> {
    let (store, trust) = (server.project.sessions(), server.project.key_store()?);
    // The beginning of every digest would be a yes to whatever waits.
    if call.len() < SHORTEST_CALL {
        return Err(ToolProblem::new(
            "`call` is too short to name one call",
            "give the `call` that `watch` returned",
        ));
    }
    // The whole digest, so that it is this question that is answered.
    let mut call = call.to_owned();
    if allow
        && let Some(open) = open_question(&store, session).map_err(|error| server.project.words(error))?
        && open.digest.starts_with(&call)
    {
        if !OpenQuestion::of(&open).whole {
            let path = follow::journal_of(server, Some(session))?;
            return Err(OpenQuestion::unseen(&follow::id_of(&path)));
        }
        call = open.digest;
    }
    let (session, question) =
        answer_question(&store, &server.project.project, trust, session, Some(&call), allow)
            .map_err(|error| server.project.words(error))?;
    let word = if allow { "allowed" } else { "denied" };
    let is_running = matches!(store.info(&session), Ok(Some(info)) if info.status == SessionStatus::Running);
    let next = if is_running { "" } else { "; no process runs it, so it counts once `continue` resumes it" };
    Ok(DoneAnswer::new(
        format!("{word}: {} of {} in session {session}{next}", question.call.name, question.agent),
        json!({"session": session, "call": question.digest, "allowed": allow, "running": is_running}),
    ))
}

fn only_waiting(server: &RawkoServer) -> Result<String, ToolProblem> {
    let waiting =
        waiting_sessions(&server.project.sessions()).map_err(|error| server.project.words(error))?;
    match waiting.as_slice() {
        [one] => Ok(one.session.clone()),
        [] => {
            Err(ToolProblem::new("no session waits for an answer", "`watch` says what a session waits for"))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|one| one.session.as_str()).collect();
            let message = format!("{} sessions wait for an answer", several.len());
            Err(ToolProblem::new(message, format!("name one as `session`: {}", names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arguments: serde_json::Value, expected: Result<Option<Override>, &str>) {
        let asked: SteerArguments = serde_json::from_value(arguments.clone()).unwrap();
        match (command(&asked), expected) {
            (Ok(command), Ok(expected)) => assert_eq!(command, expected, "{arguments}"),
            (Err(problem), Err(part)) => assert!(problem.text().contains(part), "{}", problem.text()),
            (got, _) => panic!("{arguments}: {got:?}"),
        }
    }

    #[test]
    fn each_command_has_what_it_needs() {
        check(json!({"command": "pause"}), Ok(Some(Override::Pause)));
        check(json!({"command": "say", "text": " hi "}), Ok(Some(Override::Say { text: "hi".into() })));
        check(json!({"command": "say"}), Err("`say` needs `text`"));
        check(json!({"command": "say", "text": "  "}), Err("`say` needs `text`"));
        check(json!({"command": "force"}), Err("`force` needs `agent`"));
        check(json!({"command": "cancel"}), Ok(None));
    }
}
