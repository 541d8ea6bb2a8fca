//! The server, asked by hand-written requests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rawko_inspect::{Inspector, InspectorOptions};
use serde_json::Value;
use support::golden_session;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const WAIT: Duration = Duration::from_secs(30);

/// A project with one session, and a server of it.
struct Trial {
    _folder: tempfile::TempDir,
    journal: std::path::PathBuf,
    id: String,
    task: String,
    port: u16,
    token: String,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Trial {
    /// With so many lines of the session's journal, or all of them.
    async fn new(lines: Option<usize>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let header = std::fs::read_to_string(golden_session().join("journal.jsonl")).unwrap();
        let first: Value = serde_json::from_str(header.lines().next().unwrap()).unwrap();
        let id = first["data"]["session"].as_str().unwrap().to_owned();
        let task = first["data"]["task"].as_str().unwrap().to_owned();
        let session = folder.path().join(".rawko/sessions").join(&id);
        copy(&golden_session(), &session);
        std::fs::write(folder.path().join("secret.txt"), "not for the page").unwrap();
        let journal = session.join("journal.jsonl");
        if let Some(lines) = lines {
            let part: String = header.split_inclusive('\n').take(lines).collect();
            std::fs::write(&journal, part).unwrap();
        }
        let options =
            InspectorOptions { project: folder.path().to_owned(), port: 0, mask: Arc::new(str::to_owned) };
        let inspector = Inspector::bind(options).await.unwrap();
        let (port, token) = (inspector.port(), inspector.token().to_owned());
        assert_eq!(inspector.url(None), format!("http://127.0.0.1:{port}/#token={token}"));
        assert!(inspector.url(Some("a/b")).ends_with("&session=a%2Fb"));
        tokio::spawn(inspector.serve());
        Self { _folder: folder, journal, id, task, port, token }
    }

    async fn connect(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn ask(&self, method: &str, path: &str, headers: &[&str]) -> Answer {
        let mut lines = headers.to_vec();
        let host = format!("host: 127.0.0.1:{}", self.port);
        if !headers.iter().any(|header| header.starts_with("host:")) {
            lines.push(&host);
        }
        let request =
            format!("{method} {path} HTTP/1.1\r\n{}\r\nconnection: close\r\n\r\n", lines.join("\r\n"));
        let mut stream = self.connect(&request).await;
        let mut bytes = Vec::new();
        tokio::time::timeout(WAIT, stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    async fn get(&self, path: &str) -> Answer {
        let token = format!("authorization: Bearer {}", self.token);
        self.ask("GET", path, &[&token]).await
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere_and_holds_nothing() {
    let trial = Trial::new(None).await;
    for (path, kind) in [
        ("/", "text/html"),
        ("/inspector.js", "text/javascript"),
        ("/inspector.css", "text/css"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let answer = trial.ask("GET", path, &[]).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.head.contains(kind), "{}", answer.head);
        for line in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(answer.head.contains(line), "{path}: {}", answer.head);
        }
        assert!(!answer.head.contains("unsafe") && !answer.head.contains("access-control"));
        assert!(!answer.body.contains(&trial.token) && !answer.body.contains(&trial.task), "{path}");
    }
}

#[tokio::test]
async fn data_is_for_the_token_the_host_and_the_origin_of_this_server() {
    let trial = Trial::new(None).await;
    let token = format!("authorization: Bearer {}", trial.token);
    let (port, half) = (trial.port, &trial.token[..32]);
    let session = format!("/api/sessions/{}", trial.id);
    for path in ["/api/machine", "/api/sessions", session.as_str(), &format!("{session}/follow")] {
        let check = async |status: u16, method: &str, headers: &[&str]| {
            let answer = trial.ask(method, path, headers).await;
            assert_eq!(answer.status, status, "{method} {path} {headers:?}");
            assert!(answer.head.contains("default-src 'none'"), "{}", answer.head);
            assert!(!answer.body.contains("\"task\""), "{path} gives data away: {}", answer.body);
        };
        check(401, "GET", &[]).await;
        check(401, "GET", &[&format!("authorization: Bearer {half}")]).await;
        check(401, "GET", &[&format!("authorization: Bearer {}x", trial.token)]).await;
        check(401, "GET", &[&format!("cookie: token={}", trial.token)]).await;
        for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"] {
            check(405, method, &[&token]).await;
        }
        for host in ["evil.example", "127.0.0.1", "127.0.0.1:1", &format!("evil.example:{port}")] {
            check(403, "GET", &[&token, &format!("host: {host}")]).await;
        }
        for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
            check(403, "GET", &[&token, &format!("origin: {origin}")]).await;
        }
        check(403, "GET", &[&token, "sec-fetch-site: cross-site"]).await;
    }
    let own = format!("origin: http://127.0.0.1:{port}");
    assert_eq!(trial.ask("GET", &session, &[&token, &own]).await.status, 200);
    assert_eq!(trial.ask("GET", &session, &[&token, &format!("host: localhost:{port}")]).await.status, 200);
}

#[tokio::test]
async fn a_session_its_entries_decisions_and_diffs_are_given() {
    let trial = Trial::new(None).await;
    let list = trial.get("/api/sessions").await.json();
    assert_eq!(list[0]["id"], trial.id.as_str());
    let session = trial.get(&format!("/api/sessions/{}", trial.id)).await.json();
    assert_eq!(session["head"]["id"], trial.id.as_str());
    let entries = session["entries"].as_array().unwrap();
    let blob = entries.iter().find(|entry| entry["result"]["content"]["cutBytes"].is_u64()).unwrap();
    let whole = trial.get(&format!("/api/sessions/{}/entries/{}", trial.id, blob["number"])).await.json();
    assert!(whole["result"]["content"]["text"].as_str().unwrap().len() > 64 * 1024);
    let decision = trial.get(&format!("/api/sessions/{}/decisions/1", trial.id)).await.json();
    assert_eq!(decision["number"], 1);
    assert!(decision["input"].is_object() && decision["calls"][0]["messages"].is_array());
    // The folder has no checkpoints, which is said and is no failure.
    let diff = trial.get(&format!("/api/sessions/{}/diffs/1", trial.id)).await.json();
    assert!(diff["problem"].is_string(), "{diff}");
    assert_eq!(trial.get("/api/machine").await.json()["states"].as_array().unwrap().len(), 8);
}

#[tokio::test]
async fn idle_connections_do_not_block_others() {
    let trial = Trial::new(None).await;
    let mut idle = Vec::new();
    for n in 0..130 {
        // Half of them begin a request, and some have had an answer that anybody gets.
        let request = ["", "GET / HT", "GET / HTTP/1.1\r\nhost: x\r\n\r\n"][n % 3];
        idle.push(trial.connect(request).await);
    }
    let asked = trial.get("/api/sessions");
    // A request's head may take ten seconds.
    let answer = tokio::time::timeout(Duration::from_secs(5), asked).await.expect("an answer at once");
    assert_eq!(answer.status, 200);
    drop(idle);
}

#[tokio::test]
async fn no_address_leads_out_of_the_sessions() {
    let trial = Trial::new(None).await;
    let id = &trial.id;
    for path in [
        "/secret.txt".to_owned(),
        "/../secret.txt".to_owned(),
        "/%2e%2e/secret.txt".to_owned(),
        "/api/sessions/..".to_owned(),
        "/api/sessions/%2e%2e%2f%2e%2e".to_owned(),
        "/api/sessions/last".to_owned(),
        format!("/api/sessions/{}", &id[..id.len() - 1]),
        format!("/api/sessions/{id}/../{id}"),
        format!("/api/sessions/%2e%2f{id}"),
        format!("/api/sessions/..%2fsessions%2f{id}"),
        format!("/api/sessions/{id}%00"),
        format!("/api/sessions/{id}/entries/999999"),
        format!("/api/sessions/{id}/entries/-1"),
        format!("/api/sessions/{id}/decisions/0"),
        format!("/api/sessions/{id}/decisions/99"),
        format!("/api/sessions/{id}/diffs/99999999999"),
        format!("/api/sessions/{id}/blobs/1"),
        "/api/sessions/%ff".to_owned(),
        "//evil.example/".to_owned(),
    ] {
        let answer = trial.get(&path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
        assert!(!answer.body.contains("not for the page"), "{path}");
    }
}

#[tokio::test]
async fn followers_receive_what_is_appended_to_a_journal() {
    let trial = Trial::new(Some(5)).await;
    let id = &trial.id;
    let before = trial.get(&format!("/api/sessions/{id}")).await.json();
    assert_eq!(before["head"]["records"], 4);
    let open = before["entries"].as_array().unwrap().len() - 1;
    let entry = format!("/api/sessions/{id}/entries/{open}");
    let entry_before = trial.get(&entry).await;
    let request = format!(
        "GET /api/sessions/{id}/follow?after=4 HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\n\r\n",
        trial.port, trial.token
    );
    let mut stream = trial.connect(&request).await;
    let whole = std::fs::read_to_string(golden_session().join("journal.jsonl")).unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(&trial.journal).unwrap();
    for line in whole.split_inclusive('\n').skip(5) {
        file.write_all(line.as_bytes()).unwrap();
    }
    let last = whole.lines().count() - 1;
    let mut text = String::new();
    let read = async {
        let mut buffer = [0; 16 * 1024];
        while !text.contains(&format!("\nid: {last}\n")) || !text.ends_with("\n\n\r\n") {
            let length = stream.read(&mut buffer).await.unwrap();
            assert!(length > 0, "the stream ended: {text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    };
    tokio::time::timeout(WAIT, read).await.expect("news within half a minute");
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    assert!(text.contains("event: change\n"));
    // Entry 0, the task, was known and has not changed.
    assert!(!text.contains("{\"number\":0,"));
    let after = trial.get(&format!("/api/sessions/{id}")).await.json();
    assert_eq!(after["head"]["records"], last);
    // An entry that was opened before has grown with the journal, and so has the number of those that can be opened.
    let entry_after = trial.get(&entry).await;
    assert_eq!(entry_before.status, 200, "{}", entry_before.body);
    assert_ne!(entry_before.body, entry_after.body);
    let newest = after["entries"].as_array().unwrap().len() - 1;
    assert_eq!(trial.get(&format!("/api/sessions/{id}/entries/{newest}")).await.status, 200);
}

#[tokio::test]
async fn a_damaged_journal_is_shown_up_to_its_damage() {
    let trial = Trial::new(Some(9)).await;
    let mut file = std::fs::OpenOptions::new().append(true).open(&trial.journal).unwrap();
    file.write_all(b"{\"seq\":9}\n").unwrap();
    let session = trial.get(&format!("/api/sessions/{}", trial.id)).await.json();
    assert_eq!(session["head"]["records"], 8);
    assert!(session["head"]["damage"].as_str().unwrap().contains("damaged"), "{}", session["head"]["damage"]);
}

#[tokio::test]
async fn the_list_says_which_ended_session_is_damaged() {
    let trial = Trial::new(None).await;
    let status = async || trial.get("/api/sessions").await.json()[0]["status"].clone();
    assert_eq!(status().await, "ended");
    let mut journal = std::fs::read(&trial.journal).unwrap();
    let at = journal.len() / 2;
    journal[at] ^= 1;
    std::fs::write(&trial.journal, &journal).unwrap();
    assert_eq!(status().await, "unreadable");
    journal[at] ^= 1;
    std::fs::write(&trial.journal, &journal).unwrap();
    assert_eq!(status().await, "ended");
}
