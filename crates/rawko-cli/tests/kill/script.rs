//! What the model does in the runs of this matrix, as data, and the server that plays it without a memory.

use std::sync::Arc;
use std::time::Duration;

use rawko_core::Usage;
use serde_json::{Value, json};
use testkit::{Answer, AnswerCall, Asked, Delivery, ModelServer, Say, Who};

/// What an agent reads about a call that may or may not have been done.
pub(crate) const UNKNOWN: &str = "Outcome unknown";

/// The task of a session that is continued.
pub(crate) const NEXT_TASK: &str = "Make sub sub.";

/// What an agent reads when its conversation goes on.
const GOES_ON: &str = "This is the next one, in the same project";

/// The beginning of the ids of calls by which the model makes sure of another call.
const MEND: &str = "mend";

/// One execution after the other; then the arbiter is content.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    stages: Vec<Stage>,
    /// How long the server takes for an answer.
    pace: Duration,
    /// What follows when the session is continued with [`NEXT_TASK`].
    next: Option<Box<Script>>,
}

/// One execution: who works, and the calls of each turn.
#[derive(Debug, Clone)]
struct Stage {
    agent: &'static str,
    turns: Vec<Vec<Call>>,
}

/// A tool call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    id: String,
    tool: &'static str,
    input: Value,
    /// For a call that changes something: a command that does the same where it is not done yet.
    mend: Option<String>,
}

impl Script {
    /// Three agents and twelve turns: reads side by side, several changes in one turn, a denial, a plan, an answer of
    /// the arbiter that is none.
    pub(crate) fn twelve_turns() -> Self {
        let plan = json!({"steps": [{"description": "Make add add"}, {"description": "Try it"}]});
        let planner = vec![
            vec![
                look("a0", "Glob", &json!({"pattern": "**/*.sh"})),
                look("a1", "Read", &json!({"file_path": "calc.sh"})),
                look("a2", "UpdatePlan", &plan),
            ],
            vec![report("a3", "add subtracts")],
        ];
        let edit = json!({"file_path": "calc.sh", "old_string": "$1 - $2", "new_string": "$1 + $2"});
        let write = json!({"file_path": "notes/why.md", "content": "It subtracted.\n"});
        let developer = vec![
            vec![line("b0", "first")],
            vec![
                look("b1", "Read", &json!({"file_path": "calc.sh"})),
                look("b2", "Grep", &json!({"pattern": "add", "output_mode": "content"})),
                line("b3", "second"),
            ],
            vec![change("b4", "Edit", &edit, "grep -q ' + ' calc.sh || sed -i 's/ - / + /' calc.sh")],
            vec![line("b5", "third"), line("b6", "fourth")],
            vec![change(
                "b7",
                "Write",
                &write,
                "[ -s notes/why.md ] || { mkdir -p notes && echo 'It subtracted.' > notes/why.md; }",
            )],
            vec![look("b8", "Format", &json!({"disk": "all"})), look("b9", "Glob", &json!({"pattern": "*"}))],
            vec![report("b10", "add adds now")],
        ];
        let tester = vec![
            vec![line("c0", "fifth")],
            vec![look("c1", "Read", &json!({"file_path": "notes/why.md"}))],
            vec![report("c2", "it adds")],
        ];
        Self::of([("planner", planner), ("developer", developer), ("tester", tester)], Duration::ZERO)
    }

    /// Many turns, most of them with a change that takes a while, against a server that takes a while too.
    pub(crate) fn long() -> Self {
        let stages = ["developer", "tester", "developer"].into_iter().enumerate().map(|(stage, agent)| {
            let turn = |turn: usize| {
                // Letters: the loop detector does not take a text for new because of its figures.
                let letter = |n: usize| char::from(b'a' + u8::try_from(n).unwrap());
                let name = format!("s{}t{}", letter(stage), letter(turn));
                match turn % 4 {
                    3 => vec![look(&name, "Read", &json!({"file_path": "calc.sh"}))],
                    2 => vec![slow_line(&format!("{name}a"), "a"), line(&format!("{name}b"), &name)],
                    _ => vec![slow_line(&name, &name)],
                }
            };
            let mut turns: Vec<Vec<Call>> = (0..7).map(turn).collect();
            turns.push(vec![report(&format!("s{stage}end"), "a part of it")]);
            (agent, turns)
        });
        Self::of(stages, Duration::from_millis(4))
    }

    /// One developer who makes these calls, one a turn.
    pub(crate) fn developer(commands: &[&str]) -> Self {
        let mut turns: Vec<Vec<Call>> = commands
            .iter()
            .enumerate()
            .map(|(at, command)| {
                vec![change(&format!("d{at}"), "Bash", &json!({"command": command}), "true")]
            })
            .collect();
        turns.push(vec![report("end", "did it")]);
        Self::of([("developer", turns)], Duration::ZERO)
    }

    /// A short task, and another one in which its developer goes on and a reviewer begins.
    pub(crate) fn two_tasks() -> Self {
        let first = vec![vec![line("f0", "first")], vec![report("f1", "a part of it")]];
        let edit = json!({"file_path": "calc.sh", "old_string": "$1 - $2", "new_string": "$1 + $2"});
        let developer = vec![
            vec![line("g0", "second"), look("g1", "Read", &json!({"file_path": "calc.sh"}))],
            vec![change("g2", "Edit", &edit, "grep -q ' + ' calc.sh || sed -i 's/ - / + /' calc.sh")],
            vec![line("g3", "third")],
            vec![report("g4", "it adds")],
        ];
        let verdict = json!({"verdict": "approved", "summary": "it is well"});
        let reviewer = vec![
            vec![look("h0", "Read", &json!({"file_path": "calc.sh"}))],
            vec![look("h1", "Report", &verdict)],
        ];
        let next = Self::of([("developer", developer), ("reviewer", reviewer)], Duration::ZERO);
        Self { next: Some(Box::new(next)), ..Self::of([("developer", first)], Duration::ZERO) }
    }

    fn of(stages: impl IntoIterator<Item = (&'static str, Vec<Vec<Call>>)>, pace: Duration) -> Self {
        let stages = stages.into_iter().map(|(agent, turns)| Stage { agent, turns }).collect();
        Self { stages, pace, next: None }
    }

    /// Whether the session is continued when its first task has ended.
    pub(crate) fn is_continued(&self) -> bool {
        self.next.is_some()
    }

    /// For every change, in order, the command that makes it where it is not made yet.
    pub(crate) fn changes(&self) -> Vec<&str> {
        let calls = self.stages.iter().flat_map(|stage| stage.turns.iter().flatten());
        let own = calls.filter_map(|call| call.mend.as_deref());
        own.chain(self.next.iter().flat_map(|next| next.changes())).collect()
    }

    /// A server that plays it.
    pub(crate) fn serve(&self) -> ModelServer {
        let script = Arc::new(self.clone());
        ModelServer::start(move |asked| script.answer(asked))
    }

    fn answer(&self, asked: &Asked) -> Answer {
        match &self.next {
            Some(next) if asked.json.to_string().contains(NEXT_TASK) => {
                next.answer_after(self.stages.len(), asked)
            }
            _ => self.answer_after(0, asked),
        }
    }

    /// The answer in a task before which the session had so many executions.
    fn answer_after(&self, before: usize, asked: &Asked) -> Answer {
        let said = Said::of(asked, before);
        let answer = match asked.who() {
            Who::Select => decide(json!({"decision": "SELECT_MODE", "mode": self.stages[0].agent,
                "reason": "somebody has to begin"})),
            // Once in a run the arbiter says nothing that can be used, and is asked again.
            Who::Evaluate if said.executions == 1 && said.turns == 0 => {
                Say { text: "Well, let me think.".into(), ..Say::default() }
            }
            Who::Evaluate => decide(match self.stages.get(said.executions) {
                Some(next) => json!({"decision": "SELECT_MODE", "mode": next.agent, "reason": "it is next"}),
                None => json!({"decision": "COMPLETE", "summary": "all done", "reason": "nothing is left"}),
            }),
            Who::Agent => self.turn(&said),
        };
        let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
        let delivery = Delivery { delay: self.pace, ..Delivery::default() };
        Say { usage, delivery, ..answer }.into()
    }

    fn turn(&self, said: &Said) -> Say {
        let Some(stage) = self.stages.get(said.executions) else { return Say::default() };
        if !said.unknown.is_empty() {
            let calls = stage.turns.iter().flatten();
            let mends: Vec<Call> = calls
                .filter(|call| said.unknown.contains(&call.id))
                .map(|call| {
                    let command = call.mend.as_deref().expect("only a change can be of unknown outcome");
                    let id = format!("{MEND}{}-{}", said.mends, call.id);
                    Call { input: json!({"command": command}), tool: "Bash", id, mend: None }
                })
                .collect();
            return say(&mends);
        }
        let turn = stage.turns.get(said.turns - said.mends).map(Vec::as_slice).unwrap_or_default();
        say(turn)
    }
}

/// What a request tells of what was said before.
#[derive(Debug, Default)]
struct Said {
    /// Executions that are over.
    executions: usize,
    /// The model's turns in this conversation.
    turns: usize,
    /// Those of them in which it made sure of something.
    mends: usize,
    /// The calls of the script whose outcome is unknown.
    unknown: Vec<String>,
}

impl Said {
    fn of(asked: &Asked, before: usize) -> Self {
        let mut messages = asked.messages();
        let begun = messages.iter().rposition(|message| message["content"].to_string().contains(GOES_ON));
        messages.drain(..begun.unwrap_or(0));
        let mut said = Self::default();
        if let Some(first) = messages.first() {
            let text = first["content"].to_string();
            let is_reported = |n: &usize| text.contains(&format!("(iteration {n})"));
            said.executions = (before + 1..).take_while(is_reported).count();
        }
        for message in &messages {
            if message["role"] == "assistant" {
                said.turns += 1;
                let is_mend = |block: &Value| block["id"].as_str().is_some_and(|id| id.starts_with(MEND));
                said.mends += usize::from(blocks(message).iter().any(is_mend));
            }
        }
        let last = messages.last().map(|message| blocks(message)).unwrap_or_default();
        said.unknown = last.iter().filter(|block| is_unknown(block)).filter_map(meant).collect();
        said
    }
}

/// The script's call that a result is about, be it its own or that of a call that made sure of it.
fn meant(result: &Value) -> Option<String> {
    let id = result["tool_use_id"].as_str()?;
    let own = id.strip_prefix(MEND).and_then(|rest| rest.split_once('-')).map_or(id, |(_, own)| own);
    Some(own.to_owned())
}

/// The blocks of a message's content.
pub(crate) fn blocks(message: &Value) -> Vec<Value> {
    message["content"].as_array().cloned().unwrap_or_default()
}

/// Whether a block is the result of a call that may or may not have been done.
pub(crate) fn is_unknown(block: &Value) -> bool {
    block["type"] == "tool_result" && block["content"].to_string().contains(UNKNOWN)
}

fn decide(input: Value) -> Say {
    Say { decision: Some(input), ..Say::default() }
}

fn say(calls: &[Call]) -> Say {
    let call = |call: &Call| AnswerCall {
        id: Some(call.id.clone()),
        name: call.tool.to_owned(),
        input: call.input.to_string(),
    };
    Say { text: "Now then.".into(), calls: calls.iter().map(call).collect(), ..Say::default() }
}

fn look(id: &str, tool: &'static str, input: &Value) -> Call {
    Call { id: id.to_owned(), tool, input: input.clone(), mend: None }
}

fn change(id: &str, tool: &'static str, input: &Value, mend: &str) -> Call {
    Call { id: id.to_owned(), tool, input: input.clone(), mend: Some(mend.to_owned()) }
}

/// A line after the end of a file that is outside the tree.
fn line(id: &str, text: &str) -> Call {
    let command = format!("echo {text} >> ../out/log");
    change(id, "Bash", &json!({"command": command}), &mend_line(text))
}

/// The same, taking its time before and after.
fn slow_line(id: &str, text: &str) -> Call {
    let text = format!("{id}-{text}");
    let command = format!("sleep 0.01; echo {text} >> ../out/log; sleep 0.01");
    change(id, "Bash", &json!({"command": command}), &mend_line(&text))
}

fn mend_line(text: &str) -> String {
    format!("grep -qx {text} ../out/log || echo {text} >> ../out/log")
}

fn report(id: &str, summary: &str) -> Call {
    look(id, "Report", &json!({"outcome": "success", "summary": summary}))
}
