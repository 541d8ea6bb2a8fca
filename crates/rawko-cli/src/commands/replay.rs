//! `rawko replay ID`: derives a session again from its journal, and shows the first difference, field by field.

use clap::Args;
use rawko::Replay;
use rawko::journal::read;
use serde_json::json;

use crate::config_args::ConfigArgs;
use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, clean_line, field_difference};
use crate::workspace::Workspace;

/// Options of `rawko replay`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ReplayArgs {
    /// Session id, or the beginning or end of it; `last` is the latest
    #[arg(default_value = "last")]
    id: String,
    /// Compare the record with what the current configuration and prompts would ask
    #[arg(long)]
    with_current: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Replays the session.
pub(crate) fn run(workspace: &Workspace, arguments: ReplayArgs) -> Result<Exit, Failure> {
    let ReplayArgs { id, with_current, output, config } = arguments;
    if !with_current && config != ConfigArgs::default() {
        return Err(Failure::usage("the settings of a recorded session are in its journal")
            .with_hint("to compare it with other settings, add --with-current"));
    }
    let path = workspace.sessions()?.find(&id)?;
    let journal = read(&path)?;
    let replay = if with_current {
        // Nothing is run and no model is asked, so trust is not needed.
        let rawko = config.builder(workspace).trusted(true).build()?;
        workspace.warn(&rawko);
        rawko.replay(&journal)?
    } else {
        rawko::replay(&journal)
    };
    let mut value = json!(replay);
    value["against"] = json!(if with_current { "current" } else { "recorded" });
    value["matches"] = json!(replay.difference.is_none());
    workspace.console.output(output.json, &value, |paint| text(&replay, with_current, paint))?;
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
                "the current configuration asks, allows and decides the same"
            } else {
                "everything matches the record"
            };
            let (matches, state) = (paint.good(words), replay.state);
            text.push_str(&format!("{session}: {matches}\n{counted}; the machine is in {state}\n"));
        }
        Some(difference) => {
            let words = if with_current {
                "the current configuration differs"
            } else {
                "the replay differs from the record"
            };
            text.push_str(&format!("{session}: {}\n", paint.bad(words)));
            let whose = difference
                .request
                .as_ref()
                .map(|purpose| format!(", in the request of `{}`", clean_line(&purpose.to_string())));
            text.push_str(&format!(
                "record {}, after {}{}; the same up to there: {counted}\n",
                difference.record,
                clean_line(&difference.after),
                whose.unwrap_or_default()
            ));
            for field in &difference.fields {
                text.push_str(&field_difference(field, paint));
            }
            if !with_current && difference.fields.iter().any(|field| field.field.ends_with(".digest")) {
                text.push_str(&format!(
                    "A digest covers a request's system prompt, tools and messages: rawko {} builds them \
                     differently from rawko {}, which recorded this session.\n",
                    env!("CARGO_PKG_VERSION"),
                    clean_line(&replay.recorded_by)
                ));
            }
        }
    }
    if replay.torn_bytes > 0 {
        text.push_str(&format!(
            "the last record is incomplete and was left out: {} bytes\n",
            replay.torn_bytes
        ));
    }
    text
}
