//! The pure core of rawko: it makes all decisions and performs no I/O.
//!
//! Events (what happened) go in, effects (what to do) come out. The core uses no clock, files, network, environment
//! variables, processes or random numbers: such data arrives in events, and `tests/purity.rs` checks that this stays
//! true. `ARCHITECTURE.md` describes the whole.

pub mod agent;
pub mod approval;
pub mod arbiter;
pub mod attachment;
pub mod conversation;
pub mod cost;
mod effect_id;
pub mod error;
pub mod facts;
pub mod hook;
pub mod hosted;
pub mod integrity;
mod lost_work;
pub mod machine;
pub mod memory;
pub mod memory_limit;
pub mod message;
mod model_chain;
pub mod models;
pub mod note;
pub mod policy;
pub mod request;
pub mod retry;
pub mod session;
pub mod setup;
pub mod text;
pub mod thinking;
pub mod time;
pub mod time_span;
pub mod timeline;
pub mod tool;
mod tool_spec;
pub mod usage;
mod user_override;

pub use error::{ErrorCode, ErrorInfo, FailedWork};
pub use memory_limit::{MemoryLimit, NotAMemoryLimit};
pub use time::Timestamp;
pub use time_span::{NotATimeSpan, PlainNumber, TimeSpan};
pub use usage::Usage;
