//! The commands, one file each: their options, and what they do.

pub(crate) mod agents;
pub(crate) mod approve;
pub(crate) mod arbiter;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod continuing;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod fork;
pub(crate) mod init;
mod kept;
pub(crate) mod machine;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod providers;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod rewind;
pub(crate) mod run;
pub(crate) mod sessions;
pub(crate) mod skills;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod usage;
