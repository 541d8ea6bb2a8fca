//! What was denied in a run, and which changes of the configuration would have allowed it.

use std::collections::BTreeSet;

use rawko_core::approval::Approval;
use rawko_core::session::{Event, Note};

/// The changes of the configuration that would have allowed what the present task was denied, each once.
#[derive(Debug, Clone, Default)]
pub struct Denials {
    changes: Vec<String>,
    /// The calls that the user allowed or refused: for these nothing has to be changed.
    decided: BTreeSet<String>,
}

impl Denials {
    /// Takes note of an event and what it led to. A new task begins with none.
    pub fn take(&mut self, event: &Event, notes: &[Note]) {
        if matches!(event, Event::TaskContinued { .. }) {
            *self = Self::default();
        }
        for note in notes {
            self.note(note);
        }
    }

    fn note(&mut self, note: &Note) {
        match note {
            Note::ApprovalAnswered {
                call_id,
                approval: Approval::Allowed { .. } | Approval::Denied { .. },
                ..
            } => {
                self.decided.insert(call_id.clone());
            }
            Note::ToolFinished { call_id, outcome, .. } if !self.decided.remove(call_id) => {
                for change in outcome.changes_to_allow_it() {
                    if !self.changes.contains(&change) {
                        self.changes.push(change);
                    }
                }
            }
            _ => {}
        }
    }

    /// The changes, in the order in which they were first needed.
    #[must_use]
    pub fn changes(&self) -> &[String] {
        &self.changes
    }
}

#[cfg(test)]
mod tests {
    use rawko_core::ErrorCode;
    use rawko_core::tool::{Refusal, ToolOutcome};

    use super::*;

    fn finished(call_id: &str, would_allow: Option<&str>, refused: Vec<Refusal>) -> Note {
        let outcome = ToolOutcome {
            would_allow: would_allow.map(str::to_owned),
            refused,
            ..ToolOutcome::error(ErrorCode::PermissionError, "no")
        };
        let (agent, tool) = ("planner".to_owned(), "Bash".to_owned());
        Note::ToolFinished { agent, call_id: call_id.to_owned(), tool, outcome }
    }

    #[test]
    fn each_change_is_named_once_and_what_the_user_decided_is_not() {
        let host = |host: &str| vec![Refusal::Host { host: host.to_owned() }];
        let answered = |call_id: &str, approval: Approval| Note::ApprovalAnswered {
            agent: "planner".to_owned(),
            call_id: call_id.to_owned(),
            digest: "d".to_owned(),
            approval,
        };
        let notes = [
            finished("1", Some("add `- make` under x"), Vec::new()),
            finished("2", Some("add `- make` under x"), Vec::new()),
            finished("3", None, host("pypi.org")),
            answered("4", Approval::Allowed { by: "you".to_owned() }),
            finished("4", None, host("docs.rs")),
            answered("5", Approval::Denied { by: "you".to_owned() }),
            finished("5", Some("add `- rm` under x"), Vec::new()),
            answered("6", Approval::Expired),
            finished("6", Some("add `- ls` under x"), Vec::new()),
            finished("7", None, Vec::new()),
        ];
        let mut denials = Denials::default();
        denials.take(&Event::RanBeside { sessions: Vec::new() }, &notes);
        let pypi = "add `- pypi.org` under permissions.net, or `- pypi` for all hosts of that package manager; \
             for one run: --allow-net=pypi";
        assert_eq!(denials.changes(), ["add `- make` under x", pypi, "add `- ls` under x"]);
    }
}
