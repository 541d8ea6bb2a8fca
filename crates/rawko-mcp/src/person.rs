//! Questions of servers to a person (elicitation).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};

/// What a server wants to know from a person while it works on a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The name of the server, as the user has configured it; empty where there is none.
    pub server: String,
    /// The server's words. They may say anything: show them as what they are.
    pub message: String,
    /// JSON Schema of the answer: an object of plain values. `None` where the server asks the person to visit `url`.
    pub schema: Option<Value>,
    /// The address that the person is to visit.
    pub url: Option<String>,
}

impl Question {
    /// The values that the schema proposes.
    #[must_use]
    pub fn defaults(&self) -> Map<String, Value> {
        let properties = self.schema.as_ref().and_then(|schema| schema.get("properties"));
        let properties = properties.and_then(Value::as_object).into_iter().flatten();
        properties.filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone()))).collect()
    }
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The values, by the names of the schema; empty for a visit.
    Given(Map<String, Value>),
    /// The person says no.
    Declined,
    /// The person says nothing.
    Cancelled,
}

/// Asks a person. The future is dropped once the call is over.
pub type AskPerson = Arc<dyn Fn(Question) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;
