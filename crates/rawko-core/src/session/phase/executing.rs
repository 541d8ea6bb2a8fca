//! How an execution begins, continues between its phases, and ends.

use super::approving::Approving;
use super::learning::Learning;
use super::recalling::Recalling;
use super::{ExecutionStage, FollowUp, checkpointing, hooks, inspecting, outside, summarizing, tools, turn};
use crate::agent::execution::{Execution, ExecutionStep};
use crate::agent::{outside_system_prompt, prompt};
use crate::attachment;
use crate::conversation::ConversationLog;
use crate::error::{ErrorCode, ErrorInfo};
use crate::hook::HookEvent;
use crate::machine::{AgentResult, Conversation, ExecutionEnd, MachineEvent};
use crate::memory::Recalled;
use crate::note::Note;
use crate::session::effect::TimerPurpose;
use crate::session::ledger::Ledger;
use crate::session::loop_detector::Alarm;
use crate::session::reaction::Reaction;
use crate::setup::AgentSetup;

/// The agent `name` begins, or continues the conversation of `previous`.
pub(in crate::session) fn start(
    name: &str,
    conversation: Conversation,
    mut previous: Option<Box<Execution>>,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let Some(agent) = ledger.setup.agents.get(name).cloned() else {
        return not_configured(name, ledger, reaction);
    };
    let last = ledger.task.context().history.last();
    let before = last.map(|entry| entry.agent.clone()).unwrap_or_default();
    if let Err(error) = ledger.begins(&before, name) {
        return failed(None, error, ledger, reaction);
    }
    // An outside agent has no conversation to go on with: its program ended with its work.
    let is_outside = agent.config.acp.is_some();
    let continued = previous.take_if(|execution| {
        !is_outside
            && conversation == Conversation::Same
            && execution.agent() == name
            && execution.dialogue.can_resume()
    });
    if let Some(execution) = previous {
        ledger.carried.keep(execution);
    }
    if let Some(mut execution) = continued {
        let mut words = prompt::continuation(ledger.task.plan(), ledger.task.last_reason());
        words.push_str(&prompt::checks(&agent, &ledger.task.facts));
        words.push_str(&prompt::said_before(ledger.user.words.since(execution.inbox.delivered())));
        execution.resume(agent.config.max_turns(), words, []);
        return begin_work(execution, &agent, true, ledger, reaction);
    }
    if let Some(mut execution) = ledger.carried_conversation(name).filter(|_| !is_outside) {
        let (context, tasks) = (ledger.task.context(), ledger.carried.tasks.as_slice());
        let before = ledger.task.handed_over();
        let mut words =
            prompt::next_task(&context.task, tasks, ledger.task.plan(), &before, ledger.task.last_reason());
        words.push_str(&prompt::checks(&agent, &ledger.task.facts));
        words.push_str(&prompt::said_before(ledger.user.words.all()));
        let given = &ledger.setup.attachments;
        words.push_str(&attachment::section(given));
        words.push_str(&prompt::hooks(&ledger.task.hooks.context));
        execution.resume(agent.config.max_turns(), words, attachment::pictures(given));
        return begin_work(execution, &agent, true, ledger, reaction);
    }
    if ledger.setup.memory.as_ref().is_some_and(|memory| memory.inject) {
        return Recalling { agent: name.to_owned() }.ask(ledger, reaction);
    }
    begin_conversation(name, &Recalled::default(), ledger, reaction)
}

/// The agent begins a new conversation; its memories come last in the system prompt, after all that is stable.
pub(super) fn begin_conversation(
    name: &str,
    recalled: &Recalled,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let Some(agent) = ledger.setup.agents.get(name).cloned() else {
        return not_configured(name, ledger, reaction);
    };
    let context = ledger.task.context();
    let before = ledger.task.handed_over();
    let mut opening = prompt::opening(&context.task, ledger.task.plan(), &before, ledger.task.last_reason());
    opening.push_str(&prompt::checks(&agent, &ledger.task.facts));
    opening.push_str(&prompt::change(&agent, ledger.tree.patch()));
    opening.push_str(&attachment::section(&ledger.setup.attachments));
    opening.push_str(&prompt::hooks(&ledger.task.hooks.context));
    opening.push_str(&prompt::earlier_tasks(&ledger.carried.tasks));
    for words in ledger.carried.take_lost_jobs(name) {
        opening.push_str(&format!("\n{words}\n"));
    }
    if let Some(work) = &ledger.carried.lost_work {
        opening.push_str(&format!("\n# Lost work\n{}\n", work.text()));
    }
    opening.push_str(&prompt::said_before(ledger.user.words.all()));
    let agent = AgentSetup { model: ledger.setup.permitted(&agent.model, &agent), ..agent };
    let (stable, tools) = if agent.config.acp.is_some() {
        (outside_system_prompt(&agent, &ledger.setup.place), Vec::new())
    } else {
        (prompt::system_prompt(&agent, &ledger.setup.place), ledger.setup.tools_of(&agent))
    };
    let id = ledger.carried.new_conversation();
    let log = ConversationLog::with_own_ending(id, stable, &prompt::memories(&recalled.block), tools.into());
    let alternatives = ledger.setup.alternatives(&agent.model);
    let alternatives = alternatives.iter().map(|other| ledger.setup.permitted(other, &agent)).collect();
    let pictures = attachment::pictures(&ledger.setup.attachments);
    let execution = Execution::start(&agent, alternatives, log, opening, pictures);
    let execution = Box::new(execution.with_memories(recalled.memories.clone()));
    begin_work(execution, &agent, false, ledger, reaction)
}

/// The agent, which has got what it needs, begins to work.
fn begin_work(
    mut execution: Box<Execution>,
    agent: &AgentSetup,
    continued: bool,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let name = agent.config.name.clone();
    execution.inbox.set_delivered(ledger.user.words.all().len());
    // Its conversation names them anyway.
    let _ = ledger.carried.take_lost_jobs(&name);
    let iteration = ledger.task.iteration();
    reaction.notes.push(Note::AgentStarted { agent: name.clone(), iteration, continued });
    if let Some(why) = ledger.barred_by_budget(&name) {
        return out_of_budget(execution, why, ledger, reaction);
    }
    ledger.start_work_timer(&name, reaction);
    if let Some(after_ms) = agent.config.longest_execution() {
        ledger.start_timer(TimerPurpose::ExecutionDeadline, after_ms, reaction);
    }
    if execution.is_outside() {
        return outside::start(execution, ledger, reaction);
    }
    turn::start(execution, ledger, reaction)
}

/// Performs the next step of the agent loop.
pub(super) fn follow(
    mut execution: Box<Execution>,
    step: ExecutionStep,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    if step == ExecutionStep::Ask {
        ledger.watch_plan(&execution);
        ledger.watch_progress(&mut execution);
    }
    match step {
        ExecutionStep::Ask if ledger.detector.pending_alarm() >= Alarm::Check => {
            stop_circling(execution, ledger, reaction)
        }
        ExecutionStep::Ask => turn::start(execution, ledger, reaction),
        ExecutionStep::Wait => FollowUp::working(execution, ExecutionStage::Tools),
        ExecutionStep::Approve(slot) => Approving::start(execution, slot, ledger, reaction),
        ExecutionStep::Run(calls) if checkpointing::is_due(&calls, ledger) => {
            checkpointing::ask(execution, calls, ledger, reaction)
        }
        ExecutionStep::Run(calls) => tools::start(execution, calls, ledger, reaction),
        ExecutionStep::End(result) => ended(execution, *result, ledger, reaction),
        ExecutionStep::TooLong(error) => summarizing::refused(execution, error, ledger, reaction),
    }
}

/// Ends an execution that repeats itself, now that its turn is over.
fn stop_circling(mut execution: Box<Execution>, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
    if ledger.detector.pending_alarm() == Alarm::Stop || ledger.task.fails_for_good() {
        let error = ledger.stalled();
        return failed(Some(execution), error, ledger, reaction);
    }
    let circle = ledger.circle();
    reaction.warn(format!("the agent was stopped: {circle}"));
    let result = execution.stop(ExecutionEnd::Stalled, format!("Stopped: {circle}."));
    ended(execution, result, ledger, reaction)
}

/// The machine only names known agents, but a reload may have removed one since.
pub(super) fn not_configured(name: &str, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
    let message = format!("the agent `{name}` is not configured any more");
    failed(None, ErrorInfo::new(ErrorCode::ConfigError, message), ledger, reaction)
}

/// The agent has used up its budget: its execution ends, and its result counts.
pub(super) fn out_of_budget(
    mut execution: Box<Execution>,
    why: String,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let result = execution.out_of_budget(&why);
    ledger.spend.bar_agent(execution.agent(), why);
    ended(execution, result, ledger, reaction)
}

/// An execution is over. Its hooks are asked, if there are any, before anything else looks at it.
pub(super) fn ended(
    mut execution: Box<Execution>,
    mut result: AgentResult,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let consumed = ledger.abandon_phase(reaction);
    execution.record.used(consumed);
    execution.inbox.drop_messages();
    ledger.task.hand_over_draft(&mut result);
    if !result.success {
        let attempts = ledger.task.failures_of(execution.agent()) + 1;
        result.error = Some(execution.record.failure(&result.output).after(attempts));
    }
    if ledger.has_hooks(HookEvent::SubagentStop) {
        return hooks::ask_after_execution(execution, Box::new(result), ledger, reaction);
    }
    settle(execution, result, ledger, reaction)
}

/// If the execution may have changed the tree, the tree is inspected before anything is judged.
pub(super) fn settle(
    execution: Box<Execution>,
    result: AgentResult,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    if ledger.tree.checkpoint_taken == ledger.task.iteration() {
        inspecting::ask(execution, Box::new(result), ledger, reaction)
    } else {
        Learning::start(execution, result, ledger, reaction)
    }
}

/// An execution fails, or could not begin.
pub(super) fn failed(
    mut execution: Option<Box<Execution>>,
    error: ErrorInfo,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    let consumed = ledger.abandon_phase(reaction);
    let (facts, usage) = match &mut execution {
        Some(execution) => {
            execution.record.used(consumed);
            execution.inbox.drop_messages();
            ledger.task.keep_draft(execution);
            execution.record.so_far()
        }
        None => Default::default(),
    };
    let error = match &execution {
        Some(execution) => error.after(ledger.task.failures_of(execution.agent()) + 1),
        None => error,
    };
    FollowUp::Ended { event: MachineEvent::AgentError { error, facts, usage: Some(usage) }, execution }
}
