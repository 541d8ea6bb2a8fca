//! Plug-ins: what is installed after whose approval, what runs get of it, and what is refused.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::ModelServer;

use crate::answers::{call, complete, developer, report, select};
use crate::support::files_below;
use crate::trial::Trial;

const SERVER: &str = include_str!("mcp_server.py");
const SCHEMAS: &str = "https://agent-plugins.org/schemas/1.0.0";
const GREET: &str = "---\nname: greet\ndescription: Greets people.\n---\nSay good day.\n";
const SCRIBE: &str = "---\nname: scribe\ndescription: Writes texts.\n---\nWrite the text.\n";
const HOOKS: &str = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "exit 0"}]}]}}"#;

fn manifest(name: &str) -> String {
    json!({"$schema": format!("{SCHEMAS}/plugin.schema.json"), "name": name, "version": "1.0"}).to_string()
}

fn servers() -> String {
    let server = json!({"type": "stdio", "command": "python3", "args": ["${PLUGIN_ROOT}/server.py", "good"]});
    json!({"$schema": format!("{SCHEMAS}/mcp.schema.json"), "mcpServers": {"s": server}}).to_string()
}

/// A file of a plug-in that lies beside the project.
fn put(trial: &Trial, path: &str, text: &str) {
    trial.write(&format!("../{path}"), text);
}

/// A plug-in with everything in the folder `source`.
fn with_plugin(trial: &Trial, source: &str) {
    for (file, text) in [
        ("plugin.json", manifest("demo").as_str()),
        ("skills/greet/SKILL.md", GREET),
        ("agents/scribe.md", SCRIBE),
        ("hooks/hooks.json", HOOKS),
        ("mcp.json", &servers()),
        ("server.py", SERVER),
    ] {
        put(trial, &format!("{source}/{file}"), text);
    }
}

/// A plug-in in `source` with a script that denies to write `a.txt`, and first tries to write elsewhere.
fn with_gate(trial: &Trial) {
    let command = "bash \"${CLAUDE_PLUGIN_ROOT}/no.sh\"";
    let hooks =
        json!({"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": command}]}]});
    let script = "case $(cat) in\n*a.txt*)\n  touch mark \"$PLUGIN_ROOT/mark\" 2>/dev/null\n  \
        touch \"$PLUGIN_DATA/asked\" && echo 'the plug-in says no' >&2\n  exit 2\nesac\n";
    put(trial, "source/plugin.json", &manifest("gate"));
    put(trial, "source/hooks/hooks.json", &json!({ "hooks": hooks }).to_string());
    put(trial, "source/no.sh", script);
}

fn writes_two() -> ModelServer {
    developer(["a.txt", "b.txt"].map(|file| call("Write", &json!({"file_path": file, "content": "x\n"}))))
}

#[test]
fn a_hook_of_an_approved_plugin_denies_a_call() {
    let trial = Trial::new(writes_two());
    with_gate(&trial);
    add(&trial, &["../source"]);
    let ended = trial.run("Write it.");
    ended.exits(0);
    let results = ended.results("Write");
    assert!(results[0].1 && results[0].0.contains("the plug-in says no"), "{results:?}");
    assert!(!results[1].1, "{results:?}");
    let trial = ended.trial;
    assert!(!trial.project().join("a.txt").exists() && trial.project().join("b.txt").exists());
    assert!(data(&trial).join("plugin-data/gate/asked").exists());
    if crate::sandbox::is_possible() {
        assert!(!trial.project().join("mark").exists() && !data(&trial).join("plugins/gate/mark").exists());
    }
}

#[test]
fn a_hook_of_a_plugin_that_is_not_approved_or_has_changed_is_not_asked() {
    let trial = Trial::new(writes_two());
    with_gate(&trial);
    // It lies where plug-ins are, and was never approved.
    fs::create_dir_all(data(&trial).join("plugins")).unwrap();
    fs::rename(trial.outside().join("source"), data(&trial).join("plugins/gate")).unwrap();
    let ended = trial.run("Write it.");
    ended.exits(0);
    assert!(ended.results("Write").iter().all(|(_, is_error)| !is_error), "{}", ended.stdout);
    assert!(!data(&ended.trial).join("plugin-data").exists());

    let trial = Trial::new(writes_two());
    with_gate(&trial);
    add(&trial, &["../source"]);
    fs::write(data(&trial).join("plugins/gate/no.sh"), "exit 2\n").unwrap();
    let ended = trial.run("Write it.");
    ended.exits(0).says(&["not those that you approved (no.sh)", "rawko plugins check gate"]);
    assert!(ended.results("Write").iter().all(|(_, is_error)| !is_error), "{}", ended.stdout);
}

/// What looks like a comment to a person would be a command to the shell.
#[test]
fn all_of_a_command_is_shown_before_it_is_approved() {
    let trial = Trial::new(developer([]));
    let command = "echo ok #\u{1b}]0;x\ntouch evil\n#\u{7} fine";
    let hooks = json!({"Stop": [{"hooks": [{"type": "command", "command": command}]}]});
    put(&trial, "source/plugin.json", &manifest("sly"));
    put(&trial, "source/hooks/hooks.json", &json!({ "hooks": hooks }).to_string());
    let (_, _, shown) = trial.rawko(&["plugins", "add", "../source"]);
    assert!(shown.contains("echo ok #\\u{1b}]0;x\\ntouch evil\\n#\\u{7} fine"), "{shown}");
}

#[test]
fn hosts_are_checked_shown_and_kept_by_an_update() {
    let trial = Trial::new(developer([]));
    with_plugin(&trial, "source");
    for bad in ["https://x.example", "x.example/path", ""] {
        refused(&trial, &["../source", "--allow-net", bad], &["--allow-net", "this"]);
    }
    let net = |trial: &Trial| listed(trial)[0]["net"].clone();
    let said = add(&trial, &["../source", "--allow-net", "a.example,*.b.example"]);
    assert!(said.contains("reach a.example, *.b.example"), "{said}");
    assert_eq!(net(&trial), json!(["a.example", "*.b.example"]));
    put(&trial, "source/new.txt", "newer");
    let (_, _, shown) = trial.rawko(&["plugins", "add", "../source"]);
    assert!(shown.contains("reach a.example, *.b.example"), "the approval is about them too: {shown}");
    let said = add(&trial, &["../source"]);
    assert!(said.contains("Updated") && said.contains("reach a.example, *.b.example"), "{said}");
    assert_eq!(net(&trial), json!(["a.example", "*.b.example"]));
    add(&trial, &["../source", "--allow-net", "c.example"]);
    assert_eq!(net(&trial), json!(["c.example"]), "others take their place");
    add(&trial, &["../source", "--no-net"]);
    assert_eq!(net(&trial), json!([]));
    add(&trial, &["../source", "--allow-net", "c.example"]);
    trial.rawko(&["plugins", "remove", "demo"]);
    add(&trial, &["../source"]);
    assert_eq!(net(&trial), json!([]));
}

#[test]
fn what_an_interrupted_add_left_is_removed_by_the_next() {
    let trial = Trial::new(developer([]));
    with_plugin(&trial, "source");
    let left = data(&trial).join("plugins/.new-left");
    fs::create_dir_all(left.join("skills")).unwrap();
    add(&trial, &["../source"]);
    assert!(!left.exists());
    assert_eq!(listed(&trial)[0]["approval"]["state"], "approved");
}

/// The digest that `plugins add` asks to approve.
#[track_caller]
fn digest_of(trial: &Trial, arguments: &[&str]) -> String {
    let (code, _, stderr) = trial.rawko(&[&["plugins", "add"][..], arguments].concat());
    assert_eq!(code, Some(5), "{stderr}");
    stderr.rsplit_once("--approve ").expect(&stderr).1.trim().to_owned()
}

/// Adds a plug-in, approved as it is.
#[track_caller]
fn add(trial: &Trial, arguments: &[&str]) -> String {
    let digest = digest_of(trial, arguments);
    let (code, stdout, stderr) =
        trial.rawko(&[&["plugins", "add"][..], arguments, &["--approve", &digest]].concat());
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    stdout
}

#[track_caller]
fn refused(trial: &Trial, arguments: &[&str], parts: &[&str]) {
    let (code, stdout, stderr) = trial.rawko(&[&["plugins", "add"][..], arguments].concat());
    assert!(matches!(code, Some(1 | 2)), "{code:?} {stdout}{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part:?} is missing in {stderr}");
    }
    let left: Vec<PathBuf> = files_below(&data(trial))
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(".new-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

fn data(trial: &Trial) -> PathBuf {
    trial.outside().join("home/.local/share/rawko")
}

fn listed(trial: &Trial) -> Vec<Value> {
    let (code, stdout, stderr) = trial.rawko(&["plugins", "list", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    serde_json::from_str(&stdout).expect(&stdout)
}

/// A run in which the plug-in's agent uses its skill and its server.
fn of_scribe() -> ModelServer {
    ModelServer::sequence([
        select("scribe"),
        call("Skill", &json!({"name": "greet"})),
        call("mcp__s__echo", &json!({"text": "hello"})),
        report("wrote it"),
        complete("all done"),
    ])
}

#[test]
fn a_plugin_is_added_used_and_removed() {
    let trial = Trial::new(of_scribe());
    with_plugin(&trial, "source");
    let (code, stdout, stderr) = trial.rawko(&["plugins", "add", "../source"]);
    assert_eq!((code, stdout.as_str()), (Some(5), ""), "{stderr}");
    for part in [
        "demo 1.0",
        "greet: Greets people.",
        "scribe (all tools): Writes texts.",
        "s: python3 ${PLUGIN_ROOT}/server.py good",
        "reach no host",
        "Stop: exit 0",
        "Not installed. To approve exactly this: rawko plugins add ../source --approve ",
    ] {
        assert!(stderr.contains(part), "{part:?} is missing in {stderr}");
    }
    assert!(listed(&trial).is_empty(), "nothing is installed that was not approved");
    let (code, _, stderr) = trial.rawko(&["plugins", "add", "../source", "--approve", "abc"]);
    assert!(code == Some(5) && stderr.contains("has not the digest abc"), "{stderr}");
    let said = add(&trial, &["../source"]);
    assert!(said.contains("Installed the plug-in demo") && said.contains("rawko mcp check s"), "{said}");

    let plugins = listed(&trial);
    assert_eq!((&plugins[0]["name"], &plugins[0]["approval"]["state"]), (&json!("demo"), &json!("approved")));
    let (_, skills, _) = trial.rawko(&["skills", "list"]);
    assert!(skills.contains("plug-in demo"), "{skills}");
    let (_, agents, _) = trial.rawko(&["agents", "list", "--json"]);
    assert!(agents.contains("plug-in demo: ") && agents.contains("scribe"), "{agents}");
    let (code, stdout, stderr) = trial.ask(&["mcp", "check", "s", "--accept"]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");

    let ended = trial.run("Write a text.");
    ended.exits(0);
    assert!(ended.results("Skill")[0].0.contains("Say good day."), "{}", ended.stdout);
    assert_eq!(ended.results("mcp__s__echo"), [("echo says hello".to_owned(), false)]);
    let trial = ended.trial;

    let (code, stdout, stderr) = trial.rawko(&["plugins", "remove", "demo"]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(listed(&trial).is_empty() && files_below(&data(&trial)).is_empty());
    assert!(!trial.outside().join("home/state/rawko/plugins.json").exists());
    let (_, agents, _) = trial.rawko(&["agents", "list"]);
    assert!(!agents.contains("scribe"), "{agents}");
    let (code, _, stderr) = trial.rawko(&["plugins", "remove", "demo"]);
    assert!(code == Some(2) && stderr.contains("no plug-in `demo` is installed"), "{stderr}");
}

#[test]
fn a_changed_file_ends_the_approval_until_it_is_given_anew() {
    let trial = Trial::new(developer([]));
    with_plugin(&trial, "source");
    add(&trial, &["../source"]);
    // What Python keeps does not count.
    let root = data(&trial).join("plugins/demo");
    fs::create_dir(root.join("__pycache__")).unwrap();
    fs::write(root.join("__pycache__/server.pyc"), "x").unwrap();
    assert_eq!(listed(&trial)[0]["approval"]["state"], "approved");

    fs::write(root.join("skills/greet/SKILL.md"), GREET.replace("good day", "goodbye")).unwrap();
    let (code, agents, stderr) = trial.rawko(&["agents", "list"]);
    assert!(code == Some(0) && !agents.contains("scribe"), "{agents}");
    assert!(stderr.contains("not those that you approved (skills/greet/SKILL.md)"), "{stderr}");
    assert!(stderr.contains("rawko plugins check demo"), "{stderr}");
    let ended = trial.run("Work.");
    ended.exits(0);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("not those that you approved"), "a run says it, too: {said}");
    let trial = ended.trial;

    let (code, stdout, _) = trial.rawko(&["plugins", "check", "demo"]);
    assert!(code == Some(1) && stdout.contains("skills/greet/SKILL.md"), "{stdout}");
    let digest = stdout.rsplit_once("--approve ").expect(&stdout).1.trim().to_owned();
    let (code, _, stderr) = trial.rawko(&["plugins", "check", "demo", "--approve", &"0".repeat(64)]);
    assert!(code == Some(2) && stderr.contains("has not this digest"), "{stderr}");
    let (code, stdout, stderr) = trial.rawko(&["plugins", "check", "demo", "--approve", &digest]);
    assert!(code == Some(0) && stdout.contains("yes, as approved"), "{stdout}{stderr}");
    let (_, agents, stderr) = trial.rawko(&["agents", "list"]);
    assert!(agents.contains("scribe") && !stderr.contains("plug-in"), "{agents}{stderr}");
}

#[test]
fn a_plugin_comes_from_a_repository_at_a_reference() {
    let trial = Trial::new(developer([]));
    let text = |version: &str| format!("---\nname: greet\ndescription: Greets, {version}.\n---\nGreet.\n");
    put(&trial, "repo/tools/demo/.claude-plugin/plugin.json", r#"{"name": "demo"}"#);
    put(&trial, "repo/tools/demo/skills/greet/SKILL.md", &text("first"));
    let git = |arguments: &[&str]| trial.git(&[&["-C", "../repo"][..], arguments].concat());
    git(&["init", "--quiet", "--initial-branch=main"]);
    let commit = |message: &str| {
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "-m", message]);
    };
    commit("first");
    git(&["tag", "v1"]);
    put(&trial, "repo/tools/demo/skills/greet/SKILL.md", &text("second"));
    // No program that the repository names is run.
    put(&trial, "repo/.gitattributes", "* filter=evil\n");
    commit("second");
    let head = git(&["rev-parse", "HEAD"]).trim().to_owned();

    let described = |plugins: &[Value]| plugins[0]["skills"][0]["description"].as_str().unwrap().to_owned();
    let folder = ["--folder", "tools/demo"];
    add(&trial, &[&["../repo", "--ref", "v1"][..], &folder[..]].concat());
    let plugins = listed(&trial);
    assert_eq!((described(&plugins), &plugins[0]["ref"]), ("Greets, first.".to_owned(), &json!("v1")));
    let said = add(&trial, &[&["../repo", "--ref", &head][..], &folder[..]].concat());
    assert!(said.contains("Updated the plug-in demo"), "{said}");
    let plugins = listed(&trial);
    assert_eq!((described(&plugins), &plugins[0]["commit"]), ("Greets, second.".to_owned(), &json!(head)));
    assert!(!data(&trial).join("plugins/demo/.git").exists());

    let address = format!("file://{}", trial.outside().canonicalize().unwrap().join("repo").display());
    refused(
        &trial,
        &[&address[..], "--folder", "tools/demo"],
        &["there is already a plug-in `demo`", "plugins remove demo"],
    );
    trial.rawko(&["plugins", "remove", "demo"]);
    add(&trial, &[&address[..], "--folder", "tools/demo"]);
    assert_eq!(described(&listed(&trial)), "Greets, second.");
    for (arguments, part) in [
        (&["../repo", "--ref", "none"][..], "could not be fetched at none"),
        (&["../repo", "--ref", "v1:refs/heads/x"][..], "is no branch"),
        (&["../repo", "--ref=--upload-pack=evil"][..], "is no branch"),
        (&["../repo", "--folder", "../project"][..], "there is no folder"),
        (&["../repo"][..], "there is no manifest"),
        (&["ext::sh -c 'touch evil'"][..], "git is not asked by `ext`"),
        (&["http://127.0.0.1:1/a.git"][..], "git is not asked by `http`"),
        (&["nowhere"][..], "there is no folder `nowhere`"),
    ] {
        refused(&trial, arguments, &[part]);
    }
    assert!(!trial.project().join("evil").exists());
}

#[test]
fn what_cannot_be_used_is_refused_with_its_place() {
    let trial = Trial::new(developer([]));
    put(&trial, "secret", "secret");
    let plugin = |name: &str, file: &str, text: &str| {
        put(&trial, &format!("{name}/plugin.json"), &manifest(name));
        put(&trial, &format!("{name}/{file}"), text);
    };
    plugin("shadow", "agents/a.md", &SCRIBE.replace("name: scribe", "name: developer"));
    refused(
        &trial,
        &["../shadow"],
        &["an agent `developer`, which is the name of a built-in one", "agents/a.md"],
    );
    plugin("linked", "a.md", "x");
    symlink("../../secret", trial.outside().join("linked/b.md")).unwrap();
    refused(&trial, &["../linked"], &["leads out of the plug-in", "b.md"]);
    put(&trial, "broken/plugin.json", "{\n \"$schema\": \"x\",\n oops}");
    refused(&trial, &["../broken"], &["plugin.json:3:", "this is not JSON"]);
    put(&trial, "broken/plugin.json", &manifest("../up"));
    refused(&trial, &["../broken"], &["plugin.json:1:", "cannot be the name"]);
    let (code, stdout, _) = trial.rawko(&["plugins", "check", "../broken"]);
    assert!(code == Some(1) && stdout.contains("cannot be the name"), "{stdout}");

    // An agent of the user with a built-in name is the user's to have.
    put(&trial, "home/config/rawko/agents/developer.md", &SCRIBE.replace("name: scribe", "name: developer"));
    plugin("honest", "agents/a.md", SCRIBE);
    add(&trial, &["../honest"]);
    let (code, agents, stderr) = trial.rawko(&["agents", "list"]);
    assert!(code == Some(0) && agents.contains("scribe"), "{agents}{stderr}");
    assert!(
        agents.contains("developer replaces the built-in one") && !stderr.contains("warning"),
        "{agents}{stderr}"
    );

    put(&trial, "other/plugin.json", &manifest("honest"));
    refused(&trial, &["../other"], &["there is already a plug-in `honest`"]);
}

#[test]
fn a_server_of_an_untrusted_folder_does_not_take_the_place_of_a_plugins() {
    let trial = Trial::new(developer([])).file(".mcp.json", r#"{"mcpServers": {"s": {"command": "false"}}}"#);
    with_plugin(&trial, "source");
    add(&trial, &["../source"]);
    let (code, stdout, stderr) = trial.ask(&["mcp", "check", "s", "--accept"]);
    assert!(code == Some(0) && stdout.starts_with("s ("), "{stdout}{stderr}");
    assert_eq!(trial.rawko(&["trust"]).0, Some(0));
    let (_, list, stderr) = trial.rawko(&["mcp", "list"]);
    assert!(list.contains(".mcp.json") && !list.contains("plug-in demo"), "{list}");
    assert!(stderr.contains("the server `s` of this plug-in is left out"), "{stderr}");
}
