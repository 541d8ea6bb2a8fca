//! What the built-in tools have in common: typed input, a schema made from that type, a thread that may block, and a
//! flag that cancels the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rawko_core::error::ErrorCode;
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::process::on_thread;
use crate::tool::CallRefusal;

/// The spec of a tool whose arguments are `T`.
pub fn spec<T: JsonSchema>(name: &str, description: &str, access: ToolAccess) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: schema::<T>(),
        access,
    }
}

/// The JSON Schema of `T` in the plain form that all providers accept: no references, no `null` alternatives (an
/// optional argument is left out), no formats.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    schema
}

fn simplify(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for key in ["$schema", "title", "format", "default"] {
        map.remove(key);
    }
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".into(), only);
        }
    }
    // An optional enum arrives as `anyOf: [the enum, null]`.
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        choices.retain(|c| c.get("type") != Some(&Value::from("null")));
        if choices.len() == 1
            && let Some(Value::Object(inner)) = choices.pop()
        {
            map.remove("anyOf");
            for (key, value) in inner {
                map.entry(key).or_insert(value);
            }
        }
    }
    // Documented variants of an enum arrive as `oneOf` of constants.
    if let Some(Value::Array(choices)) = map.get("oneOf") {
        let constants: Option<Vec<Value>> = choices.iter().map(|c| c.get("const").cloned()).collect();
        if let Some(constants) = constants {
            map.remove("oneOf");
            map.insert("type".into(), "string".into());
            map.insert("enum".into(), constants.into());
        }
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
}

/// Parses the arguments. The registry has validated them, so this fails only for a caller that has not.
pub fn parse<T: DeserializeOwned>(tool: &str, input: Value) -> Result<T, ToolOutcome> {
    serde_json::from_value(input).map_err(|e| {
        ToolOutcome::error(ErrorCode::ValidationError, format!("{tool}: the arguments are wrong: {e}."))
    })
}

/// Parses the arguments for [`Tool::check`](crate::Tool::check).
pub fn parse_checked<T: DeserializeOwned>(tool: &str, input: &Value) -> Result<T, CallRefusal> {
    parse(tool, input.clone())
        .map_err(|outcome| CallRefusal { rule: "input".to_owned(), message: outcome.content })
}

/// Set when the call's future is dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` on a thread that may block. Resumes a panic of `work` in the caller.
pub(crate) async fn blocking(work: impl FnOnce(&Cancel) -> ToolOutcome + Send + 'static) -> ToolOutcome {
    let cancel = Cancel::default();
    let guard = CancelOnDrop(cancel.clone());
    let done = on_thread(move || work(&cancel)).await;
    drop(guard);
    match done {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => ToolOutcome::error(ErrorCode::ToolFailure, "The run is ending: the tool was not run."),
        },
    }
}

/// `line` cut to `max` bytes, with a note of the cut.
pub(crate) fn bounded_line(line: &str, max: usize) -> std::borrow::Cow<'_, str> {
    if line.len() <= max {
        return line.into();
    }
    let end = line.floor_char_boundary(max);
    format!("{} [... {} bytes of this line cut]", &line[..end], line.len() - end).into()
}
