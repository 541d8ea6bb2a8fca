//! What became of the work of an isolated run, in lines.

use rawko::{Landing, LandingEnd};

use crate::output::{clean_line, counted};

/// Files that are listed.
const LISTED: usize = 10;

/// Lines for people, each with its name.
pub(crate) fn landing_lines(landing: &Landing, session: &str) -> Vec<(&'static str, String)> {
    let Landing { end, written, removed, merged, conflicts, left, branch, problem } = landing;
    let files = written.len() + removed.len();
    let mut lines = vec![(
        "Landed:",
        match end {
            LandingEnd::Landed => {
                format!("{} changed in the project", counted(files.try_into().unwrap_or(u64::MAX), "file"))
            }
            LandingEnd::Kept => "not yet: the work is kept in the tree of the run".to_owned(),
            LandingEnd::Conflicts => {
                "no: it does not fit with what was changed in the project since".to_owned()
            }
            LandingEnd::Failed => {
                format!("no: {}", clean_line(problem.as_deref().unwrap_or("it could not be landed")))
            }
            LandingEnd::Discarded => match problem {
                Some(_) => format!("in part: the rest of the work of {session} was thrown away"),
                None => format!("no: the work of {session} was thrown away"),
            },
            LandingEnd::Nothing => "there was nothing to land".to_owned(),
        },
    )];
    if let Some(branch) = branch {
        lines.push(("Branch:", clean_line(branch)));
    }
    let shown = |names: &[String]| {
        let mut text = clean_line(&names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", "));
        if let Some(more) = names.len().checked_sub(LISTED).filter(|more| *more > 0) {
            text.push_str(&format!(" and {more} more"));
        }
        text
    };
    if !merged.is_empty() {
        lines.push(("Merged:", shown(merged)));
    }
    lines.extend(
        conflicts
            .iter()
            .map(|conflict| ("Conflict:", clean_line(&format!("{}: {}", conflict.path, conflict.why)))),
    );
    if !left.is_empty() {
        lines.push(("Not landed:", shown(left)));
    }
    lines
}

/// What to do with work that has not landed.
pub(super) fn open_landing(session: &str) -> String {
    format!(
        "look at the change: rawko diff {session}\nto have it in the project: rawko land {session}\n\
         to throw it away: rawko discard {session}"
    )
}
