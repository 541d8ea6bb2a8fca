//! Runs that cannot begin, or begin in a place that is not as usual.

use serde_json::json;
use testkit::{Answer, ModelServer, Wire};

use crate::answers::{call, developer};
use crate::trial::{CANARY, Ended, Trial};

/// A server that must not be asked.
fn unasked() -> ModelServer {
    ModelServer::sequence([])
}

/// The run does not begin, says why in these words, and asks no model.
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

/// A command line as a person types it asks no model, writes nothing, and says what to type instead.
#[track_caller]
fn check_refused(trial: &Trial, line: &[&str], words: &[&str]) {
    let (code, out, err) = trial.ask(line);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    for word in words {
        assert!(err.contains(word), "{word:?} is missing in\n{err}");
    }
    assert!(trial.server.asked().is_empty(), "the server was asked");
    assert!(!trial.project().join(".rawko").exists(), "something was written");
}

#[test]
fn one_unknown_word_starts_no_paid_run() {
    let trial = Trial::new(unasked());
    check_refused(&trial, &["login"], &["no command `login`", "rawko run login", "rawko providers list"]);
    check_refused(&trial, &["--dry-run", "fix"], &["no command `fix`", "rawko run --dry-run fix"]);
    check_refused(&trial, &["docter"], &["did you mean `rawko doctor`?", "rawko run docter"]);
}

#[test]
fn one_word_that_is_said_to_be_a_task_is_one() {
    for line in [["run", "login"], ["--", "login"]] {
        let trial = Trial::new(developer([]));
        let (code, out, err) = trial.ask(&line);
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(err.contains(": login\n"), "{err}");
    }
}

/// A server for one run, and a user whose home folder is this one.
fn at_home(home: impl FnOnce(&Trial) -> std::path::PathBuf) -> Trial {
    let trial = Trial::without_git(developer([]));
    let home = home(&trial);
    trial.env("HOME", home.to_str().unwrap())
}

#[test]
fn the_home_folder_is_no_project_by_accident() {
    let trial = at_home(|trial| trial.project());
    let home = trial.project().canonicalize().unwrap();
    let named = format!("--cwd {}", home.display());
    let words = ["is your home folder", "cd your/project", &named];
    for line in
        [&["Do it."][..], &["run", "Do it."], &["--yes", "Do it."], &["resume"], &["fork", "last"], &["init"]]
    {
        check_refused(&trial, line, &words);
    }
    let (code, out, _) = trial.ask(&["doctor"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("is your home folder"), "{out}");
    // Named, it is meant.
    let (code, out, err) = trial.ask(&["--cwd", ".", "Do it."]);
    assert_eq!(code, Some(0), "{out}{err}");
    // What the run left there is no choice for the next one.
    assert!(trial.project().join(".rawko/sessions").is_dir());
    let (code, _, err) = trial.ask(&["resume"]);
    assert_eq!(code, Some(2), "{err}");
}

#[test]
fn dotfiles_in_git_do_not_make_a_home_folder_a_project() {
    let trial = Trial::new(unasked());
    let home = trial.project();
    check_refused(&trial.env("HOME", home.to_str().unwrap()), &["Do it."], &["is your home folder"]);
}

#[test]
fn a_folder_that_holds_the_home_folder_is_no_project_by_accident() {
    let trial = at_home(|trial| trial.project().join("me"));
    std::fs::create_dir(trial.project().join("me")).unwrap();
    check_refused(&trial, &["Do it."], &["holds your home folder", "--cwd"]);
    // A program learns of it as of any other run that cannot begin.
    let (code, out, _) = trial.ask(&["--output", "json", "Do it."]);
    assert_eq!(code, Some(2));
    assert!(out.contains("\"status\":\"failed\"") && out.contains("holds your home folder"), "{out}");
    // A checkout that a build has its home folder in is a project.
    trial.git(&["init", "--quiet"]);
    let (code, out, err) = trial.ask(&["Do it."]);
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn a_configured_home_folder_is_a_project() {
    let trial = at_home(|trial| trial.project()).config(&json!({}));
    let (code, out, err) = trial.ask(&["Do it."]);
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn a_folder_below_home_does_not_become_part_of_it_by_old_sessions() {
    let trial = at_home(|trial| trial.project());
    std::fs::create_dir_all(trial.project().join(".rawko/sessions")).unwrap();
    std::fs::create_dir(trial.project().join("notes")).unwrap();
    let (code, out, err) = trial.ask(&["--cwd", "notes", "Do it."]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(trial.project().join("notes/.rawko/sessions").is_dir());
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

/// The author of the project's files cannot send the key anywhere.
#[test]
fn an_untrusted_project_gets_neither_key_nor_question() {
    let thief = ModelServer::sequence([Answer::text("thanks")]);
    let openai = json!({"baseUrl": thief.openai_url(), "model": "m", "apiKeyEnv": "OPENAI_API_KEY"});
    let config = json!({"provider": {"default": "openai", "openai": openai}});
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
    let decision = ended.events_of("decision_made").remove(0);
    assert_eq!((&decision["source"], &decision["decision"]["mode"]), (&json!("human"), &json!("tester")));
    assert!(ended.trial.server.asked()[0].is_for("tester"), "the arbiter is not asked first");
}
