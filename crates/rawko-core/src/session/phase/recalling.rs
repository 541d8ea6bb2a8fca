//! Memories for an execution: asked for before its conversation begins, put at the end of its system prompt, and judged
//! when the execution is over (`docs/memory.md#injection`).

use super::{FollowUp, RunPhase, executing};
use crate::agent::execution::Execution;
use crate::machine::{ExecutionFacts, ExecutionStatus};
use crate::memory::{MemoryUse, Query, Recalled, UseOutcome};
use crate::note::Note;
use crate::session::answer::OpenEffect;
use crate::session::effect::Effect;
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;

/// An agent that waits for its memories.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Recalling {
    pub(super) agent: String,
}

impl Recalling {
    pub(super) fn ask(self, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        let id = ledger.open.issue(OpenEffect::Recall);
        let agent = self.agent.clone();
        let plan = ledger.task.plan().filter(|plan| !plan.is_complete);
        let step = plan.and_then(|plan| plan.steps.get(plan.current_step_index));
        let step = step.filter(|step| !step.is_settled()).map(|step| step.description.clone());
        let task = Query::bounded_task(&ledger.task.context().task).to_owned();
        reaction.effects.push(Effect::Recall { id, agent, task, step });
        FollowUp::Phase(RunPhase::Recalling(self))
    }

    pub(super) fn recalled(
        self,
        recalled: &Recalled,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        let Self { agent } = self;
        if !ledger.setup.agents.contains_key(&agent) {
            return executing::not_configured(&agent, ledger, reaction);
        }
        for problem in &recalled.problems {
            reaction.warn(problem.as_str());
        }
        if !recalled.memories.is_empty() {
            let (iteration, memories) = (ledger.task.iteration(), recalled.memories.clone());
            let unmet = recalled.unmet;
            reaction.notes.push(Note::MemoriesRecalled { agent: agent.clone(), iteration, memories, unmet });
        }
        executing::begin_conversation(&agent, recalled, ledger, reaction)
    }
}

impl Ledger {
    /// Judges the memories of the execution that has just gone into the history.
    pub(in crate::session) fn judge_memories(
        &mut self,
        execution: Option<&Execution>,
        reaction: &mut Reaction,
    ) {
        let (Some(entry), Some(execution)) = (self.task.context().history.last(), execution) else {
            return;
        };
        let memories = execution.memories();
        // If no model was asked, the memories were not read.
        if memories.is_empty() || entry.facts.turns == 0 {
            return;
        }
        let outcome = match entry.result {
            ExecutionStatus::Success => UseOutcome::Success,
            ExecutionStatus::Failure | ExecutionStatus::Timeout => UseOutcome::Failure,
            ExecutionStatus::Cancelled => UseOutcome::Unknown,
        };
        let ExecutionFacts { files_accessed, files_modified, .. } = &entry.facts;
        let words = execution.dialogue.words();
        let words = format!("{words}\n{}", entry.output.as_deref().unwrap_or_default());
        let uses = memories.iter().map(|memory| MemoryUse {
            path: memory.path.clone(),
            cited: memory.is_cited_in(&words),
            touched: memory.is_touched_by(files_accessed.iter().chain(files_modified)),
            outcome,
        });
        let note = Note::MemoriesUsed {
            agent: entry.agent.clone(),
            iteration: entry.iteration,
            uses: uses.collect(),
        };
        reaction.notes.push(note);
    }
}
