//! Picking up changes of the configuration between iterations, never in the middle of one.
//!
//! A change is only taken when the user trusts exactly what the files now say: during a run the one who changed them
//! may be an agent, whose Bash the operating system does not keep from writing.

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
type Read = Box<dyn FnMut() -> Result<Reread, String> + Send>;

/// Watches the files of a configuration by their metadata.
pub(crate) struct Reloader {
    seen: Fingerprint,
    read: Read,
    current: BTreeMap<String, AgentSetup>,
    /// A change that was told and waits for trust, as the files were then.
    waiting: Option<Fingerprint>,
}

/// What became of a change.
#[derive(Debug)]
pub(crate) enum Change {
    /// The agents as they are now.
    Taken(BTreeMap<String, AgentSetup>),
    /// Nobody has said that it may be; said once for each change.
    Untrusted,
    /// It makes no sense; the old agents stay.
    Broken(String),
}

impl Reloader {
    pub(crate) fn new(seen: Fingerprint, current: BTreeMap<String, AgentSetup>, read: Read) -> Self {
        Self { seen, read, current, waiting: None }
    }

    /// What the files say now, if that is news.
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
                let told = self.waiting.as_ref() == Some(&fingerprint);
                self.waiting = Some(fingerprint);
                (!told).then_some(Change::Untrusted)
            }
            Err(error) => {
                // Said once: the next change is looked at again.
                self.seen.refresh();
                Some(Change::Broken(error))
            }
        }
    }
}
