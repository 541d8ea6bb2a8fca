//! Shell text taken apart, once for all who ask about it: what may run (`policy`), what a command was about (`facts`), and
//! what the checks of a project name (the SDK).
//!
//! The parser goes through functions, loops, conditions, here-documents and substitutions, and says of each command where
//! it is. Whether a construct is allowed is not its business.

mod calculation;
mod compound;
mod parser;
mod reader;
mod redirect;
mod script;
mod words;

pub(crate) use calculation::{compared, integers};
pub(crate) use parser::check_size;
pub use parser::{is_name, parse};
pub(crate) use script::{AndOrList, CommandList, Flow, Joint, Member, Pipeline, Unfollowed};
pub use script::{
    Assignment, LoopVariable, ParsedScript, Redirection, RedirectionEffect, ShellWord, Simple, WordKind,
};
