//! What commands print for people and, with `--json`, for programs: byte for byte.

use serde_json::json;

use crate::place::Place;

/// A project that configures some of everything, and has a session.
fn place() -> (Place, String) {
    let place = Place::scripted(&json!([
        {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "it is time"}},
        {"for": "developer", "text": "At work.", "tools": [
            {"name": "Write", "input": {"file_path": "new.txt", "content": "hello\n"}},
            {"name": "Report", "input": {"outcome": "success", "summary": "Written."}}]},
        {"for": "evaluate", "decision": {"decision": "COMPLETE", "reason": "done", "summary": "It is done."}},
    ]));
    place.without_servers();
    let greet = "---\nname: greet\ndescription: Greets people. Use when somebody is to be greeted, or when it is late.\nallowed-tools: Bash\n---\n# Greeting\n";
    place.write(".agents/skills/greet/SKILL.md", greet);
    place.write(".agents/skills/greet/names.txt", "a\n");
    place.write(".agents/skills/wrong/SKILL.md", "---\nname: other\ndescription: Is wrong.\n---\n");
    place.write(
        ".mcp.json",
        &json!({"mcpServers": {"one": {"command": "true"}, "two": {"url": "http://127.0.0.1:1/mcp"}}})
            .to_string(),
    );
    place.write(".rawko/agents/own.yaml", "name: own\nwhenToUse: when nothing else helps\ntools: {allowed: [Read], blocked: [Grep]}\nsystemPrompt: Be short.\n");
    let memory =
        |title: &str, rest: &str| format!("---\ntitle: {title}\nwhenToUse: [mail]\n{rest}---\nText.\n");
    let dates = "discoveredAt: 2026-01-02\ndiscoveredBy: planner\nexpiresAt: 2026-02-03\n";
    place.write(".rawko/memories/old.md", &memory("Mail is sent directly", dates));
    place.write(
        ".rawko/memories/new.md",
        &memory("Mail goes through a queue", "supersedes: [old.md]\nkind: avoid\n"),
    );
    place.rawko(&["trust"]).ends(0);
    let live = place.rawko(&["--output", "stream-json", "write it"]).ends(0).json_lines();
    let session = live[0]["session"].as_str().unwrap().to_owned();
    (place, session)
}

/// Each command with its two outputs.
fn outputs(place: &Place, session: &str, commands: &[&[&str]]) -> String {
    let mut all = String::new();
    for command in commands {
        for arguments in [command.to_vec(), [command, &["--json"][..]].concat()] {
            let done = place.rawko(&arguments);
            let out = place.normal(&done.out).replace(session, "SESSION");
            // Commits of checkpoints have the time in them.
            let is_commit = |line: &&str| line.trim().starts_with("\"id\": ");
            let out: String = out.split_inclusive('\n').filter(|line| !is_commit(line)).collect();
            all.push_str(&format!("$ rawko {} # {}\n{out}\n", arguments.join(" "), done.code.unwrap()));
        }
    }
    all
}

#[test]
fn what_is_configured() {
    let (place, session) = place();
    let commands: &[&[&str]] = &[
        &["agents", "list"],
        &["agents", "check"],
        &["skills", "list"],
        &["skills", "show", "greet"],
        &["skills", "check"],
        &["mcp", "list"],
        &["providers", "list"],
        &["providers", "check"],
        &["providers", "models"],
        &["config", "check"],
        &["tools", "check", "--agent", "own", "--", "ls"],
        &["trust"],
        &["init"],
    ];
    insta::assert_snapshot!(outputs(&place, &session, commands));
    let tools = place.rawko(&["tools", "list"]).ends(0).out;
    let of_agent = place.rawko(&["tools", "list", "--agent", "own"]).ends(0).out;
    insta::assert_snapshot!("tools", format!("{tools}\n{of_agent}"));
}

#[test]
fn what_is_kept() {
    let (place, session) = place();
    let commands: &[&[&str]] = &[
        &["memory", "list"],
        &["memory", "show", "old"],
        &["memory", "check"],
        &["memory", "stats"],
        &["memory", "keep"],
        &["memory", "retire", "old"],
        &["approve"],
        &["usage"],
        &["rewind", "last", "--to", "1", "--dry-run"],
        &["diff", "last"],
    ];
    let printed = outputs(&place, &session, commands);
    insta::assert_snapshot!(printed);
    let explained = place.rawko(&["explain"]).ends(0).out;
    insta::assert_snapshot!("decisions", explained.replace(&session, "SESSION"));
}
