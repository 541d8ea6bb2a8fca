//! What an execution learned: one question to the extractor behind each execution, and the answer kept as a memory
//! (`spec/memory.md`, "Extraction"). It never fails a run: whatever goes wrong is told, and the run goes on.

use super::effect::Effect;
use super::event::KeptMemory;
use super::note::Note;
use super::run::{Open, Run};
use super::{ConversationLog, Reaction};
use crate::arbiter::{execution_text, summary_of_result};
use crate::error::ErrorInfo;
use crate::machine::{AgentResult, MachineEvent};
use crate::memory::extraction::{question, read_draft, remember_tool, told};
use crate::memory::learned_from;
use crate::message::Message;
use crate::request::{ModelRequest, Purpose, ToolChoice};
use crate::setup::ModelChoice;
use crate::usage::Usage;

/// A question to the extractor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Extraction {
    agent: String,
    model: ModelChoice,
    conversation: ConversationLog,
}

impl Extraction {
    fn purpose(&self) -> Purpose {
        Purpose::Remember { agent: self.agent.clone() }
    }

    pub(super) fn request(&self) -> ModelRequest {
        ModelRequest {
            purpose: self.purpose(),
            model: self.model.model.clone(),
            system: std::sync::Arc::clone(&self.conversation.system),
            stable: self.conversation.stable,
            tools: std::sync::Arc::clone(&self.conversation.tools),
            messages: self.conversation.messages.clone(),
            tool_choice: ToolChoice::Tool { name: crate::memory::extraction::REMEMBER.to_owned() },
            max_tokens: self.model.max_tokens,
            temperature: self.model.temperature,
            extra: self.model.extra.clone(),
        }
    }
}

impl Run {
    /// An execution's result is complete. Before anybody judges it, it is asked what was learned.
    pub(super) fn result_known(&mut self, result: AgentResult, reaction: &mut Reaction) {
        let extract = self.setup.memory.as_ref().and_then(|memory| memory.extract.clone());
        let worked = result.facts.turns > 0;
        let Some(extract) =
            extract.filter(|extract| worked && self.memories.extractor_tokens < extract.max_tokens)
        else {
            return self.feed(MachineEvent::AgentComplete { result }, reaction);
        };
        let context = self.machine.context();
        let agent = context.current_mode.clone();
        let recorded = execution_text(&summary_of_result(context, &result, self.now));
        let text = question(&context.task, &agent, &told(&recorded, &result.output));
        let id = self.new_conversation();
        let mut conversation = ConversationLog::new(id, extract.prompt, [remember_tool()].into());
        conversation.push(Message::user(text));
        self.extraction = Some(Extraction { agent, model: extract.model, conversation });
        self.evidence.hold(result);
        self.ask_extractor(reaction);
    }

    /// Asks the extractor, or asks again.
    pub(super) fn ask_extractor(&mut self, reaction: &mut Reaction) {
        let Some(extraction) = self.extraction.take() else { return };
        let asked = self.call_model(
            extraction.purpose(),
            &extraction.model,
            &extraction.conversation,
            Open::Extraction,
            None,
            reaction,
        );
        self.extraction = Some(extraction);
        if let Err(refusal) = asked {
            self.nothing_learned(&refusal.into_error().message, reaction);
        }
    }

    pub(super) fn extractor_answered(&mut self, message: &Message, usage: Usage, reaction: &mut Reaction) {
        self.memories.extractor_tokens = self.memories.extractor_tokens.saturating_add(usage.total_tokens());
        let Some(extraction) = self.extraction.take() else { return };
        match read_draft(message) {
            Ok(None) => self.go_on_with_result(reaction),
            Ok(Some(draft)) => {
                self.learned = Some((draft, extraction.agent));
                self.remember(reaction);
            }
            Err(problem) => self.nothing_learned(&problem, reaction),
        }
    }

    pub(super) fn extractor_failed(&mut self, error: &ErrorInfo, reaction: &mut Reaction) {
        self.extraction = None;
        self.nothing_learned(&error.message, reaction);
    }

    /// Has the draft kept, or has it kept again: what was written already is known then, and not written twice.
    pub(super) fn remember(&mut self, reaction: &mut Reaction) {
        let Some((draft, agent)) = self.learned.clone() else { return };
        let iteration = self.machine.context().iteration_count;
        let files = self.result_files();
        let id = self.issue(Open::Remembering);
        reaction.effects.push(Effect::Remember { id, agent, iteration, draft: Box::new(draft), files });
    }

    fn result_files(&self) -> Vec<String> {
        let facts = self.evidence.ending().map(|result| &result.facts);
        let Some(facts) = facts else { return Vec::new() };
        let mut files = facts.files_modified.clone();
        files.extend(
            facts.files_accessed.iter().filter(|file| !facts.files_modified.contains(*file)).cloned(),
        );
        files.truncate(20);
        files
    }

    pub(super) fn cited_files(&self) -> Vec<String> {
        let facts = self.evidence.ending().map(|result| &result.facts);
        let Some((facts, (draft, _))) = facts.zip(self.learned.as_ref()) else { return Vec::new() };
        learned_from(draft, &facts.files_modified, &facts.files_accessed)
    }

    pub(super) fn memory_kept(&mut self, kept: &KeptMemory, reaction: &mut Reaction) {
        if let Some((draft, agent)) = self.learned.take() {
            reaction.notes.push(Note::Remembered { agent, title: draft.title, kept: kept.clone() });
        }
        self.go_on_with_result(reaction);
    }

    fn nothing_learned(&mut self, why: &str, reaction: &mut Reaction) {
        let message = format!("nothing was put into the memory of this project: {why}");
        reaction.notes.push(Note::Warned { message });
        self.extraction = None;
        self.go_on_with_result(reaction);
    }

    fn go_on_with_result(&mut self, reaction: &mut Reaction) {
        let Some(result) = self.evidence.release() else { return };
        self.feed(MachineEvent::AgentComplete { result }, reaction);
    }
}
