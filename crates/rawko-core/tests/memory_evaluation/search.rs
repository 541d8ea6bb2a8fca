//! Asks what a task would be given, by the same code as a run.

use std::collections::BTreeMap;

use rawko_core::Timestamp;
use rawko_core::agent::{AgentConfig, Importance};
use rawko_core::memory::{DEFAULT_MAX_INJECTED, Memory, Query, RankInput, Recipient, rank};
use serde_json::json;

use super::set::LabelledQuery;

/// What else is there when the task is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    /// The task alone, as at the beginning of a run.
    Task,
    /// A plan of which one step is current. Its other steps and earlier reports are no query.
    Plan,
}

impl Context {
    /// Both, with their names.
    pub(super) const ALL: [(&str, Self); 2] = [("task alone", Self::Task), ("with a step", Self::Plan)];
}

/// Plans as planners write them.
const PLANS: [&str; 3] = [
    "Read the code that is concerned and its tests\nWrite a failing test\nMake the change\nRun all tests and the linter\nUpdate the changelog",
    "Find out where the data is loaded and cached\nChange the schema and write the migration\nAdapt the API and the form\nCheck the permissions\nDocument it",
    "Look at the logs of the last deploy\nReproduce the failure in an integration test\nRepair it\nReview the error handling\nPrepare the release",
];

/// The paths of what a task is given, best first.
pub(super) fn found(memories: &[Memory], query: &LabelledQuery, context: Context) -> Vec<String> {
    let around = RankInput { now: Timestamp(0), ..RankInput::default() };
    let agent: AgentConfig =
        serde_json::from_value(json!({"name": query.agent, "systemPrompt": ""})).unwrap();
    let recipient = Recipient::of(&agent, DEFAULT_MAX_INJECTED, Importance::Low);
    let asked = asked(query, context);
    let ranking = rank(memories, &asked, &recipient, &around);
    ranking.choose(&BTreeMap::new()).chosen.into_iter().map(|one| one.memory.path).collect()
}

fn asked(query: &LabelledQuery, context: Context) -> Query {
    if context == Context::Task {
        return Query::new(&query.task, &query.agent, None);
    }
    // Another step for each task, the same in every run.
    let number = query.id.bytes().map(usize::from).sum::<usize>();
    let steps: Vec<&str> = PLANS[number % PLANS.len()].lines().collect();
    Query::new(&query.task, &query.agent, Some(steps[number / 7 % steps.len()]))
}
