//! In the sandbox: Unix sockets of a command's own, and those of programs outside.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::sandbox::{enforced, is_possible, tries};
use crate::trial::Trial;

/// Programs that need sockets of their own: Python's way to start processes since 3.14, a process that holds objects for
/// others, a server and its client.
const OWN: &str = r#"cat > start.py <<'E'
import multiprocessing as m
def f(q): q.put(42)
if __name__ == "__main__":
    x = m.get_context("forkserver"); q = x.Queue(); p = x.Process(target=f, args=(q,)); p.start()
    print("forkserver", q.get(timeout=20)); p.join()
    with m.Manager() as held: print("manager", held.list([1]))
E
cat > serve.py <<'E'
import asyncio, os, sys
async def main(place):
    async def answer(reader, writer):
        writer.write(b"served " + await reader.readline()); await writer.drain(); writer.close()
    if os.path.exists(place): os.unlink(place)
    server = await asyncio.start_unix_server(answer, place)
    reader, writer = await asyncio.open_unix_connection(place)
    writer.write(place.encode() + b"\n"); print((await reader.read()).decode()); server.close(); writer.close()
asyncio.run(main(sys.argv[1]))
E
python3 start.py; python3 serve.py "$TMPDIR/s.sock"; python3 serve.py own.sock; python3 serve.py stale.sock"#;

#[test]
fn a_command_has_unix_sockets_of_its_own() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server);
        // Nothing listens there any more.
        let _gone = Listener::at(&trial.project(), Path::new("stale.sock"));
        trial
    };
    let (_, output) = tries(trial, OWN);
    for said in ["forkserver 42", "manager [1]", "served /tmp/s.sock", "served own.sock", "served stale.sock"]
    {
        assert!(output.contains(said), "{said}: {output}");
    }
}

/// A program outside that listens at a path, and says something to everyone who connects.
struct Listener(Child);

impl Listener {
    fn at(folder: &Path, path: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let program = "import socket, sys\ns = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n\
                       print('ready', flush=True)\nwhile True:\n    try: s.accept()[0].sendall(b'CANARY')\n    \
                       except OSError: pass\n";
        let mut command = Command::new("python3");
        command.args(["-c", program]).arg(path).current_dir(folder).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        Self(child)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tries to reach sockets, from their folders, because a path may be too long for an address.
const REACH: &str = "import os, socket, sys
here = os.getcwd()
for place in sys.argv[1:]:
    os.chdir(here)
    try:
        os.chdir(os.path.dirname(place) or '.')
        s = socket.socket(socket.AF_UNIX); s.settimeout(3); s.connect(os.path.basename(place))
        print(place, s.recv(99).decode())
    except OSError as error: print(place, type(error).__name__)
";

#[test]
fn sockets_of_programs_outside_are_not_reached() {
    if !is_possible() {
        return;
    }
    let mut places = vec![
        "a.sock",
        "src/b.sock",
        "node_modules/c/c.sock",
        "../granted/d.sock",
        "../read/e.sock",
        // It was bound to another name.
        "moved/g.sock",
    ];
    // A folder that everybody sees and only the administrator changes, where this user is that.
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let visible = tempfile::Builder::new().permissions(open_to_all).tempdir_in("/opt").ok();
    let in_visible = visible.iter().map(|folder| folder.path().join("f.sock").display().to_string());
    let in_visible: Vec<String> = in_visible.collect();
    places.extend(in_visible.iter().map(String::as_str));
    // One with a name that is no text loses no other.
    let odd = [b"\xff\xfe".as_slice(), std::process::id().to_string().as_bytes()].concat();
    let _odd = UnixListener::bind_addr(&SocketAddr::from_abstract_name(odd).unwrap()).unwrap();
    let mut listeners = Vec::new();
    let trial = |server| {
        let trial = enforced(server).file("reach.py", REACH);
        for (number, place) in places.iter().enumerate() {
            let place = trial.project().join(place);
            let (folder, name) = (place.parent().unwrap(), Path::new(place.file_name().unwrap()));
            let is_short = place.as_os_str().len() < 100;
            // Every second one is bound to a relative path.
            let name = if is_short && number % 2 == 0 { place.as_path() } else { name };
            if folder.ends_with("moved") {
                listeners.push(Listener::at(folder, Path::new("before.sock")));
                std::fs::rename(folder.join("before.sock"), &place).unwrap();
            } else {
                listeners.push(Listener::at(folder, name));
            }
        }
        // Git tracks no socket, so an index that rawko does not read is no hindrance.
        testkit::git(&trial.project(), &["update-index", "--split-index"]);
        let outside = trial.outside();
        let (granted, read) = (outside.join("granted"), outside.join("read"));
        let write = format!("--allow-write=.,{}", granted.display());
        let read = format!("--allow-read=.,{},{}", granted.display(), read.display());
        trial.args(&[&write, &read])
    };
    let (_, output) = tries(trial, &format!("python3 reach.py {}; echo here", places.join(" ")));
    assert!(output.contains("here") && !output.contains("CANARY"), "{output}");
    assert_eq!(output.matches("ConnectionRefusedError").count(), places.len(), "{output}");
}

/// Where nothing can be laid over a socket, there are none, and the result says why.
#[test]
fn by_landlock_alone_there_are_none_and_it_is_said() {
    if !is_possible() {
        return;
    }
    let command = "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'; echo here";
    let (ended, output) = tries(|server| Trial::new(server).without_namespaces(), command);
    if ended.events_of("session_started")[0]["confined"].is_null() {
        testkit::skip("no Landlock here");
        return;
    }
    assert!(output.contains("here") && output.contains("The sandbox refused a Unix socket"), "{output}");
    let (_, output) = tries(Trial::new, command);
    assert!(!output.contains("The sandbox refused"), "{output}");
}
