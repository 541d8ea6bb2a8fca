//! Applies changes of the configuration between iterations, never during one.
//!
//! A change is applied only if the user trusts exactly the files' new content. During a run, an agent may have changed
//! them: the operating system does not keep its Bash from writing.

use std::collections::BTreeMap;

use rawko_core::setup::AgentSetup;

use crate::config::Fingerprint;

/// What the files say now.
pub(crate) struct Reread {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) agents: BTreeMap<String, AgentSetup>,
    /// Whether the user trusts exactly this.
    pub(crate) trusted: bool,
}

/// Reads the agents again; the error is for people.
type ReadAgents = Box<dyn FnMut() -> Result<Reread, String> + Send>;

/// Watches the files of a configuration by their metadata.
pub(crate) struct Reloader {
    seen: Fingerprint,
    read: ReadAgents,
    current: BTreeMap<String, AgentSetup>,
    /// A change that was reported and waits for trust, as the files were then.
    waiting: Option<Fingerprint>,
}

/// The result of a change.
#[derive(Debug)]
pub(crate) enum Change {
    /// The agents as they are now.
    Taken(BTreeMap<String, AgentSetup>),
    /// The user has not trusted it; reported once for each change.
    Untrusted,
    /// The configuration has errors; the old agents stay.
    Broken(String),
}

impl Reloader {
    pub(crate) fn new(seen: Fingerprint, current: BTreeMap<String, AgentSetup>, read: ReadAgents) -> Self {
        Self { seen, read, current, waiting: None }
    }

    /// The result of a change of the files, if there is a new one.
    pub(crate) fn changed(&mut self) -> Option<Change> {
        if !self.seen.changed() {
            return None;
        }
        match (self.read)() {
            Ok(Reread { fingerprint, agents, .. }) if agents == self.current => {
                self.seen = fingerprint;
                None
            }
            Ok(Reread { fingerprint, agents, trusted: true }) => {
                self.seen = fingerprint;
                self.waiting = None;
                self.current.clone_from(&agents);
                Some(Change::Taken(agents))
            }
            Ok(Reread { fingerprint, .. }) => {
                let reported = self.waiting.as_ref() == Some(&fingerprint);
                self.waiting = Some(fingerprint);
                (!reported).then_some(Change::Untrusted)
            }
            Err(error) => {
                // Reported once. The next change is checked again.
                self.seen.refresh();
                Some(Change::Broken(error))
            }
        }
    }
}
