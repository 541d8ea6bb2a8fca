//! An event on one line, for a model that follows a session: what matters, in few words.

use rawko::{Note, RunEvent};
use rawko_core::machine::Decision;
use rawko_core::text::{harmless, truncate};
use serde_json::Value;

/// Characters of what models say, of calls, and of results.
const WORDS: usize = 500;
const CALL: usize = 300;

/// The line; `None` for an event that does not matter here.
pub(super) fn of(event: &RunEvent) -> Option<String> {
    let line = match event {
        RunEvent::SessionStarted { task, .. } => format!("task: {task}"),
        RunEvent::TextDelta { agent, text } if !text.trim().is_empty() => format!("{agent} says: {text}"),
        RunEvent::Error { error } => format!("error: {}: {}", error.code, error.message),
        RunEvent::Note(note) => return of_note(note),
        _ => return None,
    };
    Some(one_line(&line, WORDS))
}

fn of_note(note: &Note) -> Option<String> {
    let (line, longest) = match note {
        Note::DecisionMade(made) => {
            let what = match &made.decision {
                Decision::SelectMode { mode, .. } => format!("SELECT_MODE {mode}"),
                other => other.kind().to_owned(),
            };
            (format!("decision: {what}: {}", made.decision.reason()), WORDS)
        }
        Note::AgentStarted { agent, iteration, .. } => {
            (format!("{agent} begins execution {iteration}"), WORDS)
        }
        Note::ToolCalled { agent, call, allowed, rule } => {
            let denied = if *allowed { String::new() } else { format!(" (denied by {rule})") };
            (format!("{agent} calls {}{denied}: {}", call.name, call.input), CALL)
        }
        Note::ToolFinished { tool, outcome, .. } if outcome.is_error => {
            (format!("{tool} failed: {}", outcome.content), CALL)
        }
        Note::ApprovalRequested(question) => {
            (format!("{} waits for approval of {}", question.agent, question.call.name), CALL)
        }
        Note::ApprovalAnswered { agent, .. } => (format!("the question of {agent} is answered"), CALL),
        Note::VerificationStarted { commands } => (format!("checks run: {}", commands.join(" | ")), CALL),
        Note::VerificationFinished { verification } => {
            let runs = &verification.runs;
            let failed: Vec<&str> =
                runs.iter().filter(|run| !run.passed()).map(|run| run.command.as_str()).collect();
            let said = match failed.as_slice() {
                [] => format!("{} checks passed", runs.len()),
                failed => format!("checks failed: {}", failed.join(" | ")),
            };
            (said, CALL)
        }
        Note::PlanUpdated { agent, .. } => (format!("{agent} changes the plan"), CALL),
        Note::Steered { command, ignored, .. } => match ignored {
            Some(reason) => (format!("`{}` was ignored: {reason}", command.word()), CALL),
            None => (format!("`{}` was carried out", command.word()), CALL),
        },
        Note::RunPaused => ("paused".to_owned(), CALL),
        Note::RunUnpaused { .. } => ("the pause is over".to_owned(), CALL),
        Note::Warned { message } => (format!("warning: {message}"), WORDS),
        _ => return None,
    };
    Some(one_line(&line, longest))
}

/// The end, in a few lines.
pub(super) fn end(end: &Value) -> String {
    let text = |name: &str| end[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    let mut lines =
        format!("{}: {}\n", text("status").unwrap_or("ended"), text("summary").unwrap_or_default());
    if let Some(answer) = text("answer").or(text("agentSummary")) {
        lines.push_str(&format!("the agent says: {answer}\n"));
    }
    if let Some(why) = end.pointer("/doubt/message").and_then(Value::as_str) {
        lines.push_str(&format!("not verified, because {why}\n"));
    }
    if let Some(files) = end["filesModified"].as_array().filter(|files| !files.is_empty()) {
        let names: Vec<&str> = files.iter().filter_map(Value::as_str).collect();
        lines.push_str(&format!("files: {}\n", names.join(", ")));
    }
    harmless(&lines)
}

fn one_line(text: &str, longest: usize) -> String {
    // The unused rest need not be cleaned: a call may be a megabyte long.
    let head = text.get(..text.floor_char_boundary(longest.saturating_mul(8))).unwrap_or_default();
    let words = harmless(head).split_whitespace().collect::<Vec<_>>().join(" ");
    truncate(&words, longest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(event: Value, expected: Option<&str>) {
        let event: RunEvent = serde_json::from_value(event).unwrap();
        assert_eq!(of(&event).as_deref(), expected);
    }

    #[test]
    fn an_event_is_one_short_line() {
        check(
            json!({"type": "text_delta", "agent": "developer", "text": "I\nlook."}),
            Some("developer says: I look."),
        );
        check(json!({"type": "text_delta", "agent": "developer", "text": " \n"}), None);
        check(json!({"type": "warned", "message": "x"}), Some("warning: x"));
        check(
            json!({"type": "tool_called", "agent": "developer", "allowed": false, "rule": "`rm` is not listed",
                "call": {"id": "1", "name": "Bash", "input": {"command": "rm x"}}}),
            Some("developer calls Bash (denied by `rm` is not listed): {\"command\":\"rm x\"}"),
        );
        check(json!({"type": "tool_begun", "agent": "developer", "callId": "1", "tool": "Bash"}), None);
        let long = RunEvent::warning("y".repeat(10_000_000));
        assert!(of(&long).unwrap().len() < 2 * WORDS);
    }

    #[test]
    fn the_end_says_how_why_and_what() {
        let end = end(&json!({
            "status": "claimed", "summary": "done", "answer": "I did it", "doubt": {"message": "there are no checks"},
            "filesModified": ["a.py", "b.py"],
        }));
        assert_eq!(
            end,
            "claimed: done\nthe agent says: I did it\nnot verified, because there are no checks\nfiles: a.py, b.py\n"
        );
    }
}
