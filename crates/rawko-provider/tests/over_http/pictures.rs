//! Pictures that services refuse, and that the test server refuses too (`testkit::service`).

use std::sync::Arc;

use rawko_core::error::ErrorCode;
use rawko_core::message::{Content, Image, Message, Role, ToolCall};
use serde_json::json;
use testkit::{Answer, ModelServer, Wire};

use super::trial::{ALL, ask, provider, request};

/// A call of `Read` and its result.
fn turn(path: &str, media_type: &str, bytes: &[u8]) -> [Arc<Message>; 2] {
    let id = format!("id_{}", path.replace('.', "_"));
    let image = Image { media_type: media_type.into(), data: testkit::in_base64(bytes) };
    let call = ToolCall {
        id: id.clone(),
        name: "Read".into(),
        input: json!({"file_path": path}),
        invalid_input: None,
        withheld: None,
    };
    let result = Content::ToolResult {
        tool_use_id: id,
        content: format!("`{path}`: {media_type}."),
        is_error: false,
        images: vec![image],
    };
    [
        Arc::new(Message { role: Role::Assistant, content: vec![Content::ToolUse(call)] }),
        Arc::new(Message { role: Role::User, content: vec![result] }),
    ]
}

fn conversation(turns: impl IntoIterator<Item = [Arc<Message>; 2]>) -> Vec<Arc<Message>> {
    let first = Arc::new(Message::user("Look at them."));
    std::iter::once(first).chain(turns.into_iter().flatten()).collect()
}

fn png(path: &str, width: u32) -> [Arc<Message>; 2] {
    turn(path, "image/png", &testkit::png(width, 1))
}

#[tokio::test]
async fn one_broken_picture_does_not_end_the_run() {
    for wire in ALL {
        let server = ModelServer::start(|_| Answer::text("fine"));
        let provider = provider(&server, wire);
        let mut session = provider.open();
        let good = conversation([png("good.png", 3)]);
        assert_eq!(ask(&mut *session, request(good.clone())).await.retries, []);

        let mut messages = good;
        messages.extend(turn("broken.png", "image/png", b"\x89PNG\r\n\x1a\nrest"));
        let trial = ask(&mut *session, request(messages.clone())).await;
        assert_eq!(trial.message().0.text(), "fine", "{wire:?}");
        let [(refused, after_ms)] = &*trial.retries else { panic!("{:?}", trial.retries) };
        assert_eq!((refused.code, *after_ms), (ErrorCode::InvalidRequest, 0));
        let shown = "asking again without `broken.png` (Read id_broken_png)";
        assert!(refused.message.contains(shown), "{}", refused.message);
        let asked = server.asked();
        let body = String::from_utf8_lossy(&asked[2].body);
        assert!(body.contains("A picture is left out here"), "{wire:?} {body}");
        assert!(body.contains(&testkit::in_base64(&testkit::png(3, 1))), "{wire:?} {body}");

        // It is left out from then on, also by other sessions, and requests keep their common beginning.
        messages.extend([Arc::new(trial.message().0.clone()), Arc::new(Message::user("Go on."))]);
        assert_eq!(ask(&mut *session, request(messages.clone())).await.retries, []);
        assert_eq!(ask(&mut *provider.open(), request(messages)).await.retries, []);
        let asked = server.asked();
        let before = asked[2].body.strip_suffix(b"]}").expect("the end of a request");
        assert!(asked[3].body.starts_with(before), "{wire:?}");
        assert_eq!(asked[4].body, asked[3].body, "{wire:?}");
    }
}

#[tokio::test]
async fn the_picture_that_a_refusal_names_is_left_out_and_no_other() {
    let server = ModelServer::start(|_| Answer::text("fine"));
    let messages = conversation([
        png("small.png", 3),
        png("wide.png", 8_001),
        turn("named.png", "image/png", &testkit::jpeg(2, 2)),
    ]);
    let trial = ask(&mut *provider(&server, Wire::Claude).open(), request(messages)).await;
    let words: Vec<&str> = trial.retries.iter().map(|(error, _)| error.message.as_str()).collect();
    assert_eq!(words.len(), 2, "{words:?}");
    assert!(words[0].contains("8000 pixels; asking again without `wide.png`"), "{words:?}");
    assert!(words[1].contains("to be a image/jpeg image; asking again without `named.png`"), "{words:?}");
    let last = &server.asked()[2];
    assert_eq!(String::from_utf8_lossy(&last.body).matches("\"type\":\"image\"").count(), 1);
}

#[tokio::test]
async fn more_pictures_than_a_request_may_hold_do_not_end_the_run() {
    for wire in ALL {
        let server = ModelServer::start(|_| Answer::text("fine"));
        let turns = (0..101).map(|n| png(&format!("{n}.png"), if n == 70 { 2_001 } else { 3 }));
        let trial = ask(&mut *provider(&server, wire).open(), request(conversation(turns))).await;
        assert_eq!((trial.message().0.text().as_str(), trial.retries.len()), ("fine", 0), "{wire:?}");
    }
}

#[tokio::test]
async fn a_model_that_takes_few_pictures_or_none_is_shown_as_many_as_it_takes() {
    for (words, expected) in [
        ("At most 2 image(s) may be provided in one request.", 2),
        ("No endpoints found that support image input", 0),
    ] {
        let server = ModelServer::start(move |asked| {
            let shown = String::from_utf8_lossy(&asked.body).matches("image_url\":{").count();
            if shown > expected { Answer::refuse(404, "", words) } else { Answer::text("fine") }
        });
        let provider = provider(&server, Wire::OpenAi);
        let messages = conversation((0..3).map(|n| png(&format!("{n}.png"), 3)));
        let trial = ask(&mut *provider.open(), request(messages.clone())).await;
        assert_eq!((trial.message().0.text().as_str(), trial.retries.len()), ("fine", 1), "{words}");
        let trial = ask(&mut *provider.open(), request(messages)).await;
        assert_eq!((trial.message().0.text().as_str(), trial.retries.len()), ("fine", 0), "{words}");
    }
}
