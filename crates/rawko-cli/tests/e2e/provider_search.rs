//! The search of the web that the provider runs itself: who is offered it, what goes back, what is reported and paid.

use rawko_core::message::StopReason;
use rawko_core::usage::Usage;
use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, Say, Search, SearchPart, Who, Wire};

use crate::answers::{complete, decide, report, select};
use crate::trial::{Ended, Trial};

fn search(id: &str, part: SearchPart) -> Search {
    let found = vec![
        ("Select in tokio".to_owned(), "https://docs.rs/tokio".to_owned()),
        ("Second".to_owned(), "http://b.example/x".to_owned()),
    ];
    Search { id: id.into(), query: "tokio select".into(), found, error: None, part }
}

fn searching(searches: Vec<Search>, text: &str) -> Say {
    let web_searches = searches.iter().filter(|search| search.part != SearchPart::Call).count() as u64;
    Say { searches, text: text.into(), usage: Usage { web_searches, ..Usage::default() }, ..Say::default() }
}

fn look() -> Value {
    json!({"pattern": "*"})
}

/// A run of the developer with these turns, over `wire`, at a gateway that is said to search or not.
fn trial(wire: Wire, turns: Vec<Answer>) -> Trial {
    let (provider, model) = match wire {
        Wire::Claude => ("claude", "claude-sonnet-5-5"),
        Wire::Responses => ("responses", "gpt-6-sol"),
        Wire::OpenAi => ("openai", "gpt-6-sol"),
    };
    let begin = [select("developer")];
    let end = [report("did it"), complete("all done")];
    Trial::new(ModelServer::sequence(begin.into_iter().chain(turns).chain(end)))
        .wire(wire)
        .user_config(&format!("/provider/{provider}/model"), json!(model))
        .user_config(&format!("/provider/{provider}/webSearch"), json!(true))
}

fn agents(ended: &Ended) -> Vec<Asked> {
    ended.trial.server.asked().into_iter().filter(|asked| asked.who() == Who::Agent).collect()
}

/// The tools of the service itself in a request.
fn of_service(asked: &Asked) -> Vec<Value> {
    let tools = asked.json["tools"].as_array().cloned().unwrap_or_default();
    tools
        .into_iter()
        .filter(|tool| tool["type"].as_str().is_some_and(|kind| kind.contains("search")))
        .collect()
}

#[test]
fn what_claude_finds_goes_back_as_it_came_and_a_paused_turn_goes_on() {
    let first = searching(vec![search("srvtoolu_1", SearchPart::Whole)], "Select waits on branches.");
    let paused =
        Say { stop: Some(StopReason::Paused), ..searching(vec![search("srvtoolu_2", SearchPart::Call)], "") };
    let rest = searching(vec![search("srvtoolu_2", SearchPart::Result)], "Now I know.");
    let turns =
        vec![first.with_call("Glob", &look()).into(), paused.into(), rest.with_call("Glob", &look()).into()];
    let ended = trial(Wire::Claude, turns)
        .user_config("/web/search/provider/blockedDomains", json!(["spam.example"]))
        .run("Find it.");
    ended.exits(0);
    let asked = agents(&ended);
    let tool = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 5,
        "blocked_domains": ["spam.example"]});
    assert!(asked.iter().all(|asked| of_service(asked) == [tool.clone()]), "offered in every request");
    // The service refuses a conversation without what it encrypted, or with a call that has no result.
    let messages = asked[3].json["messages"].as_array().unwrap();
    let kinds = |message: &Value| -> Vec<String> {
        let blocks = message["content"].as_array().unwrap().iter();
        blocks.map(|block| block["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&messages[1]), ["server_tool_use", "web_search_tool_result", "text", "tool_use"]);
    assert_eq!(messages[1]["content"][0]["input"], json!({"query": "tokio select"}));
    assert_eq!(messages[1]["content"][2]["citations"][0]["url"], "https://docs.rs/tokio");
    assert_eq!(kinds(&messages[3]), ["server_tool_use"]);
    assert_eq!(kinds(&messages[4]), ["web_search_tool_result", "text", "tool_use"], "the turn goes on");
    let found = "1. Select in tokio\n   https://docs.rs/tokio\n2. Second\n   http://b.example/x\n".to_owned();
    assert_eq!(ended.results("WebSearch"), [(found.clone(), false), (found, false)]);
    let called = ended.events_of("tool_called");
    let called = called.iter().find(|called| called["call"]["name"] == "WebSearch").expect("a call");
    assert_eq!(
        (&called["rule"], &called["call"]["input"]["query"]),
        (&json!("run by the provider"), &json!("tokio select"))
    );
    let used = ended.events_of("tokens_used").pop().unwrap();
    assert_eq!(used["total"]["webSearches"], 2);
    assert!(used["costUsd"].as_f64().unwrap() >= 0.02, "{used}");
    assert_eq!(ended.trial.rawko(&["replay", "last"]).0, Some(0));
    let decisions = ended.trial.server.asked().into_iter().filter(|asked| asked.who() != Who::Agent);
    assert!(decisions.into_iter().all(|asked| of_service(&asked).is_empty()), "decisions do not search");
}

#[test]
fn the_responses_wire_searches_too() {
    let say = searching(vec![search("ws_1", SearchPart::Whole)], "Select waits on branches.");
    let failed =
        Search { error: Some("unavailable".into()), found: Vec::new(), ..search("ws_2", SearchPart::Whole) };
    let turns = vec![
        say.with_call("Glob", &look()).into(),
        searching(vec![failed], "").with_call("Glob", &look()).into(),
    ];
    let ended = trial(Wire::Responses, turns)
        .user_config("/web/search/provider/allowedDomains", json!(["docs.rs"]))
        .run("Find it.");
    ended.exits(0);
    let asked = agents(&ended);
    let tool = json!({"type": "web_search", "filters": {"allowed_domains": ["docs.rs"]}});
    assert_eq!(of_service(&asked[0]), [tool]);
    assert_eq!(asked[0].json["include"][1], "web_search_call.action.sources");
    let input = asked[1].json["input"].as_array().unwrap();
    let item = input.iter().find(|item| item["type"] == "web_search_call").expect("it goes back");
    assert_eq!((&item["id"], &item["status"]), (&json!("ws_1"), &json!("completed")));
    let said = input.iter().find(|item| item["role"] == "assistant").expect("the text");
    assert_eq!(said["content"][0]["annotations"][0]["url"], "https://docs.rs/tokio");
    let results = ended.results("WebSearch");
    assert_eq!(results[0], ("1. https://docs.rs/tokio\n2. http://b.example/x\n".to_owned(), false));
    assert_eq!(results[1], ("The search failed.".to_owned(), true));
    assert_eq!(ended.events_of("tokens_used").pop().unwrap()["total"]["webSearches"], 2);
    assert_eq!(ended.trial.rawko(&["replay", "last"]).0, Some(0));
}

#[test]
fn a_search_that_fails_is_reported_and_the_run_goes_on() {
    let failed = Search {
        error: Some("max_uses_exceeded".into()),
        found: Vec::new(),
        ..search("srvtoolu_1", SearchPart::Whole)
    };
    let say = searching(vec![failed], "I know enough.").with_call("Glob", &look());
    let ended = trial(Wire::Claude, vec![say.into()]).run("Find it.");
    ended.exits(0);
    assert_eq!(ended.results("WebSearch"), [("The search failed: max_uses_exceeded".to_owned(), true)]);
}

#[track_caller]
fn is_not_offered(trial: Trial) -> Ended {
    let ended = trial.run("Find it.");
    ended.exits(0);
    assert!(ended.trial.server.asked().iter().all(|asked| of_service(asked).is_empty()));
    ended
}

#[test]
fn it_is_offered_only_where_it_is_known_and_allowed() {
    let claude = || trial(Wire::Claude, Vec::new());
    // A gateway is not known to search.
    is_not_offered(claude().user_config("/provider/claude/webSearch", Value::Null));
    is_not_offered(claude().user_config("/web/search/provider/enabled", json!(false)));
    is_not_offered(trial(Wire::OpenAi, Vec::new()));
    let developer =
        json!({"name": "developer", "systemPrompt": "Work.", "tools": {"blocked": ["WebSearch"]}});
    is_not_offered(claude().agent(&developer).args(&["--yes"]));
    // A service of one's own wins.
    let ended = is_not_offered(claude().user_config("/web/search/searxng", json!("http://127.0.0.1:9")));
    assert!(agents(&ended)[0].tool_names().contains(&"WebSearch"));
}

#[test]
fn a_service_that_has_it_switched_off_is_asked_without_it() {
    let mut answers = vec![select("developer"), report("did it"), complete("all done")].into_iter();
    let server = ModelServer::start(move |asked| {
        if of_service(asked).is_empty() {
            return answers.next().unwrap_or_else(|| Answer::refuse(400, "invalid_request_error", "over"));
        }
        Answer::refuse(400, "invalid_request_error", "Web search is not enabled for this organization.")
    });
    let ended = trial(Wire::Claude, Vec::new()).served_by(server).run("Find it.");
    ended.exits(0);
    assert_eq!(agents(&ended).iter().filter(|asked| !of_service(asked).is_empty()).count(), 1);
}

/// The service refuses a call without a result once a user's message follows it.
#[test]
fn a_turn_that_was_paused_at_the_agents_last_turn_can_be_continued() {
    let paused = Say {
        stop: Some(StopReason::Paused),
        ..searching(vec![search("srvtoolu_1", SearchPart::Whole), search("srvtoolu_2", SearchPart::Call)], "")
    };
    let helper = json!({"name": "helper", "systemPrompt": "Help.", "limits": {"maxIterations": 1}});
    let server = ModelServer::sequence([
        select("helper"),
        paused.into(),
        decide(json!({"decision": "CONTINUE", "reason": "it is not done"})),
        report("did it"),
        complete("all done"),
    ]);
    let ended =
        trial(Wire::Claude, Vec::new()).served_by(server).agent(&helper).args(&["--yes"]).run("Find it.");
    ended.exits(0);
    let last = agents(&ended).pop().unwrap();
    let messages = last.json["messages"].as_array().unwrap();
    assert_eq!(messages[1]["content"].as_array().unwrap().len(), 2, "what was found stays");
    assert_eq!(messages[2]["role"], "user");
}

#[test]
fn a_project_that_has_a_gateway_search_or_more_searches_needs_trust() {
    for (config, words) in [
        (
            json!({"provider": {"claude": {"webSearch": true}}}),
            "`provider.claude.webSearch` would be switched on",
        ),
        (
            json!({"web": {"search": {"provider": {"maxUses": 50}}}}),
            "`web.search.provider.maxUses` would be raised",
        ),
        (
            json!({"web": {"search": {"provider": {"allowedDomains": ["a.example"]}}}}),
            "web searches would give only results of a.example",
        ),
        (json!({"provider": {"claude": {"thinking": {"effort": "max"}}}}), "would have models think harder"),
    ] {
        let trial = Trial::new(ModelServer::sequence([])).config(&config);
        let (code, _, stderr) = trial.ask(&["run", "Find it."]);
        assert_ne!(code, Some(0));
        assert!(stderr.contains(words), "{stderr}");
        assert_eq!(trial.server.asked().len(), 0);
    }
}
