//! The phrases of the Markdown document. All text is bounded and free of control codes.

use rawko_core::approval::{Approval, ApprovalQuestion};
use rawko_core::facts::Verification;
use rawko_core::machine::{Decision, StepStatus};
use rawko_core::memory::RecalledMemory;
use rawko_core::message::ToolCall;
use rawko_core::session::{Compaction, DecisionPoint, DecisionSource, KeptMemory, Outcome, Override};
use rawko_core::text::keep_ends;
use rawko_core::tool::ToolOutcome;
use serde_json::Value;

use crate::journal::JournalHeader;

/// Bytes of a tool's output or arguments that are shown: the beginning and the end.
const SHOWN_OF_TOOLS: usize = 6_000;
/// Bytes of an agent's text that are shown.
const SHOWN_OF_WORDS: usize = 20_000;

/// A tool's arguments or output, as it is shown.
pub(super) fn of_tool(text: &str) -> String {
    plain(&keep_ends(text, SHOWN_OF_TOOLS))
}

/// An agent's text, as it is shown.
pub(super) fn words(text: &str) -> String {
    plain(&keep_ends(text, SHOWN_OF_WORDS))
}

/// `text` on one line.
pub(super) fn line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text` without control characters and escape sequences, and without marks that reorder the text around them.
pub(super) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => match rest.peek() {
                Some('[') => {
                    rest.next();
                    // Up to the final character of the sequence, which a line break cannot be part of.
                    while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                    rest.next_if(|c| matches!(c, '@'..='~'));
                }
                Some(']') => while rest.next_if(|c| !matches!(c, '\u{7}' | '\u{1b}' | '\n')).is_some() {},
                _ => {}
            },
            '\n' | '\t' => shown.push(c),
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            '\u{2028}' | '\u{2029}' => shown.push('\n'),
            '\u{feff}' | '\u{e0000}'..='\u{e007f}' => {}
            c if c.is_control() => {}
            c => shown.push(c),
        }
    }
    shown
}

/// The decision in a few words.
pub(super) fn decision(decision: &Decision) -> String {
    match decision {
        Decision::SelectMode { mode, .. } => format!("next: {}", line(mode)),
        Decision::Continue { .. } => "the same agent continues".to_owned(),
        Decision::Retry { .. } => "try again".to_owned(),
        Decision::Complete { .. } => "done".to_owned(),
        Decision::Blocked { .. } => "blocked, a person is needed".to_owned(),
    }
}

/// Which question was answered, and by whom.
pub(super) fn decided_by(point: DecisionPoint, source: DecisionSource) -> String {
    let point = match point {
        DecisionPoint::Select => "select",
        DecisionPoint::Evaluate => "evaluate",
    };
    let source = match source {
        DecisionSource::Llm => "by the model",
        DecisionSource::Rule => "by rule",
        DecisionSource::Fallback => "by rule, the model gave no usable answer",
        DecisionSource::Cache => "from the decision cache",
        DecisionSource::Human => "by the user",
    };
    format!("{point}, {source}")
}

/// The results of the verification commands.
pub(super) fn verified(verification: &Verification) -> String {
    let runs = verification.runs.iter().map(|run| {
        let how = run.exit_code.map_or_else(|| "did not finish".to_owned(), |code| format!("exit {code}"));
        format!("{}: {how}", line(&run.command))
    });
    let runs: Vec<String> = runs.collect();
    let tree = verification.tree.as_deref().map(|tree| format!(" (tree {})", line(tree))).unwrap_or_default();
    format!("{}{tree}", runs.join("; "))
}

/// A question to a person.
pub(super) fn asked(question: &ApprovalQuestion) -> String {
    let needs = line(&question.needs_in_words());
    format!("may {} call {}, {needs}?", line(&question.agent), line(&question.call.name))
}

/// The answer to a question.
pub(super) fn approval(approval: &Approval) -> String {
    match approval {
        Approval::Allowed { by } => format!("allowed ({})", line(by)),
        Approval::Denied { by } => format!("denied ({})", line(by)),
        Approval::Expired => "denied, no answer in time".to_owned(),
        Approval::Unattended => "denied, no person to ask".to_owned(),
    }
}

/// The memories of earlier runs that an agent was given.
pub(super) fn recalled(agent: &str, memories: &[RecalledMemory]) -> String {
    let titles: Vec<String> = memories.iter().map(|memory| line(&memory.title)).collect();
    format!("{} was given: {}", line(agent), titles.join("; "))
}

/// What an agent learned, and where it was kept.
pub(super) fn learned(agent: &str, title: &str, kept: &KeptMemory) -> String {
    let what = match kept {
        KeptMemory::Written { path } => format!("kept as {}", line(path)),
        KeptMemory::NotedOn { path } => format!("already known, added to {}", line(path)),
        KeptMemory::Refused { message } => format!("not kept: {}", line(message)),
    };
    format!("{} ({}): {what}", line(title), line(agent))
}

/// How a conversation was shortened.
pub(super) fn compacted(agent: &str, how: Compaction, before: u64, after: u64) -> String {
    let what = match how {
        Compaction::ResultsCut => "old tool results were cut",
        Compaction::Summarized => "its middle was summarized",
    };
    format!("{}: {what}, about {before} to {after} tokens", line(agent))
}

/// An override in words.
pub(super) fn overridden(command: &Override) -> String {
    match command {
        Override::ForceAgent { agent } => format!("the user made {} work next", line(agent)),
        Override::SkipStep => "the user skipped the current step".to_owned(),
        Override::Retry => "the user made the agent try again".to_owned(),
        Override::Pause => "the user paused the run".to_owned(),
        Override::Go => "the user ended the pause".to_owned(),
        Override::Reset => "the user began the task anew".to_owned(),
        Override::Say { text } => format!("the user said: {}", line(text)),
    }
}

/// The arguments of a call: a command as text, anything else as JSON.
pub(super) fn arguments(call: &ToolCall) -> String {
    match (call.name.as_str(), call.input.get("command").and_then(Value::as_str)) {
        ("Bash", Some(command)) => of_tool(command),
        _ => of_tool(&serde_json::to_string_pretty(&call.input).unwrap_or_default()),
    }
}

/// The result of a call in a few words.
pub(super) fn result(allowed: bool, result: Option<&ToolOutcome>) -> String {
    let Some(result) = result else { return "never answered".to_owned() };
    let mut parts = Vec::new();
    match (allowed, result.exit_code, result.is_error) {
        (false, ..) => parts.push("denied".to_owned()),
        (true, Some(code), _) => parts.push(format!("exit {code}")),
        (true, None, true) => parts.push("failed".to_owned()),
        (true, None, false) => parts.push("ok".to_owned()),
    }
    parts.push(match result.content.lines().count() {
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines"),
    });
    match result.images.len() {
        0 => {}
        1 => parts.push("1 picture".to_owned()),
        pictures => parts.push(format!("{pictures} pictures")),
    }
    parts.push(format!("{} ms", result.duration_ms));
    parts.join(", ")
}

/// The session that this one is a fork of.
pub(super) fn origin(header: &JournalHeader) -> Option<(&'static str, String)> {
    let from = header.forked_from.as_ref()?;
    Some(("Forked from", line(&format!("{}, record {}", from.session, from.record))))
}

/// Facts about the outcome, each with its name.
pub(super) fn facts(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let cost = outcome.cost_usd.map_or("unknown".to_owned(), |usd| format!("${usd:.4}"));
    let estimated = if outcome.usage.estimated { " (partly estimated)" } else { "" };
    let mut facts = vec![
        ("Status", outcome.status.as_str().to_owned()),
        ("Iterations", outcome.iterations.to_string()),
        ("Tokens", format!("{}{estimated}", outcome.usage.total_tokens())),
        ("Cost", cost),
        ("Duration", format!("{:.1} s", std::time::Duration::from_millis(outcome.duration_ms).as_secs_f64())),
    ];
    if let Some(shared) = &outcome.shared {
        let cost = shared.cost_usd.map_or("an unknown cost".to_owned(), |usd| format!("${usd:.4}"));
        let (iterations, tokens) = (shared.iterations, shared.usage.total_tokens());
        let text =
            format!("{iterations} of the iterations, {tokens} tokens and {cost}, which are not counted here");
        facts.push(("Shared", text));
    }
    if !outcome.files_modified.is_empty() || outcome.files_modified_partial {
        facts.push(("Files changed", line(&outcome.changed_files())));
    }
    if let Some(error) = &outcome.error {
        facts.push(("Error", line(&format!("{}: {}", error.code, error.message))));
    }
    facts
}

/// A mark for the status of a step.
pub(super) fn mark(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Pending => "[ ]",
        StepStatus::InProgress => "[>]",
        StepStatus::Complete => "[x]",
        StepStatus::Failed => "[!]",
        StepStatus::Skipped => "[-]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_goes() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected);
        check("a\tb\nc – é", "a\tb\nc – é");
        check("\u{1b}[31;1mred\u{1b}[0m", "red");
        check("\u{1b}]0;title\u{7}after", "after");
        check("over\rwrite\u{8}\u{0}", "overwrite");
        check("user\u{202e}txt.exe", "usertxt.exe");
        check("\u{1b}[\nnext", "\nnext");
        assert_eq!(line(" a\n\tb\r\n c "), "a b c");
    }

    #[test]
    fn long_texts_are_bounded_and_say_so() {
        let shown = of_tool(&"x".repeat(100_000));
        assert!(shown.len() < SHOWN_OF_TOOLS + 100 && shown.contains("bytes cut"), "{}", shown.len());
    }
}
