//! An outside agent works (`docs/acp-agents.md`): one effect in the place of model turns and tool calls.

use super::{ExecutionStage, FollowUp, checkpointing, executing};
use crate::agent::execution::Execution;
use crate::agent::outside::{OutsideUse, OutsideWork};
use crate::error::{ErrorCode, ErrorInfo};
use crate::session::answer::OpenEffect;
use crate::session::effect::Effect;
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;

/// The name under which its work is a change of the tree.
const CHANGES_AS: &str = "acp";

/// The agent begins, after a checkpoint: it may change anything.
pub(super) fn start(execution: Box<Execution>, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
    if let Err(error) = ledger.has_budget_for_outside() {
        return executing::failed(Some(execution), error, ledger, reaction);
    }
    if ledger.setup.checkpoints && ledger.tree.checkpoint_tried < ledger.task.iteration() {
        return checkpointing::ask(execution, Vec::new(), ledger, reaction);
    }
    run(execution, ledger, reaction)
}

/// Has its program started.
pub(super) fn run(execution: Box<Execution>, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
    let name = execution.agent().to_owned();
    let Some(agent) = ledger.setup.agents.get(&name) else {
        return executing::not_configured(&name, ledger, reaction);
    };
    let Some(acp) = &agent.config.acp else {
        let message = format!("the agent `{name}` is no ACP agent any more");
        let error = ErrorInfo::new(ErrorCode::ConfigError, message);
        return executing::failed(Some(execution), error, ledger, reaction);
    };
    let access = ledger.setup.access_of_outside(agent);
    let used = OutsideUse { agent: name.clone(), program: acp.program().to_owned(), key: acp.key.clone() };
    if !ledger.outside.contains(&used) {
        ledger.outside.push(used);
    }
    ledger.tree.changing(CHANGES_AS);
    ledger.spend.outside_begins();
    ledger.user.words.read_by(&execution);
    let id = ledger.open.issue(OpenEffect::Outside);
    let prompt = execution.outside_prompt();
    reaction.effects.push(Effect::RunOutsideAgent { id, agent: name, prompt, access });
    FollowUp::working(execution, ExecutionStage::Outside)
}

/// Its program has ended its work.
pub(super) fn ended(
    mut execution: Box<Execution>,
    work: &OutsideWork,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let calls = format!("acp-{}", ledger.task.iteration());
    let result = execution.outside_ended(work, &calls, &mut reaction.notes);
    executing::ended(execution, result, ledger, reaction)
}

/// The process that ran it is gone. It may have changed anything, and is not begun again unasked.
pub(super) fn lost(execution: Box<Execution>, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
    ledger.tree.unreported();
    let message = "Outcome unknown: rawko was interrupted while this agent worked. It may have done its work, in part or \
                   not at all. Look at the files before it is done again.";
    let work = OutsideWork::failed(ErrorInfo::new(ErrorCode::ToolFailure, message));
    ended(execution, &work, ledger, reaction)
}
