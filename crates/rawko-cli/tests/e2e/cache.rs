//! The arbiter's cache: the same question is put to a model once, and another question every time.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Who, Wire};

use crate::answers::{always, complete, decide, report, select};
use crate::trial::{Ended, Trial};

/// A user's cache directory, which several projects share.
struct Cache(tempfile::TempDir);

impl Cache {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.path().join("rawko/arbiter"));
        files.into_iter().flatten().map(|file| file.unwrap().path()).collect()
    }

    /// A fresh project of this user.
    fn trial(&self) -> Trial {
        let server = always(select("developer"), complete("all done"), report("did it"));
        Trial::new(server).env("XDG_CACHE_HOME", self.path().display().to_string())
    }

    /// A run in a fresh project, `change`d: how often each question was put to the model.
    #[track_caller]
    fn asks(&self, task: &str, change: impl FnOnce(Trial) -> Trial, select: usize, evaluate: usize) -> Ended {
        let ended = change(self.trial()).run(task);
        ended.exits(0);
        let asked = ended.trial.server.asked();
        let count = |who: Who| asked.iter().filter(|asked| asked.who() == who).count();
        assert_eq!((count(Who::Select), count(Who::Evaluate)), (select, evaluate), "{}", ended.stdout);
        ended
    }
}

fn same(trial: Trial) -> Trial {
    trial
}

fn sources(ended: &Ended) -> Vec<Value> {
    ended.events_of("decision_made").into_iter().map(|decision| decision["source"].clone()).collect()
}

#[test]
fn the_same_question_is_asked_once() {
    let cache = Cache::new();
    let first = cache.asks("Fix it.", same, 1, 1);
    assert_eq!(sources(&first), ["llm", "llm"]);
    assert_eq!(cache.files().len(), 1, "the choice is remembered, COMPLETE is not");
    let second = cache.asks("Fix it.", same, 0, 1);
    assert_eq!(sources(&second), ["cache", "llm"]);
    let (code, out, _) = second.trial.rawko(&["replay", "last"]);
    assert_eq!(code, Some(0), "{out}");
    let project = second.trial.project();
    assert!(!project.join(".rawko/cache").exists() && !project.join(".cache").exists());
}

#[test]
fn another_question_is_asked() {
    let cache = Cache::new();
    cache.asks("Fix it.", same, 1, 1);
    cache.asks("Fix that.", same, 1, 1);
    let helper = json!({"name": "helper", "systemPrompt": "Help.", "whenToUse": "for help", "tools": {"allowed": ["Read"]}});
    cache.asks("Fix it.", |trial| trial.agent(&helper), 1, 1);
    cache.asks("Fix it.", |trial| trial.args(&["--model", "another"]), 1, 1);
    let template = "Who?\n<!-- volatile -->\n{task} {agents}\nThe next agent: call `decide`.";
    let with_template =
        |trial: Trial| trial.file(".rawko/prompts/arbiter-select.md", template).args(&["--yes"]);
    cache.asks("Fix it.", with_template, 1, 1);
    cache.asks("Fix it.", |trial| trial.args(&["--max-iterations", "7"]), 1, 1);
    cache.asks("Fix it.", |trial| trial.wire(Wire::OpenAi), 1, 1);
    cache.asks("Fix it.", same, 0, 1);
}

#[test]
fn it_can_be_left_out_and_taken_for_both_questions() {
    let cache = Cache::new();
    cache.asks("Fix it.", |trial| trial.args(&["--no-cache"]), 1, 1);
    assert!(cache.files().is_empty());
    cache.asks("Fix it.", same, 1, 1);
    cache.asks("Fix it.", |trial| trial.args(&["--no-cache"]), 1, 1);
    cache.asks("Fix it.", |trial| trial.user_config("/arbiter/cache", json!(false)), 1, 1);
    cache.asks("Fix it.", |trial| trial.user_config("/arbiter/cache", json!({"select": false})), 1, 1);
    // What the agents did is part of the second question, and with it when they did it.
    let again = || {
        let retry = decide(json!({"decision": "SELECT_MODE", "mode": "tester", "reason": "test it"}));
        let mut asked = 0;
        let server = testkit::ModelServer::start(move |question| match question.who() {
            Who::Select => select("developer"),
            Who::Agent => report("did it"),
            Who::Evaluate => {
                asked += 1;
                if asked == 1
                    && question.last_text().contains("iteration 1")
                    && !question.last_text().contains("iteration 2")
                {
                    retry.clone()
                } else {
                    complete("all done")
                }
            }
        });
        Trial::new(server)
            .env("XDG_CACHE_HOME", cache.path().display().to_string())
            .user_config("/arbiter/cache", json!(true))
            .run("Fix it.")
    };
    assert_eq!(sources(&again()), ["cache", "llm", "llm"]);
    assert_eq!(sources(&again()), ["cache", "cache", "llm"]);
}

#[test]
fn a_server_that_a_project_names_decides_for_no_other() {
    let cache = Cache::new();
    let of_project = |trial: Trial| {
        let mine = json!({
            "type": "claude", "baseUrl": trial.server.claude_url(), "apiKeyEnv": "OPENAI_API_KEY", "model": "m",
        });
        // The environment names another provider and its address.
        trial.wire(Wire::OpenAi).config(&json!({"provider": {"default": "mine", "mine": mine}})).args(&[
            "--yes",
            "--provider",
            "mine",
        ])
    };
    cache.asks("Fix it.", of_project, 1, 1);
    // The same question to the same model by the same name, but another server.
    cache.asks("Fix it.", of_project, 1, 1);
}

#[test]
fn a_broken_file_is_as_good_as_absent() {
    let cache = Cache::new();
    cache.asks("Fix it.", same, 1, 1);
    std::fs::write(&cache.files()[0], "{\"version\":1,").unwrap();
    cache.asks("Fix it.", same, 1, 1);
    cache.asks("Fix it.", same, 0, 1);
}

#[test]
fn a_dry_run_looks_up_and_remembers_nothing() {
    let cache = Cache::new();
    let dry = |select: usize| {
        let ended = cache.trial().args(&["--dry-run", "--no-verify"]).output("json").run("Fix it.");
        let asked = ended.trial.server.asked();
        assert_eq!(asked.iter().filter(|asked| asked.who() == Who::Select).count(), select);
    };
    dry(1);
    assert!(cache.files().is_empty());
    // A dry run is one of a single execution without checks: another question than that of a whole run.
    cache.trial().args(&["--max-iterations", "1", "--no-verify"]).run("Fix it.");
    assert_eq!(cache.files().len(), 1);
    dry(0);
}

#[test]
fn a_folder_that_cannot_be_written_is_no_obstacle() {
    let cache = Cache::new();
    std::fs::write(cache.path().join("rawko"), "no folder").unwrap();
    cache.asks("Fix it.", same, 1, 1);
    cache.asks("Fix it.", same, 1, 1);
}
