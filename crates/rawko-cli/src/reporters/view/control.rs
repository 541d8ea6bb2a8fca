//! The keys of the view: what each does in which situation, and what is shown about that. Nothing is decided here: a
//! key asks the run for something, or answers a question of it. What is typed or pasted is text and never an action,
//! because a sentence typed too early would trigger actions: these are in a menu that Esc opens, and Enter does the
//! chosen one. Text that is pasted without marks may hold tabs and newlines, but no Esc.

use rawko::Override;
use rawko_core::Timestamp;

use super::super::line::{StyledLine, Tone};
use super::execution::flowing;
use super::keys::Key;
use super::model::{Model, QuestionId};
use crate::commands::steer::SteerRequest;
use crate::output::clean_line;

/// How long a notice stays, in milliseconds.
const NOTICE_MS: u64 = 6_000;

/// What came of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UserAction {
    Steer(SteerRequest),
    /// The open question is answered.
    Answer(bool),
    /// The line that a server wants, or none.
    Line(Option<String>),
}

/// The state of the keyboard.
#[derive(Debug, Default)]
pub(super) struct KeyboardControl {
    /// Whether there is a keyboard, and a run that it can steer.
    pub(super) active: bool,
    mode: Mode,
    /// The question whose answer is typed, and what was typed. Only one that was shown can be answered.
    asking: Option<(QuestionId, Input)>,
    /// What a server wants to know, and what is typed for it.
    line: Option<(String, Input)>,
    notice: Option<(String, Timestamp)>,
}

/// What the next key is for. What is typed is text in each of them.
#[derive(Debug, Default)]
enum Mode {
    /// Nothing was begun: an open question is answered, or a message begins.
    #[default]
    Rest,
    /// A message to the agent is typed.
    Saying(Input),
    /// One of these is chosen, by its place.
    Acting(Vec<SteerRequest>, usize),
}

/// A line of text that is being typed.
#[derive(Debug, Default)]
struct Input {
    text: Vec<char>,
    /// Before which character the cursor stands.
    at: usize,
}

/// How a menu names a command.
fn name(wanted: &SteerRequest) -> String {
    match wanted {
        SteerRequest::Override(Override::ForceAgent { agent }) => format!("force {}", clean_line(agent)),
        other => other.word().to_owned(),
    }
}

fn meaning(wanted: &SteerRequest) -> &'static str {
    match wanted {
        SteerRequest::Cancel => "end the run, like Ctrl-C; a second time: at once",
        other => other.meaning(),
    }
}

impl KeyboardControl {
    /// Takes a key. Text is never an action: it is a message, or the answer to a question that is shown, and both end with
    /// Enter.
    pub(super) fn key(&mut self, key: &Key, model: &Model, now: Timestamp) -> Option<UserAction> {
        match &mut self.mode {
            Mode::Saying(_) if *key == Key::Escape => {
                self.mode = Mode::Rest;
                None
            }
            Mode::Saying(input) => {
                let text = input.key(key)?;
                self.mode = Mode::Rest;
                let said = !text.trim().is_empty();
                said.then(|| {
                    UserAction::Steer(SteerRequest::Override(Override::Say { text: text.trim().to_owned() }))
                })
            }
            Mode::Acting(actions, at) => {
                let last = actions.len().saturating_sub(1);
                match key {
                    Key::Up | Key::Left => *at = at.saturating_sub(1),
                    Key::Down | Key::Right => *at = (*at + 1).min(last),
                    Key::Home => *at = 0,
                    Key::End => *at = last,
                    Key::Enter => {
                        let chosen = actions.get(*at).cloned();
                        self.mode = Mode::Rest;
                        return chosen.map(UserAction::Steer);
                    }
                    Key::Char(_) | Key::Paste(_) => self.say(key),
                    Key::Escape => self.mode = Mode::Rest,
                    Key::Backspace | Key::Delete => {}
                }
                None
            }
            Mode::Rest => self.at_rest(key, model, now),
        }
    }

    fn at_rest(&mut self, key: &Key, model: &Model, now: Timestamp) -> Option<UserAction> {
        if let Some((_, input)) = &mut self.line {
            let line = if *key == Key::Escape { None } else { Some(input.key(key)?) };
            self.line = None;
            return Some(UserAction::Line(line));
        }
        let question = model.question.as_ref().map(|question| &question.id);
        let asking = self.asking.as_mut().filter(|(id, _)| Some(id) == question);
        match (key, asking) {
            // Who pastes answers nothing.
            (Key::Paste(_), _) | (Key::Char(_) | Key::Enter, None) => self.say(key),
            (Key::Escape, Some((_, input))) if !input.text.is_empty() => *input = Input::default(),
            (Key::Escape, _) => {
                let first = if model.paused.is_some() { Override::Go } else { Override::Pause };
                let force = model.agents.iter().cloned().map(|agent| Override::ForceAgent { agent });
                let commands = [first, Override::SkipStep, Override::Retry]
                    .into_iter()
                    .chain(force)
                    .chain([Override::Reset]);
                let actions = commands.map(SteerRequest::Override).chain([SteerRequest::Cancel]);
                self.mode = Mode::Acting(actions.collect(), 0);
            }
            (_, Some((_, input))) => {
                let line = input.key(key)?;
                // Only a clear yes is one; an empty line is a no.
                match line.trim().to_ascii_lowercase().as_str() {
                    "y" | "yes" => return Some(UserAction::Answer(true)),
                    "" | "n" | "no" => return Some(UserAction::Answer(false)),
                    _ => {
                        self.tell(
                            "that is neither yes nor no; as a message it does not answer the question",
                            now,
                        );
                        self.say(&Key::Paste(line));
                    }
                }
            }
            (_, None) => {}
        }
        None
    }

    /// Begins a message with this key.
    fn say(&mut self, key: &Key) {
        let mut input = Input::default();
        if *key != Key::Enter {
            input.key(key);
        }
        self.mode = Mode::Saying(input);
    }

    /// Shows a short text for a while.
    pub(super) fn tell(&mut self, text: &str, now: Timestamp) {
        self.notice = Some((text.to_owned(), Timestamp(now.0.saturating_add(NOTICE_MS))));
    }

    /// Before a frame is drawn: lets notices go whose time is up, and what was typed for a question that is closed. `asked` says
    /// that somebody waits here for the answer to the open question, which the frame shows then.
    pub(super) fn pass(&mut self, model: &Model, asked: bool, now: Timestamp) {
        self.notice.take_if(|(_, until)| *until <= now);
        let question = model.question.as_ref().filter(|_| asked).map(|question| &question.id);
        if self.asking.as_ref().map(|(id, _)| id) != question {
            self.asking = question.map(|id| (id.clone(), Input::default()));
        }
    }

    /// A line is wanted after this prompt, or none is any more.
    pub(super) fn ask_for_line(&mut self, prompt: Option<String>) {
        let is_known = matches!((&self.line, &prompt), (Some((known, _)), Some(prompt)) if known == prompt);
        if !is_known {
            self.line = prompt.map(|prompt| (prompt, Input::default()));
        }
    }

    /// The lines below the figures, and where the cursor stands if something is typed.
    pub(super) fn lines(&self, model: &Model, columns: usize) -> (Vec<StyledLine>, Option<(usize, usize)>) {
        let mut lines = Vec::new();
        if let Some((notice, _)) = &self.notice {
            lines.extend(StyledLine::of(Tone::Warning, format!("  {notice}")).hanging(2).folded(columns));
        }
        if !self.active {
            if model.question.is_some() {
                let hint = "  `rawko approve` answers from another terminal";
                lines.extend(StyledLine::of(Tone::Faint, hint).hanging(2).folded(columns));
            }
            return (lines, None);
        }
        let mut typed = |(line, column): (StyledLine, usize), hint: &str| {
            let row = lines.len();
            lines.push(line);
            lines.extend(StyledLine::of(Tone::Faint, format!("  {hint}")).hanging(2).folded(columns));
            Some((row, column))
        };
        let cursor = match (&self.mode, &self.line, &self.asking) {
            (Mode::Saying(input), ..) => {
                typed(input.line("  Say to the agent: ", columns), "Enter sends it, Esc leaves")
            }
            (Mode::Acting(actions, at), ..) => {
                let pieces = actions.iter().enumerate().map(|(place, action)| {
                    let is_chosen = place == *at;
                    let mark = if is_chosen { "> " } else { "" };
                    StyledLine::of(
                        if is_chosen { Tone::Name } else { Tone::Normal },
                        format!("{mark}{}", name(action)),
                    )
                });
                lines.extend(flowing(pieces.collect(), columns));
                let meaning = actions.get(*at).map(meaning).unwrap_or_default();
                lines.extend(StyledLine::of(Tone::Normal, format!("  {meaning}")).hanging(2).folded(columns));
                lines.push(StyledLine::of(Tone::Faint, "  arrows and Enter choose, Esc leaves"));
                None
            }
            (Mode::Rest, Some((prompt, input)), _) => typed(
                input.line(&format!("  {prompt}"), columns),
                "Enter sends it to the server, Esc declines",
            ),
            (Mode::Rest, None, Some((_, input))) => typed(
                input.line("  Allow this call? [y/N] ", columns),
                "y or n, then Enter; Esc for pause, skip, cancel, …",
            ),
            (Mode::Rest, None, None) => {
                let first = if model.paused.is_some() { "go" } else { "pause" };
                let pieces = [
                    ("type", " to say something".to_owned()),
                    ("Ctrl-C", " stop".to_owned()),
                    ("Esc", format!(" {first}, skip, retry, force, cancel")),
                ];
                let pieces =
                    pieces.map(|(key, does)| StyledLine::of(Tone::Normal, key).and(Tone::Faint, does));
                lines.extend(flowing(pieces.to_vec(), columns));
                None
            }
        };
        (lines, cursor)
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

    /// The part of the line around the cursor that fits after `prompt`, and the column of the cursor.
    fn line(&self, prompt: &str, columns: usize) -> (StyledLine, usize) {
        let prompt = StyledLine::of(Tone::Warning, prompt).cut(columns.saturating_sub(8).max(columns / 2));
        let room = columns.saturating_sub(prompt.width() + 1).max(1);
        let mut first = self.at;
        let width = |from: usize, to: usize| {
            StyledLine::plain(self.text[from..to].iter().collect::<String>()).width()
        };
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
