//! The transition table: all of the machine's behaviour, as data in one place.
//!
//! [`Machine`](super::Machine) interprets these rows and knows no transition of its own; the diagrams and the
//! XState config are printed from them. For one state and one event the first row whose guard holds is taken.
//! An event without such a row is ignored.
//!
//! Deliberately absent: what a guard or an action means (`guard.rs`, `action.rs`), and final states' rows: they
//! have none.

use super::action::Action as A;
use super::guard::Guard as G;
use super::kind::EventKind as E;
use super::state::State;
use State::{Cancelled, Complete, ErrorHandling, Evaluating, Executing, Failed, Idle, Selecting};

/// What makes a row worth looking at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// An event of this kind.
    Event(E),
    /// Nothing: the row is looked at as soon as its state is entered, in the same step.
    Always,
}

/// One transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The states it leads away from.
    pub from: &'static [State],
    /// What sets it off.
    pub trigger: Trigger,
    /// What must hold.
    pub guard: Option<G>,
    /// Where it leads; `None` neither leaves nor enters a state.
    pub target: Option<State>,
    /// What it does on the way, in this order, before the target's entry actions.
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

    /// Whether it may be taken from this state.
    #[must_use]
    pub fn leaves(&self, state: State) -> bool {
        self.from.contains(&state)
    }
}

/// What a state is, and what is done on every entry into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateRow {
    /// The state.
    pub state: State,
    /// What it means.
    pub description: &'static str,
    /// What is done on entry, after the actions of the row that led here.
    pub entry: &'static [A],
}

/// Where a machine begins.
pub const INITIAL: State = Idle;

/// The states.
pub const STATES: [StateRow; 8] = [
    StateRow { state: Idle, description: "Waiting for a task to begin", entry: &[] },
    StateRow { state: Selecting, description: "The arbiter selects the next agent", entry: &[] },
    StateRow { state: Executing, description: "An agent works", entry: &[A::BeginIteration] },
    StateRow {
        state: Evaluating,
        description: "The arbiter judges what the agent brought",
        entry: &[A::EvaluateProgress],
    },
    StateRow { state: ErrorHandling, description: "An error is weighed; left in the same step", entry: &[] },
    StateRow { state: Complete, description: "Done, or stopped by the iteration limit", entry: &[A::Finish] },
    StateRow { state: Failed, description: "Given up", entry: &[A::Finish] },
    StateRow { state: Cancelled, description: "Stopped by the user", entry: &[A::Finish] },
];

/// What is done on entry into a state.
#[must_use]
pub fn entry(state: State) -> &'static [A] {
    STATES.iter().find(|row| row.state == state).map_or(&[], |row| row.entry)
}

/// States that only wait for the arbiter: leaving one abandons a question, leaving `executing` also ends work
/// that belongs in the history.
const ASKING: &[State] = &[Selecting, Evaluating];

/// The transitions. Order matters where state and event are the same.
pub const TABLE: &[Row] = &[
    Row::on(&[Idle], E::StartTask).to(Selecting).run(&[A::StartTask, A::SelectAgent]),
    // The answer to the select effect.
    Row::on(&[Selecting], E::AgentSelected).when(G::IsComplete).to(Complete).run(&[A::RecordDecision]),
    Row::on(&[Selecting], E::AgentSelected).when(G::SelectsKnownAgent).to(Executing).run(&[
        A::RecordDecision,
        A::SetAgent,
        A::ExecuteAgent,
    ]),
    // A new conversation also for CONTINUE: the way into `selecting` leads through an error, a retry or an
    // override, none of which leaves a conversation worth going on with.
    Row::on(&[Selecting], E::AgentSelected)
        .when(G::ResumesLastAgent)
        .to(Executing)
        .run(&[A::RecordDecision, A::ExecuteAgent]),
    Row::on(&[Selecting], E::AgentSelected).to(ErrorHandling).run(&[A::RejectSelection]),
    Row::on(&[Selecting], E::AgentSelectionFailed).to(ErrorHandling).run(&[A::CountFailure]),
    // The answer to the execute effect. Streaming is expected here and changes nothing.
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
    // The answer to the evaluate effect. The limit stands before RETRY: else a model that always retries never
    // stops.
    Row::on(&[Evaluating], E::ArbiterDecision).when(G::IsComplete).to(Complete).run(&[A::RecordDecision]),
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
    // An error is weighed at once.
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
