//! Has the tree saved before an execution first changes anything; the tool calls of the turn wait for that.

use super::{ExecutionStage, FollowUp, outside, tools};
use crate::agent::execution::{AllowedCall, Execution};
use crate::note::Note;
use crate::session::answer::OpenEffect;
use crate::session::effect::Effect;
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;
use crate::tool::ToolAccess;

/// Whether the tree must be saved before `calls` run.
pub(super) fn is_due(calls: &[AllowedCall], ledger: &Ledger) -> bool {
    let changes = calls.iter().any(|call| call.permit.access == ToolAccess::Mutating);
    changes && ledger.setup.checkpoints && ledger.tree.checkpoint_tried < ledger.task.iteration()
}

/// Has the tree saved before `calls` run, or saved again.
pub(super) fn ask(
    execution: Box<Execution>,
    calls: Vec<AllowedCall>,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let id = ledger.open.issue(OpenEffect::Checkpoint);
    reaction.effects.push(Effect::TakeCheckpoint { id, iteration: ledger.task.iteration() });
    FollowUp::working(execution, ExecutionStage::Checkpointing(calls))
}

/// The tree was saved, or could not be: the calls run.
pub(super) fn answered(
    execution: Box<Execution>,
    calls: Vec<AllowedCall>,
    checkpoint: Result<&str, &str>,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let iteration = ledger.task.iteration();
    match checkpoint {
        Ok(checkpoint) => {
            ledger.tree.checkpoint_taken = iteration;
            reaction.notes.push(Note::CheckpointTaken { iteration, checkpoint: checkpoint.to_owned() });
        }
        Err(message) => reaction.warn(format!(
            "the tree could not be kept before this change, `rewind` cannot undo it: {message}"
        )),
    }
    ledger.tree.checkpoint_tried = iteration;
    if execution.is_outside() {
        return outside::run(execution, ledger, reaction);
    }
    tools::start(execution, calls, ledger, reaction)
}
