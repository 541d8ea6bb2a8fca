//! Plug-ins as they are read, and as they join a configuration.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;

const NEUTRAL: &str = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
const NEUTRAL_MCP: &str = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json";
const CLAUDE: &str = ".claude-plugin/plugin.json";
const SKILL: &str = "---\nname: greet\ndescription: Greets.\n---\nGreet.\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = folder.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn read(&self) -> Result<Plugin, Vec<Diagnostic>> {
        let root = self.0.path().canonicalize().unwrap();
        let place = PluginPlace { name: String::new(), root, data: "/data".into() };
        Plugin::read(place, Path::new("p"))
    }

    #[track_caller]
    fn good(&self) -> Plugin {
        self.read().unwrap_or_else(|errors| panic!("{errors:?}"))
    }
}

fn neutral(more: &Value) -> String {
    let mut manifest = json!({"$schema": NEUTRAL, "name": "demo"});
    manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    manifest.to_string()
}

/// What is passed over of a manifest, or its errors.
#[track_caller]
fn check_manifest(file: &str, text: &str, expected: Result<&[&str], &[&str]>) {
    let folder = Folder::new(&[(file, text)]);
    let (found, parts) = match (folder.read(), expected) {
        (Ok(plugin), Ok(parts)) => (plugin.findings, parts),
        (Err(errors), Err(parts)) => (errors, parts),
        (found, _) => panic!("{text}: {:?}", found.map(|plugin| plugin.findings)),
    };
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), parts.len(), "{text}: {found:?}");
    for (finding, part) in found.iter().zip(parts) {
        assert!(finding.contains(part), "{part:?} is missing in {finding}");
    }
}

#[test]
fn a_manifest_of_the_specification() {
    let check = |more: Value, expected| check_manifest("plugin.json", &neutral(&more), expected);
    check(json!({}), Ok(&[]));
    let whole = json!({
        "name": "acme.tools-2", "version": "not semver", "description": "x", "homepage": "x", "repository": "x",
        "license": "x", "author": {"name": "A", "email": "b", "url": "c"}, "keywords": ["a"],
        "extensions": {"com.example": {"any": 1}},
    });
    check(whole, Ok(&[]));
    check(
        json!({"skills": "./more", "extensions": 7}),
        Ok(&["`extensions` is no object", "`skills` is no field"]),
    );
    check(json!({"version": 1}), Err(&["`version` is no text"]));
    check(json!({"author": {"name": 1}}), Err(&["`author`"]));
    check(json!({"author": {"phone": "1"}}), Err(&["`author`"]));
    check(json!({"keywords": "a"}), Err(&["`keywords`"]));
    check(json!({"$schema": NEUTRAL.replace("1.0.0", "9.0.0")}), Err(&["another version"]));
    for name in ["My-Plugin", "-a", "a-", "a--b", "a..b", "", "a/b", "..", ".", &"a".repeat(65)] {
        check(json!({"name": name}), Err(&["cannot be the name"]));
    }
    check(json!({"name": 7}), Err(&["`name` is no text"]));
    check_manifest("plugin.json", &json!({"$schema": NEUTRAL}).to_string(), Err(&["`name` is missing"]));
    check_manifest("plugin.json", r#"{"name": "a"}"#, Err(&["`$schema` is missing"]));
    check_manifest("plugin.json", "{\n  \"$schema\": \"x\",\n  \"name\" 1}", Err(&["p/plugin.json:3:"]));
    check_manifest(
        "plugin.json",
        "{\"$schema\": \"x\",\n \"name\":\n  \"A B\"}",
        Err(&["p/plugin.json:1:", "p/plugin.json:3:"]),
    );
    check_manifest("README.md", "", Err(&["there is no manifest"]));
    check_manifest(".claude-plugin/marketplace.json", "{}", Err(&["--folder plugins/NAME"]));
}

#[test]
fn a_manifest_for_claude_code() {
    let check = |manifest: Value, expected| check_manifest(CLAUDE, &manifest.to_string(), expected);
    check(json!({"name": "demo", "repository": {"url": "x"}, "whatever": 1}), Ok(&[]));
    check(json!({"version": "1"}), Err(&["`name` is missing"]));
    for (field, path) in
        [("skills", "../x"), ("agents", "/etc"), ("hooks", "./a/../../b"), ("mcpServers", "")]
    {
        check(json!({"name": "demo", (field): path}), Err(&["leads out of the plug-in"]));
        check(json!({"name": "demo", (field): ["./fine", path]}), Err(&["leads out of the plug-in"]));
    }
    check(json!({"name": "demo", "skills": 7}), Err(&["names no path"]));
    check(json!({"name": "demo", "hooks": "./none.json"}), Ok(&["no such file"]));
    check(json!({"name": "demo", "mcpServers": "./none.json"}), Ok(&["no such file"]));
    // A `plugin.json` of another program does not stand in the way.
    let folder = Folder::new(&[("plugin.json", r#"{"name": "other"}"#), (CLAUDE, r#"{"name": "demo"}"#)]);
    assert_eq!(folder.good().place.name, "demo");
}

#[test]
fn everything_in_it_is_found() {
    let manifest = json!({
        "name": "demo", "version": "1.2", "skills": ["./more"], "agents": "./extra/auditor.md",
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo stop"}]}]},
        "mcpServers": {"inline": {"command": "node", "args": ["${CLAUDE_PLUGIN_ROOT}/x.js", "${TOKEN}"]}},
        "commands": "./commands",
    });
    let hooks = json!({"description": "x", "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check.sh"}]}],
        "Stop": [{"hooks": [{"type": "prompt", "prompt": "Done?"}]}],
    }});
    let folder = Folder::new(&[
        (CLAUDE, &manifest.to_string()),
        ("skills/greet/SKILL.md", SKILL),
        ("skills/bad/SKILL.md", "nothing"),
        ("skills/notes.md", "no skill"),
        ("more/other/SKILL.md", &SKILL.replace("greet", "other")),
        ("more/again/SKILL.md", SKILL),
        ("agents/scribe.md", "---\nname: scribe\ndescription: Writes.\ntools: Read, Write\n---\nWrite.\n"),
        ("extra/auditor.md", "---\nname: auditor\ndescription: Audits.\n---\nAudit.\n"),
        ("hooks/hooks.json", &hooks.to_string()),
        (".mcp.json", r#"{"mcpServers": {"filed": {"type": "http", "url": "https://x.example/mcp"}}}"#),
        ("commands/old.md", "x"),
    ]);
    let plugin = folder.good();
    let names: Vec<&str> = plugin.skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["greet", "other"]);
    assert_eq!(plugin.skills[0].place.plugin.as_deref(), Some("demo"));
    let names: Vec<&str> = plugin.agents.iter().map(|agent| agent.config.name.as_str()).collect();
    assert_eq!(names, ["scribe", "auditor"]);
    assert_eq!(plugin.servers.keys().collect::<Vec<_>>(), ["filed", "inline"]);
    assert_eq!(plugin.servers["inline"].variables(), ["TOKEN"], "only the user's own are given away");
    let commands: Vec<(String, String)> =
        plugin.hook_commands().into_iter().map(|hook| (hook.event, hook.command)).collect();
    let expected = [
        ("PreToolUse", "check.sh"),
        ("Stop", r#"{"prompt":"Done?","type":"prompt"}"#),
        ("Stop", "echo stop"),
    ];
    assert_eq!(commands, expected.map(|(event, command)| (event.to_owned(), command.to_owned())));
    assert_eq!(plugin.hooks["PreToolUse"][0]["matcher"], "Bash", "in Claude Code's shape");
    assert_eq!(plugin.unused, ["commands"]);
    let findings: Vec<String> = plugin.findings.iter().map(ToString::to_string).collect();
    assert!(findings.len() == 3 && findings[0].contains("p/skills/bad"), "{findings:?}");
    assert!(findings[1].contains("already a skill `greet`"), "{findings:?}");
    let hook = &findings[2];
    assert!(hook.contains("type `prompt`") && hook.contains("p/hooks/hooks.json"), "{findings:?}");
    let asked: Vec<(&str, Option<&str>)> = plugin
        .asked
        .iter()
        .map(|hook| (hook.command.as_str(), hook.plugin.as_ref().map(|place| place.name.as_str())))
        .collect();
    assert_eq!(asked, [("check.sh", Some("demo")), ("echo stop", Some("demo"))]);
}

#[test]
fn an_agent_with_a_built_in_name_is_refused_and_named() {
    for name in ["developer", "planner", "complete"] {
        let agent = format!("---\nname: {name}\ndescription: x\n---\nWork.\n");
        let folder = Folder::new(&[("plugin.json", &neutral(&json!({}))), ("agents/mine.md", &agent)]);
        let errors = folder.read().unwrap_err();
        let said = errors[0].to_string();
        assert!(said.contains(&format!("`{name}`")) && said.contains("p/agents/mine.md"), "{said}");
    }
    let agent = "---\nname: my-developer\ndescription: x\n---\nWork.\n";
    let folder = Folder::new(&[("plugin.json", &neutral(&json!({}))), ("agents/mine.md", agent)]);
    assert_eq!(folder.good().agents[0].config.name, "my-developer");
}

#[test]
fn hooks_that_have_not_their_form_are_left_out() {
    for (hooks, part) in
        [(json!([]), "no object"), (json!({"hooks": {"Stop": [{"command": "x"}]}}), "`Stop`")]
    {
        let folder =
            Folder::new(&[("plugin.json", &neutral(&json!({}))), ("hooks/hooks.json", &hooks.to_string())]);
        let plugin = folder.good();
        assert!(
            plugin.hooks.is_empty() && plugin.findings[0].message.contains(part),
            "{:?}",
            plugin.findings
        );
    }
}

/// The servers of an `mcp.json` by the specification, and what is said of the others.
#[track_caller]
fn check_servers(file: &Value, names: &[&str], said: &[&str]) {
    let folder = Folder::new(&[("plugin.json", &neutral(&json!({}))), ("mcp.json", &file.to_string())]);
    let plugin = folder.good();
    assert_eq!(plugin.servers.keys().collect::<Vec<_>>(), names, "{:?}", plugin.findings);
    let findings: Vec<String> = plugin.findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings.len(), said.len(), "{findings:?}");
    for (finding, part) in findings.iter().zip(said) {
        assert!(finding.contains(part) && finding.contains("p/mcp.json"), "{part:?} is missing in {finding}");
    }
}

#[test]
fn servers_of_the_specification() {
    let file = |servers: Value| json!({"$schema": NEUTRAL_MCP, "mcpServers": servers});
    let one = |server: Value| file(json!({"s": server}));
    check_servers(
        &file(json!({
            "bare": {"type": "stdio", "command": "npx", "args": ["--data", "${PLUGIN_DATA}"], "env": {"A": "b"}},
            "own": {"type": "stdio", "command": "./bin/server", "cwd": "${PLUGIN_ROOT}/data"},
            "far": {"type": "streamable-http", "url": "https://x.example/mcp", "headers": {"X-A": "b"}},
            "near": {"type": "streamable-http", "url": "http://127.0.0.1:8/mcp"},
            "old": {"type": "sse", "url": "https://x.example/sse"},
        })),
        &["bare", "far", "near", "own"],
        &["before 2025"],
    );
    check_servers(&file(json!({})), &[], &[]);
    check_servers(&json!({"mcpServers": {}}), &[], &["`$schema`"]);
    check_servers(&json!({"$schema": NEUTRAL, "mcpServers": {}}), &[], &["`$schema`"]);
    check_servers(&json!({"$schema": NEUTRAL_MCP}), &[], &["`mcpServers`"]);
    check_servers(&json!({"$schema": NEUTRAL_MCP, "mcpServers": {}, "x": 1}), &[], &["other fields"]);
    for (server, part) in [
        (json!({"command": "x"}), "`type`"),
        (json!({"type": "stdio"}), "`command` is missing"),
        (json!({"type": "stdio", "command": "x", "permissions": {"net": ["*"]}}), "no field `permissions`"),
        (json!({"type": "stdio", "command": "../x"}), "its command `../x`"),
        (json!({"type": "stdio", "command": "/bin/sh"}), "its command `/bin/sh`"),
        (json!({"type": "stdio", "command": "./../x"}), "its command"),
        (json!({"type": "stdio", "command": "x", "cwd": "data"}), "its cwd `data`"),
        (json!({"type": "stdio", "command": "x", "cwd": "${PLUGIN_ROOT}/../.."}), "its cwd"),
        (json!({"type": "stdio", "command": "x", "cwd": "${PLUGIN_ROOT}x"}), "its cwd"),
        (json!({"type": "stdio", "command": "x", "env": {"PLUGIN_ROOT": "y"}}), "sets PLUGIN_ROOT"),
        (json!({"type": "stdio", "command": "x", "args": "y"}), "invalid type"),
        (json!({"type": "streamable-http", "url": "http://x.example/mcp"}), "`url`"),
        (json!({"type": "streamable-http", "url": "https://me@x.example/mcp"}), "`url`"),
        (json!({"type": "streamable-http", "url": "https://x.example/#a"}), "`url`"),
        (
            json!({"type": "streamable-http", "url": "https://x.example", "headers": {"A": "b", "a": "c"}}),
            "`headers`",
        ),
        (
            json!({"type": "streamable-http", "url": "https://x.example", "headers": {"A": "b\nC: d"}}),
            "`headers`",
        ),
    ] {
        check_servers(&one(server), &[], &[part]);
    }
    check_servers(&file(json!({"a__b": {"type": "stdio", "command": "x"}})), &[], &["cannot be the name"]);
}

#[test]
fn a_server_for_claude_code_stays_in_its_plugin_and_has_no_rights_by_itself() {
    let servers = json!({
        "good": {"command": "${CLAUDE_PLUGIN_ROOT}/server", "cwd": "${CLAUDE_PLUGIN_ROOT}"},
        "out": {"command": "${CLAUDE_PLUGIN_ROOT}/../server"},
        "root": {"command": "/usr/bin/env"},
    });
    let folder = Folder::new(&[(CLAUDE, r#"{"name": "demo"}"#), (".mcp.json", &servers.to_string())]);
    let mut plugin = folder.good();
    assert_eq!((plugin.servers.len(), plugin.findings.len()), (1, 2), "{:?}", plugin.findings);
    let permissions = |plugin: &Plugin| plugin.servers["good"].config.permissions.clone();
    let root = plugin.place.root.to_str().unwrap().to_owned();
    assert_eq!(permissions(&plugin).read, Some(vec![".".to_owned(), root]));
    assert_eq!(
        (permissions(&plugin).write, permissions(&plugin).net),
        (Some(vec!["/data".to_owned()]), None)
    );
    plugin.may_reach(&["x.example".to_owned()]);
    assert_eq!(permissions(&plugin).net, Some(vec!["x.example".to_owned()]));
}

#[test]
fn variables_are_filled_in_as_each_form_says() {
    let place = PluginPlace { name: "demo".to_owned(), root: "/root".into(), data: "/data".into() };
    let env = |name: &str| (name == "TOKEN").then(|| "secret".to_owned());
    let check = |form, text: &str, expected: Result<&str, &str>| {
        let filled = place.filled(form, text, &env);
        assert_eq!(filled.as_deref().map_err(String::as_str), expected, "{text}");
    };
    let (specified, claude) = (PluginForm::AgentPlugins, PluginForm::ClaudeCode);
    check(specified, "a${PLUGIN_ROOT}/b:${PLUGIN_DATA}", Ok("a/root/b:/data"));
    // Neither the user's variables nor anything else.
    check(
        specified,
        "${TOKEN} ${CLAUDE_PLUGIN_ROOT} ${x:-y} ${PLUGIN_ROOT",
        Ok("${TOKEN} ${CLAUDE_PLUGIN_ROOT} ${x:-y} ${PLUGIN_ROOT"),
    );
    check(specified, "${a ${PLUGIN_ROOT}", Ok("${a /root"));
    check(claude, "${CLAUDE_PLUGIN_ROOT} ${TOKEN} ${x:-y}", Ok("/root secret y"));
    check(claude, "${MISSING}", Err("MISSING"));
}
