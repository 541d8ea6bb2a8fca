//! Whole runs against services with rules of their own. The server of these tests refuses what they refuse
//! (`testkit::service`).

use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Who, Wire};

use crate::answers::{always, call, calls, complete, developer, report, select};
use crate::trial::Trial;

/// A project with these pictures.
fn with_pictures(server: ModelServer, pictures: &[(&str, Vec<u8>)]) -> Trial {
    let trial = Trial::new(server);
    for (name, bytes) in pictures {
        std::fs::write(trial.project().join(name), bytes).unwrap();
    }
    trial
}

fn read(path: &str) -> Answer {
    call("Read", &json!({"file_path": path}))
}

#[test]
fn pictures_that_no_service_takes_do_not_end_the_run() {
    for wire in [Wire::Claude, Wire::OpenAi] {
        let server = developer([read("wide.png"), read("broken.png"), read("photo.png")]);
        let broken = b"\x89PNG\r\n\x1a\nrest".to_vec();
        let pictures = [
            ("wide.png", testkit::png(8_001, 8)),
            ("broken.png", broken),
            ("photo.png", testkit::jpeg(9, 9)),
        ];
        let ended = with_pictures(server, &pictures).wire(wire).run("Look at them.");
        ended.exits(0);
        let [(wide, false), (broken, true), (photo, false)] = &*ended.results("Read") else {
            panic!("{:?}", ended.results("Read"));
        };
        assert!(wide.contains("Shown as PNG of 2000x2 pixels"), "{wide}");
        assert!(broken.contains("`broken.png` begins like a PNG picture, but it is damaged"), "{broken}");
        assert!(photo.contains("image/jpeg") && photo.contains("Its name is wrong"), "{photo}");
        assert_eq!(ended.events_of("warned").iter().filter(|w| w.to_string().contains("again")).count(), 0);
    }
}

#[test]
fn a_picture_that_the_service_refuses_all_the_same_is_left_out_and_named() {
    for wire in [Wire::Claude, Wire::OpenAi] {
        let mut scripted = [
            select("developer"),
            calls(&[("Read", json!({"file_path": "fine.png"})), ("Read", json!({"file_path": "odd.png"}))]),
            read("fine.png"),
            report("seen"),
            complete("all done"),
        ]
        .into_iter();
        let odd = testkit::png(31, 7);
        let data = testkit::in_base64(&odd);
        let server = ModelServer::start(move |asked| {
            let words = "messages.2.content.1.tool_result.content.1.image.source.base64.data: Could not process image";
            if String::from_utf8_lossy(&asked.body).contains(&data) {
                return Answer::refuse(400, "invalid_request_error", words);
            }
            scripted
                .next()
                .unwrap_or_else(|| Answer::refuse(400, "invalid_request_error", "the script is over"))
        });
        let pictures = [("fine.png", testkit::png(5, 5)), ("odd.png", odd)];
        let ended = with_pictures(server, &pictures).wire(wire).run("Look at them.");
        ended.exits(0);
        let warnings: Vec<String> =
            ended.events_of("warned").iter().map(|w| w["message"].to_string()).collect();
        let retries: Vec<&String> = warnings.iter().filter(|w| w.contains("asking again without")).collect();
        assert_eq!(retries.len(), 1, "{warnings:?}");
        assert!(retries[0].contains("`odd.png` (Read "), "{retries:?}");
        assert_eq!(
            retries[0].contains("`fine.png`"),
            wire == Wire::OpenAi,
            "only one wire says which: {retries:?}"
        );
    }
}

#[test]
fn mistral_takes_a_whole_run_with_remarks_after_tool_results() {
    let agent = json!({"name": "looker", "systemPrompt": "Look.", "tools": {"allowed": ["Glob"]}, "limits": {"maxIterations": 3}});
    let glob = || call("Glob", &json!({"pattern": "*"}));
    let server =
        ModelServer::sequence([select("looker"), glob(), glob(), report("seen"), complete("all done")]);
    let ended = Trial::new(server)
        .wire(Wire::OpenAi)
        .agent(&agent)
        .args(&["--model", "mistral-large-latest"])
        .run("Look.");
    ended.exits(0);
    let asked = ended.trial.server.asked();
    let last = asked.iter().rfind(|asked| asked.who() == Who::Agent).unwrap();
    assert!(last.last_text().contains("last model turn"), "{}", last.last_text());
    assert!(ended.events_of("warned").iter().all(|w| !w.to_string().contains("invalid_request")));
}

/// The same answer from a server that does not count.
fn uncounted(answer: Answer) -> Answer {
    answer.delivered(Delivery { uncounted: true, ..Delivery::default() })
}

#[test]
fn a_server_that_does_not_count_is_counted_by_estimate_and_says_so() {
    let answers = || [select("developer"), report("did it"), complete("all done")].map(uncounted);
    let ended = Trial::new(ModelServer::sequence(answers())).wire(Wire::OpenAi).run("Do it.");
    let usage = &ended.exits(0).finish()["usage"];
    assert_eq!(usage["estimated"], true);
    let sent: usize = ended.trial.server.asked().iter().map(|asked| asked.body.len()).sum();
    let prompts = usage["inputTokens"].as_u64().unwrap();
    assert!(prompts.abs_diff(sent as u64 / 4) < 10, "{prompts} tokens for {sent} bytes");
    let (status, explained, _) = ended.trial.rawko(&["explain", "last", "1"]);
    assert_eq!(status, Some(0));
    assert!(explained.contains("1 model call, about "), "{explained}");

    let ended = Trial::new(ModelServer::sequence(answers())).wire(Wire::OpenAi).output("text").run("Do it.");
    assert!(ended.stdout.contains("not all were counted by a server"), "{}", ended.stdout);
    let counted = Trial::new(developer([])).output("text").run("Do it.");
    assert!(counted.stdout.contains("Tokens:"), "{}", counted.stdout);
}

#[test]
fn budgets_count_what_the_server_does_not() {
    let looks = uncounted(call("Glob", &json!({"pattern": "*"})));
    let server = always(uncounted(select("developer")), uncounted(complete("")), looks);
    let ended = Trial::new(server).wire(Wire::OpenAi).args(&["--max-tokens", "20000"]).run("Do it.");
    ended.exits(3);
    assert_eq!(ended.finish()["limit"], "tokens");
}
