//! Has hooks asked where the core itself waits for them: as a task begins, after an execution, and before a run ends as
//! complete. Those about tool calls are asked where a call is made.

use super::verifying::{Verifying, decided};
use super::{ExecutionStage, FollowUp, RunPhase, asking, executing};
use crate::agent::execution::Execution;
use crate::error::{ErrorCode, ErrorInfo};
use crate::hook::{HookEvent, HookOccasion, HookReply};
use crate::machine::{AgentResult, Decision, MachineEvent};
use crate::note::DecisionPoint;
use crate::session::answer::OpenEffect;
use crate::session::effect::Effect;
use crate::session::hooks::{MAX_RETURNS, completion};
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;
use crate::session::run::{decided_by_user, forced};
use crate::session::steering::decided_unasked;
use crate::text::keep_ends;

/// Bytes of an agent's words that a hook is shown.
const OUTPUT_BYTES: usize = 4_000;

/// Hooks are asked, and something waits for them.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct HooksPhase {
    waits: WaitsForHooks,
}

/// What waits for them.
#[derive(Debug, Clone, PartialEq)]
enum WaitsForHooks {
    /// The task, which those of SessionStart are asked about first.
    Session,
    /// The task, whose words are shown.
    Prompt,
    /// The end of the run: this COMPLETE.
    End { point: DecisionPoint, decision: Decision },
}

impl HooksPhase {
    /// A task has begun: the hooks of its beginning are asked, if there are any and they have not been.
    pub(in crate::session) fn begin(ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        let first = [
            (HookEvent::SessionStart, WaitsForHooks::Session),
            (HookEvent::UserPromptSubmit, WaitsForHooks::Prompt),
        ];
        let first = first.into_iter().find(|(event, _)| ledger.has_hooks(*event));
        match first {
            Some((_, waits)) if !ledger.task.hooks.has_begun => Self { waits }.ask(ledger, reaction),
            Some(_) | None => opening(ledger, reaction),
        }
    }

    /// The run is about to end with `event`, which is a COMPLETE.
    pub(in crate::session) fn before_end(
        event: MachineEvent,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        match completion(&event) {
            Some((point, decision)) => {
                let waits = WaitsForHooks::End { point, decision: decision.clone() };
                Self { waits }.ask(ledger, reaction)
            }
            None => FollowUp::Machine(event),
        }
    }

    /// Has the hooks asked, or asked again.
    pub(super) fn ask(self, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        let occasion = match &self.waits {
            WaitsForHooks::Session => {
                HookOccasion::SessionStart { continued: !ledger.carried.tasks.is_empty() }
            }
            WaitsForHooks::Prompt => {
                HookOccasion::UserPromptSubmit { prompt: ledger.task.context().task.clone() }
            }
            WaitsForHooks::End { .. } => HookOccasion::Stop {
                output: shown(ledger.task.context().history.last().and_then(|last| last.output.as_deref())),
                again: ledger.task.hooks.returns > 0,
            },
        };
        issue(occasion, ledger, reaction);
        FollowUp::Phase(RunPhase::Hooks(Box::new(self)))
    }

    /// They have answered.
    pub(super) fn answered(
        self,
        reply: &HookReply,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        ledger.heard_hooks(reply, reaction);
        match self.waits {
            WaitsForHooks::Session => {
                ledger.task.hooks.context.extend(reply.context.iter().cloned());
                if ledger.has_hooks(HookEvent::UserPromptSubmit) {
                    return Self { waits: WaitsForHooks::Prompt }.ask(ledger, reaction);
                }
                opening(ledger, reaction)
            }
            WaitsForHooks::Prompt => {
                ledger.task.hooks.context.extend(reply.context.iter().cloned());
                match &reply.blocked {
                    Some(reason) => {
                        let message = format!("a UserPromptSubmit hook refused the task: {reason}");
                        let error = ErrorInfo::new(ErrorCode::PermissionError, message);
                        FollowUp::Machine(MachineEvent::AgentSelectionFailed { error })
                    }
                    None => opening(ledger, reaction),
                }
            }
            WaitsForHooks::End { point, decision } => {
                before_end_answered(point, decision, reply, ledger, reaction)
            }
        }
    }
}

/// The Stop hooks let the run end, or send it back.
fn before_end_answered(
    point: DecisionPoint,
    decision: Decision,
    reply: &HookReply,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    if let Some(reason) = &reply.blocked {
        let returns = ledger.task.hooks.returns;
        let back = ledger.goes_back(point, reason).filter(|_| returns < MAX_RETURNS);
        if let Some(back) = back {
            ledger.task.hooks.returns += 1;
            let count = ledger.task.hooks.returns;
            reaction.warn(format!("a Stop hook sent the run back ({count} of {MAX_RETURNS}): {reason}"));
            reaction.notes.push(decided_unasked(point, back.clone(), Some(decision)));
            return FollowUp::Machine(decided(point, back));
        }
        let why = if returns < MAX_RETURNS {
            "and no agent can go on".to_owned()
        } else {
            format!("and has sent the run back {MAX_RETURNS} times")
        };
        reaction.warn(format!("a Stop hook is not content, {why}; the run ends: {reason}"));
    }
    ledger.stop_hooks_passed();
    if reply.may_have_changed {
        // A COMPLETE counts only after the checks have run on the tree as it is now.
        return Verifying::start(point, decision, ledger, reaction);
    }
    FollowUp::Machine(decided(point, decision))
}

/// The task goes to its first agent: the one that the user named, or the one that the arbiter chooses.
fn opening(ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
    ledger.task.hooks.has_begun = true;
    let Some(agent) = ledger.setup.first_agent.clone() else { return asking::select(ledger, reaction) };
    if !ledger.setup.agents.contains_key(&agent) {
        reaction.warn(format!("there is no agent `{agent}` to begin with; the arbiter chooses"));
        return asking::select(ledger, reaction);
    }
    decided_by_user(Decision::SelectMode { mode: agent.clone(), reason: forced(&agent) }, reaction);
    FollowUp::Machine(MachineEvent::ForceAgent { agent_name: agent })
}

/// An execution has ended with `result`: its hooks are asked, or asked again.
pub(super) fn ask_after_execution(
    execution: Box<Execution>,
    result: Box<AgentResult>,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let agent = execution.agent().to_owned();
    let output = shown(Some(&result.output));
    issue(HookOccasion::SubagentStop { agent, output }, ledger, reaction);
    FollowUp::working(execution, ExecutionStage::Hooks(result))
}

/// They have answered. Their words go to the arbiter and to the agents that follow, after those of the agent.
pub(super) fn answered_after_execution(
    execution: Box<Execution>,
    mut result: Box<AgentResult>,
    reply: &HookReply,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    ledger.heard_hooks(reply, reaction);
    for words in reply.blocked.iter().chain(&reply.context) {
        result.output.push_str(&format!("\n\n[A SubagentStop hook of the user says: {words}]"));
    }
    executing::settle(execution, *result, ledger, reaction)
}

fn issue(occasion: HookOccasion, ledger: &mut Ledger, reaction: &mut Reaction) {
    let id = ledger.open.issue(OpenEffect::Hooks);
    reaction.effects.push(Effect::RunHooks { id, occasion });
}

fn shown(output: Option<&str>) -> String {
    keep_ends(output.unwrap_or_default().trim(), OUTPUT_BYTES)
}
