//! Calls that are refused unless a person allows them: before they run, because a list or the tool refused them, or
//! afterwards, because they met a refusal while they ran.

use super::calls::{SlotState, answered};
use super::{AllowedCall, Execution, ExecutionStep, Permit};
use crate::approval::APPROVED;
use crate::message::ToolCall;
use crate::note::Note;
use crate::tool::{Refusal, ToolAccess, ToolOutcome};

/// A call that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Unapproved {
    /// The call.
    pub call: ToolCall,
    /// The terms on which it could run until it was refused; their rule may be the one that refused it.
    pub permit: Permit,
    /// What it needs and was refused.
    pub needs: Vec<Refusal>,
    /// Why it was refused.
    pub why: String,
    /// The result if the call is not allowed. If the call has run, its result.
    pub outcome: ToolOutcome,
    /// Whether the policy has allowed it, and the tool or the sandbox refused it.
    pub is_judged: bool,
    /// Whether it has run. Then it is not repeated here: only the agent knows whether that is right.
    pub has_run: bool,
}

impl Execution {
    /// The tool or the sandbox refused the running call at `slot` what a person may grant.
    pub fn tool_refused(
        &mut self,
        slot: usize,
        outcome: ToolOutcome,
        needs: Vec<Refusal>,
        notes: &mut Vec<Note>,
    ) -> ExecutionStep {
        let Some(AllowedCall { slot, call, permit }) = self.calls.running(slot) else {
            return ExecutionStep::Wait;
        };
        let has_run = has_run(permit.access, &needs);
        let why =
            if has_run { "permissions.net does not grant it.".to_owned() } else { outcome.content.clone() };
        let unapproved = Unapproved { call, permit, needs, why, outcome, is_judged: true, has_run };
        self.calls.set(slot, SlotState::Unapproved(Box::new(unapproved)));
        self.advance(notes)
    }

    /// A person allowed the call at `slot`: it runs with what it needs. If it has run already, the agent learns that it may
    /// make it again.
    pub fn approved(&mut self, slot: usize, notes: &mut Vec<Note>) -> ExecutionStep {
        let Some(unapproved) = self.calls.unapproved(slot) else { return ExecutionStep::Wait };
        if unapproved.has_run {
            let needs: Vec<String> = unapproved.needs.iter().map(ToString::to_string).collect();
            let words = format!(
                "[The user allowed this very command {}: call it again unchanged if you need it to.]",
                needs.join(", ")
            );
            return self.finish_unapproved(slot, &unapproved, &words, notes);
        }
        if !unapproved.is_judged {
            notes.push(called(&self.agent, &unapproved.call, true, APPROVED));
        }
        let Unapproved { permit: Permit { access, mut grants, .. }, needs, .. } = unapproved;
        grants.extend(needs);
        self.calls.set(slot, SlotState::Waiting(Permit { access, rule: APPROVED.to_owned(), grants }));
        self.advance(notes)
    }

    /// The call at `slot` was not allowed; `words` say how the question ended.
    pub fn not_approved(&mut self, slot: usize, words: &str, notes: &mut Vec<Note>) -> ExecutionStep {
        let Some(unapproved) = self.calls.unapproved(slot) else { return ExecutionStep::Wait };
        if unapproved.is_judged {
            let words = if unapproved.has_run { format!("[{words}]") } else { words.to_owned() };
            return self.finish_unapproved(slot, &unapproved, &words, notes);
        }
        let Unapproved { call, permit, mut outcome, .. } = unapproved;
        self.record.denied(&call);
        outcome.content = format!("{}\n{words}", outcome.content);
        notes.push(called(&self.agent, &call, false, &permit.rule));
        notes.push(answered(&self.agent, &call, &outcome));
        self.record.note_error(&call, &outcome);
        self.calls.refuse(call, outcome.clone());
        self.calls.set(slot, SlotState::Done(outcome));
        self.advance(notes)
    }

    /// The call at `slot` has its result, with `words` about the question.
    fn finish_unapproved(
        &mut self,
        slot: usize,
        unapproved: &Unapproved,
        words: &str,
        notes: &mut Vec<Note>,
    ) -> ExecutionStep {
        let Unapproved { call, outcome, .. } = unapproved;
        let outcome = ToolOutcome { content: format!("{}\n{words}", outcome.content), ..outcome.clone() };
        notes.push(answered(&self.agent, call, &outcome));
        self.record.finished(call, &outcome);
        self.calls.set(slot, SlotState::Done(outcome));
        self.advance(notes)
    }
}

/// Whether a call that needs these has run and met the refusal, and is not made again for the agent. A tool that only
/// reads is simply called again: nothing can be done twice by it.
pub(crate) fn has_run(access: ToolAccess, needs: &[Refusal]) -> bool {
    access == ToolAccess::Mutating && needs.iter().any(|need| matches!(need, Refusal::Host { .. }))
}

pub(super) fn called(agent: &str, call: &ToolCall, allowed: bool, rule: &str) -> Note {
    Note::ToolCalled { agent: agent.to_owned(), call: call.clone(), allowed, rule: rule.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_read_has_not_run() {
        let host = [Refusal::Host { host: "docs.rs".into() }];
        let path = [Refusal::Read { path: "/etc/hosts".into() }];
        let (reads, changes) = (ToolAccess::ReadOnly, ToolAccess::Mutating);
        for (access, needs, expected) in
            [(reads, host.as_slice(), false), (changes, &host, true), (changes, &path, false)]
        {
            assert_eq!(has_run(access, needs), expected, "{access:?} {needs:?}");
        }
    }
}
