//! The least that any harness has to do: send the same bytes, wait for the same answers.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use crate::server::{Log, Server};

/// What else is done between two requests.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// So often something is appended to a file and made durable.
    pub(crate) appends: usize,
    /// So many bytes each time.
    pub(crate) bytes: usize,
    /// Whether a shell is run that does nothing.
    pub(crate) shell: bool,
}

/// Sends bodies of these lengths, cut from `longest`, one after the other over one connection.
pub(crate) fn run(answers: Vec<Vec<u8>>, lengths: &[usize], longest: &[u8], work: Option<Work>) -> Log {
    let server = Server::start(answers);
    let folder = tempfile::tempdir().unwrap();
    let mut file = File::create(folder.path().join("journal")).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut answer = vec![0; 64 * 1024];
    for length in lengths {
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {}\r\ncontent-length: {length}\r\n\r\n",
            server.address()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&longest[..*length]).unwrap();
        let mut read = 0;
        while !answer[..read].ends_with(b"\r\n0\r\n\r\n") {
            read += stream.read(&mut answer[read..]).unwrap();
        }
        if let Some(Work { appends, bytes, shell }) = work {
            if shell {
                Command::new("bash").args(["-c", "true"]).output().unwrap();
            }
            for _ in 0..appends {
                file.write_all(&longest[..bytes.min(longest.len())]).unwrap();
                file.sync_data().unwrap();
            }
        }
    }
    server.take_log()
}
