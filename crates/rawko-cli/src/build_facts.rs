//! What `rawko --version --verbose` prints: the build, the formats that it knows, and how it can confine commands here. It
//! reads no project, so it works everywhere.

use rawko::config::user_cache_dir;
use rawko::journal::FORMAT;
use rawko::tools::Sandbox;

use crate::environment::ProcessEnv;

/// The whole page.
pub(crate) fn page(environment: ProcessEnv) -> String {
    let mut page = format!("rawko {}\n", env!("CARGO_PKG_VERSION"));
    for (name, value) in lines(env!("RAWKO_BUILD_COMMIT"), &features(), &sandbox(environment)) {
        page.push_str(&format!("{name}: {value}\n"));
    }
    page
}

fn lines(commit: &str, features: &[&str], sandbox: &str) -> [(&'static str, String); 5] {
    let or = |text: String, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { text };
    [
        ("commit", or(commit.to_owned(), "not recorded")),
        ("features", or(features.join(", "), "none")),
        ("target", format!("{} ({} build)", env!("RAWKO_BUILD_TARGET"), env!("RAWKO_BUILD_PROFILE"))),
        ("journal format", FORMAT.to_string()),
        ("sandbox", sandbox.to_owned()),
    ]
}

fn features() -> Vec<&'static str> {
    let all = [
        ("copilot", cfg!(feature = "copilot")),
        ("fleet", cfg!(feature = "fleet")),
        ("telemetry", cfg!(feature = "telemetry")),
    ];
    all.into_iter().filter_map(|(name, is_on)| is_on.then_some(name)).collect()
}

/// What confines commands on this machine, whatever a project asks for.
fn sandbox(environment: ProcessEnv) -> String {
    let Ok(folder) = std::env::current_dir() else { return "unknown: there is no current folder".to_owned() };
    let cache = user_cache_dir(&|name: &str| environment.var(name));
    match Sandbox::new(&folder, None, cache.as_deref(), None, &|name| environment.var(name).map(Into::into)) {
        Ok(sandbox) => {
            let lost = sandbox.lost();
            let lost = if lost.is_empty() { String::new() } else { format!("; {}", lost.join("; ")) };
            format!("{}{lost}", sandbox.walls())
        }
        Err(shortage) => format!("none: {shortage}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_said() {
        let [commit, features, ..] = lines("", &[], "none");
        assert_eq!((commit.1.as_str(), features.1.as_str()), ("not recorded", "none"));
        let [commit, features, ..] = lines("abc", &["copilot", "fleet"], "none");
        assert_eq!((commit.1.as_str(), features.1.as_str()), ("abc", "copilot, fleet"));
    }
}
