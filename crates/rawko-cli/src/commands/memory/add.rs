//! `rawko memory add`.

use std::io::{IsTerminal as _, Read as _};

use clap::{Args, ValueEnum};
use rawko::memory::{MemoryStore, NewMemory, cite};
use rawko_core::agent::Importance;
use rawko_core::memory::{Kind, Pattern};
use serde_json::{Value, json};

use super::lookup::{find, place, refused};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, clean_line};
use crate::workspace::Workspace;

/// Most bytes of a body.
const LONGEST_BODY: u64 = 1024 * 1024;

/// Options of `rawko memory add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// What it says, in one line
    #[arg(long, value_name = "TEXT")]
    title: String,
    /// A pattern: a word, a sentence, a glob or a regular expression; may be repeated
    #[arg(long = "when-to-use", value_name = "PATTERN", required = true)]
    when_to_use: Vec<String>,
    /// Its text, instead of standard input
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// low, medium, high or critical
    #[arg(long, value_name = "WORD", value_enum, default_value = "medium", hide_possible_values = true)]
    importance: ImportanceWord,
    /// fact, or avoid for what is not to be done
    #[arg(long, value_name = "WORD", value_enum, default_value = "fact", hide_possible_values = true)]
    kind: KindWord,
    /// What it is about, separated by commas
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    tags: Vec<String>,
    /// Globs of the files that it speaks of, separated by commas
    #[arg(long, value_name = "GLOBS", value_delimiter = ',')]
    paths: Vec<String>,
    /// A file that it was learned from, kept with its digest; may be repeated
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,
    /// A memory that it takes the place of; may be repeated
    #[arg(long, value_name = "NAME")]
    supersedes: Vec<String>,
    /// Who found it out
    #[arg(long, value_name = "NAME", default_value = "user")]
    by: String,
    /// Write it although there is one that says nearly the same
    #[arg(long)]
    force: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ImportanceWord {
    Low,
    Medium,
    High,
    Critical,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindWord {
    Fact,
    Avoid,
}

/// Writes a new memory.
pub(super) fn add(workspace: &Workspace, store: &MemoryStore, arguments: &AddArgs) -> Result<Exit, Failure> {
    let project = workspace.project()?;
    let mut new = NewMemory::new(
        &arguments.title,
        trimmed(&arguments.when_to_use),
        &arguments.by,
        Clock::local().now(),
    );
    new.body = body(arguments)?;
    if new.body.trim().is_empty() {
        return Err(Failure::usage("the memory has no text")
            .with_hint("give --body TEXT, or the text on standard input"));
    }
    new.importance = match arguments.importance {
        ImportanceWord::Low => Importance::Low,
        ImportanceWord::Medium => Importance::Medium,
        ImportanceWord::High => Importance::High,
        ImportanceWord::Critical => Importance::Critical,
    };
    new.kind = match arguments.kind {
        KindWord::Fact => Kind::Fact,
        KindWord::Avoid => Kind::Avoid,
    };
    new.tags = trimmed(&arguments.tags);
    new.paths = trimmed(&arguments.paths);
    for path in &arguments.files {
        new.files.push(cite(&project, path).ok_or_else(|| {
            Failure::usage(format!("`{path}` is no readable file of this project"))
                .with_hint("give a path relative to the project's folder, to a file of at most 4 MB")
        })?);
    }
    for name in &arguments.supersedes {
        new.supersedes.push(find(store, name)?.path);
    }
    // What takes the place of another may well say nearly the same.
    let force = arguments.force || !arguments.supersedes.is_empty();
    if !store.is_of_user()
        && let Some(trusted) = workspace.records()
    {
        // Without the record the memory needs trust, as those of others do.
        let _ = trusted.begin_memories(&project);
    }
    let begins = !store.is_of_user() && !store.folder().is_dir();
    let path = store.add(&new, force).map_err(|error| refused(store, error))?;
    let file = place(store, &path);
    let problems: Vec<Value> =
        new.when_to_use.iter().filter_map(|text| problem(workspace, text, &file)).collect();
    let value = json!({ "path": path, "file": file, "problems": problems });
    workspace.console.output(arguments.json, &value, |_| format!("wrote {}\n", clean_line(&file)))?;
    if begins && !arguments.json {
        let note = "later runs learn here too, with a model call after each execution; to keep them from it: \
                    memory.extract: false in .rawko/config.yaml\n";
        let _ = workspace.console.write_error(note);
    }
    Ok(Exit::Success)
}

/// Prints what is wrong with a pattern: it would be missed later.
fn problem(workspace: &Workspace, text: &str, file: &str) -> Option<Value> {
    let problem = Pattern::read(text).problem()?;
    let paint = workspace.console.error_paint();
    let line = clean_line(&format!("the pattern `{text}` {problem}"));
    // A closed standard error is no failure.
    let _ = workspace.console.write_error(&format!(
        "{} {line}\n  {} edit {}\n",
        paint.warning("warning:"),
        paint.hint("hint:"),
        clean_line(file)
    ));
    Some(json!({ "pattern": text, "problem": problem }))
}

fn trimmed(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
}

fn body(arguments: &AddArgs) -> Result<String, Failure> {
    if let Some(body) = &arguments.body {
        return Ok(body.clone());
    }
    let input = std::io::stdin();
    if input.is_terminal() {
        return Err(Failure::usage("the memory has no text")
            .with_hint("give --body TEXT, or the text on standard input"));
    }
    let mut bytes = Vec::new();
    input.lock().take(LONGEST_BODY + 1).read_to_end(&mut bytes).map_err(|error| {
        Failure::usage(format!("cannot read standard input: {error}"))
            .with_hint("give the text with --body TEXT")
    })?;
    if bytes.len() as u64 > LONGEST_BODY {
        return Err(Failure::usage("the text on standard input is longer than 1 MB")
            .with_hint("a memory is what one should know, not a document: shorten it"));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage("the text on standard input is not UTF-8").with_hint("give UTF-8 text"))
}
