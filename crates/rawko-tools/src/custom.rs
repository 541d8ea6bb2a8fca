//! A tool that is a program: it reads its arguments as JSON from stdin and prints its answer to stdout.
//!
//! No shell interprets its command line. It gets the same environment and limits as a command of Bash, and is ended in
//! the same way. The configuration decides who may define such a tool (`docs/configuration.md`).

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rawko_core::error::ErrorCode;
use rawko_core::text::keep_ends;
use rawko_core::tool::{ToolOutcome, ToolSpec};
use serde::Deserialize;
use serde_json::Value;

use crate::call::blocking;
use crate::process::{
    Cause, CommandLine, Finished, HeadAndTail, Invocation, KillHandle, KillOnDrop, OrphanReaper, OutputStream,
};
use crate::regular::is_program;
use crate::tool::{BoxFuture, CallRefusal, Tool, ToolContext};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes of an answer that the model gets.
const MAX_SHOWN: usize = 30_000;
/// The most bytes of an answer that is read as JSON. A longer answer is text.
const MAX_JSON: usize = 1024 * 1024;
/// Bytes of stderr in the result of a failed call.
const MAX_STDERR: usize = 8_000;
/// The most modified files that one answer may name.
const MAX_FILES: usize = 1_000;

/// A tool that runs a program.
#[derive(Debug, Clone)]
pub struct CommandTool {
    spec: ToolSpec,
    program: PathBuf,
    arguments: Vec<OsString>,
    timeout: Duration,
    reaper: OrphanReaper,
}

impl CommandTool {
    /// A tool that runs `program`: an absolute path, a path with a slash relative to the project's root, or a name that is
    /// looked up in `PATH`.
    #[must_use]
    pub fn new(spec: ToolSpec, program: impl Into<PathBuf>) -> Self {
        Self {
            spec,
            program: program.into(),
            arguments: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
            reaper: OrphanReaper::default(),
        }
    }

    /// Sets the program's arguments, the same for every call.
    #[must_use]
    pub fn arguments(self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { arguments: arguments.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets how long a call may take. The default is two minutes.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    fn command_line(&self, input: &Value, context: &ToolContext) -> Result<CommandLine, String> {
        let environment = context.environment();
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let program = Invocation::File {
            path: find(&self.program, &context.root, path)?,
            arguments: self.arguments.clone(),
            input: format!("{input}\n").into_bytes(),
        };
        let directory = context.root.clone();
        let reaper = self.reaper.clone();
        let confined = context.confined()?;
        Ok(CommandLine { program, directory, environment, timeout: Some(self.timeout), reaper, confined })
    }
}

impl Tool for CommandTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, _: &Value, context: &ToolContext) -> Result<(), CallRefusal> {
        context.may_run_commands()
    }

    fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let name = &self.spec.name;
            let failure = |why: String| ToolOutcome::error(ErrorCode::ToolFailure, format!("{name}: {why}"));
            let line = match self.command_line(&input, context) {
                Ok(line) => line,
                Err(why) => return failure(why),
            };
            let handle = KillHandle::default();
            let guard = KillOnDrop::new(&handle);
            let watch = Arc::clone(&context.progress);
            let name = name.clone();
            let outcome = blocking(move |_| call(&name, &line, &handle, &*watch)).await;
            drop(guard);
            outcome
        })
    }
}

fn call(name: &str, line: &CommandLine, handle: &KillHandle, watch: &dyn Fn(&str)) -> ToolOutcome {
    let mut output = ProgramOutput::default();
    let finished = handle.start(line).and_then(|running| {
        running.finish(&mut |source, bytes| match source {
            OutputStream::Out => output.push(bytes),
            OutputStream::Err => {
                output.stderr.push(bytes);
                watch(&String::from_utf8_lossy(bytes));
            }
        })
    });
    match finished {
        Ok(finished) => {
            let mut outcome = output.outcome(name, &finished, line.timeout.unwrap_or_default());
            finished.refusals.take().add_to(&mut outcome);
            outcome
        }
        Err(error) => {
            let why =
                format!("{name}: its program could not be run in `{}`: {error}.", line.directory.display());
            ToolOutcome::error(ErrorCode::ToolFailure, why)
        }
    }
}

/// The output of a program.
struct ProgramOutput {
    /// All of stdout; `None` once it is too long to be read as JSON.
    whole: Option<Vec<u8>>,
    stdout: HeadAndTail,
    stderr: HeadAndTail,
}

impl Default for ProgramOutput {
    fn default() -> Self {
        Self {
            whole: Some(Vec::new()),
            stdout: HeadAndTail::new(MAX_SHOWN),
            stderr: HeadAndTail::new(MAX_STDERR),
        }
    }
}

impl ProgramOutput {
    fn push(&mut self, bytes: &[u8]) {
        self.stdout.push(bytes);
        match &mut self.whole {
            Some(whole) if whole.len() + bytes.len() <= MAX_JSON => whole.extend_from_slice(bytes),
            Some(_) | None => self.whole = None,
        }
    }

    fn outcome(&self, name: &str, finished: &Finished, timeout: Duration) -> ToolOutcome {
        let failed = finished.cause.error_code();
        let answer = match CommandAnswer::read(self.whole.as_deref()) {
            Ok(answer) => answer,
            // A program that failed may print anything: only its failure counts.
            Err(_) if failed.is_some() => None,
            Err(why) => {
                let message =
                    format!("{name}: its answer cannot be used: {why}. This is a fault of the tool.");
                return ToolOutcome::error(ErrorCode::ToolFailure, message);
            }
        };
        let (mut content, said_error, mut files_modified) = match answer {
            Some(answer) => (answer.text(), answer.is_error, answer.files_modified),
            None => (self.stdout.text().trim_end().to_owned(), false, Vec::new()),
        };
        files_modified.truncate(MAX_FILES);
        // Writing to a String cannot fail.
        if failed.is_some() {
            let stderr = self.stderr.text();
            if !stderr.trim().is_empty() {
                let _ = write!(content, "\n[stderr]\n{}", stderr.trim_end());
            }
            let _ = match finished.cause {
                Cause::Exited { .. } | Cause::OutOfMemory { .. } | Cause::Cancelled => {
                    write!(content, "\n[{}]", finished.cause.text())
                }
                Cause::TimedOut => write!(
                    content,
                    "\n[timed out: the program of {name} did not end within {} ms and was killed with everything it \
                     started. Its `timeout` is set under `tools:` in the configuration.]",
                    timeout.as_millis()
                ),
            };
        }
        if content.is_empty() {
            content.push_str("(no output)");
        }
        let error_code = failed.or(said_error.then_some(ErrorCode::ToolFailure));
        ToolOutcome {
            content: content.trim_start_matches('\n').to_owned(),
            is_error: error_code.is_some(),
            error_code,
            exit_code: finished.cause.exit_code(),
            files_modified,
            ..ToolOutcome::default()
        }
    }
}

/// A structured answer: a JSON object with no other fields than these.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct CommandAnswer {
    /// What the model gets: a string as it is, anything else as JSON.
    content: Value,
    /// Marks the call as failed, whatever the exit status is.
    is_error: bool,
    /// Files that the program wrote, relative to the project's root.
    files_modified: Vec<String>,
}

impl CommandAnswer {
    const FIELDS: [&str; 3] = ["content", "isError", "filesModified"];

    /// Parses `output` if it is a structured answer. Other JSON is data of the tool and counts as text.
    fn read(output: Option<&[u8]>) -> Result<Option<Self>, String> {
        let Some(Ok(Value::Object(fields))) = output.map(serde_json::from_slice) else { return Ok(None) };
        let is_answer = !fields.is_empty() && fields.keys().all(|key| Self::FIELDS.contains(&key.as_str()));
        if !is_answer {
            return Ok(None);
        }
        serde_json::from_value(Value::Object(fields)).map(Some).map_err(|error| error.to_string())
    }

    fn text(&self) -> String {
        let text = match &self.content {
            Value::Null => String::new(),
            Value::String(text) => text.trim_end().to_owned(),
            other => other.to_string(),
        };
        keep_ends(&text, MAX_SHOWN)
    }
}

/// The program's absolute path. Explains here why a program cannot be run: the system would only give an error number.
pub(crate) fn find(program: &Path, root: &Path, path: Option<&OsStr>) -> Result<PathBuf, String> {
    let shown = program.display();
    if program.as_os_str().as_bytes().contains(&b'/') {
        let file = root.join(program);
        return match file.metadata() {
            Err(error) => Err(format!("its program `{shown}` cannot be run: {error}.")),
            Ok(found) if !found.is_file() => Err(format!("its program `{shown}` is not a file.")),
            Ok(found) if !is_program(&found) => {
                Err(format!("its program `{shown}` is not executable: chmod +x {shown}."))
            }
            Ok(_) => Ok(file),
        };
    }
    // A relative entry would depend on the directory in which rawko was started.
    let places = std::env::split_paths(path.unwrap_or_default()).filter(|place| place.is_absolute());
    let mut files = places.map(|place| place.join(program));
    files
        .find(|file| file.metadata().is_ok_and(|found| is_program(&found)))
        .ok_or_else(|| format!("there is no program `{shown}` in PATH; install it, or give its path."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Text, whether it is an error, and the modified files.
    type ExpectedAnswer<'a> = (&'a str, bool, &'a [&'a str]);

    #[track_caller]
    fn check(output: &str, expected: Result<Option<ExpectedAnswer<'_>>, &str>) {
        let read = CommandAnswer::read(Some(output.as_bytes()));
        match (read, expected) {
            (Ok(None), Ok(None)) => {}
            (Ok(Some(answer)), Ok(Some((text, is_error, files)))) => {
                assert_eq!((answer.text().as_str(), answer.is_error), (text, is_error));
                assert_eq!(answer.files_modified, files);
            }
            (Err(why), Err(said)) => assert!(why.contains(said), "{said:?} is missing in {why:?}"),
            (read, expected) => panic!("{output}: {read:?} where {expected:?} was expected"),
        }
    }

    #[test]
    fn an_object_of_known_fields_is_an_answer_and_all_else_is_text() {
        check(r#"{"content": "done\n"}"#, Ok(Some(("done", false, &[]))));
        check(r#"{"content": {"a": [1]}}"#, Ok(Some((r#"{"a":[1]}"#, false, &[]))));
        check(
            r#" {"content": "", "isError": true, "filesModified": ["a", "b/c"]} "#,
            Ok(Some(("", true, &["a", "b/c"]))),
        );
        check(r#"{"filesModified": []}"#, Ok(Some(("", false, &[]))));
        for text in
            ["", "done", "{}", "[1]", "\"x\"", "7", r#"{"content": "x", "title": "y"}"#, "{\"content\":"]
        {
            check(text, Ok(None));
        }
        check(r#"{"content": "x", "isError": "no"}"#, Err("expected a boolean"));
        check(r#"{"filesModified": "a"}"#, Err("expected a sequence"));
    }

    #[test]
    fn json_too_deep_is_text() {
        let deep = format!("{{\"content\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
        check(&deep, Ok(None));
    }

    proptest! {
        #[test]
        fn nothing_that_a_program_prints_breaks_it(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut output = ProgramOutput::default();
            output.push(&bytes);
            let cause = Cause::Exited { code: Some(0), signal: None };
            let outcome = output.outcome("T", &Finished { cause, leftovers: 0, pipe_status: Vec::new(), refusals: crate::refusals::Refusals::default() }, DEFAULT_TIMEOUT);
            prop_assert!(!outcome.content.is_empty());
        }

        #[test]
        fn every_answer_is_read_back(text in "\\PC{0,40}", is_error: bool) {
            let printed = serde_json::json!({"content": text, "isError": is_error}).to_string();
            let answer = CommandAnswer::read(Some(printed.as_bytes())).unwrap().unwrap();
            prop_assert_eq!((answer.text(), answer.is_error), (text.trim_end().to_owned(), is_error));
        }
    }
}
