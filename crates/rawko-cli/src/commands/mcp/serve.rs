//! `rawko mcp serve`: rawko as a server of MCP, for another program's agent. Standard output carries the protocol alone.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rawko::journal::JournalError;
use rawko_mcp_server::{HttpServerOptions, McpToken, RawkoServer, ServedProject, ToolProblem};

use crate::config_args::ConfigArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::runtime::block_on;
use crate::signals::StopSignals;
use crate::workspace::Workspace;

/// Holds the token of the user's choice.
const TOKEN_VARIABLE: &str = "RAWKO_MCP_TOKEN";
/// The most bytes of a file with a token.
const LONGEST_TOKEN_FILE: u64 = 4 * 1024;

/// Options of `rawko mcp serve`.
#[derive(Debug, Clone, Args)]
pub(crate) struct McpServeArgs {
    /// Listen on the loopback by streamable HTTP, at this port or address (default: a free port), instead of speaking on
    /// standard input and output
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    #[arg(value_parser = address)]
    http: Option<SocketAddr>,
    /// Read the token that clients have to send from this file, instead of making one [env: RAWKO_MCP_TOKEN]
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Serves until the client is gone or the user stops it.
pub(super) fn serve(workspace: &Workspace, arguments: &McpServeArgs) -> Result<Exit, Failure> {
    workspace.check_project_is_chosen()?;
    workspace.gain_mounts(workspace.isolates())?;
    let project = workspace.project()?;
    let console = workspace.console;
    let token = arguments.http.map(|_| token(workspace, arguments)).transpose()?;
    let (values, builder) = arguments.config.clone().apart(workspace);
    let builder = match &token {
        Some((token, _)) => builder.secret(token.reveal()),
        None => builder,
    };
    let server = RawkoServer::new(ServedProject {
        builder,
        overrides: values.overrides(),
        project,
        trust: workspace.records(),
        in_words: Arc::new(move |error| in_words(&console, error)),
    });
    block_on(async {
        let mut signals = StopSignals::listen()?;
        let serving = async {
            let served = tokio::select! {
                served = answers(&server, &console, arguments.http.zip(token)) => served,
                _ = signals.next() => Ok(()),
            };
            server.close();
            served
        };
        // Beside the last answers: no call keeps the runs of a client that is gone at work.
        let ending = async {
            server.closed().await;
            server.end().await
        };
        let (served, left) = tokio::join!(serving, ending);
        for session in left {
            let session = clean_line(&session);
            let text =
                format!("session {session} was interrupted; to go on with it: rawko resume {session}\n");
            let _ = console.write_error(&console.commands(&text));
        }
        served.map(|()| Exit::Success)
    })
}

async fn answers(
    server: &RawkoServer,
    console: &Console,
    http: Option<(SocketAddr, (McpToken, bool))>,
) -> Result<(), Failure> {
    let Some((address, (token, is_new))) = http else {
        return server.serve_stdio().await.map(drop).map_err(|error| {
            Failure::new(Exit::Failed, format!("the client does not speak MCP: {error}"))
                .with_hint("a client starts this command itself, and speaks first: docs/mcp-server.md")
        });
    };
    let shown = is_new.then(|| token.reveal().to_owned());
    let listening = server.listen(HttpServerOptions { address, token }).await;
    let listening = listening.map_err(|error| cannot_listen(address, &error))?;
    let mut text = format!("listening on {}\n", listening.url());
    if let Some(token) = shown {
        text.push_str(&format!("clients have to send: Authorization: Bearer {token}\n"));
    }
    console.write_error(&text)?;
    listening.serve().await;
    Ok(())
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot listen on {address}: {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            failure.with_hint("another program has this port: give another, or `--http` alone for a free one")
        }
        io::ErrorKind::PermissionDenied => failure.with_hint("give a port above 1023"),
        _ => failure,
    }
}

/// The token, and whether it was made just now.
fn token(workspace: &Workspace, arguments: &McpServeArgs) -> Result<(McpToken, bool), Failure> {
    let unusable = |from: &str, why: &dyn std::fmt::Display| {
        Failure::usage(format!("the token from {from} cannot be used: {why}"))
            .with_hint("write one of at least 16 letters and digits, for example: openssl rand -hex 32")
    };
    if let Some(path) = &arguments.token_file {
        let from = path.display().to_string();
        let text = read_token(path).map_err(|error| unusable(&from, &error))?;
        return McpToken::new(&text).map(|token| (token, false)).map_err(|error| unusable(&from, &error));
    }
    match workspace.environment.var(TOKEN_VARIABLE) {
        Some(text) => {
            McpToken::new(&text).map(|token| (token, false)).map_err(|error| unusable(TOKEN_VARIABLE, &error))
        }
        None => McpToken::generate()
            .map(|token| (token, true))
            .map_err(|error| Failure::new(Exit::Failed, format!("no token can be made: {error}"))),
    }
}

fn read_token(path: &std::path::Path) -> io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?.take(LONGEST_TOKEN_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// A port, or an address of the loopback.
fn address(text: &str) -> Result<SocketAddr, String> {
    let address = match text.parse::<u16>() {
        Ok(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        Err(_) => text
            .replace("localhost:", "127.0.0.1:")
            .parse()
            .map_err(|_| "write a port, or an address like 127.0.0.1:8123".to_owned())?,
    };
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("only addresses of the loopback are served, like 127.0.0.1:8123".to_owned())
    }
}

/// An error for a client. It has no terminal, and not the options of `rawko run`.
fn in_words(console: &Console, error: rawko::Error) -> ToolProblem {
    let hint = match &error {
        rawko::Error::EmptyTask => Some("say in `task` what to do".to_owned()),
        rawko::Error::Busy { .. } => Some(
            "one run at a time works in a project: follow it with `watch`, end it with `steer` and `cancel`, or wait for its end"
                .to_owned(),
        ),
        rawko::Error::Journal(JournalError::Locked { .. }) => Some(
            "follow the session with `watch` and end it with `steer` and `cancel`, or wait for the end of its last hooks"
                .to_owned(),
        ),
        rawko::Error::Untrusted { .. } => Some(
            "ask the user to read these settings and to trust the folder, in a terminal: rawko trust".to_owned(),
        ),
        rawko::Error::UntrustedJournal { session, .. } => {
            Some(format!("the user can go on with it, in a terminal: rawko resume {session}"))
        }
        rawko::Error::LimitStands { session, limit, .. } => Some(format!(
            "a client cannot raise a limit of the session; the user can, in a terminal: rawko resume {session} {}",
            limit.option()
        )),
        rawko::Error::LimitSpent { .. } => {
            Some("what was used before counts: leave the limit out, and the session's own stands".to_owned())
        }
        rawko::Error::NoKey { variable, .. } => Some(format!(
            "set {variable} in the environment of this server, in the client's entry for it; the user can check with: rawko doctor"
        )),
        _ => None,
    };
    let failure = Failure::from(error);
    let hint = hint.or_else(|| failure.hint().map(str::to_owned));
    ToolProblem { message: failure.message().to_owned(), hint: hint.map(|hint| console.commands(&hint)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        match (address(text), expected) {
            (Ok(address), Ok(expected)) => assert_eq!(address.to_string(), expected, "{text}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (got, _) => panic!("{text}: {got:?}"),
        }
    }

    #[test]
    fn only_the_loopback_is_served() {
        check("0", Ok("127.0.0.1:0"));
        check("8123", Ok("127.0.0.1:8123"));
        check("127.0.0.1:8123", Ok("127.0.0.1:8123"));
        check("localhost:8123", Ok("127.0.0.1:8123"));
        check("[::1]:8123", Ok("[::1]:8123"));
        check("0.0.0.0:8123", Err("only addresses of the loopback"));
        check("192.168.0.1:80", Err("only addresses of the loopback"));
        check("example.com:80", Err("write a port"));
        check("99999", Err("write a port"));
    }
}
