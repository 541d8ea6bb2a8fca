//! Policy: who may do what, decided from configuration alone (`docs/tools.md`).
//!
//! Decides on tools and shell commands, and owns the arithmetic of permissions. Refuses to look at the
//! world: whether a path is really inside the project, and what a program really does, is the second wall's
//! business (`rawko-tools` and the sandbox). Whatever is not understood here is denied.

mod address;
mod bash;
mod call;
mod mcp;
mod permission;
mod permissions;
mod tools;

pub use address::{address_is_granted, is_public};
pub use bash::{BashFilterError, bash_permission, named_directories, validate_filter};
pub(crate) use bash::{
    effect_of_redirection, effect_of_words, keeps_output, parse_script, script, writes_its_words,
};
pub use call::{BASH, CallContext, call_permission};
pub(crate) use mcp::entry_covers;
pub use mcp::{MCP_CALL, MCP_PREFIX, TOOL_SEARCH, is_mcp_tool, resolve_mcp_call, search_tools};
pub use permission::Permission;
pub use permissions::{effective_permissions, host_is_granted, net_preset_of, permissions_of_calls};
pub use tools::{
    CONTROL_TOOLS, WEB_FETCH, WEB_SEARCH, is_control_tool, is_of_use, nearest_name, offered_tools,
    tool_permission,
};
