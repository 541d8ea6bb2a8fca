//! The metrics of a process, added up from its spans.
//!
//! | SPEC-0001 | here |
//! | --- | --- |
//! | `taskDuration` | `gen_ai.invoke_agent.duration` of the operation `invoke_workflow` |
//! | `agentIterations` | `gen_ai.invoke_agent.duration` of the operation `invoke_agent`, whose count it is |
//! | `tokenUsage` | `gen_ai.client.inference.usage.*`; for a single call `gen_ai.client.inference.operation.*` |
//! | `errors` | `rawko.errors`: the conventions have none |
//! | `toolCalls` | `gen_ai.execute_tool.duration`, whose count it is |
//!
//! `gen_ai.client.inference.duration` is there because the conventions require it of who calls models.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::conventions::{self as name, SemanticConventions};
use crate::span::SpanExt;

const TASK_SECONDS: &[f64] = &[1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0];
const AGENT_SECONDS: &[f64] = &[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];
const CALL_SECONDS: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// One metric: its name, unit, meaning and buckets; without buckets it is a sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Instrument {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) description: &'static str,
    pub(crate) bounds: Option<&'static [f64]>,
}

const fn histogram(
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    bounds: &'static [f64],
) -> Instrument {
    Instrument { name, unit, description, bounds: Some(bounds) }
}

const fn counter(name: &'static str, unit: &'static str, description: &'static str) -> Instrument {
    Instrument { name, unit, description, bounds: None }
}

const AGENTS: Instrument = histogram(
    "gen_ai.invoke_agent.duration",
    "s",
    "The duration of a single agent invocation.",
    AGENT_SECONDS,
);
const CALLS: Instrument = histogram(
    "gen_ai.client.inference.duration",
    "s",
    "GenAI client inference operation duration.",
    CALL_SECONDS,
);
const TOOLS: Instrument =
    histogram("gen_ai.execute_tool.duration", "s", "The duration of a single tool execution.", CALL_SECONDS);
const ERRORS: Instrument = counter("rawko.errors", "{error}", "Operations that failed.");

/// What adds up the tokens of all calls, and the attribute of a call that it adds up.
const USAGE: [(Instrument, &str); 4] = [
    (
        counter(
            "gen_ai.client.inference.usage.input_tokens",
            "{token}",
            "Input tokens, cached ones included.",
        ),
        name::INPUT_TOKENS,
    ),
    (
        counter(
            "gen_ai.client.inference.usage.output_tokens",
            "{token}",
            "Output tokens, those of reasoning included.",
        ),
        name::OUTPUT_TOKENS,
    ),
    (
        counter(
            "gen_ai.client.inference.usage.cache_read.input_tokens",
            "{token}",
            "Input tokens that were served from the provider's cache.",
        ),
        name::CACHE_READ_TOKENS,
    ),
    (
        counter(
            "gen_ai.client.inference.usage.cache_write.input_tokens",
            "{token}",
            "Input tokens that were written to the provider's cache.",
        ),
        name::CACHE_WRITE_TOKENS,
    ),
];

/// The tokens of a single call.
const CALL_TOKENS: [(Instrument, &str); 2] = [
    (
        histogram(
            "gen_ai.client.inference.operation.input_tokens",
            "{token}",
            "Input tokens of a call.",
            TOKENS,
        ),
        name::INPUT_TOKENS,
    ),
    (
        histogram(
            "gen_ai.client.inference.operation.output_tokens",
            "{token}",
            "Output tokens of a call.",
            TOKENS,
        ),
        name::OUTPUT_TOKENS,
    ),
];

// The instruments of the older conventions, where they differ.
const TASKS_1_42: Instrument =
    histogram("gen_ai.workflow.duration", "s", "GenAI workflow duration.", TASK_SECONDS);
const CALLS_1_42: Instrument =
    histogram("gen_ai.client.operation.duration", "s", "GenAI operation duration.", CALL_SECONDS);
const USAGE_1_42: Instrument =
    histogram("gen_ai.client.token.usage", "{token}", "Number of input and output tokens used.", TOKENS);

type Attributes = Vec<(&'static str, String)>;

/// What was measured so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics {
    points: BTreeMap<(&'static str, Attributes), Point>,
    /// Whose names the metrics have.
    pub(crate) conventions: SemanticConventions,
    /// The end of the latest span.
    pub(crate) until: u64,
}

/// The values of one metric with the same attributes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) instrument: Instrument,
    pub(crate) count: u64,
    pub(crate) sum: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// How many values are in each bucket; the last is above all bounds.
    pub(crate) buckets: Vec<u64>,
}

impl Point {
    fn new(instrument: Instrument) -> Self {
        let buckets = instrument.bounds.map_or(0, |bounds| bounds.len() + 1);
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { instrument, count: 0, sum: 0.0, min, max, buckets: vec![0; buckets] }
    }

    /// The sum of whole numbers.
    #[allow(clippy::cast_possible_truncation, reason = "below 2^53, a sum of whole numbers is exact")]
    pub(crate) fn whole(&self) -> i64 {
        self.sum as i64
    }

    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let bounds = self.instrument.bounds.unwrap_or_default();
        let bucket = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
    }
}

impl Metrics {
    /// Nothing was measured yet.
    pub(crate) fn new(conventions: SemanticConventions) -> Self {
        Self { conventions, ..Self::default() }
    }

    /// Adds what a span that has ended says.
    pub(crate) fn record(&mut self, span: &Span) {
        self.until = self.until.max(span.end_time_unix_nano);
        match span.operation().unwrap_or_default() {
            operation @ (name::INVOKE_WORKFLOW | name::INVOKE_AGENT) => match self.conventions {
                SemanticConventions::V0_1 => {
                    let attributes = [name::OPERATION, name::AGENT_NAME, name::MODEL, name::ERROR_TYPE];
                    self.add(AGENTS, span, &attributes, span.seconds());
                }
                SemanticConventions::V1_42 if operation == name::INVOKE_WORKFLOW => {
                    let attributes = [self.conventions.workflow_name(), name::ERROR_TYPE];
                    self.add(TASKS_1_42, span, &attributes, span.seconds());
                }
                SemanticConventions::V1_42 => {
                    let attributes = [name::AGENT_NAME, name::MODEL, name::ERROR_TYPE];
                    self.add(AGENTS, span, &attributes, span.seconds());
                }
            },
            name::EXECUTE_TOOL => {
                let attributes = [name::TOOL_NAME, name::TOOL_TYPE, name::AGENT_NAME, name::ERROR_TYPE];
                self.add(TOOLS, span, &attributes, span.seconds());
            }
            name::CHAT => self.call(span),
            _ => {}
        }
        if let Some(kind) = span.text(name::ERROR_TYPE) {
            // What the conventions have no word for goes by its name, such as `rawko.verify`.
            let operation = span.operation().unwrap_or(&span.name).to_owned();
            self.value(ERRORS, vec![(name::OPERATION, operation), (name::ERROR_TYPE, kind.to_owned())], 1.0);
        }
    }

    fn call(&mut self, span: &Span) {
        let of_call = [name::OPERATION, name::PROVIDER, name::MODEL, name::ERROR_TYPE];
        let with = |last: (&'static str, &str)| {
            let mut attributes = chosen(span, &[name::OPERATION, name::PROVIDER, name::MODEL]);
            attributes.push((last.0, last.1.to_owned()));
            attributes
        };
        if self.conventions == SemanticConventions::V1_42 {
            self.add(CALLS_1_42, span, &of_call, span.seconds());
            for (count, kind) in [(name::INPUT_TOKENS, "input"), (name::OUTPUT_TOKENS, "output")] {
                if let Some(count) = tokens(span, count) {
                    self.value(USAGE_1_42, with((name::TOKEN_TYPE, kind)), count);
                }
            }
            return;
        }
        self.add(CALLS, span, &of_call, span.seconds());
        for (instrument, count) in USAGE {
            let counted = tokens(span, count);
            // Agents produce text alone. Of the input, which may hold pictures, providers do not say it.
            let modality = if count == name::OUTPUT_TOKENS && counted.is_some() { "text" } else { "unknown" };
            self.value(instrument, with((name::TOKEN_MODALITY, modality)), counted.unwrap_or_default());
        }
        for (instrument, count) in CALL_TOKENS {
            self.add(instrument, span, &of_call, tokens(span, count).unwrap_or_default());
        }
    }

    fn add(&mut self, instrument: Instrument, span: &Span, attributes: &[&'static str], value: f64) {
        self.value(instrument, chosen(span, attributes), value);
    }

    fn value(&mut self, instrument: Instrument, attributes: Attributes, value: f64) {
        let point = self.points.entry((instrument.name, attributes));
        point.or_insert_with(|| Point::new(instrument)).add(value);
    }

    /// The points by metric.
    pub(crate) fn by_instrument(&self) -> Vec<(Instrument, Vec<(&Attributes, &Point)>)> {
        let mut metrics: Vec<(Instrument, Vec<(&Attributes, &Point)>)> = Vec::new();
        for ((_, attributes), point) in &self.points {
            match metrics.last_mut().filter(|(known, _)| *known == point.instrument) {
                Some((_, points)) => points.push((attributes, point)),
                None => metrics.push((point.instrument, vec![(attributes, point)])),
            }
        }
        metrics
    }

    /// Whether nothing was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}

#[allow(clippy::cast_precision_loss, reason = "token counts are small")]
fn tokens(span: &Span, count: &str) -> Option<f64> {
    match span.get(count)? {
        Value::IntValue(count) => Some(*count as f64),
        _ => None,
    }
}

fn chosen(span: &Span, names: &[&'static str]) -> Attributes {
    names.iter().filter_map(|name| Some((*name, span.text(name)?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::{nanos, text};
    use rawko_core::Timestamp;

    fn span(operation: &str, ms: u64) -> Span {
        Span {
            name: operation.into(),
            start_time_unix_nano: nanos(Timestamp(1_000)),
            end_time_unix_nano: nanos(Timestamp(1_000 + ms)),
            attributes: vec![text(name::OPERATION, operation)],
            ..Span::default()
        }
    }

    /// What is measured of a few spans.
    fn measured(conventions: SemanticConventions) -> String {
        let mut metrics = Metrics::new(conventions);
        for (operation, name) in [(name::INVOKE_WORKFLOW, "rawko"), (name::INVOKE_AGENT, "developer")] {
            let mut span = span(operation, 500);
            let named = if name == "rawko" { conventions.workflow_name() } else { name::AGENT_NAME };
            span.set_text(named, name);
            metrics.record(&span);
        }
        let mut tool = span(name::EXECUTE_TOOL, 30);
        tool.set_text(name::TOOL_NAME, "Bash");
        metrics.record(&tool);
        tool.end(Timestamp(200_000));
        metrics.record(&tool);
        tool.fail("timeout", String::new());
        metrics.record(&tool);
        let mut chat = span(name::CHAT, 10);
        chat.set_number(name::INPUT_TOKENS, 4);
        metrics.record(&chat);
        let mut verify = span("rawko.verify", 1);
        verify.attributes.clear();
        metrics.record(&verify);
        verify.fail("checks_failed", String::new());
        metrics.record(&verify);
        assert_eq!(metrics.until, nanos(Timestamp(200_000)));
        let mut failed = span(name::CHAT, 20);
        failed.fail("timeout", String::new());
        metrics.record(&failed);
        let shown: Vec<String> = metrics
            .by_instrument()
            .into_iter()
            .flat_map(|(instrument, points)| {
                points.into_iter().map(move |(attributes, point)| {
                    let full: Vec<usize> =
                        (0..).zip(&point.buckets).filter(|(_, n)| **n > 0).map(|(at, _)| at).collect();
                    let attributes: Vec<&str> = attributes.iter().map(|(_, value)| value.as_str()).collect();
                    format!("{} {attributes:?}: {} in {full:?}, {}", instrument.name, point.count, point.sum)
                })
            })
            .collect();
        shown.join("\n")
    }

    #[test]
    fn spans_are_counted_by_their_attributes() {
        insta::assert_snapshot!(measured(SemanticConventions::V0_1), @r#"
        gen_ai.client.inference.duration ["chat"]: 1 in [0], 0.01
        gen_ai.client.inference.duration ["chat", "timeout"]: 1 in [1], 0.02
        gen_ai.client.inference.operation.input_tokens ["chat"]: 1 in [1], 4
        gen_ai.client.inference.operation.input_tokens ["chat", "timeout"]: 1 in [0], 0
        gen_ai.client.inference.operation.output_tokens ["chat"]: 1 in [0], 0
        gen_ai.client.inference.operation.output_tokens ["chat", "timeout"]: 1 in [0], 0
        gen_ai.client.inference.usage.cache_read.input_tokens ["chat", "unknown"]: 2 in [], 0
        gen_ai.client.inference.usage.cache_write.input_tokens ["chat", "unknown"]: 2 in [], 0
        gen_ai.client.inference.usage.input_tokens ["chat", "unknown"]: 2 in [], 4
        gen_ai.client.inference.usage.output_tokens ["chat", "unknown"]: 2 in [], 0
        gen_ai.execute_tool.duration ["Bash"]: 2 in [2, 14], 199.03
        gen_ai.execute_tool.duration ["Bash", "timeout"]: 1 in [14], 199
        gen_ai.invoke_agent.duration ["invoke_agent", "developer"]: 1 in [3], 0.5
        gen_ai.invoke_agent.duration ["invoke_workflow", "rawko"]: 1 in [3], 0.5
        rawko.errors ["chat", "timeout"]: 1 in [], 1
        rawko.errors ["execute_tool", "timeout"]: 1 in [], 1
        rawko.errors ["rawko.verify", "checks_failed"]: 1 in [], 1
        "#);
    }

    #[test]
    fn the_older_names_count_the_same() {
        insta::assert_snapshot!(measured(SemanticConventions::V1_42), @r#"
        gen_ai.client.operation.duration ["chat"]: 1 in [0], 0.01
        gen_ai.client.operation.duration ["chat", "timeout"]: 1 in [1], 0.02
        gen_ai.client.token.usage ["chat", "input"]: 1 in [1], 4
        gen_ai.execute_tool.duration ["Bash"]: 2 in [2, 14], 199.03
        gen_ai.execute_tool.duration ["Bash", "timeout"]: 1 in [14], 199
        gen_ai.invoke_agent.duration ["developer"]: 1 in [3], 0.5
        gen_ai.workflow.duration ["rawko"]: 1 in [0], 0.5
        rawko.errors ["chat", "timeout"]: 1 in [], 1
        rawko.errors ["execute_tool", "timeout"]: 1 in [], 1
        rawko.errors ["rawko.verify", "checks_failed"]: 1 in [], 1
        "#);
    }
}
