//! Replaying, against what was recorded and against today's configuration.

use rawko::journal::{JournaledEffect, Record};
use rawko::{Replay, ReplayDifference};
use rawko_core::request::Purpose;
use rawko_core::session::Effect;

use crate::trial::{Trial, check_replay};

#[tokio::test]
async fn a_session_leads_to_what_it_recorded_and_is_counted() {
    let trial = Trial::new();
    trial.run().await;
    let journal = trial.journal();
    check_replay(&journal);
    let Replay { counts, state, .. } = rawko::replay(&journal);
    assert_eq!((counts.requests, counts.decisions), (11, 3));
    assert_eq!((counts.tool_calls, state), (7, rawko_core::machine::State::Complete));
    let rawko = trial.rawko();
    assert_eq!(rawko.replay(&journal).unwrap().difference, None);
    // Whatever a journal lacks at its end, the rest of it replays.
    for at in 0..journal.records.len() {
        let mut part = journal.clone();
        part.records.truncate(at);
        check_replay(&part);
        assert_eq!(rawko.replay(&part).unwrap().difference, None, "cut at {at}");
    }
}

#[tokio::test]
async fn a_changed_record_is_reported_by_its_fields() {
    let trial = Trial::new();
    trial.run().await;
    let mut journal = trial.journal();
    let mut changed = 0;
    for (at, record) in journal.records.iter_mut().enumerate() {
        if let Record::Step(step) = record
            && let Some(JournaledEffect::Whole(Effect::CallModel {
                purpose: Purpose::Agent { .. },
                digest,
                ..
            })) = step.effects.first_mut()
        {
            "0000".clone_into(digest);
            changed = at + 1;
            break;
        }
    }
    let difference = rawko::replay(&journal).difference.unwrap();
    assert_eq!(difference.record, changed as u64);
    assert_eq!(difference.after, "ModelReplied");
    assert_eq!(difference.request, Some(Purpose::Agent { name: "worker".into() }));
    let fields: Vec<&str> = difference.fields.iter().map(|field| field.field.as_str()).collect();
    assert_eq!(fields, ["effects[0].digest"]);
    assert_eq!(difference.fields[0].recorded, "0000");
}

async fn check(change: impl Fn(&Trial), purpose: Option<&str>, field: &str, derived: &str) {
    let trial = Trial::new();
    trial.run().await;
    let journal = trial.journal();
    change(&trial);
    // The record does not depend on today's configuration.
    check_replay(&journal);
    let replay = trial.rawko().replay(&journal).unwrap();
    let ReplayDifference { request, fields, .. } = replay.difference.expect(field);
    assert_eq!(request.map(|purpose| purpose.to_string()).as_deref(), purpose, "{fields:?}");
    let found = fields.iter().find(|found| found.field.starts_with(field));
    let found = found.unwrap_or_else(|| panic!("{field} is not among {fields:?}"));
    let text = found.derived.as_str().map_or_else(|| found.derived.to_string(), str::to_owned);
    assert!(text.contains(derived), "{found:?}");
}

#[tokio::test]
async fn a_changed_prompt_is_reported_by_the_request_that_it_changes() {
    let agent = |text: &'static str| move |trial: &Trial| trial.write(".rawko/agents/checker.yaml", text);
    let changed = agent("name: checker\nsystemPrompt: You check twice.\n");
    check(changed, Some("checker"), "effects[0].request.system", "You check twice.").await;
    let changed = agent("name: checker\nsystemPrompt: You check.\ntools: {blocked: [Bash]}\n");
    check(changed, Some("select"), "effects[1].request.", "Without: Bash").await;
    let changed = agent("name: checker\nsystemPrompt: You check.\nlimits: {maxTokens: 77}\n");
    check(changed, Some("checker"), "effects[0].request.maxTokens", "77").await;
    let changed = |trial: &Trial| {
        trial.write(
            ".rawko/prompts/arbiter-select.md",
            "Choose well.\n<!-- volatile -->\n{{task}} {{agents}}",
        );
    };
    check(changed, Some("select"), "effects[1].request.messages[0].content[0].text", "do it").await;
    let changed = |trial: &Trial| trial.write(".rawko/config.yaml", "constraints: {maxIterations: 9}\n");
    check(changed, Some("select"), "effects[1].request.messages[0].content[0].text", "9").await;
}

#[tokio::test]
async fn a_changed_permission_is_reported_where_it_denies() {
    // The list of tools that models get stays the same; only the verdict on one call changes.
    let changed = |trial: &Trial| {
        trial.write(
            ".rawko/agents/worker.yaml",
            "name: worker\nsystemPrompt: You work.\ntools: {blocked: [Grep, Append]}\n",
        );
    };
    check(changed, Some("select"), "effects[1].request.", "Without: Grep, Append").await;
}
