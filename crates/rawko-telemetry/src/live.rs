//! A run's telemetry, and that of a past session.

use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use rawko_core::Timestamp;
use rawko_core::session::{EffectId, Session};
use rawko_core::timeline::TimelineEntry;

use crate::exporter::{self, ExportReport, Flush, Queue};
use crate::ids::TraceParent;
use crate::projection::Projection;
use crate::settings::Settings;

/// The telemetry of a run. Dropping it ends the exporter once everything is sent; [`Flush`] waits for that.
pub struct LiveTelemetry {
    projection: Projection,
    queue: Queue,
}

impl std::fmt::Debug for LiveTelemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("projection", &self.projection).finish_non_exhaustive()
    }
}

impl LiveTelemetry {
    /// Goes on with `projection`, which knows what the session has done before.
    ///
    /// # Errors
    /// A message, if nothing can be sent from this machine.
    pub fn start(
        mut settings: Settings,
        projection: Projection,
        begun: Timestamp,
    ) -> Result<(Self, Flush), String> {
        if !projection.is_sampled() {
            settings.traces = None;
        }
        let (queue, flush) = exporter::start(settings, begun)?;
        Ok((Self { projection, queue }, flush))
    }

    /// Reports what has ended with an event, whose entries these are. Never waits.
    pub fn step(&mut self, entries: &[TimelineEntry], session: &Session) {
        for span in self.projection.step(entries, session) {
            self.queue.push(span);
        }
    }

    /// The place in the trace of what performs this effect.
    #[must_use]
    pub fn place_of(&self, effect: EffectId) -> TraceParent {
        self.projection.place_of(effect)
    }
}

/// What is sent of a session whose events are all there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// Spans: metrics count what a process does, and were counted when the session ran.
    Past,
    /// Spans and metrics: it has just ended, and nothing of it was sent. Its metrics begin now.
    JustEnded(Timestamp),
}

/// Sends the spans of a session, and waits for it.
///
/// # Errors
/// A message, if nothing can be sent from this machine.
pub fn send_spans(
    mut settings: Settings,
    spans: Vec<Span>,
    whole: Whole,
    longest: Duration,
) -> Result<ExportReport, String> {
    let begun = match whole {
        Whole::Past => {
            settings.metrics = None;
            Timestamp::default()
        }
        Whole::JustEnded(now) => now,
    };
    let (queue, flush) = exporter::start(settings, begun)?;
    for span in spans {
        queue.push_waiting(span);
    }
    drop(queue);
    Ok(flush.wait(longest))
}
