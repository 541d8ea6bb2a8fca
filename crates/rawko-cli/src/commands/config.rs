//! `rawko config`: the current values, where each comes from, and the schema of the files.

use clap::{Subcommand, ValueEnum};
use rawko::config::{agent_schema, config_schema};
use rawko::event_schema;
use serde_json::json;

use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean;
use crate::trust_shown;
use crate::workspace::Workspace;

/// Subcommands of `rawko config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print each value and where it comes from
    Show(OutputArgs),
    /// Check all files and report all errors at once
    Check(OutputArgs),
    /// Print the JSON Schema of a file, for editors, or of a run's events, for programs
    Schema {
        /// Of what
        #[arg(value_enum, default_value_t = SchemaFile::Config)]
        file: SchemaFile,
        /// Accepted for consistency: a schema is always JSON
        #[arg(long)]
        json: bool,
    },
}

/// What has a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SchemaFile {
    /// config.yaml
    Config,
    /// An agent in YAML
    Agent,
    /// An event of `--output stream-json`
    Events,
}

/// Runs the subcommand.
pub(crate) fn run(workspace: &Workspace, action: &ConfigCommand) -> Result<Exit, Failure> {
    let console = &workspace.console;
    match action {
        ConfigCommand::Show(output) => {
            let report = workspace.inspect()?.settings();
            console.output(output.json, &report, |_| clean(&report.to_string()).into_owned())?;
            Ok(Exit::Success)
        }
        ConfigCommand::Check(output) => check(workspace, output.json),
        ConfigCommand::Schema { file: SchemaFile::Config, json: _ } => {
            console.json(&config_schema())?;
            Ok(Exit::Success)
        }
        ConfigCommand::Schema { file: SchemaFile::Agent, json: _ } => {
            console.json(&agent_schema())?;
            Ok(Exit::Success)
        }
        ConfigCommand::Schema { file: SchemaFile::Events, json: _ } => {
            console.json(&event_schema())?;
            Ok(Exit::Success)
        }
    }
}

fn check(workspace: &Workspace, as_json: bool) -> Result<Exit, Failure> {
    let console = &workspace.console;
    let rawko = match workspace.inspect_or_errors()? {
        Ok(rawko) => rawko,
        Err(errors) if as_json => {
            console.json(&json!({ "valid": false, "errors": errors.errors }))?;
            return Ok(Exit::Usage);
        }
        Err(errors) => return Err(rawko::Error::Config(errors).into()),
    };
    let config = rawko.config();
    let claims = &config.claims;
    let trusted = workspace.is_trusted(&rawko);
    let value = json!({ "valid": true, "warnings": config.warnings, "trusted": trusted, "claims": claims });
    console.output(as_json, &value, |_| {
        let mut text = format!("the configuration is valid: {} agents\n", config.agents.len());
        if !claims.is_empty() {
            text.push_str(if trusted {
                "These settings need trust, and the folder is trusted:\n"
            } else {
                "These settings need trust, and the folder is not trusted (`rawko trust`):\n"
            });
            text.push_str(&trust_shown::claims(claims));
        }
        text
    })?;
    Ok(Exit::Success)
}
