//! The execution of an outside agent: one prompt, and its end. There are no turns of a model and no calls of rawko's tools.

use serde_json::json;

use super::Execution;
use crate::agent::outside::{OutsideAsked, OutsideEnd, OutsideStop, OutsideWork, verdict_in};
use crate::error::ErrorCode;
use crate::machine::{AgentResult, ExecutionEnd};
use crate::message::{Message, ToolCall};
use crate::note::Note;
use crate::tool::ToolOutcome;

/// What is recorded where its program said nothing.
const WITHOUT_A_WORD: &str = "The agent ended without a word.";

impl Execution {
    /// Whether another program does the agent's work.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        self.is_outside
    }

    /// All that the program is given.
    #[must_use]
    pub fn outside_prompt(&self) -> String {
        let log = self.dialogue.log();
        let opening = log.messages.first().map(|message| message.text()).unwrap_or_default();
        format!("{}\n\n{opening}", log.system.trim_end())
    }

    /// The program has ended its work. `calls` begins the ids of what it asked for.
    pub fn outside_ended(&mut self, work: &OutsideWork, calls: &str, notes: &mut Vec<Note>) -> AgentResult {
        self.record.used(work.usage.unwrap_or_default());
        for (number, asked) in (1..).zip(&work.asked) {
            let call = called(asked, format!("{calls}-{number}"));
            if !asked.allowed {
                self.record.denied(&call);
            }
            notes.extend(noted(&self.agent, call, asked));
        }
        self.record.turn(work.text.clone());
        let words = work.text.trim();
        if !words.is_empty() {
            self.dialogue.answered(Message::assistant(words), work.usage.unwrap_or_default());
        }
        let reason = match &work.end {
            OutsideEnd::Stopped { reason } => *reason,
            OutsideEnd::Failed { error } => {
                let said = if words.is_empty() { String::new() } else { format!(" It had said: {words}") };
                let output = format!("{}{said}", error.message);
                self.record.broke(error.clone());
                return self.record.end(ExecutionEnd::EndTurn, false, output);
            }
        };
        let stopped = |why: &str| format!("Stopped: {why}. {words}").trim().to_owned();
        match reason {
            OutsideStop::EndTurn if words.is_empty() => {
                self.record.end(ExecutionEnd::EndTurn, false, WITHOUT_A_WORD.to_owned())
            }
            OutsideStop::EndTurn if self.judges => match verdict_in(words) {
                Some((verdict, findings)) => {
                    self.record.judged(verdict, findings);
                    self.record.end(ExecutionEnd::Reported, verdict.is_result(), words.to_owned())
                }
                None => self.record.end(ExecutionEnd::EndTurn, true, words.to_owned()),
            },
            OutsideStop::EndTurn => self.record.end(ExecutionEnd::Reported, true, words.to_owned()),
            OutsideStop::MaxTokens => {
                self.record.end(ExecutionEnd::MaxIterations, true, stopped("its limit of tokens"))
            }
            OutsideStop::MaxTurns => {
                self.record.end(ExecutionEnd::MaxIterations, true, stopped("its limit of turns"))
            }
            OutsideStop::Refusal => {
                self.record.end(ExecutionEnd::Refusal, false, stopped("the agent declined"))
            }
            OutsideStop::Cancelled => {
                self.record.end(ExecutionEnd::EndTurn, false, stopped("the agent was cancelled"))
            }
        }
    }
}

/// What the program asked for, as a call.
fn called(asked: &OutsideAsked, id: String) -> ToolCall {
    let name = asked.act.as_str().to_owned();
    ToolCall { id, name, input: json!({ "title": asked.title }), invalid_input: None, withheld: None }
}

fn noted(agent: &str, call: ToolCall, asked: &OutsideAsked) -> [Note; 2] {
    let (agent, call_id, tool) = (agent.to_owned(), call.id.clone(), call.name.clone());
    let outcome = if asked.allowed {
        ToolOutcome::ok("allowed")
    } else {
        ToolOutcome::error(ErrorCode::PermissionError, format!("refused ({})", asked.rule))
    };
    [
        Note::ToolCalled { agent: agent.clone(), call, allowed: asked.allowed, rule: asked.rule.clone() },
        Note::ToolFinished { agent, call_id, tool, outcome },
    ]
}
