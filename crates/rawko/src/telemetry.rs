//! OpenTelemetry of runs and past sessions (`docs/telemetry.md`). `rawko-telemetry` projects and sends; this module gives it the
//! settings and the events. In a build without the feature `telemetry` it does nothing.
//!
//! The configuration that counts here is trusted: a project's is refused before, or its folder is trusted.

use std::path::Path;
use std::time::Duration;

use rawko_core::session::{EffectId, Session, Stamped};
use rawko_core::timeline::TimelineEntry;

use crate::journal::JournalHeader;
use crate::setup::rawko::Rawko;

/// The telemetry of one run, if it sends any.
#[derive(Default)]
pub(crate) struct RunTelemetry {
    #[cfg(feature = "telemetry")]
    live: Option<rawko_telemetry::LiveTelemetry>,
}

/// Where the effects of a session are in its trace.
#[derive(Default)]
pub(crate) struct SessionTrace {
    #[cfg(feature = "telemetry")]
    projection: Option<rawko_telemetry::Projection>,
}

/// Waits until a run's telemetry is sent.
#[derive(Debug)]
pub struct TelemetryEnd {
    #[cfg(feature = "telemetry")]
    flush: Result<rawko_telemetry::Flush, String>,
    #[cfg(not(feature = "telemetry"))]
    problem: String,
}

#[cfg(not(feature = "telemetry"))]
mod without {
    use super::*;

    /// The variables by which a user asks for telemetry.
    const ASKING: [&str; 4] = [
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        "OTEL_TRACES_EXPORTER",
    ];

    impl RunTelemetry {
        pub(crate) fn step(&mut self, _: &[TimelineEntry], _: &Session) {}

        pub(crate) fn traceparent(&self, _: EffectId) -> Option<String> {
            None
        }
    }

    impl TelemetryEnd {
        /// Waits, but no longer than this, and says what was not sent. Call it once the run is over.
        pub fn wait(self, _longest: Duration) -> Option<String> {
            Some(self.problem)
        }
    }

    pub(crate) fn begin(rawko: &Rawko, _journal: &Path) -> (RunTelemetry, Option<TelemetryEnd>) {
        let given =
            |name: &&str| (rawko.builder.environment)(name).is_some_and(|value| value.trim() != "none");
        let is_asked_for = ASKING.iter().any(given) || rawko.config().config.observability.endpoint.is_some();
        let end = is_asked_for.then(|| TelemetryEnd {
            problem: "telemetry is configured, but this build of rawko was made without it".to_owned(),
        });
        (RunTelemetry::default(), end)
    }

    pub(crate) fn trace(_: &Rawko, _: &JournalHeader) -> SessionTrace {
        SessionTrace::default()
    }

    impl SessionTrace {
        #[allow(clippy::unused_self, reason = "the same as in a build with telemetry")]
        pub(crate) fn traceparent(&self, _: EffectId) -> Option<String> {
            None
        }
    }

    impl Rawko {
        /// Sends nothing: this build has no telemetry.
        ///
        /// # Errors
        /// None.
        pub fn send_events(
            &self,
            _: &JournalHeader,
            _: &[Stamped],
            _: Duration,
        ) -> Result<Option<(u64, String)>, crate::error::Error> {
            Ok(None)
        }
    }

    pub(crate) fn caller(_: &Rawko) -> Option<String> {
        None
    }

    pub(crate) fn secrets(_: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(feature = "telemetry")]
mod with {
    use rawko_core::timeline::Timeline;
    use rawko_telemetry::{
        Configured, LiveTelemetry, Projection, Protocol, Settings, SettingsError, Span, Whole, send_spans,
    };

    use super::*;
    use crate::clock::now;
    use crate::config::OtlpProtocol;
    use crate::error::Error;
    use crate::journal::{Journal, read};

    impl RunTelemetry {
        /// Reports an event that was journaled and applied. Never waits.
        pub(crate) fn step(&mut self, entries: &[TimelineEntry], session: &Session) {
            if let Some(live) = &mut self.live {
                live.step(entries, session);
            }
        }

        /// The place of an effect in the trace, for the processes that perform it.
        pub(crate) fn traceparent(&self, effect: EffectId) -> Option<String> {
            Some(self.live.as_ref()?.place_of(effect).to_string())
        }
    }

    impl TelemetryEnd {
        /// Waits, but no longer than this, and says what was not sent. Call it once the run is over.
        pub fn wait(self, longest: Duration) -> Option<String> {
            match self.flush {
                Ok(flush) => Some(flush.wait(longest))
                    .filter(|report| !report.is_complete())
                    .map(|report| report.to_string()),
                Err(problem) => Some(problem),
            }
        }
    }

    fn settings(rawko: &Rawko) -> Result<Option<Settings>, SettingsError> {
        let config = &rawko.config().config.observability;
        let configured = Configured {
            endpoint: config.endpoint.clone(),
            protocol: config.protocol.map(|protocol| match protocol {
                OtlpProtocol::HttpProtobuf => Protocol::HttpProtobuf,
                OtlpProtocol::HttpJson => Protocol::HttpJson,
                OtlpProtocol::Grpc => Protocol::Grpc,
            }),
            content: config.capture_content,
        };
        Settings::new(rawko.builder.environment.as_ref(), &configured)
    }

    /// Begins the telemetry of a run, where it is on. Errors in its settings never hold a run back: the second part
    /// reports them at the end.
    pub(crate) fn begin(rawko: &Rawko, journal: &Path) -> (RunTelemetry, Option<TelemetryEnd>) {
        let begun = match settings(rawko) {
            Ok(None) => return (RunTelemetry::default(), None),
            Ok(Some(settings)) => start(settings, journal),
            Err(error) => Err(error.to_string()),
        };
        match begun {
            Ok((live, flush)) => (RunTelemetry { live: Some(live) }, Some(TelemetryEnd { flush: Ok(flush) })),
            Err(problem) => (RunTelemetry::default(), Some(TelemetryEnd { flush: Err(problem) })),
        }
    }

    /// Where the effects of a session are in its trace, if its telemetry is on.
    pub(crate) fn trace(rawko: &Rawko, header: &JournalHeader) -> SessionTrace {
        let settings = settings(rawko).ok().flatten();
        SessionTrace { projection: settings.map(|settings| projection(header, &settings)) }
    }

    impl SessionTrace {
        /// The place of an effect in the trace, for the processes that perform it.
        pub(crate) fn traceparent(&self, effect: EffectId) -> Option<String> {
            Some(self.projection.as_ref()?.place_of(effect).to_string())
        }
    }

    fn start(mut settings: Settings, path: &Path) -> Result<(LiveTelemetry, rawko_telemetry::Flush), String> {
        let journal = read(path).map_err(|error| error.to_string())?;
        let (projection, _) = fold(&journal, &settings);
        settings.resource.push(instance(&journal.header.session));
        LiveTelemetry::start(settings, projection, now())
    }

    /// Names what counts: each process counts for itself.
    fn instance(session: &str) -> (String, String) {
        ("service.instance.id".to_owned(), format!("{session}-{}", std::process::id()))
    }

    fn projection(header: &JournalHeader, settings: &Settings) -> Projection {
        let caller = header.traceparent.as_ref().and_then(|text| text.parse().ok());
        Projection::new(&header.session, caller, settings.content, settings.conventions)
    }

    /// The projection of what a journal holds, and the spans that have ended in it.
    fn fold(journal: &Journal, settings: &Settings) -> (Projection, Vec<Span>) {
        fold_events(&journal.header, journal.events().map(|(_, stamped)| stamped), settings)
    }

    fn fold_events<'a>(
        header: &JournalHeader,
        events: impl Iterator<Item = &'a Stamped>,
        settings: &Settings,
    ) -> (Projection, Vec<Span>) {
        let (mut timeline, mut spans) = (Timeline::default(), Vec::new());
        let mut projection = projection(header, settings);
        for stamped in events {
            // Spans do not name records.
            let entries = timeline.apply(0, stamped);
            spans.extend(projection.step(&entries, timeline.session()));
        }
        (projection, spans)
    }

    /// The place in a caller's trace that a new session belongs to, if its telemetry is on.
    pub(crate) fn caller(rawko: &Rawko) -> Option<String> {
        settings(rawko).ok()??.caller.map(|caller| caller.to_string())
    }

    /// The keys of the collector.
    pub(crate) fn secrets(variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        Settings::secrets(variable)
    }

    impl Rawko {
        /// Sends the spans of a past session to the configured collector, with the ids and times of its run. Gives how many there
        /// were and where they went. Blocks; not for use inside a runtime.
        ///
        /// # Errors
        /// [`Error::Setup`] where no collector is configured, or it did not take all of them within `longest`.
        pub fn send_session(&self, journal: &Journal, longest: Duration) -> Result<(u64, String), Error> {
            let setup = |message: String, hint: &str| Error::Setup { message, hint: hint.to_owned() };
            let settings =
                settings(self).map_err(|error| setup(error.to_string(), "correct it, or unset it"))?;
            let to =
                settings.as_ref().and_then(|settings| settings.traces.as_ref()).map(|target| target.shown());
            let (Some(settings), Some(to)) = (settings, to) else {
                return Err(setup(
                    "no collector of telemetry is configured".to_owned(),
                    "name one: OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318, or observability.endpoint",
                ));
            };
            let (_, spans) = fold(journal, &settings);
            send(settings, spans, &to, (Whole::Past, longest))
        }

        /// Sends spans and metrics of a session that was driven elsewhere and has just ended, with the ids and times of its events, if a
        /// collector is configured.
        /// Gives how many there were and where they went. Blocks; not for use inside a runtime.
        ///
        /// # Errors
        /// [`Error::Setup`] where the settings are wrong, or the collector did not take all of them within `longest`.
        pub fn send_events(
            &self,
            header: &JournalHeader,
            events: &[Stamped],
            longest: Duration,
        ) -> Result<Option<(u64, String)>, Error> {
            let wrong = |error: SettingsError| Error::Setup {
                message: error.to_string(),
                hint: "correct it, or unset it".to_owned(),
            };
            let Some(mut settings) = settings(self).map_err(wrong)? else { return Ok(None) };
            let Some(to) = settings.traces.as_ref().map(|target| target.shown()) else { return Ok(None) };
            let (_, spans) = fold_events(header, events.iter(), &settings);
            settings.resource.push(instance(&header.session));
            send(settings, spans, &to, (Whole::JustEnded(now()), longest)).map(Some)
        }
    }

    fn send(
        settings: Settings,
        spans: Vec<Span>,
        to: &str,
        (whole, longest): (Whole, Duration),
    ) -> Result<(u64, String), Error> {
        let failed = |problem: String| Error::Setup {
            message: format!("{to}: {problem}"),
            hint: "is the collector running, and does it speak OTLP?".to_owned(),
        };
        let report = send_spans(settings, spans, whole, longest).map_err(failed)?;
        if report.is_complete() { Ok((report.sent, to.to_owned())) } else { Err(failed(report.to_string())) }
    }
}

#[cfg(feature = "telemetry")]
pub(crate) use with::{begin, caller, secrets, trace};
#[cfg(not(feature = "telemetry"))]
pub(crate) use without::{begin, caller, secrets, trace};
