//! Keys and values that the specification has and this version does not support. They are errors that say so: a
//! setting that is silently ignored is worse than none.

use super::schema::FileKind;

const NOT_YET: &str = "remove it; it would have no effect";

/// Help for the key at `pointer`, if it is unsupported.
pub(super) fn key(kind: FileKind, pointer: &str) -> Option<&'static str> {
    match (kind, pointer) {
        (
            FileKind::Agent,
            "/permissions/caches"
            | "/permissions/memory"
            | "/permissions/require"
            | "/permissions/sandbox"
            | "/permissions/askTimeout",
        ) => Some("write it into `config.yaml`: it holds for all agents"),
        (FileKind::Agent, "/mcp" | "/mcpServers" | "/hooks") => Some(NOT_YET),
        _ => None,
    }
}

/// Help for the value at `pointer`, if it is unsupported.
pub(super) fn value(kind: FileKind, pointer: &str, given: &str) -> Option<&'static str> {
    if kind != FileKind::Config {
        return None;
    }
    let in_provider = pointer.starts_with("/provider/") && pointer.ends_with("/type");
    if in_provider { provider(given) } else { None }
}

/// Help for a provider of this name or type, if it is unsupported.
pub(super) fn provider(name: &str) -> Option<&'static str> {
    match name {
        "local" => Some(
            "rawko runs no model inside its own process: start a server for it and use its preset, `ollama`, `llamacpp`, `lmstudio` or `vllm`",
        ),
        "replay" => Some("`replay` is a command (`rawko replay ID`), not a provider to configure"),
        _ => None,
    }
}
