//! Checks the fields beside the conversation.

use serde_json::Value;

use super::Checked;
use super::models::{ClaudeModel, Thinks, model};
use crate::exchange::Asked;

/// The top-level fields that the API knows.
const FIELDS: &[&str] = &[
    "cache_control",
    "container",
    "context_management",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

/// The most cache breakpoints of one request.
const BREAKPOINTS: usize = 4;

pub(super) fn check(asked: &Asked) -> Checked {
    fields(asked)?;
    tools(asked)?;
    breakpoints(asked)?;
    let Some(model) = model(asked.model()) else { return Ok(()) };
    room(asked, model)?;
    thinking(asked, model)?;
    temperature(asked, model)?;
    forcing(asked, model)
}

fn fields(asked: &Asked) -> Checked {
    let fields = asked.json.as_object().into_iter().flat_map(|fields| fields.keys());
    for field in fields {
        if !FIELDS.contains(&field.as_str()) {
            return Err(format!("{field}: Extra inputs are not permitted"));
        }
    }
    if asked.json.get("max_tokens").and_then(Value::as_u64).is_none_or(|tokens| tokens == 0) {
        return Err("max_tokens: Field required, and at least 1".to_owned());
    }
    Ok(())
}

fn tools(asked: &Asked) -> Checked {
    // <https://github.com/anthropics/claude-code/issues/5973>
    for (at, schema) in asked.json["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(at, tool)| Some((at, tool.get("input_schema")?)))
    {
        let combined = ["oneOf", "allOf", "anyOf"].iter().any(|key| schema.get(key).is_some());
        if combined {
            return Err(format!(
                "tools.{at}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
            ));
        }
        if schema["type"] != "object" {
            return Err(format!("tools.{at}.custom.input_schema.type: Field required"));
        }
    }
    let names = asked.tool_names();
    for (at, name) in names.iter().enumerate() {
        if !super::messages::is_name(name, 128) {
            return Err(format!(
                "tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            ));
        }
        if names[..at].contains(name) {
            return Err("tools: Tool names must be unique.".to_owned());
        }
    }
    Ok(())
}

fn breakpoints(asked: &Asked) -> Checked {
    let found = count(&asked.json);
    if found > BREAKPOINTS {
        return Err(format!(
            "A maximum of {BREAKPOINTS} blocks with cache_control may be provided. Found {found}."
        ));
    }
    Ok(())
}

fn count(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            usize::from(fields.contains_key("cache_control"))
                + fields.iter().filter(|(name, _)| *name != "input").map(|(_, v)| count(v)).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}

fn room(asked: &Asked, model: ClaudeModel) -> Checked {
    let wanted = asked.json.get("max_tokens").and_then(Value::as_u64).unwrap_or_default();
    if wanted > model.output {
        let (name, most) = (asked.model(), model.output);
        return Err(format!(
            "max_tokens: {wanted} > {most}, which is the maximum allowed number of output tokens for {name}"
        ));
    }
    let Some(budget) = asked.json.pointer("/thinking/budget_tokens").and_then(Value::as_u64) else {
        return Ok(());
    };
    if budget < 1_024 {
        return Err("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024".into());
    }
    if wanted <= budget {
        return Err("`max_tokens` must be greater than `thinking.budget_tokens`.".to_owned());
    }
    Ok(())
}

/// The kind of thinking that the request asks for.
fn kind(asked: &Asked) -> Option<&str> {
    asked.json.pointer("/thinking/type").and_then(Value::as_str)
}

fn thinking(asked: &Asked, model: ClaudeModel) -> Checked {
    let Some(kind) = kind(asked) else { return Ok(()) };
    let effort = asked.json.pointer("/output_config/effort").and_then(Value::as_str);
    let is_high = matches!(effort, Some("xhigh" | "max"));
    let takes = match kind {
        "adaptive" => model.thinks != Thinks::Asked,
        "enabled" => model.thinks == Thinks::Asked,
        "disabled" => match model.thinks {
            Thinks::Asked | Thinks::AskedAdaptively => true,
            Thinks::UnlessDisabled => !is_high,
            Thinks::UnlessBetweenTools | Thinks::Always => false,
        },
        "between_tools" => model.thinks == Thinks::UnlessBetweenTools && !is_high,
        _ => false,
    };
    if takes {
        return Ok(());
    }
    Err(format!(
        "\"thinking.type.{kind}\" is not supported for this model. Use \"thinking.type.adaptive\" and \
         \"output_config.effort\" to control thinking behavior."
    ))
}

/// Whether the model thinks before it answers this request.
pub(crate) fn thinks(asked: &Asked) -> bool {
    match (kind(asked), model(asked.model()).map(|model| model.thinks)) {
        (Some("disabled" | "between_tools"), _) => false,
        (Some(_), _) => true,
        (None, Some(Thinks::Asked | Thinks::AskedAdaptively)) => false,
        (None, _) => true,
    }
}

fn temperature(asked: &Asked, model: ClaudeModel) -> Checked {
    let Some(temperature) = asked.json.get("temperature").and_then(Value::as_f64) else { return Ok(()) };
    let is_default = (temperature - 1.0).abs() < f64::EPSILON;
    if !(0.0..=1.0).contains(&temperature) {
        return Err("temperature: range: 0..1".to_owned());
    }
    if !model.temperature && !is_default {
        return Err("`temperature` is deprecated for this model.".to_owned());
    }
    if thinks(asked) && !is_default {
        return Err("`temperature` may only be set to 1 when thinking is enabled.".to_owned());
    }
    Ok(())
}

fn forcing(asked: &Asked, model: ClaudeModel) -> Checked {
    let choice = asked.json.pointer("/tool_choice/type").and_then(Value::as_str);
    if !matches!(choice, Some("tool" | "any")) {
        return Ok(());
    }
    if !model.forced_tools {
        return Err("tool_choice: type \"tool\" and \"any\" are not supported for this model.".to_owned());
    }
    if thinks(asked) {
        return Err("Thinking may not be enabled when tool_choice forces tool use.".to_owned());
    }
    Ok(())
}
