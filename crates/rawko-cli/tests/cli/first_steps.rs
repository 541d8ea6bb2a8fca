//! `docs/getting-started.md`, typed in from the first line to the last, with a script in place of the model.

use std::process::Stdio;

use serde_json::json;

use crate::place::Place;
use crate::support::Said;

const PAGE: &str = include_str!("../../../../docs/getting-started.md");

/// The commands of the page, in their order.
fn commands() -> String {
    let mut script = String::from("set -e\ncd() { :; }\n");
    let mut lines = PAGE.lines();
    while lines.by_ref().any(|line| line == "```sh") {
        for line in lines.by_ref().take_while(|line| *line != "```") {
            script.push_str(&format!(
                "echo '#' {}\n{line}\n",
                line.split(" #").next().unwrap_or_default().replace('"', "")
            ));
        }
    }
    script
}

/// The two tasks of the page: the agent edits the file, and the arbiter is content.
fn script() -> serde_json::Value {
    let select = json!({"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "it is next"}});
    let complete = json!({"for": "evaluate", "decision": {"decision": "COMPLETE", "summary": "all done", "reason": "it is there"}});
    let call = |name: &str, input: serde_json::Value| json!({"for": "developer", "tools": [{"name": name, "input": input}]});
    let edit = |from: &str, to: &str| {
        call("Edit", json!({"file_path": "greeting.txt", "old_string": from, "new_string": to}))
    };
    let report = call("Report", json!({"outcome": "success", "summary": "did it"}));
    let read = call("Read", json!({"file_path": "greeting.txt"}));
    json!([
        select,
        read,
        edit("hello", "hello!"),
        report,
        complete,
        select,
        edit("hello!", "hello, world!"),
        report,
        complete,
    ])
}

#[test]
fn the_five_minutes_work_as_they_are_written() {
    let place = Place::new();
    place.write("greeting.txt", "hello\n");
    place.write("script.json", &script().to_string());
    // The user's own provider: a project's would need trust.
    place.write(
        "../home/.config/rawko/config.yaml",
        "provider: {default: s, s: {type: scripted, script: script.json}}\n",
    );
    let bin = place.tmp().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_rawko"), bin.join("rawko")).unwrap();
    let mut bash = std::process::Command::new("bash");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    bash.args(["-c", &format!("git init --quiet .\n{}", commands())])
        .current_dir(place.project())
        .env_clear()
        .env("PATH", path)
        .env("HOME", place.project().join("../home"))
        .env("TMPDIR", place.tmp())
        .stdin(Stdio::null());
    let done = Said::of(bash.output().unwrap()).ends(0);
    for part in [
        "# rawko demo",
        "# rawko doctor",
        "# rawko diff",
        "+hello!",
        "# rawko explain",
        "# rawko rewind last --to 1",
    ] {
        assert!(done.out.contains(part), "{part:?} is missing in\n{}\n{}", done.out, done.err);
    }
    assert_eq!(std::fs::read_to_string(place.project().join("greeting.txt")).unwrap(), "hello\n");
}
