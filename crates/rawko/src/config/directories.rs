//! The user's directories, following the XDG base directory specification.

use std::path::PathBuf;

/// Where the user's `config.yaml` is: `$XDG_CONFIG_HOME/rawko`, else `~/.config/rawko`.
pub fn user_config_dir(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    directory(env, "XDG_CONFIG_HOME", ".config")
}

/// Where rawko stores state such as trusted folders: `$XDG_STATE_HOME/rawko`, else `~/.local/state/rawko`.
pub fn user_state_dir(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    directory(env, "XDG_STATE_HOME", ".local/state")
}

/// Where rawko looks for downloaded data such as models: `$XDG_DATA_HOME/rawko`, else `~/.local/share/rawko`.
pub fn user_data_dir(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    directory(env, "XDG_DATA_HOME", ".local/share")
}

/// Where rawko stores what it can recompute: `$XDG_CACHE_HOME/rawko`, else `~/.cache/rawko`.
pub fn user_cache_dir(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    directory(env, "XDG_CACHE_HOME", ".cache")
}

fn directory(env: &dyn Fn(&str) -> Option<String>, variable: &str, below_home: &str) -> Option<PathBuf> {
    // The specification says to ignore relative paths.
    let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)))?;
    Some(base.join("rawko"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: Option<&str>) {
        let env =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        assert_eq!(user_config_dir(&env), expected.map(PathBuf::from), "{variables:?}");
    }

    #[test]
    fn xdg_goes_before_home() {
        check(&[("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")], Some("/x/rawko"));
        check(&[("HOME", "/h")], Some("/h/.config/rawko"));
        check(&[("XDG_CONFIG_HOME", "relative"), ("HOME", "/h")], Some("/h/.config/rawko"));
        check(&[("XDG_CONFIG_HOME", ""), ("HOME", "/h")], Some("/h/.config/rawko"));
        check(&[], None);
    }
}
