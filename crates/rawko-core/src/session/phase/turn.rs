//! One turn of an agent: asks its model, and judges its tool calls.

use super::{ExecutionStage, FollowUp, ModelCompletion, executing, summarizing};
use crate::agent::Ask;
use crate::agent::execution::{Execution, Judgement};
use crate::error::{ErrorCode, ErrorInfo};
use crate::message::ToolCall;
use crate::policy::{self, CallContext, Permission};
use crate::request::Purpose;
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;
use crate::session::spend::BudgetRefusal;
use crate::setup::{AgentSetup, Setup};

/// Asks the agent's model; a conversation that no longer fits is made shorter before.
pub(super) fn start(execution: Box<Execution>, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
    if execution.dialogue.is_too_long() {
        return summarizing::make_room(execution, None, ledger, reaction);
    }
    ask(execution, ledger, reaction)
}

/// Asks the agent's model with the current conversation.
pub(super) fn ask(execution: Box<Execution>, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
    let dialogue = &execution.dialogue;
    let request = dialogue.request(Purpose::Agent { name: execution.agent().to_owned() });
    match ledger.call_model(dialogue.model(), dialogue.log(), request, None, reaction) {
        Ok(_) => {
            ledger.user.words.read_by(&execution);
            FollowUp::working(execution, ExecutionStage::Turn)
        }
        Err(BudgetRefusal::Run(error)) => executing::failed(Some(execution), error, ledger, reaction),
        Err(BudgetRefusal::Agent(why)) => executing::out_of_budget(execution, why, ledger, reaction),
    }
}

/// The model answered: its tool calls are judged.
pub(super) fn replied(
    mut execution: Box<Execution>,
    reply: &ModelCompletion<'_>,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let agent = ledger.setup.agents.get(execution.agent());
    let asks = ledger.asks_for(execution.agent(), Ask::Commands);
    let judge = |call: &ToolCall| judge(agent, &ledger.setup, asks, call);
    let step = execution.replied(
        reply.message.clone(),
        reply.usage,
        reply.stop_reason,
        ledger.task.plan(),
        judge,
        &mut reaction.notes,
    );
    ledger.watch_refused(&mut execution);
    executing::follow(execution, step, ledger, reaction)
}

/// Another provider may do better; if there is none, the execution is over.
pub(super) fn failed(
    mut execution: Box<Execution>,
    error: ErrorInfo,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    if error.code == ErrorCode::ContextLengthExceeded {
        return summarizing::refused(execution, error, ledger, reaction);
    }
    if error.code.is_of_provider()
        && let Some(model) = execution.dialogue.switch_model()
    {
        reaction.switched_model(&error, model);
        return start(execution, ledger, reaction);
    }
    executing::failed(Some(execution), error, ledger, reaction)
}

/// Asks the policy whether `agent` may make `call`. `asks` says whether a person is asked for commands on no list.
fn judge(agent: Option<&AgentSetup>, setup: &Setup, asks: bool, call: &ToolCall) -> Judgement {
    let Some(agent) = agent else {
        return Judgement::Denied {
            rule: "agent".to_owned(),
            message: "This agent is not configured any more; end with `Report`.".to_owned(),
            would_allow: None,
            code: ErrorCode::ConfigError,
        };
    };
    if let Some(what) = &call.withheld {
        return Judgement::Denied {
            rule: "secrets".to_owned(),
            message: withheld(what),
            would_allow: None,
            code: ErrorCode::PermissionError,
        };
    }
    if call.name == policy::TOOL_SEARCH
        && let Some(outcome) = policy::search_tools(&agent.config, &setup.tools, &call.input)
    {
        return Judgement::Answered { rule: policy::TOOL_SEARCH.to_owned(), outcome: Box::new(outcome) };
    }
    let known: Vec<&str> = setup.tools.iter().map(|tool| tool.name.as_str()).collect();
    let access = setup.tools.iter().find(|tool| tool.name == call.name).map(|tool| tool.access);
    let context = CallContext { project: &setup.place.directory, is_confined: agent.confined };
    match (policy::call_permission(&agent.config, &agent.permissions, context, call, &known), access) {
        (Permission::Allowed { rule }, Some(access)) => Judgement::Allowed { rule, access },
        (Permission::Allowed { rule }, None) => Judgement::Denied {
            rule,
            message: format!("There is no tool `{}`.", call.name),
            would_allow: None,
            code: ErrorCode::ToolFailure,
        },
        (Permission::Denied { rule, message, would_allow, unlisted: true }, Some(access)) if asks => {
            Judgement::Unlisted { rule, message, would_allow, access }
        }
        (Permission::Denied { rule, message, would_allow, unlisted: _ }, _) => {
            Judgement::Denied { rule, message, would_allow, code: ErrorCode::PermissionError }
        }
    }
}

/// The answer to a call whose arguments held a secret. Without the secret it would be another call.
fn withheld(what: &str) -> String {
    format!(
        "Not done: {what}, and rawko does not pass secrets on to tools or files. Nothing was run or written. Have the \
         program read the secret from its environment or from a file that the user provides, and leave it out of the call."
    )
}
