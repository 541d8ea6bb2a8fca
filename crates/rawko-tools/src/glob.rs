//! `Glob`: finds files by name.

use globset::{GlobBuilder, GlobMatcher};
use rawko_core::error::ErrorCode;
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use rustix::fs::{AtFlags, statat};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::access::{AccessError, FileAccess, FileUse, check};
use crate::call::{Cancel, blocking, parse, parse_checked, spec};
use crate::tool::{BoxFuture, CallRefusal, Tool, ToolContext};
use crate::walk::{WalkEnd, walk};

/// The most files listed.
const MAX_SHOWN: usize = 200;
/// The most bytes of a pattern.
const MAX_PATTERN: usize = 1_000;

const DESCRIPTION: &str = "\
Finds files by a pattern on their paths, newest first. `*` and `?` match within one path component, `**` any number \
of directories, `{a,b}` alternatives: `**/*.rs`, `src/**/*.{ts,tsx}`, `Cargo.toml`. A pattern without `**/` matches \
only in the directory itself. Files that .gitignore excludes are left out. Use Grep to search file contents.";

/// Arguments of `Glob`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GlobInput {
    /// The pattern, relative to `path`.
    #[schemars(length(min = 1))]
    pattern: String,
    /// Directory to search in, relative to the project root or absolute. Leave out for the project root.
    #[schemars(length(min = 1))]
    path: Option<String>,
}

/// The `Glob` tool.
#[derive(Debug)]
pub(crate) struct Glob {
    spec: ToolSpec,
}

impl Glob {
    pub(crate) fn new() -> Self {
        Self { spec: spec::<GlobInput>("Glob", DESCRIPTION, ToolAccess::ReadOnly) }
    }
}

impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, input: &Value, context: &ToolContext) -> Result<(), CallRefusal> {
        let input: GlobInput = parse_checked("Glob", input)?;
        let (start, _) = split(&input.pattern, input.path.as_deref())
            .map_err(|outcome| CallRefusal { rule: "input".to_owned(), message: outcome.content })?;
        check(context, &start, &[FileUse::List])
    }

    fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let input: GlobInput = match parse("Glob", input) {
                Ok(input) => input,
                Err(outcome) => return outcome,
            };
            let context = context.clone();
            blocking(move |cancel| glob(&input, &context, cancel).unwrap_or_else(Into::into)).await
        })
    }
}

fn glob(input: &GlobInput, context: &ToolContext, cancel: &Cancel) -> Result<ToolOutcome, AccessError> {
    let access = FileAccess::of(context)?;
    let (start, pattern) = match split(&input.pattern, input.path.as_deref()) {
        Ok(split) => split,
        Err(outcome) => return Ok(outcome),
    };
    let matcher = match compile(&pattern) {
        Ok(matcher) => matcher,
        Err(outcome) => return Ok(outcome),
    };
    let dir = access.open_dir(&start)?;
    let base = dir.real.clone();
    let mut found: Vec<(i64, i64, String)> = Vec::new();
    let walked = walk(&access, dir, cancel, |file| {
        let relative = file.real.strip_prefix(&base).unwrap_or(file.real);
        if matcher.is_match(relative)
            && let Ok(stat) = statat(file.dir, file.name, AtFlags::SYMLINK_NOFOLLOW)
        {
            #[allow(clippy::unnecessary_cast, reason = "the types differ between platforms")]
            found.push((stat.st_mtime as i64, stat.st_mtime_nsec as i64, access.display(file.real)));
        }
        true
    });
    // Newest first; by name if equally old.
    found.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then_with(|| a.2.cmp(&b.2)));
    Ok(ToolOutcome::ok(answer(&found, walked, &pattern)))
}

fn answer(found: &[(i64, i64, String)], walked: WalkEnd, pattern: &str) -> String {
    let mut lines: Vec<String> = found.iter().take(MAX_SHOWN).map(|(_, _, name)| name.clone()).collect();
    if found.is_empty() {
        lines.push("No files match.".into());
        if !pattern.contains('/') {
            lines.push(format!("To search in all directories below use `**/{pattern}`."));
        }
    }
    if found.len() > MAX_SHOWN {
        lines.push(format!(
            "[{} files match; the newest {MAX_SHOWN} are shown. Narrow the pattern or the path for the rest.]",
            found.len()
        ));
    }
    if walked == WalkEnd::TooLarge {
        lines.push("[The tree is too large: not all of it was searched. Give a narrower path.]".into());
    }
    lines.join("\n")
}

/// The directory to start in and the pattern to match there. Plain directories at the beginning of the pattern move to
/// the former, as does `/`.
fn split(pattern: &str, path: Option<&str>) -> Result<(String, String), ToolOutcome> {
    let refuse = |why: &str| {
        let message = format!("Glob: the pattern `{}` {why}.", pattern.escape_debug());
        Err(ToolOutcome::error(ErrorCode::ValidationError, message))
    };
    if pattern.len() > MAX_PATTERN || pattern.contains('\0') {
        return refuse("is too long or contains a NUL");
    }
    if pattern.split(['/', ',', '{', '}']).any(|part| part == "..") {
        let message =
            format!("Glob: the pattern `{pattern}` contains `..`: pass the directory as `path` instead.");
        return Err(ToolOutcome::error(ErrorCode::PermissionError, message));
    }
    let mut start = match (path, pattern.starts_with('/')) {
        (None, true) => "/".to_owned(),
        (Some(_), true) => return refuse("is absolute: give either it or `path`"),
        (path, false) => path.unwrap_or(".").to_owned(),
    };
    let mut rest = pattern.trim_start_matches('/');
    while let Some((first, after)) = rest.split_once('/') {
        if first.contains(['*', '?', '[', ']', '{', '}', '\\', '!']) {
            break;
        }
        start = format!("{}/{first}", start.trim_end_matches('/'));
        rest = after.trim_start_matches('/');
    }
    if rest.is_empty() {
        return refuse("names a directory: add what to find in it, e.g. `/**`");
    }
    Ok((start, rest.to_owned()))
}

fn compile(pattern: &str) -> Result<GlobMatcher, ToolOutcome> {
    GlobBuilder::new(pattern).literal_separator(true).build().map(|glob| glob.compile_matcher()).map_err(
        |error| {
            let message = format!("Glob: the pattern `{pattern}` is not valid: {}.", error.kind());
            ToolOutcome::error(ErrorCode::ValidationError, message)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, path: Option<&str>, expected: Result<(&str, &str), ErrorCode>) {
        let got = split(pattern, path).map_err(|outcome| outcome.error_code.unwrap());
        let expected = expected.map(|(start, rest)| (start.to_owned(), rest.to_owned()));
        assert_eq!(got, expected);
    }

    #[test]
    fn plain_directories_say_where_to_start() {
        check("**/*.rs", None, Ok((".", "**/*.rs")));
        check("src/a/*.rs", None, Ok(("./src/a", "*.rs")));
        check("/p/src/**", None, Ok(("/p/src", "**")));
        check("*.rs", Some("src/"), Ok(("src/", "*.rs")));
        check("./*.rs", Some("src/"), Ok(("src/.", "*.rs")));
        check("src/", None, Err(ErrorCode::ValidationError));
        check("/x/*", Some("src"), Err(ErrorCode::ValidationError));
    }

    #[test]
    fn no_alternative_leads_upwards() {
        check("../*", None, Err(ErrorCode::PermissionError));
        check("{a,../outside}/*", None, Err(ErrorCode::PermissionError));
        check("a/{..,b}/*", None, Err(ErrorCode::PermissionError));
        check("a..b/*", None, Ok(("./a..b", "*")));
    }
}
