//! What users keep for all their projects: agents and memories.

use std::fs;

use serde_json::{Value, json};

use crate::answers::{always, complete, report, select};
use crate::trial::Trial;

/// Writes a file in the user's home.
fn put(trial: &Trial, path: &str, text: &str) {
    let path = trial.outside().join("home").join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn agent(name: &str, prompt: &str) -> String {
    format!("---\nname: {name}\nwhenToUse: {prompt}\ndescription: {prompt}\n---\n{prompt}\n")
}

/// A file in the form of rawko, which knows no `description`.
fn own_agent(name: &str, prompt: &str) -> String {
    agent(name, prompt).replace(&format!("description: {prompt}\n"), "")
}

fn listed(trial: &Trial) -> Vec<Value> {
    let (code, out, err) = trial.rawko(&["agents", "list", "--json"]);
    assert_eq!(code, Some(0), "{out}{err}");
    serde_json::from_str(&out).expect(&out)
}

/// Name, whose it is, and what it replaces.
fn entry(agents: &[Value], name: &str) -> Value {
    let agent = agents.iter().find(|agent| agent["name"] == name).unwrap();
    let replaces = agent["replaces"].as_array().unwrap().iter();
    let last = |path: &Value| path.as_str().unwrap().rsplit("home/").next().unwrap().to_owned();
    json!([agent["whenToUse"], agent["scope"], replaces.map(last).collect::<Vec<_>>()])
}

#[test]
fn agents_of_the_user_and_of_the_project_work_together() {
    let server = always(select("helper"), complete("done"), report("did it"));
    let trial = Trial::new(server)
        .file(".rawko/agents/tester.md", &own_agent("tester", "of the project"))
        .file(".claude/agents/tester.md", &agent("tester", "of the project for Claude"))
        .file(".claude/agents/extra.md", &agent("extra", "extra"));
    put(&trial, "config/rawko/agents/tester.md", &own_agent("tester", "of the user"));
    put(&trial, "config/rawko/agents/helper.md", &own_agent("helper", "helps"));
    put(&trial, ".claude/agents/helper.md", &agent("helper", "of the user for Claude"));
    put(&trial, ".claude/agents/reviewer.md", &agent("reviewer", "reviews"));
    let agents = listed(&trial);
    let names: Vec<&str> = agents.iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["developer", "extra", "helper", "planner", "reviewer", "tester"]);
    let replaced = json!([".claude/agents/tester.md", "config/rawko/agents/tester.md", "built in"]);
    assert_eq!(entry(&agents, "tester"), json!(["of the project", "project", replaced]));
    assert_eq!(entry(&agents, "helper"), json!(["helps", "user", [".claude/agents/helper.md"]]));
    assert_eq!(entry(&agents, "reviewer"), json!(["reviews", "user", ["built in"]]));
    assert_eq!(entry(&agents, "extra"), json!(["extra", "project", []]));
    assert_eq!(entry(&agents, "developer")[1], "built in");
    let (_, out, _) = trial.rawko(&["agents", "list"]);
    assert!(out.contains("reviewer replaces the built-in one"), "{out}");

    let ended = trial.trusted().run("Work.");
    ended.exits(0);
    let asked = ended.trial.server.asked();
    assert!(asked.iter().any(|asked| asked.system().starts_with("helps")), "the user's agent worked");
}

#[test]
fn a_directory_of_the_users_does_not_hide_the_projects_agents() {
    let server = always(select("developer"), complete("done"), report("did it"));
    let trial = Trial::new(server).file(".rawko/agents/own.md", &own_agent("own", "of the project"));
    put(&trial, "team/helper.md", &own_agent("helper", "helps"));
    let directory = trial.outside().join("home/team").display().to_string();
    let trial = trial.user_config("/agents/directory", json!(directory));
    let ended = trial.trusted().run("Work.");
    ended.exits(0);
    let agents = listed(&ended.trial);
    assert_eq!(entry(&agents, "own"), json!(["of the project", "project", []]));
    assert_eq!(entry(&agents, "helper"), json!(["helps", "user", []]));
}

#[test]
fn built_in_agents_can_be_left_out() {
    let server = || always(select("developer"), complete("done"), report("did it"));
    let trial = Trial::new(server()).config(&json!({"agents": {"builtin": ["developer", "planner"]}}));
    let names =
        |trial: &Trial| -> Vec<Value> { listed(trial).iter().map(|agent| agent["name"].clone()).collect() };
    assert_eq!(names(&trial), ["developer", "planner"]);
    let ended = trial.run("Work.");
    ended.exits(0);

    let none = Trial::new(server())
        .config(&json!({"agents": {"builtin": false}}))
        .file(".rawko/agents/own.md", &own_agent("own", "x"));
    assert_eq!(names(&none), ["own"]);
    for (section, part) in [
        (json!({"builtin": ["develper"]}), "did you mean `developer`?"),
        (json!({"builtin": false}), "there is no agent"),
        (json!({"builtin": ["planner"], "default": "developer"}), "there is no agent `developer`"),
    ] {
        let trial = Trial::new(server()).config(&json!({ "agents": section }));
        let (code, out, err) = trial.rawko(&["config", "check"]);
        assert_eq!(code, Some(2), "{out}{err}");
        assert!(format!("{out}{err}").contains(part), "{part:?} is missing in {out}{err}");
    }
}

#[test]
fn agents_are_given_the_users_memories_and_runs_write_none() {
    let server = always(select("developer"), complete("done"), report("did it"));
    let trial = Trial::new(server).file("a.txt", "a\n");
    let add = [
        "memory",
        "add",
        "--user",
        "--title",
        "Ports of tests",
        "--when-to-use",
        "tests",
        "--body",
        "Tests need port 7070.",
    ];
    let (code, out, err) = trial.rawko(&add);
    assert!(code == Some(0) && out.contains("config/rawko/memories/ports-of-tests.md"), "{out}{err}");
    assert!(!trial.project().join(".rawko").exists(), "nothing is written into the project");
    let (_, out, _) = trial.rawko(&["memory", "list", "--json"]);
    let listed: Vec<Value> = serde_json::from_str(&out).expect(&out);
    assert_eq!(
        (&listed[0]["path"], &listed[0]["source"]),
        (&json!("user:ports-of-tests.md"), &json!("user"))
    );
    let (code, out, _) = trial.rawko(&["memory", "show", "user:ports-of-tests.md"]);
    assert!(code == Some(0) && out.contains("Tests need port 7070."), "{out}");

    let before = fs::read_dir(trial.outside().join("home/config/rawko/memories")).unwrap().count();
    // Neither trust nor a configuration is needed.
    let ended = trial.run("Run the tests.");
    ended.exits(0);
    let asked = ended.trial.server.asked();
    assert!(asked.iter().any(|asked| asked.system().contains("Tests need port 7070.")), "{}", ended.stdout);
    let after = fs::read_dir(ended.trial.outside().join("home/config/rawko/memories")).unwrap().count();
    assert_eq!(before, after);
    assert!(!ended.trial.project().join(".rawko/memories").exists());
    let (code, replayed, _) = ended.trial.rawko(&["replay", "last"]);
    assert_eq!(code, Some(0), "{replayed}");
}

#[test]
fn the_users_memories_stay_where_the_projects_are_not_trusted() {
    let memory = |title: &str, body: &str| format!("---\ntitle: {title}\nwhenToUse: tests\n---\n{body}\n");
    let run = |trusts: bool| {
        let server = always(select("developer"), complete("done"), report("did it"));
        let trial = Trial::new(server).file(".rawko/memories/a.md", &memory("Theirs", "Use make."));
        put(&trial, "config/rawko/memories/a.md", &memory("Mine", "Use port 7070."));
        let trial = if trusts { trial.trusted() } else { trial };
        let ended = trial.run("Run the tests.");
        ended.exits(0);
        let asked = ended.trial.server.asked();
        asked.iter().map(testkit::Asked::system).find(|system| system.contains("## How rawko works")).unwrap()
    };
    let untrusted = run(false);
    assert!(untrusted.contains("Use port 7070.") && !untrusted.contains("Use make."), "{untrusted}");
    let trusted = run(true);
    assert!(trusted.contains("Use port 7070.") && trusted.contains("Use make."), "{trusted}");
}

#[test]
fn files_of_claude_code_are_taken_as_people_have_them() {
    let file = |name: &str, tools: &str| {
        format!("---\nname: {name}\ndescription: does it\ntools: {tools}\n---\nDo it.\n")
    };
    let trial = Trial::new(always(select("copied"), complete("done"), report("did it")))
        .file(".claude/agents/starry.md", &file("starry", "\"*\""))
        .file(".claude/agents/some.md", &file("Code Reviewer", "Read, Grep"))
        .file(".rawko/agents/copied.md", &file("copied", "Read, Grep"));
    let names: Vec<Value> = listed(&trial).into_iter().map(|agent| agent["name"].clone()).collect();
    for name in ["starry", "code-reviewer", "copied"] {
        assert!(names.contains(&json!(name)), "{name} is missing in {names:?}");
    }
    let tools = |name: &str| {
        let (code, out, err) = trial.rawko(&["agents", "show", name]);
        assert_eq!(code, Some(0), "{out}{err}");
        out.lines().find(|line| line.trim_start().starts_with("tools ")).expect(&out).to_owned()
    };
    assert!(
        tools("starry").contains("everything: ") && tools("starry").contains("Read"),
        "{}",
        tools("starry")
    );
    for name in ["code-reviewer", "copied"] {
        assert!(tools(name).contains("Read, Grep"), "{}", tools(name));
    }
    // An agent in rawko's own form must follow that form.
    let trial =
        trial.file(".rawko/agents/own.md", "---\nname: own\nwhenToUse: now\ndescription: x\n---\nDo it.\n");
    let (code, out, err) = trial.rawko(&["agents", "list"]);
    assert!(code == Some(2) && err.contains("description"), "{code:?} {out}{err}");
}
