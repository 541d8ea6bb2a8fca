//! `rawko worker`: takes steps of tasks from the queues of a fleet until it is asked to stop.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rawko::config::COPILOT;
use rawko::provider::preset::PRESETS;
use rawko_temporal::{MakeBuilder, Slots, WorkerSettings, work};
use tokio::sync::oneshot;

use super::arguments::WorkerArgs;
use super::connection::{FleetAddress, OrFailure as _};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{clean, clean_line, counted};
use crate::runtime::block_on_threads;
use crate::signals::StopSignals;
use crate::workspace::{Workspace, builder_of};

/// After this time without the server, rawko tells a user at the terminal what it waits for.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn run(workspace: &Workspace, arguments: WorkerArgs) -> Result<Exit, Failure> {
    let target = FleetAddress::of(workspace, &arguments.connection)?;
    let folder = folder(workspace, arguments.dir.as_deref())?;
    let providers = providers(workspace, &arguments)?;
    let rates = arguments.rate.iter().cloned().collect();
    let console = workspace.console;
    let settings = WorkerSettings {
        engine: target.engine.clone(),
        queue: target.queue.clone(),
        store: target.store.clone(),
        repositories: (!arguments.allow_repo.is_empty()).then(|| arguments.allow_repo.clone()),
        slots: Slots { models: arguments.models, steps: arguments.steps, verify: arguments.verify_slots },
        providers,
        rates,
        builder: builder(workspace, arguments.yes)?,
        merge_request: arguments.merge_request.clone(),
        grace: Duration::from_millis(arguments.grace.and_then(|grace| grace.as_ms()).unwrap_or(0)),
        notice: Arc::new(move |text: &str| {
            let label = console.error_paint().warning("warning:");
            let _ = console.write_error(&format!("{label} {}\n", clean(text)));
        }),
        interceptors: Vec::new(),
        deployment: arguments.deployment.clone().zip(arguments.build.clone()),
        folder,
    };
    if let Some((name, _)) =
        arguments.rate.iter().find(|(name, _)| !settings.providers.iter().any(|known| known == name))
    {
        let name = clean_line(name);
        return Err(Failure::usage(format!("--rate names `{name}`, whose calls this worker does not make"))
            .with_hint(format!("let it make them: --provider {name}")));
    }
    let line = ready_line(&settings, &target);
    block_on_threads(until_stopped(workspace.console, settings, line))
}

/// Works, and ends in order at the first signal, at once at the second.
async fn until_stopped(console: Console, settings: WorkerSettings, line: String) -> Result<Exit, Failure> {
    let mut signals = StopSignals::listen()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let is_ready = Arc::new(AtomicBool::new(false));
    let grace = settings.grace.as_secs();
    let ready = {
        let is_ready = Arc::clone(&is_ready);
        move || {
            is_ready.store(true, Ordering::Relaxed);
            // If it is not read, the work goes on all the same.
            let _ = console.line(&line);
        }
    };
    let mut working = pin!(work(settings, ready, async move {
        let _ = stopped.await;
    }));
    let mut patience = pin!(tokio::time::sleep(PATIENCE));
    let (mut stop, mut is_reported) = (Some(stop), false);
    loop {
        tokio::select! {
            biased;
            name = signals.next() => match stop.take().filter(|_| is_ready.load(Ordering::Relaxed)) {
                Some(stop) => {
                    let _ = stop.send(());
                    let text = format!(
                        "{name}: taking nothing new; what is under way may go on for {grace} s. Once more to end at once\n"
                    );
                    let _ = console.write_error(&text);
                }
                None => {
                    rawko::tools::kill_all_now();
                    return Ok(Exit::Cancelled);
                }
            },
            ended = &mut working => {
                ended.or_failure()?;
                return Ok(Exit::Success);
            }
            () = &mut patience, if !is_reported => {
                is_reported = true;
                if !is_ready.load(Ordering::Relaxed) {
                    let _ = console.write_error("waiting for the Temporal server, for up to 5 minutes\n");
                }
            }
        }
    }
}

fn ready_line(settings: &WorkerSettings, target: &FleetAddress) -> String {
    let WorkerSettings { queue, slots, providers, .. } = settings;
    let models = match (slots.models, providers.as_slice()) {
        (0, _) => "no model calls".to_owned(),
        (most, providers) => {
            format!("{} of {}", counted(most as u64, "model call"), clean_line(&providers.join(", ")))
        }
    };
    format!(
        "worker ready: queue {} at {}; {models}, {}, {} at once; store {}",
        clean_line(queue),
        clean_line(&target.address),
        counted(slots.steps as u64, "step"),
        counted(slots.verify as u64, "verification"),
        clean_line(&target.store_in_words()),
    )
}

/// Where repositories and trees are kept.
fn folder(workspace: &Workspace, given: Option<&Path>) -> Result<PathBuf, Failure> {
    let usual = || workspace.environment.cache_dir().map(|cache| cache.join("fleet"));
    let Some(folder) = given.map(Path::to_owned).or_else(usual) else {
        return Err(Failure::usage("there is no folder for repositories and trees: HOME is not set")
            .with_hint("name it: --dir DIR, or set HOME"));
    };
    let made = std::fs::create_dir_all(&folder).and_then(|()| folder.canonicalize());
    made.map_err(|error| {
        Failure::usage(format!("cannot use {}: {error}", folder.display()))
            .with_hint("name another folder: --dir DIR")
    })
}

/// What a run of `rawko run` in a task's tree would be made of.
fn builder(workspace: &Workspace, is_trusted: bool) -> Result<MakeBuilder, Failure> {
    let environment = workspace.environment;
    let file = workspace.config_file().map(|file| {
        file.canonicalize().map_err(|error| {
            Failure::usage(format!("cannot read {}: {error}", file.display()))
                .with_hint("--config names the configuration of all tasks of this worker")
        })
    });
    let file = file.transpose()?;
    Ok(Arc::new(move |tree: &Path| {
        let builder = builder_of(environment).project(tree).folder(tree).trusted(is_trusted);
        match &file {
            Some(file) => builder.config_file(file),
            None => builder,
        }
    }))
}

/// The providers whose calls it makes: those that were named, or those that the user has configured and those whose keys are
/// here.
fn providers(workspace: &Workspace, arguments: &WorkerArgs) -> Result<Vec<String>, Failure> {
    if arguments.models == 0 {
        return Ok(Vec::new());
    }
    let environment = workspace.environment;
    let mut named: BTreeSet<String> = arguments.provider.iter().cloned().collect();
    if let Some(wrong) = named.iter().find(|name| !is_name(name)) {
        return Err(Failure::usage(format!("`{}` is no provider's name", clean_line(wrong)))
            .with_hint("`rawko providers list` shows the names"));
    }
    // Not those of the folder that the worker happens to be started in.
    let nowhere = rawko::tools::temporary::private("rawko-nowhere-", None)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot make a temporary folder: {error}")))?;
    let mut builder = builder_of(environment).project(nowhere.path());
    if let Some(file) = workspace.config_file() {
        builder = builder.config_file(file);
    }
    let rawko = builder.trusted(true).build()?;
    // It would fail the calls that another worker can make.
    let lacks_key = |name: &str| match rawko.provider(name) {
        Err(error @ rawko::Error::NoKey { .. }) => Some(error),
        _ => None,
    };
    if let Some(error) = named.iter().find_map(|name| lacks_key(name)) {
        return Err(error.into());
    }
    if named.is_empty() {
        let config = &rawko.config().config;
        named.extend(config.provider.named.keys().cloned());
        named.extend(config.provider.default.clone());
        let has_key = |name: &&str| environment.var(name).is_some();
        let presets = PRESETS.iter().filter(|preset| preset.key_env.as_ref().is_some_and(has_key));
        named.extend(presets.map(|preset| preset.name.to_owned()));
        let is_copilot = |name: &String| name == COPILOT && config.provider(COPILOT).is_none();
        named.retain(|name| !is_copilot(name));
        named.retain(|name| {
            let Some(error) = lacks_key(name) else { return true };
            let label = workspace.console.error_paint().warning("warning:");
            let _ = workspace.console.write_error(&format!("{label} no model calls here: {error}\n"));
            false
        });
    }
    if named.is_empty() {
        return Err(Failure::new(Exit::Provider, "this worker has no provider for model calls").with_hint(
            "set a key, like ANTHROPIC_API_KEY, or name the provider: --provider NAME\n\
             for a worker that makes no model calls: --models 0",
        ));
    }
    Ok(named.into_iter().collect())
}

/// Whether it can be part of a queue's name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_a_part_of_a_queues_name() {
        for name in ["claude", "my-own_1", "a.b"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "a b", "a/b", "\u{1b}[31m", "é"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
