//! Picking up changes of the configuration between iterations, never in the middle of one.

use std::collections::BTreeMap;

use rawko_core::setup::AgentSetup;

use crate::config::Fingerprint;

/// Reads the agents again; the error is for people.
type Read = Box<dyn FnMut() -> Result<(Fingerprint, BTreeMap<String, AgentSetup>), String> + Send>;

/// Watches the files of a configuration by their metadata.
pub(crate) struct Reloader {
    seen: Fingerprint,
    read: Read,
    current: BTreeMap<String, AgentSetup>,
}

impl Reloader {
    pub(crate) fn new(seen: Fingerprint, current: BTreeMap<String, AgentSetup>, read: Read) -> Self {
        Self { seen, read, current }
    }

    /// The agents as they are now, if the files changed since the last look and still make sense.
    pub(crate) fn changed(&mut self) -> Option<Result<BTreeMap<String, AgentSetup>, String>> {
        if !self.seen.changed() {
            return None;
        }
        match (self.read)() {
            Ok((seen, agents)) => {
                self.seen = seen;
                if agents == self.current {
                    return None;
                }
                self.current.clone_from(&agents);
                Some(Ok(agents))
            }
            Err(error) => {
                // Said once: the next change is looked at again.
                self.seen.refresh();
                Some(Err(error))
            }
        }
    }
}
