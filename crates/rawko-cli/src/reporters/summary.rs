//! The summary at the end of a run: how it ended, its figures, and what to do next.

use std::path::PathBuf;

use rawko::Explanation;
use rawko::{Outcome, RunEvent};
use rawko_core::agent::outside::OutsideUse;
use rawko_core::facts::{Proof, VERIFY, Verification};
use rawko_core::integrity::{DoubtReason, IntegrityResult};
use rawko_core::session::{LimitKind, Status};
use rawko_core::{ErrorCode, ErrorInfo, Usage};

use super::landing::{landing_lines, open_landing};
use super::phrase;
use crate::commands::explain;
use crate::console::{Console, output_columns};
use crate::output::{Paint, about, clean, clean_line, cost, duration, indent, quoted, room, tokens, wrap};

/// Longer lines of a summary are hard to read.
const WIDEST: usize = 100;

/// Columns before a line, at most.
const INDENT: usize = 6;

/// Changes of the configuration that are listed.
const CHANGES_SHOWN: usize = 20;

/// The parts of a summary.
#[derive(Debug, Clone)]
pub(crate) struct Summary {
    /// The session's id.
    pub(crate) session: String,
    /// Path of the journal; `None` if it was deleted.
    pub(crate) journal: Option<String>,
    /// How the run ended.
    pub(crate) outcome: Outcome,
    /// What the agent that worked last has said.
    pub(crate) answer: Option<String>,
    /// The changes of the configuration that would have allowed what was denied.
    pub(crate) would_allow: Vec<String>,
    /// Whether it was a dry run.
    pub(crate) dry_run: bool,
    /// The decisions of a dry run, with the exact input and prompt.
    pub(crate) decisions: Vec<Explanation>,
    /// Options of this run that a command which goes on has to repeat, each with a space before it.
    pub(crate) not_kept: String,
    /// The permissions that were given as options, which no configuration has, each with a space before it.
    pub(crate) granted: String,
    /// Whether `rawko diff` can show what changed: not without git.
    pub(crate) has_diff: bool,
    /// The folder whose absence keeps runs from learning.
    pub(crate) no_memories: Option<PathBuf>,
    /// How wide the terminal is, if the summary goes to one.
    pub(crate) columns: Option<usize>,
}

impl Summary {
    /// The summary for a run's last event; `None` for any other event.
    pub(crate) fn of(event: &RunEvent, journal: Option<String>, dry_run: bool) -> Option<Self> {
        let RunEvent::SessionFinished { session, outcome, answer, would_allow, decisions, .. } =
            event.clone()
        else {
            return None;
        };
        let journal = journal.filter(|_| !dry_run);
        Some(Self {
            session,
            journal,
            outcome: *outcome,
            answer,
            would_allow,
            dry_run,
            decisions,
            not_kept: String::new(),
            granted: String::new(),
            has_diff: true,
            no_memories: None,
            columns: output_columns(),
        })
    }

    /// As text for people.
    pub(crate) fn text(&self, console: &Console) -> String {
        let paint = console.paint();
        let next: Vec<String> =
            console.commands(&self.next()).lines().map(|line| self.wrapped(line)).collect();
        let next = next.join("\n").replace('\n', "\n      ");
        let of = self.decisions.len();
        let first = self.decisions.first().map(|one| format!("{}\n", explain::details(one, of, paint)));
        let first = first.unwrap_or_default();
        format!("{first}{}\n\n{}\n{} {next}\n", self.title(paint), self.facts(paint), paint.hint("next:"))
    }

    /// What the agent that worked last has said, and nothing else; empty where the run failed or was cancelled, which an error
    /// reports. Of a run that a limit stopped it is the summary, which says so and has the last report.
    pub(crate) fn answer(&self) -> String {
        let summary = self.outcome.summary.as_str();
        let words = self.answer.as_deref().filter(|answer| !answer.trim().is_empty());
        let text = match self.outcome.status {
            Status::Verified | Status::Claimed => {
                words.or(self.outcome.agent_summary.as_deref()).unwrap_or(summary)
            }
            Status::Limited => summary,
            Status::Failed | Status::Cancelled => "",
        };
        let text = clean(text.trim());
        if text.is_empty() { String::new() } else { format!("{text}\n") }
    }

    /// What rawko knows of the end beyond its title, what the agents say, and the figures.
    pub(crate) fn facts(&self, paint: Paint) -> String {
        let outcome = &self.outcome;
        let mut text = String::new();
        // The title has said the rest already.
        let own = match outcome.status {
            Status::Cancelled if outcome.summary == "Cancelled." => None,
            Status::Failed | Status::Limited | Status::Cancelled => Some(&outcome.summary),
            Status::Verified | Status::Claimed => None,
        };
        for words in [own, outcome.agent_summary.as_ref()].into_iter().flatten() {
            let words = clean(words.trim());
            if !words.is_empty() {
                text.push_str(&format!("{}\n\n", indent(&self.wrapped(&words), 2)));
            }
        }
        let mut rows = vec![("Files changed:", clean_line(&outcome.changed_files()))];
        if !outcome.runs_later.is_empty() {
            rows.push(("Runs later:", runs_later_line(&outcome.runs_later)));
        }
        rows.extend(outcome.verification.iter().flat_map(checks));
        rows.extend([
            ("Iterations:", iterations(outcome)),
            ("Tokens:", used(&outcome.usage)),
            ("Cost:", spent(outcome)),
            ("Time:", duration(outcome.duration_ms)),
            ("Session:", clean_line(&self.session)),
        ]);
        // The original session was charged for what a fork shares.
        if let Some(shared) = outcome.shared.filter(|shared| shared.usage.total_tokens() > 0) {
            let (tokens, cost) = (tokens(shared.usage.total_tokens()), cost(shared.cost_usd));
            rows.push(("Shared:", format!("{tokens} tokens, {cost}, not counted above")));
        }
        if !outcome.beside.is_empty() {
            let others = clean_line(&outcome.beside.join(", "));
            let text = format!("session {others} in the same folder: files and verification may be of both");
            rows.push(("Ran beside:", text));
        }
        rows.extend(outcome.landing.iter().flat_map(|landing| landing_lines(landing, &self.session)));
        rows.extend(outcome.outside.iter().map(|used| ("ACP agent:", outside_line(used))));
        if let Some(journal) = &self.journal {
            rows.push(("Journal:", clean_line(journal)));
        }
        rows.extend(denied(&self.would_allow, &self.session));
        for (name, value) in rows {
            text.push_str(&format!("{} {value}\n", paint.faint(&format!("{name:<14}"))));
        }
        text
    }

    /// Words in lines that fit the terminal, indented. A command that is to be copied stays in one line.
    fn wrapped(&self, text: &str) -> String {
        match self.columns.filter(|_| !text.contains(": rawko ")) {
            Some(columns) => wrap(text, room(columns, INDENT + 1).min(WIDEST)),
            None => text.to_owned(),
        }
    }

    fn title(&self, paint: Paint) -> String {
        match self.outcome.status {
            Status::Verified | Status::Claimed | Status::Limited if self.dry_run => {
                paint.strong("Dry run: this is how it would begin")
            }
            Status::Claimed if self.outcome.iterations == 0 => {
                paint.warning("Claimed done without any work (not verified)")
            }
            Status::Claimed if self.is_red() => paint.warning(&self.own_words()),
            Status::Verified | Status::Claimed => paint.good(&self.own_words()),
            Status::Failed => paint.bad("Failed"),
            Status::Limited => paint.warning("Stopped by a limit"),
            Status::Cancelled => paint.warning("Cancelled"),
        }
    }

    /// rawko's own sentences about the end.
    fn own_words(&self) -> String {
        self.wrapped(&clean(self.outcome.summary.trim()))
    }

    /// Whether a check is known to fail, as it did before the run.
    fn is_red(&self) -> bool {
        self.outcome.doubt.as_ref().is_some_and(|doubt| doubt.reason == DoubtReason::RedBefore)
    }

    /// What to do next.
    fn next(&self) -> String {
        let Outcome { status, files_modified, error, .. } = &self.outcome;
        let wrote = !files_modified.is_empty();
        let doubt = self.outcome.doubt.as_ref().map(|doubt| doubt.reason);
        if self.dry_run {
            return "nothing was changed; run it again without --dry-run".to_owned();
        }
        if self.is_aside() && wrote {
            return format!("{}\n{}", open_landing(&clean_line(&self.session)), self.to_go_on());
        }
        match status {
            Status::Verified => {
                format!(
                    "review the change{} and commit it\n{}{}",
                    self.by_diff(),
                    self.to_continue(),
                    self.to_learn()
                )
            }
            Status::Claimed if doubt == Some(DoubtReason::TreeChanged) => {
                format!(
                    "let git ignore the files that the checks create, so that they leave the tree unchanged\n{}",
                    self.to_continue()
                )
            }
            Status::Claimed if doubt == Some(DoubtReason::ChecksChanged) => {
                format!(
                    "read the change of the checks{}. If the task is about them, give \
                     --allow-changed-checks to the command below\n{}",
                    self.by_diff(),
                    self.to_continue()
                )
            }
            Status::Claimed if wrote => {
                let what = match doubt {
                    Some(DoubtReason::RedBefore) => {
                        "have what failed before the run mended, or name other checks (--verify CMD)"
                    }
                    Some(DoubtReason::Unavailable) => {
                        "install what is missing, or name a check that can run (--verify CMD)"
                    }
                    _ => {
                        "run your checks: the agents say it is done, but no command verified it (use --verify CMD)"
                    }
                };
                format!("review the change{} and {what}\n{}", self.by_diff(), self.to_continue())
            }
            Status::Claimed if self.outcome.files_modified_partial => {
                format!(
                    "look whether a command has changed something, and read the summary\n{}",
                    self.to_continue()
                )
            }
            Status::Claimed => {
                format!("no file was changed: read the summary\n{}", self.to_continue())
            }
            Status::Limited => {
                let kept = if wrote {
                    format!("the changes so far are in {}\n", self.place())
                } else {
                    String::new()
                };
                format!("{kept}{}", self.after_a_limit())
            }
            Status::Cancelled if wrote => {
                format!("the changes so far are in {}{}\n{}", self.place(), self.by_diff(), self.to_go_on())
            }
            Status::Cancelled => {
                format!(
                    "no file was written with Write or Edit; look whether a command changed something{}\n{}",
                    self.by_diff(),
                    self.to_go_on()
                )
            }
            Status::Failed => {
                let session = clean_line(&self.session);
                let advice = advice(error.as_ref(), &self.fork_command());
                let on = if self.outcome.can_be_taken_up() {
                    format!("then go on where it stopped: {}", self.resume_command(""))
                } else {
                    self.to_go_on()
                };
                format!("{advice}\n{on}\nto see what was tried: rawko sessions show {session}")
            }
        }
    }

    /// The command that shows what changed, new files and folders without a repository included.
    fn by_diff(&self) -> String {
        if !self.has_diff {
            return String::new();
        }
        format!(" (`rawko diff {}`)", clean_line(&self.session))
    }

    /// Whether the work is in the run's own tree.
    fn is_aside(&self) -> bool {
        self.outcome.landing.as_ref().is_some_and(|landing| landing.end.is_open())
    }

    /// Where the changes are.
    fn place(&self) -> &'static str {
        if self.is_aside() { "the tree of the run" } else { "the folder" }
    }

    /// The command that goes on with a run that was cut off: a session without an end is resumed.
    fn to_go_on(&self) -> String {
        let error = self.outcome.error.as_ref();
        if error.is_some_and(|error| error.code == ErrorCode::JournalIncomplete) {
            return format!("to go on where it stopped: {}", self.resume_command(""));
        }
        self.to_continue()
    }

    /// How later runs can learn from one like this, which made red checks green, if the user has not decided about it.
    fn to_learn(&self) -> String {
        match &self.no_memories {
            Some(folder) if self.outcome.proof == Some(Proof::Task) => {
                let here = std::env::current_dir().ok();
                let shown = here.and_then(|here| folder.strip_prefix(here).ok()).unwrap_or(folder);
                format!(
                    "\nto have later runs learn from such work: mkdir -p {}",
                    quoted(&shown.to_string_lossy())
                )
            }
            _ => String::new(),
        }
    }

    /// The command for another task in the same session.
    fn to_continue(&self) -> String {
        format!("to go on in this session: {}", self.continue_command())
    }

    fn continue_command(&self) -> String {
        clean_line(&format!("rawko continue {}{}{} \"…\"", self.session, self.granted, self.not_kept))
    }

    /// The command that takes the task up, with another limit.
    fn resume_command(&self, limit: &str) -> String {
        clean_line(&format!("rawko resume {}{limit}{}{}", self.session, self.granted, self.not_kept))
    }

    /// The command that makes another session of this one.
    fn fork_command(&self) -> String {
        clean_line(&format!("rawko fork {}{}", self.session, self.granted))
    }

    /// What to do after a limit.
    fn after_a_limit(&self) -> String {
        match self.outcome.limit {
            Some(LimitKind::Stalled) => format!(
                "let it go on all the same: {}\n\
                 or say what to do differently: {}\n\
                 or take another way from one of its records: {} --at N",
                self.resume_command(""),
                self.continue_command(),
                self.fork_command(),
            ),
            Some(limit) => {
                let higher = self.resume_command(&format!(" {}", limit.option()));
                format!("raise the limit and go on where it stopped: {higher}")
            }
            None => self.to_continue(),
        }
    }
}

/// The checks, as far as there is more to be said than that they passed.
fn checks(verification: &Verification) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(tree) = verification.tree.as_ref().filter(|_| verification.passed()) {
        rows.push(("Checked tree:", phrase::short_tree(tree)));
    }
    if let Some(integrity) = verification.integrity.as_ref().filter(|it| !it.changed.is_empty()) {
        let how = match integrity.result {
            IntegrityResult::OriginalsPass => "; the original ones pass too",
            IntegrityResult::OriginalsFail => "; the original ones fail",
            IntegrityResult::OriginalsUnknown => "; the original ones could not be run",
            IntegrityResult::Allowed => ", as allowed",
            IntegrityResult::Denied => ", which is denied",
            IntegrityResult::Intact | IntegrityResult::Unchanged => "",
        };
        rows.push(("Checks changed:", format!("{}{how}", clean_line(&integrity.list()))));
    }
    if let Some(problem) = verification.original.as_ref().and_then(|original| original.problem.as_ref()) {
        rows.push(("Original checks:", clean_line(problem)));
    }
    if !verification.flaky.is_empty() {
        rows.push(("Flaky:", "the checks failed before on the same tree; they were run again".to_owned()));
    }
    rows
}

/// What would have allowed the calls that were denied: a change in each line, whole, because it is to be copied.
fn denied(changes: &[String], session: &str) -> Vec<(&'static str, String)> {
    if changes.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![(
        "Denied calls:",
        "to allow them (`rawko init` writes the files of agents that have none):".to_owned(),
    )];
    rows.extend(changes.iter().take(CHANGES_SHOWN).map(|change| ("", clean_line(change))));
    let more = changes.len().saturating_sub(CHANGES_SHOWN);
    if more > 0 {
        rows.push((
            "",
            format!("and {more} more: `rawko sessions show {} --json` names them", clean_line(session)),
        ));
    }
    rows
}

fn iterations(outcome: &Outcome) -> String {
    match &outcome.shared {
        Some(shared) => format!("{} ({} shared)", outcome.iterations, shared.iterations),
        None => outcome.iterations.to_string(),
    }
}

fn spent(outcome: &Outcome) -> String {
    match outcome.usage.total_tokens() {
        0 => "none".to_owned(),
        _ if outcome.cost_usd.is_none() => "unknown".to_owned(),
        _ => format!("{}{}", about(&outcome.usage), cost(outcome.cost_usd)),
    }
}

fn used(usage: &Usage) -> String {
    match usage.total_tokens() {
        0 => "none".to_owned(),
        total => {
            let cached = usage.cache_hit_share().filter(|share| *share > 0.0);
            let cached = cached.map(|share| format!(", {:.0}% of the prompts cached", share * 100.0));
            format!(
                "{}{} ({} in, {} out{}{})",
                about(usage),
                tokens(total),
                tokens(usage.prompt_tokens()),
                tokens(usage.output_tokens),
                cached.unwrap_or_default(),
                if usage.estimated { "; not all were counted by a server" } else { "" }
            )
        }
    }
}

/// What can be done about a failure.
fn advice(error: Option<&ErrorInfo>, fork: &str) -> String {
    let Some(error) = error else {
        return "say in the next task what went wrong".to_owned();
    };
    let name = error.provider.as_deref().map(clean_line).unwrap_or_else(|| "NAME".to_owned());
    match error.code {
        ErrorCode::AuthenticationFailed if error.message.contains(rawko::provider::NO_CREDIT) => {
            format!("add credit to the account, or use another provider: {fork} --provider NAME")
        }
        ErrorCode::AuthenticationFailed => {
            format!("check the key and what it may use: rawko doctor, rawko providers check {name}")
        }
        ErrorCode::RateLimited | ErrorCode::Overloaded => {
            format!("wait a while, or use another provider: {fork} --provider NAME")
        }
        ErrorCode::NetworkError => {
            format!("check the connection and the address: rawko providers check {name}")
        }
        ErrorCode::ModelUnavailable => {
            format!("choose a model that is served: rawko providers models {name}, then --model MODEL")
        }
        ErrorCode::ContextLengthExceeded => {
            "split the task, or use a model with a larger context: --model MODEL".to_owned()
        }
        ErrorCode::InvalidRequest => {
            "the provider does not take the request: check model and `extra` in the configuration \
             (rawko config show)"
                .to_owned()
        }
        ErrorCode::ConfigError if error.tool.as_deref() == Some(VERIFY) => {
            "install what is missing, or name a check that can run: --verify CMD".to_owned()
        }
        ErrorCode::ConfigError => "fix the configuration: rawko config check, rawko config show".to_owned(),
        ErrorCode::PermissionError => {
            "see what the agents may do: rawko tools check --agent NAME -- COMMAND, rawko config show"
                .to_owned()
        }
        ErrorCode::Timeout => {
            "give it more time (limits.timeout of the agent, timeouts of the provider)".to_owned()
        }
        ErrorCode::JournalIncomplete => {
            "the session has no end, because its journal could not be written: make room on the disk, or \
             see who may write there"
                .to_owned()
        }
        ErrorCode::Blocked => "remove what stands in the way".to_owned(),
        ErrorCode::ToolFailure
        | ErrorCode::ValidationError
        | ErrorCode::BudgetExceeded
        | ErrorCode::Stalled
        | ErrorCode::Unknown => "read the error above; then change the task or the configuration".to_owned(),
    }
}

/// An outside agent that worked, and the key that it was given, in one line.
fn outside_line(used: &OutsideUse) -> String {
    let key = match &used.key {
        Some(key) => format!("was given your {}", clean_line(key)),
        None => "was given no key".to_owned(),
    };
    format!("{} ({}) {key}", clean_line(&used.agent), clean_line(&used.program))
}

/// Changed files that run on the user's machine later, in one line.
pub(crate) fn runs_later_line(files: &[String]) -> String {
    format!("{} (on your machine, unasked: read the change first)", clean_line(&files.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_run_later_are_named_and_others_are_not() {
        let ended = |files: &[&str]| {
            let error = ErrorInfo::new(ErrorCode::Unknown, "x");
            let runs_later = files.iter().map(|file| (*file).to_owned()).collect();
            summary(Outcome { runs_later, ..Outcome::failed(error) }, None).text(&Console::plain())
        };
        let text = ended(&[".envrc", ".vscode/tasks.json"]);
        assert!(text.contains("Runs later:    .envrc, .vscode/tasks.json (on your machine"), "{text}");
        assert!(!ended(&[]).contains("Runs later"));
    }

    fn summary(outcome: Outcome, columns: Option<usize>) -> Summary {
        let summary = Summary::of(&RunEvent::finished("s", outcome), None, false).expect("an end");
        Summary { columns, ..summary }
    }

    #[test]
    fn words_are_wrapped_at_a_terminal_and_commands_are_not() {
        let error = ErrorInfo::new(ErrorCode::Unknown, "one two three four five six seven eight nine ten");
        let summary = summary(Outcome::failed(error), Some(40));
        let text = summary.text(&Console::plain());
        assert!(text.contains("\n  one two three four five six seven\n  eight nine ten\n"), "{text}");
        let command = "to see what was tried: rawko sessions show s";
        assert!(text.contains(command), "{text}");
        let prose = text.lines().filter(|line| !line.contains(": rawko "));
        assert!(prose.clone().all(|line| line.chars().count() <= 40), "{text}");
        let whole = Summary { columns: None, ..summary }.text(&Console::plain());
        assert!(whole.contains("  one two three four five six seven eight nine ten\n"), "{whole}");
    }

    #[test]
    fn what_would_allow_denied_calls_is_said_whole_and_only_where_there_were_any() {
        let error = ErrorInfo::new(ErrorCode::Unknown, "x");
        let quiet = summary(Outcome::failed(error), Some(40));
        let text = quiet.text(&Console::plain());
        assert!(!text.contains("Denied"), "{text}");
        let long = format!("add `- {}` under permissions.write", "long/".repeat(40));
        let mut would_allow = vec!["add `- make` under x".to_owned(), long.clone()];
        let text = Summary { would_allow: would_allow.clone(), ..quiet.clone() }.text(&Console::plain());
        assert_eq!(text.matches("Denied calls:").count(), 1, "{text}");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert!(lines.contains(&"add `- make` under x") && lines.contains(&long.as_str()), "{text}");
        would_allow.extend((0..30).map(|n| format!("add `- p{n}` under x")));
        let text = Summary { would_allow, ..quiet }.text(&Console::plain());
        assert!(text.contains("add `- p17`") && !text.contains("add `- p18`"), "{text}");
        assert!(text.contains("and 12 more"), "{text}");
    }

    #[test]
    fn a_cancelled_run_says_so_once() {
        let error = ErrorInfo::new(ErrorCode::Unknown, "Cancelled.");
        let outcome = Outcome { status: Status::Cancelled, error: None, ..Outcome::failed(error) };
        let text = summary(outcome, None).text(&Console::plain());
        assert_eq!(text.matches("ancelled").count(), 1, "{text}");
    }

    #[test]
    fn the_answer_is_what_the_agent_said() {
        let claimed = |words: &str| {
            let error = ErrorInfo::new(ErrorCode::Unknown, "the arbiter's words");
            let outcome = Outcome { status: Status::Claimed, error: None, ..Outcome::failed(error) };
            Summary { answer: Some(words.to_owned()), ..summary(outcome, None) }
        };
        assert_eq!(claimed("the agent's words").answer(), "the agent's words\n");
        assert_eq!(claimed(" ").answer(), "the arbiter's words\n");
    }
}
