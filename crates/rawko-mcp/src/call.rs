//! One call of a tool: the server's questions meanwhile, tasks, and the deadline.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, GetTaskParams, InputRequiredResult,
    JsonObject, Task, TaskPayload, UpdateTaskParams,
};
use rmcp::service::{Peer, RoleClient};
use tokio::time::{Instant, sleep, sleep_until};

use crate::answer::{Answer, of_task};
use crate::connection::Connection;
use crate::error::{McpError, short};

/// How often a server may ask for more before it answers.
const MOST_ROUNDS: usize = 10;
/// How often a server's progress starts the time anew.
const MOST_EXTENSIONS: u32 = 10;
/// Between two questions for the state of a task.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Calls a tool. The time that it has begins anew when the server says that it makes progress.
pub(crate) async fn call(
    connection: &Connection,
    tool: &str,
    arguments: JsonObject,
    watch: &(dyn Fn(&str) + Send + Sync),
) -> Result<Answer, McpError> {
    let time = connection.options.call;
    let begun = Instant::now();
    let last = begun + time * MOST_EXTENSIONS;
    let mut deadline = begun + time;
    let mut progress = connection.service.service().progress();
    let work = answer(connection, tool, arguments);
    tokio::pin!(work);
    loop {
        tokio::select! {
            answer = &mut work => return answer,
            Ok(()) = progress.changed() => {
                deadline = (Instant::now() + time).min(last);
                let text = progress.borrow_and_update().1.clone();
                watch(&text);
            }
            () = sleep_until(deadline) => {
                return Err(McpError::Timeout { what: format!("the call of `{tool}`"), after: begun.elapsed() });
            }
        }
    }
}

async fn answer(connection: &Connection, tool: &str, arguments: JsonObject) -> Result<Answer, McpError> {
    let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    for _ in 0..MOST_ROUNDS {
        let response = connection.service.call_tool_once(params.clone()).await;
        match response.map_err(|error| connection.failure(&error))? {
            CallToolResponse::Complete(result) => return Ok(Answer::of_call(result)),
            CallToolResponse::Task(created) => return task(connection, created.task).await,
            CallToolResponse::InputRequired(InputRequiredResult {
                input_requests, request_state, ..
            }) => {
                let requests = input_requests.unwrap_or_default();
                if requests.is_empty() {
                    sleep(SHORTEST_PAUSE).await;
                }
                let responses = connection.service.service().answers(requests).await?;
                params.input_responses = (!responses.is_empty()).then_some(responses);
                params.request_state = request_state;
            }
            _ => {
                return Err(McpError::Protocol(
                    "the answer is of a kind that rawko does not know".to_owned(),
                ));
            }
        }
    }
    Err(McpError::Protocol(format!("it asked for more {MOST_ROUNDS} times and did not answer")))
}

/// Cancels a task whose call is given up.
struct TaskCanceller {
    peer: Peer<RoleClient>,
    task: Option<String>,
}

impl Drop for TaskCanceller {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        let peer = self.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // The server may end it or not: nothing waits for it any more.
            runtime.spawn(async move { drop(peer.cancel_task(CancelTaskParams::new(task)).await) });
        }
    }
}

/// Waits for the end of a task.
async fn task(connection: &Connection, created: Task) -> Result<Answer, McpError> {
    let peer = connection.service.peer();
    let mut guard = TaskCanceller { peer: peer.clone(), task: Some(created.task_id.clone()) };
    let mut pause = created.poll_interval_ms;
    loop {
        let wanted = Duration::from_millis(pause.unwrap_or(500));
        sleep(wanted.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
        let state = peer.get_task(GetTaskParams::new(created.task_id.clone())).await;
        let state = state.map_err(|error| connection.failure(&error))?.task;
        pause = state.task.poll_interval_ms;
        let ended = match state.payload {
            TaskPayload::Working => continue,
            TaskPayload::InputRequired { input_requests } => {
                let responses = connection.service.service().answers(input_requests).await?;
                let update = UpdateTaskParams::new(created.task_id.clone(), responses);
                peer.update_task(update).await.map_err(|error| connection.failure(&error))?;
                continue;
            }
            TaskPayload::Completed { result } => of_task(result).map_err(|error| {
                McpError::Protocol(format!("the result of the task cannot be read: {error}"))
            }),
            TaskPayload::Failed { error } => {
                let code = error.get("code").and_then(serde_json::Value::as_i64).unwrap_or_default();
                let message = error.get("message").and_then(serde_json::Value::as_str).unwrap_or_default();
                Err(McpError::Refused {
                    code: i32::try_from(code).unwrap_or_default(),
                    message: short(message),
                })
            }
            TaskPayload::Cancelled => {
                Err(McpError::Protocol("the server cancelled the task of the call".to_owned()))
            }
            _ => Err(McpError::Protocol("the task is in a state that rawko does not know".to_owned())),
        };
        guard.task = None;
        return ended;
    }
}
