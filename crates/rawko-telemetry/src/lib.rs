//! OpenTelemetry for rawko (`docs/telemetry.md`): what a session did, as spans and metrics by the GenAI semantic conventions,
//! sent by OTLP over HTTP or gRPC.
//!
//! ```text
//! event, reaction ─▶ Projection ─▶ Span ─┬─▶ Metrics ─┐
//!                    (pure, ids derived) └─▶ queue ───┴─▶ thread of the exporter ─▶ wire ─▶ send
//! ```
//!
//! The projection knows no clock and no randomness: ids come from the session's id and from counters, times from the events.
//! So a resumed run continues its own trace, and a later export of the journal gives the spans that the live run sent.
//!
//! The exporter has a thread of its own, with a queue of fixed size before it. Code that reports spans never waits for
//! it: spans that do not fit into the queue are dropped and counted.

mod content;
mod conventions;
mod exporter;
mod ids;
mod live;
mod metrics;
mod projection;
mod send;
mod settings;
mod span;
mod wire;

pub use conventions::SemanticConventions;
pub use exporter::{ExportReport, Flush};
pub use ids::{NotATraceParent, TraceParent};
pub use live::{LiveTelemetry, Whole, send_spans};
pub use opentelemetry_proto::tonic::trace::v1::Span;
pub use projection::Projection;
pub use settings::{Configured, Protocol, Settings, SettingsError, Target};
