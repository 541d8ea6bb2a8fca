//! `Grep`: searches file contents, with ripgrep's own crates and in this process.

use std::fs::File;
use std::io::{self, Read};

use globset::{Glob, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::Match;
use ignore::types::{Types, TypesBuilder};
use rawko_core::error::ErrorCode;
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::access::{AccessError, FileAccess, FileUse, check, open_regular};
use crate::call::{Cancel, blocking, parse, parse_checked, spec};
use crate::search_results::{OutputMode, SearchResults};
use crate::tool::{BoxFuture, CallRefusal, Tool, ToolContext};
use crate::walk::{WalkEnd, walk};

/// The most bytes of a pattern.
const MAX_PATTERN: usize = 10_000;
/// The most bytes of a compiled pattern.
const MAX_COMPILED: usize = 10 * 1024 * 1024;
/// The most memory of one search: a longer line ends the search of its file.
const MAX_HEAP: usize = 32 * 1024 * 1024;
/// The most context lines on one side.
const MAX_CONTEXT: u64 = 100;

const DESCRIPTION: &str = "\
Searches file contents with a regular expression (ripgrep syntax: escape literal braces and parentheses, e.g. \
`interface\\{\\}`). Files that .gitignore excludes and binary files are left out. `output_mode` decides what comes \
back: `files_with_matches` (default) the paths, `content` the matching lines with their numbers, `count` the number \
of matching lines per file. Narrow the search by `path`, `glob` or `type`; with `multiline` a pattern may span lines. \
Use this instead of grep or rg in Bash.";

/// Arguments of `Grep`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GrepInput {
    /// The regular expression.
    #[schemars(length(min = 1))]
    pattern: String,
    /// File or directory to search in, relative to the project root or absolute. Leave out for the project root.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// Only files whose path matches, as with `rg --glob`: `*.rs`, `src/**/*.{ts,tsx}`, or `!*.lock` to leave out.
    glob: Option<String>,
    /// Only files of this type, as with `rg --type`: `rust`, `py`, `js`, `ts`, `go`, `java`, `md`, …
    r#type: Option<String>,
    /// What to return: `content`, `files_with_matches` (default) or `count`.
    output_mode: Option<OutputMode>,
    /// Ignore case (default false).
    #[serde(rename = "-i")]
    ignore_case: Option<bool>,
    /// Show line numbers, in `content` mode (default true).
    #[serde(rename = "-n")]
    line_numbers: Option<bool>,
    /// Lines to show after each match, in `content` mode.
    #[serde(rename = "-A")]
    after: Option<u64>,
    /// Lines to show before each match, in `content` mode.
    #[serde(rename = "-B")]
    before: Option<u64>,
    /// Lines to show before and after each match, in `content` mode.
    #[serde(rename = "-C")]
    context: Option<u64>,
    /// Let the pattern span lines, and `.` match line breaks (default false).
    multiline: Option<bool>,
    /// Most lines (`content`) or files (other modes) to return (default 250).
    #[schemars(range(min = 1))]
    head_limit: Option<u64>,
}

/// The `Grep` tool.
#[derive(Debug)]
pub(crate) struct Grep {
    spec: ToolSpec,
}

impl Grep {
    pub(crate) fn new() -> Self {
        Self { spec: spec::<GrepInput>("Grep", DESCRIPTION, ToolAccess::ReadOnly) }
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, input: &Value, context: &ToolContext) -> Result<(), CallRefusal> {
        let input: GrepInput = parse_checked("Grep", input)?;
        check(context, input.path.as_deref().unwrap_or("."), &[FileUse::List])
    }

    fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let input: GrepInput = match parse("Grep", input) {
                Ok(input) => input,
                Err(outcome) => return outcome,
            };
            let context = context.clone();
            blocking(move |cancel| match ContentSearch::new(&input) {
                Ok(search) => search.run(&input, &context, cancel).unwrap_or_else(Into::into),
                Err(why) => ToolOutcome::error(ErrorCode::ValidationError, format!("Grep: {why}")),
            })
            .await
        })
    }
}

/// A compiled search.
struct ContentSearch {
    matcher: RegexMatcher,
    searcher: Searcher,
    glob: Option<(GlobMatcher, bool)>,
    types: Option<Types>,
}

impl ContentSearch {
    fn new(input: &GrepInput) -> Result<Self, String> {
        let around = |one: Option<u64>| {
            let lines = one.or(input.context).unwrap_or(0).min(MAX_CONTEXT);
            usize::try_from(lines).unwrap_or(0)
        };
        let multiline = input.multiline.unwrap_or(false);
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_HEAP))
            .line_number(true)
            .multi_line(multiline)
            .before_context(around(input.before))
            .after_context(around(input.after))
            .build();
        Ok(Self {
            matcher: matcher(input, multiline)?,
            searcher,
            glob: input.glob.as_deref().map(file_glob).transpose()?,
            types: input.r#type.as_deref().map(file_types).transpose()?,
        })
    }

    fn run(
        mut self,
        input: &GrepInput,
        context: &ToolContext,
        cancel: &Cancel,
    ) -> Result<ToolOutcome, AccessError> {
        let access = FileAccess::of(context)?;
        let mode = input.output_mode.unwrap_or_default();
        let mut found = SearchResults::new(mode, input.line_numbers.unwrap_or(true), input.head_limit);
        let path = input.path.as_deref().unwrap_or(".");
        let walked = match access.open_dir(path) {
            Ok(dir) => {
                let base = dir.real.clone();
                walk(&access, dir, cancel, |file| {
                    let relative = file.real.strip_prefix(&base).unwrap_or(file.real);
                    if self.wants(relative)
                        && let Ok(Some(opened)) = open_regular_in(file)
                        && !access.is_denied_link(&opened)
                    {
                        self.search(opened, &access.display(file.real), cancel, &mut found);
                    }
                    !found.is_full()
                })
            }
            Err(AccessError::WrongKind { .. }) => {
                let opened = access.open_file(path)?;
                self.search(opened.file, &opened.name, cancel, &mut found);
                WalkEnd::Complete
            }
            Err(error) => return Err(error),
        };
        Ok(ToolOutcome::ok(found.answer(walked)))
    }

    fn wants(&self, relative: &std::path::Path) -> bool {
        let by_glob = self.glob.as_ref().is_none_or(|(glob, wanted)| glob.is_match(relative) == *wanted);
        let by_type = self
            .types
            .as_ref()
            .is_none_or(|types| !matches!(types.matched(relative, false), Match::Ignore(_)));
        by_glob && by_type
    }

    fn search(&mut self, file: File, name: &str, cancel: &Cancel, found: &mut SearchResults) {
        let reader = Stoppable { file, cancel: cancel.clone() };
        let mut sink = found.file(name);
        match self.searcher.search_reader(&self.matcher, reader, &mut sink) {
            Ok(()) => sink.finish(),
            Err(_) => sink.give_up(),
        }
    }
}

fn open_regular_in(file: &crate::walk::WalkedFile<'_>) -> Result<Option<File>, rustix::io::Errno> {
    use std::os::fd::AsFd as _;
    open_regular(file.dir.as_fd(), file.name)
}

/// A file whose reading fails once the call is cancelled.
struct Stoppable {
    file: File,
    cancel: Cancel,
}

impl Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_set() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}

fn matcher(input: &GrepInput, multiline: bool) -> Result<RegexMatcher, String> {
    if input.pattern.len() > MAX_PATTERN {
        return Err(format!(
            "the pattern is longer than {MAX_PATTERN} bytes. ContentSearch for a part of it."
        ));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(input.ignore_case.unwrap_or(false))
        .multi_line(true)
        .dot_matches_new_line(multiline)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED);
    if !multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&input.pattern).map_err(|error| {
        let text = error.to_string();
        let hint = if !multiline && text.contains("not allowed") {
            "Set multiline to search across lines."
        } else {
            "The syntax is ripgrep's: escape literal ( ) [ ] { } . * + ? | with a backslash."
        };
        format!(
            "the pattern `{}` is not valid: {text}. {hint}",
            rawko_core::text::truncate(&input.pattern, 200)
        )
    })
}

/// Compiles a glob with the rules of `rg --glob`: without a slash it matches at any depth, and `!` inverts it.
fn file_glob(text: &str) -> Result<(GlobMatcher, bool), String> {
    let (glob, wanted) = match text.strip_prefix('!') {
        Some(rest) => (rest, false),
        None => (text, true),
    };
    let glob = match glob.strip_prefix('/') {
        Some(anchored) => anchored.to_owned(),
        None if glob.contains('/') && !glob.starts_with("**/") => format!("{{{glob},**/{glob}}}"),
        None => format!("**/{glob}"),
    };
    let limited = if glob.len() > 2_000 { Err("it is too long".to_owned()) } else { Ok(glob) };
    limited
        .and_then(|glob| Glob::new(&glob).map_err(|e| e.kind().to_string()))
        .map(|glob| (glob.compile_matcher(), wanted))
        .map_err(|why| format!("the glob `{}` is not valid: {why}.", rawko_core::text::truncate(text, 200)))
}

fn file_types(name: &str) -> Result<Types, String> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known: Vec<String> = builder.definitions().iter().map(|d| d.name().to_owned()).collect();
    builder.select(name);
    builder.build().map_err(|_| {
        let near = rawko_core::policy::nearest_name(name, &known);
        let hint = near.map_or_else(|| "Use `glob` instead.".to_owned(), |n| format!("Did you mean `{n}`?"));
        format!("there is no file type `{}`. {hint}", rawko_core::text::truncate(name, 50))
    })
}
