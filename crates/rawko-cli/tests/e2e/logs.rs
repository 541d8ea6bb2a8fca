//! Logs of the binary.

use serde_json::Value;
use testkit::ModelServer;

use crate::answers::{bash, complete, report, select};
use crate::trial::{CANARY, Trial};

fn trial() -> Trial {
    let answers = [select("developer"), bash("echo loud-canary"), report("did it"), complete("done")];
    Trial::new(ModelServer::sequence(answers))
}

#[test]
fn a_run_is_logged_to_a_file_without_content_and_keys() {
    let trial = trial();
    let file = trial.outside().join("rawko.log");
    let trial = trial
        .env("RAWKO_LOG", "trace")
        .env("RAWKO_LOG_FORMAT", "json")
        .env("RAWKO_LOG_FILE", file.display().to_string());
    let ended = trial.run("Say it quiet-canary.");
    ended.exits(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tool = lines.iter().find(|line| line["message"] == "tool finished").unwrap();
    assert_eq!((&tool["tool"], &tool["level"]), (&"Bash".into(), &"INFO".into()), "{tool}");
    assert!(lines.iter().any(|line| line["message"] == "model replied"));
    let events = lines.iter().filter(|line| line["message"] == "event" && line["state"] == "executing");
    let of: Vec<_> = events.map(|line| (&line["agent"], &line["iteration"])).collect();
    assert!(!of.is_empty() && of.iter().all(|of| *of == (&"developer".into(), &1.into())), "{of:?}");
    assert!(lines.iter().all(|line| line["target"].as_str().unwrap().starts_with("rawko")), "{text}");
    for secret in [CANARY, "loud-canary", "quiet-canary"] {
        assert!(!text.contains(secret), "{text}");
    }
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_filter_chooses_and_nothing_is_logged_without_one() {
    let (code, out, err) = trial().output("text").env("RAWKO_LOG", "rawko=info").ask(&["run", "Say it."]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(err.contains("tool finished") && !err.contains("DEBUG"), "{err}");
    let (code, out, err) = trial().output("text").ask(&["run", "Say it."]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!err.contains("tool finished"), "{err}");
}

#[test]
fn a_variable_that_cannot_be_used_is_an_error() {
    let (code, _, err) = trial().env("RAWKO_LOG", "rawko=loud").ask(&["machine", "export"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("RAWKO_LOG"), "{err}");
    let (code, _, err) =
        trial().env("RAWKO_LOG", "info").env("RAWKO_LOG_FORMAT", "xml").ask(&["machine", "export"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("RAWKO_LOG_FORMAT is `xml`"), "{err}");
}
