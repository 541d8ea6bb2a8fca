//! What goes to the client while it works. A client that does not read holds back what it is shown, never a run.

use std::sync::Arc;

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{SessionId, SessionNotification, SessionUpdate};
use tokio::sync::Semaphore;

/// Updates that may wait for a client to read them.
const MOST_WAITING: usize = 512;
/// By what an update is known on its way out. Quotes inside of texts are escaped, so nothing else has it.
const METHOD: &str = "\"method\":\"session/update\"";

/// How many more updates may be on their way.
#[derive(Debug)]
pub(super) struct Budget(Semaphore);

impl Default for Budget {
    fn default() -> Self {
        Self(Semaphore::new(MOST_WAITING))
    }
}

impl Budget {
    /// This line was written.
    pub(super) fn written(&self, line: &str) {
        if line.contains(METHOD) {
            self.0.add_permits(1);
        }
    }

    /// Nothing is written any more.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

/// The client is gone.
#[derive(Debug)]
pub(super) struct ClientGone;

/// Sends the updates of one session.
#[derive(Clone)]
pub(super) struct Outbox {
    pub(super) connection: ConnectionTo<Client>,
    pub(super) budget: Arc<Budget>,
    pub(super) session: SessionId,
}

impl Outbox {
    /// Sends it, once there is room.
    pub(super) async fn send(&self, update: SessionUpdate) -> Result<(), ClientGone> {
        self.budget.0.acquire().await.map_err(|_| ClientGone)?.forget();
        let notification = SessionNotification::new(self.session.clone(), update);
        self.connection.send_notification(notification).map_err(|_| ClientGone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn only_updates_give_a_place_back() {
        let budget = Budget::default();
        let all = budget.0.acquire_many(u32::try_from(MOST_WAITING).unwrap()).await.unwrap();
        all.forget();
        budget.written(&json!({"id": 1, "result": {"text": METHOD}}).to_string());
        assert_eq!(budget.0.available_permits(), 0);
        budget.written(&json!({"method": "session/update", "params": {}}).to_string());
        assert_eq!(budget.0.available_permits(), 1);
        budget.close();
        assert!(budget.0.acquire().await.is_err());
    }
}
