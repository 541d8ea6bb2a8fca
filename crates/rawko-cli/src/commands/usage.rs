//! `rawko usage`: tokens and costs of sessions, added up from their journals.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rawko::journal::{PaidCall, SessionStore, paid_calls};
use rawko_core::{Timestamp, Usage};
use serde::Serialize;
use serde_json::{Value, json};

use crate::config_args::time_span;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, Rows, clean_line, cost, counted, tokens};
use crate::workspace::Workspace;

/// Options of `rawko usage`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct UsageArgs {
    /// Only calls since this date (2026-01-31, or RFC 3339), or of the last 7d, 12h …
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Sum up by model, agent, project or day [default: model]
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true)]
    by: Option<Grouping>,
    /// Sessions of these projects instead of the current one: --project ~/work/*
    #[arg(long, value_name = "DIR", num_args = 1..)]
    project: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the figures are added up by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Grouping {
    /// Provider and model.
    #[default]
    Model,
    /// Who asked: an agent, the arbiter's questions, memories, summaries.
    Agent,
    /// The project's folder.
    Project,
    /// The day, where the user is.
    Day,
}

impl Grouping {
    fn heading(self) -> &'static str {
        match self {
            Self::Model => "MODEL",
            Self::Agent => "AGENT",
            Self::Project => "PROJECT",
            Self::Day => "DAY",
        }
    }
}

/// What some calls used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    calls: u64,
    sessions: u64,
    usage: Usage,
    known_cost_usd: f64,
    unpriced_calls: u64,
}

impl Sum {
    fn add(&mut self, call: &PaidCall<'_>) {
        self.calls += 1;
        self.usage += call.usage;
        match call.cost_usd {
            Some(cost) => self.known_cost_usd += cost,
            None => self.unpriced_calls += 1,
        }
    }

    /// The cost; absent where the price of a call is not known.
    fn cost_usd(&self) -> Option<f64> {
        (self.unpriced_calls == 0).then_some(self.known_cost_usd)
    }

    fn json(&self) -> Value {
        json!({
            "calls": self.calls,
            "sessions": self.sessions,
            "usage": self.usage,
            "costUsd": self.cost_usd(),
            "knownCostUsd": self.known_cost_usd,
            "unpricedCalls": self.unpriced_calls,
        })
    }

    /// The cost in words.
    fn spent(&self) -> String {
        match self.cost_usd() {
            None if self.unpriced_calls < self.calls => {
                format!("{} + unknown", cost(Some(self.known_cost_usd)))
            }
            None => "unknown".to_owned(),
            known => cost(known),
        }
    }

    /// A number of tokens, and whether it is an estimate.
    fn about(&self, count: u64) -> String {
        format!("{}{}", if self.usage.estimated { "~" } else { "" }, tokens(count))
    }
}

/// A journal that could not be read whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct UnreadJournal {
    project: String,
    session: String,
    problem: String,
    /// Whether the records before the damage are in the figures.
    is_counted_in_part: bool,
}

/// The figures of all sessions that were read.
#[derive(Debug, Default)]
struct UsageReport {
    groups: BTreeMap<String, Sum>,
    total: Sum,
    unread: Vec<UnreadJournal>,
}

/// Sums up the sessions.
pub(crate) fn run(workspace: &Workspace, arguments: &UsageArgs) -> Result<Exit, Failure> {
    let clock = Clock::local();
    let since = arguments.since.as_deref().map(|text| since(text, clock)).transpose()?;
    let by = arguments.by.unwrap_or_default();
    let mut report = UsageReport::default();
    let projects = projects(workspace, arguments)?;
    for project in &projects {
        report.read_project(project, since, by, clock)?;
    }
    let console = &workspace.console;
    if arguments.json {
        let groups: Vec<Value> = report.groups.iter().map(|(name, sum)| named(by, name, sum)).collect();
        console.json(&json!({
            "since": since.map(Timestamp::to_rfc3339),
            "by": by,
            "projects": projects,
            "groups": groups,
            "total": report.total.json(),
            "unread": report.unread,
        }))?;
        return Ok(Exit::Success);
    }
    report.warn(workspace)?;
    if report.total.calls == 0 {
        let among = counted(projects.len() as u64, "project");
        console.line(&format!("no model calls in the sessions of {among}"))?;
        return Ok(Exit::Success);
    }
    let mut sums: Vec<(&str, &Sum)> = report.groups.iter().map(|(name, sum)| (name.as_str(), sum)).collect();
    if sums.len() > 1 {
        sums.push(("total", &report.total));
    }
    console.write(&Rows::new(console.paint(), &sums).table(&[
        (by.heading(), &|(name, _)| (*name).to_owned()),
        ("CALLS", &|(_, sum)| sum.calls.to_string()),
        ("SESSIONS", &|(_, sum)| sum.sessions.to_string()),
        ("IN", &|(_, sum)| sum.about(sum.usage.prompt_tokens())),
        ("CACHED", &|(_, sum)| tokens(sum.usage.cache_read_tokens)),
        ("OUT", &|(_, sum)| sum.about(sum.usage.output_tokens)),
        ("COST", &|(_, sum)| sum.spent()),
    ]))?;
    if report.total.unpriced_calls > 0 {
        console.line("unknown: the model has no price here; set one under `prices` in the configuration")?;
    }
    Ok(Exit::Success)
}

fn named(by: Grouping, name: &str, sum: &Sum) -> Value {
    let mut value = sum.json();
    if let Value::Object(fields) = &mut value {
        fields.insert(by.heading().to_lowercase(), name.into());
    }
    value
}

/// The moment that `--since` names.
fn since(text: &str, clock: Clock) -> Result<Timestamp, Failure> {
    if let Some(at) = clock.since(text) {
        return Ok(at);
    }
    match time_span(text) {
        // A plain number would be seconds, which users do not mean here.
        Ok(span) if !text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Timestamp(clock.now().0.saturating_sub(span.as_ms())))
        }
        Ok(_) | Err(_) => Err(Failure::usage(format!(
            "--since: `{}` is neither a date nor a length of time",
            clean_line(text)
        ))
        .with_hint("write a date like 2026-01-31, or a length of time like 7d or 12h")),
    }
}

fn is_folder(path: PathBuf) -> Result<PathBuf, String> {
    if path.is_dir() { Ok(path) } else { Err("this is not a folder".to_owned()) }
}

/// The folders whose sessions count, each once.
fn projects(workspace: &Workspace, arguments: &UsageArgs) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut projects = BTreeSet::new();
    // A pattern of the shell names whatever is there.
    let mut skipped = Vec::new();
    for folder in &arguments.project {
        match folder.canonicalize().map_err(|error| error.to_string()).and_then(is_folder) {
            Ok(real) => {
                rawko::check_project_folder(&real)?;
                projects.insert(real);
            }
            Err(why) => skipped.push(format!("{}: {why}", clean_line(&folder.to_string_lossy()))),
        }
    }
    if projects.is_empty() && !skipped.is_empty() {
        return Err(Failure::usage(format!("--project names no folder: {}", skipped.join("; ")))
            .with_hint("name the folder of a project, the one that has `.rawko`"));
    }
    for skipped in skipped {
        workspace.console.write_error(&format!("skipped {skipped}\n"))?;
    }
    if arguments.project.is_empty() {
        projects.insert(workspace.project()?);
    }
    Ok(projects)
}

impl UsageReport {
    fn read_project(
        &mut self,
        project: &Path,
        since: Option<Timestamp>,
        by: Grouping,
        clock: Clock,
    ) -> Result<(), Failure> {
        let name = project.display().to_string();
        let journals = SessionStore::of_project(project).journals().map_err(rawko::Error::from)?;
        for (session, journal) in journals {
            if since.is_some_and(|since| was_last_written_before(&journal, since)) {
                continue;
            }
            let mut seen = BTreeSet::new();
            let read = paid_calls(&journal, |call| {
                if since.is_some_and(|since| call.at < since) {
                    return;
                }
                let group = match by {
                    Grouping::Model => format!("{}/{}", call.provider, call.model),
                    Grouping::Agent => call.agent.to_owned(),
                    Grouping::Project => name.clone(),
                    Grouping::Day => clock.date(call.at),
                };
                self.total.sessions += u64::from(seen.is_empty());
                self.total.add(call);
                let is_first = !seen.contains(&group);
                let sum = self.groups.entry(group.clone()).or_default();
                sum.sessions += u64::from(is_first);
                sum.add(call);
                if is_first {
                    seen.insert(group);
                }
            });
            let (problem, is_counted_in_part) = match read {
                Ok(None) => continue,
                Ok(Some(damage)) => (damage, true),
                Err(error) => (error, false),
            };
            self.unread.push(UnreadJournal {
                project: name.clone(),
                session,
                problem: problem.to_string(),
                is_counted_in_part,
            });
        }
        Ok(())
    }

    /// Names the journals that are not in the figures, or not whole.
    fn warn(&self, workspace: &Workspace) -> Result<(), Failure> {
        let label = workspace.console.error_paint().warning("warning:");
        for UnreadJournal { session, problem, is_counted_in_part, .. } in &self.unread {
            let how = if *is_counted_in_part { "counted up to its damage" } else { "not counted" };
            let text = format!("{label} session {}: {how}: {}\n", clean_line(session), clean_line(problem));
            workspace.console.write_error(&text)?;
        }
        Ok(())
    }
}

/// Whether nothing was appended to a journal since then. One whose time is not known is read.
fn was_last_written_before(journal: &Path, since: Timestamp) -> bool {
    let modified = std::fs::symlink_metadata(journal).and_then(|data| data.modified());
    let after_epoch = modified.ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    after_epoch.is_some_and(|at| at.as_millis() < u128::from(since.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(cost_usd: Option<f64>) -> PaidCall<'static> {
        let usage =
            Usage { input_tokens: 1_000, output_tokens: 10, cache_read_tokens: 500, ..Usage::default() };
        PaidCall { at: Timestamp(0), agent: "a", provider: "p", model: "m", usage, cost_usd }
    }

    #[track_caller]
    fn check(costs: &[Option<f64>], shown: &str, known: Option<f64>) {
        let mut sum = Sum::default();
        costs.iter().for_each(|cost| sum.add(&call(*cost)));
        assert_eq!((sum.spent().as_str(), sum.json()["costUsd"].as_f64()), (shown, known));
    }

    #[test]
    fn what_has_no_price_is_unknown_and_not_0() {
        check(&[Some(0.25), Some(1.0)], "$1.25", Some(1.25));
        check(&[Some(0.0)], "$0.00", Some(0.0));
        check(&[None, None], "unknown", None);
        check(&[Some(0.25), None], "$0.2500 + unknown", None);
    }

    #[test]
    fn since_is_a_date_or_a_length_of_time() {
        let clock = Clock::standing(|| Timestamp(1_769_160_600_000));
        let at = |text: &str| since(text, clock).ok();
        assert_eq!(at("2026-01-23"), Timestamp::from_rfc3339("2026-01-23T00:00:00Z"));
        assert_eq!(at("7d"), Timestamp::from_rfc3339("2026-01-16T09:30:00Z"));
        assert_eq!(at("1d12h"), Timestamp::from_rfc3339("2026-01-21T21:30:00Z"));
        for wrong in ["7", "", "last week", "-7d"] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }
}
