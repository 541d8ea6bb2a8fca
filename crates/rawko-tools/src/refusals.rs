//! Records what the sandbox refused to one command: hosts, which its proxy reports, and files under protected names.
//! The command's result reports it.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use rawko_core::policy::net_preset_of;
use rawko_core::tool::{Refusal, ToolOutcome, flag_to_grant};

/// The most hosts that are recorded for one command, and listed in one outcome.
const MAX_HOSTS: usize = 20;

/// What an agent can do, and then what the user can: the text is in the output of verification commands, too.
const INSTEAD: &str = "Do without it, or name it in your report: the user can add";

/// A host that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedHost {
    /// What was asked for.
    pub(crate) host: String,
    /// The address that a granted name leads to, where that is what was refused.
    pub(crate) address: Option<String>,
}

impl RefusedHost {
    /// What the user would have to grant.
    fn wanted(&self) -> &str {
        self.address.as_deref().unwrap_or(&self.host)
    }

    /// What happened, and what the user can do: for the program that asked, and for the model.
    pub(crate) fn denial(&self) -> String {
        let Self { host, address } = self;
        if let Some(address) = address {
            return format!(
                "The sandbox refused {host}: its address {address} is not on the public Internet, and permissions.net \
                 does not grant the address. {INSTEAD} `{address}`, or for one run: {}.",
                flag_to_grant(address)
            );
        }
        let preset = net_preset_of(host)
            .map(|preset| format!("`{preset}` (all hosts of that package manager) or "))
            .unwrap_or_default();
        format!(
            "The sandbox refused {host}: permissions.net does not grant it. {INSTEAD} {preset}`{host}`, or for one run: {}.",
            flag_to_grant(host)
        )
    }
}

/// What was refused to a command so far. Clones are the same record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<RefusalLog>>);

#[derive(Debug, Default)]
struct RefusalLog {
    hosts: Vec<RefusedHost>,
    /// How many of them were taken.
    taken: usize,
    is_cut: bool,
    /// Whether a folder holds too much to find everything in it that no command may write.
    is_blind: bool,
    /// Files that were renamed, and their new names.
    aside: Vec<(String, String)>,
}

impl Refusals {
    /// Records a host, once.
    #[cfg_attr(
        not(any(target_os = "linux", target_os = "android")),
        allow(dead_code, reason = "there is no proxy")
    )]
    pub(crate) fn note(&self, refused: RefusedHost) {
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if record.hosts.contains(&refused) {
            return;
        }
        if record.hosts.len() < MAX_HOSTS {
            record.hosts.push(refused);
        } else {
            record.is_cut = true;
        }
    }

    /// Records that a folder holds too much to find everything in it that no command may write.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there is no sandbox"))]
    pub(crate) fn note_blind(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_blind = true;
    }

    /// Records that a file had a name which the user protects, and was renamed.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there is no sandbox"))]
    pub(crate) fn note_aside(&self, name: &str, aside: &str) {
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        record.aside.push((name.to_owned(), aside.to_owned()));
    }

    /// What was refused since the last time.
    pub(crate) fn take(&self) -> RefusalSummary {
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hosts = record.hosts.get(record.taken..).unwrap_or_default().to_vec();
        record.taken = record.hosts.len();
        RefusalSummary {
            hosts,
            is_cut: std::mem::take(&mut record.is_cut),
            is_blind: std::mem::take(&mut record.is_blind),
            aside: std::mem::take(&mut record.aside),
        }
    }
}

/// What was refused, to be reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RefusalSummary {
    hosts: Vec<RefusedHost>,
    is_cut: bool,
    is_blind: bool,
    aside: Vec<(String, String)>,
}

impl RefusalSummary {
    /// A line for each, without a trailing line break; empty if there is none.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for host in &self.hosts {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "[{}]", host.denial());
        }
        if self.is_cut {
            text.push_str("[The sandbox refused more hosts, which are not listed.]\n");
        }
        for (name, aside) in &self.aside {
            let _ = writeln!(
                text,
                "[The sandbox renamed {name} to {aside}: permissions.protect keeps that name from agents. Do without it, or \
                 name it in your report.]"
            );
        }
        if self.is_blind {
            text.push_str(
                "[permissions.write grants a folder with too many files to find every .git, .rawko and .claude in it: the \
                 sandbox may not protect all of them. The user can grant smaller folders.]",
            );
        }
        text.trim_end().to_owned()
    }

    /// What they are in the outcome of a call.
    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        self.hosts.iter().map(|host| Refusal::Host { host: host.wanted().to_owned() }).collect()
    }

    /// Adds them to the outcome of a call: to its text and to what it was refused.
    pub(crate) fn add_to(&self, outcome: &mut ToolOutcome) {
        let text = self.text();
        if text.is_empty() {
            return;
        }
        if !outcome.content.is_empty() && !outcome.content.ends_with('\n') {
            outcome.content.push('\n');
        }
        outcome.content.push_str(&text);
        record(outcome, self.refusals());
    }
}

/// Adds to what a call was refused what is not there yet, up to a limit.
pub(crate) fn record(outcome: &mut ToolOutcome, refused: Vec<Refusal>) {
    for refusal in refused {
        if outcome.refused.len() < MAX_HOSTS && !outcome.refused.contains(&refusal) {
            outcome.refused.push(refusal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(hosts: &[(&str, Option<&str>)], text: &str, refused: &[&str]) {
        let refusals = Refusals::default();
        for (host, address) in hosts {
            refusals.note(RefusedHost { host: (*host).to_owned(), address: address.map(str::to_owned) });
        }
        let mut outcome = ToolOutcome::ok("[exit code 1]");
        refusals.take().add_to(&mut outcome);
        assert_eq!(outcome.content, format!("[exit code 1]{text}"));
        let hosts = refused.iter().map(|host| Refusal::Host { host: (*host).to_owned() });
        assert_eq!(outcome.refused, hosts.collect::<Vec<_>>());
        assert_eq!(refusals.take(), RefusalSummary::default(), "it was taken");
    }

    #[test]
    fn each_host_is_said_once_with_what_would_grant_it() {
        check(&[], "", &[]);
        check(
            &[("pypi.org", None), ("evil.com", None), ("pypi.org", None)],
            "\n[The sandbox refused pypi.org: permissions.net does not grant it. Do without it, or name it in your report: \
             the user can add `pypi` (all hosts of that package manager) or `pypi.org`, or for one run: --allow-net=pypi.]\n\
             [The sandbox refused evil.com: permissions.net does not grant it. Do without it, or name it in your report: \
             the user can add `evil.com`, or for one run: --allow-net=evil.com.]",
            &["pypi.org", "evil.com"],
        );
        check(
            &[("inner.example.com", Some("10.0.0.1"))],
            "\n[The sandbox refused inner.example.com: its address 10.0.0.1 is not on the public Internet, and \
             permissions.net does not grant the address. Do without it, or name it in your report: the user can add \
             `10.0.0.1`, or for one run: --allow-net=10.0.0.1.]",
            &["10.0.0.1"],
        );
    }

    #[test]
    fn a_flood_is_cut() {
        let refusals = Refusals::default();
        for number in 0..1_000 {
            refusals.note(RefusedHost { host: format!("h{number}.com"), address: None });
        }
        let mut outcome = ToolOutcome::default();
        refusals.take().add_to(&mut outcome);
        assert_eq!(outcome.refused.len(), MAX_HOSTS);
        assert_eq!(outcome.content.lines().count(), MAX_HOSTS + 1);
        assert!(outcome.content.ends_with("more hosts, which are not listed.]"));
    }
}
