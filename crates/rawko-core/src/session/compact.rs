//! Conversations that no longer fit the model's context window: made shorter before the next turn is asked, or once
//! when the provider refuses it as too long.
//!
//! How a conversation is made shorter is the agent's (`agent/execution/window.rs`); here it becomes effects and notes.
//! A summary is a model call like any other: its answer is an event, so that a replay and a resumed run come to the
//! same conversation.

use super::Reaction;
use super::budget::Refusal;
use super::note::Note;
use super::question::switched;
use super::run::{Open, Run};
use crate::agent::execution::{Execution, Shortened, Shortening};
use crate::error::{ErrorCode, ErrorInfo};
use crate::message::{Message, StopReason};
use crate::usage::Usage;

impl Run {
    /// Makes room in the agent's conversation, then asks the turn. `refusal` is the provider's, if it refused it.
    pub(super) fn make_room(&mut self, refusal: Option<ErrorInfo>, reaction: &mut Reaction) {
        let next = self.new_conversation();
        let Some(execution) = self.execution.as_mut() else { return };
        match execution.shorten(next) {
            Shortening::Done(shortened) => {
                self.shortened(shortened, reaction);
                self.ask_if_it_fits(refusal, reaction);
            }
            Shortening::Summarize => self.ask_summary(reaction),
            Shortening::Nothing => match refusal {
                Some(error) => self.execution_failed(error, reaction),
                None => self.ask_if_it_fits(None, reaction),
            },
        }
    }

    /// The provider refuses the turn as too long: it gets a shorter one, once.
    pub(super) fn refused_as_too_long(&mut self, error: ErrorInfo, reaction: &mut Reaction) {
        match self.execution.as_mut().map(Execution::refused_as_too_long) {
            Some(true) => self.make_room(Some(error), reaction),
            Some(false) | None => self.execution_failed(error, reaction),
        }
    }

    /// Asks for the summary, or asks again.
    pub(super) fn ask_summary(&mut self, reaction: &mut Reaction) {
        let Some(execution) = self.execution.take() else { return };
        let asked = execution.summary_question().map(|(question, choice)| {
            self.call_model(execution.purpose(), &choice, question, Open::Summary, None, reaction)
        });
        self.execution = Some(execution);
        match asked {
            Some(Ok(_)) | None => {}
            Some(Err(Refusal::Run(error))) => self.execution_failed(error, reaction),
            Some(Err(Refusal::Agent(why))) => self.agent_stopped(why, reaction),
        }
    }

    pub(super) fn summary_answered(
        &mut self,
        message: &Message,
        usage: Usage,
        stop_reason: StopReason,
        reaction: &mut Reaction,
    ) {
        let next = self.new_conversation();
        let plan = self.plan_of_execution();
        let Some(execution) = self.execution.as_mut() else { return };
        let text = match stop_reason {
            StopReason::Refusal => String::new(),
            StopReason::EndTurn | StopReason::ToolUse | StopReason::MaxTokens | StopReason::ContextWindow => {
                message.text()
            }
        };
        match execution.sum_up(next, &text, usage, plan.as_ref()) {
            Some(shortened) => {
                self.shortened(shortened, reaction);
                self.ask_if_it_fits(None, reaction);
            }
            None => self.execution_failed(too_long("the model gave no summary of it"), reaction),
        }
    }

    /// Another provider may do better, as for a turn.
    pub(super) fn summary_failed(&mut self, error: ErrorInfo, reaction: &mut Reaction) {
        let Some(execution) = self.execution.as_mut() else { return };
        if error.code.is_of_provider()
            && let Some(model) = execution.switch_model()
        {
            reaction.notes.push(switched(&error, model));
            return self.ask_summary(reaction);
        }
        execution.give_summary_up();
        let message = format!(
            "the conversation no longer fits the model's context window, and could not be summed up: {}",
            error.message
        );
        self.execution_failed(ErrorInfo { message, ..error }, reaction);
    }

    fn shortened(&self, shortened: Shortened, reaction: &mut Reaction) {
        let Shortened { how, before, after } = shortened;
        let agent = self.execution.as_ref().map(|execution| execution.agent().to_owned());
        reaction.notes.push(Note::Compacted { agent: agent.unwrap_or_default(), how, before, after });
    }

    /// All that could be done is done. Where it is close the provider decides: our count is a guess.
    fn ask_if_it_fits(&mut self, refusal: Option<ErrorInfo>, reaction: &mut Reaction) {
        if self.execution.as_ref().is_some_and(Execution::is_hopeless) {
            let error = refusal.unwrap_or_else(|| too_long("nothing more can be taken out of it"));
            return self.execution_failed(error, reaction);
        }
        self.ask_turn(reaction);
    }
}

fn too_long(why: &str) -> ErrorInfo {
    ErrorInfo::new(
        ErrorCode::ContextLengthExceeded,
        format!("the conversation no longer fits the model's context window, and {why}"),
    )
}
