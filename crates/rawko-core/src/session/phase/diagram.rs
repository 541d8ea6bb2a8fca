//! The diagram of the phases: each kind of phase, and what it leads to.
//!
//! A test runs random sessions and holds every transition that it sees against this table, so the diagram cannot drift
//! from the code.

use std::fmt::Write as _;

use super::{ExecutionStage, RunPhase};

/// A phase without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PhaseKind {
    /// The run has not begun, or is over.
    Idle,
    /// The arbiter's model is asked.
    Asking,
    /// A pause after an error.
    BackingOff,
    /// A pause after a failed model call, which is then made again.
    Retrying,
    /// The memories for an agent are looked up.
    Recalling,
    /// The agent's model is asked.
    Turn,
    /// The agent's conversation is summarized.
    Summarizing,
    /// Tool calls run.
    Tools,
    /// The agent's own program works, in the place of turns and tool calls.
    Outside,
    /// A person is asked for a call.
    Approving,
    /// The tree is saved before the first change.
    Checkpointing,
    /// Hooks are asked.
    Hooks,
    /// The tree is compared with the checkpoints.
    Inspecting,
    /// The lesson is kept as a memory.
    Learning,
    /// The verification commands run.
    Verifying,
}

impl PhaseKind {
    /// All kinds, in the order in which a run usually passes them.
    pub const ALL: [Self; 15] = [
        Self::Idle,
        Self::Asking,
        Self::BackingOff,
        Self::Retrying,
        Self::Recalling,
        Self::Turn,
        Self::Summarizing,
        Self::Approving,
        Self::Checkpointing,
        Self::Tools,
        Self::Hooks,
        Self::Outside,
        Self::Inspecting,
        Self::Learning,
        Self::Verifying,
    ];

    /// Its name in the diagram.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Asking => "asking",
            Self::BackingOff => "backing_off",
            Self::Retrying => "retrying",
            Self::Recalling => "recalling",
            Self::Turn => "turn",
            Self::Summarizing => "summarizing",
            Self::Approving => "approving",
            Self::Checkpointing => "checkpointing",
            Self::Tools => "tools",
            Self::Hooks => "hooks",
            Self::Outside => "outside",
            Self::Inspecting => "inspecting",
            Self::Learning => "learning",
            Self::Verifying => "verifying",
        }
    }

    /// The other phases that one answer can lead to from here, where a model is the arbiter; rules decide at once, so that
    /// `asking` takes no time. Omitted is what holds in every phase: it can keep waiting, and the run can end.
    #[must_use]
    pub fn transitions(self) -> &'static [Self] {
        use PhaseKind as P;
        match self {
            P::Idle => &[P::Asking, P::Hooks],
            P::Asking => &[
                P::BackingOff,
                P::Retrying,
                P::Recalling,
                P::Turn,
                P::Summarizing,
                P::Checkpointing,
                P::Outside,
                P::Verifying,
                P::Hooks,
            ],
            P::BackingOff => &[P::Asking],
            P::Retrying => {
                &[P::Asking, P::BackingOff, P::Turn, P::Summarizing, P::Hooks, P::Inspecting, P::Learning]
            }
            P::Recalling => &[P::Asking, P::Turn, P::Checkpointing, P::Outside],
            P::Turn => &[
                P::Asking,
                P::BackingOff,
                P::Retrying,
                P::Summarizing,
                P::Approving,
                P::Checkpointing,
                P::Tools,
                P::Hooks,
                P::Inspecting,
                P::Learning,
                P::Verifying,
            ],
            P::Summarizing => &[
                P::Asking,
                P::BackingOff,
                P::Retrying,
                P::Turn,
                P::Hooks,
                P::Inspecting,
                P::Learning,
                P::Verifying,
            ],
            P::Approving => &[
                P::Asking,
                P::BackingOff,
                P::Turn,
                P::Summarizing,
                P::Checkpointing,
                P::Tools,
                P::Hooks,
                P::Inspecting,
                P::Learning,
            ],
            P::Checkpointing => &[P::Asking, P::BackingOff, P::Tools, P::Outside, P::Hooks, P::Learning],
            P::Tools => &[
                P::Asking,
                P::BackingOff,
                P::Turn,
                P::Summarizing,
                P::Approving,
                P::Checkpointing,
                P::Hooks,
                P::Inspecting,
                P::Learning,
            ],
            P::Outside => &[P::Asking, P::BackingOff, P::Hooks, P::Inspecting, P::Learning, P::Verifying],
            P::Inspecting => &[P::Asking, P::Learning, P::Verifying],
            P::Hooks => &[
                P::Asking,
                P::BackingOff,
                P::Recalling,
                P::Turn,
                P::Summarizing,
                P::Inspecting,
                P::Learning,
                P::Verifying,
            ],
            P::Learning => &[P::Asking, P::Verifying, P::Hooks],
            P::Verifying => &[P::Asking, P::Hooks],
        }
    }
}

impl RunPhase {
    /// The phase without its data.
    pub(in crate::session) fn kind(&self) -> PhaseKind {
        match self {
            Self::Idle => PhaseKind::Idle,
            Self::Asking(_) => PhaseKind::Asking,
            Self::BackingOff => PhaseKind::BackingOff,
            Self::Retrying(_) => PhaseKind::Retrying,
            Self::Recalling(_) => PhaseKind::Recalling,
            Self::Verifying(_) => PhaseKind::Verifying,
            Self::Hooks(_) => PhaseKind::Hooks,
            Self::Working(_, step) => match step {
                ExecutionStage::Turn => PhaseKind::Turn,
                ExecutionStage::Summarizing(_) => PhaseKind::Summarizing,
                ExecutionStage::Tools => PhaseKind::Tools,
                ExecutionStage::Outside => PhaseKind::Outside,
                ExecutionStage::Approving(_) => PhaseKind::Approving,
                ExecutionStage::Checkpointing(_) => PhaseKind::Checkpointing,
                ExecutionStage::Hooks(_) => PhaseKind::Hooks,
                ExecutionStage::Inspecting(_) => PhaseKind::Inspecting,
                ExecutionStage::Learning(_) => PhaseKind::Learning,
            },
        }
    }
}

/// The phases and their transitions as a Mermaid diagram.
#[must_use]
pub fn phase_diagram() -> String {
    let mut text = String::from("stateDiagram-v2\n    [*] --> idle\n");
    for from in PhaseKind::ALL {
        for to in from.transitions() {
            let _ = writeln!(text, "    {} --> {}", from.as_str(), to.as_str());
        }
    }
    text
}
