//! Finds the exit status of the check in a command, from the command's own status and those of the members of its last
//! pipeline.
//!
//! The shell keeps the statuses of the last pipeline alone. What ran before it, after `||`, in the background or in a loop
//! is hidden, except that a chain of `&&` that ends with 0 has succeeded as a whole.

use super::command::OwnStatus;
use super::shell::AnalyzedScript;
use crate::policy::script::{AndOrList, CommandList, Joint, Member, Pipeline, ShellWord, Simple};

/// The statuses of a program that wrote into a pipe that was no longer read, as with `| head`: of one that the signal
/// ended, and of Python.
const BROKEN_PIPE: [i32; 2] = [141, 120];

/// The status of what the command is about; `None` where there is no such thing.
pub(super) fn own_status(script: &AnalyzedScript, exit_code: i32, pipe_status: &[i32]) -> Option<OwnStatus> {
    let walk = StatusWalk { script };
    let found = walk.list(&script.parsed.list, exit_code, pipe_status);
    // In a substitution, whose status is lost.
    let elsewhere =
        (0..script.parts.len()).any(|place| script.is_subject(place)).then_some(OwnStatus::Hidden);
    found.or(elsewhere)
}

/// The worse of two: a failure, then what is hidden.
fn worse(one: Option<OwnStatus>, other: Option<OwnStatus>) -> Option<OwnStatus> {
    let rank = |status: Option<OwnStatus>| match status {
        None => 0,
        Some(OwnStatus::Exited(0)) => 1,
        Some(OwnStatus::Hidden) => 2,
        Some(OwnStatus::Exited(_)) => 3,
    };
    if rank(other) > rank(one) { other } else { one }
}

#[derive(Clone, Copy)]
struct StatusWalk<'s> {
    script: &'s AnalyzedScript,
}

/// What is known of the status of a pipeline's members.
#[derive(Clone, Copy)]
enum MemberStatuses<'s> {
    /// Of every member.
    All(&'s [i32]),
    /// Of the last member.
    Last(i32),
    /// Of none.
    Nothing,
}

impl<'s> StatusWalk<'s> {
    fn list(self, list: &CommandList, exit_code: i32, pipe_status: &[i32]) -> Option<OwnStatus> {
        let (last, before) = list.0.split_last()?;
        let mut found = None;
        let mut stops_at_failure = false;
        for and_or in before {
            stops_at_failure |= self.is_set_e(&and_or.first);
            let is_chain = !and_or.in_background && and_or.rest.iter().all(|(joint, _)| *joint == Joint::And);
            let status = if stops_at_failure && is_chain && exit_code == 0 {
                self.chain(&and_or.pipelines(), 0, &[])
            } else {
                self.hidden(&and_or.pipelines())
            };
            found = worse(found, status);
        }
        worse(found, self.and_or(last, exit_code, pipe_status))
    }

    fn and_or(self, and_or: &AndOrList, exit_code: i32, pipe_status: &[i32]) -> Option<OwnStatus> {
        if and_or.in_background {
            return self.hidden(&and_or.pipelines());
        }
        // What only makes a failure fail changes nothing: `|| exit 1`.
        let mut before: Vec<&Pipeline> = Vec::new();
        let mut chain = vec![&and_or.first];
        for (joint, pipeline) in &and_or.rest {
            match joint {
                Joint::And => chain.push(pipeline),
                Joint::Or if self.only_fails(pipeline) => {}
                Joint::Or => {
                    before.append(&mut chain);
                    before.push(pipeline);
                }
            }
        }
        worse(self.hidden(&before), self.chain(&chain, exit_code, pipe_status))
    }

    /// Pipelines joined by `&&`, which ended with `exit_code`.
    fn chain(self, chain: &[&Pipeline], exit_code: i32, pipe_status: &[i32]) -> Option<OwnStatus> {
        // Statuses that do not go with the exit status are those of something else.
        let fits = pipe_status.contains(&exit_code);
        let pipe_status = if fits { pipe_status } else { &[] };
        let mut found = None;
        for (at, pipeline) in chain.iter().enumerate() {
            let is_last = at + 1 == chain.len();
            let ran_last = pipe_status.len() == pipeline.members.len() && (is_last || exit_code != 0);
            let known = match exit_code {
                _ if pipeline.is_negated => MemberStatuses::Nothing,
                _ if ran_last => MemberStatuses::All(pipe_status),
                0 => MemberStatuses::Last(0),
                _ if pipe_status.is_empty() => MemberStatuses::Last(exit_code),
                // Another pipeline of the chain failed: this one passed before it, or did not run.
                _ => MemberStatuses::Nothing,
            };
            found = worse(found, self.pipeline(pipeline, known));
        }
        found
    }

    fn pipeline(self, pipeline: &Pipeline, known: MemberStatuses<'_>) -> Option<OwnStatus> {
        let last = pipeline.members.len().saturating_sub(1);
        let mut found = None;
        for (at, member) in pipeline.members.iter().enumerate() {
            let status = match known {
                MemberStatuses::All(statuses) => statuses.get(at).copied(),
                MemberStatuses::Last(status) if at == last => Some(status),
                MemberStatuses::Last(_) | MemberStatuses::Nothing => None,
            };
            let status = status.filter(|status| at == last || !BROKEN_PIPE.contains(status));
            found = worse(found, self.member(member, status));
        }
        found
    }

    fn member(self, member: &Member, status: Option<i32>) -> Option<OwnStatus> {
        match (member, status) {
            (Member::Group(list), Some(status)) => self.list(list, status, &[]),
            (Member::Simple(place), Some(status)) => {
                let nested = self.script.parts.get(*place).and_then(|part| part.nested.as_ref());
                match nested {
                    Some(nested) if self.script.is_subject(*place) => own_status(nested, status, &[]),
                    Some(_) | None => self.script.is_subject(*place).then_some(OwnStatus::Exited(status)),
                }
            }
            (Member::Other(_), Some(_)) | (_, None) => self.hidden_member(member),
        }
    }

    fn hidden(self, pipelines: &[&Pipeline]) -> Option<OwnStatus> {
        let members = pipelines.iter().flat_map(|pipeline| &pipeline.members);
        members.map(|member| self.hidden_member(member)).fold(None, worse)
    }

    fn hidden_member(self, member: &Member) -> Option<OwnStatus> {
        match member {
            Member::Simple(place) => self.script.is_subject(*place).then_some(OwnStatus::Hidden),
            Member::Group(list) => {
                list.0.iter().map(|and_or| self.hidden(&and_or.pipelines())).fold(None, worse)
            }
            Member::Other(places) => {
                places.clone().any(|place| self.script.is_subject(place)).then_some(OwnStatus::Hidden)
            }
        }
    }

    fn only(self, pipeline: &Pipeline) -> Option<&'s Simple> {
        match pipeline.members.as_slice() {
            [Member::Simple(place)] if !pipeline.is_negated => self.script.parsed.commands.get(*place),
            _ => None,
        }
    }

    /// Whether it is nothing but a failure: `exit 1`, `false`.
    fn only_fails(self, pipeline: &Pipeline) -> bool {
        let Some(simple) = self.only(pipeline) else { return false };
        let words: Vec<Option<&str>> = simple.words.iter().map(ShellWord::text).collect();
        match words.as_slice() {
            [Some("false")] | [Some("exit" | "return")] => true,
            [Some("exit" | "return"), Some(status)] => *status != "0",
            _ => false,
        }
    }

    /// Whether it makes the shell stop at the first failure.
    fn is_set_e(self, pipeline: &Pipeline) -> bool {
        let Some(simple) = self.only(pipeline) else { return false };
        let mut words = simple.words.iter().filter_map(ShellWord::text);
        words.next() == Some("set")
            && words.any(|word| {
                word == "errexit" || word.strip_prefix('-').is_some_and(|letters| letters.contains('e'))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::shell::examine;

    /// Compares the status of what the command is about; `-` means none, `?` one that is hidden.
    #[track_caller]
    fn check(command: &str, exit_code: i32, pipe_status: &[i32], expected: &str) {
        let shown = match examine(command, Some(exit_code), pipe_status) {
            examined if !examined.is_check => "-".to_owned(),
            examined => match examined.own_status {
                Some(OwnStatus::Exited(status)) => status.to_string(),
                Some(OwnStatus::Hidden) => "?".to_owned(),
                None => exit_code.to_string(),
            },
        };
        assert_eq!(shown, expected, "{command} {exit_code} {pipe_status:?}");
    }

    #[test]
    fn the_member_that_is_a_check_has_its_own_status() {
        check("pytest -q 2>&1 | tail -20", 0, &[1, 0], "1");
        check("pytest -q 2>&1 | tail -20", 0, &[0, 0], "0");
        check("pytest -q 2>&1 | tail -20", 0, &[], "?");
        check("cd x && npx jest | tee log", 0, &[1, 0], "1");
        check("cd x && npx jest | tee log", 1, &[1], "?");
        check("timeout 60 uv run pytest", 1, &[], "1");
        check("CI=1 npm test -- --run | head", 0, &[141, 0], "?");
        check("CI=1 npm test -- --run | head", 0, &[1, 0], "1");
        check("cargo test 2>&1 | grep -E 'test result|FAILED'", 0, &[101, 0], "101");
        check("cargo test 2>&1 | grep FAILED", 1, &[0, 1], "0");
        check("set -o pipefail; cargo test | tail", 101, &[101, 0], "101");
        check("(cd web && npx jest) 2>&1 | tail -30", 0, &[1, 0], "1");
        check("{ cd web && npx jest; } | tail -30", 0, &[0, 0], "0");
        check("cat input | python3 manage.py test", 1, &[0, 1], "1");
        check("bash -lc 'cd x && pytest' | tail", 0, &[2, 0], "2");
        check("bash -c 'pytest | tail'", 0, &[], "?");
        check("ls | tail", 0, &[0, 0], "-");
        check("command -v pytest", 1, &[], "-");
    }

    #[test]
    fn a_chain_that_ends_with_0_has_passed() {
        check("cargo clippy && cargo test", 0, &[], "0");
        check("cargo clippy && cargo test", 101, &[], "101");
        check("cargo clippy && cargo test | tail", 0, &[101, 0], "101");
        check("cargo clippy && cargo test | tail", 101, &[101], "101");
        check("pytest | tail && echo ok", 0, &[], "?");
        check("pytest && echo ok", 0, &[], "0");
        check("pytest || exit 1", 0, &[], "0");
        check("pytest || exit 1", 1, &[], "1");
        check("set -e; pytest; echo done", 0, &[], "0");
        check("set -euo pipefail\npytest\necho done", 1, &[], "?");
    }

    #[test]
    fn what_is_hidden_is_not_known() {
        for command in [
            "make test || true; echo done",
            "make test || true",
            "make test; true",
            "pytest; echo $?",
            "make test &",
            "! make test",
            "echo $(make test)",
            "out=$(pytest 2>&1); echo \"$out\" | tail",
            "if pytest; then echo ok; fi",
            "for i in 1 2; do pytest; done",
            "pytest | tail -5; echo \"${PIPESTATUS[0]}\"",
        ] {
            check(command, 0, &[], "?");
        }
        check("which pytest || pip install pytest && pytest", 0, &[], "0");
    }
}
