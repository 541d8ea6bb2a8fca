//! What a client is shown of a run: the events, live or from the journal, as updates of the session.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{
    ContentChunk, Cost, Meta, Plan as ShownPlan, PlanEntry, PlanEntryPriority, PlanEntryStatus,
    SessionInfoUpdate, SessionUpdate, Terminal, TerminalId, ToolCall as CallUpdate, ToolCallContent,
    ToolCallId, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind, UsageUpdate,
};
use rawko::{Note, Outcome, RunEvent, Status, ToolCall, ToolOutcome, Usage};
use rawko_core::facts::{CommandRun, Verification};
use rawko_core::machine::{Plan, StepStatus};
use rawko_core::text::truncate;
use serde_json::{Value, json};

use super::tool_calls::{CallNames, ShownCall, bounded, output_content, text_content};

/// Characters of a title.
const TITLE_CHARS: usize = 80;

/// Makes updates of events.
#[derive(Debug)]
pub(super) struct UpdateMaker {
    pub(super) names: CallNames,
    /// Where agents work.
    pub(super) tree: PathBuf,
    /// The agents, with the windows of their models where they are known.
    pub(super) agents: BTreeMap<String, Option<u32>>,
    /// Whether the client shows a command's output as a terminal.
    pub(super) has_terminals: bool,
    /// The checks that run.
    pub(super) checks: Option<ToolCallId>,
}

impl UpdateMaker {
    /// What the client is shown of an event.
    pub(super) fn of(&mut self, event: &RunEvent) -> Vec<SessionUpdate> {
        match event {
            RunEvent::SessionStarted { task, continued, .. } if !continued => {
                let title = task.lines().next().unwrap_or_default();
                let info = SessionInfoUpdate::new().title(truncate(title, TITLE_CHARS));
                vec![SessionUpdate::SessionInfoUpdate(info)]
            }
            // What the arbiter says is JSON; its decision follows.
            RunEvent::TextDelta { agent, text } if self.agents.contains_key(agent) => {
                vec![said(text.clone())]
            }
            RunEvent::ToolBegun { agent, call_id, .. } => {
                let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
                vec![SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(
                    self.names.of(agent, call_id),
                    fields,
                ))]
            }
            RunEvent::Waiting { message, after_ms, .. } => {
                vec![thought(&format!("waiting {} s: {message}", after_ms.div_ceil(1_000)))]
            }
            RunEvent::Error { error } => vec![thought(&format!("failed: {}", error.message))],
            RunEvent::SessionFinished { outcome, would_allow, .. } => {
                vec![said(ending(outcome, would_allow))]
            }
            RunEvent::Note(note) => self.of_note(note),
            _ => Vec::new(),
        }
    }

    fn of_note(&mut self, note: &Note) -> Vec<SessionUpdate> {
        match note {
            Note::DecisionMade(made) => {
                vec![thought(&format!("{}: {}", made.decision.kind(), made.decision.reason()))]
            }
            Note::AgentStarted { agent, iteration, continued } => {
                let how = if *continued { "goes on" } else { "begins" };
                vec![thought(&format!("{agent} {how} (execution {iteration})"))]
            }
            Note::ToolCalled { agent, call, .. } => self.called(agent, call),
            Note::ToolFinished { agent, call_id, tool, outcome } => {
                self.finished(agent, call_id, tool, outcome)
            }
            Note::VerificationStarted { commands } => vec![self.checking(commands)],
            Note::VerificationFinished { verification } => vec![self.checked(verification)],
            Note::PlanUpdated { plan, .. } => vec![SessionUpdate::Plan(shown_plan(plan))],
            Note::TokensUsed { agent, usage, cost_usd, .. } => {
                self.usage(agent, usage, *cost_usd).into_iter().collect()
            }
            Note::RunPaused => vec![thought("paused; to go on: rawko steer go")],
            Note::Warned { message } => vec![thought(&format!("warning: {message}"))],
            // Of little worth to a person who watches, or shown in another way.
            _ => Vec::new(),
        }
    }

    fn called(&self, agent: &str, call: &ToolCall) -> Vec<SessionUpdate> {
        if call.name == rawko_core::agent::REPORT {
            let summary = call.input.get("summary").and_then(Value::as_str);
            return summary.map(|summary| said(format!("\n\n{summary}\n\n"))).into_iter().collect();
        }
        // The plan has updates of its own.
        if call.name == rawko_core::agent::UPDATE_PLAN {
            return Vec::new();
        }
        let id = self.names.of(agent, &call.id);
        let shown = ShownCall::of(call, &self.tree);
        let mut update = CallUpdate::new(id.clone(), shown.title)
            .name(call.name.clone())
            .kind(shown.kind)
            .locations(shown.locations)
            .content(shown.content)
            .raw_input(shown.input);
        if self.has_terminals && shown.kind == ToolKind::Execute {
            let terminal = Terminal::new(TerminalId::new(id.0.clone()));
            let info = json!({"terminal_info": {"terminal_id": id.0, "cwd": self.tree}});
            update = update.content(vec![ToolCallContent::Terminal(terminal)]).meta(meta(info));
        }
        vec![SessionUpdate::ToolCall(update)]
    }

    fn finished(&self, agent: &str, call: &str, tool: &str, outcome: &ToolOutcome) -> Vec<SessionUpdate> {
        if [rawko_core::agent::REPORT, rawko_core::agent::UPDATE_PLAN].contains(&tool) {
            return Vec::new();
        }
        let id = self.names.end(agent, call);
        let status = if outcome.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
        let fields = ToolCallUpdateFields::new().status(status);
        let text = &outcome.content;
        let update = match tool {
            "Bash" if self.has_terminals => {
                let data = bounded(text).replace('\n', "\r\n");
                let exit = outcome.exit_code.or(outcome.is_error.then_some(1));
                ToolCallUpdate::new(id.clone(), fields).meta(meta(json!({
                    "terminal_output": {"terminal_id": id.0, "data": data},
                    "terminal_exit": {"terminal_id": id.0, "exit_code": exit.unwrap_or(0), "signal": null},
                })))
            }
            "Bash" => ToolCallUpdate::new(id, fields.content(vec![output_content(text)])),
            // The diff stays; what the tool answers is for the model.
            "Edit" | "Write" if !outcome.is_error => ToolCallUpdate::new(id, fields),
            _ => ToolCallUpdate::new(id, fields.content(vec![text_content(text)])),
        };
        vec![SessionUpdate::ToolCallUpdate(update)]
    }

    fn checking(&mut self, commands: &[String]) -> SessionUpdate {
        let id = self.names.another();
        self.checks = Some(id.clone());
        let title = truncate(&format!("Checks: {}", commands.join("; ")), 2 * TITLE_CHARS);
        let call = CallUpdate::new(id, title).kind(ToolKind::Execute).status(ToolCallStatus::InProgress);
        SessionUpdate::ToolCall(call)
    }

    fn checked(&mut self, verification: &Verification) -> SessionUpdate {
        let id = self.checks.take().unwrap_or_else(|| self.names.another());
        let passed = verification.runs.iter().all(CommandRun::passed);
        let status = if passed { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
        let content = verification.runs.iter().flat_map(|run| {
            let exit =
                run.exit_code.map_or_else(|| "was ended".to_owned(), |code| format!("exit status {code}"));
            let output = (!run.passed()).then(|| output_content(&run.output));
            std::iter::once(text_content(&format!("`{}`: {exit}", run.command))).chain(output)
        });
        let fields = ToolCallUpdateFields::new().status(status).content(content.collect::<Vec<_>>());
        SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
    }

    /// The context of the agent that works, and what the session has cost. Unknown windows are not guessed.
    fn usage(&self, agent: &str, usage: &Usage, cost_usd: Option<f64>) -> Option<SessionUpdate> {
        let window = (*self.agents.get(agent)?)?;
        let cost = cost_usd.map(|amount| Cost::new(amount, "USD"));
        let update = UsageUpdate::new(usage.total_tokens(), u64::from(window)).cost(cost);
        Some(SessionUpdate::UsageUpdate(update))
    }
}

/// Words of an agent.
pub(super) fn said(text: String) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()))
}

/// Words of the user.
pub(super) fn asked(text: String) -> SessionUpdate {
    SessionUpdate::UserMessageChunk(ContentChunk::new(text.into()))
}

/// What happens beside the agents' words, in a line of its own.
pub(super) fn thought(line: &str) -> SessionUpdate {
    SessionUpdate::AgentThoughtChunk(ContentChunk::new(format!("{line}\n\n").into()))
}

/// How the run ended, in words: with what rawko itself knows.
fn ending(outcome: &Outcome, would_allow: &[String]) -> String {
    let status = match outcome.status {
        Status::Verified => "Verified",
        Status::Claimed => "Claimed, not verified",
        Status::Failed => "Failed",
        Status::Limited => "Stopped by a limit",
        Status::Cancelled => "Cancelled",
    };
    let mut text = format!("\n\n**{status}**: {}", outcome.summary);
    for change in would_allow {
        text.push_str(&format!("\n- denied; to allow it: {change}"));
    }
    text
}

fn shown_plan(plan: &Plan) -> ShownPlan {
    let entry = |step: &rawko_core::machine::PlanStep| {
        let (status, mark) = match step.status {
            StepStatus::Pending => (PlanEntryStatus::Pending, ""),
            StepStatus::InProgress => (PlanEntryStatus::InProgress, ""),
            StepStatus::Complete => (PlanEntryStatus::Completed, ""),
            StepStatus::Failed => (PlanEntryStatus::Pending, " (failed)"),
            StepStatus::Skipped => (PlanEntryStatus::Completed, " (skipped)"),
        };
        PlanEntry::new(format!("{}{mark}", step.description), PlanEntryPriority::Medium, status)
    };
    ShownPlan::new(plan.steps.iter().map(entry).collect())
}

fn meta(value: Value) -> Meta {
    match value {
        Value::Object(meta) => meta,
        _ => Meta::new(),
    }
}

/// A maker for agents in `tree`.
pub(super) fn maker(tree: &Path, agents: BTreeMap<String, Option<u32>>, has_terminals: bool) -> UpdateMaker {
    UpdateMaker { names: CallNames::default(), tree: tree.to_owned(), agents, has_terminals, checks: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(events: Value, has_terminals: bool) -> Vec<Value> {
        let agents = [("developer".to_owned(), Some(200_000))].into();
        let mut maker = maker(Path::new("/p"), agents, has_terminals);
        let events: Vec<RunEvent> = serde_json::from_value(events).unwrap();
        let updates = events.iter().flat_map(|event| maker.of(event));
        updates.map(|update| serde_json::to_value(update).unwrap()).collect()
    }

    fn bash(has_terminals: bool) -> Vec<Value> {
        let call = json!({"id": "1", "name": "Bash", "input": {"command": "false"}});
        shown(
            json!([
                {"type": "tool_called", "agent": "developer", "call": call, "allowed": true, "rule": "r"},
                {"type": "tool_begun", "agent": "developer", "callId": "1", "tool": "Bash"},
                {"type": "tool_finished", "agent": "developer", "callId": "1", "tool": "Bash",
                 "outcome": {"content": "no\n", "isError": true, "exitCode": 1}},
            ]),
            has_terminals,
        )
    }

    #[test]
    fn a_command_is_a_call_with_its_output() {
        let updates = bash(false);
        assert_eq!(updates[0]["title"], "false");
        assert_eq!(updates[1]["status"], "in_progress");
        assert_eq!((&updates[2]["toolCallId"], &updates[2]["status"]), (&json!("call-1"), &json!("failed")));
        assert_eq!(updates[2]["content"][0]["content"]["text"], "```\nno\n```");
    }

    #[test]
    fn a_client_with_terminals_gets_one() {
        let updates = bash(true);
        assert_eq!(updates[0]["content"][0], json!({"type": "terminal", "terminalId": "call-1"}));
        assert_eq!(updates[0]["_meta"]["terminal_info"]["cwd"], "/p");
        assert_eq!(updates[2]["_meta"]["terminal_output"]["data"], "no\r\n");
        assert_eq!(updates[2]["_meta"]["terminal_exit"]["exit_code"], 1);
    }

    #[test]
    fn words_of_agents_are_shown_and_those_of_the_arbiter_are_not() {
        let updates = shown(
            json!([
                {"type": "text_delta", "agent": "select", "text": "{"},
                {"type": "text_delta", "agent": "developer", "text": "Hello"},
            ]),
            false,
        );
        assert_eq!(updates.len(), 1);
        assert_eq!(updates[0]["content"]["text"], "Hello");
    }

    #[test]
    fn a_plan_and_usage_are_whole() {
        let steps = json!([
            {"index": 1, "description": "one", "status": "complete"},
            {"index": 2, "description": "two", "status": "failed"},
        ]);
        let usage =
            json!({"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 100, "cacheWriteTokens": 0});
        let updates = shown(
            json!([
                {"type": "plan_updated", "agent": "developer", "plan": {"steps": steps}},
                {"type": "tokens_used", "effect": 1, "agent": "developer", "usage": usage, "total": usage, "costUsd": 0.5},
                {"type": "tokens_used", "effect": 2, "agent": "select", "usage": usage, "total": usage, "costUsd": 0.6},
            ]),
            false,
        );
        assert_eq!(updates.len(), 2);
        assert_eq!(updates[0]["entries"][0]["status"], "completed");
        assert_eq!(updates[0]["entries"][1]["content"], "two (failed)");
        assert_eq!((&updates[1]["used"], &updates[1]["size"]), (&json!(115), &json!(200_000)));
        assert_eq!(updates[1]["cost"], json!({"amount": 0.5, "currency": "USD"}));
    }
}
