//! `rawko memory match`: which memories an agent would get for a task, and why.

use clap::Args;
use rawko::memory::{MemoryStore, Recall, RecallOptions};
use rawko_core::memory::{Chosen, LeftOut, PatternMatch, Query, Recipient, Score};
use serde_json::{Value, json};

use super::shown::{day, header_json, importance, kind, warn};
use crate::commands::agents;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, Paint, clean_line};
use crate::workspace::Workspace;

/// Options of `rawko memory match`.
#[derive(Debug, Args)]
pub(crate) struct MatchArgs {
    /// The task
    #[arg(long, value_name = "TEXT")]
    task: String,
    /// The agent that would get the memories
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// The plan's current step
    #[arg(long, value_name = "TEXT")]
    step: Option<String>,
    /// The plan, a step a line: without `--step` its first step is the current one
    #[arg(long, value_name = "TEXT")]
    plan: Option<String>,
    /// Earlier reports; they have no say in what is found
    #[arg(long, value_name = "TEXT", hide = true)]
    history: Option<String>,
    /// Also say why each other memory is not given
    #[arg(long)]
    explain: bool,
    /// Print JSON, with the text that the agent would be given
    #[arg(long)]
    json: bool,
}

/// Says what would be given.
pub(super) fn run(
    workspace: &Workspace,
    store: &MemoryStore,
    arguments: &MatchArgs,
) -> Result<Exit, Failure> {
    let rawko = workspace.inspect()?;
    let agent = &agents::find(&rawko, &arguments.agent)?.config;
    let memory = &rawko.config().config.memory;
    let recipient = Recipient::of(agent, memory.max_injected, memory.min_importance);
    let planned = || arguments.plan.as_deref()?.lines().find(|line| !line.trim().is_empty());
    let step = arguments.step.as_deref().or_else(planned);
    let query = Query::new(&arguments.task, &agent.name, step);
    let options = RecallOptions { now: Clock::local().now() };
    let recall = if arguments.explain {
        store.explain(&query, &recipient, &options)
    } else {
        store.recall(&query, &recipient, &options)
    };
    warn(workspace, store, &recall.reports);
    let text = |paint| as_text(arguments, &recall, paint);
    workspace.console.output(arguments.json, &as_json(arguments, &recall), text)?;
    Ok(Exit::Success)
}

fn as_json(arguments: &MatchArgs, recall: &Recall) -> Value {
    let memories: Vec<Value> = recall.selection.chosen.iter().map(chosen_json).collect();
    json!({
        "task": arguments.task,
        "agent": arguments.agent,
        "total": recall.total,
        "memories": memories,
        "leftOut": recall.selection.left_out,
        "unmet": recall.selection.unmet,
        "block": recall.block,
        "reports": recall.reports,
    })
}

fn chosen_json(one: &Chosen) -> Value {
    let mut value = header_json(&one.memory.path, &one.memory.header);
    value["score"] = json!(one.score);
    value["matches"] = json!(one.matches);
    value["words"] = json!(one.words);
    value["staleness"] = json!(one.staleness);
    value["contradictions"] = json!(one.contradictions);
    value
}

fn as_text(arguments: &MatchArgs, recall: &Recall, paint: Paint) -> String {
    let Recall { selection, total, .. } = recall;
    let mut text =
        format!("{} of {total} memories for {}\n", selection.chosen.len(), clean_line(&arguments.agent));
    for (at, one) in selection.chosen.iter().enumerate() {
        let header = &one.memory.header;
        let title = paint.strong(&clean_line(&header.title));
        text.push_str(&format!("\n{:>2}. {title}  {}\n", at + 1, paint.name(&points(one.score.total))));
        let by = header.discovered_by.as_deref().unwrap_or("unknown");
        let mut row = |name: &str, value: &str| {
            text.push_str(&format!("    {} {}\n", paint.faint(&format!("{name:<9}")), clean_line(value)));
        };
        let about = format!(
            "{}, {}, {}, {} by {by}",
            one.memory.path,
            importance(header.importance),
            kind(header.kind),
            day(header.discovered_at)
        );
        row("file", &about);
        for found in &one.matches {
            row("matches", &matched(found));
        }
        if !one.words.is_empty() {
            row("words", &one.words.join(", "));
        }
        row("score", &sum(&one.score));
        for sentence in one.staleness.sentences() {
            row("warning", &sentence);
        }
        for other in &one.contradictions {
            let given = if other.shown { "given too" } else { "not given" };
            row(
                "contrary",
                &format!("{} ({}, {}, {given})", other.title, other.path, day(other.discovered_at)),
            );
        }
    }
    if let Some(others) = selection.unmet.sentence() {
        text.push_str(&format!("\n{}{}\n", others[..1].to_uppercase(), &others[1..]));
    }
    if !selection.left_out.is_empty() {
        let heading = if arguments.explain { "Not given:" } else { "Not given, of those that came near:" };
        text.push_str(&format!("\n{heading}\n"));
        for one in &selection.left_out {
            text.push_str(&format!("  {}\n", left(one)));
        }
    }
    text
}

fn left(one: &LeftOut) -> String {
    let score = one.score.map(|score| format!(" ({})", points(score.total))).unwrap_or_default();
    clean_line(&format!("{}{score}: {} [{}]", one.title, one.reason.sentence(), one.path))
}

fn matched(found: &PatternMatch) -> String {
    let words = found.words.map(|(some, all)| format!(", {some} of {all} words")).unwrap_or_default();
    let (part, reading) = (found.part.as_str(), found.reading.as_str());
    format!("`{}` ({reading}{words}) in the {part}: {}", found.pattern, found.found)
}

fn sum(score: &Score) -> String {
    let parts: Vec<String> = score
        .components()
        .iter()
        .filter(|(_, points)| points.abs() > 0.0)
        .map(|(name, amount)| format!("{name} {}", points(*amount)))
        .collect();
    format!("{} = {}", parts.join(", "), points(score.total))
}

/// At most one decimal.
fn points(points: f64) -> String {
    let text = format!("{points:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
