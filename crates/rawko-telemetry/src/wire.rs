//! The messages of OTLP.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1 as metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as trace;
use rawko_core::Timestamp;

use crate::conventions::SCHEMA_URL;
use crate::metrics::{Instrument, Metrics, Point};
use crate::span::{AttributeValue, Span, SpanEvent, SpanKind};

/// Flags of a span: recorded, and whether it is known that its parent is another process's.
const SAMPLED: u32 = 1;
const KNOWS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// The request that sends spans.
pub(crate) fn spans(resource: &[(String, String)], spans: &[Span]) -> ExportTraceServiceRequest {
    let scope_spans = trace::ScopeSpans {
        scope: Some(scope()),
        spans: spans.iter().map(span).collect(),
        schema_url: SCHEMA_URL.to_owned(),
    };
    let resource_spans = trace::ResourceSpans {
        resource: Some(resource_of(resource)),
        scope_spans: vec![scope_spans],
        schema_url: String::new(),
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}

/// The request that sends what was measured since `start`.
pub(crate) fn metrics(
    resource: &[(String, String)],
    measured: &Metrics,
    start: Timestamp,
) -> ExportMetricsServiceRequest {
    let until = measured.until.max(start);
    let metrics = measured.by_instrument().into_iter();
    let scope_metrics = metric::ScopeMetrics {
        scope: Some(scope()),
        metrics: metrics.map(|(instrument, points)| one_metric(instrument, &points, start, until)).collect(),
        schema_url: SCHEMA_URL.to_owned(),
    };
    let resource_metrics = metric::ResourceMetrics {
        resource: Some(resource_of(resource)),
        scope_metrics: vec![scope_metrics],
        schema_url: String::new(),
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
}

fn scope() -> InstrumentationScope {
    let (name, version) = ("rawko".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    InstrumentationScope { name, version, ..InstrumentationScope::default() }
}

fn resource_of(attributes: &[(String, String)]) -> Resource {
    let attributes = attributes.iter().map(|(key, value)| key_value(key, Any::StringValue(value.clone())));
    Resource { attributes: attributes.collect(), ..Resource::default() }
}

fn key_value(key: &str, value: Any) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn any(value: &AttributeValue) -> Any {
    match value {
        AttributeValue::Text(text) => Any::StringValue(text.clone()),
        AttributeValue::Texts(texts) => {
            let values = texts.iter().map(|text| AnyValue { value: Some(Any::StringValue(text.clone())) });
            Any::ArrayValue(ArrayValue { values: values.collect() })
        }
        AttributeValue::Int(number) => Any::IntValue(*number),
        AttributeValue::Double(number) => Any::DoubleValue(*number),
        AttributeValue::Bool(yes) => Any::BoolValue(*yes),
    }
}

fn attributes(attributes: &[(&'static str, AttributeValue)]) -> Vec<KeyValue> {
    attributes.iter().map(|(key, value)| key_value(key, any(value))).collect()
}

fn nanos(at: Timestamp) -> u64 {
    at.0.saturating_mul(1_000_000)
}

fn span(span: &Span) -> trace::Span {
    let kind = match span.kind {
        SpanKind::Internal => trace::span::SpanKind::Internal,
        SpanKind::Client => trace::span::SpanKind::Client,
    };
    let status = span
        .failure
        .as_ref()
        .map(|why| trace::Status { message: why.clone(), code: trace::status::StatusCode::Error.into() });
    trace::Span {
        trace_id: span.trace.to_vec(),
        span_id: span.id.to_vec(),
        parent_span_id: span.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
        flags: SAMPLED | KNOWS_REMOTE | if span.parent_is_remote { IS_REMOTE } else { 0 },
        name: span.name.clone(),
        kind: kind.into(),
        start_time_unix_nano: nanos(span.start),
        end_time_unix_nano: nanos(span.end),
        attributes: attributes(&span.attributes),
        events: span.events.iter().map(event).collect(),
        status,
        ..trace::Span::default()
    }
}

fn event(event: &SpanEvent) -> trace::span::Event {
    trace::span::Event {
        time_unix_nano: nanos(event.at),
        name: event.name.to_owned(),
        attributes: attributes(&event.attributes),
        ..trace::span::Event::default()
    }
}

fn one_metric(
    instrument: Instrument,
    points: &[(&Vec<(&'static str, String)>, &Point)],
    start: Timestamp,
    until: Timestamp,
) -> metric::Metric {
    let texts = |attributes: &[(&'static str, String)]| -> Vec<KeyValue> {
        attributes.iter().map(|(key, value)| key_value(key, Any::StringValue(value.clone()))).collect()
    };
    let (start, until) = (nanos(start), nanos(until));
    let aggregation_temporality = metric::AggregationTemporality::Cumulative.into();
    let data = match instrument.bounds {
        Some(bounds) => metric::metric::Data::Histogram(metric::Histogram {
            data_points: points
                .iter()
                .map(|(attributes, point)| metric::HistogramDataPoint {
                    attributes: texts(attributes),
                    start_time_unix_nano: start,
                    time_unix_nano: until,
                    count: point.count,
                    sum: Some(point.sum),
                    bucket_counts: point.buckets.clone(),
                    explicit_bounds: bounds.to_vec(),
                    min: Some(point.min),
                    max: Some(point.max),
                    ..metric::HistogramDataPoint::default()
                })
                .collect(),
            aggregation_temporality,
        }),
        None => metric::metric::Data::Sum(metric::Sum {
            data_points: points
                .iter()
                .map(|(attributes, point)| metric::NumberDataPoint {
                    attributes: texts(attributes),
                    start_time_unix_nano: start,
                    time_unix_nano: until,
                    value: Some(metric::number_data_point::Value::AsInt(
                        i64::try_from(point.count).unwrap_or(i64::MAX),
                    )),
                    ..metric::NumberDataPoint::default()
                })
                .collect(),
            aggregation_temporality,
            is_monotonic: true,
        }),
    };
    metric::Metric {
        name: instrument.name.to_owned(),
        description: instrument.description.to_owned(),
        unit: instrument.unit.to_owned(),
        data: Some(data),
        ..metric::Metric::default()
    }
}
