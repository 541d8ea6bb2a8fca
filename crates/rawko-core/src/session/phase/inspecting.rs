//! After an execution that may have changed the tree, the tree is compared with the checkpoints.

use super::learning::Learning;
use super::{Next, Phase};
use crate::agent::execution::Execution;
use crate::facts::TreeInspection;
use crate::machine::AgentResult;
use crate::session::Reaction;
use crate::session::effect::Effect;
use crate::session::ledger::Ledger;
use crate::session::open_effects::OpenEffect;

/// An execution that is over, and whose changes are not known yet.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Inspecting {
    pub(super) execution: Box<Execution>,
    pub(super) result: AgentResult,
}

impl Inspecting {
    pub(super) fn ask(self: Box<Self>, ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        let id = ledger.open.issue(OpenEffect::Inspection);
        reaction.effects.push(Effect::InspectTree { id, iteration: ledger.iteration() });
        Next::Phase(Phase::Inspecting(self))
    }

    pub(super) fn inspected(
        self: Box<Self>,
        inspection: &TreeInspection,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> Next {
        let Self { execution, mut result } = *self;
        result.facts.diff = Some(inspection.execution.clone());
        // What commands changed, beside what tools reported.
        let files = &mut result.facts.files_modified;
        let unreported: Vec<String> =
            inspection.execution_files.iter().filter(|file| !files.contains(file)).cloned().collect();
        files.extend(unreported);
        ledger.detector.tree_is(inspection);
        ledger.tree.inspected(inspection);
        Learning::start(execution, result, ledger, reaction)
    }

    pub(super) fn failed(
        self: Box<Self>,
        message: &str,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> Next {
        reaction.warn(format!(
            "the tree could not be looked at, so the arbiter is not told how it changed: {message}"
        ));
        Learning::start(self.execution, self.result, ledger, reaction)
    }
}
