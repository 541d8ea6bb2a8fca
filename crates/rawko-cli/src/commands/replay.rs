//! `rawko replay ID`: derives a session again from its journal, and tells the first difference, field by field.

use clap::Args;
use rawko::Replay;
use rawko::journal::read;
use serde_json::{Value, json};

use crate::choices::Choices;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, clean_line, difference};
use crate::workspace::Workspace;

/// Options of `rawko replay`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Arguments {
    /// Its id, or the beginning or end of it; `last` is the latest
    #[arg(default_value = "last")]
    id: String,
    /// Compare with what today's configuration and prompts would ask, not with what was recorded
    #[arg(long)]
    with_current: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    choices: Choices,
}

/// Replays the session.
pub(crate) fn run(workspace: &Workspace, arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { id, with_current, json, choices } = arguments;
    if !with_current && choices != Choices::default() {
        return Err(Failure::usage("what a session was recorded with is in its journal")
            .with_hint("to compare it with other settings, add --with-current"));
    }
    let path = workspace.sessions()?.find(&id).map_err(rawko::Error::from)?;
    let journal = read(&path).map_err(rawko::Error::from)?;
    let replay = if with_current {
        // Nothing is run and nobody is asked, so that trust is no question.
        let rawko = choices.builder(workspace).trusted(true).build()?;
        workspace.warn(&rawko);
        rawko.replay(&journal)?
    } else {
        rawko::replay(&journal)
    };
    let console = &workspace.console;
    if json {
        let against = if with_current { "current" } else { "recorded" };
        let mut value = serde_json::to_value(&replay).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.insert("against".to_owned(), json!(against));
            fields.insert("matches".to_owned(), json!(replay.difference.is_none()));
        }
        console.json(&value)?;
    } else {
        console.write(&text(&replay, with_current, console.paint()))?;
    }
    Ok(if replay.difference.is_none() { Exit::Success } else { Exit::Failed })
}

fn text(replay: &Replay, with_current: bool, paint: Paint) -> String {
    let session = clean_line(&replay.session);
    let counts = &replay.counts;
    let counted = format!(
        "{} events, {} requests, {} tool calls, {} decisions, {} transitions",
        counts.events, counts.requests, counts.tool_calls, counts.decisions, counts.transitions
    );
    let mut text = String::new();
    match &replay.difference {
        None => {
            let words = if with_current {
                "today's configuration asks, allows and decides the same"
            } else {
                "everything is as it was recorded"
            };
            let (matches, state) = (paint.good(words), replay.state);
            text.push_str(&format!("{session}: {matches}\n{counted}; the machine is in {state}\n"));
        }
        Some(found) => {
            let words = if with_current {
                "today's configuration goes another way"
            } else {
                "what is derived is not what was recorded"
            };
            text.push_str(&format!("{session}: {}\n", paint.bad(words)));
            let whose = found
                .request
                .as_ref()
                .map(|purpose| format!(", in the request of `{}`", clean_line(&purpose.to_string())));
            text.push_str(&format!(
                "record {}, what {} leads to{}; the same until then: {counted}\n",
                found.record,
                clean_line(&found.after),
                whose.unwrap_or_default()
            ));
            for field in &found.fields {
                text.push_str(&difference(field, paint));
            }
            if !with_current && found.fields.iter().any(|field| field.field.ends_with(".digest")) {
                text.push_str(&format!(
                    "A digest stands for a request's system prompt, tools and messages: rawko {} builds them \
                     otherwise than rawko {}, which recorded this.\n",
                    env!("CARGO_PKG_VERSION"),
                    clean_line(&replay.recorded_by)
                ));
            }
        }
    }
    if replay.torn_bytes > 0 {
        text.push_str(&format!(
            "the last record is incomplete and has no part in this: {} bytes\n",
            replay.torn_bytes
        ));
    }
    text
}
