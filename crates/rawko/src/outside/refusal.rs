//! Why a run with outside agents does not begin.

use rawko_core::setup::{AgentSetup, Setup};

use crate::error::Error;
use crate::setup::rawko::Rawko;

impl Rawko {
    /// Checks that the outside agents of a run can work, and that its limits hold for them.
    ///
    /// # Errors
    /// [`Error::Setup`] that names the agent and what to change.
    pub(crate) fn check_outside(&self, setup: &Setup) -> Result<(), Error> {
        for (name, agent) in &setup.agents {
            let Some(acp) = &agent.config.acp else { continue };
            if self.builder.outside.is_none() {
                return Err(Error::Setup {
                    message: format!(
                        "the agent `{name}` ({}) is an ACP agent, and this rawko was built without ACP",
                        agent.source
                    ),
                    hint: "build one with it: cargo install --locked --path crates/rawko-cli --features acp"
                        .to_owned(),
                });
            }
            if let Some(key) = &acp.key
                && (self.builder.environment)(key).is_none_or(|value| value.trim().is_empty())
            {
                return Err(Error::Setup {
                    message: format!("the agent `{name}` is to be given {key}, which is not set"),
                    hint: format!("set {key}, or take `key` out of its `acp` in {}", agent.source),
                });
            }
            if let Some(limit) = unheld_cost_limit(agent, setup) {
                return Err(Error::Setup {
                    message: format!(
                        "{limit} cannot hold the agent `{name}`: what it spends is known only after its work, if it says \
                         so at all"
                    ),
                    hint:
                        "limit its time as well: --timeout TIME, or `limits: {timeout: 600000}` of the agent"
                            .to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// A limit of the cost that someone set and that holds the agent by nothing, not even by its time.
fn unheld_cost_limit(agent: &AgentSetup, setup: &Setup) -> Option<&'static str> {
    let limits = &setup.limits;
    let of_run = limits.max_cost_usd.is_some() && !limits.cost_is_default;
    let of_agent = agent.config.budget.max_cost_usd.is_some();
    let has_time = agent.config.limits.timeout.is_some()
        || agent.config.budget.max_duration.is_some()
        || limits.max_duration_ms.is_some() && !limits.duration_is_default;
    match (has_time, of_run, of_agent) {
        (false, true, _) => Some("the cost limit of this run"),
        (false, false, true) => Some("`budget.maxCostUsd`"),
        (false, false, false) | (true, ..) => None,
    }
}
