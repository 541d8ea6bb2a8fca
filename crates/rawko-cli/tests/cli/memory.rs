//! `rawko memory`: what is there, what agents would get, and what is written.

use std::fs;
use std::process::Stdio;

use serde_json::json;

use crate::place::{Place, names};
use crate::support::Said;

const OAUTH: &str = "---\ntitle: OAuth2 integration was considered too broad\nwhenToUse: [oauth, \"login|sso\"]\nimportance: high\ndiscoveredAt: 2026-01-02T03:04:05+01:00\ndiscoveredBy: developer\ntags: [code, failures]\n---\n\nEarlier attempts at OAuth2 failed because the scopes were unclear.\n";

fn with_memories() -> Place {
    let place = Place::new();
    place.write(".rawko/memories/oauth.md", OAUTH);
    place.write(
        ".rawko/memories/mail/smtp.md",
        "---\ntitle: Mail goes through a queue\nwhenToUse: When sending mail or notifications\nimportance: medium\ndiscoveredAt: 2026-01-02\ndiscoveredBy: planner\n---\nNever send it directly.\n",
    );
    place
}

#[test]
fn a_folder_without_memories_says_what_to_do() {
    let place = Place::new();
    place.rawko(&["memory", "list"]).ends(0).says(&["no memories yet", "rawko memory add"]);
    place.rawko(&["memory", "check"]).ends(0).says(&["0 memories are sound"]);
    place.rawko(&["memory", "stats"]).ends(0).says(&["no memory has been given"]);
    let bad = Place::new();
    bad.write(".rawko/memories/bad.md", "no front matter\n");
    let listed = bad.rawko(&["memory", "list"]).ends(0).says(&["none of the files here can be used"]);
    listed.complains(&["warning: .rawko/memories/bad.md: the front matter is missing"]);
    let found =
        place.rawko(&["memory", "match", "--task", "x", "--agent", "tester", "--json"]).ends(0).json();
    assert_eq!((&found["memories"], &found["block"]), (&json!([]), &json!("")));
    assert_eq!(names(&place.project()), Vec::<String>::new());
}

#[test]
fn matching_memories_are_listed_with_every_reason() {
    let place = with_memories();
    let question = ["memory", "match", "--task", "Add OAuth integration", "--agent", "developer"];
    insta::assert_snapshot!("memory_match", place.rawko(&question).ends(0).out);
    insta::assert_snapshot!(
        "memory_match_explained",
        place.rawko(&[&question[..], &["--explain"]].concat()).ends(0).out
    );
    let found = place.rawko(&[&question[..], &["--json"]].concat()).ends(0).json();
    let first = &found["memories"][0];
    assert_eq!((&first["path"], &first["score"]["total"]), (&json!("oauth.md"), &json!(45.0)));
    assert_eq!(first["matches"][0]["reading"], "prefix");
    assert_eq!(first["discoveredAt"], "2026-01-02T02:04:05.000Z");
    assert!(found["block"].as_str().unwrap().contains("| Earlier attempts at OAuth2 failed"));
    let with_plan =
        [&["memory", "match", "--task", "x", "--agent", "tester", "--plan", "send a mail"][..], &["--json"]]
            .concat();
    assert_eq!(place.rawko(&with_plan).ends(0).json()["memories"][0]["path"], "mail/smtp.md");
    let step = ["memory", "match", "--task", "x", "--agent", "tester", "--step", "send a mail", "--json"];
    assert_eq!(place.rawko(&step).ends(0).json()["memories"][0]["path"], "mail/smtp.md");
    // Earlier reports say nothing about what this task needs.
    let history =
        ["memory", "match", "--task", "x", "--agent", "tester", "--history", "the sso flow", "--json"];
    assert_eq!(place.rawko(&history).ends(0).json()["memories"], json!([]));
    place
        .rawko(&["memory", "match", "--task", "x", "--agent", "nobody"])
        .ends(2)
        .complains(&["there is no agent `nobody`"]);
}

#[test]
fn the_agents_options_count() {
    let place = with_memories();
    place.write(
        ".rawko/agents/picky.yaml",
        "name: picky\nsystemPrompt: x\nmemory: { minImportance: high, maxInjected: 1, scoreBonus: 7 }\nmetadata: { tags: [failures] }\n",
    );
    let question =
        ["memory", "match", "--task", "Send mail about oauth notifications", "--agent", "picky", "--json"];
    let found = place.rawko(&question).ends(0).json();
    assert_eq!(found["memories"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&found["memories"][0]["score"]["agentBonus"], &found["memories"][0]["score"]["tags"]),
        (&json!(7.0), &json!(5.0))
    );
    // Whom it names besides those that came near is asked for: that reads every file.
    let explained = place.rawko(&[&question[..], &["--explain"]].concat()).ends(0).json();
    assert_eq!(explained["memories"], found["memories"]);
    assert_eq!(explained["leftOut"][0]["reason"], "tooUnimportant");
    // How many match is said all the same.
    assert_eq!((&found["leftOut"], &found["unmet"]), (&json!([]), &explained["unmet"]));
    assert_eq!(found["unmet"], json!({"noPlace": 0, "tooWeak": 0, "tooUnimportant": 1}));
    let text = place.rawko(&question[..question.len() - 1]).ends(0).out;
    assert!(text.contains("\nOthers that match: 1 too unimportant\n"), "{text}");
}

#[test]
fn memories_are_listed_and_shown() {
    let place = with_memories();
    insta::assert_snapshot!("memory_list", place.rawko(&["memory", "list"]).ends(0).out);
    insta::assert_snapshot!("memory_show", place.rawko(&["memory", "show", "oauth"]).ends(0).out);
    let shown = place.rawko(&["memory", "show", "mail goes through a queue", "--json"]).ends(0).json();
    assert_eq!((&shown["path"], &shown["patterns"][0]["reading"]), (&json!("mail/smtp.md"), &json!("words")));
    place.rawko(&["memory", "show", "nothing"]).ends(2).complains(&["there is no memory `nothing`", "hint:"]);
    place.write(".rawko/memories/other/oauth.md", OAUTH);
    place
        .rawko(&["memory", "show", "OAuth2 integration was considered too broad"])
        .ends(2)
        .complains(&["means 2 memories", "other/oauth.md"]);
    place.rawko(&["memory", "show", "oauth.md"]).ends(0);
}

#[test]
fn a_new_memory_overwrites_nothing() {
    let place = with_memories();
    let add = [
        "memory",
        "add",
        "--title",
        "Money is in cents",
        "--when-to-use",
        "money|price",
        "--importance",
        "critical",
        "--tags",
        "money, code",
        "--kind",
        "avoid",
        "--paths",
        "src/**",
        "--body",
        "Never use floats.",
    ];
    place.rawko(&add).ends(0).says(&["wrote .rawko/memories/money-is-in-cents.md"]);
    let text = fs::read_to_string(place.project().join(".rawko/memories/money-is-in-cents.md")).unwrap();
    for part in [
        "title: Money is in cents\n",
        "importance: critical\n",
        "kind: avoid\n",
        "tags: [money, code]\n",
        "\n\nNever use floats.\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    place.rawko(&add).ends(1).complains(&["says nearly the same: money-is-in-cents.md", "--force"]);
    place.rawko(&[&add[..], &["--force"]].concat()).ends(0).says(&["money-is-in-cents-2.md"]);
    let from_stdin = ["memory", "add", "--title", "Dates are UTC", "--when-to-use", "date", "--json"];
    let done = place.rawko_with(&from_stdin, "Zürich is not UTC.\n".as_bytes()).ends(0).json();
    assert_eq!(done["path"], "dates-are-utc.md");
    place.rawko_with(&from_stdin[..6], b" \n").ends(2).complains(&["the memory has no text", "--body"]);
    let odd = ["memory", "add", "--title", "Odd", "--when-to-use", "a(b", "--body", "x"];
    place
        .rawko(&odd)
        .ends(0)
        .complains(&["the pattern `a(b` is no regular expression", "edit .rawko/memories/odd.md"]);
    let done = place.rawko(&[&odd[..], &["--force", "--json"]].concat()).ends(0).json();
    assert_eq!(done["problems"][0]["pattern"], "a(b");
    for name in ["odd.md", "odd-2.md"] {
        fs::remove_file(place.project().join(".rawko/memories").join(name)).unwrap();
    }
    place.rawko_with(&from_stdin[..6], b"\xff").ends(2).complains(&["not UTF-8"]);
    place
        .rawko(&["memory", "add", "--title", "x", "--when-to-use", " ", "--body", "y"])
        .ends(2)
        .complains(&["whenToUse", "hint:"]);
    place
        .rawko(&["memory", "add", "--title", "x", "--when-to-use", "y", "--body", "z", "--file", "../x"])
        .ends(2)
        .complains(&["no readable file"]);
    place.rawko(&["memory", "check"]).ends(1).says(&["has the same title as money-is-in-cents-2.md"]);
}

#[test]
fn what_is_to_be_mended_is_named_with_its_line() {
    let place = with_memories();
    place.rawko(&["memory", "check"]).ends(0).says(&["2 memories are sound"]);
    place.write(
        ".rawko/memories/bad.md",
        "---\ntitle: \"\\e[2Jx\"\nwhenToUse: 'a(\u{1b}[31m'\nimportance: urgent\n---\n",
    );
    place.write(".rawko/memories/worse.md", "no front matter\n");
    let check = place.rawko(&["memory", "check"]).ends(1).says(&[
        "--> .rawko/memories/bad.md:4",
        "`urgent` is no importance and read as low",
        "= help: write low, medium, high or critical",
        "--> .rawko/memories/worse.md:1:1",
    ]);
    assert!(!check.out.contains('\u{1b}'), "{:?}", check.out);
    for action in ["show", "retire"] {
        place.rawko(&["memory", action, "worse"]).ends(1).complains(&[
            ".rawko/memories/worse.md cannot be used: the front matter is missing",
            "begin the file with `---`",
            "edit .rawko/memories/worse.md",
        ]);
    }
    let reports = place.rawko(&["memory", "check", "--json"]).ends(1).json();
    assert_eq!(reports["sound"], false);
    let listed = place
        .rawko(&["memory", "list"])
        .ends(0)
        .complains(&["findings in the files of memories", "hint: rawko memory check"]);
    assert!(!listed.out.contains('\u{1b}') && listed.out.contains("mail/smtp.md"));
}

/// A file's name may say what it likes, but not in the name of rawko.
#[test]
fn a_name_with_a_line_break_stays_in_its_line() {
    let place = with_memories();
    place.write(".rawko/memories/x\nerror: y.md", "none\n");
    let checked =
        place.rawko(&["memory", "check"]).ends(1).says(&["--> .rawko/memories/x\\nerror: y.md:1:1\n"]);
    assert_eq!(checked.out.lines().filter(|line| line.starts_with("error:")).count(), 1, "{}", checked.out);
}

#[test]
fn several_may_write_at_once() {
    let place = with_memories();
    let write = || {
        place.command(&[
            "memory",
            "add",
            "--title",
            "Port",
            "--when-to-use",
            "x",
            "--body",
            "Port 7070 is used.",
        ])
    };
    let begun: Vec<_> =
        (0..8).map(|_| write().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()).collect();
    let ended: Vec<Said> =
        begun.into_iter().map(|child| Said::of(child.wait_with_output().unwrap())).collect();
    let written = ended.iter().filter(|done| done.out.contains("wrote .rawko/memories/port.md")).count();
    let refused = ended.iter().filter(|done| done.err.contains("says nearly the same: port.md")).count();
    assert_eq!((written, refused), (1, 7));
}

#[test]
fn retired_memories_keep_their_files() {
    let place = with_memories();
    place
        .rawko(&["memory", "retire", "oauth"])
        .ends(0)
        .says(&["oauth.md is not given any more (expired at "]);
    let again = place.rawko(&["memory", "retire", "oauth"]).ends(0);
    again.says(&["oauth.md was retired before (expired at ", "nothing was changed"]);
    place.rawko(&["memory", "retire", "smtp", "--superseded-by", "oauth"]).ends(2).complains(&[
        "`oauth.md` cannot take the place",
        "hint: remove or change its `expiresAt` in .rawko/memories/oauth.md first",
    ]);
    assert!(
        fs::read_to_string(place.project().join(".rawko/memories/oauth.md")).unwrap().contains("expiresAt: ")
    );
    place.write(".rawko/memories/new.md", &OAUTH.replace("too broad", "again"));
    let done = place.rawko(&["memory", "retire", "smtp", "--superseded-by", "new", "--json"]).ends(0).json();
    assert_eq!((&done["supersededBy"], &done["changed"]), (&json!("new.md"), &json!(true)));
    let again = place.rawko(&["memory", "retire", "smtp", "--json"]).ends(0).json();
    assert_eq!((&again["supersededBy"], &again["changed"]), (&json!("new.md"), &json!(false)));
    place.rawko(&["memory", "retire", "new", "--superseded-by", "smtp"]).ends(2).complains(&[
        "superseded by new.md",
        "take mail/smtp.md out of `supersedes` in .rawko/memories/new.md first",
    ]);
    place
        .rawko(&["memory", "retire", "new", "--superseded-by", "new.md"])
        .ends(2)
        .complains(&["its own place"]);
    let listed = place.rawko(&["memory", "list", "--json"]).ends(0).json();
    let states: Vec<&str> =
        listed.as_array().unwrap().iter().map(|entry| entry["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["superseded", "active", "expired"]);
    assert_eq!((&listed[0]["supersededBy"], &listed[1]["supersededBy"]), (&json!("new.md"), &json!(null)));
    let question =
        ["memory", "match", "--task", "oauth mail notifications", "--agent", "developer", "--json"];
    let found = place.rawko(&question).ends(0).json();
    assert_eq!(found["memories"].as_array().unwrap().len(), 1);
    let silenced = "warning: it still supersedes mail/smtp.md: neither is given now";
    place
        .rawko(&["memory", "retire", "new"])
        .ends(0)
        .complains(&[silenced, "out of `supersedes` in .rawko/memories/new.md"]);
    place.rawko(&["memory", "check"]).ends(1).says(&["new.md:", "still supersedes mail/smtp.md"]);
}

#[test]
fn what_runs_proposed_is_kept_or_rejected() {
    let place = with_memories();
    let proposed = OAUTH.replace("importance: high", "importance: high\nstatus: proposed");
    for name in ["one", "two", "three"] {
        place.write(&format!(".rawko/memories/{name}.md"), &proposed.replace("too broad", name));
    }
    let listed = place.rawko(&["memory", "keep"]).ends(0);
    listed.says(&["one.md", "two.md", "three.md", "3 proposed: rawko memory keep NAME"]);
    place.rawko(&["memory", "retire", "two"]).ends(0);
    let done = place.rawko(&["memory", "keep", "one", "--json"]).ends(0).json();
    assert_eq!(done["kept"], json!(["one.md"]));
    assert_eq!(done["proposed"][0]["path"], "three.md");
    let text = |name: &str| fs::read_to_string(place.project().join(".rawko/memories").join(name)).unwrap();
    assert!(text("one.md").contains("status: confirmed\n") && text("two.md").contains("expiresAt: "));
    let question = ["memory", "match", "--task", "Add oauth", "--agent", "developer", "--json"];
    let block = place.rawko(&question).ends(0).json()["block"].as_str().unwrap().to_owned();
    assert_eq!(block.matches("*Unconfirmed: ").count(), 1, "{block}");
    place.rawko(&["memory", "keep", "none"]).ends(2).complains(&["there is no memory `none`"]);
    place.rawko(&["memory", "keep", "oauth"]).ends(2).complains(&["`oauth.md` is not proposed"]);
    place
        .rawko(&["memory", "keep", "two"])
        .ends(2)
        .complains(&["`two.md` is not proposed, or not given any more"]);
    place
        .rawko(&["memory", "keep", "three"])
        .ends(0)
        .says(&["three.md: kept", "no proposed memories are left"]);
}

#[test]
fn uses_are_counted() {
    let place = with_memories();
    let one = |memory: &str, outcome: &str| json!({"session": "s", "iteration": 1, "agent": "developer", "memory": memory, "cited": true, "outcome": outcome, "at": 1_769_160_600_000_u64});
    let lines = [
        one("oauth.md", "success"),
        one("oauth.md", "failure"),
        one("oauth.md", "success"),
        one("old.md", "success"),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    place.write(".rawko/memories/.feedback.jsonl", &text);
    insta::assert_snapshot!("memory_stats", place.rawko(&["memory", "stats"]).ends(0).out);
    place.rawko(&["memory", "show", "oauth"]).ends(0).says(&["3 times: helped 2, did not help 1"]);
    let stats = place.rawko(&["memory", "stats", "--json"]).ends(0).json();
    assert_eq!(
        (&stats[0]["uses"], &stats[0]["helped"], &stats[0]["notHelped"]),
        (&json!(3), &json!(2), &json!(1))
    );
    assert_eq!((&stats[1]["path"], &stats[1]["title"]), (&json!("old.md"), &json!(null)));
}

#[test]
fn a_folder_that_is_none_is_said_by_every_action() {
    let place = Place::new();
    place.write(".rawko/memories", "not a folder");
    let add = ["memory", "add", "--title", "T", "--when-to-use", "x", "--body", "y"];
    let wrong = [".rawko/memories is a file, but should be a folder", "hint: move the file elsewhere"];
    for arguments in [
        &["memory", "list"][..],
        &["memory", "list", "--json"],
        &["memory", "show", "x"],
        &["memory", "match", "--task", "x", "--agent", "developer"],
        &add,
        &["memory", "stats"],
        &["memory", "retire", "x"],
    ] {
        let done = place.rawko(arguments).ends(1).complains(&wrong);
        assert_eq!(done.out, "", "{arguments:?}");
    }
    place.rawko(&["memory", "check"]).ends(1).says(&["error: is a file", "--> .rawko/memories\n"]);
    fs::remove_file(place.project().join(".rawko/memories")).unwrap();
    place.rawko(&add).ends(0).says(&["wrote .rawko/memories/t.md"]);
}

#[test]
fn hints_about_the_users_own_memories_work_when_typed() {
    let place = with_memories();
    let add =
        ["memory", "--user", "add", "--title", "Ports", "--when-to-use", "port", "--body", "It is 7070."];
    place.rawko(&add).ends(0);
    place.rawko(&add).ends(1).complains(&["read it: rawko memory --user show ports.md"]);
    place.rawko(&["memory", "--user", "show", "ports.md"]).ends(0).says(&["It is 7070."]);
    let keep = place.rawko(&["memory", "--user", "keep", "ports.md"]).ends(2);
    keep.complains(&["not proposed", "`rawko memory --user keep` lists"]);
    place.rawko(&["memory", "retire", "user:ports.md"]).ends(2).complains(&["give --user"]);
    let odd = ["memory", "--user", "add", "--title", "Odd", "--when-to-use", "a(b", "--body", "x"];
    let hint = place.rawko(&odd).ends(0).err.lines().last().unwrap_or_default().to_owned();
    let file = hint.trim().trim_start_matches("hint: edit ");
    assert!(fs::read_to_string(file).unwrap().contains("title: Odd"), "{hint}");
}
