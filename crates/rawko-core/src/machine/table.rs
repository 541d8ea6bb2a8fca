//! The transition table: all of the machine's behaviour, as data in one place.
//!
//! [`Machine`](super::Machine) interprets these rows and has no other transitions; the diagrams and the XState
//! config are printed from them. For a state and an event, the first row whose guard holds is taken. An event
//! without such a row is ignored.
//!
//! Not here: what a guard or an action means (`guard.rs`, `action.rs`). Final states have no rows.

use super::action::Action as A;
use super::guard::Guard as G;
use super::kind::EventKind as E;
use super::state::State;
use State::{Cancelled, Complete, ErrorHandling, Evaluating, Executing, Failed, Idle, Selecting};

/// What triggers a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// An event of this kind.
    Event(E),
    /// No event: the row is checked as soon as its state is entered, in the same step.
    Always,
}

/// One transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The states that it leaves.
    pub from: &'static [State],
    /// What triggers it.
    pub trigger: Trigger,
    /// The condition that must hold.
    pub guard: Option<G>,
    /// The state it leads to; with `None` no state is left or entered.
    pub target: Option<State>,
    /// Its actions, in this order, before the target's entry actions.
    pub actions: &'static [A],
}

impl Row {
    const fn on(from: &'static [State], event: E) -> Self {
        Self { from, trigger: Trigger::Event(event), guard: None, target: None, actions: &[] }
    }

    const fn always(from: &'static [State]) -> Self {
        Self { from, trigger: Trigger::Always, guard: None, target: None, actions: &[] }
    }

    const fn when(self, guard: G) -> Self {
        Self { guard: Some(guard), ..self }
    }

    const fn to(self, target: State) -> Self {
        Self { target: Some(target), ..self }
    }

    const fn run(self, actions: &'static [A]) -> Self {
        Self { actions, ..self }
    }

    /// Whether it applies in this state.
    #[must_use]
    pub fn leaves(&self, state: State) -> bool {
        self.from.contains(&state)
    }
}

/// A state, its description and its entry actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateRow {
    /// The state.
    pub state: State,
    /// What the state means, for the exports.
    pub description: &'static str,
    /// The actions on entry, after those of the row that led here.
    pub entry: &'static [A],
}

/// The state that a machine starts in.
pub const INITIAL: State = Idle;

/// The states, with their entry actions.
pub const STATES: [StateRow; 8] = [
    StateRow { state: Idle, description: "Waiting for a task to begin", entry: &[] },
    StateRow { state: Selecting, description: "The arbiter selects the next agent", entry: &[] },
    StateRow { state: Executing, description: "An agent works", entry: &[A::BeginIteration] },
    StateRow {
        state: Evaluating,
        description: "The arbiter judges the agent's work",
        entry: &[A::EvaluateProgress],
    },
    StateRow {
        state: ErrorHandling,
        description: "Decides whether to continue after an error; left in the same step",
        entry: &[],
    },
    StateRow { state: Complete, description: "Done, or stopped by the iteration limit", entry: &[A::Finish] },
    StateRow { state: Failed, description: "Given up", entry: &[A::Finish] },
    StateRow { state: Cancelled, description: "Stopped by the user", entry: &[A::Finish] },
];

/// The actions on entry into a state.
#[must_use]
pub fn entry(state: State) -> &'static [A] {
    STATES.iter().find(|row| row.state == state).map_or(&[], |row| row.entry)
}

/// States that only wait for the arbiter. Leaving one abandons a question; leaving `executing` also ends work, which
/// goes into the history.
const ASKING: &[State] = &[Selecting, Evaluating];

/// The transitions. Between rows for the same state and event, order matters.
pub const TABLE: &[Row] = &[
    Row::on(&[Idle], E::StartTask).to(Selecting).run(&[A::StartTask, A::SelectAgent]),
    // The answer to the select effect.
    Row::on(&[Selecting], E::AgentSelected).when(G::IsComplete).to(Complete).run(&[A::RecordDecision]),
    Row::on(&[Selecting], E::AgentSelected)
        .when(G::IsBlocked)
        .to(Failed)
        .run(&[A::RecordDecision, A::RecordBlocked]),
    Row::on(&[Selecting], E::AgentSelected).when(G::SelectsKnownAgent).to(Executing).run(&[
        A::RecordDecision,
        A::SetAgent,
        A::ExecuteAgent,
    ]),
    // CONTINUE starts a new conversation here too: `selecting` is entered after an error, a retry or an override,
    // none of which leaves a conversation worth continuing.
    Row::on(&[Selecting], E::AgentSelected)
        .when(G::ResumesLastAgent)
        .to(Executing)
        .run(&[A::RecordDecision, A::ExecuteAgent]),
    Row::on(&[Selecting], E::AgentSelected).to(ErrorHandling).run(&[A::RejectSelection]),
    Row::on(&[Selecting], E::AgentSelectionFailed).to(ErrorHandling).run(&[A::CountFailure]),
    // The answer to the execute effect. Streaming events are expected and change nothing.
    Row::on(&[Executing], E::AgentMessage),
    Row::on(&[Executing], E::AgentToolCall),
    Row::on(&[Executing], E::AgentToolResult),
    Row::on(&[Executing], E::AgentComplete).when(G::Succeeded).to(Evaluating).run(&[
        A::RecordExecution,
        A::ClearFailures,
        A::MergePlan,
    ]),
    Row::on(&[Executing], E::AgentComplete).when(G::MayFailAgain).to(Evaluating).run(&[
        A::RecordExecution,
        A::CountUnsuccess,
        A::MergePlan,
    ]),
    Row::on(&[Executing], E::AgentComplete).to(Failed).run(&[
        A::RecordExecution,
        A::CountUnsuccess,
        A::MergePlan,
    ]),
    Row::on(&[Executing], E::AgentError).to(ErrorHandling).run(&[A::RecordFailure, A::CountFailure]),
    // The answer to the evaluate effect. The limit comes before RETRY: otherwise a model that always retries would
    // never stop.
    Row::on(&[Evaluating], E::ArbiterDecision).when(G::IsComplete).to(Complete).run(&[A::RecordDecision]),
    Row::on(&[Evaluating], E::ArbiterDecision)
        .when(G::IsBlocked)
        .to(Failed)
        .run(&[A::RecordDecision, A::RecordBlocked]),
    Row::on(&[Evaluating], E::ArbiterDecision)
        .when(G::MaxIterationsReached)
        .to(Complete)
        .run(&[A::RecordMaxIterations, A::MarkLimited]),
    Row::on(&[Evaluating], E::ArbiterDecision)
        .when(G::IsContinue)
        .to(Executing)
        .run(&[A::RecordDecision, A::ContinueAgent]),
    Row::on(&[Evaluating], E::ArbiterDecision)
        .when(G::ShouldRetry)
        .to(Selecting)
        .run(&[A::RecordDecision, A::SelectAgent]),
    Row::on(&[Evaluating], E::ArbiterDecision)
        .when(G::IsSelectMode)
        .to(Selecting)
        .run(&[A::RecordDecision, A::SelectDecidedAgent]),
    Row::on(&[Evaluating], E::ArbiterError).to(ErrorHandling).run(&[A::CountFailure]),
    // Errors are handled at once.
    Row::always(&[ErrorHandling]).when(G::MaxFailuresReached).to(Failed),
    Row::always(&[ErrorHandling]).when(G::MaxIterationsReached).to(Failed).run(&[A::MarkLimited]),
    Row::always(&[ErrorHandling])
        .when(G::IsRecoverableError)
        .to(Selecting)
        .run(&[A::SelectAgentAfterBackoff]),
    Row::always(&[ErrorHandling]).to(Failed),
    // Overrides.
    Row::on(ASKING, E::ForceAgent).when(G::HasAgent).to(Executing).run(&[
        A::Abandon,
        A::SetAgent,
        A::ExecuteAgent,
    ]),
    Row::on(&[Executing], E::ForceAgent).when(G::HasAgent).to(Executing).run(&[
        A::Abandon,
        A::RecordCancelled,
        A::SetAgent,
        A::ExecuteAgent,
    ]),
    Row::on(ASKING, E::Retry).when(G::HasRunAgent).to(Executing).run(&[A::Abandon, A::ExecuteAgent]),
    Row::on(&[Executing], E::Retry).when(G::HasRunAgent).to(Executing).run(&[
        A::Abandon,
        A::RecordCancelled,
        A::ExecuteAgent,
    ]),
    Row::on(ASKING, E::SkipStep).when(G::HasPlan).to(Selecting).run(&[
        A::Abandon,
        A::SkipStep,
        A::SelectAgent,
    ]),
    Row::on(&[Executing], E::SkipStep).when(G::HasPlan).to(Selecting).run(&[
        A::Abandon,
        A::RecordCancelled,
        A::SkipStep,
        A::SelectAgent,
    ]),
    Row::on(ASKING, E::Cancel).to(Cancelled).run(&[A::Abandon]),
    Row::on(&[Executing], E::Cancel).to(Cancelled).run(&[A::Abandon, A::RecordCancelled]),
    Row::on(&[Selecting, Executing, Evaluating], E::Reset).to(Idle).run(&[A::Abandon, A::ResetContext]),
];
