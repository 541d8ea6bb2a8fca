//! Before an execution first changes anything, the tree is saved; the tool calls of the turn wait for that.

use super::tools::Tools;
use super::{Next, Phase};
use crate::agent::execution::{AllowedCall, Execution};
use crate::note::Note;
use crate::session::Reaction;
use crate::session::effect::Effect;
use crate::session::ledger::Ledger;
use crate::session::open_effects::OpenEffect;
use crate::tool::ToolAccess;

/// An agent whose tool calls wait until the tree is saved.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Checkpointing {
    pub(super) execution: Box<Execution>,
    pub(super) calls: Vec<AllowedCall>,
}

impl Checkpointing {
    /// Whether the tree must be saved before `calls` run.
    pub(super) fn is_due(calls: &[AllowedCall], ledger: &Ledger) -> bool {
        let changes = calls.iter().any(|call| call.access == ToolAccess::Mutating);
        changes && ledger.setup.checkpoints && ledger.tree.checkpoint_tried < ledger.iteration()
    }

    pub(super) fn ask(self, ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        let id = ledger.open.issue(OpenEffect::Checkpoint);
        reaction.effects.push(Effect::TakeCheckpoint { id, iteration: ledger.iteration() });
        Next::Phase(Phase::Checkpointing(self))
    }

    pub(super) fn taken(self, checkpoint: &str, ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        let iteration = ledger.iteration();
        ledger.tree.checkpoint_taken = iteration;
        reaction.notes.push(Note::CheckpointTaken { iteration, checkpoint: checkpoint.to_owned() });
        self.run_calls(ledger, reaction)
    }

    pub(super) fn failed(self, message: &str, ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        reaction.warn(format!(
            "the tree could not be kept before this change, `rewind` cannot undo it: {message}"
        ));
        self.run_calls(ledger, reaction)
    }

    fn run_calls(self, ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        ledger.tree.checkpoint_tried = ledger.iteration();
        Tools::start(self.execution, self.calls, ledger, reaction)
    }
}
