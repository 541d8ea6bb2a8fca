//! What a claim is, and how one is found: a value that the project sets. What the parts of a configuration claim is in
//! `claims` and beside each part.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::layers::{Layers, Origin};
use super::source::Scope;

/// One thing that a project's configuration claims and only a trusted folder gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The kind of claim.
    pub kind: ClaimKind,
    /// The file that makes the claim, relative to the project.
    pub path: PathBuf,
    /// Line in that file, from 1.
    pub line: usize,
    /// The claim in words, for people.
    pub message: String,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.message)
    }
}

/// The kinds of claims, the most dangerous first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// Requests go to a server that the project chose, with the user's key or code.
    Server,
    /// An environment variable that the project chose is sent as a key.
    Key,
    /// A program is run: as a tool, or by a provider.
    CustomTool,
    /// A server of tools is started, or asked.
    McpServer,
    /// A command is run to verify that a task is done, or the user's own is not.
    Verification,
    /// Model answers come from a file of the project.
    Script,
    /// Permissions are wider than the defaults or the user's own configuration.
    Permission,
    /// Requests carry fields that the project chose.
    Request,
    /// A limit of the user, or a default one, is raised.
    Limit,
    /// An agent of the project may run shell commands, or reach something else than its files.
    Shell,
}

/// The claims that were found so far.
pub(super) struct Claims<'a> {
    pub(super) layers: &'a Layers,
    pub(super) found: Vec<Claim>,
}

impl Claims<'_> {
    /// Adds a claim about the value at `pointer` if the project sets it.
    pub(super) fn add(&mut self, kind: ClaimKind, pointer: &str, message: String) {
        let provenance = &self.layers.provenance;
        // A mapping is the project's if something in it is.
        let origin = Some(provenance.origin(pointer))
            .filter(|origin| is_projects(origin))
            .or_else(|| provenance.below(pointer).find(|origin| is_projects(origin)));
        let Some(Origin::File { path, line, scope: Scope::Project }) = origin else { return };
        let file = self.layers.files.iter().find(|file| file.source.name == *path);
        let line = file.map_or(*line, |file| file.document.place(pointer).line);
        self.found.push(Claim { kind, path: path.clone(), line, message });
    }
}

fn is_projects(origin: &Origin) -> bool {
    matches!(origin, Origin::File { scope: Scope::Project, .. })
}
