//! A task's project as this worker sees it: what the user set, what is wrong with it, and whether that is the task's
//! fault or the worker's.

use rawko::config::DiagnosticOrigin;
use rawko::{Rawko, RawkoBuilder};
use rawko_tools::Confinement;

use crate::task::TaskOptions;

/// The builder with what the user set for the task.
pub(crate) fn with_options(builder: RawkoBuilder, options: &TaskOptions) -> RawkoBuilder {
    let overrides = rawko::config::Overrides {
        provider: options.provider.clone(),
        model: options.model.clone(),
        max_iterations: options.max_iterations,
        max_cost_usd: options.max_cost,
        timeout: options.timeout_ms.map(rawko::config::TimeLimit::from_ms),
        verify: options.verify.clone(),
        ..rawko::config::Overrides::default()
    };
    // Not every worker makes model calls, and those that do not have no keys.
    let builder = builder.overrides(overrides).keys_when_called(true);
    match &options.agent {
        Some(agent) => builder.first_agent(agent.clone()),
        None => builder,
    }
}

/// Why commands are refused on this worker, if the user did not choose to do without a sandbox.
pub(crate) fn no_commands(rawko: &Rawko) -> Option<String> {
    match rawko.confinement() {
        Ok(Confinement::Refused(shortage)) => Some(format!("no command runs on this worker: {shortage}")),
        Ok(Confinement::Sandboxed(_) | Confinement::Off) | Err(_) => None,
    }
}

/// Whether a project could be run on no worker: what its own files say is wrong. All else may be this worker's.
pub(crate) fn is_of_project(error: &rawko::Error) -> bool {
    // Files of the project are named as seen from it.
    let is_projects =
        |origin: &DiagnosticOrigin| matches!(origin, DiagnosticOrigin::File(path) if path.is_relative());
    match error {
        rawko::Error::EmptyTask => true,
        rawko::Error::Config(wrong) => wrong.errors.iter().any(|error| is_projects(&error.origin)),
        _ => false,
    }
}

pub(crate) fn setup_failed(error: &rawko::Error) -> String {
    let why = match error {
        rawko::Error::Untrusted { claims, .. } => {
            let claims: Vec<String> = claims.iter().map(ToString::to_string).collect();
            format!(
                "its configuration asks for what only a worker gives that trusts it (rawko worker --yes): {}",
                claims.join("; ")
            )
        }
        error => error.to_string(),
    };
    format!("the project cannot be run on this worker: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_projects_own_files_say_is_wrong_on_every_worker() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["project/.rawko", "user"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let built = || {
            let builder = Rawko::builder().project(folder.path().join("project"));
            builder.user_config_dir(folder.path().join("user")).env(|_| None).trusted(false).build()
        };
        let (of_project, of_user) = ("project/.rawko/config.yaml", "user/config.yaml");
        write(of_user, "provider: {default: claude}\n");
        assert!(built().is_ok());
        write(of_user, "provider: [\n");
        assert!(!is_of_project(&built().unwrap_err()), "the user's own file is the worker's");
        write(of_user, "provider: {default: claude}\n");
        write(of_project, "verify: {\n");
        assert!(is_of_project(&built().unwrap_err()));
        write(of_project, "verify: [make]\n");
        let untrusted = built().unwrap_err();
        assert!(!is_of_project(&untrusted) && setup_failed(&untrusted).contains("--yes"), "{untrusted}");
    }
}
