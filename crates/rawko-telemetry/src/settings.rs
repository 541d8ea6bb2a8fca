//! Where telemetry goes: from OpenTelemetry's environment variables and the configuration. A variable goes before the
//! configuration. Without an address and without being asked for, telemetry is off.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::conventions::SemanticConventions;
use crate::ids::TraceParent;

/// The variables that hold headers, and with them keys.
const HEADERS: [&str; 3] =
    ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"];
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

/// What the configuration says of telemetry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configured {
    /// The collector's address, without the path of a signal.
    pub endpoint: Option<String>,
    /// How to speak to it.
    pub protocol: Option<Protocol>,
    /// Whether spans hold what models and tools said.
    pub content: bool,
}

/// How telemetry is sent.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where spans go, if they go anywhere.
    pub traces: Option<Target>,
    /// Where metrics go, if they go anywhere.
    pub metrics: Option<Target>,
    /// What is said of the process: `service.name` and others.
    pub resource: Vec<(String, String)>,
    /// Whether spans hold what models and tools said.
    pub content: bool,
    /// Whose names spans and metrics have.
    pub conventions: SemanticConventions,
    /// The caller's place in its trace.
    pub caller: Option<TraceParent>,
    /// How often metrics are sent during a run.
    pub interval: Duration,
}

/// Where one signal goes.
#[derive(Clone)]
pub struct Target {
    /// The address, with the signal's path.
    pub url: Url,
    /// How to speak to it.
    pub protocol: Protocol,
    /// What is sent with each request. May hold keys.
    pub(crate) headers: HeaderMap,
    /// The longest time of one request.
    pub timeout: Duration,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("url", &self.shown())
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

impl Target {
    /// Its address for people: without a name, a password or a query, which may be keys.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut url = self.url.clone();
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.to_string()
    }
}

/// The protocol of a collector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// `http/protobuf`.
    #[default]
    HttpProtobuf,
    /// `http/json`.
    HttpJson,
    /// `grpc`.
    Grpc,
}

impl FromStr for Protocol {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "http/protobuf" => Ok(Self::HttpProtobuf),
            "http/json" => Ok(Self::HttpJson),
            "grpc" => Ok(Self::Grpc),
            _ => Err(()),
        }
    }
}

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct SettingsError {
    /// The variable or the key.
    pub name: String,
    /// What it should be.
    pub message: String,
}

fn wrong(name: &str, message: impl Into<String>) -> SettingsError {
    SettingsError { name: name.to_owned(), message: message.into() }
}

#[derive(Clone, Copy)]
enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        }
    }

    /// Its path in both protocols.
    pub(crate) fn path(self, protocol: Protocol) -> &'static str {
        match (self, protocol) {
            (Self::Traces, Protocol::Grpc) => "opentelemetry.proto.collector.trace.v1.TraceService/Export",
            (Self::Metrics, Protocol::Grpc) => {
                "opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
            }
            (Self::Traces, _) => "v1/traces",
            (Self::Metrics, _) => "v1/metrics",
        }
    }
}

impl Settings {
    /// The settings, or `None` where telemetry is off.
    ///
    /// # Errors
    /// The first setting that cannot be used. Then nothing is sent.
    pub fn new(
        variable: &dyn Fn(&str) -> Option<String>,
        configured: &Configured,
    ) -> Result<Option<Self>, SettingsError> {
        let variable = |name: &str| {
            variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        if is_true(variable("OTEL_SDK_DISABLED")) {
            return Ok(None);
        }
        let traces = target(Signal::Traces, &variable, configured)?;
        let metrics = target(Signal::Metrics, &variable, configured)?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let content = variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
            .map_or(configured.content, |value| {
                ["true", "span_only", "span_and_event"].contains(&value.to_ascii_lowercase().as_str())
            });
        let interval = milliseconds("OTEL_METRIC_EXPORT_INTERVAL", &variable)?.unwrap_or(DEFAULT_INTERVAL);
        Ok(Some(Self {
            traces,
            metrics,
            resource: resource(&variable)?,
            content,
            conventions: variable("OTEL_SEMCONV_STABILITY_OPT_IN")
                .map_or_else(SemanticConventions::default, |list| SemanticConventions::chosen(&list)),
            // By the specification, one that is broken begins a new trace.
            caller: variable("TRACEPARENT").and_then(|text| text.parse().ok()),
            interval,
        }))
    }

    /// The keys that the variables hold: values of headers, and the variables' whole texts.
    #[must_use]
    pub fn secrets(variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let texts = HEADERS.iter().filter_map(|name| variable(name));
        texts
            .flat_map(|text| {
                let values = pairs(&text).filter_map(|pair| Some(pair.ok()?.1)).collect::<Vec<_>>();
                values.into_iter().flat_map(|value| {
                    // `Bearer KEY` is shown without its first word, too.
                    let key = value.split_once(' ').map(|(_, key)| key.trim().to_owned());
                    std::iter::once(value).chain(key)
                })
            })
            .collect()
    }
}

fn target(
    signal: Signal,
    variable: &dyn Fn(&str) -> Option<String>,
    configured: &Configured,
) -> Result<Option<Target>, SettingsError> {
    let exporter_name = format!("OTEL_{}_EXPORTER", signal.name());
    let exporter = variable(&exporter_name);
    match exporter.as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(None),
        Some(_) => return Err(wrong(&exporter_name, "rawko has the exporters `otlp` and `none`")),
    }
    let of_signal = |what: &str| format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.name());
    let either = |what: &str| {
        let (own, general) = (of_signal(what), format!("OTEL_EXPORTER_OTLP_{what}"));
        variable(&own).map(|value| (own, value)).or_else(|| variable(&general).map(|value| (general, value)))
    };
    let protocol = match either("PROTOCOL") {
        Some((name, text)) => {
            text.parse().map_err(|()| wrong(&name, "it should be `http/protobuf`, `http/json` or `grpc`"))?
        }
        None => configured.protocol.unwrap_or_default(),
    };
    let (name, url, is_whole) =
        match (variable(&of_signal("ENDPOINT")), variable("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some(url), _) => (of_signal("ENDPOINT"), url, protocol != Protocol::Grpc),
            (None, Some(url)) => ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), url, false),
            (None, None) => match &configured.endpoint {
                Some(url) => ("observability.endpoint".to_owned(), url.clone(), false),
                None if exporter.is_some() => {
                    let port = if protocol == Protocol::Grpc { 4317 } else { 4318 };
                    (exporter_name, format!("http://localhost:{port}"), false)
                }
                None => return Ok(None),
            },
        };
    let url = if is_whole { url } else { format!("{}/{}", url.trim_end_matches('/'), signal.path(protocol)) };
    let url = Url::parse(&url).ok().filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
    let url = url.ok_or_else(|| wrong(&name, "it should be an address like `http://localhost:4318`"))?;
    let timeout = match either("TIMEOUT") {
        Some((name, _)) => milliseconds(&name, variable)?.unwrap_or(DEFAULT_TIMEOUT),
        None => DEFAULT_TIMEOUT,
    };
    let headers = match either("HEADERS") {
        Some((name, text)) => headers(&name, &text)?,
        None => HeaderMap::new(),
    };
    Ok(Some(Target { url, protocol, headers, timeout }))
}

fn is_true(value: Option<String>) -> bool {
    value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn milliseconds(
    name: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Duration>, SettingsError> {
    let Some(text) = variable(name) else { return Ok(None) };
    match text.parse() {
        Ok(ms) if ms > 0 => Ok(Some(Duration::from_millis(ms))),
        _ => Err(wrong(name, "it should be a number of milliseconds")),
    }
}

/// The pairs of `name=value,name=value`, decoded.
fn pairs(text: &str) -> impl Iterator<Item = Result<(String, String), ()>> + '_ {
    let decoded = |text: &str| percent_decode_str(text.trim()).decode_utf8().map(Into::into).map_err(|_| ());
    text.split(',').filter(|pair| !pair.trim().is_empty()).map(move |pair| {
        let (name, value) = pair.split_once('=').ok_or(())?;
        Ok((decoded(name)?, decoded(value)?))
    })
}

/// The message names no value: it may be a key.
fn headers(name: &str, text: &str) -> Result<HeaderMap, SettingsError> {
    let wrong = || wrong(name, "it should be a list like `name=value,name=value`");
    let mut headers = HeaderMap::new();
    for pair in pairs(text) {
        let (key, value) = pair.map_err(|()| wrong())?;
        let key = HeaderName::from_str(&key.to_ascii_lowercase()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

fn resource(variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, SettingsError> {
    const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let mut resource = vec![
        ("service.name".to_owned(), "rawko".to_owned()),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let mut set = |name: String, value: String| match resource.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known = value,
        None => resource.push((name, value)),
    };
    for pair in pairs(&variable(NAME).unwrap_or_default()) {
        let (name, value) =
            pair.map_err(|()| wrong(NAME, "it should be a list like `name=value,name=value`"))?;
        set(name, value);
    }
    if let Some(name) = variable("OTEL_SERVICE_NAME") {
        set("service.name".to_owned(), name);
    }
    Ok(resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(
        variables: &[(&str, &str)],
        configured: &Configured,
    ) -> Result<Option<Settings>, SettingsError> {
        let variables = variables.to_owned();
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Settings::new(&variable, configured)
    }

    /// The address of spans and that of metrics.
    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: (&str, &str)) {
        let found = settings(variables, &Configured::default()).unwrap();
        let url = |target: Option<Target>| target.map_or("-".to_owned(), |target| target.url.to_string());
        let (traces, metrics) = found.map_or((None, None), |found| (found.traces, found.metrics));
        assert_eq!((url(traces).as_str(), url(metrics).as_str()), expected, "{variables:?}");
    }

    #[test]
    fn it_is_off_unless_it_is_asked_for() {
        check(&[], ("-", "-"));
        check(&[("OTEL_SERVICE_NAME", "x"), ("TRACEPARENT", "00-aa-bb-01")], ("-", "-"));
        check(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], ("-", "-"));
        check(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"), ("OTEL_SDK_DISABLED", "TRUE")], ("-", "-"));
        check(
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"), ("OTEL_METRICS_EXPORTER", "none")],
            ("http://a:1/v1/traces", "-"),
        );
        check(&[("OTEL_TRACES_EXPORTER", "otlp")], ("http://localhost:4318/v1/traces", "-"));
    }

    #[test]
    fn addresses_get_the_path_of_their_signal() {
        let both = ("http://a/b/v1/traces", "http://a/b/v1/metrics");
        check(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a/b")], both);
        check(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a/b/")], both);
        check(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a/b")], ("http://a/b", "-"));
        check(
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            (
                "http://a:4317/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                "http://a:4317/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            ),
        );
    }

    #[track_caller]
    fn check_wrong(variable: (&str, &str), expected: &str) {
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"), variable];
        // The last of a name counts, as in the table of a process.
        let variables: Vec<_> = variables.into_iter().rev().collect();
        let error = settings(&variables, &Configured::default()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn what_cannot_be_used_is_named_without_its_value() {
        check_wrong(
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"),
            "OTEL_EXPORTER_OTLP_ENDPOINT: it should be an address like `http://localhost:4318`",
        );
        check_wrong(
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http"),
            "OTEL_EXPORTER_OTLP_PROTOCOL: it should be `http/protobuf`, `http/json` or `grpc`",
        );
        check_wrong(
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            "OTEL_EXPORTER_OTLP_HEADERS: it should be a list like `name=value,name=value`",
        );
        check_wrong(
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            "OTEL_EXPORTER_OTLP_TIMEOUT: it should be a number of milliseconds",
        );
        check_wrong(
            ("OTEL_TRACES_EXPORTER", "console"),
            "OTEL_TRACES_EXPORTER: rawko has the exporters `otlp` and `none`",
        );
    }

    #[test]
    fn variables_go_before_the_configuration() {
        let configured = Configured {
            endpoint: Some("http://configured".into()),
            protocol: Some(Protocol::HttpJson),
            content: true,
        };
        let found = settings(&[], &configured).unwrap().unwrap();
        let traces = found.traces.unwrap();
        assert_eq!(
            (traces.url.as_str(), traces.protocol),
            ("http://configured/v1/traces", Protocol::HttpJson)
        );
        assert!(found.content);
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://k:pw@given?key=1"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "NO_CONTENT"),
        ];
        let found = settings(&variables, &configured).unwrap().unwrap();
        assert!(!found.content);
        assert_eq!(found.traces.unwrap().protocol, Protocol::HttpProtobuf);
        let shown = format!("{:?}", found.metrics.unwrap());
        assert!(!shown.contains("pw") && !shown.contains("key"), "{shown}");
    }

    #[test]
    fn older_names_are_there_where_they_are_asked_for_by_name() {
        let check = |list: &str, expected: SemanticConventions| {
            let variables = [("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_SEMCONV_STABILITY_OPT_IN", list)];
            let found = settings(&variables, &Configured::default()).unwrap().unwrap();
            assert_eq!(found.conventions, expected, "{list}");
        };
        check("", SemanticConventions::V0_1);
        check("http/dup,gen_ai_latest_experimental", SemanticConventions::V0_1);
        check("http/dup, gen_ai/1.42.0", SemanticConventions::V1_42);
    }

    #[test]
    fn names_and_headers_are_decoded() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20tok-1, x-team = a"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=a%2Cb"),
            ("OTEL_SERVICE_NAME", "mine"),
        ];
        let found = settings(&variables, &Configured::default()).unwrap().unwrap();
        let headers = found.traces.unwrap().headers;
        assert_eq!(headers["authorization"], "Bearer tok-1");
        assert_eq!(headers["x-team"], "a");
        let resource: Vec<String> = found
            .resource
            .iter()
            .filter(|(name, _)| name != "service.version")
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        assert_eq!(resource, ["service.name=mine", "team=a,b"]);
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(Settings::secrets(&variable), ["Bearer tok-1", "tok-1", "a"]);
    }
}
