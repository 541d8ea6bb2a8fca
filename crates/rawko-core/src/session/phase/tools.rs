//! Runs the tool calls of a turn: reads in parallel, a call that may change something alone.

use super::{ExecutionStage, FollowUp, RunPhase, executing};
use crate::agent::execution::{AllowedCall, Execution, Permit, has_run, unknown_outcome};
use crate::session::answer::OpenEffect;
use crate::session::effect::Effect;
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;
use crate::tool::{ToolAccess, ToolOutcome};

/// Runs `calls`.
pub(super) fn start(
    execution: Box<Execution>,
    calls: Vec<AllowedCall>,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    for call in calls {
        run(execution.agent(), call, ledger, reaction);
    }
    FollowUp::working(execution, ExecutionStage::Tools)
}

/// The call of `effect` has ended.
pub(super) fn finished(
    mut execution: Box<Execution>,
    effect: OpenEffect,
    outcome: ToolOutcome,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let OpenEffect::ToolCall(slot) = effect else {
        return RunPhase::Working(execution, ExecutionStage::Tools).ignore(reaction);
    };
    ledger.tree.wrote(&outcome.files_modified);
    if let Some(reply) = &outcome.hooks {
        ledger.heard_hooks(reply, reaction);
    }
    if let Some(AllowedCall { call, permit, .. }) = execution.calls.running(slot) {
        let Permit { access, grants, .. } = permit;
        let grants = ledger.user.approvals.all_grants(execution.agent(), &call, grants);
        let asked = ledger.asked_after(execution.agent(), &grants, &outcome);
        let has_run = has_run(access, &asked);
        // A call that was refused before it did anything is no call yet.
        if asked.is_empty() || has_run {
            ledger.watch_call(&mut execution, &call, access, &outcome);
        }
        if asked.is_empty() {
            ledger.user.approvals.used(execution.agent(), &call);
        }
        if !asked.is_empty() {
            let step = execution.tool_refused(slot, outcome, asked, &mut reaction.notes);
            return executing::follow(execution, step, ledger, reaction);
        }
    }
    let step = execution.tool_finished(slot, outcome, &mut reaction.notes);
    executing::follow(execution, step, ledger, reaction)
}

/// A read is done again; whether anything else was done is unknown.
pub(super) fn lost(
    execution: Box<Execution>,
    effect: OpenEffect,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let running = match effect {
        OpenEffect::ToolCall(slot) => execution.calls.running(slot),
        _ => None,
    };
    match running {
        Some(call) if call.permit.access == ToolAccess::ReadOnly => {
            run(execution.agent(), call, ledger, reaction);
            FollowUp::working(execution, ExecutionStage::Tools)
        }
        Some(_) | None => {
            ledger.tree.unreported();
            finished(execution, effect, unknown_outcome(), ledger, reaction)
        }
    }
}

fn run(agent: &str, call: AllowedCall, ledger: &mut Ledger, reaction: &mut Reaction) {
    let AllowedCall { slot, call, permit: Permit { access, rule, grants } } = call;
    let grants = ledger.user.approvals.all_grants(agent, &call, grants);
    if access == ToolAccess::Mutating {
        ledger.tree.changing(&call.name);
    }
    let id = ledger.open.issue(OpenEffect::ToolCall(slot));
    reaction.effects.push(Effect::RunTool { id, agent: agent.to_owned(), call, access, rule, grants });
}
