//! Telemetry, taken by a collector on loopback.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::trace::v1::Span;
use rawko_core::text::hex;
use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use rustix::process::Signal;

use crate::answers::{bash, complete, developer, report, select};
use crate::collector::{Collector, attribute};
use crate::trial::{CANARY, Trial};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A task with one command.
fn work(command: &str) -> Vec<Answer> {
    vec![select("developer"), bash(command), report("did it"), complete("done")]
}

fn trial(command: &str, collector: &Collector) -> Trial {
    Trial::new(ModelServer::sequence(work(command))).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
}

/// A span's name, and those of the spans that it is in, innermost first.
fn line(span: &Span, by_id: &BTreeMap<&[u8], &Span>) -> String {
    let mut names = vec![span.name.clone()];
    let mut parent = &span.parent_span_id;
    while let Some(outer) = by_id.get(parent.as_slice()) {
        names.push(outer.name.clone());
        parent = &outer.parent_span_id;
    }
    names.join(" < ")
}

/// The spans, each with those that it is in, without what takes no part in the conversation.
fn tree(spans: &[Span]) -> Vec<String> {
    let by_id = spans.iter().map(|span| (span.span_id.as_slice(), span)).collect();
    let mut lines: Vec<String> = spans.iter().map(|span| line(span, &by_id)).collect();
    lines.sort();
    lines
}

#[track_caller]
fn only<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let first = found.next().unwrap_or_else(|| panic!("no `{name}` in {:?}", tree(spans)));
    assert!(found.next().is_none(), "more than one `{name}`");
    first
}

#[test]
fn a_run_is_sent_as_spans_by_the_conventions() {
    let collector = Collector::start();
    let trial = trial("printf '%s' \"$TRACEPARENT\" > place", &collector);
    let ended = trial
        .env("OTEL_SERVICE_NAME", "mine")
        .env("OTEL_RESOURCE_ATTRIBUTES", "team=a")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20tok-canary-77d0e1")
        .env("TRACEPARENT", CALLER)
        .run("Say where we are.");
    ended.exits(0);
    let spans = collector.spans();
    let model =
        attribute(&only(&spans, "invoke_agent developer").attributes, "gen_ai.request.model").unwrap();
    let lines: Vec<String> = tree(&spans).iter().map(|line| line.replace(&model, "MODEL")).collect();
    insta::assert_snapshot!(lines.join("\n"));

    // Everything is in the caller's trace, and the root is in the caller's span.
    assert!(spans.iter().all(|span| hex(&span.trace_id) == "4bf92f3577b34da6a3ce929d0e0e4736"));
    let root = only(&spans, "invoke_workflow rawko");
    assert_eq!((hex(&root.parent_span_id).as_str(), root.flags), ("00f067aa0ba902b7", 0x301));
    assert!(spans.iter().all(|span| {
        root.start_time_unix_nano <= span.start_time_unix_nano
            && span.end_time_unix_nano <= root.end_time_unix_nano
    }));
    // The command saw the place of its own call.
    let tool = only(&spans, "execute_tool Bash");
    let seen = std::fs::read_to_string(ended.trial.project().join("place")).unwrap();
    assert_eq!(seen, format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", hex(&tool.span_id)));

    let value = |span: &Span, name: &str| attribute(&span.attributes, name).unwrap_or_default();
    assert_eq!(value(tool, "gen_ai.operation.name"), "execute_tool");
    assert_eq!(
        (value(tool, "gen_ai.tool.type"), value(tool, "process.exit.code")),
        ("function".into(), "0".into())
    );
    assert_eq!(value(root, "rawko.status"), "claimed");
    let chats: Vec<&Span> = spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
    assert_eq!(chats.len(), 4);
    for chat in &chats {
        assert_eq!((chat.kind, value(chat, "gen_ai.provider.name").as_str()), (3, "anthropic"));
        assert_eq!(value(chat, "gen_ai.conversation.id"), value(root, "gen_ai.conversation.id"));
    }
    let sum = |name: &str| {
        chats.iter().map(|chat| value(chat, name).parse::<u64>().unwrap()).sum::<u64>().to_string()
    };
    assert_eq!(value(root, "gen_ai.usage.input_tokens"), sum("gen_ai.usage.input_tokens"));

    assert_eq!(value(root, "gen_ai.agent.name"), "rawko");
    let request = &collector.requests()[0].resource_spans[0];
    assert_eq!(request.scope_spans[0].schema_url, "https://opentelemetry.io/schemas/gen-ai/0.1.0");
    let resource = &request.resource.as_ref().unwrap().attributes;
    assert_eq!(attribute(resource, "service.name").as_deref(), Some("mine"));
    assert_eq!(attribute(resource, "team").as_deref(), Some("a"));
    let headers = &collector.arrived()[0].headers;
    assert!(headers.contains(&("authorization".into(), "Bearer tok-canary-77d0e1".into())), "{headers:?}");

    // Content was not asked for, and no key is ever sent.
    for arrived in collector.arrived() {
        let text = String::from_utf8_lossy(&arrived.body).into_owned();
        for secret in [CANARY, "tok-canary", "Say where", "printf", "did it"] {
            assert!(!text.contains(secret), "{secret} in {}", arrived.path);
        }
    }
}

/// The schema of the metrics that have arrived, and how many values or sums each metric has.
fn counts(collector: &Collector) -> (String, BTreeMap<String, u64>) {
    let metrics = collector.metrics();
    let scope = &metrics.resource_metrics[0].scope_metrics[0];
    let counts = scope.metrics.iter().map(|metric| {
        let count = match metric.data.as_ref().unwrap() {
            Data::Histogram(histogram) => histogram.data_points.iter().map(|point| point.count).sum(),
            Data::Sum(sum) => sum.data_points.len() as u64,
            other => panic!("{other:?}"),
        };
        (metric.name.clone(), count)
    });
    (scope.schema_url.clone(), counts.collect())
}

#[track_caller]
fn check_counts(collector: &Collector, schema: &str, expected: &[(&str, u64)]) {
    let (url, counts) = counts(collector);
    assert_eq!(url, format!("https://opentelemetry.io/schemas/gen-ai/{schema}"));
    let expected = expected.iter().map(|(name, count)| ((*name).to_owned(), *count));
    assert_eq!(counts, expected.collect::<BTreeMap<_, _>>());
}

#[test]
fn metrics_come_with_the_end_of_a_run() {
    let collector = Collector::start();
    trial("exit 3", &collector).run("Fail a command.").exits(0);
    let expected = [
        ("gen_ai.client.inference.duration", 4),
        ("gen_ai.client.inference.operation.input_tokens", 4),
        ("gen_ai.client.inference.operation.output_tokens", 4),
        // Sums for each model: there is one.
        ("gen_ai.client.inference.usage.cache_read.input_tokens", 1),
        ("gen_ai.client.inference.usage.cache_write.input_tokens", 1),
        ("gen_ai.client.inference.usage.input_tokens", 1),
        ("gen_ai.client.inference.usage.output_tokens", 1),
        ("gen_ai.execute_tool.duration", 1),
        // The task and its one agent.
        ("gen_ai.invoke_agent.duration", 2),
        ("rawko.errors", 1),
    ];
    check_counts(&collector, "0.1.0", &expected);
    let sum_of_calls: u64 = collector
        .spans()
        .iter()
        .filter(|span| span.name.starts_with("chat "))
        .map(|span| attribute(&span.attributes, "gen_ai.usage.input_tokens").unwrap().parse::<u64>().unwrap())
        .sum();
    let metrics = collector.metrics();
    let metrics = &metrics.resource_metrics[0].scope_metrics[0].metrics;
    let used = metrics.iter().find(|it| it.name == "gen_ai.client.inference.usage.input_tokens").unwrap();
    let Some(Data::Sum(used)) = &used.data else { panic!("{used:?}") };
    assert_eq!(used.data_points[0].value, Some(Number::AsInt(sum_of_calls.cast_signed())));
}

#[test]
fn the_older_names_are_sent_where_they_are_asked_for() {
    let collector = Collector::start();
    let trial = trial("exit 3", &collector).env("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai/1.42.0");
    trial.run("Fail a command.").exits(0);
    let spans = collector.spans();
    let root = only(&spans, "invoke_workflow rawko");
    let has = |name: &str| attribute(&root.attributes, name).is_some();
    assert!(has("gen_ai.workflow.name") && has("gen_ai.usage.cache_creation.input_tokens"), "{root:?}");
    assert!(!has("gen_ai.agent.name") && !has("gen_ai.usage.cache_write.input_tokens"), "{root:?}");
    let expected = [
        ("gen_ai.client.operation.duration", 4),
        ("gen_ai.client.token.usage", 8),
        ("gen_ai.execute_tool.duration", 1),
        ("gen_ai.invoke_agent.duration", 1),
        ("gen_ai.workflow.duration", 1),
        ("rawko.errors", 1),
    ];
    check_counts(&collector, "1.42.0", &expected);
}

#[test]
fn red_checks_are_counted_among_the_errors_and_checks_that_did_not_run_are_not() {
    let check = |commands: &[&str], expected: bool| {
        let collector = Collector::start();
        let trial = trial("true", &collector).file("Makefile", "test:\n\ttest -e done.txt\n");
        // Without commands those of the project are found, which do not run where nothing was changed.
        let trial = match commands {
            [] => trial,
            _ => trial.user_config("/verify/commands", json!(commands)),
        };
        trial.args(&["--max-iterations", "1"]).run("Do it.");
        let metrics = collector.metrics();
        let metrics = &metrics.resource_metrics[0].scope_metrics[0].metrics;
        let points =
            metrics.iter().filter(|it| it.name == "rawko.errors").flat_map(|metric| match &metric.data {
                Some(Data::Sum(sum)) => sum.data_points.clone(),
                _ => Vec::new(),
            });
        let is_red = |point: &opentelemetry_proto::tonic::metrics::v1::NumberDataPoint| {
            attribute(&point.attributes, "gen_ai.operation.name").as_deref() == Some("rawko.verify")
                && attribute(&point.attributes, "error.type").as_deref() == Some("checks_failed")
        };
        assert_eq!(points.into_iter().any(|point| is_red(&point)), expected, "{commands:?}: {metrics:?}");
    };
    check(&["test -e done.txt"], true);
    check(&["true"], false);
    check(&[], false);
}

#[test]
fn an_export_repeats_what_the_run_sent() {
    let collector = Collector::start();
    let ended = trial("true", &collector).run("Do nothing.");
    ended.exits(0);
    let live = collector.spans();
    assert!(live.len() > 8, "{live:?}");
    collector.forget();
    let (code, out, err) = ended.trial.ask(&["sessions", "export", "--format", "otlp"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.starts_with(&format!("sent {} spans of session ", live.len())), "{out}");
    assert_eq!(collector.spans(), live);
    assert!(
        collector.arrived().iter().all(|arrived| arrived.path == "/v1/traces"),
        "metrics would count twice"
    );
}

#[test]
fn content_is_sent_where_it_is_asked_for_without_secrets() {
    let collector = Collector::start();
    let ended = trial("echo loud; echo $((6*7))", &collector)
        .env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        .env("DEPLOY_TOKEN", "tok-canary-2a94c1f0")
        .run("Multiply with tok-canary-2a94c1f0.");
    ended.exits(0);
    let spans = collector.spans();
    let value = |name: &str, attribute_name: &str| {
        attribute(&only(&spans, name).attributes, attribute_name).unwrap_or_default()
    };
    assert!(value("execute_tool Bash", "gen_ai.tool.call.result").contains("42"));
    assert!(value("execute_tool Bash", "gen_ai.tool.call.arguments").contains("echo loud"));
    let task: Value = serde_json::from_str(&value("invoke_workflow rawko", "gen_ai.input.messages")).unwrap();
    assert_eq!(
        task,
        json!([{"role": "user", "parts": [{"type": "text", "content": "Multiply with [redacted]."}]}])
    );
    for arrived in collector.arrived() {
        assert!(!String::from_utf8_lossy(&arrived.body).contains("tok-canary"), "{}", arrived.path);
    }
}

/// The run ends by itself, with its result, and a warning tells of the spans.
#[track_caller]
fn check_unsent(url: &str, warning: &str) {
    let trial = Trial::new(ModelServer::sequence(work("true"))).env("OTEL_EXPORTER_OTLP_ENDPOINT", url);
    let (code, out, err) = trial.output("text").ask(&["run", "Do nothing."]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("done"), "{out}");
    let line = err.lines().find(|line| line.contains("telemetry:")).unwrap_or_default();
    assert!(line.contains(warning), "{err}");
}

#[test]
fn a_collector_that_is_not_there_is_a_warning() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check_unsent(&format!("http://{free}"), "Connection refused");
}

#[test]
fn a_collector_that_refuses_is_a_warning() {
    let collector = Collector::answering("401 Unauthorized");
    check_unsent(&collector.url(), "were not sent: the collector answered 401 Unauthorized");
}

#[test]
fn a_collector_that_never_answers_is_not_waited_for() {
    let collector = Collector::silent();
    check_unsent(&collector.url(), "the collector did not answer in time for");
    assert!(!collector.arrived().is_empty(), "it was asked");
}

#[test]
fn a_setting_that_cannot_be_used_is_a_warning() {
    check_unsent("localhost:4318", "OTEL_EXPORTER_OTLP_ENDPOINT: it should be an address like");
}

#[test]
fn telemetry_of_a_project_needs_trust() {
    let collector = Collector::start();
    let config = json!({"observability": {"endpoint": collector.url(), "protocol": "http/protobuf"}});
    let trial = Trial::new(ModelServer::sequence(work("true"))).config(&config);
    let (code, _, err) = trial.ask(&["run", "Do nothing."]);
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("telemetry of runs would be sent to"), "{err}");
    assert!(collector.arrived().is_empty() && trial.server.asked().is_empty());
    let (code, out, err) = trial.ask(&["run", "--yes", "Do nothing."]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!collector.spans().is_empty());
}

#[test]
fn json_is_spoken_too() {
    let collector = Collector::start();
    trial("true", &collector).env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json").run("Do nothing.").exits(0);
    let arrived = collector.arrived().into_iter().find(|arrived| arrived.path == "/v1/traces").unwrap();
    assert!(arrived.headers.contains(&("content-type".into(), "application/json".into())));
    let body: Value = serde_json::from_slice(&arrived.body).unwrap();
    let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"].as_str().map(str::len), Some(32), "{span}");
}

#[test]
fn a_session_that_goes_on_keeps_its_trace() {
    let collector = Collector::start();
    let answers = work("true").into_iter().chain(work("true"));
    let trial =
        Trial::new(ModelServer::sequence(answers)).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    let ended = trial.run("Do nothing.");
    ended.exits(0);
    let (code, out, err) = ended.trial.ask(&["-c", "Do", "nothing", "again."]);
    assert_eq!(code, Some(0), "{out}{err}");
    let spans = collector.spans();
    let roots: Vec<&Span> = spans.iter().filter(|span| span.name == "invoke_workflow rawko").collect();
    assert_eq!(roots.len(), 2);
    assert!(spans.iter().all(|span| span.trace_id == roots[0].trace_id));
    let mut ids: Vec<&[u8]> = spans.iter().map(|span| span.span_id.as_slice()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), spans.len(), "each id is given once");
}

#[test]
fn a_killed_run_that_is_resumed_ends_its_own_spans() {
    let collector = Collector::start();
    let server = developer([bash("echo here > mark; sleep 600"), report("did it")]);
    let running = Trial::new(server).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()).start("Write.");
    running.wait_for_line("mark");
    let trial = running.end_after(Signal::KILL).trial;
    assert!(collector.spans().iter().all(|span| span.name != "invoke_workflow rawko"), "it has not ended");
    let (code, out, err) = trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    let live = collector.spans();
    collector.forget();
    let (code, out, err) = trial.ask(&["sessions", "export", "--format", "otlp"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let exported = collector.spans();
    // Spans that were on their way when the process was killed are in the export alone.
    assert!(
        live.iter().all(|span| exported.contains(span)),
        "{:?}\nis not part of\n{:?}",
        tree(&live),
        tree(&exported)
    );
    let tool = only(&live, "execute_tool Bash");
    assert_eq!(attribute(&tool.attributes, "error.type").as_deref(), Some("lost"));
    assert_eq!(only(&live, "invoke_workflow rawko"), only(&exported, "invoke_workflow rawko"));
    assert!(tool.start_time_unix_nano < only(&live, "invoke_workflow rawko").end_time_unix_nano);
}

#[test]
fn a_fork_does_not_send_what_it_shares() {
    let collector = Collector::start();
    let ended = trial("true", &collector).run("Do nothing.");
    ended.exits(0);
    let (code, out, err) = ended.trial.ask(&["fork", "last", "--no-run"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, out, err) = ended.trial.ask(&["sessions", "export", "--format", "otlp"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.starts_with("sent 0 spans of session "), "{out}");
}
