//! Logs, for finding faults: off unless `RAWKO_LOG` or `RAWKO_LOG_FILE` is set.
//!
//! Only what rawko's own crates say is logged, which is names, numbers and codes. Libraries log what they send and receive, and with
//! it keys and content: a filter that names them has no effect.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Mutex;

use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::environment::ProcessEnv;
use crate::failure::Failure;

/// Begins to log, if the environment asks for it.
///
/// # Errors
/// If a variable cannot be used, or the file cannot be written.
pub(crate) fn start(environment: ProcessEnv) -> Result<(), Failure> {
    let (filter, file) = (environment.var("RAWKO_LOG"), environment.var("RAWKO_LOG_FILE"));
    if filter.is_none() && file.is_none() {
        return Ok(());
    }
    let filter = EnvFilter::builder().parse(filter.as_deref().unwrap_or("info")).map_err(|error| {
        Failure::usage(format!("RAWKO_LOG cannot be read: {error}")).with_hint(
            "set it to error, warn, info, debug or trace, or to a list like rawko=debug,rawko_provider=warn",
        )
    })?;
    let is_json = match environment.var("RAWKO_LOG_FORMAT").as_deref() {
        None | Some("human") => false,
        Some("json") => true,
        Some(other) => {
            return Err(Failure::usage(format!("RAWKO_LOG_FORMAT is `{other}`"))
                .with_hint("set it to human or json, or unset it"));
        }
    };
    let writer = match &file {
        None => BoxMakeWriter::new(std::io::stderr),
        Some(path) => {
            let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
            let file = opened.map_err(|error| {
                Failure::usage(format!("cannot write logs to {path}: {error}"))
                    .with_hint("set RAWKO_LOG_FILE to a file that you may write")
            })?;
            BoxMakeWriter::new(Mutex::new(file))
        }
    };
    let own = filter_fn(|metadata| metadata.target().starts_with("rawko"));
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
    let layer = if is_json { layer.json().flatten_event(true).boxed() } else { layer.boxed() };
    // Only the first of a process counts, and there is one.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter.and(own))).try_init();
    Ok(())
}
