//! Conversations that no longer fit the model's context window: made shorter before the next turn is asked, or once
//! when the provider refuses it as too long.
//!
//! How a conversation is made shorter is the agent's (`agent/execution/window.rs`); here it becomes effects and notes.
//! A summary is a model call like any other: its answer is an event, so that a replay and a resumed run come to the
//! same conversation.

use super::{ExecutionStage, FollowUp, ModelCompletion, executing, turn};
use crate::agent::execution::{Execution, PendingSummary, Shortened, Shortening};
use crate::error::{ErrorCode, ErrorInfo};
use crate::message::StopReason;
use crate::note::Note;
use crate::request::{Purpose, ToolChoice};
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;
use crate::session::spend::BudgetRefusal;

/// Makes room in the agent's conversation, then asks the turn. `refusal` is the provider's, if it refused the turn.
pub(super) fn make_room(
    mut execution: Box<Execution>,
    refusal: Option<ErrorInfo>,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    match execution.shorten(ledger.carried.new_conversation()) {
        Shortening::Done(shortened) => {
            report(&execution, shortened, reaction);
            ask_if_it_fits(execution, refusal, ledger, reaction)
        }
        Shortening::Summarize(summary) => ask(execution, summary, ledger, reaction),
        Shortening::Nothing => match refusal {
            Some(error) => executing::failed(Some(execution), error, ledger, reaction),
            None => ask_if_it_fits(execution, None, ledger, reaction),
        },
    }
}

/// The provider refuses the turn as too long: it gets a shorter one, once.
pub(super) fn refused(
    mut execution: Box<Execution>,
    error: ErrorInfo,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    if execution.dialogue.refused_as_too_long() {
        make_room(execution, Some(error), ledger, reaction)
    } else {
        executing::failed(Some(execution), error, ledger, reaction)
    }
}

/// Asks for the summary, or asks again.
pub(super) fn ask(
    execution: Box<Execution>,
    summary: Box<PendingSummary>,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let model = execution.dialogue.summary_model(&summary);
    let purpose = Purpose::Summarize { agent: execution.agent().to_owned() };
    let request = summary.question.request(purpose, &model, ToolChoice::Auto);
    match ledger.call_model(&model, &summary.question, request, None, reaction) {
        Ok(_) => FollowUp::working(execution, ExecutionStage::Summarizing(summary)),
        Err(BudgetRefusal::Run(error)) => executing::failed(Some(execution), error, ledger, reaction),
        Err(BudgetRefusal::Agent(why)) => executing::out_of_budget(execution, why, ledger, reaction),
    }
}

/// The summary takes the place of what it sums up.
pub(super) fn replied(
    mut execution: Box<Execution>,
    summary: &PendingSummary,
    reply: &ModelCompletion<'_>,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let text = match reply.stop_reason {
        StopReason::Refusal => String::new(),
        StopReason::EndTurn
        | StopReason::ToolUse
        | StopReason::MaxTokens
        | StopReason::ContextWindow
        | StopReason::Paused => reply.message.text(),
    };
    let next = ledger.carried.new_conversation();
    let plan = ledger.task.plan_with(&execution);
    execution.record.used(reply.usage);
    match execution.dialogue.sum_up(summary, next, &text, plan.as_ref()) {
        Some(shortened) => {
            report(&execution, shortened, reaction);
            ask_if_it_fits(execution, None, ledger, reaction)
        }
        None => {
            let error = too_long("the model gave no summary of it");
            executing::failed(Some(execution), error, ledger, reaction)
        }
    }
}

/// Another provider may do better, as for a turn.
pub(super) fn failed(
    mut execution: Box<Execution>,
    summary: Box<PendingSummary>,
    error: ErrorInfo,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    if error.code.is_of_provider()
        && let Some(model) = execution.dialogue.switch_model()
    {
        reaction.switched_model(&error, model);
        return ask(execution, summary, ledger, reaction);
    }
    let message = format!(
        "the conversation no longer fits the model's context window, and could not be summed up: {}",
        error.message
    );
    executing::failed(Some(execution), ErrorInfo { message, ..error }, ledger, reaction)
}

fn report(execution: &Execution, shortened: Shortened, reaction: &mut Reaction) {
    let Shortened { how, before, after } = shortened;
    let agent = execution.agent().to_owned();
    reaction.notes.push(Note::ConversationCompacted { agent, how, before, after });
}

/// The conversation is as short as it gets. If it is a close call the provider decides: our count is a guess.
fn ask_if_it_fits(
    execution: Box<Execution>,
    refusal: Option<ErrorInfo>,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    if execution.dialogue.is_hopeless() {
        let error = refusal.unwrap_or_else(|| too_long("nothing more can be taken out of it"));
        return executing::failed(Some(execution), error, ledger, reaction);
    }
    turn::ask(execution, ledger, reaction)
}

fn too_long(why: &str) -> ErrorInfo {
    ErrorInfo::new(
        ErrorCode::ContextLengthExceeded,
        format!("the conversation no longer fits the model's context window, and {why}"),
    )
}
