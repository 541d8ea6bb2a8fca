//! The rawko SDK carries a software task from a sentence to a verified change. Several LLM agents work in turn under a
//! state machine.
//!
//! ```no_run
//! # async fn example() -> Result<(), rawko::Error> {
//! let rawko = rawko::Rawko::builder().project(".").build()?;
//! let mut run = rawko.run("Reject dates after 2100, with a test")?;
//!
//! let mut events = run.events();
//! tokio::spawn(async move {
//!     while let Some(event) = events.next().await {
//!         println!("{event:?}");
//!     }
//! });
//!
//! let outcome = run.await?;
//! println!("{}", outcome.summary);
//! # Ok(())
//! # }
//! ```
//!
//! [`Rawko::builder`] reads and checks the project's configuration. [`Rawko::run`] prepares a run; awaiting it carries
//! the task to its end. The [`Status`] says how it ended: verified, claimed, failed, limited or cancelled.
//! [`Run::events`] streams what happens, [`Run::snapshots`] shows the present state, [`Run::control`] steers and stops the
//! run, and the journal under `.rawko/sessions/` keeps every step.
//!
//! - A tool of your own implements [`Tool`]; pass it to [`RawkoBuilder::tool`].
//! - [`RawkoBuilder::on_approval`] asks a person for calls that are not granted, if `permissions.ask` says so;
//!   [`RawkoBuilder::on_call`] sees every granted call before it is made, and may deny it.
//! - A provider of your own implements [`Provider`]; pass it to [`RawkoBuilder::provider`].
//! - With the feature `telemetry`, spans and metrics go to the collector that the environment or the configuration names;
//!   [`Run::telemetry`] waits until they are sent.
//! - [`types`] names what events, outcomes and setups are made of.
//! - [`timeline`] says what the events of a session mean, one entry after another.
//! - [`journal`] reads sessions; [`Rawko::resume`], [`Rawko::fork`] and [`replay()`] work on them.
//!
//! The folder `examples/` of the repository has a program for each of these.
//!
//! All decisions are made in `rawko-core`, which does no I/O. This crate journals and performs them. It does not use
//! the terminal.

mod channel;
pub mod checkpoint;
mod checks;
mod clock;
pub mod config;
mod elsewhere;
mod error;
mod evaluate;
mod features;
mod history;
mod hooks;
#[cfg_attr(not(feature = "http"), path = "without_http.rs")]
mod http;
mod integrity;
mod isolation;
pub mod journal;
#[cfg_attr(not(feature = "mcp"), path = "without_mcp.rs")]
mod mcp;
#[cfg(feature = "mcp")]
pub mod mcp_client;
pub mod memory;
pub mod outside;
pub mod plugins;
mod private;
pub mod provider;
mod redact;
mod run;
mod session_id;
mod setup;
pub mod skills;
mod telemetry;
pub mod tools;
pub mod types;
#[cfg_attr(not(feature = "web"), path = "without_web.rs")]
mod web;

pub use channel::approval::{WaitingSession, answer_question, open_question, waiting_sessions};
pub use channel::beside::RunningSession;
pub use channel::cancel::{Cancelled, cancel};
pub use channel::control::{RunControl, SteerReply, Steered};
pub use channel::steering::steer;
pub use checks::FoundCommand;
pub use checks::verification::VerificationPlan;
pub use elsewhere::{EffectPerformer, EventRedactor, HandOver, Opening, is_record_of_session};
pub use error::Error;
pub use evaluate::{
    Agreement, Evaluation, EvaluationMode, EvaluationOptions, EvaluationReport, FailedAnswer, Latency, Share,
    Trial, TrialResult, WrongAnswer,
};
pub use history::explain::{AlternativeAgent, Alternatives, CallAnswer, ExplainedCall, Explanation, explain};
pub use history::fork::{Fork, ForkOptions, Stopped};
pub use history::repair::repair;
pub use history::replay::{Replay, ReplayCounts, ReplayDifference, replay, replay_with};
pub use history::situations::situations;
pub use hooks::{CallVerdict, GrantedCall};
pub use isolation::{
    LandingPolicy, Workspace, complete_landings, discard, enter_tree_of_session, land,
    remove_tree_of_session, session_was_isolated, tree_of_session,
};
#[cfg(feature = "mcp")]
pub use mcp::{McpChange, McpCheck, McpHandle, McpState};
pub use rawko_core::agent::{AgentConfig, Permissions};
pub use rawko_core::approval::{Approval, ApprovalQuestion};
pub use rawko_core::attachment::Attachment;
pub use rawko_core::hook::{HookEvent, HookReply};
pub use rawko_core::message::{Content, Image, Message, Role, StopReason, ToolCall};
pub use rawko_core::note::Note;
pub use rawko_core::request::{ModelRequest, Purpose, ToolChoice};
pub use rawko_core::session::{Landing, LandingConflict, LandingEnd, Outcome, Override, SoFar, Status};
pub use rawko_core::timeline;
pub use rawko_core::tool::{Refusal, ToolAccess, ToolOutcome, ToolSpec};
pub use rawko_core::{ErrorCode, ErrorInfo, TimeSpan, Timestamp, Usage};
pub use rawko_provider::{EventStream, Provider, ProviderEvent, ProviderSession};
pub use rawko_tools::{BoxFuture, Tool, ToolContext};
pub use run::Run;
pub use run::decision_cache::DecisionCache;
pub use run::denials::Denials;
pub use run::event::{InstructionsRead, RunEvent, event_schema};
pub use run::followed::{FollowedSession, SessionNews};
pub use run::hub::RunEvents;
pub use run::notify::Notifications;
pub use run::recorded::RecordedRun;
pub use run::snapshot::{SeenChecks, Snapshot};
pub use session_id::new_session_id;
pub use setup::attaching::{MAX_ATTACHED_TEXT, NotAttached, attachment};
pub use setup::builder::RawkoBuilder;
pub use setup::found_models::{ModelPlace, PlaceKind};
pub use setup::project_folder::check_project_folder;
pub use setup::rawko::Rawko;
pub use telemetry::TelemetryEnd;
