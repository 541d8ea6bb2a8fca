//! `observability:` — where telemetry goes (`docs/telemetry.md`). Keys are never here: they are in OpenTelemetry's own variables,
//! which also go before these settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::check_url;
use super::claim::{ClaimKind, Claims};
use super::diagnostic::whole;

/// `observability:`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ObservabilityConfig {
    /// Address of an OpenTelemetry collector, e.g. `http://localhost:4318`. Spans and metrics of runs are sent to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// How to speak to it. Default: `http/protobuf`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<OtlpProtocol>,
    /// Whether spans hold tasks, prompts, answers, and arguments and results of tools; without secrets.
    pub capture_content: bool,
}

/// A protocol of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OtlpProtocol {
    /// Protocol buffers over HTTP.
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
    /// JSON over HTTP.
    #[serde(rename = "http/json")]
    HttpJson,
    /// gRPC.
    #[serde(rename = "grpc")]
    Grpc,
}

impl ObservabilityConfig {
    /// What is wrong with the address.
    pub(super) fn fault(&self) -> Option<&'static str> {
        check_url(self.endpoint.as_deref()?).err()
    }
}

impl Claims<'_> {
    /// Spans say what the user works on, wherever they go; with content they say it in full.
    pub(super) fn observability(&mut self, config: &ObservabilityConfig) {
        if let Some(endpoint) = &config.endpoint {
            let message = format!("telemetry of runs would be sent to {}", whole(endpoint));
            self.add(ClaimKind::Server, "/observability/endpoint", message);
        }
        if config.capture_content {
            let message = "telemetry of runs would hold what models and tools say".to_owned();
            self.add(ClaimKind::Server, "/observability/captureContent", message);
        }
    }
}
