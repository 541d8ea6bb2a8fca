//! Runs that cannot begin, or begin in a place that is not as usual.

use serde_json::json;
use testkit::{Answer, ModelServer, Wire};

use crate::answers::{call, developer};
use crate::trial::{CANARY, Ended, Trial};

/// A server that nobody has any business to ask.
fn unasked() -> ModelServer {
    ModelServer::sequence([])
}

/// The run does not begin, says why in these words, and asks nobody.
#[track_caller]
fn check(trial: Trial, task: &str, code: i32, words: &[&str]) -> Ended {
    let ended = trial.run(task);
    ended.exits(code).says(words).says(&["error:", "hint:"]);
    assert!(ended.trial.server.asked().is_empty(), "the server was asked");
    ended
}

#[test]
fn no_task() {
    check(Trial::new(unasked()), "", 2, &["no task", "rawko --help"]);
    check(Trial::new(unasked()), " \n ", 2, &["no task"]);
}

#[test]
fn no_key() {
    let words = ["ANTHROPIC_API_KEY", "is not set", "rawko demo"];
    check(Trial::new(unasked()).without_key(), "Do it.", 4, &words);
}

#[test]
fn a_first_agent_that_is_not_there() {
    let words = ["no agent `wizard`", "planner"];
    check(Trial::new(unasked()).args(&["--agent", "wizard"]), "Do it.", 2, &words);
}

/// The configuration's errors come with their file and line.
#[track_caller]
fn check_configuration(path: &str, text: &str, words: &[&str]) {
    let ended = Trial::new(unasked()).file(path, text).run("Do it.");
    ended.exits(2).says(words).says(&[path]);
    assert!(ended.trial.server.asked().is_empty());
}

#[test]
fn a_configuration_with_mistakes() {
    check_configuration(".rawko/config.yaml", "agents:\n  default: wizard\n", &["wizard", ":2:"]);
    check_configuration(".rawko/config.yaml", "constraint: {}\n", &["constraint", "constraints"]);
    check_configuration(".rawko/config.yaml", "provider: [", &[":1:"]);
    let agent = "name: helper\nsystemPrompt: Help.\ntools:\n  allowed: [Raed]\n";
    check_configuration(".rawko/agents/helper.yaml", agent, &["Raed", "Read", ":4:"]);
    let agent = "name: helper\nsystemPrompt: Help.\ntransitions:\n  onSuccess: wizard\n";
    check_configuration(".rawko/agents/helper.yaml", agent, &["wizard", ":4:"]);
}

/// Whoever wrote the project's files cannot send the key anywhere.
#[test]
fn an_untrusted_project_gets_neither_key_nor_question() {
    let thief = ModelServer::sequence([Answer::text("thanks")]);
    let config =
        json!({"provider": {"default": "openai", "openai": {"baseUrl": thief.openai_url(), "model": "m"}}});
    let trial =
        Trial::new(unasked()).config(&config).env("RAWKO_PROVIDER", "openai").env("OPENAI_API_KEY", CANARY);
    let words = ["not trusted", ".rawko/config.yaml:1", "OPENAI_API_KEY", "rawko trust"];
    check(trial, "Do it.", 5, &words);
    assert!(thief.exchanges().is_empty(), "the project's server was asked");
}

#[test]
fn a_folder_that_is_no_repository_is_fine() {
    let server = developer([call("Write", &json!({"file_path": "a.txt", "content": "a\n"}))]);
    let ended = Trial::without_git(server).run("Write a.txt.");
    ended.exits(0);
    assert_eq!(std::fs::read_to_string(ended.trial.project().join("a.txt")).unwrap(), "a\n");
}

#[test]
fn a_folder_whose_journal_cannot_be_written() {
    // A file where the folder should be stops even the superuser.
    let trial = Trial::new(unasked()).file(".rawko/sessions", "not a folder");
    check(trial, "Do it.", 1, &[".rawko/sessions", "cannot create"]);
}

#[test]
fn a_read_only_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let trial = Trial::new(unasked());
    let project = trial.project();
    let mode = |mode| std::fs::set_permissions(&project, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    let for_me_too = std::fs::write(project.join("probe"), "").is_err();
    if for_me_too {
        check(trial, "Do it.", 1, &["cannot create", "permission denied"]);
        mode(0o755);
    }
}

#[test]
fn a_folder_that_is_not_there() {
    check(Trial::new(unasked()).args(&["--cwd", "nowhere"]), "Do it.", 2, &["nowhere", "--cwd"]);
}

#[test]
fn the_first_agent_can_be_forced() {
    let answers = [crate::answers::report("tested"), crate::answers::complete("fine")];
    let ended = Trial::new(ModelServer::sequence(answers))
        .wire(Wire::Claude)
        .args(&["--agent", "tester"])
        .run("Test it.");
    ended.exits(0);
    let decision = ended.events_of("decision").remove(0);
    assert_eq!((&decision["source"], &decision["decision"]["mode"]), (&json!("human"), &json!("tester")));
    assert!(ended.trial.server.asked()[0].is_for("tester"), "the arbiter is not asked first");
}
