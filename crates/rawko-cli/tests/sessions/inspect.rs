//! `rawko inspect`, from its start to Ctrl-C.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bench::{Bench, short};
use crate::support::Process;

/// A server that is being asked; ended with the test.
struct Inspector {
    process: Process,
    said: Value,
}

impl Inspector {
    fn start(bench: &Bench, arguments: &[&str]) -> Self {
        Self::of(bench.start(&[&["inspect", "--json"], arguments].concat()))
    }

    fn of(process: Process) -> Self {
        process.wait_until("the address", || process.out().ends_with('\n'));
        let line = process.out();
        let said = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        Self { process, said }
    }

    fn ask(&self, path: &str) -> Value {
        let (port, token) = (&self.said["port"], self.said["token"].as_str().unwrap());
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{text}");
        serde_json::from_str(body).unwrap()
    }

    fn stop(self) -> Option<i32> {
        self.process.signal(Signal::INT);
        self.process.end().code
    }
}

#[test]
fn sessions_are_served_until_the_user_interrupts() {
    let bench = Bench::new(&short());
    bench.rawko(&["run", "--quiet", "Do it."]).check(0, &[]);
    let id = bench.journal().header.session;
    let inspector = Inspector::start(&bench, &["last"]);
    let (port, token) = (&inspector.said["port"], inspector.said["token"].as_str().unwrap());
    assert_eq!(token.len(), 64);
    let session = id.replace('-', "%2D");
    assert_eq!(inspector.said["url"], format!("http://127.0.0.1:{port}/#token={token}&session={session}"));
    assert_eq!(inspector.ask("/api/sessions")[0]["id"], id.as_str());
    let shown = inspector.ask(&format!("/api/sessions/{id}"));
    assert_eq!(shown["head"]["outcome"]["status"], "claimed");
    assert_eq!(shown["standing"], json!({"status": "ended"}));
    let other = Inspector::start(&bench, &[]);
    assert_ne!(other.said["token"], inspector.said["token"], "a token is of one process");
    let taken = bench.rawko(&["inspect", "--port", &port.to_string()]);
    taken.check(1, &["cannot listen on 127.0.0.1", "without --port"]);
    assert_eq!(inspector.stop(), Some(0));
    assert_eq!(bench.journal().header.session, id, "nothing was changed");
    bench.rawko(&["inspect", "nothing-like-it"]).check(2, &["no session `nothing-like-it`"]);
}

#[test]
fn the_browser_gets_the_address_by_a_file_of_the_users_own() {
    let bench = Bench::new(&short());
    let programs = bench.outside().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let opened = bench.outside().join("opened");
    // What a browser would do: note what it was given, and read it.
    let opener = programs.join("xdg-open");
    let script = format!(
        "#!/bin/sh\n{{ echo \"$@\"; stat -c %a \"$1\"; cat \"$1\"; }} > {0}.part\nmv {0}.part {0}\n",
        opened.display()
    );
    std::fs::write(&opener, script).unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = bench.command(&["inspect", "--open", "--json"]);
    let inspector = Inspector::of(Process::start(command.env("PATH", path)));
    let token = inspector.said["token"].as_str().unwrap().to_owned();
    let begun = std::time::Instant::now();
    while !opened.exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the browser was not opened");
        std::thread::sleep(Duration::from_millis(10));
    }
    let seen = std::fs::read_to_string(&opened).unwrap();
    let (arguments, rest) = seen.split_once('\n').unwrap();
    assert!(!arguments.contains(&token), "every user of the machine reads arguments: {arguments}");
    assert!(rest.starts_with("600\n") && rest.contains(&token), "{rest}");
    assert_eq!(inspector.stop(), Some(0));
    assert!(!std::path::Path::new(arguments).exists(), "{arguments} is left");
}
