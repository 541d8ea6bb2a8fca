//! Notifies the configured programs and addresses (`notify:`) that a run has ended, waits or asks.
//!
//! A watcher like any other, on a thread of its own: it sees the run's events, in which secrets are masked, and never
//! holds the run back. A notification that fails is a warning. Nothing of it is journaled: it changes nothing, and a
//! resumed run reports only what happens from then on.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rawko_core::session::{Note, Outcome};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;

use crate::config::{NotifyConfig, NotifyOn};
use crate::http;
use crate::run::event::RunEvent;
use crate::run::hub::RunEvents;

/// How long one notification may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The shortest wait that is reported.
const LONG_WAIT_MS: u64 = 10_000;
/// The most notifications of one run that are being delivered at a time. More are left out.
const MAX_OPEN: usize = 32;

/// The notifications of one run.
#[derive(Debug)]
pub struct Notifications {
    thread: std::thread::JoinHandle<Vec<String>>,
}

impl Notifications {
    /// Watches `events`; `None` where nothing is configured.
    pub(crate) fn of(entries: &[NotifyConfig], events: RunEvents, project: &Path) -> Option<Self> {
        if entries.is_empty() {
            return None;
        }
        let watcher = Watcher { entries: entries.to_vec(), project: project.to_owned() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let thread = std::thread::Builder::new()
            .name("notifications".to_owned())
            .spawn(move || runtime.block_on(watcher.watch(events)))
            .ok()?;
        Some(Self { thread })
    }

    /// Waits until everything is delivered or has failed, which takes seconds at most once the run has ended. Returns what
    /// failed. A program that ends without this may lose the last notification.
    #[must_use]
    pub fn finish(self) -> Vec<String> {
        self.thread.join().unwrap_or_default()
    }
}

struct Watcher {
    entries: Vec<NotifyConfig>,
    project: PathBuf,
}

impl Watcher {
    async fn watch(self, mut events: RunEvents) -> Vec<String> {
        let mut story = Story { project: self.project.display().to_string(), ..Story::default() };
        let (mut open, mut failed) = (JoinSet::new(), Vec::new());
        while let Some(event) = events.next().await {
            while let Some(Ok(Err(problem))) = open.try_join_next() {
                failed.push(problem);
            }
            let Some((on, payload)) = story.tell(&event) else { continue };
            for entry in self.entries.iter().filter(|entry| entry.on.contains(&on)) {
                if open.len() < MAX_OPEN {
                    open.spawn(deliver(entry.clone(), payload.to_string(), self.project.clone()));
                }
            }
        }
        while let Some(delivered) = open.join_next().await {
            if let Ok(Err(problem)) = delivered {
                failed.push(problem);
            }
        }
        failed.dedup();
        failed
    }
}

/// What the events have said so far, as far as a notification needs it.
#[derive(Debug, Default)]
struct Story {
    project: String,
    session: String,
    task: String,
}

impl Story {
    fn tell(&mut self, event: &RunEvent) -> Option<(NotifyOn, Value)> {
        let (on, more) = match event {
            RunEvent::SessionStarted { session, task, .. } => {
                (self.session, self.task) = (session.clone(), task.clone());
                return None;
            }
            RunEvent::Waiting { after_ms, .. } if *after_ms < LONG_WAIT_MS => return None,
            RunEvent::Waiting { reason, message, provider, until, .. } => {
                let until = until.to_rfc3339();
                let more =
                    json!({"reason": reason, "message": message, "provider": provider, "until": until});
                (NotifyOn::Wait, more)
            }
            RunEvent::Note(Note::ApprovalRequested(question)) => (
                NotifyOn::Question,
                json!({
                    "agent": question.agent,
                    "tool": question.call.name,
                    "digest": question.digest,
                    "answer": format!("rawko approve {}", self.session),
                }),
            ),
            RunEvent::SessionFinished { outcome, session, .. } => {
                self.session.clone_from(session);
                (NotifyOn::End, end(outcome))
            }
            _ => return None,
        };
        let mut payload =
            json!({"event": on, "session": self.session, "task": self.task, "project": self.project});
        if let (Some(payload), Value::Object(more)) = (payload.as_object_mut(), more) {
            payload.extend(more);
        }
        Some((on, payload))
    }
}

fn end(outcome: &Outcome) -> Value {
    json!({
        "status": outcome.status,
        "summary": outcome.summary,
        "agentSummary": outcome.agent_summary,
        "iterations": outcome.iterations,
        "costUsd": outcome.cost_usd,
        "durationMs": outcome.duration_ms,
        "filesModified": outcome.files_modified,
    })
}

async fn deliver(entry: NotifyConfig, payload: String, project: PathBuf) -> Result<(), String> {
    match (&entry.command, &entry.url) {
        (Some(command), _) => {
            let Some((program, arguments)) = command.split_first() else { return Ok(()) };
            let ran = run(program, arguments, &payload, &project).await;
            ran.map_err(|why| format!("the notification by `{program}` failed: {why}"))
        }
        // The path of an address may be a secret.
        (None, Some(url)) => http::post_json(url, payload, PATIENCE)
            .await
            .map_err(|why| format!("the notification by `notify.url` failed: {why}")),
        (None, None) => Ok(()),
    }
}

async fn run(program: &str, arguments: &[String], payload: &str, project: &Path) -> Result<(), String> {
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).current_dir(project);
    // A group of its own: a Ctrl-C is for the run.
    command.process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
    let group = child.id();
    let mut input = child.stdin.take();
    let work = async {
        if let Some(input) = &mut input {
            // It need not read it.
            let _ = input.write_all(format!("{payload}\n").as_bytes()).await;
        }
        drop(input.take());
        child.wait().await
    };
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("it ended with {status}")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            let group = group.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
            if let Some(group) = group {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            Err(format!("it was ended after {} seconds", PATIENCE.as_secs()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawko_core::{ErrorCode, ErrorInfo, Timestamp};

    #[test]
    fn what_is_notified_and_what_is_not() {
        let mut story = Story { project: "/p".into(), ..Story::default() };
        let waiting = |after_ms| RunEvent::Waiting {
            reason: ErrorCode::RateLimited,
            message: "slow down".into(),
            provider: Some("claude".into()),
            until: Timestamp(0),
            after_ms,
            attempt: 2,
        };
        assert_eq!(story.tell(&RunEvent::warning("w")), None);
        assert_eq!(story.tell(&waiting(9_999)), None, "a short wait is not worth a message");
        let (on, payload) = story.tell(&waiting(10_000)).unwrap();
        assert_eq!(
            (on, &payload["event"], &payload["until"]),
            (NotifyOn::Wait, &json!("wait"), &json!("1970-01-01T00:00:00.000Z"))
        );
        let outcome = Outcome::failed(ErrorInfo::new(ErrorCode::Unknown, "it broke"));
        let (on, payload) = story.tell(&RunEvent::finished("s1", outcome)).unwrap();
        assert_eq!(on, NotifyOn::End);
        insta::assert_snapshot!(serde_json::to_string_pretty(&payload).unwrap(), @r#"
        {
          "agentSummary": null,
          "costUsd": null,
          "durationMs": 0,
          "event": "end",
          "filesModified": [],
          "iterations": 0,
          "project": "/p",
          "session": "s1",
          "status": "failed",
          "summary": "it broke",
          "task": ""
        }
        "#);
    }
}
