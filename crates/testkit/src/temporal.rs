//! A Temporal server of the test's own: the `temporal` program that `RAWKO_TEST_TEMPORAL` names, or the one in `PATH`.
//! `scripts/test-fleet.sh` installs it.

#![allow(clippy::unwrap_used)]

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than the server takes to begin on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A development server of Temporal on loopback, ended when this is dropped.
#[derive(Debug)]
pub struct TemporalServer {
    program: PathBuf,
    data: PathBuf,
    settings: Vec<String>,
    port: u16,
    child: Child,
}

/// The program, if there is one.
fn installed() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("RAWKO_TEST_TEMPORAL") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("temporal")).find(|program| program.is_file())
}

impl TemporalServer {
    /// Starts one whose data are in `folder`, with these settings of its dynamic configuration (`NAME=VALUE`). `None` where there is
    /// no program, which is a test skipped.
    ///
    /// # Panics
    /// If it does not begin.
    #[must_use]
    pub fn start(folder: &Path, settings: &[&str]) -> Option<Self> {
        let Some(program) = installed() else {
            crate::skip("there is no Temporal server here: scripts/test-fleet.sh installs one");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let data = folder.join("temporal.db");
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let child = begin(&program, &data, port, &settings);
        let server = Self { program, data, settings, port, child };
        server.wait();
        Some(server)
    }

    /// Its program, which is also its command line.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends it as a power cut would.
    ///
    /// # Panics
    /// If it has ended already.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Begins it again, on the same data.
    ///
    /// # Panics
    /// If it does not begin.
    pub fn start_again(&mut self) {
        self.child = begin(&self.program, &self.data, self.port, &self.settings);
        self.wait();
    }

    /// Waits until it serves.
    fn wait(&self) {
        let until = Instant::now() + PATIENCE;
        let serves = || {
            let health = ["operator", "cluster", "health", "--address", &self.address()];
            let asked = Command::new(&self.program).args(health).output();
            asked.is_ok_and(|asked| String::from_utf8_lossy(&asked.stdout).contains("SERVING"))
        };
        while TcpStream::connect(self.address()).is_err() || !serves() {
            assert!(Instant::now() < until, "the server does not begin");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for TemporalServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn begin(program: &Path, data: &Path, port: u16, settings: &[String]) -> Child {
    Command::new(program)
        .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "error"])
        .args(["--port", &port.to_string(), "--db-filename"])
        .arg(data)
        .args(["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal"])
        .args(settings.iter().flat_map(|setting| ["--dynamic-config-value", setting]))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
