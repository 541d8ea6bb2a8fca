//! Models of the real services by their names: no request that they would refuse, and no warning.

use serde_json::{Value, json};
use testkit::{Asked, ModelServer, Say, Who, Wire};

use crate::answers::{call, complete, report, select};
use crate::trial::{Ended, Trial};

/// A run in which everybody is asked: the arbiter twice, an agent for two turns, the extractor once.
fn server() -> ModelServer {
    ModelServer::start(|asked: &Asked| match asked.who() {
        Who::Select => select("developer"),
        Who::Evaluate => complete("all done"),
        Who::Agent if asked.decision_tool() == Some("remember") => {
            call("remember", &json!({"learned": false}))
        }
        Who::Agent if asked.messages().len() == 1 => {
            let say = Say { thinking: "Hm.".into(), ..Say::default() };
            say.with_call("Read", &json!({"file_path": "a.txt"})).into()
        }
        Who::Agent => report("did it"),
    })
}

/// Runs with this model, or with the default one; gives what was asked.
#[track_caller]
fn check(model: Option<&str>) -> Vec<Asked> {
    let trial = Trial::new(server()).file("a.txt", "a\n").file(".rawko/memories/.keep", "");
    let trial = match model {
        Some(model) => trial.args(&["--model", model]),
        None => trial,
    };
    let ended = trial.run("Do it.");
    ended.exits(0);
    assert_eq!(ended.events_of("warned"), Vec::<Value>::new(), "{model:?}: nothing was refused");
    let decisions = ended.events_of("decision_made");
    assert!(decisions.iter().all(|decision| decision["source"] == "llm"), "{model:?}: {decisions:?}");
    let asked = ended.trial.server.asked();
    assert_eq!(asked.len(), 5, "{model:?}: nothing was asked twice");
    asked
}

#[test]
fn the_default_model_begins_without_a_refused_request_and_without_a_warning() {
    let asked = check(None);
    assert_eq!(asked[0].model(), "claude-sonnet-5-5");
    for question in asked.iter().filter(|asked| asked.decision_tool().is_some()) {
        assert_eq!(question.json["tool_choice"]["type"], "auto");
        assert_eq!(
            question.json["thinking"]["type"], "between_tools",
            "short questions are not thought about"
        );
        assert!(question.system().contains("Answer by calling `"), "the prompt asks for the call");
    }
    let agent = asked.iter().find(|asked| asked.decision_tool().is_none()).unwrap();
    assert_eq!(agent.json.get("thinking"), None, "the work is");
}

#[test]
fn no_known_model_refuses_a_request() {
    for model in [
        "claude-opus-5-5",
        "claude-fable-5-1",
        "claude-haiku-5-5",
        "claude-opus-5",
        "claude-sonnet-5",
        "claude-opus-4-8",
        "claude-haiku-4-5",
        "claude-opus-4-1-20250805",
    ] {
        check(Some(model));
    }
}

/// More tokens than the model can give are never asked for, whatever is configured.
#[test]
fn no_answer_is_asked_for_that_is_longer_than_the_model_can_give() {
    let agent = json!({"name": "developer", "systemPrompt": "Work.", "tools": {"allowed": ["Read"]},
        "limits": {"maxTokens": 200_000}});
    let trial = Trial::new(server()).agent(&agent).file("a.txt", "a\n");
    let trial = trial.user_config("/arbiter/maxTokens", json!(300_000)).args(&[
        "--model",
        "claude-haiku-4-5",
        "--yes",
    ]);
    let ended = trial.run("Do it.");
    ended.exits(0);
    let most = |asked: &Asked| asked.json["max_tokens"].as_u64().unwrap();
    assert_eq!(ended.trial.server.asked().iter().map(most).max(), Some(64_000));
}

/// The model that is asked for where `arguments` and `config` name one, and the one that the journal names.
#[track_caller]
fn check_alias(wire: Wire, config: (&str, Value), arguments: &[&str], expected: &str) {
    let trial =
        Trial::new(server()).wire(wire).file("a.txt", "a\n").user_config("/memory/extract", json!(false));
    let ended = trial.user_config(config.0, config.1).args(arguments).run("Do it.");
    ended.exits(0);
    for asked in ended.trial.server.asked() {
        assert_eq!(asked.model(), expected);
    }
    let (_, out, _) = ended.trial.rawko(&["usage", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let named = report["groups"][0]["model"].as_str().unwrap();
    assert!(named.ends_with(&format!("/{expected}")), "{report}");
    let has_price = expected.starts_with("claude-") || expected.contains("terra");
    assert_eq!(report["total"]["costUsd"].is_number(), has_price, "{report}");
}

#[test]
fn a_short_name_is_the_services_model_in_requests_prices_and_journal() {
    let retry = json!({"maxAttempts": 1});
    check_alias(
        Wire::Claude,
        ("/provider/claude/retry", retry.clone()),
        &["--model", "opus"],
        "claude-opus-5-5",
    );
    check_alias(Wire::Claude, ("/provider/claude/model", json!("haiku")), &[], "claude-haiku-5-5");
    check_alias(Wire::Claude, ("/provider/claude/model", json!("claude-haiku-4")), &[], "claude-haiku-4-5");
    check_alias(
        Wire::OpenAi,
        ("/provider/openai/retry", retry.clone()),
        &["--model", "gpt"],
        "gpt-5.6-terra",
    );
    check_alias(Wire::Responses, ("/provider/responses/retry", retry), &["--model", "gpt"], "gpt-5.6-terra");
    // A server with an address of its own may have a model of that name.
    let mine = |url: String| json!({"type": "openai", "baseUrl": url, "model": "gpt"});
    let trial = Trial::new(server()).file("a.txt", "a\n");
    let url = trial.server.openai_url();
    let ended = trial.user_config("/provider/mine", mine(url)).args(&["--provider", "mine"]).run("Do it.");
    ended.exits(0);
    assert_eq!(ended.trial.server.asked()[0].model(), "gpt");
}

#[test]
fn a_short_name_of_another_service_is_an_error() {
    let trial = Trial::new(ModelServer::sequence([]));
    // The service itself, not a gateway; it is not reached.
    let (code, _, err) = trial.rawko(&["--provider", "openai", "--model", "sonnet", "Do it."]);
    assert_eq!(code, Some(2), "{err}");
    for words in
        ["`openai` has no model `sonnet`", "claude and openrouter", "gpt (gpt-5.6-terra)", "providers models"]
    {
        assert!(err.contains(words), "{words} is missing in {err}");
    }
}

#[test]
fn the_list_of_models_has_the_short_names() {
    let trial = Trial::new(server());
    let (code, out, err) = trial.ask(&["providers", "models"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.contains("short names: claude-haiku-4 = claude-haiku-4-5, ")
            && out.contains(", haiku = claude-haiku-5-5, opus = claude-opus-5-5, sonnet = "),
        "{out}"
    );
    let (_, out, _) = trial.ask(&["providers", "models", "--json"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&list[0]["id"], &list[0]["aliases"]), (&json!("test-large"), &json!([])), "{list}");
}

/// The configurations of the project's founding documents. The one with Copilot asks a server on loopback in its place.
const FOUNDING: [&str; 2] = [
    include_str!("../../../rawko/src/config/tests/seeds/adr-0005-arbiter.yaml"),
    include_str!("../../../rawko/src/config/tests/seeds/adr-0005-two-providers.yaml"),
];

fn configured(config: &str, arguments: &[&str]) -> Ended {
    let trial = Trial::new(server()).file("a.txt", "a\n").file(".rawko/config.yaml", config);
    let copilot = json!({"type": "openai", "baseUrl": trial.server.openai_url(), "apiKeyEnv": null});
    let trial = if config.contains("copilot") { trial.env("RAWKO_PROVIDER", "copilot") } else { trial };
    trial.user_config("/provider/copilot", copilot).trusted().args(arguments).run("Do it.")
}

#[test]
fn configurations_of_the_founding_documents_run_with_their_budget_in_force() {
    for config in FOUNDING {
        // The default limit counts: the cost is known.
        let ended = configured(config, &[]);
        ended.exits(0);
        assert!(ended.finish()["costUsd"].as_f64().is_some_and(|cost| cost > 0.0), "{}", ended.stdout);
        let asked = ended.trial.server.asked();
        let arbiters: Vec<&Asked> = asked.iter().filter(|asked| asked.who() != Who::Agent).collect();
        assert_eq!(arbiters.len(), 2);
        assert!(arbiters.iter().all(|asked| asked.model() == "claude-haiku-4-5"), "a model that there is");
        if config.contains("temperature") {
            let settings = (&arbiters[0].json["temperature"], &arbiters[0].json["max_tokens"]);
            assert_eq!(settings, (&json!(0.3), &json!(1024)));
        }
        // A limit that is set counts too, and ends the run before the first call that it does not pay for.
        let ended = configured(config, &["--max-cost", "0.000001"]);
        ended.exits(3);
        assert_eq!(ended.finish()["status"], "limited");
        assert_eq!(ended.trial.server.asked().len(), 0);
    }
}

#[test]
fn an_unknown_model_has_no_price_and_the_error_names_it() {
    for name in ["claude-haiku-9", "gpt-4-huge"] {
        let config = FOUNDING[0].replace("claude-haiku-4 ", &format!("{name} "));
        let ended = configured(&config, &["--max-cost", "1"]);
        ended.exits(2);
        let says = format!("a cost limit is set, but the price of the model `{name}` is not known");
        assert!(ended.stderr.contains(&says), "{}", ended.stderr);
        assert_eq!(ended.trial.server.asked().len(), 0);
    }
}
