//! `start` and `continue`: a run of the user's, on the client's word. The client may lower limits and choose the first agent.
//! It has no say in the checks: all of the project's run, no matter who asks for the task (ADR 100).

use rawko::config::{Config, Overrides, PlainNumber, TimeLimit};
use rawko::{Error, Rawko, Run, RunEvent};
use rawko_core::setup::RunLimits;
use serde::Deserialize;
use serde_json::json;

use super::DoneAnswer;
use crate::project::ToolProblem;
use crate::server::RawkoServer;

/// Bytes of a task.
const LONGEST_TASK: usize = 256 * 1024;

/// The terms of a run.
#[derive(Debug, Clone, Default)]
struct RunTerms {
    agent: Option<String>,
    max_iterations: Option<u32>,
    max_tokens: Option<u32>,
    max_cost_usd: Option<f64>,
    timeout: Option<String>,
}

/// The arguments of `start`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct StartArguments {
    task: String,
    agent: Option<String>,
    max_iterations: Option<u32>,
    max_tokens: Option<u32>,
    max_cost_usd: Option<f64>,
    timeout: Option<String>,
}

/// The arguments of `continue`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ContinueArguments {
    session: Option<String>,
    task: Option<String>,
    agent: Option<String>,
    max_iterations: Option<u32>,
    max_tokens: Option<u32>,
    max_cost_usd: Option<f64>,
    timeout: Option<String>,
}

/// Starts a task.
pub(super) async fn start(server: &RawkoServer, asked: StartArguments) -> Result<DoneAnswer, ToolProblem> {
    let StartArguments { task, agent, max_iterations, max_tokens, max_cost_usd, timeout } = asked;
    check_length(&task)?;
    let terms = RunTerms { agent, max_iterations, max_tokens, max_cost_usd, timeout };
    begun(server, terms, "started", move |rawko| rawko.run(&task)).await
}

/// Gives a session its next task, or goes on with the one that it has.
pub(super) async fn continue_session(
    server: &RawkoServer,
    asked: ContinueArguments,
) -> Result<DoneAnswer, ToolProblem> {
    let ContinueArguments { session, task, agent, max_iterations, max_tokens, max_cost_usd, timeout } = asked;
    check_length(task.as_deref().unwrap_or_default())?;
    if let (None, Some(agent)) = (&task, &agent) {
        return Err(ToolProblem::new(
            format!("the agent `{agent}` can begin only a new task"),
            "leave out `agent`, give a `task`, or use `steer` with `force` while the session runs",
        ));
    }
    let terms = RunTerms { agent, max_iterations, max_tokens, max_cost_usd, timeout };
    let word = if task.is_some() { "continued" } else { "resumed" };
    begun(server, terms, word, move |rawko| match &task {
        Some(task) => rawko.continue_session(session.as_deref(), task),
        None => rawko.resume(session.as_deref()),
    })
    .await
}

fn check_length(task: &str) -> Result<(), ToolProblem> {
    if task.len() <= LONGEST_TASK {
        return Ok(());
    }
    Err(ToolProblem::new(
        format!("the task is longer than {} KiB", LONGEST_TASK / 1024),
        "put the material into a file of the project, and name the file in the task",
    ))
}

/// Begins the run that `prepare` makes of the project with these terms.
async fn begun(
    server: &RawkoServer,
    terms: RunTerms,
    word: &str,
    prepare: impl FnOnce(&Rawko) -> Result<Run, Error> + Send + 'static,
) -> Result<DoneAnswer, ToolProblem> {
    // A client that has seen the end of a session may go on at once.
    tokio::select! {
        () = server.runs.settled() => {}
        () = server.closed() => {}
    }
    let asked = terms.clone();
    let mut run = server
        .blocking(move |server| {
            prepare(&opened(server, &asked)?).map_err(|error| server.project.words(error))
        })
        .await?;
    let session = run.session_id().to_owned();
    let mut events = run.events();
    server.runs.begin(run)?;
    // Then its beginning is in the journal, and who watches it sees this task and not the one before.
    let first = events.next().await;
    let mut text = format!("{word}: session {session}. Follow it: watch {{\"session\": \"{session}\"}}");
    let mut value = json!({"session": session, "status": "running"});
    if let Some(RunEvent::SessionStarted { limits: Some(limits), .. }) = first {
        for limit in kept(&terms, &limits) {
            text.push_str(&format!("\n{limit}: a client cannot raise a limit of the session"));
        }
        if let Some(fields) = value.as_object_mut() {
            fields.insert("limits".to_owned(), json!(limits));
        }
    }
    Ok(DoneAnswer::new(text, value))
}

/// The limits of the session that stay where they are, because the client wanted them higher.
fn kept(terms: &RunTerms, limits: &RunLimits) -> Vec<String> {
    let mut kept = Vec::new();
    if terms.max_iterations.is_some_and(|wanted| wanted > limits.max_iterations) {
        kept.push(format!("`maxIterations` stays {}", limits.max_iterations));
    }
    if let (Some(wanted), Some(most)) = (terms.max_tokens, limits.max_tokens)
        && u64::from(wanted) > most
    {
        kept.push(format!("`maxTokens` stays {most}"));
    }
    if let (Some(wanted), Some(most)) = (terms.max_cost_usd, limits.max_cost_usd)
        && wanted > most
    {
        kept.push(format!("`maxCostUsd` stays {most}"));
    }
    let wanted = terms.timeout.as_deref().and_then(|text| TimeLimit::parse(text, PlainNumber::Seconds).ok());
    if let (Some(wanted), Some(most)) = (wanted.and_then(TimeLimit::as_ms), limits.max_duration_ms)
        && wanted > most
    {
        kept.push(format!("`timeout` stays {} seconds", as_f64(most) / 1000.0));
    }
    kept
}

/// The project with these terms.
fn opened(server: &RawkoServer, terms: &RunTerms) -> Result<Rawko, ToolProblem> {
    let project = &server.project;
    let configured = project.open(project.builder.clone(), project.overrides.clone())?;
    let narrowed = narrowed(&configured.config().config, project.overrides.clone(), terms)?;
    // A session that goes on keeps limits that the user set on it.
    let builder = project.builder.clone().keep_limits(true);
    let builder = match &terms.agent {
        Some(agent) => builder.first_agent(agent.clone()),
        None => builder,
    };
    project.open(builder, narrowed)
}

/// The user's overrides with limits that are lower where the client wants them so.
fn narrowed(config: &Config, user: Overrides, terms: &RunTerms) -> Result<Overrides, ToolProblem> {
    let limits = &config.constraints;
    let mut overrides = user;
    if let Some(wanted) = terms.max_iterations {
        check_limit("maxIterations", wanted.into(), f64::from(limits.max_iterations))?;
        overrides.max_iterations = Some(wanted);
    }
    if let Some(wanted) = terms.max_tokens {
        check_limit("maxTokens", wanted.into(), limits.max_tokens.map_or(f64::INFINITY, as_f64))?;
        overrides.max_tokens = Some(wanted);
    }
    if let Some(wanted) = terms.max_cost_usd {
        let most = if limits.max_cost_usd > 0.0 { limits.max_cost_usd } else { f64::INFINITY };
        check_limit("maxCostUsd", wanted, most)?;
        overrides.max_cost_usd = Some(wanted);
    }
    if let Some(text) = &terms.timeout {
        let wanted = TimeLimit::parse(text, PlainNumber::Seconds).map_err(|error| {
            ToolProblem::new(format!("`timeout` is `{text}`: {error}"), "write it like 90s, 30m or 2h")
        })?;
        let seconds = |limit: TimeLimit| limit.as_ms().map_or(f64::INFINITY, |ms| as_f64(ms) / 1000.0);
        check_limit("timeout", seconds(wanted), seconds(limits.max_duration))?;
        overrides.timeout = Some(wanted);
    }
    Ok(overrides)
}

#[allow(clippy::cast_precision_loss, reason = "limits are compared, and people set them")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

fn check_limit(name: &str, wanted: f64, most: f64) -> Result<(), ToolProblem> {
    if wanted > 0.0 && wanted <= most {
        return Ok(());
    }
    let message = if wanted > most {
        format!("`{name}` is more than the user allows, which is {most}, and a client may only lower it")
    } else {
        format!("`{name}` is {wanted}, and it has to be more than 0")
    };
    Err(ToolProblem::new(message, format!("leave out `{name}`, or give less")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(terms: RunTerms, expected: Result<Overrides, &str>) {
        let config = Config::default();
        let user = Overrides { model: Some("m".to_owned()), ..Overrides::default() };
        match (narrowed(&config, user, &terms), expected) {
            (Ok(overrides), Ok(expected)) => assert_eq!(overrides, expected, "{terms:?}"),
            (Err(problem), Err(part)) => assert!(problem.text().contains(part), "{}", problem.text()),
            (got, _) => panic!("{terms:?}: {got:?}"),
        }
    }

    #[test]
    fn a_client_lowers_limits_and_raises_none() {
        let of_user = || Overrides { model: Some("m".to_owned()), ..Overrides::default() };
        let none = RunTerms::default;
        check(none(), Ok(of_user()));
        check(
            RunTerms { max_iterations: Some(3), max_cost_usd: Some(0.5), ..none() },
            Ok(Overrides { max_iterations: Some(3), max_cost_usd: Some(0.5), ..of_user() }),
        );
        check(
            RunTerms { max_tokens: Some(1_000), ..none() },
            Ok(Overrides { max_tokens: Some(1_000), ..of_user() }),
        );
        let minutes = TimeLimit::parse("30m", PlainNumber::Seconds).unwrap();
        check(
            RunTerms { timeout: Some("30m".to_owned()), ..none() },
            Ok(Overrides { timeout: Some(minutes), ..of_user() }),
        );
        check(RunTerms { max_iterations: Some(51), ..none() }, Err("which is 50"));
        check(RunTerms { max_iterations: Some(0), ..none() }, Err("more than 0"));
        check(
            RunTerms { max_cost_usd: Some(10.1), ..none() },
            Err("`maxCostUsd` is more than the user allows"),
        );
        check(RunTerms { max_cost_usd: Some(f64::NAN), ..none() }, Err("more than 0"));
        check(
            RunTerms { timeout: Some("0".to_owned()), ..none() },
            Err("`timeout` is more than the user allows"),
        );
        check(RunTerms { timeout: Some("soon".to_owned()), ..none() }, Err("like 90s"));
    }

    #[test]
    fn a_limit_that_stays_below_what_was_wanted_is_named() {
        let limits = RunLimits {
            max_iterations: 3,
            max_tokens: Some(100),
            max_cost_usd: Some(0.5),
            max_duration_ms: Some(90_000),
            ..RunLimits::default()
        };
        let wanted = |iterations, tokens, cost, timeout: &str| RunTerms {
            agent: None,
            max_iterations: Some(iterations),
            max_tokens: Some(tokens),
            max_cost_usd: Some(cost),
            timeout: Some(timeout.to_owned()),
        };
        let all = [
            "`maxIterations` stays 3",
            "`maxTokens` stays 100",
            "`maxCostUsd` stays 0.5",
            "`timeout` stays 90 seconds",
        ];
        assert_eq!(kept(&wanted(4, 101, 0.6, "2m"), &limits), all);
        assert_eq!(kept(&wanted(3, 100, 0.5, "90s"), &limits), [""; 0]);
        assert_eq!(kept(&RunTerms::default(), &limits), [""; 0]);
        assert_eq!(
            kept(&wanted(3, 9_999, 9.0, "9h"), &RunLimits { max_iterations: 3, ..RunLimits::default() }),
            [""; 0]
        );
    }
}
