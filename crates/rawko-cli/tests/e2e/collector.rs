//! A collector on loopback: it takes OTLP over HTTP, and keeps what it was sent.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// What came in one request.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// A collector. Its threads end with the test's process.
pub(crate) struct Collector {
    port: u16,
    arrived: Arc<Mutex<Vec<Arrived>>>,
}

impl Collector {
    /// One that answers.
    pub(crate) fn start() -> Self {
        Self::answering("200 OK")
    }

    /// One that gives every request this status.
    pub(crate) fn answering(status: &'static str) -> Self {
        Self::serving(move |mut stream, kept| {
            while let Some(arrived) = read(&mut stream) {
                kept.lock().unwrap().push(arrived);
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        })
    }

    /// One that reads and never answers.
    pub(crate) fn silent() -> Self {
        Self::serving(|mut stream, kept| {
            if let Some(arrived) = read(&mut stream) {
                kept.lock().unwrap().push(arrived);
            }
            // Until the other end is gone.
            let _ = stream.read_to_end(&mut Vec::new());
        })
    }

    fn serving(serve: impl Fn(BufReader<TcpStream>, &Mutex<Vec<Arrived>>) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let arrived = Arc::<Mutex<Vec<Arrived>>>::default();
        let kept = Arc::clone(&arrived);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (serve, kept) = (serve.clone(), Arc::clone(&kept));
                std::thread::spawn(move || serve(BufReader::new(stream), &kept));
            }
        });
        Self { port, arrived }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().unwrap().clone()
    }

    pub(crate) fn forget(&self) {
        self.arrived.lock().unwrap().clear();
    }

    /// The requests for spans.
    pub(crate) fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        let requests = self.arrived().into_iter().filter(|arrived| arrived.path == "/v1/traces");
        requests.map(|arrived| ExportTraceServiceRequest::decode(arrived.body.as_slice()).unwrap()).collect()
    }

    /// All spans, by their beginning.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let parts = self.requests().into_iter().flat_map(|request| request.resource_spans);
        let mut spans: Vec<Span> =
            parts.flat_map(|part| part.scope_spans).flat_map(|scope| scope.spans).collect();
        spans.sort_by_key(|span| (span.start_time_unix_nano, span.span_id.clone()));
        spans
    }

    /// The last request for metrics.
    pub(crate) fn metrics(&self) -> ExportMetricsServiceRequest {
        let arrived = self.arrived();
        let last = arrived.iter().rfind(|arrived| arrived.path == "/v1/metrics").expect("metrics");
        ExportMetricsServiceRequest::decode(last.body.as_slice()).unwrap()
    }
}

/// The next request, if there is one.
fn read(stream: &mut BufReader<TcpStream>) -> Option<Arrived> {
    let mut line = String::new();
    if stream.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Arrived { path, headers, body })
}

/// An attribute as text.
pub(crate) fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let value = attributes.iter().find(|pair| pair.key == name)?.value.as_ref()?;
    Some(text(value))
}

fn text(value: &AnyValue) -> String {
    match value.value.as_ref() {
        Some(Any::StringValue(text)) => text.clone(),
        Some(Any::IntValue(number)) => number.to_string(),
        Some(Any::DoubleValue(number)) => number.to_string(),
        Some(Any::BoolValue(yes)) => yes.to_string(),
        Some(Any::ArrayValue(array)) => array.values.iter().map(text).collect::<Vec<_>>().join(","),
        other => format!("{other:?}"),
    }
}
