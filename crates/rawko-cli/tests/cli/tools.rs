//! `rawko tools`: verdicts, and calls with an agent's rights.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::place::{Place, wait_for};

#[track_caller]
fn check(question: &[&str], code: i32, parts: &[&str]) {
    let arguments = [&["tools", "check", "--agent"], question].concat();
    Place::new().rawko(&arguments).ends(code).says(parts);
}

#[test]
fn verdicts_name_the_rule() {
    check(
        &["planner", "--tool", "Write"],
        1,
        &["denied by tools.allowed", "add `- Write` under tools.allowed"],
    );
    check(&["developer", "--tool", "Write"], 0, &["allowed by tools.allowed"]);
    check(&["planner", "--tool", "Report"], 0, &["allowed by control tool"]);
    check(&["planner", "--tool", "write"], 1, &["denied by unknown tool", "`Write`"]);
    check(&["planner", "--", "git log | head"], 0, &["allowed by"]);
    check(
        &["planner", "--", "git log | sh"],
        1,
        &["denied by tools.bashFilter.allowedCommands", "`sh` is not listed"],
    );
    check(&["planner", "--", "git", "log", "--format=%h | sh"], 0, &["allowed by"]);
    check(
        &["planner", "--tool", "Bash", "--input", r#"{"command": "curl x"}"#],
        1,
        &["`curl` is not listed"],
    );
    check(&["developer", "--", "rm", "-rf", "build"], 0, &["allowed by"]);
}

/// What a check says of this call, and that the call itself is denied in the same words and does nothing.
#[track_caller]
fn check_denied(place: &Place, tool: &str, input: &Value, rule: &str, words: &str) {
    let (text, before) = (input.to_string(), crate::place::names(&place.project()));
    let rule = format!("denied by {rule}");
    let question = ["tools", "check", "--agent", "developer", "--tool", tool, "--input", &text];
    place.rawko(&question).ends(1).says(&[&rule, words]);
    let call = call(place, "developer", tool, input).ends(1);
    assert!(call.out.contains(words) || call.err.contains(words), "{tool} {input}: {}{}", call.out, call.err);
    assert_eq!(crate::place::names(&place.project()), before);
}

#[test]
fn a_check_of_a_file_call_says_what_the_tool_would_say() {
    let place = Place::new();
    place.write(".rawko/config.yaml", "permissions:\n  write: [., gen]\n  deny: [secrets, '*.pem']\n");
    place.write("secrets/a.txt", "hidden");
    place.write("a.txt", "open");
    place.write("d/f", "open");
    std::os::unix::fs::symlink("/etc", place.project().join("out")).unwrap();
    std::os::unix::fs::symlink("secrets", place.project().join("way")).unwrap();
    let path = |path: &str| json!({"file_path": path});
    let write = |path: &str| json!({"file_path": path, "content": "x"});
    let deny = "permissions.deny (.rawko/config.yaml:3)";
    for outside in ["/etc/passwd", "out/passwd", "d/../../x"] {
        check_denied(&place, "Read", &path(outside), "permissions.read", "outside of what you may read");
    }
    let grants = "permissions.write (.rawko/config.yaml:2)";
    for outside in ["../x", "out/x"] {
        check_denied(&place, "Write", &write(outside), grants, "outside of what you may write");
    }
    for protected in [".git/hooks/x", ".rawko/config.yaml"] {
        check_denied(
            &place,
            "Write",
            &write(protected),
            "protected path",
            "no permission grants writing there",
        );
    }
    for denied in ["way/a.txt", "k.pem"] {
        check_denied(&place, "Read", &path(denied), deny, "is denied to you");
        check_denied(&place, "Write", &write(denied), deny, "is denied to you");
    }
    let edit = json!({"file_path": "secrets/a.txt", "old_string": "a", "new_string": "b"});
    check_denied(&place, "Edit", &edit, deny, "`secrets` is denied to you");
    check_denied(&place, "Read", &path("/proc/self/environ"), "protected path", "no permission grants it");
    let search = json!({"pattern": "x", "path": "/etc"});
    check_denied(&place, "Grep", &search, "permissions.read", "outside of what you may read");
    let files = json!({"pattern": "*", "path": "/etc"});
    check_denied(&place, "Glob", &files, "permissions.read", "outside of what you may read");
    check_denied(&place, "Read", &json!({"file": "a.txt"}), "input", "`file_path`");

    for (tool, input) in [("Read", path("a.txt")), ("Write", write("new/b.txt")), ("Read", path("missing"))] {
        let question =
            ["tools", "check", "--agent", "developer", "--tool", tool, "--input", &input.to_string()];
        place.rawko(&question).ends(0).says(&["allowed by tools.allowed"]);
    }
    assert!(!place.project().join("new").exists(), "nothing is done");
}

#[test]
fn a_denial_by_permissions_run_blames_the_line_that_decided_and_no_filter() {
    let place = Place::new();
    place.write(".rawko/config.yaml", "version: 1\npermissions:\n  run: [ls, grep]\n");
    let agent = "name: runner\nsystemPrompt: x\npermissions:\n  run: [ls]\n";
    place.write(".rawko/agents/runner.yaml", agent);
    let ask = |agent: &str, command: &str| place.rawko(&["tools", "check", "--agent", agent, "--", command]);
    ask("developer", "ls").ends(0).says(&["allowed by permissions.run (.rawko/config.yaml:3)"]);
    let denied = ask("developer", "rm x").ends(1).says(&[
        "denied by permissions.run (.rawko/config.yaml:3)",
        "add `- rm` under permissions.run of the",
    ]);
    assert!(!denied.out.contains("bashFilter"), "{}", denied.out);
    ask("runner", "grep x").ends(1).says(&[
        "denied by permissions.run (.rawko/agents/runner.yaml:4, .rawko/config.yaml:3)",
        "add `- grep` under permissions.run of agent `runner`",
    ]);
    // The filter of the built-in planner comes first.
    ask("planner", "rm x").ends(1).says(&["denied by tools.bashFilter.allowedCommands\n"]);
    ask("planner", "cat x").ends(1).says(&["denied by permissions.run (.rawko/config.yaml:3)"]);
    let entry =
        place.rawko(&["tools", "check", "--agent", "developer", "--json", "--", "rm x"]).ends(1).json();
    assert_eq!(entry["rule"], "permissions.run");
    assert_eq!(entry["configuredAt"], json!([".rawko/config.yaml:3"]));
}

#[test]
fn the_built_in_planner_may_begin_a_command_with_cd_to_the_project() {
    let place = Place::new();
    place.write("src/a.txt", "x\n");
    std::os::unix::fs::symlink("..", place.project().join("out")).unwrap();
    std::os::unix::fs::symlink(".", place.project().join("self")).unwrap();
    std::os::unix::fs::symlink("src", place.project().join("inner")).unwrap();
    let project = place.project().canonicalize().unwrap().display().to_string();
    for agent in ["planner", "reviewer"] {
        let ask = |command: &str| place.rawko(&["tools", "check", "--agent", agent, "--", command]);
        for command in [
            format!("cd {project} && ls"),
            format!("cd '{project}/src' && cat a.txt"),
            format!("cd {project} || exit 1; ls"),
            format!("git -C {project} log"),
            "cd src && ls && cd .. && ls".to_owned(),
            "cd inner && ls".to_owned(),
            "cd missing && ls".to_owned(),
        ] {
            ask(&command).ends(0).says(&["allowed by tools.bashFilter.allowedCommands"]);
        }
        for command in [format!("cd {project}/.. && ls"), "cd / && ls".into(), "cd && ls".into()] {
            ask(&command).ends(1).says(&["denied by tools.bashFilter.allowedCommands"]);
        }
        // Only who looks at the links sees where they lead.
        for command in
            ["cd out && ls", "cd self && cd ../x && ls", "cd src && cd ../out/x && ls", "git -C out log"]
        {
            ask(command).ends(1).says(&["outside of the project"]);
            let input = json!({"command": command});
            call(&place, agent, "Bash", &input).ends(1).says(&["outside of the project"]);
        }
    }
    let ran = call(&place, "planner", "Bash", &json!({"command": format!("cd {project}/src && cat a.txt")}));
    ran.ends(0).says(&["x"]);
    // Who may run everything may go everywhere.
    call(&place, "developer", "Bash", &json!({"command": "cd out && ls"})).ends(0);
}

#[test]
fn a_clone_cannot_grant_itself_the_hooks_of_git() {
    let place = Place::new();
    place.write(".rawko/config.yaml", "permissions:\n  write: [., .git/hooks]\n");
    std::fs::create_dir_all(place.project().join(".git/hooks")).unwrap();
    let write = json!({"file_path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"}).to_string();
    let arguments = ["tools", "call", "Write", "--agent", "developer", "--input", &write];
    place.rawko(&arguments).ends(5).complains(&["the permission `write` for `.git/hooks`"]);
    // Not even a trusted one lifts the protection.
    let words = "no permission grants writing there";
    place.rawko(&[&arguments[..], &["--yes"]].concat()).ends(1).says(&[words]);
    place.rawko(&["trust"]).ends(0);
    place.rawko(&arguments).ends(1).says(&[words]);
    assert!(crate::place::names(&place.project().join(".git/hooks")).is_empty());
}

#[test]
fn a_question_that_makes_no_sense_ends_in_2() {
    let place = Place::new();
    place.rawko(&["tools", "check", "--", "ls"]).ends(2).complains(&["--agent"]);
    place
        .rawko(&["tools", "check", "--agent", "nobody", "--", "ls"])
        .ends(2)
        .complains(&["there is no agent `nobody`"]);
    place
        .rawko(&["tools", "call", "Read", "--agent", "planner", "--input", "{"])
        .ends(2)
        .complains(&["not JSON"]);
    place
        .rawko(&["tools", "call", "Read", "--agent", "planner", "--input", "@no.json"])
        .ends(2)
        .complains(&["no.json"]);
    place.rawko(&["tools", "call", "Report", "--agent", "planner"]).ends(2).complains(&["control tool"]);
}

#[test]
fn verdicts_are_for_programs_too() {
    let place = Place::new();
    let verdict =
        place.rawko(&["tools", "check", "--agent", "planner", "--tool", "Edit", "--json"]).ends(1).json();
    assert_eq!((&verdict["verdict"], &verdict["rule"]), (&json!("denied"), &json!("tools.allowed")));
    let list = place.rawko(&["tools", "list", "--agent", "planner", "--json"]).ends(0).json();
    let edit = list.as_array().unwrap().iter().find(|tool| tool["name"] == "Edit").unwrap();
    assert_eq!(edit["verdict"]["verdict"], "denied");
    assert!(edit["inputSchema"]["properties"]["file_path"].is_object());
}

fn call(place: &Place, agent: &str, tool: &str, input: &Value) -> crate::support::Said {
    place.rawko(&["tools", "call", tool, "--agent", agent, "--input", &input.to_string()])
}

#[test]
fn a_call_has_the_rights_of_its_agent() {
    let place = Place::new();
    place.write("a.txt", "one\n\u{1b}[31mtwo\n");
    let read = call(&place, "planner", "Read", &json!({"file_path": "a.txt"})).ends(0).says(&["one", "two"]);
    assert!(!read.out.contains('\u{1b}'));
    let write = json!({"file_path": "b.txt", "content": "x"});
    call(&place, "planner", "Write", &write).ends(1).complains(&["denied by tools.allowed"]);
    assert!(!place.project().join("b.txt").exists());
    call(&place, "developer", "Write", &write).ends(0);
    assert!(place.project().join("b.txt").exists());
    call(&place, "developer", "Read", &json!({"file_path": "/etc/passwd"})).ends(1);
    call(&place, "developer", "Read", &json!({"file": "a.txt"})).ends(1).says(&["file_path"]);
    let bash = call(&place, "developer", "Bash", &json!({"command": "exit 7"})).ends(1);
    bash.says(&["7"]);
    place.write("input.json", r#"{"pattern": "*.txt"}"#);
    place
        .rawko(&["tools", "call", "Glob", "--agent", "planner", "--input", "@input.json"])
        .ends(0)
        .says(&["a.txt"]);
    let outcome = place
        .rawko(&["tools", "call", "Glob", "--agent", "planner", "--input", "@input.json", "--json"])
        .ends(0);
    assert_eq!(outcome.json()["isError"], false);
}

#[test]
fn a_call_shows_no_secret_and_passes_none_on() {
    let place = Place::new();
    let token = "deploy-canary-2a94c1f0";
    place.write("a.env", &format!("token={token}\n"));
    let call = |tool: &str, input: Value, more: &[&str]| {
        let input = input.to_string();
        let arguments = [&["tools", "call", tool, "--agent", "developer", "--input", &input], more].concat();
        let output = place.command(&arguments).env("DEPLOY_TOKEN", token).output().unwrap();
        let done = crate::support::Said::of(output);
        assert!(!done.out.contains("2a94c1f0") && !done.err.contains("2a94c1f0"), "{}{}", done.out, done.err);
        done
    };
    call("Read", json!({"file_path": "a.env"}), &[]).ends(0).says(&["token=[redacted]"]);
    call("Read", json!({"file_path": "a.env"}), &["--json"]).ends(0).says(&["token=[redacted]"]);
    call("Bash", json!({"command": "cat a.env"}), &[]).ends(0).says(&["token=[redacted]"]);
    call("Bash", json!({"command": format!("echo {token}")}), &[])
        .ends(1)
        .says(&["`command` holds the value of `DEPLOY_TOKEN`"]);
    call("Write", json!({"file_path": "b", "content": token}), &[]).ends(1).says(&["`content` holds"]);
    assert!(!place.project().join("b").exists());
}

#[test]
fn an_interrupted_call_leaves_no_process_behind() {
    let place = Place::new();
    let input = json!({"command": "echo here > begun; sleep 1000"}).to_string();
    let mut command = place.command(&["tools", "call", "Bash", "--agent", "developer", "--input", &input]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| place.project().join("begun").exists().then_some(()));
    assert!(!testkit::processes_in(&place.project()).is_empty());
    let signalled =
        std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_for(|| testkit::processes_in(&place.project()).is_empty().then_some(()));
}
