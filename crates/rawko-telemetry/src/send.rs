//! One request to a collector.

use std::pin::Pin;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::Body as _;
use prost::Message;
use rawko_provider::http::{chain, client, http2_client};
use reqwest::header::{CONTENT_TYPE, HeaderMap, TE};
use reqwest::{Client, StatusCode};

use crate::settings::{Protocol, Target};

/// Most bytes of an answer that are read.
const MAX_ANSWER: usize = 64 * 1024;
/// Waits before a request is sent again.
const RETRIES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(1_000), Duration::from_millis(5_000)];

/// A connection to a collector, for one signal.
pub(crate) struct Sender {
    target: Target,
    client: Client,
}

/// Why a request failed.
struct SendError {
    message: String,
    /// Whether the same request may succeed later.
    is_passing: bool,
}

impl Sender {
    /// # Errors
    /// If the machine's certificates cannot be used.
    pub(crate) fn new(target: Target) -> Result<Self, String> {
        let client = match target.protocol {
            Protocol::Grpc => http2_client(&target.url, target.timeout)?,
            Protocol::HttpProtobuf | Protocol::HttpJson => client(&target.url, target.timeout)?,
        };
        Ok(Self { target, client })
    }

    /// Sends `message`, and again where the collector may take it later: `passing` hears why. Gives how many of its parts were
    /// refused, and why.
    ///
    /// # Errors
    /// A message, if nothing was taken.
    pub(crate) async fn send<M: Message + signal::ExportRequest>(
        &self,
        message: &M,
        passing: impl Fn(&str),
    ) -> Result<(u64, String), String> {
        let body = match self.target.protocol {
            Protocol::HttpProtobuf => Bytes::from(message.encode_to_vec()),
            Protocol::HttpJson => Bytes::from(message.json()),
            Protocol::Grpc => framed(message),
        };
        let mut waits = RETRIES.iter();
        loop {
            let failure = match self.once(body.clone()).await {
                Ok(answer) => return Ok(M::refused(&answer, self.target.protocol)),
                Err(failure) => failure,
            };
            match waits.next().filter(|_| failure.is_passing) {
                Some(wait) => {
                    passing(&failure.message);
                    tokio::time::sleep(*wait).await;
                }
                None => return Err(failure.message),
            }
        }
    }

    async fn once(&self, body: Bytes) -> Result<Bytes, SendError> {
        let content_type = match self.target.protocol {
            Protocol::HttpProtobuf => "application/x-protobuf",
            Protocol::HttpJson => "application/json",
            Protocol::Grpc => "application/grpc",
        };
        let mut request = self.client.post(self.target.url.clone()).timeout(self.target.timeout);
        if self.target.protocol == Protocol::Grpc {
            request = request.header(TE, "trailers");
        }
        let request =
            request.headers(self.target.headers.clone()).header(CONTENT_TYPE, content_type).body(body);
        // The address may hold a key.
        let passing =
            |error: reqwest::Error| SendError { message: chain(&error.without_url()), is_passing: true };
        let response = request.send().await.map_err(passing)?;
        let status = response.status();
        let (headers, answer, trailers) = read(response).await.map_err(passing)?;
        if status != StatusCode::OK {
            return Err(SendError {
                message: format!("the collector answered {status}"),
                is_passing: matches!(status.as_u16(), 429 | 502..=504),
            });
        }
        match self.target.protocol {
            Protocol::Grpc => unframed(&headers, answer, &trailers),
            Protocol::HttpProtobuf | Protocol::HttpJson => Ok(answer),
        }
    }
}

/// The headers, the beginning of the body, and the trailers.
async fn read(response: reqwest::Response) -> Result<(HeaderMap, Bytes, HeaderMap), reqwest::Error> {
    let headers = response.headers().clone();
    let mut body = reqwest::Body::from(response);
    let (mut bytes, mut trailers) = (BytesMut::new(), HeaderMap::new());
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame?.into_data() {
            Ok(data) => {
                let room = MAX_ANSWER - bytes.len();
                bytes.extend_from_slice(data.get(..room).unwrap_or(&data));
            }
            Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
    Ok((headers, bytes.freeze(), trailers))
}

/// A message of gRPC: a byte that says it is not compressed, and its length.
fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(length + 5);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    bytes.extend_from_slice(&message.encode_to_vec());
    bytes.freeze()
}

/// The message of an answer by gRPC, whose status is in the trailers, or in the headers if there is nothing else.
fn unframed(headers: &HeaderMap, answer: Bytes, trailers: &HeaderMap) -> Result<Bytes, SendError> {
    let text = |name: &str| {
        let value = trailers.get(name).or_else(|| headers.get(name))?;
        value.to_str().ok().map(str::to_owned)
    };
    let status = text("grpc-status").and_then(|status| status.parse::<u8>().ok());
    match status {
        Some(0) => Ok(answer.get(5..).map(Bytes::copy_from_slice).unwrap_or_default()),
        Some(status) => Err(SendError {
            message: format!(
                "the collector answered gRPC status {status}: {}",
                text("grpc-message").unwrap_or_default()
            ),
            // Cancelled, deadline exceeded, aborted, out of range, unavailable, data loss.
            is_passing: matches!(status, 1 | 4 | 10 | 11 | 14 | 15),
        }),
        None => {
            Err(SendError { message: "the collector did not answer by gRPC".to_owned(), is_passing: false })
        }
    }
}

pub(crate) mod signal {
    //! What differs between the two signals.

    use opentelemetry_proto::tonic::collector::metrics::v1::{
        ExportMetricsServiceRequest, ExportMetricsServiceResponse,
    };
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
    };
    use prost::Message as _;
    use serde_json::Value;

    use crate::settings::Protocol;

    /// A request.
    pub(crate) trait ExportRequest {
        /// Its JSON.
        fn json(&self) -> Vec<u8>;
        /// How much of it the answer refuses, and why.
        fn refused(answer: &[u8], protocol: Protocol) -> (u64, String);
    }

    fn in_json(answer: &[u8], count: &str) -> (u64, String) {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        let part = &answer["partialSuccess"];
        let number = part[count].as_str().and_then(|text| text.parse().ok()).or_else(|| part[count].as_u64());
        (number.unwrap_or_default(), part["errorMessage"].as_str().unwrap_or_default().to_owned())
    }

    fn count(number: i64) -> u64 {
        u64::try_from(number).unwrap_or_default()
    }

    impl ExportRequest for ExportTraceServiceRequest {
        fn json(&self) -> Vec<u8> {
            serde_json::to_vec(self).unwrap_or_default()
        }

        fn refused(answer: &[u8], protocol: Protocol) -> (u64, String) {
            if protocol == Protocol::HttpJson {
                return in_json(answer, "rejectedSpans");
            }
            let part =
                ExportTraceServiceResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
            part.map(|part| (count(part.rejected_spans), part.error_message)).unwrap_or_default()
        }
    }

    impl ExportRequest for ExportMetricsServiceRequest {
        fn json(&self) -> Vec<u8> {
            serde_json::to_vec(self).unwrap_or_default()
        }

        fn refused(answer: &[u8], protocol: Protocol) -> (u64, String) {
            if protocol == Protocol::HttpJson {
                return in_json(answer, "rejectedDataPoints");
            }
            let part =
                ExportMetricsServiceResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
            part.map(|part| (count(part.rejected_data_points), part.error_message)).unwrap_or_default()
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_was_refused_is_read_in_both_forms() {
            let text = br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#;
            let expected = (3, "too old".to_owned());
            assert_eq!(ExportTraceServiceRequest::refused(text, Protocol::HttpJson), expected);
            let part = opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess {
                rejected_spans: 3,
                error_message: "too old".to_owned(),
            };
            let bytes = ExportTraceServiceResponse { partial_success: Some(part) }.encode_to_vec();
            assert_eq!(ExportTraceServiceRequest::refused(&bytes, Protocol::Grpc), expected);
            assert_eq!(ExportTraceServiceRequest::refused(b"", Protocol::HttpProtobuf), (0, String::new()));
            assert_eq!(ExportMetricsServiceRequest::refused(b"{}", Protocol::HttpJson), (0, String::new()));
        }
    }
}
