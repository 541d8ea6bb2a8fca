//! Logs, for finding faults: off unless `RAWKO_LOG` or `RAWKO_LOG_FILE` is set.
//!
//! Only rawko's own crates log, and only names, numbers and codes. Libraries log what they send and receive, and with
//! it keys and content: a filter that names them has no effect.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::sync::Mutex;

use rustix::fs::OFlags;
use rustix::io::Errno;
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
            let file = opened(path).map_err(|why| {
                Failure::usage(format!("cannot write logs to {path}: {why}"))
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

/// The file for the logs. A user who may write to its folder cannot have another file written instead: a link is not
/// followed, and a named pipe is not waited for.
fn opened(path: &str) -> Result<File, String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => "it is a link, which is not followed".to_owned(),
        Some(Errno::NXIO) => "it is no file".to_owned(),
        _ => error.to_string(),
    })?;
    match file.metadata() {
        Ok(found) if found.is_file() || found.file_type().is_char_device() => Ok(file),
        Ok(_) => Err("it is no file".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn only_a_file_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        opened(&path("log")).unwrap().write_all(b"one\n").unwrap();
        opened(&path("log")).unwrap().write_all(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(path("log")).unwrap(), "one\ntwo\n");
        std::os::unix::fs::symlink(path("log"), path("link")).unwrap();
        assert!(opened(&path("link")).unwrap_err().contains("a link"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(opened(&path("pipe")).unwrap_err().contains("no file"));
        assert!(opened(&path("")).is_err(), "a folder");
    }
}
