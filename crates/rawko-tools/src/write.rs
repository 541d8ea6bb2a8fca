//! `Write`: creates or replaces a whole file.

use std::sync::Arc;

use rawko_core::error::ErrorCode;
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::access::{AccessError, FileAccess, FileUse, MAX_FILE_BYTES, check};
use crate::call::{blocking, parse, parse_checked, spec};
use crate::tool::{BoxFuture, CallRefusal, Tool, ToolContext};
use crate::tracker::{Digest, FileTracker};

const DESCRIPTION: &str = "\
Creates or replaces a whole file, with its directories if they are missing. To replace a file you must have read it \
with Read first, and it must not have changed since. Prefer Edit for changes to an existing file. Files \
under .claude, .git and .rawko are protected.";

/// Arguments of `Write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteInput {
    /// Path of the file, relative to the project root or absolute.
    #[schemars(length(min = 1))]
    file_path: String,
    /// The whole new content of the file.
    content: String,
}

/// The `Write` tool.
#[derive(Debug)]
pub(crate) struct Write {
    spec: ToolSpec,
    tracker: Arc<FileTracker>,
}

impl Write {
    /// A `Write` tool that consults `tracker` for what an agent has read.
    pub(crate) fn new(tracker: Arc<FileTracker>) -> Self {
        Self { spec: spec::<WriteInput>("Write", DESCRIPTION, ToolAccess::Mutating), tracker }
    }
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, input: &Value, context: &ToolContext) -> Result<(), CallRefusal> {
        let input: WriteInput = parse_checked("Write", input)?;
        check(context, &input.file_path, &[FileUse::Write])
    }

    fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let input: WriteInput = match parse("Write", input) {
                Ok(input) => input,
                Err(outcome) => return outcome,
            };
            let (context, tracker) = (context.clone(), Arc::clone(&self.tracker));
            blocking(move |_| write(&input, &context, &tracker).unwrap_or_else(Into::into)).await
        })
    }

    fn abandoned(&self, input: &Value, context: &ToolContext) {
        if let Ok(input) = parse::<WriteInput>("", input.clone()) {
            clear_up(&input.file_path, context, &self.tracker);
        }
    }
}

fn write(
    input: &WriteInput,
    context: &ToolContext,
    tracker: &FileTracker,
) -> Result<ToolOutcome, AccessError> {
    let path = &input.file_path;
    let bytes = input.content.as_bytes();
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let (path, size) = (path.clone(), bytes.len() as u64);
        return Err(AccessError::TooLarge { path, size, limit: MAX_FILE_BYTES });
    }
    let access = FileAccess::of(context)?;
    let target = access.write_target(path)?;
    let name = target.name.clone();
    let (expected, done) = match target.content()? {
        None => (None, "Created"),
        Some(old) => {
            let old = Digest::of(&old);
            match tracker.known(&context.agent, &name) {
                Some(known) if known == old => (Some(old), "Replaced"),
                Some(_) => return Err(AccessError::Changed { path: path.clone() }),
                None => return Ok(unread(path)),
            }
        }
    };
    target.replace(bytes, expected)?;
    let seen = tracker.record(&context.agent, &name, Digest::of(bytes));
    let lines = input.content.lines().count();
    let text = format!("{done} `{name}` ({lines} lines, {} bytes).", bytes.len());
    Ok(ToolOutcome { files_modified: vec![name], files_seen: vec![seen], ..ToolOutcome::ok(text) })
}

/// Removes the unfinished temporary file that a killed process may have left beside the file at `path`.
pub(crate) fn clear_up(path: &str, context: &ToolContext, tracker: &FileTracker) {
    let target = FileAccess::of(context).and_then(|access| access.write_target(path));
    // A file that may not be written was not written.
    if let Ok(target) = target {
        target.clear_up(tracker.known(&context.agent, &target.name));
    }
}

/// Refuses to change a file that the agent has not read.
pub(crate) fn unread(path: &str) -> ToolOutcome {
    let message = format!(
        "`{path}` exists and you have not read it in this session; nothing was written. Read it first, then retry."
    );
    ToolOutcome::error(ErrorCode::ToolFailure, message)
}
