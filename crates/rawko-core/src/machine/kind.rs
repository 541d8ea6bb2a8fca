//! The kinds of events, without their data. The table's rows and the simulator's messages use them.

/// The kind of a [`MachineEvent`](super::MachineEvent), one for each of its variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// Starts a run.
    StartTask,
    /// The answer to the select effect.
    AgentSelected,
    /// The select effect failed.
    AgentSelectionFailed,
    /// The agent sent a message.
    AgentMessage,
    /// The agent called a tool.
    AgentToolCall,
    /// A tool returned a result.
    AgentToolResult,
    /// The agent's execution finished.
    AgentComplete,
    /// The agent's execution failed.
    AgentError,
    /// The answer to the evaluate effect.
    ArbiterDecision,
    /// The evaluate effect failed.
    ArbiterError,
    /// Override: this agent works now.
    ForceAgent,
    /// Override: skip the plan's current step.
    SkipStep,
    /// Override: the same agent works again.
    Retry,
    /// Stops the run.
    Cancel,
    /// Abandons the run and returns to idle.
    Reset,
}

impl EventKind {
    /// Every kind, in the order of `docs/machine.md`.
    pub const ALL: [Self; 15] = [
        Self::StartTask,
        Self::AgentSelected,
        Self::AgentSelectionFailed,
        Self::AgentMessage,
        Self::AgentToolCall,
        Self::AgentToolResult,
        Self::AgentComplete,
        Self::AgentError,
        Self::ArbiterDecision,
        Self::ArbiterError,
        Self::ForceAgent,
        Self::SkipStep,
        Self::Retry,
        Self::Cancel,
        Self::Reset,
    ];

    /// The event's `type` on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StartTask => "START_TASK",
            Self::AgentSelected => "AGENT_SELECTED",
            Self::AgentSelectionFailed => "AGENT_SELECTION_FAILED",
            Self::AgentMessage => "AGENT_MESSAGE",
            Self::AgentToolCall => "AGENT_TOOL_CALL",
            Self::AgentToolResult => "AGENT_TOOL_RESULT",
            Self::AgentComplete => "AGENT_COMPLETE",
            Self::AgentError => "AGENT_ERROR",
            Self::ArbiterDecision => "ARBITER_DECISION",
            Self::ArbiterError => "ARBITER_ERROR",
            Self::ForceAgent => "FORCE_AGENT",
            Self::SkipStep => "SKIP_STEP",
            Self::Retry => "RETRY",
            Self::Cancel => "CANCEL",
            Self::Reset => "RESET",
        }
    }

    /// An example of this kind on one line, for error messages.
    #[must_use]
    pub fn example(self) -> &'static str {
        match self {
            Self::StartTask => r#"{"type":"START_TASK","task":"add a test"}"#,
            Self::AgentSelected => {
                r#"{"type":"AGENT_SELECTED","decision":{"type":"SELECT_MODE","mode":"planner","reason":"no plan yet"}}"#
            }
            Self::AgentSelectionFailed => {
                r#"{"type":"AGENT_SELECTION_FAILED","error":{"code":"timeout","message":"no answer"}}"#
            }
            Self::AgentMessage => {
                r#"{"type":"AGENT_MESSAGE","message":{"role":"assistant","content":"reading"}}"#
            }
            Self::AgentToolCall => r#"{"type":"AGENT_TOOL_CALL","toolCall":{"name":"Read"}}"#,
            Self::AgentToolResult => r#"{"type":"AGENT_TOOL_RESULT","toolResult":{"content":"text"}}"#,
            Self::AgentComplete => {
                r#"{"type":"AGENT_COMPLETE","result":{"success":true,"output":"test added"}}"#
            }
            Self::AgentError => {
                r#"{"type":"AGENT_ERROR","error":{"code":"network_error","message":"connection reset"}}"#
            }
            Self::ArbiterDecision => {
                r#"{"type":"ARBITER_DECISION","decision":{"type":"COMPLETE","summary":"test added"}}"#
            }
            Self::ArbiterError => {
                r#"{"type":"ARBITER_ERROR","error":{"code":"rate_limited","message":"slow down"}}"#
            }
            Self::ForceAgent => r#"{"type":"FORCE_AGENT","agentName":"tester"}"#,
            Self::SkipStep => r#"{"type":"SKIP_STEP"}"#,
            Self::Retry => r#"{"type":"RETRY"}"#,
            Self::Cancel => r#"{"type":"CANCEL"}"#,
            Self::Reset => r#"{"type":"RESET"}"#,
        }
    }

    /// The kind with this `type` on the wire.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl std::fmt::Display for EventKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::MachineEvent;
    use super::*;

    #[test]
    fn every_example_reads_as_its_kind_and_names_it_the_same_way() {
        for kind in EventKind::ALL {
            let event: MachineEvent = serde_json::from_str(kind.example()).unwrap();
            assert_eq!(event.kind(), kind);
            assert_eq!(EventKind::from_name(kind.as_str()), Some(kind));
            let value = serde_json::to_value(&event).unwrap();
            assert_eq!(value["type"], kind.as_str());
        }
        assert_eq!(EventKind::from_name("start_task"), None);
    }
}
