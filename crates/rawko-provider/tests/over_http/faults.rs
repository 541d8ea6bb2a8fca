//! Servers and networks that fail while they answer.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use rawko_core::error::ErrorCode;
use rawko_core::message::StopReason;
use rawko_core::retry::RetryPolicy;
use rawko_core::usage::Usage;
use rawko_provider::{ProviderEvent, ProviderSettings, Timeouts, connect};
use serde_json::json;
use testkit::{Answer, Chunking, Cut, Delivery, Framing, ModelServer, Say, Wire};

use super::trial::{ALL, LONG, ask, provider, question, settings, try_answers, try_with};

fn impatient(settings: ProviderSettings) -> ProviderSettings {
    ProviderSettings {
        retry: RetryPolicy::never(),
        timeouts: Timeouts { idle_ms: 80, ..settings.timeouts },
        ..settings
    }
}

fn once(settings: ProviderSettings) -> ProviderSettings {
    ProviderSettings { retry: RetryPolicy::never(), ..settings }
}

/// Events of a text answer before its first piece of text.
fn preamble(wire: Wire) -> usize {
    match wire {
        Wire::Claude => 2,
        Wire::OpenAi => 1,
        Wire::Responses => 4,
    }
}

/// Whether the client of the first request disconnects. Lets the runtime work meanwhile, because that closes connections.
async fn client_left(server: &ModelServer) -> bool {
    let end = Instant::now() + LONG;
    while !server.exchanges()[0].client_left {
        if Instant::now() > end {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    true
}

#[tokio::test]
async fn a_cut_after_the_first_word_is_an_error_and_is_not_tried_again() {
    for wire in ALL {
        for framing in [Framing::Chunked, Framing::UntilClose] {
            let cut = Some(Cut::Events(preamble(wire) + 2));
            let cut = Answer::text("a rather long text").delivered(Delivery {
                cut,
                framing,
                ..Delivery::default()
            });
            let (trial, server) = try_answers(wire, vec![cut, Answer::text("not this")]).await;
            assert_eq!(trial.error().code, ErrorCode::NetworkError, "{wire:?} {framing:?}");
            assert!(trial.error().message.contains("cut off"), "{}", trial.error().message);
            assert_eq!((trial.text.as_str(), server.exchanges().len()), ("a rather long ", 1));
        }
    }
}

#[tokio::test]
async fn wherever_it_is_cut_a_part_is_never_taken_for_the_whole() {
    for wire in ALL {
        let server = ModelServer::start(|asked| {
            let cut = Some(Cut::Bytes(asked.number));
            let delivery = Delivery { cut, framing: Framing::UntilClose, ..Delivery::default() };
            let say = Say { text: "naïve 日".into(), ..Say::default() };
            Answer::from(say.with_call("Write", &json!({"path": "ü"}))).delivered(delivery)
        });
        let provider = connect(once(settings(&server, wire)));
        let asked = || async { ask(&mut *provider.open(), question()).await };
        let mut cuts = 0;
        loop {
            let trials = join_all((0..64).map(|_| asked())).await;
            let mut whole = 0;
            for trial in &trials {
                match trial.end.as_ref().expect("an end") {
                    Ok((message, _, stop)) => {
                        let calls: Vec<_> = message.tool_calls().map(|call| call.input.clone()).collect();
                        let all = ("naïve 日".to_owned(), vec![json!({"path": "ü"})], StopReason::ToolUse);
                        assert_eq!((message.text(), calls, *stop), all, "{wire:?}");
                        whole += 1;
                    }
                    Err(error) => assert_eq!(error.code, ErrorCode::NetworkError, "{wire:?}: {error:?}"),
                }
            }
            cuts += trials.len() - whole;
            if whole == trials.len() {
                break;
            }
            assert!(cuts < 10_000, "never whole");
        }
        assert!(cuts > 300, "{wire:?} is cut {cuts} times: the answer is shorter than it says");
    }
}

#[tokio::test]
async fn a_cut_before_the_first_word_is_tried_again() {
    for wire in ALL {
        let cut = Some(Cut::Events(preamble(wire)));
        let cut = Answer::text("never said").delivered(Delivery { cut, ..Delivery::default() });
        let (trial, server) = try_answers(wire, vec![cut, Answer::HangUp, Answer::text("said")]).await;
        assert_eq!(trial.message().0.text(), "said");
        assert_eq!(trial.retry_codes(), [ErrorCode::NetworkError; 2], "{wire:?}");
        assert_eq!(server.exchanges().len(), 3);
    }
}

/// The usage that the server reports for the prompt.
const USED: Usage = Usage {
    input_tokens: 700,
    output_tokens: 50,
    cache_read_tokens: 200,
    cache_write_tokens: 100,
    web_searches: 0,
    estimated: false,
};

fn billed(text: &str, cut: Option<Cut>) -> Answer {
    let say = Say { text: text.to_owned(), usage: USED, ..Say::default() };
    Answer::from(say).delivered(Delivery { cut, ..Delivery::default() })
}

#[tokio::test]
async fn an_answer_that_was_cut_off_says_what_it_consumed() {
    for (wire, prompt) in [
        (Wire::Claude, Usage { output_tokens: 0, ..USED }),
        (Wire::OpenAi, Usage::default()),
        (Wire::Responses, Usage::default()),
    ] {
        let cut = billed("a rather long text", Some(Cut::Events(preamble(wire) + 2)));
        let (trial, _server) = try_answers(wire, vec![cut]).await;
        assert_eq!(trial.text, "a rather long ");
        // Fourteen bytes were received, at four a token, rounded up.
        assert_eq!(trial.wasted, Some(Usage { output_tokens: 4, estimated: true, ..prompt }), "{wire:?}");
    }
}

#[tokio::test]
async fn attempts_that_were_cut_before_the_first_word_are_paid_for_too() {
    let cut = || billed("never said", Some(Cut::Events(preamble(Wire::Claude))));
    let (trial, _server) = try_answers(Wire::Claude, vec![cut(), billed("said", None)]).await;
    let twice = Usage {
        output_tokens: 51,
        input_tokens: 1_400,
        cache_read_tokens: 400,
        cache_write_tokens: 200,
        web_searches: 0,
        estimated: false,
    };
    assert_eq!(trial.message().1, twice);
    let (trial, _server) = try_with(Wire::Claude, vec![cut()], question(), once).await;
    assert_eq!(trial.wasted, Some(Usage { output_tokens: 1, ..USED }));
}

#[tokio::test]
async fn an_answer_that_never_began_consumed_nothing() {
    for wire in ALL {
        for answer in [
            Answer::HangUp,
            Answer::refuse(401, "authentication_error", "no"),
            Answer::refuse(529, "overloaded_error", "later"),
        ] {
            let (trial, _server) = try_with(wire, vec![answer], question(), once).await;
            assert_eq!((trial.error().provider.as_deref(), trial.wasted), (Some("test"), None), "{wire:?}");
        }
    }
}

#[tokio::test]
async fn a_closed_port_is_a_network_error_that_names_the_host() {
    for wire in ALL {
        let server = ModelServer::sequence([]);
        let address = server.address();
        let provider = provider(&server, wire);
        drop(server);
        let trial = ask(&mut *provider.open(), question()).await;
        assert_eq!(trial.error().code, ErrorCode::NetworkError);
        assert_eq!(trial.retries.len(), 2);
        let message = &trial.error().message;
        assert!(message.contains(&address.to_string()) && message.contains("refused"), "{message}");
        assert!(message.contains("3 attempts"), "{message}");
    }
}

#[tokio::test]
async fn silence_before_the_answer_and_within_it_ends_in_a_timeout() {
    for wire in ALL {
        let (trial, _server) = try_with(wire, vec![Answer::Silence], question(), impatient).await;
        assert_eq!(trial.error().code, ErrorCode::Timeout, "{wire:?}");
        assert!(trial.error().message.contains("sent nothing for 80 ms"), "{}", trial.error().message);

        let cut = Some(Cut::Events(preamble(wire) + 1));
        let stall = Delivery { cut, stall: true, ..Delivery::default() };
        let answers = vec![Answer::text("a longer text").delivered(stall)];
        let (trial, _server) = try_with(wire, answers, question(), impatient).await;
        assert_eq!(trial.error().code, ErrorCode::Timeout, "{wire:?}");
        assert_eq!(trial.text, "a longe");
    }
}

#[tokio::test]
async fn a_slow_answer_is_no_silent_one() {
    for wire in ALL {
        let slow = Delivery { pause: Duration::from_millis(15), ..Delivery::default() };
        let answers = vec![Answer::text("word ".repeat(20)).delivered(slow)];
        let patient = |settings: ProviderSettings| {
            let timeouts = Timeouts { idle_ms: 250, ..settings.timeouts };
            ProviderSettings { timeouts, ..once(settings) }
        };
        let begun = Instant::now();
        let (trial, _server) = try_with(wire, answers, question(), patient).await;
        assert_eq!(trial.message().0.text(), "word ".repeat(20));
        assert!(
            begun.elapsed() > Duration::from_millis(200),
            "the test did not outlast the limit it is about"
        );
    }
}

#[tokio::test]
async fn an_endless_answer_ends_with_the_total_time() {
    for wire in ALL {
        let endless = Answer::text("on").delivered(Delivery { endless: true, ..Delivery::default() });
        let short = |settings: ProviderSettings| {
            let timeouts = Timeouts { total_ms: 150, ..settings.timeouts };
            ProviderSettings { timeouts, ..settings }
        };
        let (trial, server) = try_with(wire, vec![endless], question(), short).await;
        assert_eq!(trial.error().code, ErrorCode::Timeout, "{wire:?}");
        assert!(trial.error().message.contains("within 150 ms"), "{}", trial.error().message);
        assert!(trial.text.contains("and so on and so on"), "{}", trial.text);
        assert!(client_left(&server).await, "the connection is still open");
    }
}

#[tokio::test]
async fn a_dropped_stream_closes_the_connection() {
    for wire in ALL {
        let answers = [
            Answer::text("on").delivered(Delivery { endless: true, ..Delivery::default() }),
            Answer::text("next"),
        ];
        let server = ModelServer::sequence(answers);
        let provider = provider(&server, wire);
        let mut session = provider.open();
        let mut stream = session.send(question());
        let first = stream.next().await;
        assert_eq!(first, Some(ProviderEvent::TextDelta("on".into())), "{wire:?}");
        drop(stream);
        assert!(client_left(&server).await, "the connection is still open");
        let trial = ask(&mut *session, question()).await;
        assert_eq!(trial.message().0.text(), "next", "the session is of use after that");
    }
}

#[tokio::test]
async fn events_that_are_no_json_are_not_skipped() {
    for wire in ALL {
        let noise = vec!["data: {\"broken\n\n".to_owned()];
        let broken = Answer::text("hello there").delivered(Delivery { noise, ..Delivery::default() });
        let (trial, server) = try_answers(wire, vec![broken, Answer::text("whole")]).await;
        assert_eq!(trial.message().0.text(), "whole");
        assert!(trial.retries[0].0.message.contains("not JSON"), "{:?}", trial.retries);
        assert_eq!(server.exchanges().len(), 2, "{wire:?}");
    }
}

#[tokio::test]
async fn errors_inside_a_stream_differ_from_cuts() {
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let quota = "data: {\"error\":{\"code\":502,\"message\":\"upstream fell over\"}}\n\n";
    let failed = "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"Sorry.\",\"param\":null}\n\n";
    for (wire, event, message) in [
        (Wire::Claude, overloaded, "Overloaded"),
        (Wire::OpenAi, quota, "upstream fell over"),
        (Wire::Responses, quota, "upstream fell over"),
        (Wire::Responses, failed, "Sorry."),
    ] {
        let noise = vec![event.to_owned()];
        let early = Answer::text("never").delivered(Delivery { noise, ..Delivery::default() });
        let (trial, _server) = try_answers(wire, vec![early, Answer::text("later")]).await;
        assert_eq!(trial.message().0.text(), "later");
        assert_eq!(trial.retry_codes(), [ErrorCode::Overloaded], "{wire:?}");
        assert_eq!(trial.retries[0].0.message, message);
    }
}

#[tokio::test]
async fn a_web_page_is_no_answer() {
    for wire in ALL {
        let page = "<!doctype html><html><head><title>Welcome to the portal</title></head></html>";
        let response = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}",
            page.len()
        );
        let (trial, _server) = try_answers(wire, vec![Answer::Raw(response.into_bytes())]).await;
        assert_eq!(trial.error().code, ErrorCode::ConfigError, "{wire:?}");
        assert!(trial.error().message.contains("“Welcome to the portal”"), "{}", trial.error().message);
    }
}

#[tokio::test]
async fn an_event_without_end_is_refused() {
    let mut response = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ".to_vec();
    response.resize(17 * 1024 * 1024, b'x');
    for wire in ALL {
        let (trial, server) = try_answers(wire, vec![Answer::Raw(response.clone())]).await;
        assert!(trial.error().message.contains("larger than"), "{:?}", trial.error());
        assert_eq!(server.exchanges().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_without_end_that_is_no_stream_is_refused() {
    let mut response = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"a\": \"".to_vec();
    response.resize(65 * 1024 * 1024, b'x');
    for wire in ALL {
        let (trial, server) = try_answers(wire, vec![Answer::Raw(response.clone())]).await;
        assert!(trial.error().message.contains("larger than"), "{:?}", trial.error());
        assert_eq!(server.exchanges().len(), 1);
    }
}

#[tokio::test]
async fn a_header_without_end_is_refused() {
    let mut endless = b"HTTP/1.1 200 OK\r\nx: ".to_vec();
    endless.resize(17 * 1024 * 1024, b'x');
    let mut many = b"HTTP/1.1 200 OK\r\n".to_vec();
    (0..100_000).for_each(|n| many.extend_from_slice(format!("x-{n}: y\r\n").as_bytes()));
    many.extend_from_slice(b"\r\n");
    for wire in ALL {
        for response in [&endless, &many] {
            let answers = vec![Answer::Raw(response.clone())];
            let (trial, _server) = try_with(wire, answers, question(), once).await;
            assert_eq!(trial.error().code, ErrorCode::NetworkError, "{:?}", trial.error());
        }
    }
}

#[tokio::test]
async fn json_too_deep_is_an_error_of_the_server() {
    let deep = "[".repeat(1_000_000);
    let event = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {deep}\n\n");
    let whole = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{{\"a\": {deep}");
    let refusal =
        format!("HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\r\n{{\"error\": {deep}");
    for wire in ALL {
        for response in [&event, &whole, &refusal] {
            let answers = vec![Answer::Raw(response.clone().into_bytes())];
            let (trial, _server) = try_with(wire, answers, question(), once).await;
            assert!(trial.error().message.chars().count() < 3_000, "{}", trial.error().message.len());
        }
    }
}

/// A redirect that keeps the method cannot be followed with a body that is sent in pieces; the others could.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    for (wire, status) in ALL.into_iter().flat_map(|wire| [301, 302, 303, 307, 308].map(|it| (wire, it))) {
        let elsewhere = ModelServer::sequence([]);
        let redirect = Answer::refuse(status, "", "")
            .header("location", format!("http://{}/v1/messages", elsewhere.address()));
        let (trial, _server) = try_answers(wire, vec![redirect]).await;
        assert_eq!(trial.error().code, ErrorCode::ConfigError, "{wire:?} {status}");
        assert!(trial.error().message.contains("set baseUrl"), "{}", trial.error().message);
        assert_eq!(elsewhere.exchanges().len(), 0, "the key went elsewhere after {status}");
    }
}

#[tokio::test]
async fn usage_that_never_comes_does_not_hold_the_answer() {
    // The message is complete but the connection stays open: the answer ends soon, not only after the idle time.
    let cut = Some(Cut::Events(5));
    let hang = Delivery { cut, stall: true, pieces: Chunking::Events, ..Delivery::default() };
    let quick = |settings: ProviderSettings| {
        let timeouts = Timeouts { idle_ms: 100, ..settings.timeouts };
        ProviderSettings { timeouts, ..settings }
    };
    let (trial, _server) =
        try_with(Wire::OpenAi, vec![Answer::text("a text of three.").delivered(hang)], question(), quick)
            .await;
    assert_eq!(trial.message().0.text(), "a text of three.");
}

/// A server that packs everything, as some proxies do.
fn packing(status: &str, body: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(body.as_bytes()).expect("memory");
    let packed = packed.finish().expect("memory");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        packed.len()
    );
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 64 * 1024]);
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&packed));
        }
    });
    address
}

#[tokio::test]
async fn unrequested_gzip_is_unpacked() {
    let chunk = |delta: &str, end: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{delta}\"}},\"finish_reason\":{end}}}]}}\n\n"
        )
    };
    let body = chunk("hel", "null") + &chunk("lo", "\"stop\"") + "data: [DONE]\n\n";
    let to = |url: String| {
        let server = ModelServer::sequence([]);
        connect(once(ProviderSettings { base_url: url, ..settings(&server, Wire::OpenAi) }))
    };
    let trial = ask(&mut *to(packing("200 OK", &body)).open(), question()).await;
    assert_eq!(trial.text, "hello");
    trial.message();
    let refusal = packing("400 Bad Request", "{\"error\":{\"message\":\"prompt is too long: 3 > 2\"}}");
    let trial = ask(&mut *to(refusal).open(), question()).await;
    assert_eq!(trial.error().code, ErrorCode::ContextLengthExceeded);
}
