//! Listing and exporting.

use serde_json::{Value, json};

use crate::bench::{Bench, CANARY, complete, report, select, short, turn};

/// What a hostile model would like a reader's program to do.
const HOSTILE: &str = "<script>alert(1)</script>\n```\n</details>\n![x](http://h/p)\u{1b}[31mred\u{202e}";

fn exported() -> Bench {
    let bench = Bench::new(&json!([
        select(),
        turn("", "UpdatePlan", json!({"steps": [{"description": "write it", "status": "in_progress"}]})),
        turn(HOSTILE, "Bash", json!({"command": "seq 1 4000; printenv DEPLOY_TOKEN; echo end of it"})),
        turn(
            &format!("the key is {CANARY}"),
            "Write",
            json!({"file_path": "/etc/outside", "content": HOSTILE})
        ),
        report(),
        complete(),
    ]));
    bench.rawko(&["run", "--quiet", &format!("Do it with {CANARY} and <i>care</i>.")]).check(0, &[]);
    let recorded = std::fs::read_to_string(bench.journal_path()).unwrap();
    assert!(recorded.contains("[redacted]") && !recorded.contains(CANARY), "the key is in the journal");
    bench
}

#[test]
fn a_session_is_exported_as_json() {
    let bench = exported();
    let said = bench.rawko(&["sessions", "export", "--format", "json"]).check(0, &[]);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(document["format"], 2);
    assert_eq!(document["task"], "Do it with [redacted] and <i>care</i>.");
    assert_eq!(document["outcome"]["status"], "claimed");
    assert_eq!(document["plan"]["steps"][0]["description"], "write it");
    let entries = document["entries"].as_array().unwrap();
    let of = |kind: &str| entries.iter().filter(|entry| entry["type"] == kind).collect::<Vec<_>>();
    assert_eq!(of("decision_made").len(), 2);
    assert_eq!(of("decision_made")[0]["decision"]["reason"], "it is <b>code</b>");
    let calls = of("tool_called");
    let tools: Vec<&Value> = calls.iter().map(|called| &called["call"]["name"]).collect();
    assert_eq!(tools, ["UpdatePlan", "Bash", "Write", "Report"]);
    let result_of = |called: &Value| {
        let mut finished = of("tool_finished").into_iter();
        finished.find(|it| it["callId"] == called["call"]["id"]).unwrap()["outcome"].clone()
    };
    let bash = result_of(calls[1]);
    assert_eq!(bash["exitCode"], 0);
    assert!(bash["content"].as_str().unwrap().contains("end of it"), "{bash}");
    assert_eq!(result_of(calls[2])["isError"], true);
    assert!(of("model_replied")[1]["text"] == "the key is [redacted]", "{:?}", of("model_replied"));
    // Every record that is named is there.
    let records = bench.journal().records.len() as u64;
    assert!(entries.iter().all(|entry| (1..=records).contains(&entry["record"].as_u64().unwrap())));
}

/// The fields of each kind of object, as the format names them; further ones are refused by its readers.
const STEP: [&str; 12] = [
    "step_id",
    "timestamp",
    "source",
    "model_name",
    "message",
    "reasoning_content",
    "tool_calls",
    "observation",
    "metrics",
    "llm_call_count",
    "is_copied_context",
    "extra",
];

#[track_caller]
fn check_fields(object: &Value, known: &[&str]) {
    let unknown: Vec<&String> =
        object.as_object().unwrap().keys().filter(|key| !known.contains(&key.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?} in {object}");
}

#[test]
fn a_session_is_exported_as_a_trajectory() {
    let bench = exported();
    let said = bench.rawko(&["sessions", "export", "--format", "atif"]).check(0, &[]);
    let trajectory: Value = serde_json::from_str(&said.out).unwrap();
    let root = ["schema_version", "session_id", "trajectory_id", "agent", "steps", "final_metrics", "extra"];
    check_fields(&trajectory, &root);
    check_fields(&trajectory["agent"], &["name", "version", "tool_definitions", "extra"]);
    assert_eq!(
        (&trajectory["schema_version"], &trajectory["agent"]["name"]),
        (&json!("ATIF-v1.8"), &json!("rawko"))
    );
    let steps = trajectory["steps"].as_array().unwrap();
    let shown: Vec<String> = (1_u64..)
        .zip(steps)
        .map(|(number, step)| {
            assert_eq!(step["step_id"], number);
            check_fields(step, &STEP);
            let list = |value: &Value, name: &str| -> Vec<String> {
                let items = value.as_array().into_iter().flatten();
                items.map(|item| item[name].as_str().unwrap_or_default().to_owned()).collect()
            };
            let (calls, results) = (&step["tool_calls"], &step["observation"]["results"]);
            assert_eq!(list(calls, "tool_call_id"), list(results, "source_call_id"), "{step}");
            if step["source"] != "agent" {
                let only_agents = ["model_name", "reasoning_content", "tool_calls", "metrics"];
                assert!(only_agents.iter().all(|field| step.get(field).is_none()), "{step}");
            }
            let (source, agent) = (step["source"].as_str().unwrap(), step["extra"]["agent"].as_str());
            format!("{source} {} {:?}", agent.unwrap_or("-"), list(calls, "function_name"))
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    user - []
    agent arbiter []
    agent developer ["UpdatePlan"]
    agent developer ["Bash"]
    agent developer ["Write"]
    agent developer ["Report"]
    agent arbiter []
    "#);
    assert_eq!(steps[0]["message"], "Do it with [redacted] and <i>care</i>.");
    let sum = |name: &str| steps.iter().filter_map(|step| step["metrics"][name].as_u64()).sum::<u64>();
    assert_eq!(trajectory["final_metrics"]["total_prompt_tokens"], sum("prompt_tokens"));
    assert_eq!(trajectory["final_metrics"]["total_steps"], steps.len());
    assert_eq!(steps[4]["observation"]["results"][0]["extra"]["is_error"], true);
}

#[test]
fn a_session_is_exported_to_be_read() {
    let bench = exported();
    let words = [
        "[redacted]",
        "developer",
        "Bash",
        "exit 0",
        "end of it",
        "bytes cut",
        "all done",
        "write it",
        "Iteration 1",
    ];
    let markdown = bench.rawko(&["sessions", "export"]).check(0, &words).out;
    assert!(markdown.starts_with("# Session 2"), "{markdown}");
    let quoted: Vec<&str> = markdown.lines().filter(|line| line.starts_with('>')).collect();
    assert!(quoted.iter().any(|line| line.contains("&lt;script>alert(1)")), "{quoted:?}");
    for markup in ["<", "![", "]("] {
        assert!(!quoted.iter().any(|line| line.contains(markup)), "{markup} in an agent's words: {quoted:?}");
    }

    assert!(markdown.len() < 60_000, "long outputs are bounded");
}

/// What an exported page holds as data.
fn embedded(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    assert!(!json.contains(['<', '>', '&']), "{json}");
    serde_json::from_str(json).unwrap()
}

#[test]
fn a_session_is_exported_as_the_inspectors_page() {
    let bench = exported();
    let page = bench.rawko(&["sessions", "export", "last", "--format", "html"]).check(0, &[]).out;
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("<script").count(), 2, "the data and the page's own script");
    assert!(page.contains("default-src 'none'") && !page.contains("unsafe-inline"));
    let data = embedded(&page);
    let head = &data["session"]["head"];
    assert_eq!(head["task"]["text"], "Do it with [redacted] and <i>care</i>.");
    assert_eq!((&head["state"], &head["outcome"]["status"]), (&json!("complete"), &json!("claimed")));
    assert_eq!(head["plan"]["steps"][0]["description"], "write it");
    let entries = data["session"]["entries"].as_array().unwrap();
    let of = |kind: &str| entries.iter().filter(|entry| entry["type"] == kind).collect::<Vec<_>>();
    let tools: Vec<&Value> = of("tool_call").iter().map(|call| &call["tool"]).collect();
    assert_eq!(tools, ["UpdatePlan", "Bash", "Write", "Report"]);
    assert_eq!(of("tool_call")[1]["result"]["exitCode"], 0);
    let bash = of("tool_call")[1]["result"]["content"]["text"].as_str().unwrap();
    assert!(bash.starts_with("1\n2\n"), "{bash}");
    assert_eq!(of("tool_call")[2]["state"], "failed");
    let said =
        of("model_call").iter().map(|call| call["answer"]["text"]["text"].to_string()).collect::<String>();
    assert!(said.contains("<script>alert(1)</script>") && said.contains("the key is [redacted]"), "{said}");
    assert_eq!(of("decision").len(), 2);
    let decisions = &data["decisions"];
    assert!(decisions["1"]["input"].is_object() && decisions["1"]["alternatives"]["agents"].is_array());
    assert_eq!(decisions["2"]["decision"]["type"], "COMPLETE");
    assert!(page.len() < 500_000, "{}", page.len());
}

#[test]
fn the_lines_of_a_file_are_exported_without_the_secrets_in_them() {
    let bench = Bench::new(&json!([
        select(),
        turn("", "Bash", json!({"command": "echo added >> settings.txt"})),
        report(),
        complete(),
    ]));
    std::fs::write(bench.project().join("settings.txt"), format!("first\nkey={CANARY}\n")).unwrap();
    bench.rawko(&["run", "--quiet", "--allow-run=echo", "Do it."]).check(0, &[]);
    let page = bench.rawko(&["sessions", "export", "--format", "html"]).check(0, &[]).out;
    let data = embedded(&page);
    let patch = data["diffs"]["1"]["patch"]["text"].as_str().unwrap_or_else(|| panic!("{}", data["diffs"]));
    assert!(patch.contains("+added") && patch.contains(" key=[redacted"), "{patch}");
    // Without a configuration rawko does not know what is a secret.
    std::fs::write(bench.outside().join("home/config/rawko/config.yaml"), "provider: [").unwrap();
    let page = bench.rawko(&["sessions", "export", "--format", "html"]).check(0, &[]).out;
    let diff = &embedded(&page)["diffs"]["1"];
    assert!(diff["problem"].as_str().unwrap().contains("left out"), "{diff}");
    assert_eq!(diff["patch"]["text"], "");
}

#[test]
fn a_list_shows_each_session() {
    let bench = Bench::new(&short());
    bench.rawko(&["sessions", "list"]).check(0, &["no sessions yet"]);
    bench.rawko(&["run", "--quiet", "Do it."]).check(0, &[]);
    bench.rawko(&["sessions", "list"]).check(0, &["ITERATIONS", "claimed", " 1 ", "Do it."]);
    let listed: Value =
        serde_json::from_str(&bench.rawko(&["sessions", "list", "--json"]).check(0, &[]).out).unwrap();
    assert_eq!((&listed[0]["status"], &listed[0]["iterations"]), (&json!("ended"), &json!(1)));
    bench
        .rawko(&["sessions", "export", "nothing-like-it"])
        .check(2, &["no session `nothing-like-it`", "sessions list"]);
}
