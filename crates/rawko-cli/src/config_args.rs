//! Options that override the configuration, for every command that builds a run from it.

use clap::{ArgAction, Args};
use rawko::RawkoBuilder;
use rawko::config::{NotATimeSpan, Overrides, PlainNumber, TimeLimit, TimeSpan};
use rawko_core::agent::{Permissions, SandboxUse};

use crate::newcomer::FoundProvider;
use crate::output::quoted;
use crate::workspace::Workspace;

/// Options that override the configuration.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) values: OverrideArgs,
    #[command(flatten)]
    permissions: PermissionArgs,
}

/// Options that override single values.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct OverrideArgs {
    /// Use this provider [env: RAWKO_PROVIDER]
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Use this model of the provider [env: RAWKO_MODEL]
    #[arg(long, short)]
    model: Option<String>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Do not use the decision cache: always ask the arbiter's model
    #[arg(long)]
    no_cache: bool,
}

/// Options that limit a run.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct LimitArgs {
    /// Maximum number of agent executions [env: RAWKO_MAX_ITERATIONS]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_iterations: Option<u32>,
    /// Maximum tokens of all model calls together [env: RAWKO_MAX_TOKENS]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// Maximum cost, in US dollars [env: RAWKO_MAX_COST]
    #[arg(long, value_name = "USD", value_parser = amount)]
    max_cost: Option<f64>,
    /// Maximum time: 90s, 30m, or a number of seconds; 0 for no limit [env: RAWKO_TIMEOUT]
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    timeout: Option<TimeLimit>,
}

impl LimitArgs {
    /// The overrides for the SDK: the limits alone.
    pub(crate) fn overrides(self) -> Overrides {
        Overrides {
            max_iterations: self.max_iterations,
            max_tokens: self.max_tokens,
            max_cost_usd: self.max_cost,
            timeout: self.timeout,
            ..Overrides::default()
        }
    }
}

/// `--allow-*`: permissions for this run, instead of the configured ones.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Permissions, instead of the configured ones (agents can only narrow them)")]
pub(crate) struct PermissionArgs {
    /// Paths that agents may read; all paths if no value is given
    #[arg(long = "allow-read", value_name = "PATHS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "/", value_delimiter = ',', action = ArgAction::Append)]
    read: Option<Vec<String>>,
    /// Paths that agents may write; all paths if no value is given
    #[arg(long = "allow-write", value_name = "PATHS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "/", value_delimiter = ',', action = ArgAction::Append)]
    write: Option<Vec<String>>,
    /// Hosts that agents may reach; all hosts if no value is given
    #[arg(long = "allow-net", value_name = "HOSTS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "*", value_delimiter = ',', action = ArgAction::Append)]
    net: Option<Vec<String>>,
    /// Environment variables that child processes get; all but secrets if no value is given
    #[arg(long = "allow-env", value_name = "NAMES", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "*", value_delimiter = ',', action = ArgAction::Append)]
    env: Option<Vec<String>>,
    /// Programs that Bash may run
    #[arg(long = "allow-run", value_name = "PROGRAMS", require_equals = true)]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    run: Option<Vec<String>>,
    /// Run commands without a sandbox: they can read, write and reach what you can
    #[arg(long)]
    no_sandbox: bool,
}

impl ConfigArgs {
    /// A builder with these options applied.
    pub(crate) fn builder(self, workspace: &Workspace) -> RawkoBuilder {
        let Self { values, permissions } = self;
        values.builder(workspace).permissions(permissions.permissions())
    }

    /// The values that override the configuration, and a builder without them.
    pub(crate) fn apart(self, workspace: &Workspace) -> (OverrideArgs, RawkoBuilder) {
        (self.values, workspace.builder().permissions(self.permissions.permissions()))
    }
}

impl ConfigArgs {
    /// The permissions as they are typed, each with a space before it.
    pub(crate) fn granted(&self) -> String {
        self.permissions.as_options()
    }

    /// The same with a provider that was found.
    pub(crate) fn with_provider(mut self, found: FoundProvider) -> Self {
        self.values.provider = Some(found.provider);
        self.values.model = found.model.or(self.values.model);
        self
    }
}

impl OverrideArgs {
    /// A builder with these options applied.
    pub(crate) fn builder(self, workspace: &Workspace) -> RawkoBuilder {
        workspace.builder().overrides(self.overrides())
    }

    /// The overrides for the SDK.
    pub(crate) fn overrides(self) -> Overrides {
        Overrides {
            provider: self.provider,
            model: self.model,
            no_cache: self.no_cache,
            ..self.limits.overrides()
        }
    }
}

impl PermissionArgs {
    /// The options as they are typed, each with a space before it.
    pub(crate) fn as_options(&self) -> String {
        let lists = [
            ("read", &self.read, "/"),
            ("write", &self.write, "/"),
            ("net", &self.net, "*"),
            ("env", &self.env, "*"),
            ("run", &self.run, ""),
        ];
        let given = lists.into_iter().filter_map(|(name, values, all)| {
            let values = values.as_ref()?;
            let is_all = values.as_slice() == [all];
            let values = if is_all { String::new() } else { format!("={}", quoted(&values.join(","))) };
            Some(format!(" --allow-{name}{values}"))
        });
        given.chain(self.no_sandbox.then(|| " --no-sandbox".to_owned())).collect()
    }

    /// The permissions for the SDK.
    pub(crate) fn permissions(self) -> Permissions {
        let env = self.env.map(|names| match names.iter().any(|name| name == "*") {
            true => std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect(),
            false => names,
        });
        Permissions {
            read: self.read,
            write: self.write,
            deny: None,
            protect: None,
            net: self.net,
            env,
            run: self.run,
            caches: None,
            memory: None,
            require: None,
            sandbox: self.no_sandbox.then_some(SandboxUse::Off),
            ask: None,
            ask_timeout: None,
        }
    }
}

/// An amount in US dollars.
pub(crate) fn amount(text: &str) -> Result<f64, String> {
    match text.trim().trim_start_matches('$').parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("write an amount in US dollars, like 2.50".to_owned()),
    }
}

/// A length of time, or 0; a number without a unit is seconds.
pub(crate) fn time_limit(text: &str) -> Result<TimeLimit, NotATimeSpan> {
    TimeLimit::parse(text, PlainNumber::Seconds)
}

/// A length of time; a number without a unit is seconds.
pub(crate) fn time_span(text: &str) -> Result<TimeSpan, NotATimeSpan> {
    TimeSpan::parse(text, PlainNumber::Seconds)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        permissions: PermissionArgs,
    }

    /// The options that a hint repeats mean the same when they are typed.
    #[track_caller]
    fn check(options: &[&str], shown: &str) {
        let given = Line::try_parse_from([&["rawko"], options].concat()).unwrap().permissions;
        assert_eq!(given.as_options(), shown);
        let typed = format!("rawko{shown}").replace('\'', "");
        assert_eq!(Line::try_parse_from(typed.split(' ')).unwrap().permissions, given);
    }

    #[test]
    fn permissions_are_repeated_as_they_were_given() {
        check(&[], "");
        check(&["--allow-net"], " --allow-net");
        check(&["--allow-read=a,b", "--allow-read=c"], " --allow-read=a,b,c");
        check(&["--allow-run=git,cargo", "--no-sandbox"], " --allow-run=git,cargo --no-sandbox");
        check(&["--allow-net=*.example.com"], " --allow-net='*.example.com'");
        check(&["--allow-write", "--allow-env"], " --allow-write --allow-env");
    }
}
