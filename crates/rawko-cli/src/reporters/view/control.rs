//! The keys of the view: what each does in which situation, and what is shown about that. Nothing is decided here: a key
//! asks the run for something, or answers a question of it.

use rawko_core::Timestamp;

use super::execution::flowing;
use super::keys::Key;
use super::line::{Line, Tone};
use super::model::Model;
use crate::output::clean_line;

/// How long a notice stays, in milliseconds.
const NOTICE_MS: u64 = 6_000;

/// What a person asks of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Steering {
    /// Begin nothing new.
    Pause,
    /// Go on after a pause.
    Go,
    /// Say this to the agent.
    Say(String),
    /// Skip the plan's current step.
    Skip,
    /// Let the agent try again.
    Retry,
    /// Let this agent work now.
    Force(String),
    /// End the run; the second time at once.
    Cancel,
}

/// What came of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Steer(Steering),
    /// The open question is answered.
    Answer(bool),
    /// The line that a server wants, or none.
    Line(Option<String>),
}

/// The state of the keyboard.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// Whether there is a keyboard, and a run that it can steer.
    pub(super) active: bool,
    mode: Mode,
    /// What was typed as the answer to the open question.
    answer: Input,
    /// What a server wants to know, and what is typed for it.
    line: Option<(String, Input)>,
    notice: Option<(String, Timestamp)>,
}

/// What the next key is for.
#[derive(Debug, Default)]
enum Mode {
    #[default]
    Keys,
    Help,
    /// An agent is chosen, by its place in the list.
    Choosing(usize),
    /// A message to the agent is typed.
    Saying(Input),
}

/// A line of text that is being typed.
#[derive(Debug, Default)]
struct Input {
    text: Vec<char>,
    /// Before which character the cursor stands.
    at: usize,
}

/// Every key and what it does.
const KEYS: [(&str, &str, &str); 7] = [
    ("p", "pause", "pause, or go on: what is under way ends, and nothing new begins"),
    ("s", "skip", "skip the current step of the plan"),
    ("r", "retry", "let the agent begin again, in a new conversation"),
    ("f", "agent", "choose the agent that works now"),
    ("m", "message", "say something to the agent; Enter does the same"),
    ("q", "stop", "end the run, like Ctrl-C; a second time: at once"),
    ("?", "help", "show or hide this list"),
];

impl Control {
    /// Takes a key. `asked` says that somebody waits for the answer to the question that is shown.
    pub(super) fn key(&mut self, key: &Key, model: &Model, asked: bool, now: Timestamp) -> Option<Action> {
        if let Some((_, input)) = &mut self.line {
            let line = if *key == Key::Escape { None } else { Some(input.key(key)?) };
            self.line = None;
            return Some(Action::Line(line));
        }
        match &mut self.mode {
            Mode::Saying(_) if *key == Key::Escape => {
                self.mode = Mode::Keys;
                return None;
            }
            Mode::Saying(input) => {
                let text = input.key(key)?;
                self.mode = Mode::Keys;
                let said = !text.trim().is_empty();
                return said.then(|| Action::Steer(Steering::Say(text.trim().to_owned())));
            }
            Mode::Choosing(at) => {
                let at = *at;
                return self.choose(key, at, model);
            }
            Mode::Keys | Mode::Help if model.question.is_some() => {
                return asked.then(|| self.type_answer(key)).flatten();
            }
            Mode::Keys | Mode::Help => {}
        }
        let key = match key {
            Key::Char(key) => *key,
            Key::Enter => 'm',
            Key::Paste(_) => {
                let mut input = Input::default();
                input.key(key);
                self.mode = Mode::Saying(input);
                return None;
            }
            _ => {
                self.mode = Mode::Keys;
                return None;
            }
        };
        let steering = match key {
            'p' if model.paused.is_some() => Steering::Go,
            'p' => Steering::Pause,
            's' => Steering::Skip,
            'r' => Steering::Retry,
            'q' => Steering::Cancel,
            'f' if model.agents.is_empty() => {
                self.tell("ignored: there are no agents to choose from", now);
                return None;
            }
            'f' => {
                self.mode = Mode::Choosing(0);
                return None;
            }
            'm' => {
                self.mode = Mode::Saying(Input::default());
                return None;
            }
            '?' => {
                self.mode = if matches!(self.mode, Mode::Help) { Mode::Keys } else { Mode::Help };
                return None;
            }
            _ => {
                let key = clean_line(&key.to_string());
                self.tell(&format!("ignored: `{key}` has no meaning here; ? shows the keys"), now);
                return None;
            }
        };
        Some(Action::Steer(steering))
    }

    /// Shows a short text for a while.
    pub(super) fn tell(&mut self, text: &str, now: Timestamp) {
        self.notice = Some((text.to_owned(), Timestamp(now.0.saturating_add(NOTICE_MS))));
    }

    /// Lets notices go whose time is up, and what was typed for a question that is closed.
    pub(super) fn pass(&mut self, model: &Model, now: Timestamp) {
        self.notice.take_if(|(_, until)| *until <= now);
        if model.question.is_none() {
            self.answer = Input::default();
        }
    }

    /// A line is wanted behind this prompt, or none is any more.
    pub(super) fn ask_for_line(&mut self, prompt: Option<String>) {
        let is_known = matches!((&self.line, &prompt), (Some((known, _)), Some(prompt)) if known == prompt);
        if !is_known {
            self.line = prompt.map(|prompt| (prompt, Input::default()));
        }
    }

    fn choose(&mut self, key: &Key, at: usize, model: &Model) -> Option<Action> {
        let last = model.agents.len().saturating_sub(1);
        let chosen = match key {
            Key::Up | Key::Left => {
                self.mode = Mode::Choosing(at.saturating_sub(1));
                return None;
            }
            Key::Down | Key::Right => {
                self.mode = Mode::Choosing((at + 1).min(last));
                return None;
            }
            Key::Enter => Some(at),
            Key::Char(digit) => digit.to_digit(10).and_then(|digit| (digit as usize).checked_sub(1)),
            _ => None,
        };
        self.mode = Mode::Keys;
        let agent = model.agents.get(chosen?)?.clone();
        Some(Action::Steer(Steering::Force(agent)))
    }

    /// Only a clear yes is one; an empty line is a no.
    fn type_answer(&mut self, key: &Key) -> Option<Action> {
        let line = self.answer.key(key)?;
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Some(Action::Answer(true)),
            "" | "n" | "no" => Some(Action::Answer(false)),
            _ => None,
        }
    }

    /// The lines below the figures, and where the cursor stands if something is typed.
    pub(super) fn lines(&self, model: &Model, columns: usize) -> (Vec<Line>, Option<(usize, usize)>) {
        let mut lines = Vec::new();
        if let Some((notice, _)) = &self.notice {
            lines.extend(Line::of(Tone::Warning, format!("  {notice}")).hanging(2).folded(columns));
        }
        if !self.active {
            if model.question.is_some() {
                let hint = "  `rawko approve` answers from another terminal";
                lines.extend(Line::of(Tone::Faint, hint).hanging(2).folded(columns));
            }
            return (lines, None);
        }
        if let Some((prompt, input)) = &self.line {
            let (line, column) = input.line(&format!("  {prompt}"), columns);
            let row = lines.len();
            lines.push(line);
            lines.push(Line::of(Tone::Faint, "  Enter sends it to the server, Esc declines"));
            return (lines, Some((row, column)));
        }
        match &self.mode {
            Mode::Saying(input) => {
                let (line, column) = input.line("  Say to the agent: ", columns);
                let row = lines.len();
                lines.push(line);
                let hint = Line::of(Tone::Faint, "  Enter sends it, Esc leaves");
                lines.push(hint);
                (lines, Some((row, column)))
            }
            Mode::Choosing(at) => {
                let mut pieces = vec![Line::plain("which agent works now?")];
                pieces.extend(model.agents.iter().enumerate().map(|(n, agent)| {
                    let tone = if n == *at { Tone::Name } else { Tone::Faint };
                    let mark = if n == *at { "> " } else { "" };
                    Line::of(tone, format!("{mark}{} {agent}", n + 1))
                }));
                pieces.push(Line::of(Tone::Faint, "Enter chooses, Esc leaves"));
                lines.extend(flowing(pieces, columns));
                (lines, None)
            }
            Mode::Keys | Mode::Help if model.question.is_some() => {
                let (line, column) = self.answer.line("  Allow this call? [y/N] ", columns);
                let row = lines.len();
                lines.push(line);
                (lines, Some((row, column)))
            }
            Mode::Help => {
                for (key, _, meaning) in KEYS {
                    let line = Line::of(Tone::Strong, format!("  {key}  ")).and(Tone::Normal, meaning);
                    lines.extend(line.hanging(5).folded(columns));
                }
                (lines, None)
            }
            Mode::Keys => {
                let pieces = KEYS.map(|(key, short, _)| {
                    let short = if key == "p" && model.paused.is_some() { "go" } else { short };
                    Line::of(Tone::Normal, key).and(Tone::Faint, format!(" {short}"))
                });
                lines.extend(flowing(pieces.to_vec(), columns));
                (lines, None)
            }
        }
    }
}

impl Input {
    /// Takes a key, and gives the line once it is complete.
    fn key(&mut self, key: &Key) -> Option<String> {
        match key {
            Key::Char(c) => self.insert(*c),
            Key::Paste(text) => clean_line(text).chars().for_each(|c| self.insert(c)),
            Key::Backspace if self.at > 0 => {
                self.at -= 1;
                self.text.remove(self.at);
            }
            Key::Delete if self.at < self.text.len() => {
                self.text.remove(self.at);
            }
            Key::Left => self.at = self.at.saturating_sub(1),
            Key::Right => self.at = (self.at + 1).min(self.text.len()),
            Key::Home | Key::Up => self.at = 0,
            Key::End | Key::Down => self.at = self.text.len(),
            Key::Escape => *self = Self::default(),
            Key::Enter => return Some(std::mem::take(self).text.into_iter().collect()),
            Key::Backspace | Key::Delete => {}
        }
        None
    }

    fn insert(&mut self, c: char) {
        if !clean_line(&format!("x{c}x")).contains(c) {
            return;
        }
        self.text.insert(self.at, c);
        self.at += 1;
    }

    /// The part of the line around the cursor that fits, behind `prompt`, and the column of the cursor.
    fn line(&self, prompt: &str, columns: usize) -> (Line, usize) {
        let prompt = Line::of(Tone::Warning, prompt).cut(columns.saturating_sub(8).max(columns / 2));
        let room = columns.saturating_sub(prompt.width() + 1).max(1);
        let mut first = self.at;
        let width =
            |from: usize, to: usize| Line::plain(self.text[from..to].iter().collect::<String>()).width();
        while first > 0 && width(first - 1, self.at) < room {
            first -= 1;
        }
        let mut last = self.at;
        while last < self.text.len() && width(first, last + 1) <= room {
            last += 1;
        }
        let column = prompt.width() + width(first, self.at);
        (prompt.and(Tone::Normal, self.text[first..last].iter().collect::<String>()), column)
    }
}
