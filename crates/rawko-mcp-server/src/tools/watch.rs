//! `watch`: a bounded wait with a cursor; for clients with the Tasks extension, a task that ends with the session.

use std::time::{Duration, Instant};

use rmcp::model::{CreateTaskResult, InputRequest};
use rmcp::task_manager::{TaskContext, TaskExit, TaskOptions};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ClientSkills, DoneAnswer, ToolAnswer, steer};
use crate::follow::{self, Detail, Look, OpenQuestion};
use crate::project::ToolProblem;
use crate::server::RawkoServer;

/// How often the journal is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long a call waits for something new if it does not say.
const DEFAULT_WAIT: u64 = 20;
/// The longest that a call may wait. Clients give up after a minute.
const LONGEST_WAIT: u64 = 50;
/// Tasks at a time.
const MOST_TASKS: usize = 64;
/// How long a task is watched, and then kept.
const TASK_TTL_MS: u64 = 24 * 3_600_000;
/// How often a client should ask for a task.
const POLL_MS: u64 = 1_000;

/// The arguments of `watch`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WatchArguments {
    session: Option<String>,
    after: Option<u64>,
    wait_seconds: Option<u64>,
    #[serde(default)]
    detail: Detail,
}

/// Watches the session.
pub(super) async fn watch(
    server: &RawkoServer,
    asked: WatchArguments,
    client: ClientSkills,
) -> Result<ToolAnswer, ToolProblem> {
    let wanted = asked.session.clone();
    let session = server.blocking(move |server| follow::watched_id(server, wanted.as_deref())).await?;
    if client.tasks && asked.wait_seconds.is_none() {
        return as_task(server, session, asked, client).map(ToolAnswer::Task);
    }
    let wait = Duration::from_secs(asked.wait_seconds.unwrap_or(DEFAULT_WAIT).min(LONGEST_WAIT));
    let begun = Instant::now();
    let mut after = asked.after;
    loop {
        let look = look(server, &session, after, asked.detail).await?;
        if look.is_news() || begun.elapsed() >= wait || server.is_closing() {
            return Ok(ToolAnswer::Done(done(server, &look)));
        }
        after = Some(look.cursor);
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = server.closed() => {}
        }
    }
}

async fn look(
    server: &RawkoServer,
    session: &str,
    after: Option<u64>,
    detail: Detail,
) -> Result<Look, ToolProblem> {
    let session = session.to_owned();
    server.blocking(move |server| server.watchers.look(server, &session, after, detail)).await
}

/// What a look says, with why a run of this process broke off.
fn done(server: &RawkoServer, look: &Look) -> DoneAnswer {
    let DoneAnswer { mut text, mut value } = look.answer();
    if let Some(problem) =
        server.runs.broken(&look.session).filter(|_| look.end.is_none() && !look.is_running)
    {
        text.push_str(&format!("it broke off: {}\n", problem.text()));
        if let Some(fields) = value.as_object_mut() {
            fields.insert("problem".to_owned(), json!(problem.text()));
        }
    }
    DoneAnswer { text, value }
}

/// A task that ends with the session, or with a question that this client cannot put to its user.
fn as_task(
    server: &RawkoServer,
    session: String,
    asked: WatchArguments,
    client: ClientSkills,
) -> Result<CreateTaskResult, ToolProblem> {
    if server.tasks.running_task_count() >= MOST_TASKS {
        return Err(ToolProblem::new(
            format!("{MOST_TASKS} tasks are watched already"),
            "cancel some with `tasks/cancel`, or give `waitSeconds`",
        ));
    }
    let options = TaskOptions::new()
        .with_ttl_ms(TASK_TTL_MS)
        .with_poll_interval_ms(POLL_MS)
        .with_status_message(format!("session {session}"));
    let server = server.clone();
    let tasks = server.tasks.clone();
    let task = tasks.spawn(options, move |context| {
        Box::pin(async move {
            tokio::select! {
                done = until_end(&server, &session, asked, client, &context) => match done {
                    Ok(done) => Ok(done.into_result()),
                    Err(WatchStop::Problem(problem)) => Ok(rmcp::model::CallToolResult::error(vec![
                        rmcp::model::ContentBlock::text(problem.text()),
                    ])),
                    Err(WatchStop::Exit(exit)) => Err(exit),
                },
                // Only the watching ends: the run has `steer` for that.
                () = context.cancelled() => Err(TaskExit::Cancelled),
            }
        })
    });
    Ok(CreateTaskResult::new(task))
}

/// Why watching ended early.
enum WatchStop {
    Problem(ToolProblem),
    Exit(TaskExit),
}

impl From<ToolProblem> for WatchStop {
    fn from(problem: ToolProblem) -> Self {
        Self::Problem(problem)
    }
}

async fn until_end(
    server: &RawkoServer,
    session: &str,
    asked: WatchArguments,
    client: ClientSkills,
    context: &TaskContext,
) -> Result<DoneAnswer, WatchStop> {
    let mut after = asked.after;
    let mut seen = Vec::new();
    // The run takes a moment to read an answer.
    let mut answered: Option<String> = None;
    loop {
        let mut look = look(server, session, after, asked.detail).await?;
        after = Some(look.cursor);
        if let Some(line) = look.lines.last() {
            context.set_status_message(line.clone());
        }
        seen.append(&mut look.lines);
        // What is shown at the end is the latest of it.
        let mut bytes = 0;
        let fits = |line: &&String| {
            bytes += json!(line).to_string().len();
            bytes <= follow::MOST_BYTES
        };
        let kept = seen.iter().rev().take(follow::MOST_LINES).take_while(fits).count();
        seen.drain(..seen.len() - kept);
        let is_over = look.end.is_some() || !look.is_running;
        let is_new = |question: &OpenQuestion| answered.as_ref() != Some(&question.call);
        let question = look.question.clone().filter(|open| !is_over && !look.is_cut && is_new(open));
        match question {
            Some(question) if client.elicitation && question.whole => {
                if !asked_user(server, session, &question, context).await? {
                    look.lines = seen;
                    return Ok(done(server, &look));
                }
                answered = Some(question.call);
            }
            Some(_) => {
                look.lines = seen;
                return Ok(done(server, &look));
            }
            None if is_over && !look.is_cut => {
                look.lines = seen;
                return Ok(done(server, &look));
            }
            None => {}
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Puts the question to the client's user, and gives the answer to the session. Says whether it was answered here; else it is
/// no longer open, or the user did not want to answer.
async fn asked_user(
    server: &RawkoServer,
    session: &str,
    question: &OpenQuestion,
    context: &TaskContext,
) -> Result<bool, WatchStop> {
    let request = elicitation(question).map_err(|error| {
        WatchStop::Problem(ToolProblem::new(
            format!("the question cannot be put: {error}"),
            "answer it with `answer`",
        ))
    })?;
    let gone = async {
        loop {
            tokio::time::sleep(LOOK).await;
            let (session, until) = (session.to_owned(), question.until);
            let is_open = server.blocking(move |server| {
                let info = server.project.sessions().info(&session).ok().flatten();
                Ok(info.is_some_and(|info| info.approval_until == Some(until)))
            });
            if !is_open.await.unwrap_or(false) {
                return;
            }
        }
    };
    let response = tokio::select! {
        response = context.request_input(question.call.clone(), request) => response.map_err(WatchStop::Exit)?,
        () = gone => return Ok(false),
    };
    let Some(allow) = allowed(&response) else { return Ok(false) };
    let (session, call) = (session.to_owned(), question.call.clone());
    server.blocking(move |server| steer::answered(server, &session, &call, allow)).await?;
    Ok(true)
}

/// What the user said: yes, no, or nothing.
fn allowed(response: &Value) -> Option<bool> {
    match response["action"].as_str() {
        Some("accept") => response["content"]["allow"].as_bool(),
        Some("decline") => Some(false),
        _ => None,
    }
}

fn elicitation(question: &OpenQuestion) -> Result<InputRequest, serde_json::Error> {
    serde_json::from_value(json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": question.text(),
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "allow": {"type": "boolean", "title": "Allow this call, this once"},
                },
                "required": ["allow"],
            },
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        let said = |value: Value| allowed(&value);
        assert_eq!(said(json!({"action": "accept", "content": {"allow": true}})), Some(true));
        assert_eq!(said(json!({"action": "accept", "content": {"allow": false}})), Some(false));
        assert_eq!(said(json!({"action": "accept", "content": {"allow": "yes"}})), None);
        assert_eq!(said(json!({"action": "accept"})), None);
        assert_eq!(said(json!({"action": "decline"})), Some(false));
        assert_eq!(said(json!({"action": "cancel"})), None);
        assert_eq!(said(json!(null)), None);
    }

    #[test]
    fn a_question_is_a_form() {
        let question = OpenQuestion {
            call: "0123456789ab".to_owned(),
            agent: "developer".to_owned(),
            tool: "Bash".to_owned(),
            input: json!({"command": "make"}),
            needs: "to run make".to_owned(),
            why: "`make` is not listed".to_owned(),
            until: rawko_core::Timestamp(0),
            whole: true,
        };
        let request = serde_json::to_value(elicitation(&question).unwrap()).unwrap();
        assert_eq!(request["params"]["requestedSchema"]["required"], json!(["allow"]));
        let message = request["params"]["message"].as_str().unwrap();
        assert!(message.contains("make") && message.contains("developer"), "{message}");
    }
}
