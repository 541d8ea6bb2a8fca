//! Work of a session whose records were lost, because the journal was damaged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arbiter::fence;

/// Work whose records are damaged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LostWork {
    /// The last record that is intact.
    pub after_record: u64,
    /// The calls in the lost records that may have changed something, as far as they can be read: tool and arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// How many more calls there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_calls: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl LostWork {
    /// What is known of it, in one sentence for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        let record = self.after_record;
        let calls = match self.listed().as_slice() {
            [] => "no call that changes something can be read there".to_owned(),
            calls => format!("calls that may have been made there: {}", calls.join("; ")),
        };
        format!(
            "the work after record {record} was lost with the damaged part of the journal; its outcome is unknown, and the \
             project may hold its effects ({calls})"
        )
    }

    /// What agents and arbiter read.
    pub(crate) fn text(&self) -> String {
        let text = format!(
            "The journal of this session was damaged and repaired. What was done after its record {} is not known any \
             more, neither the answers nor the outcome of calls. The project may hold effects of that work: look at what \
             is there before you do anything again.",
            self.after_record
        );
        match self.listed().as_slice() {
            [] => text,
            calls => {
                format!("{text} Calls that may have been made:\n{}", fence("lost-calls", &calls.join("\n")))
            }
        }
    }

    /// The calls, and how many are left out.
    fn listed(&self) -> Vec<String> {
        let more = (self.more_calls > 0).then(|| format!("and {} more", self.more_calls));
        self.calls.iter().cloned().chain(more).collect()
    }
}
