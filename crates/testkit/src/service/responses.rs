//! Responses: the known fields, the order of items, and reasoning that only its own server can read.
//!
//! Fields and limits: <https://github.com/openresponses/openresponses/blob/main/schema/openapi.json>, and for what only
//! `OpenAI` has <https://github.com/openai/openai-python/blob/main/src/openai/types/responses/response_create_params.py>.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};

use super::openai::text;
use crate::answer::{Answer, ErrorResponse};
use crate::exchange::{Asked, Wire};

/// The top-level fields that the API knows.
const FIELDS: &[&str] = &[
    "background",
    "context_management",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
];

const MAX_ID: usize = 64;
const MAX_CACHE_KEY: usize = 64;
const LEAST_TOKENS: u64 = 16;

/// What the ciphertexts of the real service begin with.
const SEAL: &str = "gAAAA";

/// A 400 or 404 with the service's message and the parameter that it is about, or nothing.
type Checked = Result<(), Refused>;

struct Refused {
    status: u16,
    message: String,
    param: String,
    code: Value,
}

/// The encrypted content of the reasoning item of answer `number`, which this server recognises later.
pub(crate) fn encrypt(number: usize, thinking: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (number, thinking).hash(&mut hasher);
    let secret = hasher.finish();
    format!("{SEAL}{secret:016x}{:016x}", check_sum(&format!("{secret:016x}")))
}

fn check_sum(secret: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    secret.hash(&mut hasher);
    hasher.finish()
}

/// Whether this server wrote the ciphertext.
pub(crate) fn is_own(encrypted: &str) -> bool {
    let parts = encrypted.strip_prefix(SEAL).and_then(|rest| rest.split_at_checked(16));
    parts.is_some_and(|(secret, sum)| sum == format!("{:016x}", check_sum(secret)))
}

pub(super) fn refusal(asked: &Asked) -> Option<Answer> {
    if asked.wire != Wire::Responses || asked.json.get("input").is_none() {
        return None;
    }
    let checks = [fields, tools, settings, items, calls, reasoning];
    let Refused { status, message, param, code } = checks.iter().find_map(|check| check(asked).err())?;
    let error = json!({"message": message, "type": "invalid_request_error", "param": param, "code": code});
    Some(Answer::Refuse(ErrorResponse {
        status,
        body: Some(json!({"error": error}).to_string()),
        ..ErrorResponse::default()
    }))
}

fn refuse(message: impl Into<String>, param: impl Into<String>, code: &str) -> Checked {
    let code = if code.is_empty() { Value::Null } else { json!(code) };
    Err(Refused { status: 400, message: message.into(), param: param.into(), code })
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn fields(asked: &Asked) -> Checked {
    let fields = asked.json.as_object().into_iter().flat_map(|fields| fields.keys());
    for field in fields {
        if !FIELDS.contains(&field.as_str()) {
            return refuse(format!("Unknown parameter: '{field}'."), field, "unknown_parameter");
        }
    }
    let least = asked.json.get("max_output_tokens").and_then(Value::as_u64).unwrap_or(u64::MAX);
    if least < LEAST_TOKENS {
        let message = format!(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {LEAST_TOKENS}, but got {least} instead."
        );
        return refuse(message, "max_output_tokens", "integer_below_min_value");
    }
    if text(&asked.json, "prompt_cache_key").len() > MAX_CACHE_KEY {
        return refuse(
            "Invalid 'prompt_cache_key': string too long.",
            "prompt_cache_key",
            "string_above_max_length",
        );
    }
    Ok(())
}

/// What both of the service's interfaces refuse of a schema of arguments
/// (<https://github.com/chatanywhere/GPT_API_free/issues/403>).
pub(super) fn refused_schema(name: &str, schema: &Value) -> Option<String> {
    let refused = ["oneOf", "anyOf", "allOf", "enum", "not"].iter().any(|key| schema.get(key).is_some());
    (refused || schema["type"] != "object").then(|| {
        format!(
            "Invalid schema for function '{name}': schema must have type 'object' and not have \
             'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
        )
    })
}

/// A function is strict unless it says that it is not, and then its schema may have no optional properties
/// (<https://platform.openai.com/docs/guides/function-calling#strict-mode>).
fn tools(asked: &Asked) -> Checked {
    for (at, tool) in array(&asked.json, "tools").iter().enumerate() {
        if text(tool, "type") == "web_search" {
            continue;
        }
        let name = text(tool, "name");
        if name.is_empty() {
            let param = format!("tools[{at}].name");
            return refuse(
                format!("Missing required parameter: '{param}'."),
                param,
                "missing_required_parameter",
            );
        }
        let schema = &tool["parameters"];
        if let Some(message) = refused_schema(name, schema) {
            return refuse(message, format!("tools[{at}].parameters"), "invalid_function_parameters");
        }
        if tool["strict"] != json!(false) && schema["additionalProperties"] != json!(false) {
            let message = format!(
                "Invalid schema for function '{name}': In context=(), 'additionalProperties' is required to be supplied and to be false."
            );
            return refuse(message, format!("tools[{at}].parameters"), "invalid_function_parameters");
        }
    }
    let chosen = asked.json.pointer("/tool_choice/name").and_then(Value::as_str);
    match chosen.filter(|chosen| !asked.tool_names().contains(chosen)) {
        Some(chosen) => {
            refuse(format!("Tool choice '{chosen}' not found in 'tools' parameter."), "tool_choice", "")
        }
        None => Ok(()),
    }
}

/// What models refuse, by their names (<https://platform.openai.com/docs/guides/reasoning>).
fn settings(asked: &Asked) -> Checked {
    let is_plain = asked.model().starts_with("gpt-4");
    let always =
        ["gpt-5.6", "gpt-6", "gpt-5-", "o3", "o4"].iter().any(|name| asked.model().starts_with(name));
    let reasons = always && effort(asked) != Some("none");
    let unsupported = |field: &str| {
        let message = format!("Unsupported parameter: '{field}' is not supported with this model.");
        refuse(message, field, "unsupported_parameter")
    };
    if is_plain && effort(asked).is_some() {
        return unsupported("reasoning.effort");
    }
    if is_plain && !array(&asked.json, "include").is_empty() {
        return refuse("Encrypted content is not supported with this model.", "include", "");
    }
    if reasons && asked.json.get("temperature").is_some() {
        return unsupported("temperature");
    }
    Ok(())
}

fn effort(asked: &Asked) -> Option<&str> {
    asked.json.pointer("/reasoning/effort").and_then(Value::as_str)
}

fn items(asked: &Asked) -> Checked {
    for (at, item) in array(&asked.json, "input").iter().enumerate() {
        match text(item, "type") {
            "message" => message(at, item)?,
            "web_search_call" => {
                for field in ["id", "status"] {
                    if text(item, field).is_empty() {
                        let param = format!("input[{at}].{field}");
                        let message = format!("Missing required parameter: '{param}'.");
                        return refuse(message, param, "missing_required_parameter");
                    }
                }
            }
            "reasoning" | "function_call" | "function_call_output" | "item_reference" | "compaction" => {}
            other => {
                let message = format!("Invalid value: '{other}'.");
                return refuse(message, format!("input[{at}]"), "invalid_value");
            }
        }
    }
    Ok(())
}

/// What a user says goes in, what the model says has come out.
fn message(at: usize, item: &Value) -> Checked {
    let known: &[&str] = match text(item, "role") {
        "user" | "system" | "developer" => &["input_text", "input_image", "input_file"],
        "assistant" => &["output_text", "refusal"],
        role => {
            let message = format!(
                "Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
            );
            return refuse(message, format!("input[{at}]"), "invalid_value");
        }
    };
    match array(item, "content").iter().position(|part| !known.contains(&text(part, "type"))) {
        Some(part) => {
            let found = text(&item["content"][part], "type");
            let message =
                format!("Invalid value: '{found}'. Supported values are: '{}'.", known.join("', '"));
            refuse(message, format!("input[{at}].content[{part}]"), "invalid_value")
        }
        None => Ok(()),
    }
}

/// Every call has an id of its own and an output, and every output a call before it
/// (<https://github.com/openai/openai-agents-python/issues/1351>, <https://github.com/NousResearch/hermes-agent/pull/111443>).
fn calls(asked: &Asked) -> Checked {
    let input = array(&asked.json, "input");
    let (mut called, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for (at, item) in input.iter().enumerate() {
        let id = text(item, "call_id");
        let kind = text(item, "type");
        if !matches!(kind, "function_call" | "function_call_output") {
            continue;
        }
        if id.is_empty() || id.len() > MAX_ID {
            let message = format!(
                "Invalid 'input[{at}].call_id': string too long. Expected a string with maximum length {MAX_ID}, but got a \
                 string with length {} instead.",
                id.len()
            );
            return refuse(message, format!("input[{at}].call_id"), "string_above_max_length");
        }
        let is_new = if kind == "function_call" {
            called.insert(id)
        } else if called.contains(id) {
            answered.insert(id)
        } else {
            return refuse(
                format!("No tool call found for function call output with call_id {id}."),
                "input",
                "",
            );
        };
        if !is_new {
            return refuse(format!("Duplicate {kind} for call_id {id}"), "input", "");
        }
    }
    match called.difference(&answered).next() {
        Some(id) => refuse(format!("No tool output found for function call {id}."), "input", ""),
        None => Ok(()),
    }
}

/// Reasoning must be this server's own, and something must follow it.
fn reasoning(asked: &Asked) -> Checked {
    let input = array(&asked.json, "input");
    for (at, item) in input.iter().enumerate().filter(|(_, item)| text(item, "type") == "reasoning") {
        if item.get("status").is_some() {
            return refuse(
                format!("Unknown parameter: 'input[{at}].status'."),
                format!("input[{at}].status"),
                "unknown_parameter",
            );
        }
        if !item.get("summary").is_some_and(Value::is_array) {
            let param = format!("input[{at}].summary");
            return refuse(
                format!("Missing required parameter: '{param}'."),
                param,
                "missing_required_parameter",
            );
        }
        let id = text(item, "id");
        match item.get("encrypted_content").and_then(Value::as_str) {
            Some(encrypted) if is_own(encrypted) => {}
            Some(encrypted) => {
                let shown: String = encrypted.chars().take(4).collect();
                let message = format!("The encrypted content {shown}... could not be verified.");
                return refuse(message, "", "invalid_encrypted_content");
            }
            None => {
                let message = format!(
                    "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with \
                     `store` set to true, or remove this item from your input."
                );
                return Err(Refused { status: 404, message, param: "input".into(), code: Value::Null });
            }
        }
        let next = input.get(at + 1).map(|item| (text(item, "type"), text(item, "role")));
        let follows = matches!(
            next,
            Some(("function_call" | "reasoning" | "web_search_call", _) | ("message", "assistant"))
        );
        if !follows {
            let message =
                format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
            return refuse(message, "input", "");
        }
    }
    Ok(())
}
