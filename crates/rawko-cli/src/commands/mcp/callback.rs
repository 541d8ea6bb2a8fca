//! The address of this machine to which a browser is sent back after a login.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long a person has.
const PATIENCE: Duration = Duration::from_secs(300);
/// The longest request that is read.
const LONGEST: usize = 16 * 1024;
const PATH: &str = "/callback";
const PAGE: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nYou can close this page.\n";

/// Listens on a port of the loopback.
pub(super) struct CallbackListener {
    listener: TcpListener,
    port: u16,
}

impl CallbackListener {
    /// On this port, or on a free one.
    pub(super) fn new(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0)))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Where the browser is sent.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the browser, and gives the whole address that it asked for.
    pub(super) async fn wait(self) -> Result<String, String> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let asked = tokio::task::spawn_blocking(move || asked(stream)).await;
                    // Browsers ask for more, such as an icon.
                    if let Ok(Ok(path)) = asked
                        && path.starts_with(PATH)
                    {
                        return Ok(format!("http://127.0.0.1:{}{path}", self.port));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("the login was not finished within 5 minutes".to_owned())
    }
}

/// The path of one request, which is answered with a short page.
fn asked(mut stream: TcpStream) -> io::Result<String> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut request = Vec::new();
    let mut buffer = [0; 2048];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST {
        match stream.read(&mut buffer)? {
            0 => break,
            length => request.extend_from_slice(&buffer[..length]),
        }
    }
    stream.write_all(PAGE.as_bytes())?;
    let text = String::from_utf8_lossy(&request);
    let path = text.lines().next().and_then(|line| line.strip_prefix("GET ")?.split(' ').next());
    path.map(str::to_owned).ok_or_else(|| io::Error::other("not a GET request"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_address_that_the_browser_asked_for_is_given() {
        let listener = CallbackListener::new(None).unwrap();
        let port = listener.port;
        let browser = std::thread::spawn(move || {
            for path in ["/favicon.ico", "/callback?code=1&state=2"] {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
                let mut page = String::new();
                stream.read_to_string(&mut page).unwrap();
                assert!(page.contains("close this page"), "{page}");
            }
        });
        let address = listener.wait().await.unwrap();
        assert_eq!(address, format!("http://127.0.0.1:{port}/callback?code=1&state=2"));
        browser.join().unwrap();
    }
}
