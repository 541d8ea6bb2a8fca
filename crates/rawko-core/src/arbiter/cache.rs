//! The arbiter's cache (`docs/arbiter.md#cache`): the key of a question, and the message that
//! represents a cached answer.
//!
//! Two questions have the same key if they agree in input (without times and durations), agents, model and template.
//! Where answers are stored, and for how long, is decided elsewhere. COMPLETE and BLOCKED are never cached: whether a
//! task is done, or still blocked, depends on what no question contains.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::answer::DECIDE;
use super::prompt::Templates;
use super::question::ArbiterQuestion;
use crate::machine::Decision;
use crate::message::{Content, Message, Role, ToolCall};
use crate::setup::ModelChoice;
use crate::text::hex;

/// Increase it with every change of the built-in text around a template, of the meaning of an input, or of how an
/// answer is read: cached answers from before the change are then not used.
pub const PROMPT_VERSION: u32 = 3;

/// Names of fields that hold a time or a duration.
const VOLATILE: [&str; 11] = [
    "completedAt",
    "durationMs",
    "duration_ms",
    "estimatedTimeRemaining",
    "lastFailure",
    "lastSuccess",
    "startedAt",
    "timeElapsedMs",
    "timeLeft",
    "timeLeftMs",
    "timestamp",
];

/// The cache key of `question` to the model `choice` with these templates: SHA-256 in hexadecimal.
#[must_use]
pub fn cache_key(question: &ArbiterQuestion, choice: &ModelChoice, templates: &Templates) -> String {
    let (point, input, template) = match question {
        ArbiterQuestion::Select(input) => ("select", serde_json::to_value(input), &templates.select),
        ArbiterQuestion::Evaluate { input, .. } => {
            ("evaluate", serde_json::to_value(input), &templates.evaluate)
        }
    };
    let question = json!({
        "version": PROMPT_VERSION,
        "point": point,
        // The inputs have string keys and finite numbers: encoding them cannot fail.
        "input": input.unwrap_or(Value::Null),
        "agents": serde_json::to_value(question.agents()).unwrap_or(Value::Null),
        "provider": choice.provider,
        "model": choice.model,
        "temperature": choice.temperature,
        "extra": choice.extra,
        "template": hex(&Sha256::digest(template.as_bytes())),
    });
    hex(&Sha256::digest(canonical(without_times(question)).as_bytes()))
}

/// Whether the decision may answer the same question again.
#[must_use]
pub fn is_cacheable(decision: &Decision) -> bool {
    match decision {
        Decision::SelectMode { .. } | Decision::Continue { .. } | Decision::Retry { .. } => true,
        Decision::Complete { .. } | Decision::Blocked { .. } => false,
    }
}

/// The cached decision as a model's answer, to be read like any other.
#[must_use]
pub fn cached_answer(decision: &Decision) -> Message {
    let input = match decision {
        Decision::SelectMode { mode, reason } => {
            json!({"decision": "SELECT_MODE", "mode": mode, "reason": reason})
        }
        Decision::Continue { reason } => json!({"decision": "CONTINUE", "reason": reason}),
        Decision::Retry { reason } => json!({"decision": "RETRY", "reason": reason}),
        Decision::Blocked { reason } => json!({"decision": "BLOCKED", "reason": reason}),
        Decision::Complete { summary } => json!({"decision": "COMPLETE", "summary": summary}),
    };
    let call = ToolCall {
        id: "cached".to_owned(),
        name: DECIDE.to_owned(),
        input,
        invalid_input: None,
        withheld: None,
    };
    Message { role: Role::Assistant, content: vec![Content::ToolUse(call)] }
}

/// `value` without the [`VOLATILE`] fields, at any depth. An input uses these names for nothing else.
fn without_times(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(name, _)| !VOLATILE.contains(&name.as_str()));
            Value::Object(fields.map(|(name, value)| (name, without_times(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_times).collect()),
        other => other,
    }
}

/// JSON with sorted keys, whatever the order in the map.
fn canonical(value: Value) -> String {
    fn write(value: Value, out: &mut String) {
        match value {
            Value::Object(fields) => {
                let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
                fields.sort_by(|(a, _), (b, _)| a.cmp(b));
                out.push('{');
                for (at, (name, value)) in fields.into_iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::String(name).to_string());
                    out.push(':');
                    write(value, out);
                }
                out.push('}');
            }
            Value::Array(items) => {
                out.push('[');
                for (at, item) in items.into_iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    write(item, out);
                }
                out.push(']');
            }
            other => out.push_str(&other.to_string()),
        }
    }
    let mut out = String::new();
    write(value, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::super::read_answer;
    use super::*;
    use proptest::prelude::*;

    fn select() -> Value {
        json!({
            "task": "fix it",
            "plan": null,
            "history": [{
                "agent": "developer", "iteration": 1, "status": "failure", "duration_ms": 1,
                "output": {"summary": "tried"},
                "startedAt": "2026-01-01T00:00:00.000Z", "completedAt": "2026-01-01T00:00:01.000Z",
            }],
            "lastError": {
                "agent": "developer", "attempted": "it", "message": "no", "category": "timeout",
                "recoveryOptions": [], "timestamp": "2026-01-01T00:00:01.000Z", "context": {},
            },
            "availableAgents": [{
                "name": "developer", "displayName": "Developer", "whenToUse": "to write code", "tools": {},
                "recentPerformance": {
                    "lastSuccess": "2026-01-01T00:00:01.000Z", "lastFailure": "2026-01-01T00:00:01.000Z",
                    "successRate": 50.0, "iterationAverage": 2.0,
                },
            }],
            "constraints": {
                "maxIterations": 50, "currentIteration": 1, "iterationsRemaining": 49, "consecutiveFailures": 1,
                "maxConsecutiveFailures": 3, "estimatedTokensUsed": 100, "timeElapsedMs": 5,
                "estimatedTimeRemaining": 7,
            },
        })
    }

    fn choice(model: &str) -> ModelChoice {
        serde_json::from_value(json!({"provider": "p", "model": model, "maxTokens": 100})).unwrap()
    }

    fn key(input: Value) -> String {
        let question = ArbiterQuestion::Select(Box::new(serde_json::from_value(input).unwrap()));
        cache_key(&question, &choice("m"), &Templates::default())
    }

    #[track_caller]
    fn check(pointer: &str, value: Value, matters: bool) {
        let mut input = select();
        let at = input.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}"));
        assert_ne!(*at, value, "{pointer}: the same value proves nothing");
        *at = value;
        assert_eq!(key(input) != key(select()), matters, "{pointer}");
    }

    #[test]
    fn times_and_durations_do_not_change_the_key() {
        let later = || json!("2027-07-07T07:07:07.777Z");
        for pointer in [
            "/history/0/startedAt",
            "/history/0/completedAt",
            "/lastError/timestamp",
            "/availableAgents/0/recentPerformance/lastSuccess",
            "/availableAgents/0/recentPerformance/lastFailure",
        ] {
            check(pointer, later(), false);
        }
        for pointer in
            ["/history/0/duration_ms", "/constraints/timeElapsedMs", "/constraints/estimatedTimeRemaining"]
        {
            check(pointer, json!(77_777), false);
        }
    }

    #[test]
    fn every_other_field_changes_the_key() {
        check("/task", json!("fix that"), true);
        check("/plan", json!({"steps": [], "currentStepIndex": 0, "isComplete": false}), true);
        check("/history/0/status", json!("success"), true);
        check("/history/0/output/summary", json!("2026-01-01T00:00:00.000Z"), true);
        check("/lastError/message", json!("yes"), true);
        check("/availableAgents/0/whenToUse", json!("never"), true);
        check("/availableAgents/0/recentPerformance/successRate", json!(100.0), true);
        check("/availableAgents", json!([]), true);
        check("/constraints/iterationsRemaining", json!(1), true);
    }

    #[test]
    fn model_and_template_change_the_key() {
        let question = ArbiterQuestion::Select(Box::new(serde_json::from_value(select()).unwrap()));
        let templates = Templates::default();
        let usual = cache_key(&question, &choice("m"), &templates);
        assert_eq!(usual.len(), 64);
        assert_ne!(usual, cache_key(&question, &choice("n"), &templates));
        let other = ModelChoice { provider: "q".into(), ..choice("m") };
        assert_ne!(usual, cache_key(&question, &other, &templates));
        let select = format!("{} ", templates.select);
        assert_ne!(usual, cache_key(&question, &choice("m"), &Templates { select, ..templates.clone() }));
        let evaluate = format!("{} ", templates.evaluate);
        assert_eq!(usual, cache_key(&question, &choice("m"), &Templates { evaluate, ..templates }));
    }

    #[test]
    fn a_cached_answer_is_read_like_any_other() {
        let reason = "because".to_owned();
        let agents = ["developer".to_owned()];
        for (decision, cacheable) in [
            (Decision::SelectMode { mode: "developer".into(), reason: reason.clone() }, true),
            (Decision::Continue { reason: reason.clone() }, true),
            (Decision::Retry { reason }, true),
            (Decision::Complete { summary: "done".into() }, false),
        ] {
            assert_eq!(read_answer(&cached_answer(&decision), &agents, true).unwrap(), decision);
            assert_eq!(is_cacheable(&decision), cacheable);
        }
        let unknown = Decision::SelectMode { mode: "unknown".into(), reason: String::new() };
        assert!(read_answer(&cached_answer(&unknown), &agents, true).is_err());
    }

    proptest! {
        #[test]
        fn two_tasks_have_two_keys(a in "\\PC{0,40}", b in "\\PC{0,40}") {
            let with = |task: &str| {
                let mut input = select();
                input["task"] = json!(task);
                key(input)
            };
            prop_assert_eq!(with(&a) == with(&b), a == b);
        }

        #[test]
        fn canonical_json_is_the_same_json(text in "\\PC{0,20}", number in any::<i64>(), flag in any::<bool>()) {
            let value = json!({"z": [number, {"b": text, "a": flag}], "a": null});
            let written = canonical(value.clone());
            prop_assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value);
            let in_order = written.starts_with("{\"a\":null,\"z\":[");
            prop_assert!(in_order);
        }
    }
}
