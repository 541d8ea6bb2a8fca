//! The private places that a grant of the whole home does not open: keys, passwords, accounts, and rawko's own
//! configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::real_place;

/// Where keys, passwords and accounts are in a home.
pub(crate) const PRIVATE: [&str; 36] = [
    ".aws",
    ".azure",
    ".boto",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex",
    ".config/gcloud",
    ".config/gh",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/hub",
    ".config/pip",
    ".config/rawko",
    ".config/rclone",
    ".docker/config.json",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".local/state/rawko",
    ".mozilla",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".pip",
    ".pypirc",
    ".s3cfg",
    ".ssh",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".vault-token",
];

/// A private place of the user's.
#[derive(Debug)]
struct PrivatePath {
    path: PathBuf,
    /// Whether rawko reads there what it does: no grant opens that.
    is_rawkos: bool,
}

/// The private places of one user, seen from a project.
#[derive(Debug, Default)]
pub(super) struct PrivatePlaces(Vec<PrivatePath>);

impl PrivatePlaces {
    /// The private places of the user, as the variables say. A project in such a place is the user's choice.
    pub(super) fn of(root: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let of_home = folder("HOME").filter(|home| home.parent().is_some());
        let of_home = of_home.iter().flat_map(|home| PRIVATE.iter().map(|name| home.join(name)));
        let moved = ["XDG_CONFIG_HOME", "XDG_STATE_HOME"]
            .into_iter()
            .filter_map(|name| Some(folder(name)?.join("rawko")));
        let all = of_home.chain(moved).flat_map(|path| [real_place(&path), path]);
        let places = all.filter(|path| !root.starts_with(path));
        Self(places.map(|path| PrivatePath { is_rawkos: path.ends_with("rawko"), path }).collect())
    }

    /// The private place that contains `path`, unless one of the grants is for something in it.
    pub(super) fn around(&self, path: &Path, grants: &[&[PathBuf]]) -> Option<&Path> {
        let is_named =
            |place: &Path| grants.iter().any(|list| list.iter().any(|grant| grant.starts_with(place)));
        let is_open = |place: &PrivatePath| {
            // Of rawko's own, skills are for agents.
            let open = if place.is_rawkos { place.path.join("skills") } else { place.path.clone() };
            path.starts_with(&open) && is_named(&open)
        };
        let mut around = self.0.iter().filter(|place| path.starts_with(&place.path));
        around.find(|place| !is_open(place)).map(|place| place.path.as_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(root: &str, grants: &[&str], path: &str, expected: Option<&str>) {
        let variable = |name: &str| match name {
            "HOME" => Some(OsString::from("/nowhere/ann")),
            "XDG_STATE_HOME" => Some(OsString::from("/nowhere/state")),
            _ => None,
        };
        let grants: Vec<PathBuf> = grants.iter().map(PathBuf::from).collect();
        let places = PrivatePlaces::of(Path::new(root), &variable);
        assert_eq!(places.around(Path::new(path), &[&grants]), expected.map(Path::new), "{path}");
    }

    #[test]
    fn only_an_entry_of_its_own_opens_a_private_place_and_nothing_opens_rawkos() {
        let (home, project) = ("/nowhere/ann", "/nowhere/ann/p");
        check(project, &[home], "/nowhere/ann/.ssh/id", Some("/nowhere/ann/.ssh"));
        check(project, &[home], "/nowhere/ann/.sshx", None);
        check(project, &[home, "/nowhere/ann/.aws/config"], "/nowhere/ann/.aws/config", None);
        check(project, &[home, "/nowhere/ann/.aws/config"], "/nowhere/ann/.ssh", Some("/nowhere/ann/.ssh"));
        for (file, place) in [
            ("/nowhere/ann/.config/rawko/config.yaml", "/nowhere/ann/.config/rawko"),
            ("/nowhere/state/rawko/trust.json", "/nowhere/state/rawko"),
        ] {
            check(project, &[home, file], file, Some(place));
        }
        let skill = "/nowhere/ann/.config/rawko/skills/pdf";
        check(
            project,
            &[home],
            "/nowhere/ann/.config/rawko/skills/pdf/a",
            Some("/nowhere/ann/.config/rawko"),
        );
        check(project, &[skill], "/nowhere/ann/.config/rawko/skills/pdf/a", None);
        // A project there is the user's choice.
        check("/nowhere/ann/.config/rawko", &[], "/nowhere/ann/.config/rawko/config.yaml", None);
    }
}
