//! `rawko explain ID [N]`: explains a session decision by decision.

use clap::Args;
use rawko::journal::{Journal, JournaledEffect, Record, read};
use rawko::{CallAnswer, ExplainedCall, Explanation, explain};
use rawko_core::facts::CommandRun;
use rawko_core::machine::Decision;
use rawko_core::message::{Content, Message, Role};
use rawko_core::session::{DecisionPoint, DecisionSource, Effect, Note, Outcome};
use rawko_core::text::truncate;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{
    Paint, Rows, about, clean, clean_line, cost, counted, duration, indent, shortened, tokens,
};
use crate::reporters::approval as approval_in_words;
use crate::workspace::Workspace;

/// Most digits of the number of a decision. A part of an id that consists of digits alone and names one session is longer.
const LONGEST_NUMBER: usize = 3;

/// Options of `rawko explain`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ExplainArgs {
    /// Session id, or the beginning or end of it; `last` is the latest
    #[arg(default_value = "last")]
    id: String,
    /// Number of a decision; without it, list all decisions
    number: Option<usize>,
    /// Show this record of the journal, and why it is there
    #[arg(long, value_name = "N", conflicts_with = "number")]
    record: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Explains the session.
pub(crate) fn run(workspace: &Workspace, arguments: &ExplainArgs) -> Result<Exit, Failure> {
    let is_number = |id: &str| id.len() <= LONGEST_NUMBER && id.bytes().all(|byte| byte.is_ascii_digit());
    if arguments.number.is_none() && is_number(&arguments.id) {
        let number = &arguments.id;
        let error = Failure::usage(format!(
            "`{number}` looks like the number of a decision, and no session is named"
        ));
        return Err(error.with_hint(format!("for the latest session: rawko explain last {number}")));
    }
    let path = workspace.sessions()?.find(&arguments.id).map_err(rawko::Error::from)?;
    let journal = read(&path).map_err(rawko::Error::from)?;
    if let Some(seq) = arguments.record {
        return record(workspace, &journal, seq, arguments.json);
    }
    let decisions = explain(&journal);
    let console = &workspace.console;
    let Some(number) = arguments.number else {
        if arguments.json {
            console.json(&decisions)?;
        } else {
            console.write(&list(&journal, &decisions, console.paint()))?;
        }
        return Ok(Exit::Success);
    };
    let chosen = number.checked_sub(1).and_then(|at| decisions.get(at)).ok_or_else(|| {
        let message = format!(
            "session {} has {}, and no decision {number}",
            journal.header.session,
            counted(decisions.len() as u64, "decision")
        );
        Failure::usage(message).with_hint(format!("to list them: rawko explain {}", journal.header.session))
    })?;
    console.output(arguments.json, chosen, |paint| details(chosen, decisions.len(), paint))?;
    Ok(Exit::Success)
}

fn list(journal: &Journal, decisions: &[Explanation], paint: Paint) -> String {
    let session = clean_line(&journal.header.session);
    if decisions.is_empty() {
        return format!("session {session} has no decisions yet\n");
    }
    let table = Rows::new(paint, decisions).table(&[
        ("#", &|one| one.number.to_string()),
        ("RECORD", &|one| one.record.to_string()),
        ("STATE", &|one| one.state.to_string()),
        ("DECISION", &|one| decision(&one.decision)),
        ("SOURCE", &|one| source(one.source).to_owned()),
        ("COST", &|one| if one.calls.is_empty() { "-".to_owned() } else { cost(one.cost_usd) }),
        ("REASON", &|one| shortened(one.decision.reason(), 60)),
    ]);
    let ending = ending(journal).map(|outcome| ended(outcome, paint)).unwrap_or_default();
    format!("{table}\nfor details: rawko explain {session} NUMBER\n{ending}")
}

/// The last outcome that the journal holds.
fn ending(journal: &Journal) -> Option<&Outcome> {
    journal.records.iter().rev().find_map(|record| match record {
        Record::Step(step) => step.effects.iter().find_map(|effect| match effect {
            JournaledEffect::Whole(Effect::Finish { outcome }) => Some(&**outcome),
            _ => None,
        }),
        _ => None,
    })
}

/// How it ended, and what shows that: each check before the run and on the last tree.
fn ended(outcome: &Outcome, paint: Paint) -> String {
    let title = paint.strong(&format!("Ended: {}", outcome.status.as_str()));
    let mut text = format!("\n{title}\n{}\n", indent(&clean(outcome.summary.trim()), 2));
    let Some(verification) = &outcome.verification else { return text };
    for run in &verification.runs {
        let before = verification.before(run).map_or_else(|| "not known".to_owned(), CommandRun::how);
        let line = format!("`{}` {}; before the run: {before}", run.command, run.how());
        text.push_str(&format!("  {}\n", clean_line(&line)));
    }
    for other in &verification.others {
        text.push_str(&format!("  {}\n", clean_line(&other.line())));
    }
    text
}

/// One decision in full.
pub(crate) fn details(one: &Explanation, of: usize, paint: Paint) -> String {
    let point = match one.point {
        DecisionPoint::Select => "who works next",
        DecisionPoint::Evaluate => "how the run continues",
    };
    let title = format!("Decision {} of {of}: {}", one.number, decision(&one.decision));
    let mut text = format!("{}\n{}\n\n", paint.strong(&title), indent(&clean(one.decision.reason()), 2));
    let by_rule = one.rule.as_deref().map(|rule| format!(", `{}`", clean_line(rule))).unwrap_or_default();
    let mut rows = vec![
        ("Question:", format!("{point} (in {}, {} executions begun)", one.state, one.iteration)),
        ("Source:", format!("{}{by_rule}", source(one.source))),
        ("Record:", format!("{}, at {}", one.record, one.at.to_rfc3339())),
        ("Took:", duration(one.latency_ms)),
        ("Used:", used(one)),
    ];
    if let Some(why) = one.rejected.last().filter(|_| one.source == DecisionSource::Fallback) {
        rows.insert(2, ("Because:", clean_line(why)));
    }
    if let Some(other) = &one.instead_of {
        rows.insert(2, ("In place:", format!("of {} ({})", decision(other), clean_line(other.reason()))));
    }
    for (name, value) in rows {
        text.push_str(&format!("{} {value}\n", paint.faint(&format!("{name:<10}"))));
    }
    for (at, call) in one.calls.iter().enumerate() {
        text.push_str(&asked(at, call, one.calls.len(), paint));
    }
    if let Some(input) = &one.input {
        text.push_str(&section("The arbiter's input", &pretty(input), paint));
    }
    text.push_str(&format!("\n{}\n{}", paint.strong("Alternatives"), alternatives(one, paint)));
    text
}

fn used(one: &Explanation) -> String {
    match one.calls.len() {
        0 => "no model was asked".to_owned(),
        calls => format!(
            "{}, {}{} tokens in, {} out, {}",
            counted(calls as u64, "model call"),
            about(&one.usage),
            tokens(one.usage.prompt_tokens()),
            tokens(one.usage.output_tokens),
            cost(one.cost_usd)
        ),
    }
}

/// A model call and its answer. For a repeated call, only the new message.
fn asked(at: usize, call: &ExplainedCall, of: usize, paint: Paint) -> String {
    let to = format!("{} ({})", clean_line(&call.model), clean_line(&call.provider));
    let mut text = String::new();
    if at == 0 {
        text.push_str(&section(&format!("System prompt, to {to}"), &call.system, paint));
        text.push_str(&section("Question", &transcript(&call.messages), paint));
    } else {
        let last: Vec<_> = call.messages.iter().rev().take(1).cloned().collect();
        let title = format!("Asked again, {} of {of}, to {to}", at + 1);
        text.push_str(&section(&title, &transcript(&last), paint));
    }
    let (title, words) = match &call.answer {
        CallAnswer::Replied { message, duration_ms, .. } => {
            (format!("Answer, after {}", duration(*duration_ms)), content(message))
        }
        CallAnswer::Failed { error, duration_ms } => (
            format!("The call failed, after {}", duration(*duration_ms)),
            format!("{}: {}", error.code, error.message),
        ),
        CallAnswer::Lost => {
            ("No answer".to_owned(), "the process ended before the answer was recorded".to_owned())
        }
        CallAnswer::Dropped => ("No answer".to_owned(), "the run stopped waiting for it".to_owned()),
    };
    text.push_str(&section(&title, &words, paint));
    if let Some(why) = &call.rejected {
        text.push_str(&format!("  {} {}\n", paint.bad("not usable:"), clean_line(why)));
    }
    text
}

fn alternatives(one: &Explanation, paint: Paint) -> String {
    let mut text = String::new();
    for agent in &one.alternatives.agents {
        let when = truncate(&clean_line(&agent.when_to_use), 120);
        let name = paint.name(&clean_line(&agent.name));
        text.push_str(format!("  SELECT_MODE {name}  {}", paint.faint(&when)).trim_end());
        text.push('\n');
    }
    for kind in one.alternatives.kinds.iter().filter(|kind| *kind != "SELECT_MODE") {
        text.push_str(&format!("  {kind}\n"));
    }
    match (&one.alternatives.rules, one.source) {
        (_, DecisionSource::Rule | DecisionSource::Fallback) => text.push_str("  the rules decided this\n"),
        (None, _) => {}
        (Some(rules), _) => {
            let same = if rules.kind() == one.decision.kind() && decision(rules) == decision(&one.decision) {
                "the same decision"
            } else {
                "another decision"
            };
            text.push_str(&format!(
                "  the rules would have made {same}: {} ({})\n",
                decision(rules),
                truncate(&clean_line(rules.reason()), 120)
            ));
        }
    }
    text
}

/// Shows a record of the journal.
fn record(workspace: &Workspace, journal: &Journal, seq: u64, as_json: bool) -> Result<Exit, Failure> {
    let known = journal.records.len();
    let found = match seq {
        0 => Some((json!(journal.header), "the header".to_owned())),
        seq => usize::try_from(seq).ok().and_then(|seq| {
            let record = journal.records.get(seq.checked_sub(1)?)?;
            Some(match record {
                Record::Event(event) => {
                    (json!(event), format!("{}, at {}", event.event.name(), event.at.to_rfc3339()))
                }
                Record::Step(step) => (json!(step), format!("the step that follows record {}", seq - 1)),
            })
        }),
    };
    let Some((data, title)) = found else {
        return Err(Failure::usage(format!("session {} has {known} records", journal.header.session))
            .with_hint(format!("name one between 0 (the header) and {known}")));
    };
    let console = &workspace.console;
    if as_json {
        console.json(&json!({"record": seq, "is": title, "data": data}))?;
        return Ok(Exit::Success);
    }
    let paint = console.paint();
    let mut text = format!("{}\n", paint.strong(&format!("Record {seq}: {title}")));
    for line in usize::try_from(seq).map(|seq| reasons(journal, seq)).unwrap_or_default() {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&format!("\n{}\n", indent(&clean(&pretty(&data)), 2)));
    console.write(&text)?;
    Ok(Exit::Success)
}

/// Where a record comes from, and the reasons that it holds.
fn reasons(journal: &Journal, seq: usize) -> Vec<String> {
    let Some(record) = seq.checked_sub(1).and_then(|at| journal.records.get(at)) else { return Vec::new() };
    match record {
        Record::Event(stamped) => {
            let Some(effect) = stamped.event.answers() else { return Vec::new() };
            let issued = journal.records.iter().enumerate().take(seq).find_map(|(at, record)| match record {
                Record::Step(step) => step.effects.iter().find_map(|one| {
                    let (id, what) = issued(one)?;
                    (id == effect).then(|| format!("answers {effect}: {what}, issued in record {}", at + 1))
                }),
                Record::Event(_) => None,
            });
            issued.into_iter().collect()
        }
        Record::Step(step) => {
            let notes = step.notes.iter().filter_map(|note| match note {
                Note::ToolCalled { agent, call, allowed: false, rule } => Some(format!(
                    "denied: {} by `{}`, by the rule `{}`",
                    clean_line(&call.name),
                    clean_line(agent),
                    clean_line(rule)
                )),
                Note::ApprovalAnswered { approval, .. } => {
                    Some(format!("the user was asked: {}", approval_in_words(approval)))
                }
                Note::Warned { message } => Some(format!("warned: {}", clean_line(message))),
                Note::DecisionMade(record) => Some(format!("decided: {}", decision(&record.decision))),
                Note::StateChanged { from, to, .. } => Some(format!("state: {from} -> {to}")),
                _ => None,
            });
            let begun =
                step.effects.iter().filter_map(issued).map(|(id, what)| format!("issues {id}: {what}"));
            notes.chain(begun).collect()
        }
    }
}

/// An effect that awaits an answer, in words.
fn issued(effect: &JournaledEffect) -> Option<(rawko_core::session::EffectId, String)> {
    use rawko_core::session::{Effect, TimerPurpose};
    match effect {
        JournaledEffect::RunTool { id, agent, call, rule, .. } => Some((
            *id,
            format!(
                "{} by `{}`, allowed by the rule `{}`",
                clean_line(&call.name),
                clean_line(agent),
                clean_line(rule)
            ),
        )),
        JournaledEffect::Whole(effect) => {
            let id = effect.awaits_answer()?;
            let what = match effect {
                Effect::StartTimer {
                    after_ms, purpose: TimerPurpose::Backoff | TimerPurpose::Retry, ..
                } => {
                    format!("a wait of {} before the next attempt", duration(*after_ms))
                }
                Effect::StartTimer { after_ms, .. } => format!("a timer of {}", duration(*after_ms)),
                effect => clean_line(&effect.in_words()),
            };
            Some((id, what))
        }
    }
}

fn section(title: &str, body: &str, paint: Paint) -> String {
    format!("\n{}\n{}\n", paint.strong(title), indent(clean(body).trim_end(), 2))
}

fn transcript(messages: &[std::sync::Arc<Message>]) -> String {
    let several = messages.len() > 1;
    let parts = messages.iter().map(|message| match (several, message.role) {
        (false, _) => content(message),
        (true, Role::User) => format!("[user]\n{}", content(message)),
        (true, Role::Assistant) => format!("[assistant]\n{}", content(message)),
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// A message: text as text, everything else as JSON.
fn content(message: &Message) -> String {
    let parts = message.content.iter().map(|part| match part {
        Content::Text { text } => text.clone(),
        other => pretty(&json!(other)),
    });
    parts.collect::<Vec<_>>().join("\n")
}

fn decision(decision: &Decision) -> String {
    match decision {
        Decision::SelectMode { mode, .. } => format!("SELECT_MODE {}", clean_line(mode)),
        Decision::Continue { .. }
        | Decision::Complete { .. }
        | Decision::Retry { .. }
        | Decision::Blocked { .. } => decision.kind().to_owned(),
    }
}

fn source(source: DecisionSource) -> &'static str {
    match source {
        DecisionSource::Llm => "model",
        DecisionSource::Rule => "rules",
        DecisionSource::Fallback => "rules, no usable answer",
        DecisionSource::Cache => "cache",
        DecisionSource::Human => "user",
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
