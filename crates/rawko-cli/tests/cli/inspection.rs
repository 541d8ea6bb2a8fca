//! Commands that look: init, agents, config, providers, doctor.

use std::fs;

use serde_json::{Value, json};

use crate::place::{Place, names};
use crate::support::Said;

#[test]
fn init_writes_what_changes_nothing_and_overwrites_nothing() {
    let place = Place::new();
    let before = place.rawko(&["config", "show", "--json"]).ends(0).json();
    place.rawko(&["init"]).ends(0).says(&["created .rawko/config.yaml", "next:"]);
    // Where it is, every execution is followed by a call.
    assert!(!place.project().join(".rawko/memories").exists());
    place.rawko(&["config", "check"]).ends(0).says(&["valid"]);
    let settings = |report: &Value| -> Vec<(Value, Value)> {
        let all = report["settings"].as_array().unwrap();
        all.iter().map(|setting| (setting["key"].clone(), setting["value"].clone())).collect()
    };
    let after = place.rawko(&["config", "show", "--json"]).ends(0).json();
    assert_eq!(settings(&after), settings(&before));

    place.write(".rawko/agents/planner.md", "---\nname: planner\n---\nMine.\n");
    let again = place.rawko(&["init", "--json"]).ends(0).json();
    assert_eq!(again["created"], json!([]));
    assert!(fs::read_to_string(place.project().join(".rawko/agents/planner.md")).unwrap().contains("Mine."));
    assert_eq!(names(&place.project()), [".rawko"]);
}

#[test]
fn a_length_of_time_is_shown_with_its_unit() {
    let place = Place::new();
    // In a file a number is milliseconds, in a variable it is seconds: what holds is shown, not what was written.
    place.write(".rawko/config.yaml", "constraints: {maxDuration: 5000}\nverify: {timeout: 1500}\n");
    let shown = place.rawko(&["config", "show"]).ends(0);
    shown.says(&["constraints.maxDuration = 5s ", "verify.timeout = 1s500ms "]);
    let shown = place.command(&["config", "show"]).env("RAWKO_TIMEOUT", "7").output().unwrap();
    Said::of(shown).ends(0).says(&["constraints.maxDuration = 7s ", "# RAWKO_TIMEOUT"]);
}

#[test]
fn init_says_where_it_cannot_write() {
    let place = Place::new();
    place.write(".rawko", "a file");
    place.rawko(&["init"]).ends(1).complains(&["cannot write", ".rawko", "hint:"]);
}

/// The finding of `rawko doctor` about what would verify a run, and the line of `rawko config show`.
#[track_caller]
fn check_verification(place: &Place, path: &str, finding: &[&str], shown: Option<&str>) {
    let output = place.command(&["doctor", "--json"]).env("PATH", path).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found =
        report["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == "verification");
    let found = found.unwrap().to_string();
    assert!(finding.iter().all(|part| found.contains(part)), "{finding:?} in {found}");
    let output = place.command(&["config", "show"]).env("PATH", path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("verify.commands"));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(line.map(words).as_deref(), shown, "{text}");
}

#[test]
fn what_would_verify_a_run_is_named() {
    let place = Place::new();
    let bin = place.tmp().join("bin");
    fs::create_dir(&bin).unwrap();
    let path = bin.display().to_string();
    check_verification(
        &place,
        &path,
        &["warning", "no verification command was found", "--verify CMD"],
        None,
    );
    place.write("go.mod", "");
    check_verification(
        &place,
        &path,
        &["warning", "go.mod suggests `go test ./...`", "go is not installed"],
        None,
    );
    fs::write(bin.join("go"), "").unwrap();
    fs::set_permissions(bin.join("go"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let line = r#"verify.commands = ["go test ./..."] # found: go.mod"#;
    check_verification(
        &place,
        &path,
        &["\"ok\"", "`go test ./...`, found by go.mod", r#""commands":["go test ./..."]"#],
        Some(line),
    );
    place.write(".rawko/config.yaml", "verify: [make ci]\n");
    let line = r#"verify.commands = ["make ci"] # .rawko/config.yaml:1"#;
    check_verification(&place, &path, &["\"ok\"", "`make ci`, set by .rawko/config.yaml:1"], Some(line));
    place.write(".rawko/config.yaml", "verify: []\n");
    let line = "verify.commands = [] # .rawko/config.yaml:1";
    check_verification(
        &place,
        &path,
        &["\"ok\"", "turned off by .rawko/config.yaml:1", r#""commands":[]"#],
        Some(line),
    );
}

#[test]
fn agents_are_listed_shown_and_checked() {
    let place = Place::new();
    insta::assert_snapshot!("agents_list", place.rawko(&["agents", "list"]).ends(0).out);
    let names: Vec<Value> = place
        .rawko(&["agents", "list", "--json"])
        .ends(0)
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| agent["name"].clone())
        .collect();
    assert_eq!(names, ["developer", "planner", "reviewer", "tester"]);
    place.rawko(&["agents", "show", "planner"]).ends(0).says(&[
        "Planner",
        "built in",
        "on success",
        "UpdatePlan",
    ]);
    let shown = place.rawko(&["agents", "show", "planner", "--json"]).ends(0).json();
    assert_eq!(shown["agent"]["name"], "planner");
    place
        .rawko(&["agents", "show", "plannr"])
        .ends(2)
        .complains(&["there is no agent `plannr`", "did you mean `planner`?"]);
    place.rawko(&["agents", "check"]).ends(0).says(&["4 agents are valid, 0 of them"]);
    place.write(
        ".rawko/agents/own.yaml",
        "name: own\nsystemPrompt: \"Do \\e[2J it.\"\nwhenToUse: \"a\\u202eb\"\n",
    );
    place.rawko(&["agents", "check"]).ends(0).says(&["5 agents are valid, 1 of them"]);
    for arguments in
        [["agents", "list"].as_slice(), &["agents", "show", "own"], &["agents", "show", "own", "--json"]]
    {
        let out = place.rawko(arguments).ends(0).out;
        assert!(!out.contains(['\u{1b}', '\u{202e}']), "{arguments:?}: {out:?}");
    }
    place.write(".rawko/agents/own.yaml", "name: own\nsystemPromt: x\n");
    place.rawko(&["agents", "check"]).ends(2).complains(&["own.yaml:2", "systemPrompt"]);
}

#[test]
fn values_say_where_they_come_from() {
    let place = Place::new();
    place.write(".rawko/config.yaml", "constraints:\n  maxIterations: 7\n");
    place.rawko(&["config", "show"]).ends(0).says(&[
        "constraints.maxIterations = 7",
        "# .rawko/config.yaml:2",
        "# default",
    ]);
    let output = place.command(&["config", "show"]).env("RAWKO_MAX_ITERATIONS", "9").output().unwrap();
    Said::of(output).ends(0).says(&["constraints.maxIterations = 9", "# RAWKO_MAX_ITERATIONS"]);
    place.write("other.yaml", "constraints: { maxIterations: 8 }\n");
    place
        .rawko(&["--config", "other.yaml", "config", "show"])
        .ends(0)
        .says(&["constraints.maxIterations = 8"]);
    let output = place.command(&["config", "show"]).env("RAWKO_CONFIG", "other.yaml").output().unwrap();
    Said::of(output).ends(0).says(&["constraints.maxIterations = 8"]);
}

#[test]
fn another_folder_is_worked_in_on_request() {
    let place = Place::new();
    place.write("sub/.rawko/config.yaml", "constraints:\n  maxIterations: 6\n");
    for arguments in [["-C", "sub", "config", "show"].as_slice(), &["config", "show", "--cwd", "sub"]] {
        place.rawko(arguments).ends(0).says(&["constraints.maxIterations = 6"]);
    }
}

#[test]
fn configuration_is_checked_for_programs_too() {
    let place = Place::new();
    assert_eq!(place.rawko(&["config", "check", "--json"]).ends(0).json()["valid"], true);
    place.write(".rawko/config.yaml", "constraints:\n  maxIteratons: 7\n");
    let report = place.rawko(&["config", "check", "--json"]).ends(2).json();
    assert_eq!((&report["valid"], &report["errors"][0]["line"]), (&json!(false), &json!(2)));
    place.rawko(&["config", "check"]).ends(2).complains(&["maxIterations"]);
    for file in ["config", "agent"] {
        let schema = place.rawko(&["config", "schema", file]).ends(0).json();
        assert!(schema["properties"].is_object());
    }
}

#[test]
fn providers_are_listed_with_their_keys_and_never_with_a_key() {
    let place = Place::new();
    place.write(".rawko/config.yaml", "provider:\n  default: mine\n  mine: { type: openai, model: m, baseUrl: \"http://localhost:9/v1\" }\n");
    let canary = "sk-canary-0123456789";
    for arguments in [
        ["providers", "list"].as_slice(),
        &["providers", "list", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["config", "show"],
        &["--verbose", "--provider", "claude", "--base", "x"],
    ] {
        let output = place.command(arguments).env("ANTHROPIC_API_KEY", canary).output().unwrap();
        let done = Said::of(output);
        assert!(!done.out.contains(canary) && !done.err.contains(canary), "{arguments:?}");
    }
    let list =
        place.command(&["providers", "list", "--json"]).env("ANTHROPIC_API_KEY", canary).output().unwrap();
    let list = Said::of(list).ends(0).json();
    let find =
        |name: &str| list.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap().clone();
    assert_eq!((&find("claude")["keySet"], &find("mine")["default"]), (&json!(true), &json!(true)));
    assert_eq!(find("openai")["keySet"], false);
    place.rawko(&["providers", "list"]).ends(0).says(&[
        "mine *",
        "ANTHROPIC_API_KEY is not set",
        "no key is sent",
    ]);
}

#[test]
fn a_provider_that_cannot_be_reached_ends_in_4() {
    let place = Place::new();
    place.rawko(&["providers", "check", "claude"]).ends(4).complains(&["ANTHROPIC_API_KEY"]);
    place
        .rawko(&["providers", "models", "clade"])
        .ends(2)
        .complains(&["there is no provider `clade`", "`claude`"]);
}

#[test]
#[cfg(not(feature = "copilot"))]
fn a_build_without_copilot_says_how_to_get_one() {
    let place = Place::new();
    for arguments in [["providers", "check", "copilot"].as_slice(), &["--provider", "copilot", "do", "it"]] {
        let done = place.rawko(arguments);
        assert!(done.err.contains("this rawko was built without Copilot"), "{}", done.err);
        assert!(done.err.contains("--features copilot"), "{}", done.err);
    }
    place.rawko(&["providers", "list"]).ends(0).says(&["copilot", "not in this build"]);
    place.write(".rawko/config.yaml", "provider: { default: copilot }\n");
    place.rawko(&["doctor"]).ends(1).says(&["GitHub Copilot, which this build of rawko does not have"]);
}

#[test]
fn the_doctor_finds_what_is_missing_and_says_what_to_do() {
    let place = Place::new();
    place.without_servers();
    place.rawko(&["doctor"]).ends(1).says(&["sandbox", "file tools can only"]);
    place.write(".rawko/config.yaml", "permissions: { sandbox: off }\n");
    place.rawko(&["doctor"]).ends(1).says(&[
        "problem  provider",
        "problem  trust",
        "ANTHROPIC_API_KEY is not set",
        "do:",
        "warning  sandbox",
        "not confined by",
        "warning  git",
        "problems.",
    ]);
    place.write(".rawko/config.yaml", "");
    let well = place.command(&["doctor", "--json"]).env("ANTHROPIC_API_KEY", "k").output().unwrap();
    let well = Said::of(well).ends(0).json();
    assert_eq!(well["ok"], true);
    let health = |name: &str| {
        let findings = well["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["name"] == name).unwrap()["health"].clone()
    };
    assert_eq!((health("provider"), health("bash")), (json!("ok"), json!("ok")));
    // What it is depends on the machine.
    assert_ne!(health("sandbox"), "problem");
    let bare = place.command(&["doctor"]).env("PATH", "").output().unwrap();
    // The tool does not look for its bash in PATH, and so the doctor does not either.
    Said::of(bare).ends(1).says(&["ok       bash", "warning  git"]);
    place.write(".rawko/config.yaml", "nonsense: 1\n");
    place.rawko(&["doctor"]).ends(1).says(&["problem  configuration", "nonsense", "rawko config check"]);
}
