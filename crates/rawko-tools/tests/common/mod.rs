//! A registry with the built-in tools, and an agent that calls them.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod processes;

use std::path::Path;
use std::sync::Arc;

use rawko_core::agent::Permissions;
use rawko_core::tool::ToolOutcome;
use rawko_tools::{Confinement, FileTracker, ToolContext, ToolRegistry, builtin_tools};
use serde_json::Value;

pub(crate) struct Bench {
    pub(crate) registry: ToolRegistry,
    pub(crate) context: ToolContext,
}

impl Bench {
    pub(crate) fn new(root: &Path) -> Self {
        Self::with(root, Permissions::default())
    }

    pub(crate) fn with(root: &Path, permissions: Permissions) -> Self {
        let mut registry = ToolRegistry::new();
        for tool in builtin_tools(&Arc::new(FileTracker::new())) {
            registry.add(tool).unwrap();
        }
        let context = ToolContext {
            root: root.to_owned(),
            agent: "tester".into(),
            permissions: Arc::new(permissions),
            approved: Vec::new(),
            confinement: Confinement::Off,
            traceparent: None,
            progress: Arc::new(|_| {}),
        };
        Self { registry, context }
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> ToolOutcome {
        self.registry.call(tool, input, &self.context).await
    }

    /// The answer of a call that must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, tool: &str, input: Value) -> impl Future<Output = String> {
        let place = std::panic::Location::caller();
        async move {
            let outcome = self.call(tool, input).await;
            assert!(!outcome.is_error, "{place}: {}", outcome.content);
            outcome.content
        }
    }

    /// The answer of a call that must fail.
    #[track_caller]
    pub(crate) fn fails(&self, tool: &str, input: Value) -> impl Future<Output = String> {
        let place = std::panic::Location::caller();
        async move {
            let outcome = self.call(tool, input).await;
            assert!(outcome.is_error, "{place}: {}", outcome.content);
            outcome.content
        }
    }
}
