//! The types that events, outcomes, setups and journals are made of, by name.

pub use rawko_core::agent::{
    AgentBudget, AgentLimits, AgentMemory, AgentProvider, AgentRole, Ask, BashFilter, Compaction,
    CustomTransition, Enforcement, Finding, Importance, OneOrMany, ReportOutcome, SandboxUse, SkillChoice,
    SkillSetup, ToolFilter, Transitions, Verdict,
};
pub use rawko_core::arbiter::{
    AgentDescription, ArbiterQuestion, BarredAgent, ConstraintContext, DecisionKind, EarlierTask,
    ErrorCategory, ErrorContext, ErrorSummary, ErrorSurroundings, EvaluateProgressInput, ExecutionSummary,
    Label, OutputSummary, RecentPerformance, Recorded, RecordedFacts, RecoveryAction, RecoveryOption,
    Repetition, Ruling, RunFacts, SelectAgentInput, Situation, Templates, TokenCounts, ToolLists,
    VerificationFacts,
};
pub use rawko_core::conversation::{ConversationId, ConversationLog};
pub use rawko_core::facts::{
    BudgetFacts, CheckResult, CommandEffect, CommandFact, CommandResult, CommandRun, DiffStat, OtherCheck,
    OwnStatus, Proof, RunnerSummary, Standing, TestCounts, TreeInspection, Verification,
};
pub use rawko_core::hook::HookOccasion;
pub use rawko_core::hosted::{HostedBlock, HostedResult, HostedSearch, HostedWire};
pub use rawko_core::integrity::{
    Baseline, ChangedChecks, CheckChange, CheckChangeKind, Doubt, DoubtReason, Integrity, IntegrityResult,
    OriginalRun,
};
pub use rawko_core::machine::{
    Context, Decision, ExecutionEnd, ExecutionFacts, ExecutionStatus, FailureRecord, HistoryEntry, Plan,
    PlanStep, PlanUpdates, State, StepStatus,
};
pub use rawko_core::models::{LongPrompt, Price};
pub use rawko_core::note::{DecisionPoint, DecisionRecord, DecisionSource, PrefixChange};
pub use rawko_core::session::{
    Effect, EffectAnswer, EffectId, EndedTask, Event, LimitKind, Lost, LostJob, LostWork, PhaseKind,
    Reaction, Session, SharedSpend, Stamped, TimerPurpose,
};
pub use rawko_core::setup::{
    AgentSetup, ArbiterMode, ArbiterSetup, CacheUse, CallRetry, ExtractSetup, MemorySetup, ModelChoice,
    ProjectContext, RunLimits, Setup, VerifySetup,
};
pub use rawko_core::thinking::{Effort, Thinking, ThinkingBudget, ThinkingEffort, ThinkingOff};
pub use rawko_core::tool::{JobChanges, SeenFile};
pub use rawko_core::{FailedWork, MemoryLimit, NotAMemoryLimit};
