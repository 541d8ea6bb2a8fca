//! The faults of a worker: what it has found that it cannot do. Such a fault is never the task's: the task goes back to
//! its queue, and the worker says so. It takes its time before it tries the same again, so that the tasks find another
//! worker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::task::TaskSpec;

/// How a worker says what its user has to know.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// The pause before what has failed once here is tried again. It doubles from fault to fault.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause. A task that comes here meanwhile is held up for so long, so it is short.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What fails together: work of one queue for one repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FaultDomain {
    queue: String,
    repository: String,
}

impl FaultDomain {
    pub(crate) fn of(queue: &str, spec: &TaskSpec) -> Self {
        Self { queue: queue.to_owned(), repository: spec.repository.url().to_owned() }
    }
}

/// The faults of one worker.
pub(crate) struct Faults {
    known: Mutex<BTreeMap<FaultDomain, RepeatedFault>>,
    notice: Notice,
}

/// Why something failed last, and how often in a row it has.
struct RepeatedFault {
    why: String,
    times: u32,
}

impl Faults {
    pub(crate) fn new(notice: Notice) -> Self {
        Self { known: Mutex::default(), notice }
    }

    /// How long a worker waits before it begins something of this kind. The slot is taken meanwhile: a worker that fails quickly
    /// would draw all tasks otherwise.
    pub(crate) fn pause(&self, kind: &FaultDomain) -> Duration {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(kind) {
            None => Duration::ZERO,
            Some(fault) => {
                let doubled = FIRST_PAUSE.saturating_mul(1 << (fault.times - 1).min(10));
                doubled.min(LONGEST_PAUSE)
            }
        }
    }

    /// Notes a fault, and says it unless it was the last thing said of this kind.
    pub(crate) fn found(&self, kind: &FaultDomain, task: &str, why: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let fault =
            known.entry(kind.clone()).or_insert_with(|| RepeatedFault { why: String::new(), times: 0 });
        fault.times = fault.times.saturating_add(1);
        let is_new = fault.why != why;
        why.clone_into(&mut fault.why);
        drop(known);
        if is_new {
            (self.notice)(&format!("task {task} is handed back for another worker: {why}"));
        }
    }

    /// Something of this kind has succeeded.
    pub(crate) fn gone(&self, kind: &FaultDomain) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_said_once_and_tried_again_ever_later_until_it_is_gone() {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&said);
        let faults = Faults::new(Arc::new(move |text| kept.lock().unwrap().push(text.to_owned())));
        let kind = |queue: &str| FaultDomain { queue: queue.to_owned(), repository: "/srv/a".to_owned() };
        let (steps, other) = (kind("steps"), kind("verify"));
        assert_eq!(faults.pause(&steps), Duration::ZERO);
        let mut pauses = Vec::new();
        for _ in 0..40 {
            faults.found(&steps, "one", "no git here");
            pauses.push(faults.pause(&steps).as_millis());
        }
        assert_eq!((&pauses[..5], pauses[39]), ([250, 500, 1_000, 2_000, 2_000].as_slice(), 2_000));
        assert_eq!(faults.pause(&other), Duration::ZERO);
        faults.found(&steps, "two", "the disk is full");
        assert_eq!(said.lock().unwrap().len(), 2, "{said:?}");
        faults.gone(&steps);
        assert_eq!(faults.pause(&steps), Duration::ZERO);
    }
}
