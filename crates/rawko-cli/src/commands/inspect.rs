//! `rawko inspect [ID]`: shows sessions as a page on the loopback, until it is interrupted.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use clap::Args;
use rawko::tools::temporary;
use rawko_inspect::{Inspector, InspectorOptions, Mask};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::runtime::block_on;
use crate::signals::StopSignals;
use crate::workspace::Workspace;

/// Programs that open a file in the user's browser.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Options of `rawko inspect`.
#[derive(Debug, Clone, Args)]
pub(crate) struct InspectArgs {
    /// Session id, or the beginning or end of it; `last` is the latest. Without one, all sessions are listed
    id: Option<String>,
    /// Listen on this port of 127.0.0.1 instead of a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the page in your browser
    #[arg(long)]
    open: bool,
    /// Print the address as JSON
    #[arg(long)]
    json: bool,
}

/// Serves the page.
pub(crate) fn run(workspace: &Workspace, arguments: &InspectArgs) -> Result<Exit, Failure> {
    let project = workspace.project()?;
    let session = arguments.id.as_deref().map(|id| session(workspace, id)).transpose()?;
    // Without a readable configuration the lines of diffs are shown as `rawko diff` shows them: on this machine alone.
    let mask: Arc<Mask> = match workspace.inspect_or_errors()? {
        Ok(rawko) => Arc::new(rawko.secret_mask()),
        Err(_) => Arc::new(str::to_owned),
    };
    let console = &workspace.console;
    let options = InspectorOptions { project: project.clone(), port: arguments.port, mask };
    block_on(async {
        let mut signals = StopSignals::listen()?;
        let inspector =
            Inspector::bind(options).await.map_err(|error| cannot_listen(arguments.port, &error))?;
        let url = inspector.url(session.as_deref());
        if arguments.json {
            console.json_line(&json!({"url": url, "port": inspector.port(), "token": inspector.token()}))?;
        } else {
            console.line(&url)?;
            let hint = "Open this address in a browser of this machine. It contains the key to the page: do not pass it on. \
                        To stop: Ctrl-C\n";
            let _ = console.write_error(&console.error_paint().faint(hint));
        }
        // Kept until the end: the browser may be slow to read it.
        let _way_in = arguments.open.then(|| open(workspace, &project, &url)).flatten();
        tokio::select! {
            served = inspector.serve() => {
                served.map_err(|error| Failure::new(Exit::Failed, format!("the page cannot be served any more: {error}")))?;
            }
            _ = signals.next() => {}
        }
        Ok(Exit::Success)
    })
}

/// The whole id of the session that `id` means.
fn session(workspace: &Workspace, id: &str) -> Result<String, Failure> {
    let path = workspace.sessions()?.find(id)?;
    let name = path.parent().and_then(Path::file_name).unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}

fn cannot_listen(port: u16, error: &std::io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot listen on 127.0.0.1:{port}: {error}"));
    if port == 0 { failure } else { failure.with_hint("without --port, a free port is taken") }
}

/// Opens the page. The arguments of a program can be read by every user of the machine, so it is not given the address but
/// a file that leads there, which only this user can read. It is removed when the command ends.
fn open(workspace: &Workspace, project: &Path, url: &str) -> Option<NamedTempFile> {
    let warn = |why: &str| {
        let warning = workspace.console.error_paint().warning("warning:");
        let _ = workspace.console.write_error(&format!("{warning} the browser was not opened: {why}\n"));
    };
    let program = OPENERS.iter().find_map(|name| workspace.environment.program_outside(name, project));
    let Some(program) = program else {
        warn(&format!("none of {} is installed", OPENERS.join(", ")));
        return None;
    };
    let opened = way_in(url).and_then(|file| {
        let mut command = Command::new(program);
        command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        // It ends when the browser has the file, or with the browser.
        std::thread::spawn(move || child.wait());
        Ok(file)
    });
    opened.map_err(|error| warn(&error.to_string())).ok()
}

/// A page that leads to `url`, in a file that only this user can read.
fn way_in(url: &str) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix("rawko-inspect-")
        .suffix(".html")
        .tempfile_in(temporary::parent_of_small(None))?;
    let url = url.replace('&', "&amp;");
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\">\n<title>rawko</title><a href=\"{url}\">rawko</a></html>\n"
    );
    file.write_all(page.as_bytes())?;
    file.flush()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_way_in_is_the_users_alone_and_goes() {
        let file = way_in("http://127.0.0.1:1/#token=t&session=s").unwrap();
        let page = std::fs::read_to_string(file.path()).unwrap();
        assert!(page.contains("url=http://127.0.0.1:1/#token=t&amp;session=s"), "{page}");
        assert_eq!(file.as_file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }
}
