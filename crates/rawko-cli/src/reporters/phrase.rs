//! Short phrases for events, shared by the reporters. All quoted text is free of control codes.

use rawko::journal::ForkedFrom;
use rawko::{Approval, ApprovalQuestion};
use rawko::{InstructionsRead, RunEvent};
use rawko_core::facts::{CommandRun, Standing, Verification};
use rawko_core::machine::{Decision, Plan, PlanStep, StepStatus};
use rawko_core::memory::{MemoryUse, RecalledMemory, Unmet};
use rawko_core::message::ToolCall;
use rawko_core::session::{Compaction, DecisionPoint, DecisionSource, KeptMemory, Override, PrefixChange};
use rawko_core::setup::RunLimits;
use rawko_core::text::truncate;
use rawko_core::tool::ToolOutcome;
use rawko_core::{ErrorInfo, TimeSpan, Timestamp, Usage};
use serde_json::Value;

use crate::output::{Clock, about, clean, clean_line, cost, duration, escaped, escaped_line, tokens};

/// Characters of a call's arguments that are shown.
const ARGUMENT_CHARS: usize = 120;
/// Most skills that are named.
const NAMED_SKILLS: usize = 10;
/// Characters of a reason that are shown.
const REASON_CHARS: usize = 200;
/// Characters of a tree's name that are shown.
const TREE_CHARS: usize = 12;
/// Lines of a tool's output that `--verbose` shows.
const HEAD_LINES: usize = 12;

/// What stops the run if it does not end by itself: `stops at $10.00 (--max-cost) or after 4h (--timeout)`.
pub(super) fn limits(limits: &RunLimits) -> Option<String> {
    let cost = limits.max_cost_usd.map(|max| format!("at ${max:.2} (--max-cost)"));
    let time = limits.max_duration_ms.and_then(TimeSpan::from_ms);
    let time = time.map(|max| format!("after {max} (--timeout)"));
    let parts: Vec<String> = cost.into_iter().chain(time).collect();
    (!parts.is_empty()).then(|| format!("stops {}", parts.join(" or ")))
}

/// The argument that says most about a call: `bash tests/run.sh` of a `Bash`, the file of an `Edit`.
pub(super) fn arguments(tool: &str, input: &Value) -> String {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let shown = match tool {
        "Bash" => text("command").map(str::to_owned),
        "Read" | "Write" | "Edit" => text("file_path").map(str::to_owned),
        "Glob" => text("pattern").map(str::to_owned),
        "Grep" => text("pattern").map(|pattern| match text("path").or_else(|| text("glob")) {
            Some(place) => format!("{pattern} in {place}"),
            None => pattern.to_owned(),
        }),
        "Report" => text("summary").map(|summary| match text("verdict").or_else(|| text("outcome")) {
            Some(outcome) => format!("{outcome}: {summary}"),
            None => summary.to_owned(),
        }),
        "UpdatePlan" => {
            input.get("steps").and_then(Value::as_array).map(|steps| format!("{} steps", steps.len()))
        }
        _ => None,
    };
    let shown = shown.unwrap_or_else(|| match input {
        Value::Object(map) if map.is_empty() => String::new(),
        other => other.to_string(),
    });
    truncate(&escaped_line(&shown), ARGUMENT_CHARS)
}

/// The most of a call that is shown in a question. The question says if something does not fit, because users must not
/// allow what they cannot see.
const QUESTION_CHARS: usize = 4_000;

/// A question to a person: who wants what, why it was refused, and until when an answer counts.
pub(crate) fn question(question: &ApprovalQuestion, clock: Clock) -> String {
    format!("{}; `rawko approve` answers from another terminal", question_alone(question, clock))
}

/// The same without the command that answers it.
pub(crate) fn question_alone(question: &ApprovalQuestion, clock: Clock) -> String {
    let mut text = format!(
        "{} wants {}\n  {}:\n{}",
        clean_line(&question.agent),
        clean_line(&question.needs_in_words()),
        clean_line(&question.call.name),
        call_in_question(&question.call)
    );
    text.push_str(&format!("  refused because: {}\n", truncate(&clean_line(&question.why), QUESTION_CHARS)));
    text.push_str(&format!("  waits until {}", clock.time(question.until)));
    text
}

/// The whole call that a question is about, in lines that nothing can hide in.
pub(crate) fn call_in_question(call: &ToolCall) -> String {
    let arguments = match call.input.get("command").and_then(Value::as_str) {
        Some(command) if call.name == "Bash" => {
            let said = |name: &str| Some(format!("\n({name}: {})", call.input.get(name)?));
            let more: String = ["run_in_background", "timeout"].into_iter().filter_map(said).collect();
            format!("{command}{more}")
        }
        _ => call.input.to_string(),
    };
    let arguments = escaped(&arguments);
    let mut text = String::new();
    for line in truncate(&arguments, QUESTION_CHARS).lines() {
        text.push_str(&format!("    | {line}\n"));
    }
    if arguments.chars().count() > QUESTION_CHARS {
        text.push_str("    | … NOT ALL OF IT IS SHOWN: `rawko approve --json` does\n");
    }
    text
}

/// A run that begins nothing new.
pub(crate) const PAUSED: &str =
    "paused: what is under way ends, and nothing new begins; to go on: rawko steer go";

/// The end of a pause.
pub(crate) fn unpaused(after_ms: u64) -> String {
    format!("the pause is over, after {}", duration(after_ms))
}

/// What the user wanted, and why it was ignored, if it was.
pub(crate) fn steered(command: &Override, ignored: Option<&str>) -> String {
    let what = match command {
        Override::ForceAgent { agent } => format!("force {}", clean_line(agent)),
        Override::Say { text } => format!("say: {}", truncate(&clean_line(text), REASON_CHARS)),
        other => other.word().to_owned(),
    };
    match ignored {
        Some(reason) => format!("you: {what} (ignored: {})", clean_line(reason)),
        None => format!("you: {what}"),
    }
}

/// The answer to a question.
pub(crate) fn approval(approval: &Approval) -> String {
    match approval {
        Approval::Allowed { by } => format!("allowed ({})", clean_line(by)),
        Approval::Denied { by } => format!("denied ({})", clean_line(by)),
        Approval::Expired => "denied, no answer in time".to_owned(),
        Approval::Unattended => "denied, no person to ask".to_owned(),
    }
}

/// The session, where it comes from, and whether it was there before.
pub(super) fn session(
    session: &str,
    resumed: bool,
    continued: bool,
    forked_from: Option<&ForkedFrom>,
) -> String {
    let origin =
        forked_from.map(|from| format!(" (forked from {})", clean_line(&from.session))).unwrap_or_default();
    let how = match (continued, resumed) {
        (true, _) => " continued",
        (false, true) => " resumed",
        (false, false) => "",
    };
    format!("{session}{origin}{how}")
}

/// A call's tool and its arguments, as they are shown.
pub(super) fn call(call: &ToolCall) -> (String, String) {
    (clean_line(&call.name), arguments(&call.name, &call.input))
}

/// Whether a call failed, or the program that it ran.
pub(super) fn failed(outcome: &ToolOutcome) -> bool {
    outcome.is_error || outcome.exit_code.is_some_and(|code| code != 0)
}

/// The result of a call: `exit 1, 12 lines, 35 ms`.
pub(super) fn result(outcome: &ToolOutcome) -> String {
    figures(&outcome.content, outcome.is_error, outcome.exit_code, outcome.duration_ms)
}

fn figures(output: &str, is_error: bool, exit_code: Option<i32>, duration_ms: u64) -> String {
    let mut parts = Vec::new();
    match (exit_code, is_error) {
        (Some(code), _) => parts.push(format!("exit {code}")),
        (None, true) => parts.push("failed".to_owned()),
        (None, false) => {}
    }
    match output.lines().count() {
        0 => {}
        1 => parts.push("1 line".to_owned()),
        lines => parts.push(format!("{lines} lines")),
    }
    parts.push(duration(duration_ms));
    parts.join(", ")
}

/// The last line of an output that has any words in it. For a failure it usually says most.
pub(super) fn last_line(output: &str) -> Option<String> {
    // The exit code that Bash appends is shown already.
    let has_words =
        |line: &String| line.chars().any(char::is_alphanumeric) && !line.starts_with("[exit code ");
    let line = output.lines().rev().map(clean_line).find(has_words)?;
    Some(truncate(&line, ARGUMENT_CHARS))
}

/// The first lines of an output, and how many more there are.
pub(super) fn head(output: &str) -> String {
    let shown: Vec<&str> = output.lines().take(HEAD_LINES).collect();
    let left = output.lines().count().saturating_sub(HEAD_LINES);
    let text = clean(&shown.join("\n")).into_owned();
    match left {
        0 => text,
        left => format!("{text}\n… {left} more lines"),
    }
}

/// The decision: `next: planner`, `the same agent continues`, `done`.
pub(super) fn decision(decision: &Decision) -> String {
    match decision {
        Decision::SelectMode { mode, .. } => format!("next: {}", clean_line(mode)),
        Decision::Continue { .. } => "the same agent continues".to_owned(),
        Decision::Retry { .. } => "try again".to_owned(),
        Decision::Complete { .. } => "done".to_owned(),
        Decision::Blocked { .. } => "blocked, a person is needed".to_owned(),
    }
}

/// The reason for the decision.
pub(super) fn reason(decision: &Decision) -> String {
    truncate(&clean_line(decision.reason()), REASON_CHARS)
}

/// Where the decision came from.
pub(super) fn source(source: DecisionSource) -> &'static str {
    match source {
        DecisionSource::Llm => "by the model",
        DecisionSource::Rule => "by rule",
        DecisionSource::Fallback => "by rule, the model gave no usable answer",
        DecisionSource::Cache => "from the decision cache",
        DecisionSource::Human => "by you",
    }
}

/// Which question was answered.
pub(super) fn point(point: DecisionPoint) -> &'static str {
    match point {
        DecisionPoint::Select => "select",
        DecisionPoint::Evaluate => "evaluate",
    }
}

/// The settled steps of a plan: `2/5`.
pub(super) fn progress(plan: &Plan) -> String {
    let settled = plan.steps.iter().filter(|step| step.is_settled()).count();
    format!("{settled}/{}", plan.steps.len())
}

/// A mark for the status of a step.
pub(super) fn mark(step: &PlanStep) -> &'static str {
    match step.status {
        StepStatus::Pending => "[ ]",
        StepStatus::InProgress => "[>]",
        StepStatus::Complete => "[x]",
        StepStatus::Failed => "[!]",
        StepStatus::Skipped => "[-]",
    }
}

/// A step's text.
pub(super) fn step(step: &PlanStep) -> String {
    truncate(&clean_line(&step.description), ARGUMENT_CHARS)
}

/// An error with everything known about it.
pub(super) fn error(error: &ErrorInfo) -> String {
    let mut text = format!("{}: {}", error.code, clean(&error.message));
    let mut known = Vec::new();
    known.extend(error.provider.as_ref().map(|name| format!("provider {}", clean_line(name))));
    known.extend(error.status.map(|status| format!("HTTP {status}")));
    known.extend(error.request_id.as_ref().map(|id| format!("request {}", clean_line(id))));
    if !known.is_empty() {
        text.push_str(&format!(" ({})", known.join(", ")));
    }
    text
}

/// What the run waits for: `for claude until 14:32:10 (10 m 00 s), then attempt 2; rate_limited: slow down`. Empty for
/// any other event.
pub(super) fn waiting(event: &RunEvent, clock: Clock) -> String {
    let RunEvent::Waiting { reason, message, provider, until, after_ms, attempt } = event else {
        return String::new();
    };
    format!(
        "{} ({}), then attempt {attempt}; {reason}: {}",
        waited_for(provider.as_deref(), *until, clock),
        duration(*after_ms),
        truncate(&clean_line(message), REASON_CHARS)
    )
}

/// Which provider the run waits for, and until when: `for claude until 14:32:10`.
pub(super) fn waited_for(provider: Option<&str>, until: Timestamp, clock: Clock) -> String {
    let until = clock.time(until);
    match provider {
        Some(provider) => format!("for {} until {until}", clean_line(provider)),
        None => format!("until {until}"),
    }
}

/// The result of one verification command: `cargo test: exit 0, 12 lines, 35 ms`.
pub(super) fn command_run(run: &CommandRun) -> String {
    let figures = figures(&run.output, run.exit_code.is_none(), run.exit_code, run.duration_ms);
    format!("{}: {figures}", commands(std::slice::from_ref(&run.command)))
}

/// Command lines, as they may be shown.
pub(super) fn commands(commands: &[String]) -> String {
    let shown: Vec<String> = commands.iter().map(|it| truncate(&clean_line(it), ARGUMENT_CHARS)).collect();
    shown.join(", ")
}

/// The result of a verification.
pub(super) fn verdict(verification: &Verification) -> String {
    let has_failed =
        verification.standing() == Standing::Failed || verification.runs.iter().any(|run| !run.passed());
    match (verification.doubt(), &verification.tree) {
        _ if has_failed => "not verified: a command failed".to_owned(),
        (Some(doubt), _) => format!("not verified: {}", clean_line(&doubt.message)),
        (None, tree) => format!("verified on tree {}", short_tree(tree.as_deref().unwrap_or_default())),
    }
}

/// A tree's name, shortened.
pub(super) fn short_tree(tree: &str) -> String {
    clean_line(tree).trim_start_matches("copy-").chars().take(TREE_CHARS).collect()
}

/// Why the provider's prompt cache has less of an agent's request than of its last one.
pub(super) fn cache_prefix(agent: &str, change: PrefixChange) -> String {
    let why = match change {
        PrefixChange::Model => "another model, or other settings of it",
        PrefixChange::Tools => "the tools changed",
        PrefixChange::SystemPrompt => "the system prompt changed",
        PrefixChange::Memories => "the memories changed; tools and instructions are the same",
        PrefixChange::Shortened => "the conversation was shortened; tools and system prompt are the same",
        PrefixChange::NewConversation => "a new conversation; tools and system prompt are the same",
    };
    format!("prompt cache: new prefix for {}: {why}", clean_line(agent))
}

/// How a conversation was shortened.
pub(super) fn compaction(how: Compaction, before: u64, after: u64) -> String {
    let how = match how {
        Compaction::ResultsCut => "old tool results were cut",
        Compaction::Summarized => "its middle was summarized",
    };
    format!("{how}: about {} tokens, {} before", tokens(after), tokens(before))
}

/// The memories that an agent gets: `2 memories: Tokens live an hour; Mail is queued`.
pub(super) fn memories(memories: &[RecalledMemory], unmet: Unmet) -> String {
    let titles: Vec<String> = memories.iter().map(|one| title(&one.title)).collect();
    let word = if memories.len() == 1 { "memory" } else { "memories" };
    let others = unmet.sentence().map(|others| format!(" ({others})")).unwrap_or_default();
    format!("{} {word}: {}{others}", memories.len(), titles.join("; "))
}

/// The files of the memories that an execution cited or followed; `None` where there are none.
pub(super) fn used(uses: &[MemoryUse]) -> Option<String> {
    let used: Vec<String> =
        uses.iter().filter(|one| one.cited || one.touched).map(|one| clean_line(&one.path)).collect();
    (!used.is_empty()).then(|| used.join(", "))
}

/// What an agent learned, and where it was kept.
pub(super) fn kept(learned: &str, kept: &KeptMemory) -> String {
    let (learned, folder) = (title(learned), rawko::memory::FOLDER);
    match kept {
        KeptMemory::Written { path } => format!("learned: {learned} ({folder}/{})", clean_line(path)),
        KeptMemory::NotedOn { path } => format!("learned again: {learned} ({folder}/{})", clean_line(path)),
        KeptMemory::Refused { message } => format!("not kept: {learned} ({})", clean_line(message)),
    }
}

fn title(title: &str) -> String {
    truncate(&clean_line(title), ARGUMENT_CHARS)
}

/// Tokens of a call and of all calls so far.
pub(super) fn usage(usage: &Usage, total: &Usage, cost_usd: Option<f64>) -> String {
    let cached = usage.cache_hit_share().map(|share| format!(" ({:.0}% cached)", share * 100.0));
    format!(
        "{}{} in{}, {} out; so far {}{} tokens, {}",
        about(usage),
        tokens(usage.prompt_tokens()),
        cached.unwrap_or_default(),
        tokens(usage.output_tokens),
        about(total),
        tokens(total.total_tokens()),
        cost(cost_usd)
    )
}

/// What agents are given besides their own prompts.
pub(crate) fn given(instructions: Option<&InstructionsRead>, skills: &[String]) -> Option<String> {
    let file = instructions.map(|read| {
        let file = clean_line(&read.file);
        if read.as_data { format!("agents read {file} as data") } else { format!("agents follow {file}") }
    });
    let named: Vec<String> = skills.iter().take(NAMED_SKILLS).map(|name| clean_line(name)).collect();
    let more = match skills.len().saturating_sub(NAMED_SKILLS) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let skills = (!named.is_empty()).then(|| format!("skills: {}{more}", named.join(", ")));
    let parts: Vec<String> = file.into_iter().chain(skills).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawko_core::integrity::Integrity;
    use serde_json::json;

    #[track_caller]
    fn check(tool: &str, input: &Value, expected: &str) {
        assert_eq!(arguments(tool, input), expected);
    }

    #[test]
    fn a_verdict_says_why_it_is_none() {
        let nothing = Verification {
            tree: Some("t".into()),
            integrity: Some(Integrity::unchanged()),
            ..Verification::default()
        };
        assert_eq!(
            verdict(&nothing),
            "not verified: the run changed no file, so checks prove nothing about the task"
        );
        let none_found = Verification { integrity: None, ..nothing };
        assert_eq!(verdict(&none_found), "not verified: no check was found");
        let red = CommandRun { exit_code: Some(2), ..CommandRun::default() };
        let failed = Verification { runs: vec![red], ..none_found };
        assert_eq!(verdict(&failed), "not verified: a command failed");
    }

    #[test]
    fn a_call_is_shown_by_its_main_argument() {
        check("Bash", &json!({"command": "cargo test\n--all"}), "cargo test --all");
        check("Edit", &json!({"file_path": "src/a.rs", "old_string": "x"}), "src/a.rs");
        check("Grep", &json!({"pattern": "fn main", "path": "src"}), "fn main in src");
        check("Report", &json!({"verdict": "rejected", "summary": "No."}), "rejected: No.");
        check("Report", &json!({"outcome": "success", "summary": "It works."}), "success: It works.");
        check("UpdatePlan", &json!({"steps": [1, 2]}), "2 steps");
        check("mcp__x__y", &json!({"a": 1}), r#"{"a":1}"#);
        check("Other", &json!({}), "");
        check("Bash", &json!({"command": 7}), r#"{"command":7}"#);
        check("Bash", &json!({"command": "a\u{1b}[2Jb\u{202e}"}), r"a\u{1b}[2Jb\u{202e}");
        assert_eq!(
            arguments("Bash", &json!({"command": "x".repeat(500)})).chars().count(),
            ARGUMENT_CHARS + 3
        );
    }

    #[test]
    fn memories_are_listed_in_a_line() {
        let memory = |title: &str| RecalledMemory {
            path: "a.md".to_owned(),
            title: title.to_owned(),
            score: 1.0,
            files: Vec::new(),
        };
        let none = Unmet::default();
        assert_eq!(memories(&[memory("Mail\u{1b}[2J\nis queued")], none), "1 memory: Mail is queued");
        assert_eq!(memories(&[memory("A"), memory("B")], none), "2 memories: A; B");
        let unmet = Unmet { no_place: 3, too_weak: 1, ..none };
        let expected = "1 memory: A (others that match: 3 without a place, 1 too weak)";
        assert_eq!(memories(&[memory("A")], unmet), expected);
        let path = || "a.md".to_owned();
        for (what, expected) in [
            (KeptMemory::Written { path: path() }, "learned: T (.rawko/memories/a.md)"),
            (KeptMemory::NotedOn { path: path() }, "learned again: T (.rawko/memories/a.md)"),
            (KeptMemory::Refused { message: "no\nroom".to_owned() }, "not kept: T (no room)"),
        ] {
            assert_eq!(kept("T", &what), expected);
        }
    }

    #[test]
    fn a_result_is_counted_and_its_last_line_is_quoted() {
        assert_eq!(figures("a\nb", false, Some(0), 12), "exit 0, 2 lines, 12 ms");
        assert_eq!(figures("", true, None, 12), "failed, 12 ms");
        assert_eq!(last_line("FAIL: 1\n\n---\n[exit code 1]"), Some("FAIL: 1".to_owned()));
        assert_eq!(last_line("\n"), None);
        assert!(head(&"line\n".repeat(20)).ends_with("line\n… 8 more lines"));
    }

    #[test]
    fn what_agents_are_given_is_one_line() {
        let read = |as_data| InstructionsRead { file: "CLAUDE.md".to_owned(), as_data };
        let skills: Vec<String> = (0..12).map(|n| format!("s{n}")).collect();
        assert_eq!(given(None, &[]), None);
        assert_eq!(given(Some(&read(true)), &[]).as_deref(), Some("agents read CLAUDE.md as data"));
        let all = "agents follow CLAUDE.md; skills: s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, and 2 more";
        assert_eq!(given(Some(&read(false)), &skills).as_deref(), Some(all));
    }
}
