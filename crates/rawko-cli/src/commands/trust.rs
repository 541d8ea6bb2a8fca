//! `rawko trust`: trusts this folder's configuration as it is now, or revokes the trust.

use clap::Args;
use rawko::config::NO_CONFIGURATION;
use serde_json::json;

use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::trust_shown;
use crate::workspace::Workspace;

/// Options of `rawko trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Revoke the trust
    #[arg(long)]
    revoke: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Trusts the configuration, or revokes the trust.
pub(crate) fn run(workspace: &Workspace, arguments: &TrustArgs) -> Result<Exit, Failure> {
    let store = workspace.trust_store()?;
    let rawko = workspace.inspect()?;
    let folder = rawko.project();
    let claims = &rawko.config().claims;
    // Without a configuration trust is about what else the folder says to models.
    let instructions = rawko.instructions_file();
    let speaks = instructions.is_some() || folder.join(".rawko/memories").exists();
    let digest = rawko.config().project_digest.as_deref().or(speaks.then_some(NO_CONFIGURATION));
    let files = &rawko.config().project_files;
    let changed = match arguments.revoke {
        true => Vec::new(),
        false => store.changed(folder, files).map_err(Failure::trust_not_stored)?,
    };
    if arguments.revoke {
        store.distrust(folder).map_err(Failure::trust_not_stored)?;
    } else if let Some(digest) = digest {
        store.trust(folder, digest, files).map_err(Failure::trust_not_stored)?;
    }
    let trusted = !arguments.revoke && digest.is_some();
    let value = json!({ "folder": folder, "trusted": trusted, "claims": claims, "changed": changed });
    workspace.console.output(arguments.output.json, &value, |_| {
        let shown = clean_line(&folder.to_string_lossy());
        let mut text = match (arguments.revoke, trusted) {
            (true, _) => format!("{shown} is no longer trusted.\n"),
            (false, true) if digest == Some(NO_CONFIGURATION) => {
                let file = clean_line(instructions.as_deref().unwrap_or("AGENTS.md"));
                format!("{shown} is trusted: agents follow {file} and are shown its memories.\n")
            }
            (false, true) => format!("{shown} is trusted with its current configuration.\n"),
            (false, false) => format!("{shown} has no configuration, so there is nothing to trust.\n"),
        };
        text.push_str(&trust_shown::changed(&changed));
        if !claims.is_empty() {
            text.push_str("These settings need trust:\n");
            text.push_str(&trust_shown::claims(claims));
        }
        if !arguments.revoke {
            text.push_str(&trust_shown::also_active(&rawko));
        }
        if trusted && digest != Some(NO_CONFIGURATION) {
            text.push_str(
                "A change of its configuration, agents, prompts, servers or skills ends the trust. ",
            );
        }
        if trusted {
            text.push_str("To revoke it: rawko trust --revoke\n");
        }
        text
    })?;
    Ok(Exit::Success)
}
