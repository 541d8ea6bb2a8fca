//! Memories for an execution: asked for before its conversation begins, put at the end of its system prompt, and
//! looked at again when it is over (`spec/memory.md`, "Injection" and "feedback").

use super::Reaction;
use super::effect::Effect;
use super::note::Note;
use super::run::{Open, Run};
use crate::machine::{ExecutionFacts, ExecutionStatus};
use crate::memory::{MemoryUse, Recalled, RecalledMemory, UseOutcome, UseRule};
use crate::text::truncate;

/// Executions of which something is told to the search.
const RECENT: usize = 3;
/// Characters of each.
const OUTPUT_CHARS: usize = 500;

/// What the run knows of memories.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Memories {
    /// Who waits for its memories before it begins.
    pub(super) awaited_by: Option<String>,
    /// What the execution at work was given.
    given: Vec<RecalledMemory>,
    /// By which rule it is judged what becomes of that.
    rule: UseRule,
    /// Tokens that the extractor has used.
    pub(super) extractor_tokens: u64,
}

impl Run {
    /// Whether the agent's memories have to be found before it begins.
    pub(super) fn recalls(&self) -> bool {
        self.setup.memory.as_ref().is_some_and(|memory| memory.inject)
    }

    /// Asks for the agent's memories, or asks again.
    pub(super) fn recall(&mut self, reaction: &mut Reaction) {
        let Some(agent) = self.memories.awaited_by.clone() else { return };
        // What another execution was given is not this one's, should it end before it is given anything.
        self.memories.given.clear();
        let context = self.machine.context();
        let plan = self.effective_plan().map(|plan| {
            plan.steps.iter().map(|step| step.description.as_str()).collect::<Vec<_>>().join("\n")
        });
        let recent = context.history.iter().rev().take(RECENT).rev();
        let told = recent.map(|entry| {
            let output = truncate(entry.output.as_deref().unwrap_or_default(), OUTPUT_CHARS);
            format!("{}: {output}", entry.agent)
        });
        let history = told.collect::<Vec<_>>().join("\n");
        let id = self.issue(Open::Recall);
        let history = Some(history).filter(|text| !text.is_empty());
        reaction.effects.push(Effect::Recall { id, agent, plan, history });
    }

    pub(super) fn recalled(&mut self, recalled: &Recalled, reaction: &mut Reaction) {
        let Some(agent) = self.memories.awaited_by.take() else { return };
        if !self.setup.agents.contains_key(&agent) {
            return self.not_configured(&agent, reaction);
        }
        for problem in &recalled.problems {
            reaction.notes.push(Note::Warned { message: problem.clone() });
        }
        let iteration = self.machine.context().iteration_count;
        if !recalled.memories.is_empty() {
            let memories = recalled.memories.clone();
            reaction.notes.push(Note::MemoriesInjected { agent: agent.clone(), iteration, memories });
        }
        self.memories.given.clone_from(&recalled.memories);
        self.memories.rule = recalled.use_rule;
        self.begin_conversation(&agent, &recalled.block, reaction);
    }

    /// An execution is over: what became of its memories.
    pub(super) fn memories_used(&mut self, reaction: &mut Reaction) {
        if self.memories.given.is_empty() {
            return;
        }
        let Some(entry) = self.machine.context().history.last() else { return };
        let rule = self.memories.rule;
        // No model was asked, so nobody read them: its budget was used up, it is not configured any more, or what was given was given to
        // the execution before.
        if rule != UseRule::Substrings && entry.facts.turns == 0 {
            return;
        }
        let outcome = match entry.result {
            ExecutionStatus::Success => UseOutcome::Success,
            ExecutionStatus::Failure | ExecutionStatus::Timeout => UseOutcome::Failure,
            ExecutionStatus::Cancelled => UseOutcome::Unknown,
        };
        let ExecutionFacts { files_accessed, files_modified, .. } = &entry.facts;
        let said = self.execution.as_ref().map(crate::agent::execution::Execution::said).unwrap_or_default();
        let said = format!("{said}\n{}", entry.output.as_deref().unwrap_or_default());
        let uses = self.memories.given.iter().map(|memory| MemoryUse {
            path: memory.path.clone(),
            cited: memory.is_cited_in(&said, rule),
            touched: memory.is_touched_by(files_accessed.iter().chain(files_modified), rule),
            outcome,
        });
        let note = Note::MemoriesUsed {
            agent: entry.agent.clone(),
            iteration: entry.iteration,
            uses: uses.collect(),
            rule,
        };
        reaction.notes.push(note);
    }
}
