//! The plug-ins of a run: those that are installed and approved as they are.

use std::collections::BTreeMap;
use std::path::Path;

use super::Plugin;
use crate::config::diagnostic::{Diagnostic, printable};
use crate::config::directories::{user_data_dir, user_state_dir};
use crate::config::load::Loader;
use crate::config::mcp::LoadedServer;
use crate::config::model::Config;
use crate::plugins::{PluginFolders, PluginRecord, PluginRecords, PluginState, approved};

impl Loader<'_> {
    /// The installed plug-ins that may be used. A warning names each of the others. Where none is installed, this looks for one
    /// file.
    pub(in crate::config) fn plugins(&mut self, config: Option<&Config>) -> Vec<Plugin> {
        // Without the user's folder, nothing of the user is read.
        let env = self.options.env;
        let folders = self.options.user_dir.and_then(|_| user_data_dir(env).zip(user_state_dir(env)));
        let Some((data, state)) = folders else { return Vec::new() };
        let records = PluginRecords::of(&state);
        if !self.fingerprint.note(records.path()) {
            return Vec::new();
        }
        let records = match records.read() {
            Ok(records) => records,
            Err(error) => {
                let help = "rawko plugins list says more; no plug-in is used".to_owned();
                self.warnings.push(Diagnostic::of_file(
                    Path::new("plugins.json"),
                    error.to_string(),
                    Some(help),
                ));
                return Vec::new();
            }
        };
        let folders = PluginFolders::of(&data);
        records.iter().filter_map(|(name, record)| self.plugin(&folders, name, record, config)).collect()
    }

    fn plugin(
        &mut self,
        folders: &PluginFolders,
        name: &str,
        record: &PluginRecord,
        config: Option<&Config>,
    ) -> Option<Plugin> {
        let place = folders.place(name);
        self.fingerprint.note(&place.root);
        let around = self.around(config);
        match approved(place.clone(), record, |place, shown| Plugin::read_for(place, shown, &around)) {
            Ok(plugin) => {
                for agent in &plugin.agents {
                    self.fingerprint.note(&agent.path);
                }
                self.warnings.extend(plugin.findings.iter().cloned());
                Some(plugin)
            }
            Err(state) => {
                let (why, help) = match state {
                    PluginState::Changed { files } => (
                        format!(
                            "its files are not those that you approved ({})",
                            printable(&files.join(", "))
                        ),
                        format!("look at it, and approve it as it is: rawko plugins check {name}"),
                    ),
                    PluginState::Unusable { errors } => {
                        self.warnings.extend(errors);
                        ("it cannot be used".to_owned(), format!("see why: rawko plugins check {name}"))
                    }
                    PluginState::Approved => return None,
                };
                let message = format!("the plug-in `{name}` is not used: {why}");
                self.warnings.push(Diagnostic::of_file(&place.root, message, Some(help)));
                None
            }
        }
    }
}

/// Adds the servers of plug-ins to those that the user or the project configured, which go before them. Gives those that are
/// left out.
pub(in crate::config) fn add_servers<'a>(
    plugins: &'a [Plugin],
    servers: &mut BTreeMap<String, LoadedServer>,
) -> Vec<(&'a str, &'a LoadedServer)> {
    let mut left_out = Vec::new();
    for (name, server) in plugins.iter().flat_map(|plugin| &plugin.servers) {
        if servers.contains_key(name) {
            left_out.push((name.as_str(), server));
        } else {
            servers.insert(name.clone(), server.clone());
        }
    }
    left_out
}
