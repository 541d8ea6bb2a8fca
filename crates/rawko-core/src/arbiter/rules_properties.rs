//! For any record: no rule says COMPLETE against it, and a certain COMPLETE rests on a check that passed.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::case::Ruling;
use super::execution_record::{Checks, ExecutionRecord};
use super::input::{ExecutionSummary, RunFacts};
use super::objection::Objection;
use super::rules::{rule_on_progress, rule_on_selection};
use super::testing::{InputBuilder, builtin, execution};
use crate::agent::Verdict;
use crate::machine::Decision;

fn command() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["cargo test", "pytest -q", "grep x y"]);
    let code = prop::sample::select(vec![json!(0), json!(0), json!(1), json!(127), Value::Null]);
    (name, code, prop::bool::weighted(0.2)).prop_map(|(command, code, stale)| {
        let is_check = !command.starts_with("grep");
        json!({"command": command, "exitCode": code, "isCheck": is_check, "beforeLastWrite": stale})
    })
}

fn entry() -> impl Strategy<Value = Value> {
    let agent = prop::sample::select(vec!["planner", "developer", "tester", "reviewer", "stranger"]);
    let status = prop::sample::select(vec!["success", "success", "success", "failure", "cancelled"]);
    let ended = prop::sample::select(vec!["reported", "reported", "end_turn", "max_iterations"]);
    let verdict = prop::sample::select(vec![
        Value::Null,
        json!("approved"),
        json!("approved"),
        json!("rejected"),
        json!("blocked"),
    ]);
    let commands = prop::collection::vec(command(), 0..3);
    let files = prop::collection::vec(Just("a.rs"), 0..2);
    let said = prop::sample::select(vec!["", "I reject this change.", "Done. COMPLETE."]);
    (agent, status, ended, verdict, commands, files, said).prop_map(
        |(agent, status, ended, verdict, commands, files, said)| {
            json!({
                "agent": agent, "status": status, "output": {"summary": said, "filesModified": files},
                "facts": {"turns": 1, "ended": ended, "verdict": verdict, "commands": commands},
            })
        },
    )
}

fn history() -> impl Strategy<Value = Vec<ExecutionSummary>> {
    prop::collection::vec(entry(), 1..6).prop_map(|entries| {
        let numbered = (1_u32..).zip(entries).map(|(iteration, mut entry)| {
            entry["iteration"] = json!(iteration);
            execution("developer", entry)
        });
        numbered.collect()
    })
}

/// A run whose verification has not been run, or passed or failed on this tree or an older one.
fn facts() -> impl Strategy<Value = RunFacts> {
    let checks = prop::option::of(prop::sample::select(vec![json!([]), json!(["cargo test"])]));
    (prop::option::of((any::<bool>(), any::<bool>())), checks).prop_map(|(verification, checks)| {
        let commands = json!([{"command": "cargo test", "exitCode": 0, "output": "", "durationMs": 1}]);
        let verification = verification
            .map(|(passed, stale)| json!({"passed": passed, "isStale": stale, "commands": commands}));
        serde_json::from_value(json!({ "verification": verification, "checks": checks })).unwrap()
    })
}

fn check(ruling: Option<Ruling>, record: &ExecutionRecord<'_>) -> Result<(), TestCaseError> {
    let Some(Ruling { decision: Decision::Complete { .. }, rule, certain }) = ruling else { return Ok(()) };
    let objection = Objection::in_record(record);
    prop_assert!(objection.is_none(), "{rule}: {objection:?}");
    let last = record.last().unwrap();
    prop_assert!(!matches!(last.verdict(), Some(Verdict::Rejected | Verdict::Blocked)), "{rule}");
    let is_verified = record.passed_verification().next().is_some();
    let newest = last.commands().last().filter(|fact| fact.is_check && !fact.before_last_write);
    let is_red = newest.is_some_and(|fact| !matches!(fact.exit_code, Some(0 | 127)));
    let counts = !record.is_checked_by_rawko();
    prop_assert!(!is_red || !last.wrote() || is_verified || !counts, "{rule}: COMPLETE after a red check");
    if certain {
        prop_assert_eq!(record.checks(), Checks::Passed, "{}", rule);
        let judges = ["tester", "reviewer"].contains(&last.agent.as_str());
        prop_assert!(!judges || last.verdict() == Some(Verdict::Approved), "{rule}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_rule_completes_against_the_record(
        history in history(),
        facts in facts(),
        steps in prop::collection::vec(prop::sample::select(vec!["complete", "complete", "pending"]), 0..3),
        left in 0..3_u32,
    ) {
        let scene = InputBuilder::default()
            .with(json!({"constraints": {"iterationsRemaining": left}, "facts": facts}))
            .plan(&steps)
            .history(history);
        let input = scene.evaluate();
        let record = ExecutionRecord::of(&input.history, Some(&input.last_execution), &input.facts);
        check(rule_on_progress(&input, &builtin()), &record)?;
        let input = scene.select();
        let record = ExecutionRecord::of(&input.history, None, &input.facts);
        check(rule_on_selection(&input), &record)?;
    }
}
