//! `notify:` — programs and addresses that are notified when a run ends, waits or asks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::{check_url, host_of};
use super::claim::{ClaimKind, Claims};
use super::diagnostic::whole;

/// One entry of `notify:`: a command or an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotifyConfig {
    /// Which events it is notified of. Default: all.
    #[serde(default = "NotifyOn::all")]
    #[schemars(length(min = 1))]
    pub on: Vec<NotifyOn>,
    /// The program and its arguments. rawko runs it without a shell, in the project's directory, and gives it a JSON object
    /// on standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub command: Option<Vec<String>>,
    /// The address that the same object is posted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NotifyOn {
    /// The run has ended.
    End,
    /// The run waits 10 seconds or more for a provider.
    Wait,
    /// A call waits for your approval.
    Question,
}

impl NotifyOn {
    fn all() -> Vec<Self> {
        vec![Self::End, Self::Wait, Self::Question]
    }
}

/// What is wrong with the entries: pointer, message and help.
pub(super) fn faults(entries: &[NotifyConfig]) -> Vec<(String, String, &'static str)> {
    let mut faults = Vec::new();
    for (n, entry) in entries.iter().enumerate() {
        if entry.command.is_some() == entry.url.is_some() {
            let what = "a notification needs either a `command` or a `url`".to_owned();
            faults.push((
                format!("/notify/{n}"),
                what,
                "write `command: [program, argument]` or `url: https://…`",
            ));
        }
        if entry.command.as_ref().and_then(|command| command.first()).is_some_and(|it| it.trim().is_empty()) {
            let what = "the program is empty".to_owned();
            faults.push((format!("/notify/{n}/command/0"), what, "name a program, such as `notify-send`"));
        }
        if let Some(Err(wants)) = entry.url.as_deref().map(check_url) {
            let what = format!("this is not a valid address: {wants}");
            faults.push((
                format!("/notify/{n}/url"),
                what,
                "write it like `https://hooks.example.com/rawko`",
            ));
        }
    }
    faults
}

impl Claims<'_> {
    pub(super) fn notify(&mut self, entries: &[NotifyConfig]) {
        for (n, entry) in entries.iter().enumerate() {
            if let Some(command) = &entry.command {
                let message = format!("`{}` would be run to notify", whole(&command.join(" ")));
                self.add(ClaimKind::CustomTool, &format!("/notify/{n}"), message);
            }
            if let Some(url) = &entry.url {
                let message = format!("results of runs would be posted to {}", whole(host_of(url)));
                self.add(ClaimKind::Server, &format!("/notify/{n}"), message);
            }
        }
    }
}
