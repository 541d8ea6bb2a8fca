//! Pages of servers on loopback, which misbehave.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::page;

/// What a site does after the bytes of its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    Close,
    /// Says nothing more, and stays.
    Hang,
    /// Sends `x` until it is no longer read.
    Flood,
}

/// A server on loopback that answers each request by its path.
struct Site {
    port: u16,
    /// The heads of the requests.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn start(answer: impl Fn(&str) -> (Vec<u8>, Then) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
        // The threads end with the test's process; a hanging one holds nothing but a socket.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &seen, answer.as_ref()));
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>, answer: &dyn Fn(&str) -> (Vec<u8>, Then)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while reader.read_line(&mut head).is_ok_and(|read| read > 0) && !head.ends_with("\r\n\r\n") {}
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(head);
    let (bytes, then) = answer(&path);
    let _ = stream.write_all(&bytes);
    match then {
        Then::Close => {}
        Then::Hang => drop(reader.read_line(&mut String::new())),
        Then::Flood => while stream.write_all(&[b'x'; 8_192]).is_ok() {},
    }
}

fn ok(headers: &str, body: &[u8]) -> (Vec<u8>, Then) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    ([head.as_bytes(), body].concat(), Then::Close)
}

fn redirect(to: &str) -> (Vec<u8>, Then) {
    let head =
        format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n");
    (head.into_bytes(), Then::Close)
}

/// All names lead to this machine.
fn home() -> LookUp {
    Arc::new(|_, port| Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]))
}

fn fetcher(look_up: LookUp) -> Fetcher {
    let limits = FetchLimits {
        total: Duration::from_secs(20),
        idle: Duration::from_millis(300),
        redirects: 3,
        body: BodyLimits { received: 100_000, decoded: 200_000 },
        ..FetchLimits::default()
    };
    Fetcher { look_up, limits }
}

async fn get(fetcher: &Fetcher, url: &str, granted: &[&str]) -> Result<Fetched, FetchError> {
    let granted: Vec<String> = granted.iter().map(|entry| (*entry).to_owned()).collect();
    fetcher.fetch(WebAddress::parse(url).unwrap(), &granted).await
}

#[track_caller]
fn refused(found: Result<Fetched, FetchError>, words: &str, host: Option<&str>) {
    let error = found.expect_err(words);
    let text = error.to_string();
    assert!(text.contains(words), "{words:?} is missing in {text}");
    assert_eq!(error.refusal(), host.map(|host| Refusal::Host { host: host.to_owned() }), "{text}");
}

#[tokio::test]
async fn a_page_is_fetched_from_where_its_name_was_judged_to_lead() {
    let site = Site::start(|_| ok("Content-Type: text/plain\r\nSet-Cookie: a=b\r\n", b"hello"));
    let port = site.port;
    let lookups = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lookups);
    // No name server knows this name: the client can only use the judged address.
    let look_up: LookUp = Arc::new(move |host, port| {
        assert_eq!(host, "docs.invalid");
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])
    });
    let fetcher = fetcher(look_up);
    for _ in 0..2 {
        let page =
            get(&fetcher, &format!("http://Docs.Invalid.:{port}/a?b=c#d"), &["docs.invalid", "127.0.0.1"])
                .await;
        let page = page.unwrap();
        assert_eq!((page.status, page.body.bytes.as_slice()), (200, b"hello".as_slice()));
    }
    assert_eq!(lookups.load(Ordering::SeqCst), 2, "once for each request");
    for head in site.asked() {
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("get /a?b=c http/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("host: docs.invalid:{port}\r\n")), "{head}");
        for never in ["cookie:", "referer:", "authorization:", "proxy-", "x-api-key:"] {
            assert!(!head.contains(never), "{head}");
        }
    }
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_the_second_time_is_judged_again() {
    let site = Site::start(|path| if path == "/" { redirect("/again") } else { ok("", b"inside") });
    let answers = AtomicUsize::new(0);
    let look_up: LookUp = Arc::new(move |_, port| {
        let last = if answers.fetch_add(1, Ordering::SeqCst) == 0 { 1 } else { 2 };
        Ok(vec![SocketAddr::from(([127, 0, 0, last], port))])
    });
    let url = format!("http://a.com:{}/", site.port);
    let found = get(&fetcher(look_up), &url, &["a.com", "127.0.0.1"]).await;
    refused(found, "a.com leads to 127.0.0.2, which is not on the public Internet", Some("127.0.0.2"));
    assert_eq!(site.asked().len(), 1, "the second address was not asked");
}

#[tokio::test]
async fn each_redirect_is_judged() {
    let site = Site::start(|path| match path.split_once("?to=") {
        Some((_, to)) => redirect(&to.replace("%5C", "\\")),
        None if path == "/loop" => redirect("/loop"),
        None if path == "/none" => (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n".to_vec(), Then::Close),
        None => ok("", path.as_bytes()),
    });
    let port = site.port;
    let fetcher = fetcher(home());
    let to = |to: &str| {
        let url = format!("http://a.com:{port}/?to={to}");
        let fetcher = fetcher.clone();
        async move { get(&fetcher, &url, &["a.com", "c.com", "127.0.0.1"]).await }
    };
    let page = to("//c.com:PORT/x/../y".replace("PORT", &port.to_string()).as_str()).await.unwrap();
    assert_eq!(page.body.bytes, b"/y");
    assert_eq!(page.target.host, "c.com");
    refused(to("http://b.com/").await, "no permission grants b.com. Do without it", Some("b.com"));
    refused(
        to("http://169.254.169.254/x").await,
        "no permission grants 169.254.169.254",
        Some("169.254.169.254"),
    );
    refused(to("http://0x7f.2/").await, "no permission grants 127.0.0.2", Some("127.0.0.2"));
    refused(to("file:///etc/passwd").await, "`file:` is not fetched", None);
    refused(to("http://me:secret@c.com/").await, "a user name or a password", None);
    refused(to("http:%5C%5Cc.com/").await, "a backslash", None);
    let found = get(&fetcher, &format!("http://a.com:{port}/loop"), &["a.com", "127.0.0.1"]).await;
    refused(found, "After 3 redirects there is no page", None);
    let found = get(&fetcher, &format!("http://a.com:{port}/none"), &["a.com", "127.0.0.1"]).await;
    refused(found, "a redirect that names no address", None);
}

#[tokio::test]
async fn an_agent_that_may_reach_any_host_is_not_led_inside() {
    let site = Site::start(|_| redirect("http://127.0.0.2/"));
    let found = get(&fetcher(home()), &format!("http://127.0.0.1:{}/", site.port), &["*", "127.0.0.1"]).await;
    refused(found, "127.0.0.2 is not on the public Internet", Some("127.0.0.2"));
}

async fn cut(
    answer: impl Fn(&str) -> (Vec<u8>, Then) + Send + Sync + 'static,
) -> Result<Fetched, FetchError> {
    let site = Site::start(answer);
    get(&fetcher(home()), &format!("http://127.0.0.1:{}/", site.port), &["127.0.0.1"]).await
}

#[tokio::test]
async fn bodies_are_bounded() {
    let endless = || (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n".to_vec(), Then::Flood);
    let page = cut(move |_| endless()).await.unwrap();
    assert!(page.body.is_cut);
    assert_eq!(page.body.bytes.len(), 100_000);
    let outcome = page::outcome(page, None);
    assert!(outcome.content.ends_with("[The page is too large: its end was not read.]"));

    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![b'x'; 10_000_000]).unwrap();
    let bomb = bomb.finish().unwrap();
    let page = cut(move |_| ok("Content-Encoding: gzip\r\n", &bomb)).await.unwrap();
    assert!(page.body.is_cut);
    assert_eq!(page.body.bytes.len(), 200_000);

    let twice = cut(|_| ok("Content-Encoding: gzip, gzip\r\n", b"x")).await;
    refused(twice, "compressed the answer more than once", None);
    let unasked = cut(|_| ok("Content-Encoding: br\r\n", b"x")).await;
    refused(unasked, "by `br`, which was not asked for", None);
}

#[tokio::test]
async fn a_silent_server_is_not_waited_for() {
    let silent = cut(|_| (Vec::new(), Then::Hang)).await;
    refused(silent, "was not fetched", None);
    let head = || b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc".to_vec();
    refused(cut(move |_| (head(), Then::Hang)).await, "was not fetched", None);
    refused(cut(move |_| (head(), Then::Close)).await, "was not fetched", None);
    let endless_head = cut(|_| (b"HTTP/1.1 200 OK\r\nX: ".to_vec(), Then::Flood)).await;
    refused(endless_head, "was not fetched", None);
    refused(cut(|_| (b"SSH-2.0-OpenSSH\r\n".to_vec(), Then::Close)).await, "was not fetched", None);
}

#[tokio::test]
async fn all_of_it_has_a_time() {
    let drip = Site::start(|_| redirect("/x"));
    let mut fetcher = fetcher(Arc::new(|_, port| {
        std::thread::sleep(Duration::from_millis(200));
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])
    }));
    fetcher.limits.total = Duration::from_millis(300);
    fetcher.limits.redirects = 1_000;
    let found = get(&fetcher, &format!("http://a.com:{}/", drip.port), &["a.com", "127.0.0.1"]).await;
    refused(found, "was not fetched within 0.3 s", None);
}

#[tokio::test]
async fn the_characters_are_those_that_the_server_names() {
    let page = cut(|_| ok("Content-Type: text/html; charset=windows-1251\r\n", b"<p>\xcf\xf0\xe8</p>")).await;
    let outcome = page::outcome(page.unwrap(), None);
    assert!(outcome.content.contains("\nПри\n</data>"), "{}", outcome.content);
}

#[test]
fn no_redirect_leads_out_of_encryption() {
    let from = |url: &str| WebAddress::parse(url).unwrap();
    let to =
        |url: &str, location: &str| redirected(&from(url), location).map(|target| target.url.to_string());
    assert!(matches!(to("https://a.com/", "http://a.com/"), Err(FetchFault::Downgrade)));
    assert_eq!(to("https://a.com/", "/x").unwrap(), "https://a.com/x");
    assert_eq!(to("http://a.com/", "https://a.com/").unwrap(), "https://a.com/");
    assert_eq!(to("http://a.com/", "http://b.com/").unwrap(), "http://b.com/");
}
