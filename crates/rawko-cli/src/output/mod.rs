//! How things look: colours, columns, numbers, and text from outside made harmless. Writes nothing itself.

mod clock;
mod difference;
mod figure;
mod paint;
mod sanitize;
mod table;

pub(crate) use clock::Clock;
pub(crate) use difference::field_difference;
pub(crate) use figure::{about, age, cost, counted, duration, tokens};
pub(crate) use paint::Paint;
pub(crate) use rawko_core::text::shell_word as quoted;
pub(crate) use sanitize::{Sanitizer, clean, clean_line, escape_json, escaped, escaped_line};
pub(crate) use table::{Rows, fit, indent, or_dash, room, shortened, wrap};
