//! The spans of a fleet's sessions.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use rawko_core::session::Status;

use crate::worker::{WorkerOptions, WorkerProcess};
use crate::world::commands;

/// A collector of OTLP in JSON: what it was sent, and its address.
fn collector() -> (Arc<Mutex<String>>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let received: Arc<Mutex<String>> = Arc::default();
    let there = Arc::clone(&received);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap_or_default() <= 2 {
                    break;
                }
                if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
                    length = bytes.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            there.lock().unwrap().push_str(&String::from_utf8_lossy(&body));
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            let _ = stream.get_mut().write_all(answer.as_bytes());
        }
    });
    (received, address)
}

pub(crate) fn the_spans_of_a_session_are_one_trace_across_workers() {
    let Some(world) =
        commands(&["echo $TRACEPARENT >> MARKS/place", "echo $TRACEPARENT >> MARKS/place; echo 1 > one.txt"])
    else {
        return;
    };
    let (received, address) = collector();
    let options = |name: &str| WorkerOptions { collector: Some(address.clone()), ..world.options(name) };
    let _workers = [WorkerProcess::start(&options("a")).ready(), WorkerProcess::start(&options("b")).ready()];
    let fleet = world.submit("traced", "Take two steps.");
    let ended = world.ended(&fleet, "traced");
    assert_eq!(ended.status.as_ref().unwrap().outcome.as_ref().unwrap().status, Status::Claimed);
    world.until("the spans arrive", || received.lock().unwrap().contains("invoke_workflow"));
    world.until("the metrics arrive", || received.lock().unwrap().contains("gen_ai.client.inference.usage"));
    let sent = received.lock().unwrap().clone();
    let places = world.marked("place");
    assert_eq!(places.len(), 2);
    for place in places {
        let mut parts = place.split('-').skip(1);
        let (trace, span) = (parts.next().unwrap(), parts.next().unwrap());
        assert!(sent.contains(&format!("\"traceId\":\"{trace}\"")), "{sent}");
        assert!(
            sent.contains(&format!("\"spanId\":\"{span}\"")),
            "the command's place is a span of the trace"
        );
    }
    assert!(
        sent.contains("execute_tool Bash") && sent.contains(&ended.status.unwrap().session.unwrap()),
        "{sent}"
    );
}
