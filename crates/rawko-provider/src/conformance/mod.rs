//! The rules of the provider contract (`docs/providers.md`), as checks that run against any [`Provider`].
//!
//! A test gives the provider something to talk to that plays a [`Script`]: a server on loopback, a fake model, the provider
//! itself. [`check`] asks for one such pair for each rule, and says which rules were broken. All wires and `Scripted` pass all of
//! them.
//!
//! ```
//! use rawko_provider::conformance::{Subject, check};
//! use rawko_provider::Scripted;
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let broken = check(|script| Subject::new(Scripted::new(script))).await;
//! assert_eq!(broken, []);
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```

mod answer;
mod rules;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::provider::Provider;
use crate::scripted::{Script, ScriptedReply};

use answer::{Completion, ask};

/// How long a provider may take for one rule.
const LIMIT: Duration = Duration::from_secs(20);

/// A provider, ready to be asked, and what it talks to.
pub struct Subject {
    provider: Arc<dyn Provider>,
    requests: Option<Requests>,
    /// Dropped after the provider: the server that it talks to.
    _peer: Box<dyn Any + Send>,
}

type Requests = Box<dyn Fn() -> Vec<Vec<u8>> + Send>;

impl Subject {
    /// A provider that plays the script by itself.
    #[must_use]
    pub fn new(provider: impl Provider + 'static) -> Self {
        Self::shared(Arc::new(provider))
    }

    /// The same for a provider that is shared already.
    #[must_use]
    pub fn shared(provider: Arc<dyn Provider>) -> Self {
        Self { provider, requests: None, _peer: Box::new(()) }
    }

    /// Keeps `peer`, which plays the script, until the rule is checked.
    #[must_use]
    pub fn with_peer(mut self, peer: impl Any + Send) -> Self {
        self._peer = Box::new(peer);
        self
    }

    /// Lets the rules about requests be checked: `requests` returns the bodies of all requests so far.
    #[must_use]
    pub fn with_requests(mut self, requests: impl Fn() -> Vec<Vec<u8>> + Send + 'static) -> Self {
        self.requests = Some(Box::new(requests));
        self
    }
}

/// A rule that a provider broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// What happened instead.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.found)
    }
}

/// Checks all rules, each with a provider of its own that `make` creates for a script, and returns those that were broken.
///
/// The provider must play the replies of the script in order, one for each request, and must neither retry nor change them.
/// It may stream an answer in pieces, or not at all. Rules about requests are checked only where the subject shows them.
/// Takes a second or two, and needs a runtime with a timer.
pub async fn check(mut make: impl FnMut(Script) -> Subject) -> Vec<Violation> {
    let mut broken = Vec::new();
    for rule in rules::all() {
        let subject = make(Script(rule.replies()));
        let found = match tokio::time::timeout(LIMIT, rule.run(&subject)).await {
            Ok(Ok(())) => continue,
            Ok(Err(found)) => found,
            Err(_) => format!("it took longer than {} s", LIMIT.as_secs()),
        };
        broken.push(Violation { rule: rule.words(), found });
    }
    broken
}
