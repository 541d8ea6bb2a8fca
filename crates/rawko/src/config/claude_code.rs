//! Agents written for Claude Code (`.claude/agents/*.md`), used by projects without agents of their own.
//!
//! Owns the translation of their front matter. These files were not written for rawko, so what cannot be translated is a
//! warning, never an error.

use rawko_core::agent::{
    AgentConfig, AgentLimits, AgentProvider, BashFilter, OneOrMany, SkillChoice, ToolFilter,
};
use rawko_core::models;
use rawko_core::policy::{is_control_tool, is_mcp_tool};
use serde_json::Value;

use super::agent_file::stem;
use super::diagnostic::{Diagnostic, printable};
use super::markdown;
use super::model::ProviderType;
use super::position::Position;
use super::source::SourceFile;
use super::yaml::Document;

/// Claude Code's tools that have another name in rawko, or that another tool replaces.
const RENAMED: [(&str, &str); 3] = [("MultiEdit", "Edit"), ("LS", "Glob"), ("TodoWrite", "UpdatePlan")];

/// What the translation depends on.
pub(super) struct ImportContext<'a> {
    /// Names of the available tools. Empty: not known, so every name passes.
    pub(super) tools: &'a [&'a str],
    /// The API of the default provider.
    pub(super) provider: Option<ProviderType>,
}

/// Translates `source` into an agent. Returns `None` after a warning if that is impossible.
pub(super) fn translate(
    source: &SourceFile,
    around: &ImportContext<'_>,
    warnings: &mut Vec<Diagnostic>,
) -> Option<AgentConfig> {
    let mut warn = |place: Position, message: String, help: Option<&str>| {
        warnings.push(source.finding(place, message, help.map(str::to_owned)));
    };
    let parts = match markdown::split(&source.text) {
        Ok(parts) => parts,
        Err(error) => {
            warn(Position::START, format!("skipped: {}", error.message), None);
            return None;
        }
    };
    let front = front_matter(parts.front, parts.front_line);
    let text =
        |key: &str| front.value.get(key).and_then(Value::as_str).map(str::trim).filter(|t| !t.is_empty());
    let given = text("name").map_or_else(|| stem(&source.name), str::to_owned);
    let name = if is_name(&given) { given.clone() } else { as_name(&given) };
    if !is_name(&name) {
        let help = "a name starts with a letter, followed by letters, digits, `_` or `-`";
        warn(
            front.place("/name"),
            format!("skipped: `{}` is not a valid agent name", printable(&given)),
            Some(help),
        );
        return None;
    }
    // In these files the whole body is the prompt. Sections have no special meaning.
    let body = body_of(&source.text).trim();
    if body.is_empty() {
        warn(Position::START, "skipped: it has no system prompt".to_owned(), None);
        return None;
    }
    let mut translated = |key: &str| {
        let mut names = ToolNames::default();
        for item in list(front.value.get(key)?) {
            if let Err(message) = names.take(&item, around.tools) {
                warn(front.place(&format!("/{key}")), message, Some("the agent works without it"));
            }
        }
        Some(names)
    };
    let allowed = translated("tools");
    let blocked = translated("disallowedTools").map(|names| names.tools).unwrap_or_default();
    let bash_filter = allowed.as_ref().filter(|names| !names.any_command && !names.commands.is_empty());
    let bash_filter = bash_filter.map(|names| BashFilter {
        allowed_commands: Some(names.commands.clone()),
        blocked_patterns: Vec::new(),
    });
    let model = match text("model") {
        None | Some("inherit" | "default") => None,
        Some(given) => {
            let model = model(given, around.provider);
            if model.is_none() {
                let message = format!(
                    "the model `{}` is ignored: the default provider does not serve it",
                    printable(given)
                );
                warn(front.place("/model"), message, Some("the agent uses the default provider's model"));
            }
            model
        }
    };
    let max_turns = front.value.get("maxTurns").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    Some(AgentConfig {
        display_name: (name != given).then(|| given.clone()),
        name,
        when_to_use: text("description").map(|t| OneOrMany::One(t.to_owned())).unwrap_or_default(),
        role: None,
        system_prompt: body.to_owned(),
        tools: ToolFilter {
            allowed: allowed.filter(|names| !names.all).map(|names| names.tools),
            blocked,
            bash_filter,
        },
        transitions: rawko_core::agent::Transitions::default(),
        limits: AgentLimits { max_iterations: max_turns.filter(|n| *n > 0), ..AgentLimits::default() },
        budget: Default::default(),
        provider: AgentProvider { model, ..AgentProvider::default() },
        acp: None,
        memory: rawko_core::agent::AgentMemory::default(),
        skills: front.value.get("skills").map(|named| SkillChoice::Named(list(named))),
        permissions: None,
        metadata: serde_json::Map::new(),
    })
}

/// Parses front matter as YAML, or else as one `key: value` per line. Descriptions with an unquoted `: ` in them are
/// common in these files, and are not valid YAML.
fn front_matter(front: &str, first_line: usize) -> Document {
    if let Ok(document) = Document::parse(front, first_line) {
        return document;
    }
    let mut lenient = Document::default();
    let mut found: Vec<(&str, String, Position)> = Vec::new();
    for (number, line) in front.lines().enumerate() {
        match line.split_once(':').filter(|(key, _)| is_name(key)) {
            Some((key, value)) => {
                let place = Position { line: first_line + number + 1, column: 1, width: key.len() };
                found.push((key, value.trim().trim_matches(['"', '\'']).to_owned(), place));
            }
            None => {
                if let Some((_, text, _)) = found.last_mut() {
                    text.push('\n');
                    text.push_str(line.trim());
                }
            }
        }
    }
    for (key, text, place) in found {
        lenient.insert(key, Value::from(text), place);
    }
    lenient
}

fn body_of(text: &str) -> &str {
    let mut fences = text.split_inclusive('\n').scan(0, |offset, line| {
        *offset += line.len();
        Some((line.trim_end() == "---", *offset))
    });
    let end = fences.by_ref().filter(|(is_fence, _)| *is_fence).nth(1);
    end.map_or("", |(_, offset)| &text[offset..])
}

/// Whether a file in rawko's own folder has the form of Claude Code: people copy them there.
pub(super) fn is_of_claude_code(source: &SourceFile) -> bool {
    const OWN: [&str; 12] = [
        "budget",
        "displayName",
        "limits",
        "memory",
        "metadata",
        "permissions",
        "provider",
        "role",
        "systemPrompt",
        "transitions",
        "version",
        "whenToUse",
    ];
    let Ok(parts) = markdown::split(&source.text) else { return false };
    let front = front_matter(parts.front, parts.front_line).value;
    let has = |key: &str| front.get(key).is_some();
    has("description")
        && !OWN.into_iter().any(has)
        && parts.when_to_use.is_none()
        && !front["tools"].is_object()
}

/// A name like `code-reviewer` for one like `Code Reviewer`.
fn as_name(text: &str) -> String {
    let words =
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    // Letters that cannot be in a name would be missing.
    if text.chars().any(|c| c.is_alphanumeric() && !c.is_ascii()) {
        return String::new();
    }
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Items of a YAML list, or items separated by commas outside of parentheses.
fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(|s| s.trim().to_owned()).collect(),
        Value::String(text) => {
            let mut depth = 0_usize;
            let mut items = vec![String::new()];
            for c in text.chars() {
                match c {
                    ',' if depth == 0 => {
                        items.push(String::new());
                        continue;
                    }
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if let Some(item) = items.last_mut() {
                    item.push(c);
                }
            }
            items.iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
        }
        _ => Vec::new(),
    }
}

#[derive(Default)]
struct ToolNames {
    tools: Vec<String>,
    /// The programs of items like `Bash(git diff:*)`.
    commands: Vec<String>,
    /// Whether `Bash` was also listed without a restriction.
    any_command: bool,
    /// Whether the list says that it means every tool.
    all: bool,
}

impl ToolNames {
    fn take(&mut self, item: &str, known: &[&str]) -> Result<(), String> {
        if item == "*" || item.eq_ignore_ascii_case("all") {
            (self.all, self.any_command) = (true, true);
            return Ok(());
        }
        let (name, argument) = match item.split_once('(') {
            Some((name, rest)) => (name.trim(), Some(rest.trim_end().trim_end_matches(')'))),
            None => (item, None),
        };
        let name = RENAMED.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| *ours);
        if !known.is_empty() && !known.contains(&name) && !is_control_tool(name) && !is_mcp_tool(name) {
            return Err(format!("the tool `{}` does not exist in rawko", printable(item)));
        }
        if name == "Bash" {
            match argument.map(str::trim) {
                None | Some("" | "*" | ":*") => self.any_command = true,
                Some(pattern) => {
                    let program = pattern.split([' ', ':', '*']).next().unwrap_or_default();
                    if program.is_empty() {
                        return Err(format!("rawko does not support the restriction `{}`", printable(item)));
                    }
                    if !self.commands.iter().any(|known| known == program) {
                        self.commands.push(program.to_owned());
                    }
                }
            }
        }
        if !self.tools.iter().any(|known| known == name) {
            self.tools.push(name.to_owned());
        }
        Ok(())
    }
}

/// Resolves a short or full model name, for a provider that serves Claude's models.
fn model(given: &str, provider: Option<ProviderType>) -> Option<String> {
    if provider != Some(ProviderType::Claude) {
        return None;
    }
    if given.starts_with("claude-") {
        return Some(given.to_owned());
    }
    models::find_alias("claude", given).map(str::to_owned)
}

#[cfg(test)]
#[path = "claude_code_tests.rs"]
mod tests;
