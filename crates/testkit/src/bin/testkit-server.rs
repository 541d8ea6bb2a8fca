//! Serves a script of the `scripted` provider over HTTP, for benchmarks and manual trials.
//!
//! `testkit-server SCRIPT.json [ADDRESS]` prints `http://127.0.0.1:PORT` and serves until it is killed. The Messages API is
//! at that address, Chat Completions and Responses under `/v1`.

use std::process::ExitCode;

use rawko_provider::Script;
use testkit::{ModelServer, ScriptedBehaviour};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("testkit-server: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: testkit-server SCRIPT.json [ADDRESS]")?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let text = std::fs::read_to_string(&path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let script: Script =
        serde_json::from_str(&text).map_err(|e| format!("{path} is not a script in JSON: {e}"))?;
    let mut behaviour = ScriptedBehaviour::new(script);
    let server = ModelServer::try_start(&address, move |asked| behaviour.answer(asked))
        .map_err(|e| format!("cannot listen on {address}: {e}"))?;
    println!("{}", server.claude_url());
    loop {
        std::thread::park();
    }
}
