//! The first run of a user without a key: rawko says what it found on the machine and uses it; otherwise it names the
//! shortest ways to a model.

use serde_json::{Value, json};
use testkit::{Asked, ModelServer, Who};

use crate::answers::{complete, report, select};
use crate::trial::Trial;

/// The servers of this machine, in the order in which they are used.
const LOCAL: [&str; 4] = ["ollama", "llamacpp", "lmstudio", "vllm"];

/// Nothing listens there.
const NO_SERVER: &str = "http://127.0.0.1:1/v1";

fn server() -> ModelServer {
    ModelServer::start(|asked: &Asked| match asked.who() {
        Who::Select => select("developer"),
        Who::Evaluate => complete("all done"),
        Who::Agent => report("did it"),
    })
}

/// A user whose local servers are at these addresses, the others nowhere.
fn newcomer(addresses: &[(&str, String)]) -> Trial {
    let trial = Trial::new(ModelServer::sequence([]));
    let mut provider = json!({"retry": {"patience": 0}});
    for name in LOCAL {
        let url = addresses.iter().find(|(at, _)| *at == name).map_or(NO_SERVER, |(_, url)| url);
        provider[name] = json!({"baseUrl": url, "retry": {"maxAttempts": 1}});
    }
    write_user_config(&trial, &json!({ "provider": provider }));
    trial
}

fn write_user_config(trial: &Trial, config: &Value) {
    let folder = trial.outside().join("home/config/rawko");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), config.to_string()).unwrap();
}

fn no_request_had_a_key(server: &ModelServer) {
    for asked in server.asked() {
        for header in ["authorization", "x-api-key"] {
            assert_eq!(asked.header(header), None, "{}", asked.path);
        }
    }
}

#[test]
fn the_first_server_that_answers_is_used_after_it_was_said() {
    let (second, third) = (server(), server());
    let trial = newcomer(&[("lmstudio", third.openai_url()), ("llamacpp", second.openai_url())]);
    let (code, out, err) = trial.rawko(&["Do it."]);
    assert_eq!(code, Some(0), "{out}{err}");
    let url = second.openai_url();
    let said = format!(
        "using llamacpp ({url}) with the model test-large; \
         to choose another: --provider NAME --model MODEL"
    );
    assert_eq!(err.lines().filter(|line| line.starts_with("using ")).collect::<Vec<_>>(), [said]);
    assert!(!err.contains("no provider"), "one was found: {err}");
    assert_eq!(second.asked()[1].model(), "test-large");
    // Another server is asked for its models, and for nothing else.
    let paths: Vec<String> = third.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths, ["/v1/models"]);
    no_request_had_a_key(&second);
    no_request_had_a_key(&third);
    // The next task of the session finds it too.
    let (code, out, err) = trial.rawko(&["-c", "And", "more."]);
    assert_eq!(code, Some(0), "{out}{err}");
}

/// Each server in its turn: it is used where those before it are not there, and those after it are named with the command that
/// uses them.
#[test]
fn servers_are_used_in_their_order_and_the_others_are_named() {
    for (at, first) in LOCAL.iter().enumerate() {
        let servers: Vec<_> = LOCAL[at..].iter().map(|name| (*name, server())).collect();
        let addresses: Vec<_> = servers.iter().map(|(name, server)| (*name, server.openai_url())).collect();
        let (code, out, err) = newcomer(&addresses).rawko(&["Do it."]);
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(err.contains(&format!("using {first} ({})", addresses[0].1)), "{err}");
        let others: Vec<&str> = err.lines().filter(|line| line.contains("found too")).collect();
        let expected = addresses[1..].iter().map(|(name, url)| {
            format!(
                "  found too: {name}: a server with 2 models ({url}); next: rawko --provider {name} --model test-large \"…\""
            )
        });
        assert_eq!(others, expected.collect::<Vec<_>>());
    }
}

/// Many machines have such a token for other purposes.
#[test]
#[cfg(not(feature = "copilot"))]
fn a_token_for_copilot_does_not_stop_a_build_without_it() {
    let found = server();
    let trial = newcomer(&[("ollama", found.openai_url())]).env("GH_TOKEN", "ghp_of_nobody_7c1f93e2");
    let mut run = trial.unattended_command();
    let output = run.arg("Do it.").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains("using ollama"), "{err}");
    for words in
        ["GH_TOKEN is set, but this build of rawko has no Copilot in it", "with the feature `copilot`"]
    {
        assert!(err.contains(words), "{words} is missing in {err}");
    }
}

#[test]
fn a_key_in_the_environment_is_used_after_it_was_said() {
    let (keyed, local) = (server(), server());
    let trial = newcomer(&[("ollama", local.openai_url())]).env("OPENAI_API_KEY", "sk-of-nobody-7c1f93e2");
    let trial = trial.env("OPENAI_BASE_URL", keyed.openai_url());
    let line = "using openai (OPENAI_API_KEY) with the model gpt-5.6-terra; \
                to choose another: --provider NAME --model MODEL\n";
    for (arguments, is_said) in [(&["Do it."][..], true), (&["--quiet", "Do it."], false)] {
        let output = trial.unattended_command().args(arguments).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{err}");
        assert_eq!(err.matches(line).count(), usize::from(is_said), "{err}");
    }
    // A choice needs no word, and what has a key looks for nothing.
    let output = trial.unattended_command().args(["--provider", "openai", "Do it."]).output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("to choose another"));
    assert!(local.asked().is_empty());
}

#[test]
fn with_nothing_found_there_are_the_shortest_ways_to_a_model() {
    let trial = newcomer(&[]);
    let (code, out, err) = trial.rawko(&["Do it."]);
    assert_eq!(code, Some(4), "{out}{err}");
    for words in [
        "no provider is configured",
        "export ANTHROPIC_API_KEY=",
        "OPENROUTER_API_KEY",
        "ollama pull",
        "rawko demo",
    ] {
        assert!(err.contains(words), "{words} is missing in {err}");
    }
    assert!(!trial.project().join(".rawko").exists(), "nothing was begun");
}

#[test]
fn what_was_chosen_is_not_replaced_by_what_was_found() {
    let found = server();
    let trial = newcomer(&[("ollama", found.openai_url())]);
    let (code, _, err) = trial.rawko(&["--provider", "claude", "Do it."]);
    assert_eq!((code, err.contains("ANTHROPIC_API_KEY")), (Some(4), true), "{err}");
    assert!(found.asked().is_empty(), "no model was asked");
}

#[test]
fn the_models_of_what_was_found_are_listed() {
    let found = server();
    let trial = newcomer(&[("ollama", found.openai_url())]);
    let (code, out, err) = trial.rawko(&["providers", "models"]);
    assert!(code == Some(0) && out.contains("test-large"), "{out}{err}");
    let (_, out, _) = trial.rawko(&["providers", "list"]);
    assert!(out.contains("ollama *") && !out.contains("claude *"), "{out}");
    no_request_had_a_key(&found);
}

#[test]
fn slow_and_strange_servers_hold_nothing_up() {
    // One that accepts and says nothing, and one that is no model server.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other_url = format!("http://{}/v1", other.local_addr().unwrap());
    let page = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = other.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>");
    });
    let silent_url = format!("http://{}/v1", silent.local_addr().unwrap());
    let last = server();
    let trial = newcomer(&[("ollama", silent_url), ("llamacpp", other_url), ("lmstudio", last.openai_url())]);
    let (code, out, err) = trial.rawko(&["Do it."]);
    assert_eq!((code, err.contains("using lmstudio")), (Some(0), true), "{out}{err}");
    page.join().unwrap();
}

#[test]
fn the_doctor_shows_each_place_with_the_next_command() {
    let found = server();
    let trial = newcomer(&[("vllm", found.openai_url())]);
    let copilot = trial.outside().join("home/.copilot");
    std::fs::create_dir_all(&copilot).unwrap();
    std::fs::write(copilot.join("config.json"), r#"{"logged_in_users": [{"login": "me"}]}"#).unwrap();
    let (_, out, err) = trial.rawko(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let models = report["models"].as_array().unwrap();
    let place = |provider: &str| models.iter().find(|place| place["provider"] == provider).unwrap();
    assert_eq!(models.len(), 6, "{report}");
    assert_eq!((&models[0]["kind"], &models[0]["found"]), (&json!("key"), &Value::Null));
    assert!(place("copilot")["found"].as_str().unwrap().starts_with("somebody is logged in"), "{report}");
    assert_eq!(place("vllm")["next"], "rawko --provider vllm --model test-large \"…\"");
    assert_eq!(
        (&place("ollama")["isUsable"], &place("ollama")["next"]),
        (&json!(false), &json!("ollama serve"))
    );
    let provider =
        report["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == "provider");
    assert_eq!(provider.unwrap()["health"], "ok", "{report}");
    let (_, text, _) = trial.rawko(&["doctor"]);
    for words in ["MODELS", "not found", "a server with 2 models", "ollama serve"] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
}
