//! Questions of MCP servers to the person at the terminal (elicitation): a few values, one after the other, or a visit to an
//! address. Without a person at a terminal, rawko tells the server that the person declines.

use std::sync::Arc;

use rawko::RawkoBuilder;
use rawko::mcp_client::{Question, Reply};
use rawko_core::text::truncate;
use serde_json::{Map, Value};

use crate::approval_prompt::line_of_terminal;
use crate::console::{Console, can_ask};
use crate::keyboard::Keyboard;
use crate::output::{clean, clean_line};

/// Characters of a server's message, and of what it says of one value.
const MESSAGE_CHARS: usize = 2_000;
const FIELD_CHARS: usize = 200;
/// The most values of one question.
const MOST_FIELDS: usize = 30;

/// Has the builder put the questions of servers at the terminal, if there is one.
pub(crate) fn at_terminal(builder: RawkoBuilder, console: Console, keyboard: Keyboard) -> RawkoBuilder {
    if !can_ask() {
        return builder;
    }
    // Servers that run at once are heard one after the other.
    let turn = Arc::new(tokio::sync::Mutex::new(()));
    builder.on_server_question(move |question| {
        let (keyboard, turn) = (keyboard.clone(), turn.clone());
        async move {
            let _turn = turn.lock().await;
            put(console, &keyboard, &question).await
        }
    })
}

/// Asks for each value until it can be used.
async fn put(console: Console, keyboard: &Keyboard, question: &Question) -> Reply {
    let mut above = heading(question);
    let mut values = Map::new();
    for field in fields(question) {
        loop {
            let text = std::mem::take(&mut above);
            let prompt = field.prompt();
            let line = if keyboard.is_open() {
                keyboard.line(text, &prompt).await
            } else {
                line_of_terminal(console, format!("{}\n{prompt}", text.join("\n"))).await
            };
            let Some(line) = line else { return Reply::Declined };
            match field.read(&line) {
                Ok(ParsedLine::Value(value)) => {
                    values.insert(field.name, value);
                    break;
                }
                Ok(ParsedLine::Nothing) => break,
                Ok(ParsedLine::No) => return Reply::Declined,
                Err(why) => above = vec![why],
            }
        }
    }
    Reply::Given(values)
}

/// Who asks what, in the server's words.
fn heading(question: &Question) -> Vec<String> {
    let server = truncate(&clean_line(&question.server), FIELD_CHARS);
    let mut lines = vec![format!("the MCP server `{server}` asks you:")];
    let message = truncate(&clean(question.message.trim()), MESSAGE_CHARS);
    lines.extend(message.lines().map(|line| format!("  | {line}")));
    if let Some(url) = &question.url {
        lines.push(format!("  it wants you to open: {}", clean_line(url)));
    }
    lines.push("what you type goes to that server".to_owned());
    lines
}

/// One value that is asked for.
#[derive(Debug)]
struct Field {
    name: String,
    title: String,
    kind: ValueKind,
    default: Option<Value>,
    required: bool,
}

#[derive(Debug, PartialEq)]
enum ValueKind {
    Text,
    Integer,
    Number,
    YesOrNo,
    /// One of these values, by its number or itself.
    OneOf(Vec<String>),
    /// Several of them.
    SomeOf(Vec<String>),
    /// Whether the person agrees: no value.
    Consent,
}

/// What a line means.
#[derive(Debug, PartialEq)]
enum ParsedLine {
    Value(Value),
    /// The value is left out.
    Nothing,
    /// The person declines.
    No,
}

/// The values that the schema of the question names.
fn fields(question: &Question) -> Vec<Field> {
    let schema = question.schema.as_ref();
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let is_required = |name: &str| {
        let required = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|it| it == name))
    };
    let fields: Vec<Field> = properties
        .into_iter()
        .flatten()
        .take(MOST_FIELDS)
        .map(|(name, schema)| Field {
            name: name.clone(),
            title: title(name, schema),
            kind: ValueKind::of(schema),
            default: schema.get("default").cloned(),
            required: is_required(name),
        })
        .collect();
    if !fields.is_empty() {
        return fields;
    }
    let title = if question.url.is_some() { "have you done that?" } else { "do you agree?" }.to_owned();
    vec![Field { name: String::new(), title, kind: ValueKind::Consent, default: None, required: true }]
}

fn title(name: &str, schema: &Value) -> String {
    let text = |key: &str| schema.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let title = text("title").unwrap_or(name);
    let shown = match text("description") {
        Some(description) => format!("{title} ({description})"),
        None => title.to_owned(),
    };
    truncate(&clean_line(&shown), FIELD_CHARS)
}

impl ValueKind {
    fn of(schema: &Value) -> Self {
        let choices = choices(schema);
        match schema.get("type").and_then(Value::as_str) {
            Some("array") => Self::SomeOf(schema.get("items").map(self::choices).unwrap_or_default()),
            _ if !choices.is_empty() => Self::OneOf(choices),
            Some("boolean") => Self::YesOrNo,
            Some("integer") => Self::Integer,
            Some("number") => Self::Number,
            _ => Self::Text,
        }
    }
}

/// The values that a schema allows, if it lists them: `enum`, or the `const` of each alternative.
fn choices(schema: &Value) -> Vec<String> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten();
    let listed = list("enum").filter_map(Value::as_str);
    let alternatives = list("oneOf").chain(list("anyOf"));
    let constants = alternatives.filter_map(|one| one.get("const")?.as_str());
    listed.chain(constants).map(str::to_owned).collect()
}

impl Field {
    fn prompt(&self) -> String {
        let listed = |choices: &[String]| {
            let numbered = choices.iter().zip(1..).map(|(choice, n)| format!("{n} {}", clean_line(choice)));
            truncate(&numbered.collect::<Vec<_>>().join(", "), FIELD_CHARS)
        };
        let kind = match &self.kind {
            ValueKind::Text => String::new(),
            ValueKind::Integer => " [a whole number]".to_owned(),
            ValueKind::Number => " [a number]".to_owned(),
            ValueKind::YesOrNo => " [y/n]".to_owned(),
            ValueKind::Consent => " [y/N]".to_owned(),
            ValueKind::OneOf(choices) => format!(" [{}]", listed(choices)),
            ValueKind::SomeOf(choices) => format!(" [several, with commas: {}]", listed(choices)),
        };
        let empty = match (&self.default, self.required, &self.kind) {
            (_, _, ValueKind::Consent) => String::new(),
            (Some(default), ..) => {
                let default = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
                format!(" (Enter: {})", truncate(&clean_line(&default), FIELD_CHARS))
            }
            (None, false, _) => " (Enter: nothing)".to_owned(),
            (None, true, _) => String::new(),
        };
        format!("{}{kind}{empty}: ", self.title)
    }

    /// What a line means for this value, or why it cannot be used.
    fn read(&self, line: &str) -> Result<ParsedLine, String> {
        let line = line.trim();
        let yes = match line.to_ascii_lowercase().as_str() {
            "y" | "yes" => Some(true),
            "n" | "no" => Some(false),
            _ => None,
        };
        if self.kind == ValueKind::Consent {
            return Ok(if yes == Some(true) { ParsedLine::Value(Value::Bool(true)) } else { ParsedLine::No });
        }
        if line.is_empty() {
            return match &self.default {
                Some(default) => Ok(ParsedLine::Value(default.clone())),
                None if self.required => Err("this one is needed; Esc declines".to_owned()),
                None => Ok(ParsedLine::Nothing),
            };
        }
        let value = match &self.kind {
            ValueKind::Text | ValueKind::Consent => Value::from(line),
            ValueKind::Integer => Value::from(line.parse::<i64>().map_err(|_| "that is no whole number")?),
            ValueKind::Number => {
                let number = line.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
                Value::Number(number.ok_or("that is no number")?)
            }
            ValueKind::YesOrNo => Value::Bool(yes.ok_or("type y or n")?),
            ValueKind::OneOf(choices) => Value::from(chosen(line, choices)?),
            ValueKind::SomeOf(choices) => {
                let all: Result<Vec<String>, String> =
                    line.split(',').map(|part| chosen(part.trim(), choices)).collect();
                Value::from(all?)
            }
        };
        Ok(ParsedLine::Value(value))
    }
}

/// The choice that is meant: itself, or its number.
fn chosen(line: &str, choices: &[String]) -> Result<String, String> {
    if choices.is_empty() || choices.iter().any(|choice| choice == line) {
        return Ok(line.to_owned());
    }
    let number = line.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
    number.cloned().ok_or_else(|| format!("that is none of them; type a number from 1 to {}", choices.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(schema: Value) -> Question {
        let message = "Which\u{1b}[2J one?\nSay.".to_owned();
        Question { server: "tracker".to_owned(), message, schema: Some(schema), url: None }
    }

    /// What `line` gives for a required value with this schema.
    #[track_caller]
    fn check(schema: Value, line: &str, expected: Result<ParsedLine, &str>) {
        let question = question(json!({"properties": {"v": schema}, "required": ["v"]}));
        let field = fields(&question).remove(0);
        match (field.read(line), expected) {
            (Ok(read), Ok(expected)) => assert_eq!(read, expected),
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (read, expected) => panic!("{read:?} {expected:?}"),
        }
    }

    #[test]
    fn a_line_becomes_a_value_of_its_kind() {
        let value = |value: Value| Ok(ParsedLine::Value(value));
        check(json!({"type": "string"}), " some words ", value(json!("some words")));
        check(json!({"type": "integer"}), "7", value(json!(7)));
        check(json!({"type": "integer"}), "7.5", Err("no whole number"));
        check(json!({"type": "number"}), "7.5", value(json!(7.5)));
        check(json!({"type": "number"}), "NaN", Err("no number"));
        check(json!({"type": "boolean"}), "Yes", value(json!(true)));
        check(json!({"type": "boolean"}), "maybe", Err("y or n"));
        let colors = json!({"type": "string", "enum": ["red", "blue"]});
        check(colors.clone(), "blue", value(json!("blue")));
        check(colors.clone(), "1", value(json!("red")));
        check(colors, "3", Err("from 1 to 2"));
        let titled = json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]});
        check(titled, "2", value(json!("b")));
        let several = json!({"type": "array", "items": {"type": "string", "enum": ["x", "y"]}});
        check(several, "x, 2", value(json!(["x", "y"])));
        check(json!({"type": "string"}), "", Err("needed"));
        check(json!({"type": "string", "default": "d"}), "", value(json!("d")));
    }

    #[test]
    fn what_is_not_required_may_be_left_out_and_consent_is_a_clear_yes() {
        let field = fields(&question(json!({"properties": {"v": {"type": "string"}}}))).remove(0);
        assert_eq!(field.read(""), Ok(ParsedLine::Nothing));
        assert_eq!(field.prompt(), "v (Enter: nothing): ");
        let visit =
            Question { schema: None, url: Some("https://example.com/x".into()), ..question(json!({})) };
        for (line, expected) in
            [("y", ParsedLine::Value(json!(true))), ("", ParsedLine::No), ("ok", ParsedLine::No)]
        {
            assert_eq!(fields(&visit)[0].read(line), Ok(expected));
        }
        let shown = heading(&visit).join("\n");
        assert_eq!(
            shown,
            "the MCP server `tracker` asks you:\n  | Which one?\n  | Say.\n  it wants you to open: \
             https://example.com/x\nwhat you type goes to that server"
        );
    }
}
