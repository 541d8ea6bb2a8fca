//! Skills: what agents learn of them, what they get, and what needs trust.

use std::fs;

use serde_json::{Value, json};
use testkit::Answer;

use crate::answers::{always, bash, call, calls, complete, developer, report, select};
use crate::sandbox::is_possible;
use crate::trial::{Ended, Trial};

const GREET: &str = "---\nname: greet\ndescription: Greets people. Use when somebody is to be greeted.\n\
                     allowed-tools: Bash Write\n---\n# Greeting\nRun `scripts/greet.sh NAME`.\n";
const SCRIPT: &str = "#!/bin/sh\necho \"Good day, $1\"\n";
const SKILL_FILE: &str = ".agents/skills/greet/SKILL.md";
const SCRIPT_FILE: &str = ".agents/skills/greet/scripts/greet.sh";

fn skill(name: &str) -> Answer {
    call("Skill", &json!({ "name": name }))
}

fn with_greet(trial: Trial) -> Trial {
    trial.file(SKILL_FILE, GREET).file(SCRIPT_FILE, SCRIPT)
}

/// A file of the user's own skill `mine`.
fn users(trial: &Trial, name: &str, text: &str) -> String {
    let path = trial.outside().join("home/.claude/skills/mine").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path.canonicalize().unwrap().display().to_string()
}

/// The system prompt of the agent's first request.
fn system_prompt(trial: &Trial) -> String {
    let asked = trial.server.asked();
    asked.iter().map(testkit::Asked::system).find(|system| system.contains("## How rawko works")).unwrap()
}

/// Whether any request offered the tool.
fn is_offered(trial: &Trial) -> bool {
    trial
        .server
        .asked()
        .iter()
        .any(|asked| String::from_utf8_lossy(&asked.body).contains("\"name\":\"Skill\""))
}

#[track_caller]
fn result(ended: &Ended, tool: &str, at: usize) -> (String, bool) {
    ended.results(tool).swap_remove(at)
}

#[test]
fn a_skill_is_named_in_the_prompt_and_given_when_it_is_asked_for() {
    let mut trial = with_greet(Trial::new(developer([])));
    let (notes, text) =
        ("Ask for the name first.\n", "---\nname: mine\ndescription: My own.\n---\nRead notes.md.\n");
    let notes_file = users(&trial, "references/notes.md", notes);
    users(&trial, "SKILL.md", text);
    trial.server = developer([
        skill("greet"),
        bash(&format!("sh {SCRIPT_FILE} Ada")),
        skill("mine"),
        call("Read", &json!({"file_path": notes_file})),
        call("Write", &json!({"file_path": notes_file, "content": "changed"})),
        bash(&format!("cat {notes_file}; echo changed > {notes_file}")),
        skill("gret"),
    ]);
    let ended = trial.trusted().run("Greet Ada.");
    ended.exits(0);
    let system = system_prompt(&ended.trial);
    assert!(
        system.contains("- `greet`: Greets people. Use when somebody is to be greeted.\n- `mine`: My own.\n"),
        "{system}"
    );
    assert!(!system.contains("Run `scripts/greet.sh"), "the text comes when it is asked for: {system}");

    let (given, failed) = result(&ended, "Skill", 0);
    assert!(!failed && given.contains("# Greeting\nRun `scripts/greet.sh NAME`."), "{given}");
    assert!(given.contains("- `.agents/skills/greet/scripts/greet.sh`"), "{given}");
    let (given, failed) = result(&ended, "Skill", 1);
    assert!(!failed && given.contains("Read notes.md.") && given.contains(&notes_file), "{given}");
    let (given, failed) = result(&ended, "Skill", 2);
    assert!(failed && given.contains("Did you mean `greet`?"), "{given}");
    let (read, failed) = result(&ended, "Read", 0);
    assert!(!failed && read.contains("Ask for the name first."), "{read}");
    assert!(result(&ended, "Write", 0).1, "the user's skill is for reading");
    if is_possible() {
        assert!(result(&ended, "Bash", 0).0.contains("Good day, Ada"));
        assert!(result(&ended, "Bash", 1).0.contains("Ask for the name first."));
        assert_eq!(fs::read_to_string(&notes_file).unwrap(), notes, "for commands too");
    }

    let started = &ended.events_of("session_started")[0];
    assert_eq!(started["skills"], json!(["greet", "mine"]));
    let (code, replayed, _) = ended.trial.rawko(&["replay", "last"]);
    assert_eq!(code, Some(0), "{replayed}");
}

#[test]
fn a_skill_grants_nothing() {
    let agent = json!({
        "name": "developer", "systemPrompt": "Work.", "role": "implement", "skills": ["greet"],
        "tools": {"allowed": ["Read", "Bash"], "bashFilter": {"allowedCommands": ["ls"]}},
    });
    let turns = [
        skill("greet"),
        bash(&format!("sh {SCRIPT_FILE} Ada")),
        bash(&format!("./{SCRIPT_FILE} Ada")),
        call("Write", &json!({"file_path": "a.txt", "content": "x"})),
    ];
    let ended = with_greet(Trial::new(developer(turns))).agent(&agent).trusted().run("Greet Ada.");
    ended.exits(0);
    assert!(!result(&ended, "Skill", 0).1, "the tool comes with the skills");
    let denied: Vec<_> = ended.events_of("tool_denied");
    let outcomes = [ended.results("Bash"), ended.results("Write")].concat();
    assert!(outcomes.iter().all(|(_, failed)| *failed), "{outcomes:?}");
    assert!(denied.len() + outcomes.len() >= 3, "{denied:?} {outcomes:?}");
    assert!(!ended.stdout.contains("Good day"), "{}", ended.stdout);
    assert!(!ended.trial.project().join("a.txt").exists());
}

#[test]
fn an_agent_has_the_skills_that_its_configuration_leaves_it() {
    let agent = |skills: Value| json!({"name": "developer", "systemPrompt": "Work.", "role": "implement", "skills": skills});
    let other = |trial: Trial| {
        with_greet(trial).file(
            ".claude/skills/other/SKILL.md",
            "---\nname: other\ndescription: Other.\n---\nOther text.\n",
        )
    };
    let turns = [calls(&[("Skill", json!({"name": "greet"})), ("Skill", json!({"name": "other"}))])];
    let ended = other(Trial::new(developer(turns))).agent(&agent(json!(["other"]))).trusted().run("Work.");
    ended.exits(0);
    let system = system_prompt(&ended.trial);
    assert!(system.contains("- `other`: Other.") && !system.contains("`greet`"), "{system}");
    assert!(ended.stdout.contains("Other text.") && !ended.stdout.contains("# Greeting"), "{}", ended.stdout);
    assert!(ended.stdout.contains("You have no skill `greet`. You have: other."), "{}", ended.stdout);

    let ended = other(Trial::new(developer([]))).agent(&agent(json!(false))).trusted().run("Work.");
    ended.exits(0);
    assert!(!system_prompt(&ended.trial).contains("## Skills") && !is_offered(&ended.trial));
}

#[test]
fn the_skills_of_a_folder_are_off_until_it_is_trusted_as_it_is() {
    let server = || always(select("developer"), complete("done"), report("did it"));
    let mut trial = with_greet(Trial::new(server()));
    users(&trial, "SKILL.md", "---\nname: greet\ndescription: My own greeting.\n---\nBe short.\n");
    let run = |trial: &mut Trial| {
        trial.server = server();
        let (code, out, err) = trial.ask(&["run", "--output", "stream-json", "Greet."]);
        assert_eq!(code, Some(0), "{out}{err}");
        (system_prompt(trial), format!("{out}{err}"))
    };
    let off = "this folder is not trusted, so its skills are not used";

    let (system, said) = run(&mut trial);
    assert!(said.contains(off), "{said}");
    // An untrusted skill does not take the place of the user's own.
    assert!(system.contains("- `greet`: My own greeting."), "{system}");
    let states = |trial: &Trial| -> Vec<Value> {
        let (_, out, _) = trial.rawko(&["skills", "list", "--json"]);
        let skills: Vec<Value> = serde_json::from_str(&out).expect(&out);
        skills.iter().map(|skill| json!([skill["scope"], skill["state"]])).collect()
    };
    assert_eq!(states(&trial), [json!(["project", "untrusted"]), json!(["user", "used"])]);

    let (code, said, _) = trial.rawko(&["trust"]);
    assert!(code == Some(0) && said.contains("agents are offered the skills greet"), "{said}");
    let (system, said) = run(&mut trial);
    assert!(system.contains("- `greet`: Greets people.") && !said.contains(off), "{said}");
    assert!(said.contains("greet` here is not used"), "the other one is not hidden silently: {said}");
    assert_eq!(states(&trial), [json!(["project", "used"]), json!(["user", "replaced"])]);

    for (file, text) in [(SCRIPT_FILE, "echo changed\n"), (".agents/skills/greet/new.txt", "new")] {
        fs::write(trial.project().join(file), text).unwrap();
        let (system, said) = run(&mut trial);
        assert!(said.contains(off) && system.contains("My own greeting."), "{file}: {said}");
        assert_eq!(trial.rawko(&["trust"]).0, Some(0));
        assert!(run(&mut trial).0.contains("Greets people."));
    }
}

#[test]
fn a_skill_that_a_run_changes_is_not_given_to_it_and_the_prompt_stays() {
    if !is_possible() {
        return;
    }
    let change = format!("echo 'rm -r x' >> {SCRIPT_FILE}; sed -i s/Greets/Insults/ {SKILL_FILE}");
    let turns = [skill("greet"), bash(&change), skill("greet")];
    let ended = with_greet(Trial::new(developer(turns))).trusted().run("Greet.");
    ended.exits(0);
    assert!(!result(&ended, "Skill", 0).1);
    let (said, failed) = result(&ended, "Skill", 1);
    assert!(failed && said.contains("was changed after this run began"), "{said}");
    let text = fs::read_to_string(ended.trial.project().join(SKILL_FILE)).unwrap();
    assert!(text.contains("Insults people."), "the run did change it: {text}");
    let systems = ended.trial.server.asked().iter().map(testkit::Asked::system).collect::<Vec<_>>();
    let systems: Vec<_> = systems.iter().filter(|system| system.contains("## How rawko works")).collect();
    assert!(systems.len() == 4 && systems.iter().all(|system| *system == systems[0]), "{systems:?}");
}

#[test]
fn skills_are_listed_shown_and_checked() {
    let trial = with_greet(Trial::new(developer([])))
        .file(".rawko/skills/bad/SKILL.md", "---\nname: Bad\ndescription: x\nversion: 1\n---\n");
    let (code, out, err) = trial.rawko(&["skills", "list"]);
    assert!(code == Some(0) && out.contains("greet") && out.contains("not trusted"), "{out}");
    assert!(err.contains("this skill is not used"), "{err}");
    let (code, out, _) = trial.rawko(&["skills", "show", "greet"]);
    assert!(code == Some(0) && out.contains("# Greeting") && out.contains("scripts/greet.sh"), "{out}");
    assert!(out.contains("grants nothing here"), "{out}");
    let (code, out, err) = trial.rawko(&["skills", "show", "gret"]);
    assert!(code == Some(2) && err.contains("did you mean `greet`?"), "{out}{err}");
    let (code, out, _) = trial.rawko(&["skills", "check"]);
    assert_eq!(code, Some(1), "{out}");
    for part in ["line 2", "not lowercase", "`version` is no field", "2 skills checked: 1 of them does not"] {
        assert!(out.contains(part), "{part:?} is missing in {out}");
    }
    let (code, out, _) = trial.rawko(&["skills", "check", "--json", ".agents/skills/greet"]);
    let checked: Value = serde_json::from_str(&out).expect(&out);
    assert_eq!(
        (code, &checked["valid"], &checked["skills"][0]["faults"]),
        (Some(0), &json!(true), &json!([]))
    );
}

#[test]
fn claude_md_is_followed_where_there_is_no_agents_md_and_the_start_says_so() {
    let trial = |text: &str| {
        let server = always(select("developer"), complete("done"), report("did it"));
        Trial::new(server).file("CLAUDE.md", text)
    };
    let ended = trial("Answer in rhyme. See @docs/style.md\n").trusted().run("Work.");
    ended.exits(0);
    let system = system_prompt(&ended.trial);
    assert!(
        system.contains("## Standing instructions of this project (CLAUDE.md)\nAnswer in rhyme."),
        "{system}"
    );
    assert_eq!(ended.events_of("session_started")[0]["instructions"], json!({"file": "CLAUDE.md"}));
    assert!(ended.stdout.contains("imports are not followed"), "{}", ended.stdout);

    let ended = trial("Answer in rhyme.\n").run("Work.");
    assert!(system_prompt(&ended.trial).contains("<data from=\"CLAUDE.md\">\n| Answer in rhyme."));
    let read = json!({"file": "CLAUDE.md", "asData": true});
    assert_eq!(ended.events_of("session_started")[0]["instructions"], read);

    let both = trial("Answer in rhyme.\n").file("AGENTS.md", "Answer in prose.\n").trusted().output("text");
    let ended = both.run("Work.");
    let system = system_prompt(&ended.trial);
    assert!(system.contains("(AGENTS.md)\nAnswer in prose.") && !system.contains("rhyme"), "{system}");
    assert!(ended.stderr.contains("agents follow AGENTS.md"), "{}", ended.stderr);
}
