//! Has the tree compared with the checkpoints after an execution that may have changed it.

use super::learning::Learning;
use super::{ExecutionStage, FollowUp};
use crate::agent::execution::Execution;
use crate::facts::TreeInspection;
use crate::machine::AgentResult;
use crate::session::answer::OpenEffect;
use crate::session::effect::Effect;
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;

/// Has the tree compared, or compared again.
pub(super) fn ask(
    execution: Box<Execution>,
    result: Box<AgentResult>,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let id = ledger.open.issue(OpenEffect::Inspection);
    reaction.effects.push(Effect::InspectTree { id, iteration: ledger.task.iteration() });
    FollowUp::working(execution, ExecutionStage::Inspecting(result))
}

/// The tree was compared.
pub(super) fn inspected(
    execution: Box<Execution>,
    mut result: Box<AgentResult>,
    inspection: &TreeInspection,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    result.facts.diff = Some(inspection.execution.clone());
    // What commands changed, beside what tools reported.
    let files = &mut result.facts.files_modified;
    let unreported: Vec<String> =
        inspection.execution_files.iter().filter(|file| !files.contains(file)).cloned().collect();
    files.extend(unreported);
    ledger.detector.tree_is(inspection);
    ledger.tree.inspected(inspection);
    Learning::start(execution, *result, ledger, reaction)
}

/// The tree could not be compared.
pub(super) fn failed(
    execution: Box<Execution>,
    result: AgentResult,
    message: &str,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    reaction.warn(format!(
        "the tree could not be looked at, so the arbiter does not know how it changed: {message}"
    ));
    Learning::start(execution, result, ledger, reaction)
}
