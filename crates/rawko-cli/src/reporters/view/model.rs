//! What the view shows, folded from the run's events. Pure: the time is an argument, so the same events at the same times
//! give the same view.

use rawko::RunEvent;
use rawko_core::machine::{Plan, State};
use rawko_core::session::{Note, SoFar};
use rawko_core::setup::RunLimits;
use rawko_core::text::truncate;
use rawko_core::{Timestamp, Usage};

use super::super::line::StyledLine;
use super::super::phrase;
use super::execution::ExecutionProgress;
use crate::output::{Clock, clean_line};

/// Most characters of a provider's message.
const MESSAGE_CHARS: usize = 200;

/// A run as far as its events tell.
#[derive(Debug)]
pub(super) struct Model {
    clock: Clock,
    pub(super) running: bool,
    /// The agents that can be forced.
    pub(super) agents: Vec<String>,
    /// What the run stops at; `None` where more counts towards it than is known.
    pub(super) limits: Option<RunLimits>,
    /// When the task began, as if processes had carried it since without a gap.
    pub(super) begun: Timestamp,
    /// When the last event came.
    last: Timestamp,
    /// Executions of the session's earlier tasks.
    pub(super) earlier: u32,
    /// Tokens and cost that a fork shares: they count towards the limits.
    pub(super) shared: (u64, Option<f64>),
    pub(super) state: State,
    /// Since when the machine is in its state.
    pub(super) since: Timestamp,
    pub(super) iteration: u32,
    pub(super) execution: Option<ExecutionProgress>,
    pub(super) plan: Option<Plan>,
    pub(super) wait: Option<Wait>,
    pub(super) question: Option<OpenQuestion>,
    /// Since when the run is paused.
    pub(super) paused: Option<Timestamp>,
    /// The verification commands that run, and since when.
    pub(super) verifying: Option<(String, Timestamp)>,
    pub(super) used: Usage,
    pub(super) cost_usd: Option<f64>,
    /// The reason of the last decision.
    why: Option<String>,
}

/// A wait before a model is asked again.
#[derive(Debug)]
pub(super) struct Wait {
    /// For whom, and until when.
    pub(super) what: String,
    pub(super) why: String,
    pub(super) until: Timestamp,
}

/// What distinguishes questions: the digest of the call, which may be asked for again, and the end of the time to answer.
pub(super) type QuestionId = (String, Timestamp);

/// An open question to a person.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    pub(super) id: QuestionId,
    pub(super) agent: String,
    pub(super) until: Timestamp,
    /// The same as a time of day.
    pub(super) until_shown: String,
}

impl Model {
    pub(super) fn new(clock: Clock, now: Timestamp) -> Self {
        Self {
            clock,
            running: false,
            agents: Vec::new(),
            limits: None,
            begun: now,
            last: now,
            earlier: 0,
            shared: (0, Some(0.0)),
            state: State::Idle,
            since: now,
            iteration: 0,
            execution: None,
            plan: None,
            wait: None,
            question: None,
            paused: None,
            verifying: None,
            used: Usage::default(),
            cost_usd: Some(0.0),
            why: None,
        }
    }

    /// Takes an event that came now, and gives the lines that are left of an execution which it ends.
    pub(super) fn take(&mut self, event: &RunEvent, now: Timestamp) -> Vec<StyledLine> {
        let last = std::mem::replace(&mut self.last, now);
        match event {
            RunEvent::SessionStarted { agents, limits, resumed, continued, forked_from, so_far, .. } => {
                if *resumed && !continued {
                    self.gap(now.since(last));
                } else {
                    *self = Self::new(self.clock, now);
                }
                let is_whole = so_far.is_some() || (!resumed && !continued && forked_from.is_none());
                self.agents = agents.iter().map(|agent| clean_line(agent)).collect();
                self.limits = limits.filter(|_| is_whole);
                self.running = true;
                if let Some(so_far) = so_far {
                    self.goes_on(so_far, now);
                }
            }
            RunEvent::ToolBegun { call_id, .. } => {
                if let Some(execution) = &mut self.execution {
                    execution.begins(call_id, now);
                }
            }
            RunEvent::ToolEnded { call_id, outcome, .. } => {
                if let Some(execution) = &mut self.execution {
                    execution.ended(call_id, outcome);
                }
            }
            RunEvent::TextDelta { agent, text } => {
                let speaks = self.execution.as_mut().filter(|execution| execution.agent == *agent);
                if let Some(execution) = speaks {
                    execution.says(text);
                }
            }
            RunEvent::Waiting { provider, until, reason, message, attempt, .. } => {
                let message = truncate(&clean_line(message), MESSAGE_CHARS);
                self.wait = Some(Wait {
                    what: phrase::waited_for(provider.as_deref(), *until, self.clock),
                    why: format!("{reason}: {message}; then attempt {attempt}"),
                    until: *until,
                });
            }
            RunEvent::SessionFinished { .. } => {
                self.running = false;
                return self.fold(now);
            }
            RunEvent::Note(note) => return self.note(note, now),
            // An event of a newer SDK, which this version cannot describe.
            _ => {}
        }
        Vec::new()
    }

    /// Something happened at this time, of which nothing is shown.
    pub(super) fn passes(&mut self, at: Timestamp) {
        self.last = at;
    }

    /// No process carried the run for so long: nothing took longer by that.
    pub(super) fn gap(&mut self, ms: u64) {
        let later = |at: &mut Timestamp| at.0 = at.0.saturating_add(ms);
        later(&mut self.begun);
        later(&mut self.since);
        if let Some(execution) = &mut self.execution {
            execution.shift(ms);
        }
    }

    /// What counts for the task from before.
    fn goes_on(&mut self, so_far: &SoFar, now: Timestamp) {
        self.begun = Timestamp(now.0.saturating_sub(so_far.elapsed_ms));
        self.earlier = so_far.earlier_iterations;
        self.iteration = so_far.earlier_iterations.saturating_add(so_far.iterations);
        (self.used, self.cost_usd) = (so_far.usage, so_far.cost_usd);
        if let Some(shared) = so_far.shared {
            self.shared = (shared.usage.total_tokens(), shared.cost_usd);
        }
    }

    fn note(&mut self, note: &Note, now: Timestamp) -> Vec<StyledLine> {
        // Whatever happens, the wait is over. Only these may come while it lasts.
        if !matches!(note, Note::Warned { .. } | Note::Steered { .. } | Note::RunPaused) {
            self.wait = None;
        }
        match note {
            Note::StateChanged { to, iteration, .. } => {
                (self.state, self.since, self.iteration) = (*to, now, *iteration);
                (self.question, self.verifying) = (None, None);
                if *to == State::Idle {
                    self.plan = None;
                }
                if *to != State::Executing {
                    return self.fold(now);
                }
            }
            Note::DecisionMade(record) => {
                let by = phrase::source(record.source);
                self.why = Some(format!("{} ({by})", phrase::reason(&record.decision)));
            }
            Note::AgentStarted { agent, iteration, .. } => {
                let ended = self.fold(now);
                self.iteration = *iteration;
                let used = (self.used.total_tokens(), self.cost_usd);
                self.execution = Some(ExecutionProgress::new(agent, self.why.take(), now, used));
                return ended;
            }
            Note::ToolCalled { call, allowed, .. } => {
                if let Some(execution) = &mut self.execution {
                    execution.called(call, *allowed);
                }
            }
            Note::ToolFinished { call_id, outcome, .. } => {
                if let Some(execution) = &mut self.execution {
                    execution.finished(call_id, outcome, now);
                }
            }
            Note::ApprovalRequested(question) => {
                self.question = Some(OpenQuestion {
                    id: (question.digest.clone(), question.until),
                    agent: clean_line(&question.agent),
                    until: question.until,
                    until_shown: self.clock.time(question.until),
                });
            }
            Note::ApprovalAnswered { .. } => self.question = None,
            Note::RunPaused => self.paused = Some(now),
            Note::RunUnpaused { .. } => self.paused = None,
            Note::PlanUpdated { plan, .. } => self.plan = Some(plan.clone()),
            Note::MemoriesRecalled { memories, .. } => {
                if let Some(execution) = &mut self.execution {
                    execution.remembers(memories.len());
                }
            }
            Note::VerificationStarted { commands } => {
                self.verifying = Some((phrase::commands(commands), now));
            }
            Note::VerificationFinished { .. } => {
                self.verifying = None;
                self.since = now;
            }
            Note::TokensUsed { agent, total, cost_usd, .. } => {
                (self.used, self.cost_usd) = (*total, *cost_usd);
                let answered = self.execution.as_mut().filter(|execution| execution.agent == *agent);
                if let Some(execution) = answered {
                    execution.turned();
                }
            }
            // They change nothing that is shown for longer than it takes to say it.
            _ => {}
        }
        Vec::new()
    }

    fn fold(&mut self, now: Timestamp) -> Vec<StyledLine> {
        let ended = self.execution.take();
        ended.map(|execution| execution.folded(now, &self.used, self.cost_usd)).unwrap_or_default()
    }
}
