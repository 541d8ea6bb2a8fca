//! Agents read pages and search: what is granted arrives, what is not is refused with the line to add.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::answers::{call, developer};
use crate::trial::{CANARY, Ended, Trial};

/// A server on loopback that answers each request by its path, and remembers the heads.
struct Site {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// `answer` gives the status with its headers, and the body.
    fn start(answer: impl Fn(&str) -> (String, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while reader.read_line(&mut head).is_ok_and(|read| read > 0) && !head.ends_with("\r\n\r\n") {}
                let (status, body) = answer(head.split(' ').nth(1).unwrap_or_default());
                seen.lock().unwrap().push(head);
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
            }
        });
        Self { port, asked }
    }

    fn page(html: &str) -> Self {
        let html = html.to_owned();
        Self::start(move |_| ("200 OK\r\nContent-Type: text/html".to_owned(), html.clone()))
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn fetch(url: &str) -> testkit::Answer {
    call("WebFetch", &json!({"url": url, "prompt": "the version"}))
}

fn search(query: &str) -> testkit::Answer {
    call("WebSearch", &json!({ "query": query }))
}

/// A user whose agents may reach these hosts, and whose environment names a proxy that is not there.
fn granting(server: testkit::ModelServer, hosts: &[&str]) -> Trial {
    let proxy = "http://127.0.0.1:9/";
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"]
        .iter()
        .fold(Trial::new(server), |trial, name| trial.env(name, proxy))
        .user_config("/permissions/net", json!(hosts))
}

/// The only result of the tool, and whether it is an error.
#[track_caller]
fn result(ended: &Ended, tool: &str) -> (String, bool) {
    let mut results = ended.results(tool);
    assert_eq!(results.len(), 1, "{}", ended.stdout);
    results.remove(0)
}

/// The tools that the agent's first request offers.
fn offered(ended: &Ended) -> Vec<String> {
    let asked = ended.trial.server.asked();
    asked[1].tool_names().into_iter().map(str::to_owned).collect()
}

#[test]
fn a_page_of_a_granted_host_arrives_as_markdown() {
    let site = Site::page("<title>Doc</title><h1>Versions</h1><p>It is <b>7</b>.</p><script>no()</script>");
    let ended = granting(developer([fetch(&site.url("/doc"))]), &["127.0.0.1"]).run("Which version?");
    ended.exits(0);
    assert!(offered(&ended).iter().any(|tool| tool == "WebFetch"));
    let (content, is_error) = result(&ended, "WebFetch");
    assert!(!is_error, "{content}");
    assert_eq!(
        content,
        format!(
            "Look in this page for: the version\n<data from=\"WebFetch\">\nAddress: {}\nTitle: Doc\n\n# Versions\n\nIt is \
             **7**.\n</data>",
            site.url("/doc")
        )
    );
    assert_eq!(ended.trial.server.asked()[2].last_text(), content, "the model gets it");
    let head = site.asked().remove(0).to_ascii_lowercase();
    for never in ["cookie:", "referer:", "authorization:", "x-api-key:", CANARY] {
        assert!(!head.contains(never), "{head}");
    }
    assert_eq!(ended.trial.rawko(&["replay", "last"]).0, Some(0));
}

#[test]
fn without_a_granted_host_it_is_not_offered_and_a_call_is_refused() {
    let site = Site::page("<p>inside</p>");
    let ended = Trial::new(developer([fetch(&site.url("/"))])).run("Which version?");
    ended.exits(0);
    assert!(!offered(&ended).iter().any(|tool| tool.starts_with("Web")), "{:?}", offered(&ended));
    let (content, is_error) = result(&ended, "WebFetch");
    assert!(is_error && content.contains("no permission grants 127.0.0.1. Do without it"), "{content}");
    assert_eq!(site.asked().len(), 0);
    assert_eq!(
        ended.finish()["wouldAllow"],
        json!(["add `- 127.0.0.1` under permissions.net; for one run: --allow-net=127.0.0.1"])
    );
}

#[test]
fn a_host_that_is_not_granted_is_refused_and_recorded() {
    let site = Site::page("<p>inside</p>");
    let ended = granting(developer([fetch(&site.url("/"))]), &["*", "docs.rs"]).run("Which version?");
    ended.exits(0);
    let (content, is_error) = result(&ended, "WebFetch");
    assert!(is_error && content.contains("127.0.0.1 is not on the public Internet"), "{content}");
    let outcome = &ended.events_of("tool_finished").remove(0)["outcome"];
    assert_eq!(outcome["refused"], json!([{"type": "host", "host": "127.0.0.1"}]));
    assert_eq!(outcome["errorCode"], "permission_error");
    assert_eq!(site.asked().len(), 0);
}

#[test]
fn a_redirect_leads_to_no_other_host() {
    for (to, words) in [
        ("http://127.0.0.2/", "no permission grants 127.0.0.2"),
        ("http://2852039166/latest/meta-data/", "no permission grants 169.254.169.254"),
        ("http://localhost:PORT/", "no permission grants localhost"),
        ("file:///etc/passwd", "`file:` is not fetched"),
    ] {
        let site = Site::start(move |path| {
            let port = path.trim_start_matches('/');
            (format!("302 Found\r\nLocation: {}", to.replace("PORT", port)), String::new())
        });
        let url = site.url(&format!("/{}", site.port));
        let ended = granting(developer([fetch(&url)]), &["127.0.0.1"]).run("Which version?");
        ended.exits(0);
        let (content, is_error) = result(&ended, "WebFetch");
        assert!(is_error && content.contains(words) && content.contains("redirects to"), "{content}");
        assert_eq!(site.asked().len(), 1, "{to}");
    }
}

#[test]
fn a_person_is_asked_for_a_host_and_the_page_follows() {
    let site = Site::page("<p>inside</p>");
    let trial =
        Trial::new(developer([fetch(&site.url("/"))])).user_config("/permissions/ask", json!(["hosts"]));
    let running = trial.start("Which version?");
    running.wait_for_event("approval_requested");
    let (_, waits, _) = running.trial.rawko(&["approve", "--json"]);
    let waits: Value = serde_json::from_str(&waits).unwrap();
    let question = &waits[0]["question"];
    assert_eq!(question["needs"], json!([{"type": "host", "host": "127.0.0.1"}]));
    assert!(question["why"].as_str().unwrap().contains("no permission grants 127.0.0.1"), "{question}");
    assert_eq!(site.asked().len(), 0);
    assert_eq!(running.trial.rawko(&["approve", "last"]).0, Some(0));
    let ended = running.end();
    ended.exits(0);
    assert!(offered(&ended).iter().any(|tool| tool == "WebFetch"));
    let (content, is_error) = result(&ended, "WebFetch");
    assert!(!is_error && content.contains("\ninside\n"), "{content}");
    assert_eq!(ended.trial.rawko(&["replay", "last"]).0, Some(0));
}

#[test]
fn a_no_leaves_the_page_where_it_is() {
    let site = Site::page("<p>inside</p>");
    let trial =
        Trial::new(developer([fetch(&site.url("/"))])).user_config("/permissions/ask", json!(["hosts"]));
    let running = trial.start("Which version?");
    running.wait_for_event("approval_requested");
    assert_eq!(running.trial.rawko(&["approve", "last", "--deny"]).0, Some(0));
    let ended = running.end();
    let (content, is_error) = result(&ended, "WebFetch");
    assert!(is_error && content.contains("said no"), "{content}");
    assert_eq!(site.asked().len(), 0);
}

#[test]
fn secrets_do_not_pass_either_way() {
    let site = Site::page(&format!("<p>Your key is {CANARY}.</p><p>end</p>"));
    let out = fetch(&site.url(&format!("/?k={CANARY}")));
    let ended = granting(developer([fetch(&site.url("/")), out]), &["127.0.0.1"]).run("Which version?");
    ended.exits(0);
    let results = ended.results("WebFetch");
    assert!(results[0].0.contains("[redacted]") && results[0].0.contains("end"), "{results:?}");
    assert!(results[1].1, "{results:?}");
    assert_eq!(site.asked().len(), 1, "the key was not sent");
}

/// What a service answers, and the developer's search there with its one result.
#[track_caller]
fn searched(site: &Site, service: Value, environment: &[(&str, &str)]) -> Ended {
    let trial = environment
        .iter()
        .fold(Trial::new(developer([search("tokio select & cancel")])), |trial, (name, value)| {
            trial.env(name, *value)
        });
    let ended = trial.user_config("/web/search", service).run("Find it.");
    ended.exits(0);
    assert!(offered(&ended).iter().any(|tool| tool == "WebSearch"));
    assert_eq!(site.asked().len(), 1);
    ended
}

const FOUND: &str = "<data from=\"WebSearch\">\n1. Select in tokio\n   https://docs.rs/tokio/latest/tokio/macro.select.html\n   \
                     Waits on branches, returns & drops.\n2. Second\n   http://b.example/x?y=z\n</data>";

#[test]
fn a_searxng_instance_is_asked() {
    // Title, address, content, engines and parsed address as in its own tests
    // (https://github.com/searxng/searxng/blob/master/tests/unit/test_webapp.py); the other fields are to be passed over.
    let answer = json!({"query": "tokio", "number_of_results": 0, "results": [
        {"title": "Select in tokio", "url": "https://docs.rs/tokio/latest/tokio/macro.select.html",
         "content": "Waits on branches,\n returns &amp; drops.", "engine": "duckduckgo", "engines": ["duckduckgo"],
         "parsed_url": ["https", "docs.rs", "/tokio", "", "", ""], "score": 1.0, "category": "general", "publishedDate": null},
        {"title": "No address", "content": "x"}, {"title": "A script", "url": "javascript:alert(1)"},
        {"title": "Second", "url": "http://b.example/x?y=z", "content": null}],
        "answers": [], "corrections": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": []});
    let site =
        Site::start(move |_| ("200 OK\r\nContent-Type: application/json".to_owned(), answer.to_string()));
    let ended = searched(&site, json!({"searxng": site.url("/")}), &[]);
    assert_eq!(result(&ended, "WebSearch"), (FOUND.to_owned(), false));
    assert!(
        site.asked()[0].starts_with("GET /search?q=tokio+select+%26+cancel&format=json HTTP/1.1\r\n"),
        "{:?}",
        site.asked()
    );
}

#[test]
fn an_instance_that_does_not_answer_in_json_is_reported_with_what_to_do() {
    let site =
        Site::start(|_| ("403 FORBIDDEN\r\nContent-Type: text/html".to_owned(), "<p>no</p>".to_owned()));
    let ended = searched(&site, json!({"searxng": site.url("")}), &[]);
    let (content, is_error) = result(&ended, "WebSearch");
    assert!(
        is_error
            && content.contains("status 403; the instance has to allow JSON: `json` under `search.formats`"),
        "{content}"
    );
}

#[test]
fn braves_search_is_asked_with_its_key_which_stays_hidden() {
    let key = "brave-canary-77aa12";
    let answer = json!({"type": "search", "query": {"original": "tokio"}, "web": {"type": "search", "results": [
        {"type": "search_result", "title": "Select in tokio", "url": "https://docs.rs/tokio/latest/tokio/macro.select.html",
         "description": "Waits on <strong>branches</strong>, returns &amp; drops.", "age": "2 days ago", "profile": {"name": "docs.rs"}},
        {"title": "Second", "url": "http://b.example/x?y=z", "description": format!("Your key: {key}")}]}});
    let site =
        Site::start(move |_| ("200 OK\r\nContent-Type: application/json".to_owned(), answer.to_string()));
    let service = json!({"brave": {"apiKeyEnv": "MY_SEARCH", "baseUrl": site.url("")}});
    let ended = searched(&site, service, &[("MY_SEARCH", key)]);
    let (content, _) = result(&ended, "WebSearch");
    assert!(
        content.contains("Waits on **branches**, returns & drops.") && content.contains("[redacted]"),
        "{content}"
    );
    assert!(!ended.stdout.contains(key), "{}", ended.stdout);
    let head = site.asked().remove(0);
    assert!(head.starts_with("GET /res/v1/web/search?q=tokio+select+%26+cancel&count=10"), "{head}");
    assert!(head.contains(&format!("x-subscription-token: {key}\r\n")), "{head}");
}

#[test]
fn a_missing_key_is_reported_before_anything_is_asked() {
    let trial = Trial::new(developer([])).user_config("/web/search/brave/apiKeyEnv", json!("MY_SEARCH"));
    let (code, _, stderr) = trial.ask(&["run", "Find it."]);
    assert_ne!(code, Some(0));
    assert!(stderr.contains("the variable MY_SEARCH is not set"), "{stderr}");
    assert_eq!(trial.server.asked().len(), 0);
}

#[test]
fn a_project_that_names_a_search_service_needs_trust() {
    let config = json!({"web": {"search": {"searxng": "http://127.0.0.1:9"}}});
    let trial = Trial::new(developer([])).config(&config);
    let (code, _, stderr) = trial.ask(&["run", "Find it."]);
    assert_ne!(code, Some(0));
    assert!(stderr.contains("agents would search the web by http://127.0.0.1:9"), "{stderr}");
    assert_eq!(trial.server.asked().len(), 0);
}
