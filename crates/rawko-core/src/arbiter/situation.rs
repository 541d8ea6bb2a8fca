//! Labelled situations: questions to the arbiter with the decisions that a careful person accepts, one JSON object per
//! line.
//!
//! Reads and writes such a file. Errors name line and field, all of them at once.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer::DecisionKind;
use super::construct::describe;
use super::input::{AgentDescription, EvaluateProgressInput, SelectAgentInput};
use super::question::ArbiterQuestion;
use crate::agent::builtin_agents;
use crate::machine::Decision;

/// A question with the decisions that are accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    /// Its id, unique within the file.
    pub id: String,
    /// The question.
    pub question: ArbiterQuestion,
    /// The acceptable decisions; never empty.
    pub acceptable: Vec<Label>,
    /// The explanation, for people.
    pub why: Option<String>,
    /// Free tags, for people and filters.
    pub tags: Vec<String>,
    /// The part of a collection that it belongs to, e.g. `held-out`.
    pub set: Option<String>,
    /// The decision in the session that it comes from.
    pub recorded: Option<Recorded>,
}

/// A decision without its reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Label {
    /// The kind of decision.
    pub decision: DecisionKind,
    /// The agent; with SELECT_MODE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// The decision of a session, and its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The kind of decision.
    pub decision: DecisionKind,
    /// The agent; with SELECT_MODE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Where it came from: `llm`, `rule`, `cache`, `fallback` or `human`.
    pub source: String,
    /// The model that was asked, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// An error in a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {}{message}", id.as_ref().map_or_else(String::new, |id| format!(" ({id})")), if field.is_empty() { String::new() } else { format!("{field}: ") })]
pub struct SituationError {
    /// The line, from 1.
    pub line: usize,
    /// The situation's id, if it could be read.
    pub id: Option<String>,
    /// The field; empty if it is the whole line.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl Recorded {
    /// The decision without its source.
    #[must_use]
    pub fn label(&self) -> Label {
        Label { decision: self.decision, mode: self.mode.clone() }
    }
}

impl Label {
    /// The label of a decision.
    #[must_use]
    pub fn of(decision: &Decision) -> Self {
        let (decision, mode) = match decision {
            Decision::SelectMode { mode, .. } => (DecisionKind::SelectMode, Some(mode.clone())),
            Decision::Continue { .. } => (DecisionKind::Continue, None),
            Decision::Complete { .. } => (DecisionKind::Complete, None),
            Decision::Retry { .. } => (DecisionKind::Retry, None),
            Decision::Blocked { .. } => (DecisionKind::Blocked, None),
        };
        Self { decision, mode }
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.decision.as_str();
        match &self.mode {
            Some(mode) => write!(f, "{kind} {mode}"),
            None => f.write_str(kind),
        }
    }
}

impl Situation {
    /// Whether the decision is acceptable.
    #[must_use]
    pub fn accepts(&self, decision: &Decision) -> bool {
        self.acceptable.contains(&Label::of(decision))
    }

    /// The situation as one line of JSON.
    #[must_use]
    pub fn to_line(&self) -> String {
        let (point, input, agents) = match &self.question {
            ArbiterQuestion::Select(input) => ("select", json!(input), None),
            ArbiterQuestion::Evaluate { input, agents } => ("evaluate", json!(input), Some(agents)),
        };
        let mut line = json!({"id": self.id, "point": point, "acceptable": self.acceptable});
        let mut put = |key: &str, value: Option<Value>| {
            if let (Some(value), Some(line)) = (value, line.as_object_mut()) {
                line.insert(key.to_owned(), value);
            }
        };
        put("recorded", self.recorded.as_ref().map(|recorded| json!(recorded)));
        put("set", self.set.as_ref().map(|set| json!(set)));
        put("tags", (!self.tags.is_empty()).then(|| json!(self.tags)));
        put("why", self.why.as_ref().map(|why| json!(why)));
        put("agents", agents.map(|agents| json!(agents)));
        put("input", Some(input));
        line.to_string()
    }
}

/// Reads a file of situations. Empty lines are skipped; without `agents`, the built-in ones are used.
///
/// # Errors
/// All errors, each with its line and field. An empty file is an error too.
pub fn parse_situations(text: &str) -> Result<Vec<Situation>, Vec<SituationError>> {
    let (mut situations, mut errors, mut ids) = (Vec::new(), Vec::new(), BTreeSet::new());
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let wrong =
            |id: Option<String>, (field, message): FieldError| SituationError { line, id, field, message };
        match serde_json::from_str::<Map<String, Value>>(text) {
            Err(error) => errors.push(wrong(None, (String::new(), format!("not a JSON object: {error}")))),
            Ok(object) => {
                let id = object.get("id").and_then(Value::as_str).map(str::to_owned);
                match situation(object) {
                    Ok(situation) if !ids.insert(situation.id.clone()) => {
                        errors.push(wrong(id, ("id".to_owned(), "is used by an earlier line".to_owned())));
                    }
                    Ok(situation) => situations.push(situation),
                    Err(error) => errors.push(wrong(id, error)),
                }
            }
        }
    }
    if situations.is_empty() && errors.is_empty() {
        let message = "there is no situation in the file: each line must be a JSON object".to_owned();
        errors.push(SituationError { line: 1, id: None, field: String::new(), message });
    }
    if errors.is_empty() { Ok(situations) } else { Err(errors) }
}

/// A field and what is wrong with it.
type FieldError = (String, String);

const FIELDS: &[&str] = &["id", "point", "input", "agents", "acceptable", "why", "tags", "set", "recorded"];

fn situation(mut object: Map<String, Value>) -> Result<Situation, FieldError> {
    if let Some(unknown) = object.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return Err((
            unknown.clone(),
            format!("is not a field of a situation; the fields are {}", FIELDS.join(", ")),
        ));
    }
    let id: String = field(&mut object, "id")?;
    if id.trim().is_empty() {
        return Err(wrong("id", "is empty"));
    }
    let point: String = field(&mut object, "point")?;
    let agents: Option<Vec<AgentDescription>> = optional(&mut object, "agents")?;
    let input: Map<String, Value> = field(&mut object, "input")?;
    let question = match point.as_str() {
        "select" => ArbiterQuestion::Select(Box::new(select_input(input, agents)?)),
        "evaluate" => {
            let input: EvaluateProgressInput = input_of(input)?;
            ArbiterQuestion::Evaluate { input: Box::new(input), agents: agents.unwrap_or_else(builtin) }
        }
        _ => return Err(("point".to_owned(), format!("is \"{point}\"; it must be select or evaluate"))),
    };
    let acceptable: Vec<Label> = field(&mut object, "acceptable")?;
    check_labels(&acceptable, &question)?;
    Ok(Situation {
        id,
        question,
        acceptable,
        why: optional(&mut object, "why")?,
        tags: optional(&mut object, "tags")?.unwrap_or_default(),
        set: optional(&mut object, "set")?,
        recorded: optional(&mut object, "recorded")?,
    })
}

fn select_input(
    mut input: Map<String, Value>,
    agents: Option<Vec<AgentDescription>>,
) -> Result<SelectAgentInput, FieldError> {
    const OWN: &str = "availableAgents";
    match (input.contains_key(OWN), agents) {
        (true, Some(_)) => return Err(wrong("agents", "are given twice: here and as input.availableAgents")),
        (true, None) => {}
        (false, agents) => {
            input.insert(OWN.to_owned(), json!(agents.unwrap_or_else(builtin)));
        }
    }
    input_of(input)
}

/// Reads the fields of an input one by one first, so that an error can name the field.
fn input_of<T: DeserializeOwned>(input: Map<String, Value>) -> Result<T, FieldError> {
    use super::input::{ConstraintContext, ErrorContext, ExecutionSummary, RunFacts};
    use crate::machine::Plan;
    fn is<T: DeserializeOwned>(name: String, value: &Value) -> Result<(), FieldError> {
        T::deserialize(value).map(drop).map_err(|error| (name, error.to_string()))
    }
    for (key, value) in &input {
        let name = format!("input.{key}");
        match (key.as_str(), value) {
            ("plan", value) => is::<Option<Plan>>(name, value)?,
            ("lastError", value) => is::<Option<ErrorContext>>(name, value)?,
            ("constraints", value) => is::<ConstraintContext>(name, value)?,
            ("facts", value) => is::<RunFacts>(name, value)?,
            ("lastExecution", value) => is::<ExecutionSummary>(name, value)?,
            ("history", Value::Array(entries)) => {
                for (at, entry) in entries.iter().enumerate() {
                    is::<ExecutionSummary>(format!("{name}[{at}]"), entry)?;
                }
            }
            ("availableAgents", Value::Array(agents)) => {
                for (at, agent) in agents.iter().enumerate() {
                    is::<AgentDescription>(format!("{name}[{at}]"), agent)?;
                }
            }
            _ => {}
        }
    }
    serde_json::from_value(Value::Object(input)).map_err(|error| ("input".to_owned(), error.to_string()))
}

fn check_labels(acceptable: &[Label], question: &ArbiterQuestion) -> Result<(), FieldError> {
    if question.agents().is_empty() {
        return Err(wrong("agents", "is empty: there is no agent to choose"));
    }
    if acceptable.is_empty() {
        return Err(wrong("acceptable", "is empty: name at least one decision"));
    }
    for (at, label) in acceptable.iter().enumerate() {
        let wrong = |message: String| Err((format!("acceptable[{at}]"), message));
        match (label.decision, &label.mode) {
            (DecisionKind::SelectMode, None) => return wrong("SELECT_MODE needs `mode`".to_owned()),
            (DecisionKind::SelectMode, Some(mode)) if !question.names().contains(mode) => {
                return wrong(format!(
                    "there is no agent `{mode}`; the agents are {}",
                    question.names().join(", ")
                ));
            }
            (
                DecisionKind::Continue | DecisionKind::Complete | DecisionKind::Retry | DecisionKind::Blocked,
                Some(_),
            ) => {
                return wrong("only SELECT_MODE has a `mode`".to_owned());
            }
            (DecisionKind::Continue | DecisionKind::Complete | DecisionKind::Retry, None)
                if !question.some_agent_ran() =>
            {
                return wrong("is not possible: no agent has worked yet".to_owned());
            }
            (DecisionKind::SelectMode, Some(_)) | (_, None) => {}
        }
    }
    Ok(())
}

fn field<T: DeserializeOwned>(object: &mut Map<String, Value>, name: &str) -> Result<T, FieldError> {
    let value = object.remove(name).ok_or_else(|| wrong(name, "is missing"))?;
    serde_json::from_value(value).map_err(|error| (name.to_owned(), error.to_string()))
}

fn optional<T: DeserializeOwned>(
    object: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<T>, FieldError> {
    match object.remove(name) {
        None => Ok(None),
        Some(value) => serde_json::from_value(value).map_err(|error| (name.to_owned(), error.to_string())),
    }
}

fn wrong(field: &str, message: &str) -> FieldError {
    (field.to_owned(), message.to_owned())
}

fn builtin() -> Vec<AgentDescription> {
    builtin_agents().iter().map(|agent| describe(agent, None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbiter::testing::InputBuilder;
    use proptest::prelude::*;

    fn line() -> Value {
        json!({
            "id": "one", "point": "select", "input": InputBuilder::default().select(),
            "acceptable": [{"decision": "SELECT_MODE", "mode": "planner"}],
        })
    }

    /// The line with `value` at `pointer`, or without it.
    #[track_caller]
    fn check(pointer: &str, value: Option<Value>, expected: &str) {
        let mut line = line();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = line.pointer_mut(parent).unwrap();
        match (parent, value) {
            (Value::Object(parent), Some(value)) => drop(parent.insert(key.to_owned(), value)),
            (Value::Object(parent), None) => drop(parent.remove(key)),
            (parent, Some(value)) => parent[key.parse::<usize>().unwrap()] = value,
            (_, None) => panic!("{pointer}"),
        }
        let errors = parse_situations(&format!("\n{line}\n")).unwrap_err();
        let errors: Vec<String> = errors.iter().map(SituationError::to_string).collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with("line 2") && errors[0].contains(expected), "{}", errors[0]);
    }

    #[test]
    fn errors_name_line_and_field() {
        check("/id", None, "id: is missing");
        check("/id", Some(json!(" ")), "id: is empty");
        check("/point", Some(json!("choose")), "(one): point: is \"choose\"");
        check("/acceptible", Some(json!([])), "acceptible: is not a field");
        check("/acceptable", Some(json!([])), "acceptable: is empty");
        check("/acceptable/0", Some(json!({"decision": "SELECT_MODE"})), "acceptable[0]: SELECT_MODE needs");
        check("/acceptable/0", Some(json!({"decision": "STOP"})), "acceptable: unknown variant `STOP`");
        check("/acceptable/0/mode", Some(json!("wizard")), "acceptable[0]: there is no agent `wizard`");
        check("/acceptable/0/decision", Some(json!("COMPLETE")), "only SELECT_MODE has");
        check("/acceptable/0", Some(json!({"decision": "RETRY"})), "no agent has worked yet");
        check("/input/task", None, "input: missing field `task`");
        check("/input/constraints/maxIterations", None, "input.constraints: missing field `maxIterations`");
        check("/input/history", Some(json!([{"agent": "x"}])), "input.history[0]: missing field");
        check("/input/availableAgents/1/name", None, "input.availableAgents[1]: missing field `name`");
        check("/input/availableAgents", Some(json!([])), "agents: is empty");
        check("/agents", Some(json!([])), "agents: are given twice");
        check("/tags", Some(json!("x")), "tags: invalid type");
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let line = line();
        let errors = parse_situations(&format!("{line}\nnot json\n[]\n{line}\n")).unwrap_err();
        let errors: Vec<(usize, &str)> =
            errors.iter().map(|error| (error.line, error.field.as_str())).collect();
        assert_eq!(errors, [(2, ""), (3, ""), (4, "id")]);
        assert!(parse_situations(" \n").unwrap_err()[0].to_string().contains("no situation"));
    }

    #[test]
    fn the_built_in_agents_need_not_be_named() {
        let mut line = line();
        line["input"].as_object_mut().unwrap().remove("availableAgents");
        let read = parse_situations(&format!("\u{feff}{line}\r\n")).unwrap();
        assert_eq!(read[0].question.names(), ["planner", "developer", "tester", "reviewer"]);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut first = parse_situations(&line().to_string()).unwrap().remove(0);
        first.recorded = Some(Recorded {
            decision: DecisionKind::SelectMode,
            mode: Some("planner".to_owned()),
            source: "llm".to_owned(),
            model: Some("m".to_owned()),
        });
        first.tags = vec!["t".to_owned()];
        let read = parse_situations(&first.to_line()).unwrap();
        assert_eq!(read, [first]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[\\PC\\n{}\":\\[\\]]{0,200}") {
            let _ = parse_situations(&text);
        }
    }
}
