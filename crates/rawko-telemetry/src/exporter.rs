//! The thread that sends, and the queue before it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use rawko_core::Timestamp;
use rawko_core::text::truncate;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::conventions::SemanticConventions;
use crate::metrics::Metrics;
use crate::send::Sender;
use crate::settings::Settings;
use crate::wire;

/// Spans that wait, at most: those of the longest runs fit while a collector is slow for a moment.
const QUEUE: usize = 2_048;
/// Spans of one request, at most.
const BATCH: usize = 512;
/// How long a batch waits for more.
const DELAY: Duration = Duration::from_secs(1);
/// Most characters of a collector's message.
const MESSAGE: usize = 300;

/// How many spans were sent so far, and how many were not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Spans that a collector took.
    pub sent: u64,
    /// Spans that were not sent, because the queue was full.
    pub dropped: u64,
    /// Spans that a collector did not take.
    pub failed: u64,
    /// Spans that are on their way or wait, because the collector had not answered in time.
    pub unanswered: u64,
    /// The last failure.
    pub message: Option<String>,
}

impl ExportReport {
    /// Whether everything arrived.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        *self == Self { sent: self.sent, ..Self::default() }
    }
}

impl fmt::Display for ExportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.dropped + self.failed + self.unanswered;
        let of = self.sent + lost;
        match lost {
            0 => write!(f, "all {of} spans were sent")?,
            _ => write!(f, "{lost} of {of} spans were not sent")?,
        }
        let mut parts = Vec::new();
        if self.dropped > 0 {
            parts.push(format!("{} were dropped, because the collector is slow", self.dropped));
        }
        if self.unanswered > 0 {
            parts.push(format!("the collector did not answer in time for {}", self.unanswered));
        }
        parts.extend(self.message.clone());
        if !parts.is_empty() {
            write!(f, ": {}", parts.join("; "))?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Counters {
    queued: AtomicU64,
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    message: Mutex<Option<String>>,
    /// Why the request that is on its way has to be sent again.
    passing: Mutex<Option<String>>,
}

impl Counters {
    fn report(&self) -> ExportReport {
        let load = |count: &AtomicU64| count.load(Ordering::Acquire);
        let (sent, failed) = (load(&self.sent), load(&self.failed));
        let unanswered = load(&self.queued).saturating_sub(sent + failed);
        let message = lock(&self.message).clone().or_else(|| lock(&self.passing).clone());
        ExportReport { sent, dropped: load(&self.dropped), failed, unanswered, message }
    }

    fn failed(&self, spans: u64, message: String) {
        self.failed.fetch_add(spans, Ordering::AcqRel);
        *lock(&self.message) = Some(truncate(&message, MESSAGE));
    }

    /// Metrics were not sent. What happened to spans is reported first.
    fn without_metrics(&self, message: &str) {
        lock(&self.message).get_or_insert_with(|| truncate(&format!("metrics: {message}"), MESSAGE));
    }

    fn passing(&self, message: Option<&str>) {
        *lock(&self.passing) = message.map(|message| truncate(message, MESSAGE));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sending end of the queue. Dropping it ends the exporter, once everything is sent.
pub(crate) struct Queue {
    spans: mpsc::Sender<Span>,
    metrics: Arc<Mutex<Metrics>>,
    counters: Arc<Counters>,
}

/// Waits for the end of an exporter.
#[derive(Debug)]
pub struct Flush {
    done: Receiver<()>,
    counters: Arc<Counters>,
}

impl Flush {
    /// Waits until everything is sent, but no longer than this. Call it after the run: the exporter ends with the run.
    pub fn wait(self, longest: Duration) -> ExportReport {
        let _ = self.done.recv_timeout(longest);
        self.counters.report()
    }
}

impl Queue {
    /// Adds a span. Never waits.
    pub(crate) fn push(&self, span: Span) {
        lock(&self.metrics).record(&span);
        match self.spans.try_send(span) {
            Ok(()) => self.counters.queued.fetch_add(1, Ordering::AcqRel),
            Err(_) => self.counters.dropped.fetch_add(1, Ordering::AcqRel),
        };
    }
}

impl Queue {
    /// Adds a span, and waits for room. For use outside of a runtime.
    pub(crate) fn push_waiting(&self, span: Span) {
        lock(&self.metrics).record(&span);
        match self.spans.blocking_send(span) {
            Ok(()) => self.counters.queued.fetch_add(1, Ordering::AcqRel),
            Err(_) => self.counters.dropped.fetch_add(1, Ordering::AcqRel),
        };
    }
}

/// Starts the thread that sends.
///
/// # Errors
/// If there can be no thread, or the machine's certificates cannot be used.
pub(crate) fn start(settings: Settings, begun: Timestamp) -> Result<(Queue, Flush), String> {
    let counters = Arc::<Counters>::default();
    let metrics = Arc::new(Mutex::new(Metrics::new(settings.conventions)));
    let (spans, queue) = mpsc::channel(QUEUE);
    let (finished, done) = sync_channel(1);
    let worker = Worker {
        traces: settings.traces.map(Sender::new).transpose()?,
        to_metrics: settings.metrics.map(Sender::new).transpose()?,
        resource: settings.resource,
        conventions: settings.conventions,
        interval: settings.interval,
        metrics: Arc::clone(&metrics),
        counters: Arc::clone(&counters),
        begun,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let work = move || {
        runtime.block_on(worker.run(queue));
        // The receiver may no longer wait.
        let _ = SyncSender::try_send(&finished, ());
    };
    std::thread::Builder::new()
        .name("telemetry".to_owned())
        .spawn(work)
        .map_err(|error| error.to_string())?;
    Ok((Queue { spans, metrics, counters: Arc::clone(&counters) }, Flush { done, counters }))
}

struct Worker {
    traces: Option<Sender>,
    to_metrics: Option<Sender>,
    resource: Vec<(String, String)>,
    conventions: SemanticConventions,
    interval: Duration,
    metrics: Arc<Mutex<Metrics>>,
    counters: Arc<Counters>,
    begun: Timestamp,
}

impl Worker {
    async fn run(self, mut queue: mpsc::Receiver<Span>) {
        let mut next_metrics = Instant::now() + self.interval;
        loop {
            let mut batch = Vec::new();
            let received = tokio::select! {
                // Given up without a loss: it has taken nothing then.
                received = queue.recv_many(&mut batch, BATCH) => received,
                () = tokio::time::sleep_until(next_metrics) => {
                    next_metrics = Instant::now() + self.interval;
                    self.send_metrics().await;
                    continue;
                }
            };
            if received == 0 {
                break;
            }
            fill(&mut queue, &mut batch).await;
            self.send_spans(batch).await;
        }
        self.send_metrics().await;
    }

    async fn send_spans(&self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        let Some(sender) = &self.traces else {
            self.counters.sent.fetch_add(count, Ordering::AcqRel);
            return;
        };
        let request = wire::spans(&self.resource, self.conventions, spans);
        let sent = sender.send(&request, |why| self.counters.passing(Some(why))).await;
        self.counters.passing(None);
        match sent {
            Ok((refused, message)) => {
                let refused = refused.min(count);
                self.counters.sent.fetch_add(count - refused, Ordering::AcqRel);
                if refused > 0 {
                    self.counters.failed(refused, message);
                }
            }
            Err(message) => self.counters.failed(count, message),
        }
    }

    async fn send_metrics(&self) {
        let Some(sender) = &self.to_metrics else { return };
        let measured = lock(&self.metrics).clone();
        if measured.is_empty() {
            return;
        }
        let metrics = wire::metrics(&self.resource, &measured, self.begun);
        match sender.send(&metrics, |_| {}).await {
            Ok((0, _)) => {}
            Ok((_, message)) | Err(message) => self.counters.without_metrics(&message),
        }
    }
}

/// Waits a moment for more spans.
async fn fill(queue: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    let until = Instant::now() + DELAY;
    while batch.len() < BATCH {
        let room = BATCH - batch.len();
        match tokio::time::timeout_at(until, queue.recv_many(batch, room)).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use prost::Message as _;

    use super::*;
    use crate::settings::Configured;
    use crate::span::{nanos, text};

    fn span(number: u64) -> Span {
        Span {
            trace_id: vec![1; 16],
            span_id: number.to_be_bytes().to_vec(),
            name: "chat m".into(),
            start_time_unix_nano: nanos(Timestamp(1)),
            end_time_unix_nano: nanos(Timestamp(2)),
            attributes: vec![text(crate::conventions::OPERATION, "chat")],
            ..Span::default()
        }
    }

    /// How many spans a request holds; metrics hold none.
    fn read(stream: &mut BufReader<TcpStream>) -> Option<u64> {
        let (mut length, mut is_traces, mut line) = (0, false, String::new());
        while stream.read_line(&mut line).ok()? > 2 {
            is_traces |= line.contains("/v1/traces");
            if let Some((name, value)) =
                line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            {
                length = value.trim().parse().unwrap_or_else(|_| panic!("{name}"));
            }
            line.clear();
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok().filter(|()| length > 0)?;
        let request = ExportTraceServiceRequest::decode(body.as_slice()).ok().filter(|_| is_traces);
        let scopes = request.into_iter().flat_map(|it| it.resource_spans).flat_map(|it| it.scope_spans);
        Some(scopes.map(|scope| scope.spans.len() as u64).sum())
    }

    /// A collector that answers, or keeps silent, and the number of spans that it took.
    fn collector(answers: bool) -> (String, Arc<AtomicU64>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let taken = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&taken);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    while let Some(spans) = read(&mut stream) {
                        counter.fetch_add(spans, Ordering::AcqRel);
                        if answers {
                            stream
                                .get_mut()
                                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                                .unwrap();
                        }
                    }
                });
            }
        });
        (url, taken)
    }

    fn begin(url: &str, interval: &str) -> (Queue, Flush) {
        let variable = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(url.to_owned()),
            "OTEL_METRIC_EXPORT_INTERVAL" => Some(interval.to_owned()),
            _ => None,
        };
        let settings = Settings::new(&variable, &Configured::default()).unwrap().unwrap();
        start(settings, Timestamp(0)).unwrap()
    }

    #[test]
    fn all_spans_arrive_while_metrics_are_sent_again_and_again() {
        let (url, taken) = collector(true);
        let (queue, flush) = begin(&url, "1");
        for number in 0..1_000 {
            queue.push_waiting(span(number));
        }
        drop(queue);
        let report = flush.wait(Duration::from_secs(60));
        assert_eq!(report, ExportReport { sent: 1_000, ..ExportReport::default() }, "{report}");
        assert_eq!(taken.load(Ordering::Acquire), 1_000);
    }

    #[test]
    fn a_silent_collector_delays_nothing_and_lost_spans_are_counted() {
        let (url, _) = collector(false);
        let (queue, flush) = begin(&url, "60000");
        let all = (QUEUE + 2 * BATCH) as u64;
        for number in 0..all {
            queue.push(span(number));
        }
        drop(queue);
        let report = flush.wait(Duration::ZERO);
        assert_eq!((report.sent, report.failed), (0, 0), "{report:?}");
        assert_eq!(report.dropped + report.unanswered, all);
        assert!(report.dropped >= BATCH as u64, "{report:?}");
        assert!(report.to_string().starts_with(&format!("{all} of {all} spans were not sent: ")), "{report}");
    }
}
