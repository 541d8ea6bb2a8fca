//! Learns from an execution: one question to the extractor after each execution, and the answer kept as a memory
//! (`docs/memory.md#extraction`). It never fails a run: whatever goes wrong is reported, and the run goes on.

use super::{ExecutionStage, FollowUp, ModelCompletion};
use crate::agent::execution::Execution;
use crate::arbiter::{execution_text, summary_of_result};
use crate::conversation::ConversationLog;
use crate::machine::{AgentResult, ExecutionFacts, MachineEvent};
use crate::memory::extraction::{REMEMBER, question, read_draft, recorded_and_claimed, remember_tool};
use crate::memory::{Draft, learned_from};
use crate::message::Message;
use crate::note::Note;
use crate::request::{Purpose, ToolChoice};
use crate::session::answer::OpenEffect;
use crate::session::effect::Effect;
use crate::session::ledger::Ledger;
use crate::session::{KeptMemory, Reaction};
use crate::setup::ModelChoice;

/// The result of an execution of which a memory may be kept.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Learning {
    result: AgentResult,
    agent: String,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq)]
enum Stage {
    /// The extractor is asked what was learned.
    Asking { model: Box<ModelChoice>, conversation: ConversationLog },
    /// The extractor's draft is kept as a memory.
    Keeping(Draft),
}

impl Learning {
    /// Asks the extractor, or ends the execution if there is none or its budget is used up.
    pub(super) fn start(
        execution: Box<Execution>,
        result: AgentResult,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        let extract = ledger.setup.memory.as_ref().and_then(|memory| memory.extract.clone());
        let has_worked = result.facts.turns > 0;
        let Some(extract) =
            extract.filter(|extract| has_worked && ledger.spend.extractor_tokens() < extract.max_tokens)
        else {
            return complete(execution, result);
        };
        let context = ledger.task.context();
        let agent = context.current_mode.clone();
        let recorded = execution_text(&summary_of_result(context, &result, ledger.now));
        let text = question(&context.task, &agent, &recorded_and_claimed(&recorded, &result.output));
        let id = ledger.carried.new_conversation();
        let mut conversation = ConversationLog::new(id, extract.prompt, [remember_tool()].into());
        conversation.push(Message::user(text));
        let stage = Stage::Asking { model: Box::new(extract.model), conversation };
        Box::new(Self { result, agent, stage }).ask(execution, ledger, reaction)
    }

    /// Issues the effect of the stage, or issues it again. A memory that was written already is recognized, not written
    /// twice.
    pub(super) fn ask(
        self: Box<Self>,
        execution: Box<Execution>,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        match &self.stage {
            Stage::Asking { model, conversation } => {
                let purpose = Purpose::Remember { agent: self.agent.clone() };
                let tool_choice = ToolChoice::Tool { name: REMEMBER.to_owned() };
                let request = conversation.request(purpose, model, tool_choice);
                if let Err(refusal) = ledger.call_model(model, conversation, request, None, reaction) {
                    return self.nothing_learned(execution, &refusal.into_error().message, reaction);
                }
            }
            Stage::Keeping(draft) => {
                let id = ledger.open.issue(OpenEffect::Remember);
                let ExecutionFacts { files_modified, files_accessed, .. } = &self.result.facts;
                let files = learned_from(draft, files_modified, files_accessed);
                reaction.effects.push(Effect::Remember {
                    id,
                    agent: self.agent.clone(),
                    iteration: ledger.task.iteration(),
                    draft: Box::new(draft.clone()),
                    files,
                });
            }
        }
        FollowUp::working(execution, ExecutionStage::Learning(self))
    }

    pub(super) fn replied(
        self: Box<Self>,
        execution: Box<Execution>,
        reply: &ModelCompletion<'_>,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        ledger.spend.extractor_used(reply.usage);
        match read_draft(reply.message) {
            Ok(None) => complete(execution, self.result),
            Ok(Some(draft)) => {
                Box::new(Self { stage: Stage::Keeping(draft), ..*self }).ask(execution, ledger, reaction)
            }
            Err(problem) => self.nothing_learned(execution, &problem, reaction),
        }
    }

    pub(super) fn kept(
        self: Box<Self>,
        execution: Box<Execution>,
        kept: &KeptMemory,
        reaction: &mut Reaction,
    ) -> FollowUp {
        if let Stage::Keeping(draft) = self.stage {
            reaction.notes.push(Note::MemoryKept {
                agent: self.agent,
                title: draft.title,
                kept: kept.clone(),
            });
        }
        complete(execution, self.result)
    }

    /// The extractor gave nothing that can be kept. A memory is not worth a wait, nor another try.
    pub(super) fn nothing_learned(
        self: Box<Self>,
        execution: Box<Execution>,
        why: &str,
        reaction: &mut Reaction,
    ) -> FollowUp {
        reaction.warn(format!("nothing was put into the memory of this project: {why}"));
        complete(execution, self.result)
    }
}

fn complete(execution: Box<Execution>, result: AgentResult) -> FollowUp {
    FollowUp::Ended { event: MachineEvent::AgentComplete { result }, execution: Some(execution) }
}
