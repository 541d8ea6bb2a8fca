//! What a run has done and used so far, collected from its events. It gives the summary of a run that is ended by a second
//! signal, where the run itself gives none.

use std::time::Instant;

use rawko::RunEvent;
use rawko_core::session::{Note, Outcome, Status};
use rawko_core::{ErrorCode, ErrorInfo, Usage};

/// The figures of a running session.
#[derive(Debug, Clone)]
pub(crate) struct RunningTotals {
    begun: Instant,
    iterations: u32,
    usage: Usage,
    cost_usd: Option<f64>,
    files_modified: Vec<String>,
    /// Whether the journal has an end.
    has_end: bool,
}

impl Default for RunningTotals {
    /// The figures of a run that starts now.
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            iterations: 0,
            usage: Usage::default(),
            cost_usd: Some(0.0),
            files_modified: Vec::new(),
            has_end: false,
        }
    }
}

impl RunningTotals {
    /// Counts an event.
    pub(crate) fn take(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Note(Note::AgentStarted { iteration, .. }) => self.iterations = *iteration,
            // What is told of has been written.
            RunEvent::Note(Note::StateChanged { to, .. }) => self.has_end = to.is_final(),
            RunEvent::Note(Note::TokensUsed { total, cost_usd, .. }) => {
                (self.usage, self.cost_usd) = (*total, *cost_usd);
            }
            RunEvent::Note(Note::ToolFinished { outcome, .. }) => {
                for file in &outcome.files_modified {
                    if !self.files_modified.contains(file) {
                        self.files_modified.push(file.clone());
                    }
                }
            }
            _ => {}
        }
    }

    /// The outcome of a run that is ended at once, because of a second `signal`.
    pub(crate) fn abandoned(self, signal: &str) -> Outcome {
        let (summary, error) = if self.has_end {
            (format!("Stopped at once by a second {signal}; the journal has the end of the run."), None)
        } else {
            let summary = format!("Stopped at once by a second {signal}; the journal has no end.");
            (summary.clone(), Some(ErrorInfo::new(ErrorCode::JournalIncomplete, summary)))
        };
        Outcome {
            status: Status::Cancelled,
            summary,
            agent_summary: None,
            iterations: self.iterations,
            usage: self.usage,
            cost_usd: self.cost_usd,
            shared: None,
            files_modified: self.files_modified,
            more_files_modified: 0,
            files_modified_partial: true,
            duration_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            limit: None,
            proof: None,
            doubt: None,
            verification: None,
            error,
            earlier_tasks: Vec::new(),
            beside: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rawko_core::machine::State;
    use rawko_core::session::EffectId;
    use rawko_core::tool::ToolOutcome;

    use super::*;

    fn wrote(file: &str) -> RunEvent {
        RunEvent::Note(Note::ToolFinished {
            agent: "developer".into(),
            call_id: "1".into(),
            tool: "Write".into(),
            outcome: ToolOutcome { files_modified: vec![file.into()], ..ToolOutcome::default() },
        })
    }

    #[test]
    fn an_abrupt_end_still_has_the_figures_so_far() {
        let total = Usage { input_tokens: 100, output_tokens: 5, ..Usage::default() };
        let mut so_far = RunningTotals::default();
        for event in [
            RunEvent::Note(Note::AgentStarted { agent: "developer".into(), iteration: 3, continued: false }),
            RunEvent::Note(Note::TokensUsed {
                effect: EffectId(1),
                agent: "developer".into(),
                usage: total,
                total,
                cost_usd: Some(0.25),
            }),
            wrote("a.txt"),
            wrote("b.txt"),
            wrote("a.txt"),
        ] {
            so_far.take(&event);
        }
        let mut with_end = so_far.clone();
        with_end.take(&RunEvent::Note(Note::StateChanged {
            from: State::Executing,
            to: State::Cancelled,
            iteration: 3,
        }));
        let end = with_end.abandoned("SIGINT");
        assert!(end.error.is_none() && end.summary.contains("has the end"), "{}", end.summary);
        let end = so_far.abandoned("SIGINT");
        assert_eq!(end.error.map(|error| error.code), Some(ErrorCode::JournalIncomplete));
        assert_eq!(end.status, Status::Cancelled);
        assert_eq!((end.iterations, end.usage, end.cost_usd), (3, total, Some(0.25)));
        assert_eq!(end.files_modified, ["a.txt", "b.txt"]);
    }
}
