//! The state of a fleet's task, for people and programs.

use std::time::{SystemTime, UNIX_EPOCH};

use rawko::Status;
use rawko_core::Timestamp;
use rawko_temporal::{EngineState, FleetTask};
use serde_json::{Value, json};

use super::arguments::TaskPhase;
use crate::exit::Exit;

impl TaskPhase {
    /// That of a task.
    pub(super) fn of(task: &FleetTask) -> Self {
        let status = task.status.as_ref();
        if let Some(outcome) = status.and_then(|status| status.outcome.as_ref()) {
            return match outcome.status {
                Status::Verified => Self::Verified,
                Status::Claimed => Self::Claimed,
                Status::Failed => Self::Failed,
                Status::Limited => Self::Limited,
                Status::Cancelled => Self::Cancelled,
            };
        }
        let has_begun = status.is_some_and(|status| status.session.is_some());
        match task.engine {
            EngineState::Running => match status {
                Some(status) if status.question.is_some() => Self::Asking,
                Some(status) if status.is_paused => Self::Paused,
                _ if has_begun => Self::Running,
                _ => Self::Waiting,
            },
            EngineState::Cancelled if has_begun => Self::Released,
            EngineState::Cancelled => Self::Cancelled,
            // It has ended, but it is not known how.
            EngineState::Completed | EngineState::Failed | EngineState::Terminated => Self::Broken,
        }
    }

    /// Its word in output and options.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Asking => "asking",
            Self::Paused => "paused",
            Self::Verified => "verified",
            Self::Claimed => "claimed",
            Self::Failed => "failed",
            Self::Limited => "limited",
            Self::Cancelled => "cancelled",
            Self::Released => "released",
            Self::Broken => "broken",
        }
    }
}

/// The exit status for a task that ended like this, as that of a run.
pub(super) fn exit_of(task: &FleetTask) -> Exit {
    match task.status.as_ref().and_then(|status| status.outcome.as_ref()) {
        Some(outcome) => Exit::of_outcome(outcome),
        None if task.engine == EngineState::Cancelled => Exit::Cancelled,
        None => Exit::Failed,
    }
}

/// A task as JSON.
pub(super) fn as_json(task: &FleetTask) -> Value {
    let mut value = serde_json::to_value(task).unwrap_or_default();
    value["phase"] = json!(TaskPhase::of(task).as_str());
    for (key, at) in [("submittedAt", task.submitted_at), ("endedAt", task.ended_at)] {
        if let Some(at) = at {
            value[key] = json!(timestamp(at).to_rfc3339());
        }
    }
    if let Some(waiting) = &task.waits_for {
        value["waitsFor"]["since"] = json!(timestamp(waiting.since).to_rfc3339());
    }
    value
}

/// The engine's time as ours.
pub(super) fn timestamp(at: SystemTime) -> Timestamp {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use clap::ValueEnum as _;
    use rawko::{ApprovalQuestion, Outcome, ToolCall};
    use rawko_core::machine::State;
    use rawko_temporal::TaskStatus;

    use super::*;

    pub(in super::super) fn task(engine: EngineState, change: impl FnOnce(&mut TaskStatus)) -> FleetTask {
        let mut status = TaskStatus {
            task: "fix it".to_owned(),
            repository: "https://example.com/a.git".parse().unwrap(),
            branch: "rawko/one".to_owned(),
            submitter: "me".to_owned(),
            submission: None,
            session: Some("20260101-000000-abcd".to_owned()),
            state: State::Executing,
            agent: None,
            iterations: 1,
            head: None,
            is_paused: false,
            question: None,
            outcome: None,
            merge_request: None,
        };
        change(&mut status);
        let submitted_at = Some(UNIX_EPOCH + Duration::from_millis(1_769_160_600_000));
        FleetTask {
            id: "one".to_owned(),
            engine,
            submitted_at,
            ended_at: None,
            failure: None,
            waits_for: None,
            status: Some(status),
        }
    }

    pub(in super::super) fn question() -> ApprovalQuestion {
        ApprovalQuestion {
            digest: "0123456789abcdef".to_owned(),
            agent: "developer".to_owned(),
            call: ToolCall {
                id: "c".to_owned(),
                name: "Bash".to_owned(),
                input: json!({"command": "curl x"}),
                invalid_input: None,
                withheld: None,
            },
            needs: Vec::new(),
            why: "it is not granted".to_owned(),
            until: Timestamp(0),
        }
    }

    #[test]
    fn a_task_stands_in_one_word() {
        use EngineState::{Cancelled, Completed, Failed, Running, Terminated};
        let of = |engine, change: fn(&mut TaskStatus)| TaskPhase::of(&task(engine, change));
        assert_eq!(of(Running, |_| {}), TaskPhase::Running);
        assert_eq!(of(Running, |status| status.session = None), TaskPhase::Waiting);
        assert_eq!(of(Running, |status| status.is_paused = true), TaskPhase::Paused);
        assert_eq!(of(Running, |status| status.question = Some(question())), TaskPhase::Asking);
        assert_eq!(of(Cancelled, |_| {}), TaskPhase::Released);
        assert_eq!(of(Cancelled, |status| status.session = None), TaskPhase::Cancelled);
        assert_eq!(of(Failed, |_| {}), TaskPhase::Broken);
        assert_eq!(of(Terminated, |_| {}), TaskPhase::Broken);
        let limited = |status: &mut TaskStatus| {
            status.outcome = Some(Outcome { status: Status::Limited, ..failed() });
        };
        assert_eq!(of(Failed, limited), TaskPhase::Limited);
        let verified = |status: &mut TaskStatus| {
            status.outcome = Some(Outcome { status: Status::Verified, ..failed() });
        };
        assert_eq!(of(Completed, verified), TaskPhase::Verified);
        assert_eq!(exit_of(&task(Completed, verified)), Exit::Success);
        assert_eq!(exit_of(&task(Failed, limited)), Exit::Limited);
        assert_eq!(exit_of(&task(Failed, |_| {})), Exit::Failed);
        assert_eq!(exit_of(&task(Cancelled, |_| {})), Exit::Cancelled);
    }

    fn failed() -> Outcome {
        Outcome::failed(rawko::ErrorInfo::new(rawko::ErrorCode::Unknown, "no"))
    }

    #[test]
    fn the_words_are_those_of_the_option() {
        for phase in TaskPhase::value_variants() {
            assert_eq!(phase.to_possible_value().unwrap().get_name(), phase.as_str());
        }
    }

    #[test]
    fn json_has_times_and_the_phase() {
        let value = as_json(&task(EngineState::Running, |_| {}));
        assert_eq!(value["phase"], "running");
        assert_eq!(value["submittedAt"], "2026-01-23T09:30:00.000Z");
        assert_eq!((&value["id"], &value["branch"]), (&json!("one"), &json!("rawko/one")));
        assert_eq!(value.get("endedAt"), None);
    }
}
