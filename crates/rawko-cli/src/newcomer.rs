//! The first run of a user who has configured no provider: what was found on this machine, and what to do next.

use rawko::{ModelPlace, PlaceKind, Rawko};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Rows, clean_line, quoted};
use crate::runtime::block_on;
use crate::workspace::Workspace;

/// The shortest ways to a model, and to see a run without one.
const WAYS: &str = "\
the shortest ways to a model:
  export ANTHROPIC_API_KEY=…      a key of https://platform.claude.com
  export OPENROUTER_API_KEY=…     one key for the models of many vendors: https://openrouter.ai
  ollama pull qwen3               a model on this machine: https://ollama.com
then run the task again. A whole run without any model: rawko demo
all that was looked at: rawko doctor";

/// The provider that a run uses if the user has chosen none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundProvider {
    /// Its name.
    pub(crate) provider: String,
    /// The model, where the provider has none by itself.
    pub(crate) model: Option<String>,
}

/// The first provider on this machine that a run can use, where none is configured; says which, and what else there is.
/// `None` where one is configured, or has its key in the environment. `is_quiet` leaves out what a run can do without: that a
/// key is used, which its owner put there.
///
/// # Errors
/// If none is configured and none was found.
pub(crate) fn choose(
    workspace: &Workspace,
    rawko: &Rawko,
    is_quiet: bool,
) -> Result<Option<FoundProvider>, Failure> {
    let console = &workspace.console;
    if let (Some((provider, variable)), false) = (rawko.provider_by_key(), is_quiet) {
        let resolved = rawko.config().config.provider(provider);
        console.write_error(&using(provider, variable, resolved.as_ref().and_then(|known| known.model())))?;
    }
    if !rawko.has_no_provider() {
        return Ok(None);
    }
    let places = look(workspace, rawko)?;
    let usable = places.iter().position(|place| place.is_usable);
    let first = usable.and_then(|at| Some((at, places.get(at)?)));
    let Some((at, place, provider)) =
        first.and_then(|(at, place)| Some((at, place, place.provider.clone()?)))
    else {
        return Err(nothing(&places));
    };
    let line = using(&provider, &place.place, place.model.as_deref());
    let others = places.iter().enumerate().filter(|(other, _)| *other != at);
    let others: String = others.filter_map(|(_, place)| also_found(place)).collect();
    console.write_error(&format!("{line}{others}"))?;
    Ok(Some(FoundProvider { provider, model: place.model.clone() }))
}

/// The line that says what a run uses without the user's choice.
fn using(provider: &str, place: &str, model: Option<&str>) -> String {
    let with = model.map(|model| format!(" with the model {}", clean_line(model))).unwrap_or_default();
    let (provider, place) = (clean_line(provider), clean_line(place));
    format!("using {provider} ({place}){with}; to choose another: --provider NAME --model MODEL\n")
}

/// The line about a place that is not used, if there is something.
fn also_found(place: &ModelPlace) -> Option<String> {
    let found = clean_line(place.found.as_ref()?);
    let (name, at) = (clean_line(name(place)), clean_line(&place.place));
    Some(format!("  found too: {name}: {found} ({at}); next: {}\n", next(place)))
}

/// The provider that runs use if none is named: the configured one, else the first that was found on this machine.
pub(crate) fn usual_provider(workspace: &Workspace, rawko: &Rawko) -> Result<String, Failure> {
    let configured = || rawko.config().config.default_provider().to_owned();
    if !rawko.has_no_provider() {
        return Ok(configured());
    }
    let places = look(workspace, rawko)?;
    let found = places.into_iter().find(|place| place.is_usable).and_then(|place| place.provider);
    Ok(found.unwrap_or_else(configured))
}

/// Looks for models on this machine.
pub(crate) fn look(workspace: &Workspace, rawko: &Rawko) -> Result<Vec<ModelPlace>, Failure> {
    let environment = workspace.environment;
    let own = environment.var("COPILOT_HOME").map(std::path::PathBuf::from);
    let home = own.or_else(|| environment.home().map(|home| home.join(".copilot")));
    block_on(async { Ok(rawko.look_for_models(home.as_deref()).await) })
}

fn nothing(places: &[ModelPlace]) -> Failure {
    let found: String = places.iter().filter_map(also_found).collect();
    let message = "no provider is configured: ANTHROPIC_API_KEY is not set, nor is the key of any other known service, \
                   and no model server answers on this machine";
    Failure::new(Exit::Provider, message).with_hint(format!("{found}{WAYS}"))
}

/// What a place is called.
fn name(place: &ModelPlace) -> &str {
    place.provider.as_deref().unwrap_or("key")
}

/// The table of all places, with the command that comes next for each.
pub(crate) fn table(places: &[ModelPlace], paint: Paint) -> String {
    Rows::new(paint, places).table(&[
        ("MODELS", &|place| name(place).to_owned()),
        ("FOUND", &|place| place.found.clone().unwrap_or_else(|| "not found".to_owned())),
        ("NEXT", &|place| next(place)),
    ])
}

/// The exact command that comes next.
pub(crate) fn next(place: &ModelPlace) -> String {
    let provider = clean_line(name(place));
    let run = match &place.model {
        Some(model) => format!("rawko --provider {provider} --model {} \"…\"", quoted(&clean_line(model))),
        None => format!("rawko --provider {provider} \"…\""),
    };
    match (place.kind, place.is_usable, place.found.is_some()) {
        (_, true, _) => run,
        (PlaceKind::Key, false, true) => {
            format!("rawko providers models {provider}, then --provider {provider} --model MODEL")
        }
        (PlaceKind::Key, false, false) => "export ANTHROPIC_API_KEY=…".to_owned(),
        (PlaceKind::Copilot, false, false) if cfg!(feature = "copilot") => "copilot login".to_owned(),
        (PlaceKind::Copilot, false, _) => "a build of rawko with the feature `copilot`".to_owned(),
        (PlaceKind::Server, false, true) if place.found.as_deref().is_some_and(|it| it.contains("key")) => {
            format!("name its variable in provider.{provider}.apiKeyEnv")
        }
        (PlaceKind::Server, false, is_there) => match (provider.as_str(), is_there) {
            ("ollama", true) => "ollama pull qwen3".to_owned(),
            ("ollama", false) => "ollama serve".to_owned(),
            ("llamacpp", _) => "llama-server -m MODEL.gguf --jinja".to_owned(),
            ("vllm", _) => "vllm serve MODEL --enable-auto-tool-choice".to_owned(),
            ("lmstudio", true) => "lms load MODEL".to_owned(),
            ("lmstudio", false) => "lms server start".to_owned(),
            (other, _) => format!("start the server of {other}"),
        },
    }
}
