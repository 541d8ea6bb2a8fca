//! The least that any harness has to do: send the same bytes, wait for the same answers.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::server::{Log, Server};

/// Bytes to append and make durable, so many times between two requests.
#[derive(Clone, Copy)]
pub(crate) struct Appends {
    pub(crate) times: usize,
    pub(crate) bytes: usize,
}

/// Sends bodies of these lengths, cut from `longest`, one after the other over one connection.
pub(crate) fn run(answers: Vec<Vec<u8>>, lengths: &[usize], longest: &[u8], appends: Option<Appends>) -> Log {
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
        if let Some(Appends { times, bytes }) = appends {
            for _ in 0..times {
                file.write_all(&longest[..bytes.min(longest.len())]).unwrap();
                file.sync_data().unwrap();
            }
        }
    }
    server.take_log()
}
