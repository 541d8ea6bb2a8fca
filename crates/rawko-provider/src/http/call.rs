//! One request to a provider, from the first attempt to the last event.
//!
//! Sends the request, reads the answer, and tries again after a failure as the policy says, as long as no part of the
//! answer has been delivered. It keeps two promises: a stream ends in exactly one `MessageDone` or `Error`, and an answer
//! that was cut off is an error, never a shorter answer. Dropping the call closes the connection.
//!
//! ```text
//! Asking ──▶ Reading ──▶ Ended
//!   ▲           │
//!   └─ Waiting ◀┘   only while no part of the answer has been delivered
//! ```

use std::num::NonZeroU16;
use std::time::Duration;

use bytes::Bytes;
use rawko_core::TimeSpan;
use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::request::ModelRequest;
use rawko_core::retry::{GiveUp, RetryDecision};
use rawko_core::usage::Usage;
use reqwest::Response;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::draft::Events;
use crate::http::failure::AttemptFailure;
use crate::http::session::HttpSession;
use crate::http::sse::{MAX_EVENT, SseDecoder};
use crate::http::unzip::{Unzip, unzipped};
use crate::http::wire::{DecodeProgress, ResponseDecoder as _, WireFormat};
use crate::provider::ProviderEvent;

/// The most bytes read of an error's body.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// The most bytes of an answer that arrives as one JSON object.
const MAX_WHOLE: usize = 64 * 1024 * 1024;

/// How long usage and the end marker may take once the message is complete.
const CLOSING: Duration = Duration::from_secs(5);

/// How long the body of a complete answer may take to end. After that the connection is closed instead of reused.
const DRAIN: Duration = Duration::from_secs(2);

/// How long a request waits for the connection of the previous one before it opens another.
const REUSE: Duration = Duration::from_millis(20);

/// The task that reads the rest of an answer's body.
pub(crate) type Released = tokio::task::JoinHandle<()>;

/// A request in progress.
pub(crate) struct HttpCall<'a, W: WireFormat> {
    session: &'a mut HttpSession<W>,
    request: ModelRequest,
    phase: CallPhase<W>,
    pending: Events,
    /// A part of the answer has been delivered.
    answered: bool,
    /// What failed attempts consumed.
    wasted: Usage,
    /// Failed attempts that count against the policy.
    failed: u32,
    /// The number of the current attempt.
    attempt: u32,
    begun: Instant,
}

enum CallPhase<W: WireFormat> {
    Asking,
    Waiting { until: Instant },
    Reading(Box<ResponseReader<W>>),
    Ended,
}

/// An answer that has begun to arrive.
struct ResponseReader<W: WireFormat> {
    response: Response,
    unzip: Unzip,
    form: BodyForm,
    decoder: W::Decoder,
}

/// The form of an answer, detected from its first bytes: servers send wrong content types.
enum BodyForm {
    Unknown,
    Events(SseDecoder),
    /// One JSON object, or a web page, collected until its end.
    Whole(Vec<u8>),
}

impl<'a, W: WireFormat> HttpCall<'a, W> {
    pub(crate) fn new(session: &'a mut HttpSession<W>, request: ModelRequest) -> Self {
        Self {
            session,
            request,
            phase: CallPhase::Asking,
            pending: Events::new(),
            answered: false,
            wasted: Usage::default(),
            failed: 0,
            attempt: 1,
            begun: Instant::now(),
        }
    }

    /// The next event; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<ProviderEvent> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            match std::mem::replace(&mut self.phase, CallPhase::Ended) {
                CallPhase::Ended => return None,
                CallPhase::Waiting { until } => {
                    sleep_until(until).await;
                    self.phase = CallPhase::Asking;
                }
                CallPhase::Asking => match self.ask().await {
                    Ok(answer) => self.phase = CallPhase::Reading(Box::new(answer)),
                    Err(failure) => self.fail(failure, None),
                },
                CallPhase::Reading(answer) => self.read(answer).await,
            }
        }
    }

    fn deadline(&self) -> Instant {
        self.begun + millis(self.session.service.settings.timeouts.total_ms)
    }

    /// How long the server may send nothing from now on.
    fn silence_ends(&self, progress: DecodeProgress) -> Instant {
        let idle = millis(self.session.service.settings.timeouts.idle_ms);
        let idle = if progress == DecodeProgress::Open { idle } else { idle.min(CLOSING) };
        self.deadline().min(Instant::now() + idle)
    }

    fn silent(&self) -> AttemptFailure {
        let timeouts = &self.session.service.settings.timeouts;
        let host = self.session.service.host();
        if Instant::now() >= self.deadline() {
            let total = timeouts.total_ms;
            AttemptFailure::permanent(
                ErrorCode::Timeout,
                format!("no complete answer from {host} within {total} ms"),
            )
        } else {
            let idle = timeouts.idle_ms;
            AttemptFailure::transient(ErrorCode::Timeout, format!("{host} sent nothing for {idle} ms"))
        }
    }

    async fn ask(&mut self) -> Result<ResponseReader<W>, AttemptFailure> {
        let service = self.session.service.clone();
        let without = service.wire.known(&self.request).with_all(service.learnt.of(&self.request.model));
        let target =
            service.target().map_err(|info| AttemptFailure { info: Box::new(info), is_transient: false })?;
        let body = self.session.body(&self.request, without)?;
        let request = target
            .client
            .post(target.messages.clone())
            .headers(target.headers.clone())
            .body(reqwest::Body::wrap(body));
        if let Some(released) = self.session.released.take() {
            let _ = tokio::time::timeout(REUSE, released).await;
            // The client takes the connection back in a task of its own.
            tokio::task::yield_now().await;
        }
        let until = self.silence_ends(DecodeProgress::Open);
        let response = match timeout_at(until, request.send()).await {
            Err(_) => return Err(self.silent()),
            Ok(Err(error)) => return Err(service.unreachable(error)),
            Ok(Ok(response)) => response,
        };
        if response.status().is_success() {
            self.session.pictures.accept();
            let decoder = service.wire.decoder(&self.request);
            return Ok(ResponseReader { response, unzip: Unzip::Unknown, form: BodyForm::Unknown, decoder });
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = match timeout_at(until, read_bounded(response, MAX_ERROR_BODY)).await {
            Ok(Ok(body)) => body,
            // The status is enough if the explanation does not arrive.
            Ok(Err(_)) | Err(_) => Vec::new(),
        };
        let mut failure = AttemptFailure::from_response(status, &headers, &body);
        failure.info.request_id = request_id(&headers);
        Err(failure)
    }

    /// Reads the next bytes of an answer.
    async fn read(&mut self, mut answer: Box<ResponseReader<W>>) {
        let until = self.silence_ends(answer.decoder.progress());
        let outcome = match timeout_at(until, answer.response.chunk()).await {
            Ok(Ok(Some(bytes))) => answer.take(&bytes, &mut self.pending),
            Ok(Ok(None)) => answer.end(&mut self.pending),
            _ if answer.decoder.progress() != DecodeProgress::Open => Ok(DecodeProgress::Done),
            Ok(Err(error)) => Err(self.session.service.unreachable(error)),
            Err(_) => Err(self.silent()),
        };
        self.answered |= !self.pending.is_empty();
        match outcome {
            Ok(DecodeProgress::Open | DecodeProgress::Closing) => self.phase = CallPhase::Reading(answer),
            Ok(DecodeProgress::Done) => {
                let ResponseReader { response, decoder, .. } = *answer;
                let mut last = decoder.finish(&mut self.pending);
                if let ProviderEvent::MessageDone { usage, .. } = &mut last {
                    self.count_prompt(usage);
                    *usage += self.wasted;
                }
                self.pending.push_back(last);
                self.session.released = Some(release(response));
            }
            Err(mut failure) => {
                failure.info.request_id = request_id(answer.response.headers());
                self.fail(failure, answer.decoder.consumed());
            }
        }
    }

    /// Tries again if that may help; otherwise ends with the error.
    fn fail(&mut self, mut failure: AttemptFailure, consumed: Option<Usage>) {
        self.wasted += consumed.unwrap_or_default();
        if self.answered {
            failure.info.message = format!("the answer was cut off: {}", failure.info.message);
            return self.end_with(*failure.info);
        }
        let helped = self.leave_thinking_out(&failure) || self.session.concede(&self.request, &mut failure);
        if let Some(after_ms) = helped.then_some(0).or_else(|| self.patience(&mut failure)) {
            let error = self.session.service.finished(*failure.info);
            self.attempt += 1;
            tracing::info!(
                code = error.code.as_str(),
                attempt = self.attempt,
                after_ms,
                "the call is made again"
            );
            self.pending.push_back(ProviderEvent::Retrying { error, attempt: self.attempt, after_ms });
            self.phase = CallPhase::Waiting { until: Instant::now() + millis(after_ms) };
        } else {
            self.end_with(*failure.info);
        }
    }

    /// Leaves out the thinking that the server refuses. This succeeds only once, because afterwards none is left.
    fn leave_thinking_out(&mut self, failure: &AttemptFailure) -> bool {
        failure.refuses_thinking() && self.session.leave_thinking_out(&self.request)
    }

    /// Estimates the prompt's tokens, at four bytes each, if the server did not count them.
    fn count_prompt(&self, usage: &mut Usage) {
        if usage.prompt_tokens() == 0 {
            usage.input_tokens = u64::try_from(self.session.weight / 4).unwrap_or(u64::MAX);
            usage.estimated = true;
        }
    }

    /// How long to wait before the next attempt; `None` if there is none.
    fn patience(&mut self, failure: &mut AttemptFailure) -> Option<u64> {
        if !failure.is_transient {
            return None;
        }
        self.failed += 1;
        if self.request.is_repeat {
            return None;
        }
        let elapsed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let asked = failure.info.retry_after_ms;
        let verdict =
            self.session.service.settings.retry.after_failure(self.failed, elapsed, asked, fastrand::f64());
        let gave_up = match verdict {
            RetryDecision::Again { after_ms } if Instant::now() + millis(after_ms) < self.deadline() => {
                return Some(after_ms);
            }
            RetryDecision::Again { .. } | RetryDecision::Stop(GiveUp::Deadline) => {
                "no time for another attempt".to_owned()
            }
            RetryDecision::Stop(GiveUp::AskedTooLong) => {
                let asked = asked.and_then(TimeSpan::from_ms).map(|span| span.to_string());
                format!(
                    "the server asks for a wait of {}, more than retry.capMs allows",
                    asked.unwrap_or_default()
                )
            }
            RetryDecision::Stop(GiveUp::Attempts) if self.failed == 1 => return None,
            RetryDecision::Stop(GiveUp::Attempts) => "all attempts are used up".to_owned(),
        };
        let sent = u16::try_from(self.failed).unwrap_or(u16::MAX);
        failure.info.attempts = NonZeroU16::new(sent).filter(|_| sent > 1);
        let times =
            if self.failed == 1 { "1 attempt".to_owned() } else { format!("{} attempts", self.failed) };
        failure.info.message = format!("{} ({times}; {gave_up})", failure.info.message);
        None
    }

    fn end_with(&mut self, error: ErrorInfo) {
        let usage = (self.answered || self.wasted != Usage::default()).then_some(self.wasted);
        self.pending.push_back(ProviderEvent::Error { error: self.session.service.finished(error), usage });
        self.phase = CallPhase::Ended;
    }
}

impl<W: WireFormat> ResponseReader<W> {
    fn take(&mut self, bytes: &Bytes, out: &mut Events) -> Result<DecodeProgress, AttemptFailure> {
        let unzipped = self.unzip.next(bytes).map_err(|error| {
            let why = format!("the server's answer looks like gzip and is not: {error}");
            AttemptFailure::transient(ErrorCode::NetworkError, why)
        })?;
        let bytes = unzipped.as_deref().unwrap_or(bytes);
        if matches!(self.form, BodyForm::Unknown) {
            match bytes.iter().find(|b| !b.is_ascii_whitespace()) {
                None => return Ok(DecodeProgress::Open),
                Some(b'{' | b'[' | b'<') => self.form = BodyForm::Whole(Vec::new()),
                Some(_) => self.form = BodyForm::Events(SseDecoder::new(MAX_EVENT)),
            }
        }
        match &mut self.form {
            BodyForm::Unknown => Ok(DecodeProgress::Open),
            BodyForm::Whole(body) if body.len() + bytes.len() > MAX_WHOLE => Err(AttemptFailure::permanent(
                ErrorCode::Unknown,
                format!("the server's answer is larger than {MAX_WHOLE} bytes"),
            )),
            BodyForm::Whole(body) => {
                body.extend_from_slice(bytes);
                Ok(DecodeProgress::Open)
            }
            BodyForm::Events(events) => {
                let mut found = Vec::new();
                let fed = events.feed(bytes, |event| found.push(event));
                let progress = self.take_events(&found, out)?;
                fed.map_err(|e| AttemptFailure::permanent(ErrorCode::Unknown, e.to_string()))?;
                Ok(progress)
            }
        }
    }

    fn take_events(
        &mut self,
        events: &[crate::http::sse::SseEvent],
        out: &mut Events,
    ) -> Result<DecodeProgress, AttemptFailure> {
        for event in events {
            if self.decoder.event(event, out)? == DecodeProgress::Done {
                return Ok(DecodeProgress::Done);
            }
        }
        Ok(self.decoder.progress())
    }

    /// The server closed the connection: checks whether the answer is complete.
    fn end(&mut self, out: &mut Events) -> Result<DecodeProgress, AttemptFailure> {
        match std::mem::replace(&mut self.form, BodyForm::Unknown) {
            BodyForm::Unknown => {
                Err(AttemptFailure::transient(ErrorCode::NetworkError, "the server sent an empty answer"))
            }
            BodyForm::Whole(body) => {
                let text = String::from_utf8_lossy(&body);
                let value = crate::json::parse(&text).map_err(|error| not_whole(&body, &error))?;
                self.decoder.whole(&value, out).map(|()| DecodeProgress::Done)
            }
            BodyForm::Events(mut events) => {
                let mut found = Vec::new();
                events.finish(|event| found.push(event));
                match self.take_events(&found, out) {
                    Ok(DecodeProgress::Closing | DecodeProgress::Done) => Ok(DecodeProgress::Done),
                    Err(failure) if failure.info.code != ErrorCode::NetworkError => Err(failure),
                    // An unfinished last line that cannot be parsed is a consequence of the cut.
                    Ok(DecodeProgress::Open) | Err(_) => Err(AttemptFailure::transient(
                        ErrorCode::NetworkError,
                        "the server closed the stream before the end of the message",
                    )),
                }
            }
        }
    }
}

/// A duration that can be added to any instant, at most a month.
fn millis(ms: u64) -> Duration {
    const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);
    Duration::from_millis(ms).min(MONTH)
}

/// Why an answer in one piece cannot be used.
fn not_whole(body: &[u8], error: &serde_json::Error) -> AttemptFailure {
    if body.trim_ascii_start().starts_with(b"<") {
        let page = AttemptFailure::from_response(200, &reqwest::header::HeaderMap::new(), body);
        return AttemptFailure::permanent(ErrorCode::ConfigError, page.info.message);
    }
    AttemptFailure::transient(
        ErrorCode::NetworkError,
        format!("the server's answer is not complete JSON: {error}"),
    )
}

/// Reads the body to its end, so that the connection can be reused. Only the next request waits for this.
fn release(mut response: Response) -> Released {
    let drain = async move { while let Ok(Some(_)) = response.chunk().await {} };
    tokio::spawn(async move {
        // If the server goes on for longer, its connection is closed instead.
        let _ = tokio::time::timeout(DRAIN, drain).await;
    })
}

/// The body of `response`, at most `max` bytes of it.
pub(crate) async fn read_bounded(mut response: Response, max: usize) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        let room = max - body.len();
        body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if body.len() == max {
            break;
        }
    }
    Ok(unzipped(body, max))
}

/// The server's id of the request.
fn request_id(headers: &reqwest::header::HeaderMap) -> Option<Box<str>> {
    let value = ["request-id", "x-request-id"].iter().find_map(|name| headers.get(*name))?;
    value.to_str().ok().map(|id| rawko_core::text::truncate(id, 200).into())
}
