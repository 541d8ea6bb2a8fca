//! `rawko doctor`: checks whether everything that a run needs is there, and says what to do if not.

use std::path::Path;

use clap::Args;
use rawko::config::ProviderType;
use rawko::tools::Git;
use rawko::{ModelPlace, Rawko, TimeSpan, VerificationPlan};
use rustix::fs::{Access, access};
use serde::Serialize;
use serde_json::{Value, json};

use super::providers::{self, ProviderKey};
use crate::console::{OutputArgs, output_columns};
use crate::environment::ProcessEnv;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::newcomer;
use crate::output::{Paint, clean, clean_line, counted, indent, room, wrap};
use crate::workspace::{Workspace, choose};

/// Column where the text of a finding begins.
const MARGIN: usize = 23;
/// Width of that text.
const WIDTH: usize = 76;

/// Options of `rawko doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    /// Nothing to do.
    Ok,
    /// Runs work, with a drawback.
    Warning,
    /// Runs do not work.
    Problem,
}

/// One check: what was found and what to do about it.
#[derive(Debug, Serialize)]
struct DoctorFinding {
    name: &'static str,
    health: Health,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    /// The commands that would verify a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<Vec<String>>,
}

impl DoctorFinding {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, health: Health::Ok, detail: detail.into(), fix: None, commands: None }
    }

    fn warning(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, health: Health::Warning, detail: detail.into(), fix: Some(fix.into()), commands: None }
    }

    fn problem(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, health: Health::Problem, detail: detail.into(), fix: Some(fix.into()), commands: None }
    }
}

/// Runs all checks.
pub(crate) fn run(workspace: &Workspace, arguments: &DoctorArgs) -> Result<Exit, Failure> {
    let Examination { findings, places } = examine(workspace)?;
    let problems = findings.iter().filter(|finding| finding.health == Health::Problem).count();
    let models: Vec<Value> = places.iter().map(place_json).collect();
    let value = json!({
        "version": env!("CARGO_PKG_VERSION"), "ok": problems == 0, "findings": findings, "models": models,
    });
    workspace.console.output(arguments.output.json, &value, |paint| {
        let table = if places.is_empty() { String::new() } else { newcomer::table(&places, paint) + "\n" };
        format!("{table}{}", page(&findings, problems, paint))
    })?;
    Ok(if problems == 0 { Exit::Success } else { Exit::Failed })
}

/// A place where a model may be, with the command that comes next.
fn place_json(place: &ModelPlace) -> Value {
    let mut value = json!(place);
    value["next"] = json!(newcomer::next(place));
    value
}

/// What was looked at.
struct Examination {
    findings: Vec<DoctorFinding>,
    places: Vec<ModelPlace>,
}

fn examine(workspace: &Workspace) -> Result<Examination, Failure> {
    let mut findings = Vec::new();
    let mut places = Vec::new();
    match workspace.builder().trusted(true).build() {
        Ok(rawko) => {
            findings.push(configuration(&rawko));
            findings.push(trust(workspace, &rawko));
            places = newcomer::look(workspace, &rawko)?;
            findings.extend(models(workspace, &rawko, &places));
            findings.push(verification(&rawko));
            findings.extend(limits(&rawko));
            findings.push(folder(workspace, rawko.project()));
            findings.push(git(workspace.environment, rawko.project()));
            findings.push(bash());
            findings.push(sandbox(&rawko));
            findings.extend(denied(&rawko));
        }
        Err(error) => {
            let fix = "fix these errors, then run `rawko config check`";
            findings.push(DoctorFinding::problem("configuration", error.to_string(), fix));
            findings.push(folder(workspace, workspace.folder()));
            findings.push(git(workspace.environment, workspace.folder()));
            findings.push(bash());
        }
    }
    Ok(Examination { findings, places })
}

fn configuration(rawko: &Rawko) -> DoctorFinding {
    let config = rawko.config();
    let agents = config.agents.len();
    match config.warnings.as_slice() {
        [] => DoctorFinding::ok("configuration", format!("valid, {agents} agents")),
        warnings => {
            let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
            DoctorFinding::warning("configuration", texts.join("\n"), "see `rawko config check`")
        }
    }
}

fn trust(workspace: &Workspace, rawko: &Rawko) -> DoctorFinding {
    let claims = rawko.config().claims.len();
    if claims == 0 {
        return DoctorFinding::ok("trust", "this folder's configuration needs no trust");
    }
    if workspace.is_trusted(rawko) {
        return DoctorFinding::ok("trust", "this folder's configuration is trusted");
    }
    let detail = format!(
        "this folder is not trusted, and its configuration needs that for {}",
        counted(claims as u64, "setting")
    );
    DoctorFinding::problem("trust", detail, "read them (`rawko config check`), then run `rawko trust`")
}

/// The default provider, and others that have a key.
fn models(workspace: &Workspace, rawko: &Rawko, places: &[ModelPlace]) -> Vec<DoctorFinding> {
    let config = &rawko.config().config;
    let name = config.default_provider();
    let environment = workspace.environment;
    let others: Vec<String> = providers::all(rawko)
        .iter()
        .filter(|other| {
            other.name != name && matches!(ProviderKey::of(other, environment), ProviderKey::Set(_))
        })
        .map(|other| other.name.clone())
        .collect();
    let Some(provider) = config.provider(name) else {
        let fix = "name one: --provider NAME (`rawko providers list`)";
        return vec![DoctorFinding::problem("provider", format!("there is no provider `{name}`"), fix)];
    };
    let mut findings = Vec::new();
    let found = places.iter().find(|place| place.is_usable && rawko.has_no_provider());
    let found = found.and_then(|place| Some((place, place.provider.as_deref()?)));
    let of_machine = found.map(|(place, found)| {
        let detail =
            format!("none is configured; a run uses `{found}` ({}), found on this machine", place.place);
        DoctorFinding::ok("provider", detail)
    });
    findings.push(of_machine.unwrap_or_else(|| match ProviderKey::of(&provider, environment) {
        _ if provider.kind == ProviderType::Copilot && !cfg!(feature = "copilot") => DoctorFinding::problem(
            "provider",
            format!("`{name}` is GitHub Copilot, which this build of rawko does not have"),
            "use a released rawko, or build one with the feature `copilot`; or name another provider: --provider NAME",
        ),
        ProviderKey::Set(variable) => DoctorFinding::ok("provider", format!("`{name}`, key in {variable}")),
        ProviderKey::NotSent if provider.kind == ProviderType::Scripted => {
            DoctorFinding::ok("provider", format!("`{name}`, scripted answers"))
        }
        ProviderKey::NotSent if provider.kind == ProviderType::Copilot => DoctorFinding::ok(
            "provider",
            format!("`{name}`, by the login of the Copilot CLI. To try it: `rawko providers check {name}`"),
        ),
        ProviderKey::NotSent => DoctorFinding::ok(
            "provider",
            format!(
                "`{name}`, no key is sent; if it needs one, name its variable in `apiKeyEnv`. \
                 To try it: `rawko providers check {name}`"
            ),
        ),
        ProviderKey::Missing(variable) => DoctorFinding::problem(
            "provider",
            format!("`{name}` needs a key, and {variable} is not set"),
            format!("export {variable}=…, or use another provider: --provider NAME (`rawko providers list`); a model on this machine: --provider ollama"),
        ),
    }));
    if let Err(error) = rawko.setup() {
        let fix = "name a model: --model MODEL, or `model` in the configuration";
        findings.push(DoctorFinding::problem("model", error.to_string(), fix));
    } else if let Err(error) = rawko.check_secrets() {
        let fix = "remove it: it would be sent to a model and stored in the journal";
        findings.push(DoctorFinding::problem("secrets", error.to_string(), fix));
    }
    if !others.is_empty() {
        findings.push(DoctorFinding::ok("other keys", others.join(", ")));
    }
    findings
}

/// The verification commands, and where they come from.
/// What stops a run that does not end by itself.
fn limits(rawko: &Rawko) -> Option<DoctorFinding> {
    const NAME: &str = "limits";
    // Where there is no setup, another finding says why.
    let limits = rawko.setup().ok()?.limits;
    let time = limits.max_duration_ms.and_then(TimeSpan::from_ms);
    let time = time.map_or("no limit of the time".to_owned(), |max| format!("a run stops after {max}"));
    let finding = match limits.max_cost_usd {
        Some(max) => DoctorFinding::ok(NAME, format!("{time}, and at ${max:.2}")),
        None if rawko.config().config.constraints.max_cost_usd > 0.0 => DoctorFinding::ok(
            NAME,
            format!("{time}; its cost is not limited, because the price of a model is not known"),
        ),
        None => DoctorFinding::ok(NAME, format!("{time}; its cost is not limited")),
    };
    Some(finding)
}

fn verification(rawko: &Rawko) -> DoctorFinding {
    let plan = rawko.verification_plan();
    let commands = Some(plan.commands.clone());
    DoctorFinding { commands, ..verified_by(plan) }
}

fn verified_by(plan: VerificationPlan) -> DoctorFinding {
    const NAME: &str = "verification";
    let VerificationPlan { commands, origin, found, .. } = plan;
    let listed = commands.iter().map(|command| format!("`{}`", clean_line(command)));
    let listed = listed.collect::<Vec<_>>().join(", ");
    let missing: Vec<String> = found
        .iter()
        .filter_map(|found| {
            let program = found.missing.as_ref()?;
            Some(format!("{} suggests `{}`, but {program} is not installed", found.because, found.command))
        })
        .collect();
    let claimed = "runs can only end as claimed";
    match (origin, commands.is_empty(), missing.is_empty()) {
        (Some(origin), false, _) => DoctorFinding::ok(NAME, format!("{listed}, set by {origin}")),
        (Some(origin), true, _) => DoctorFinding::ok(NAME, format!("turned off by {origin}: {claimed}")),
        (None, false, true) => {
            let signs: Vec<&str> = found.iter().map(|found| found.because.as_str()).collect();
            DoctorFinding::ok(NAME, format!("{listed}, found by {}", signs.join(", ")))
        }
        (None, false, false) => {
            let detail = format!("{listed}, found in the project; {}", missing.join("; "));
            DoctorFinding::warning(
                NAME,
                detail,
                "install what is missing, or set `verify:` in .rawko/config.yaml",
            )
        }
        (None, true, false) => {
            let detail = format!("{}: {claimed}", missing.join("; "));
            DoctorFinding::warning(NAME, detail, "install it, or set `verify:` in .rawko/config.yaml")
        }
        (None, true, true) => {
            let detail = format!("no verification command was found: {claimed}");
            DoctorFinding::warning(
                NAME,
                detail,
                "set `verify: [COMMAND]` in .rawko/config.yaml, or use --verify CMD",
            )
        }
    }
}

/// Whether a run may work here and can store sessions. Checks the nearest existing folder, so that nothing is written.
fn folder(workspace: &Workspace, project: &Path) -> DoctorFinding {
    if let Some((too_wide, project)) = workspace.too_wide() {
        return DoctorFinding::problem("folder", too_wide.described(&project), choose(&project));
    }
    let sessions = project.join(".rawko").join("sessions");
    let nearest = sessions.ancestors().find(|path| path.exists()).unwrap_or(project);
    match access(nearest, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => DoctorFinding::ok("folder", format!("{} can be written", nearest.display())),
        Err(error) => DoctorFinding::problem(
            "folder",
            format!("{} cannot be written: {}", nearest.display(), std::io::Error::from(error)),
            "run rawko in a folder of your own, or give yourself write permission",
        ),
    }
}

fn git(environment: ProcessEnv, project: &Path) -> DoctorFinding {
    let Some(program) = environment.program_outside("git", project) else {
        let fix = "install git: `rawko diff`, `rawko rewind` and verified results need it";
        return DoctorFinding::warning("git", "git is not found in PATH", fix);
    };
    let version = Git::alone(&program).arg("version").text().unwrap_or_default();
    if project.ancestors().any(|folder| folder.join(".git").exists()) {
        DoctorFinding::ok("git", format!("{version}, and this is a git work tree"))
    } else {
        let fix = "run `git init` and commit before a run to see its changes in git too; `rawko diff` and `rawko rewind` \
                   work without";
        DoctorFinding::warning("git", format!("{version}, but this is not a git work tree"), fix)
    }
}

/// The bash that the Bash tool runs. It is not searched in `PATH`.
fn bash() -> DoctorFinding {
    match rawko::tools::shell() {
        Ok(path) => DoctorFinding::ok("bash", path),
        Err(error) => {
            DoctorFinding::problem("bash", error.to_string(), "install bash: agents run commands with it")
        }
    }
}

fn sandbox(rawko: &Rawko) -> DoctorFinding {
    const FILES: &str = "file tools can only reach what the permissions allow";
    let (confinement, lost) = match (rawko.confinement(), rawko.degraded()) {
        (Ok(confinement), Ok(lost)) => (confinement, lost.join("; ")),
        (Err(error), _) | (_, Err(error)) => {
            let fix = "remove permissions.require, and run rawko in a container or as a separate user";
            return DoctorFinding::problem("sandbox", error.to_string(), fix);
        }
    };
    let memory = match rawko.sandbox().map(rawko::tools::Sandbox::memory) {
        Ok(Some(most)) => format!("; each may use {most} MiB of memory"),
        Ok(None) | Err(_) => "; their memory is not limited".to_owned(),
    };
    match (confinement.walls(), rawko.sandbox()) {
        (Some(walls), _) if lost.is_empty() => DoctorFinding::ok(
            "sandbox",
            format!("{FILES}, and commands are confined to the same by {walls}{memory}"),
        ),
        (Some(walls), _) => DoctorFinding::warning(
            "sandbox",
            format!("{FILES}, and commands are confined by {walls}{memory}, but {lost}"),
            if lost.starts_with("permissions.memory") {
                "start rawko where it may make control groups, or remove permissions.memory"
            } else {
                "if that matters, let this user make user namespaces"
            },
        ),
        (None, Ok(_)) => DoctorFinding::warning(
            "sandbox",
            format!("{FILES}, but {lost}; this machine has what the sandbox needs"),
            "remove `permissions.sandbox: off`",
        ),
        (None, Err(shortage)) if confinement.runs_commands() => DoctorFinding::warning(
            "sandbox",
            format!("{FILES}, but {lost}; this machine has no sandbox: {shortage}"),
            "if that matters, run rawko in a container or as a separate user",
        ),
        (None, Err(_)) => DoctorFinding::problem(
            "sandbox",
            lost,
            "let this user make user namespaces; or set `permissions.sandbox: off`, and run rawko in a container or \
             as a separate user",
        ),
    }
}

/// Warns of what is denied in the tree, and can be read in the history.
fn denied(rawko: &Rawko) -> Option<DoctorFinding> {
    const SHOWN: usize = 3;
    let tracked = rawko.denied_and_tracked();
    let shown: Vec<String> = tracked.iter().take(SHOWN).map(|path| format!("`{}`", path.display())).collect();
    let more = match tracked.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!tracked.is_empty()).then(|| {
        DoctorFinding::warning(
            "denied",
            format!(
                "permissions.deny covers files that git tracks ({}{more}): git's history shows them to every command",
                shown.join(", ")
            ),
            "replace the secrets that were ever committed, and have git ignore the files",
        )
    })
}

fn page(findings: &[DoctorFinding], problems: usize, paint: Paint) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.health {
            Health::Ok => paint.good("ok     "),
            Health::Warning => paint.warning("warning"),
            Health::Problem => paint.bad("problem"),
        };
        let width = output_columns().map_or(WIDTH, |columns| room(columns, MARGIN).min(WIDTH));
        let detail = indent(&wrap(&clean(&finding.detail), width), MARGIN);
        text.push_str(&format!(
            "{mark}  {} {}\n",
            paint.strong(&format!("{:<13}", finding.name)),
            detail.trim_start()
        ));
        if let Some(fix) = &finding.fix {
            let fix = indent(&wrap(&clean(fix), width - 4), MARGIN + 4);
            text.push_str(&format!("{}{} {}\n", " ".repeat(MARGIN), paint.hint("do:"), fix.trim_start()));
        }
    }
    text.push_str(&match problems {
        0 => format!("\n{}\n", paint.good("Runs will work.")),
        1 => format!("\n{}\n", paint.bad("There is 1 problem.")),
        n => format!("\n{}\n", paint.bad(&format!("There are {n} problems."))),
    });
    text
}
