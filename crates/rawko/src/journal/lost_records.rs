//! The data after the intact records of a damaged journal. None of it can be verified; it is read as far as it can be,
//! to tell people and agents what may have been done.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};

use rawko_core::message::ToolCall;
use rawko_core::session::{Effect, EffectAnswer, Event, Stamped};
use rawko_core::text::truncate;
use rawko_core::tool::ToolAccess;
use serde::Deserialize;
use serde_json::Value;

use super::record::{JournaledCall, JournaledEffect, LONGEST_JOURNAL, Record, RecordKind, StepRecord};

/// Kinds of records that are named.
const NAMED: usize = 20;
/// Calls that are named.
const CALLS: usize = 20;
/// Bytes of a call that are shown.
const CALL_BYTES: usize = 200;

/// The lines that could not be kept.
#[derive(Debug, Default)]
pub(super) struct LostRecords {
    pub(super) lines: u64,
    pub(super) bytes: u64,
    /// Their kinds: `ModelReplied`, `step` and so on.
    pub(super) kinds: Vec<String>,
    /// The calls that they announce and that may have changed something.
    pub(super) calls: Vec<String>,
    /// How many more of those there are.
    pub(super) more_calls: u64,
}

#[derive(Deserialize)]
struct LostLine {
    kind: RecordKind,
    data: Value,
}

impl LostRecords {
    /// Reads the data after the byte `from`. `known` are the intact records before it.
    pub(super) fn read(mut file: &File, from: u64, known: &[Record]) -> std::io::Result<Self> {
        let bytes = file.metadata()?.len().saturating_sub(from);
        let mut lost = Self { bytes, ..Self::default() };
        // What models asked for: long arguments are only there.
        let mut asked: BTreeMap<String, Value> = BTreeMap::new();
        for record in known {
            if let Record::Event(stamped) = record {
                asked.extend(calls_of(&stamped.event).map(|call| (call.id.clone(), call.input.clone())));
            }
        }
        file.seek(SeekFrom::Start(from))?;
        let mut source = BufReader::new(file.take(LONGEST_JOURNAL));
        let mut line = Vec::new();
        while source.read_until(b'\n', &mut line)? > 0 {
            lost.line(&line, &mut asked);
            line.clear();
        }
        Ok(lost)
    }

    fn line(&mut self, line: &[u8], asked: &mut BTreeMap<String, Value>) {
        self.lines += 1;
        let parsed = serde_json::from_slice::<LostLine>(line).ok();
        if self.kinds.len() < NAMED {
            self.kinds.push(parsed.as_ref().map_or_else(|| "unreadable".to_owned(), LostLine::name));
        }
        match parsed {
            Some(LostLine { kind: RecordKind::Event, data }) => {
                if let Ok(stamped) = serde_json::from_value::<Stamped>(data) {
                    asked.extend(calls_of(&stamped.event).map(|call| (call.id.clone(), call.input.clone())));
                }
            }
            Some(LostLine { kind: RecordKind::Step, data }) => {
                if let Ok(step) = serde_json::from_value::<StepRecord>(data) {
                    step.effects.iter().for_each(|effect| self.effect(effect, asked));
                }
            }
            Some(LostLine { kind: RecordKind::Header, .. }) | None => {}
        }
    }

    fn effect(&mut self, effect: &JournaledEffect, asked: &BTreeMap<String, Value>) {
        let (words, call) = match effect {
            JournaledEffect::RunTool { call, access: ToolAccess::Mutating, .. } => (None, Some(call)),
            JournaledEffect::Whole(it @ Effect::RunOutsideAgent { .. }) => (Some(it.in_words()), None),
            JournaledEffect::RunTool { .. } | JournaledEffect::Whole(_) => return,
        };
        if self.calls.len() == CALLS {
            self.more_calls += 1;
            return;
        }
        let described = call.map(|call| described(call, call.input.as_ref().or_else(|| asked.get(&call.id))));
        self.calls.extend(words.or(described));
    }
}

impl LostLine {
    fn name(&self) -> String {
        match (self.data.get("type").and_then(Value::as_str), self.kind) {
            (Some(name), _) => name.to_owned(),
            (None, RecordKind::Header) => "header".to_owned(),
            (None, RecordKind::Event) => "event".to_owned(),
            (None, RecordKind::Step) => "step".to_owned(),
        }
    }
}

fn calls_of(event: &Event) -> impl Iterator<Item = &ToolCall> {
    let message = match event {
        Event::Answered { answer: EffectAnswer::ModelReplied { message, .. }, .. } => Some(message),
        _ => None,
    };
    message.into_iter().flat_map(|message| message.tool_calls())
}

/// A call in a few words: the tool, and the command or the file.
fn described(call: &JournaledCall, input: Option<&Value>) -> String {
    let text = |name| input.and_then(|input| input.get(name)).and_then(Value::as_str).map(str::to_owned);
    let what = text("command").or_else(|| text("file_path")).or_else(|| input.map(Value::to_string));
    match what {
        Some(what) => truncate(&format!("{}: {}", call.name, what.replace('\n', " ")), CALL_BYTES),
        None => call.name.clone(),
    }
}
