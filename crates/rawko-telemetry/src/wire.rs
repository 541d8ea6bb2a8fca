//! The messages of OTLP.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1 as metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as trace;
use rawko_core::Timestamp;

use crate::conventions::SemanticConventions;
use crate::metrics::{Instrument, Metrics, Point};
use crate::span::{nanos, text};

/// The request that sends spans.
pub(crate) fn spans(
    resource: &[(String, String)],
    conventions: SemanticConventions,
    spans: Vec<trace::Span>,
) -> ExportTraceServiceRequest {
    let schema_url = conventions.schema_url().to_owned();
    let scope_spans = trace::ScopeSpans { scope: Some(scope()), spans, schema_url };
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
    let start = nanos(start);
    let until = measured.until.max(start);
    let metrics = measured.by_instrument().into_iter();
    let scope_metrics = metric::ScopeMetrics {
        scope: Some(scope()),
        metrics: metrics.map(|(instrument, points)| one_metric(instrument, &points, start, until)).collect(),
        schema_url: measured.conventions.schema_url().to_owned(),
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
    let attributes = attributes.iter().map(|(key, value)| text(key, value));
    Resource { attributes: attributes.collect(), ..Resource::default() }
}

fn one_metric(
    instrument: Instrument,
    points: &[(&Vec<(&'static str, String)>, &Point)],
    start: u64,
    until: u64,
) -> metric::Metric {
    let texts = |attributes: &[(&'static str, String)]| -> Vec<KeyValue> {
        attributes.iter().map(|(key, value)| text(key, value)).collect()
    };
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
                    value: Some(metric::number_data_point::Value::AsInt(point.whole())),
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
