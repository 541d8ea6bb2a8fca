//! Conversations that come to the end of a model's context window, against a server that has one and insists on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rawko_core::Usage;
use rawko_core::message::StopReason;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, Say, Who, Wire};

use crate::answers::{complete, report, select};
use crate::trial::{Ended, Trial};

/// The window of the models here, in tokens.
const WINDOW: usize = 24_000;
/// Turns before the agent reports.
const TURNS: usize = 16;
/// The size of each file it reads.
const FILE_BYTES: usize = 7_000;

/// Whether this asks for a summary.
fn is_summary(asked: &Asked) -> bool {
    asked.system().starts_with("You sum up")
}

/// As the server counts.
fn tokens(asked: &Asked) -> usize {
    asked.body.len() / 4
}

/// Most tokens of the answer that was asked for.
fn answer_tokens(asked: &Asked) -> usize {
    let limit = asked.json.get("max_tokens").or_else(|| asked.json.get("max_completion_tokens"));
    limit.and_then(Value::as_u64).map_or(0, |limit| limit as usize)
}

/// An agent that reads one file after the other, with many words between them or none.
fn reader(words: &str) -> impl FnMut(&Asked) -> Answer + Send + use<> {
    let words = words.to_owned();
    let mut turn = 0;
    move |asked| {
        let usage = Usage { input_tokens: tokens(asked) as u64, output_tokens: 50, ..Usage::default() };
        let say = match asked.who() {
            Who::Select => return select("reader"),
            Who::Evaluate => return complete("all read"),
            Who::Agent if is_summary(asked) => {
                Say { text: "The files read so far hold nothing but lines.".into(), ..Say::default() }
            }
            Who::Agent if turn == TURNS => return report("read them all"),
            Who::Agent => {
                turn += 1;
                let path = format!("file{turn}.txt");
                let say = Say { text: words.clone(), ..Say::default() };
                say.with_call("Read", &json!({"file_path": path}))
            }
        };
        Say { usage, ..say }.into()
    }
}

/// The same server with a window: what does not fit is refused as the real ones do.
fn insisting(
    mut behaviour: impl FnMut(&Asked) -> Answer + Send + 'static,
) -> impl FnMut(&Asked) -> Answer + Send + 'static {
    move |asked| {
        if tokens(asked) + answer_tokens(asked) > WINDOW {
            return Answer::context_too_long();
        }
        behaviour(asked)
    }
}

fn trial(server: ModelServer, wire: Wire) -> Trial {
    trial_with(server, wire, "mystery")
}

fn trial_with(server: ModelServer, wire: Wire, model: &str) -> Trial {
    let agent = json!({"name": "reader", "systemPrompt": "Read.", "tools": {"allowed": ["Read"]},
        "limits": {"maxIterations": 40, "maxTokens": 2_000}});
    let trial = Trial::new(server).wire(wire).args(&["--model", model]).agent(&agent);
    (1..=TURNS).fold(trial, |trial, file| {
        let line = format!("This is a line of file {file}, and there are many more like it.\n");
        trial.file(&format!("file{file}.txt"), &line.repeat(FILE_BYTES / line.len()))
    })
}

fn with_window(trial: Trial, wire: Wire) -> Trial {
    let name = if wire == Wire::Claude { "claude" } else { "openai" };
    trial.user_config(&format!("/provider/{name}/contextWindow"), json!(WINDOW))
}

/// What the run reported of its conversations.
#[track_caller]
fn compactions(ended: &Ended) -> Vec<String> {
    let events = ended.events_of("conversation_compacted");
    for event in &events {
        assert_eq!(event["agent"], "reader");
        assert!(event["after"].as_u64() < event["before"].as_u64(), "{event}");
    }
    events.iter().map(|event| event["how"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn old_results_are_cut_before_the_window_is_full() {
    for wire in [Wire::Claude, Wire::OpenAi] {
        let ended =
            with_window(trial(ModelServer::start(insisting(reader(""))), wire), wire).run("Read all.");
        ended.exits(0);
        assert_eq!(ended.events_of("error"), Vec::<Value>::new(), "nothing was refused");
        let compacted = compactions(&ended);
        assert!(!compacted.is_empty() && compacted.len() < TURNS / 3, "{compacted:?}");
        assert!(compacted.iter().all(|how| how == "results_cut"), "{compacted:?}");
        let last = ended.trial.server.asked().into_iter().rfind(|asked| asked.who() == Who::Agent).unwrap();
        let text = last.json["messages"].to_string();
        assert!(text.contains("Read all.") && text.contains("bytes of this result were cut"), "{text}");
        assert_eq!(ended.trial.rawko(&["replay", "last"]).0, Some(0));
    }
}

#[test]
fn the_middle_is_summed_up_where_cutting_is_not_enough() {
    let words = "I have thought about this for a long while. ".repeat(120);
    for wire in [Wire::Claude, Wire::OpenAi] {
        let server = ModelServer::start(insisting(reader(&words)));
        let ended = with_window(trial(server, wire), wire).run("Read all.");
        ended.exits(0);
        assert_eq!(ended.events_of("error"), Vec::<Value>::new(), "nothing was refused");
        let compacted = compactions(&ended);
        assert!(compacted.iter().any(|how| how == "summarized"), "{compacted:?}");
        let asked = ended.trial.server.asked();
        let summaries = asked.iter().filter(|asked| is_summary(asked)).count();
        assert_eq!(summaries, compacted.iter().filter(|how| *how == "summarized").count());
        let used = ended.events_of("tokens_used");
        let by_summary = used.iter().filter(|event| event["agent"] == "reader (summary)").count();
        assert_eq!(by_summary, summaries, "{used:?}");
        let last = asked.into_iter().rfind(|asked| asked.who() == Who::Agent).unwrap();
        let text = last.json["messages"].to_string();
        assert!(text.contains("Read all.") && text.contains("hold nothing but lines"), "{text}");
    }
}

/// The server signs what the model thinks, and accepts it again only after exactly the conversation that preceded it.
#[test]
fn a_conversation_with_bound_thinking_is_made_shorter_and_goes_on() {
    let long = "I have thought about this for a long while. ".repeat(120);
    for (words, how) in [("", "results_cut"), (long.as_str(), "summarized")] {
        let mut behaviour = insisting(reader(words));
        let server = ModelServer::start(move |asked: &Asked| match (asked.who(), behaviour(asked)) {
            (Who::Agent, Answer::Say(say)) if !is_summary(asked) => {
                Say { thinking: "Hm.".into(), ..*say }.into()
            }
            (_, answer) => answer,
        });
        let trial = trial_with(server, Wire::Claude, "claude-sonnet-5-5");
        let ended = with_window(trial, Wire::Claude).run("Read all.");
        ended.exits(0);
        assert!(compactions(&ended).iter().any(|one| one == how), "{:?}", compactions(&ended));
        assert_eq!(ended.events_of("warned"), Vec::<Value>::new(), "nothing was refused");
        let bodies = ended.trial.server.asked().into_iter().map(|asked| asked.json["messages"].to_string());
        let is_shorter =
            |body: &String| body.contains("were cut to save") || body.contains("nothing but lines");
        let kept = bodies.filter(is_shorter).filter(|body| body.contains("\"signature\"")).count();
        assert!(kept > 0, "what is thought after it is kept");
        assert_eq!(ended.trial.rawko(&["replay", "last"]).0, Some(0));
    }
}

/// The model's window is not known: the first refusal is the sign.
#[test]
fn a_refusal_is_answered_by_a_shorter_conversation() {
    for wire in [Wire::Claude, Wire::OpenAi] {
        let ended = trial(ModelServer::start(insisting(reader(""))), wire).run("Read all.");
        ended.exits(0);
        let asked = ended.trial.server.asked();
        let refused = asked.iter().filter(|asked| tokens(asked) + answer_tokens(asked) > WINDOW).count();
        assert_eq!(refused, 1, "it is learned from");
        assert!(!compactions(&ended).is_empty());
    }
}

#[test]
fn a_model_that_says_so_itself_gets_a_shorter_conversation_too() {
    let mut behaviour = reader("");
    let mut full = false;
    let server = ModelServer::start(move |asked: &Asked| {
        let is_turn = asked.who() == Who::Agent && !is_summary(asked);
        if is_turn && tokens(asked) > 15_000 && !std::mem::replace(&mut full, true) {
            let stop = Some(StopReason::ContextWindow);
            return Say { text: "I was about to".into(), stop, ..Say::default() }.into();
        }
        behaviour(asked)
    });
    let ended = trial(server, Wire::Claude).run("Read all.");
    ended.exits(0);
    assert!(!compactions(&ended).is_empty());
}

#[test]
fn what_is_refused_again_fails_honestly() {
    for wire in [Wire::Claude, Wire::OpenAi] {
        let mut behaviour = reader("");
        let server = ModelServer::start(move |asked: &Asked| match asked.who() {
            Who::Agent if !is_summary(asked) && asked.messages().len() > 8 => Answer::context_too_long(),
            _ => behaviour(asked),
        });
        let ended = trial(server, wire).run("Read all.");
        ended.exits(4);
        assert_eq!(ended.finish()["error"]["code"], "context_length_exceeded");
        assert!(compactions(&ended).len() == 1, "it was tried once");
        assert_eq!(ended.trial.rawko(&["replay", "last"]).0, Some(0));
    }
}

/// The server holds its answer to one request back, the process is killed there, and another one goes on.
#[track_caller]
fn check_killed(holds: impl Fn(&Asked) -> bool + Send + 'static) {
    let words = "I have thought about this for a long while. ".repeat(120);
    let mut behaviour = insisting(reader(&words));
    let held = Arc::new(AtomicUsize::new(0));
    let holding = Arc::clone(&held);
    let server = ModelServer::start(move |asked: &Asked| {
        if holds(asked) && holding.fetch_add(1, Ordering::SeqCst) == 0 {
            return Answer::Silence;
        }
        behaviour(asked)
    });
    let running = with_window(trial(server, Wire::Claude), Wire::Claude).start("Read all.");
    running.wait_until("the request that is held", || held.load(Ordering::SeqCst) > 0);
    running.signal(Signal::KILL);
    let killed = running.end_unchecked();
    let (code, stdout, stderr) = killed.trial.resume();
    assert_eq!(code, Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("all read"), "{stdout}");
    let bodies: Vec<Vec<u8>> = killed.trial.server.asked().into_iter().map(|asked| asked.body).collect();
    let at = bodies.windows(2).position(|pair| pair[0] == pair[1]);
    assert!(at.is_some(), "the question that was lost is put again, byte for byte");
    assert_eq!(killed.trial.rawko(&["replay", "last"]).0, Some(0));
}

#[test]
fn a_run_killed_while_it_is_summed_up_goes_on() {
    check_killed(is_summary);
}

#[test]
fn a_run_killed_after_a_summary_goes_on() {
    check_killed(|asked| {
        asked.who() == Who::Agent && asked.json["messages"].to_string().contains("hold nothing but lines")
    });
}
