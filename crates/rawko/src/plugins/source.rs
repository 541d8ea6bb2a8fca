//! Where a plug-in comes from: a folder, or a repository that git fetches.
//!
//! Git is asked with nothing of the user's but ways to reach the server, by three protocols, with bounds of time and size. What
//! it fetched is copied like any folder.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rawko_tools::{Git, GitError};

use super::PluginError;

/// Longest time of a fetch.
const FETCH: Duration = Duration::from_secs(180);
/// Longest time of anything else.
const QUICK: Duration = Duration::from_secs(60);
/// Most bytes that git may write.
const MAX_FETCHED: u64 = 256 * 1024 * 1024;
/// Most characters of a branch, tag or commit.
const MAX_REFERENCE: usize = 200;
/// The protocols by which git fetches.
const PROTOCOLS: &str = "file:https:ssh";
/// What git needs to reach a server: an agent with the user's keys, a proxy, certificates.
const PASSED: [&str; 10] = [
    "HOME",
    "SSH_AUTH_SOCK",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Where a plug-in comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginSource {
    /// A folder.
    Folder(PathBuf),
    /// A repository.
    Git {
        /// Its address, or its folder.
        url: String,
        /// A branch, tag or whole commit; the branch that the server shows first without one.
        reference: Option<String>,
    },
}

impl PluginSource {
    /// What `given` means: a folder, relative to `base`; with a `reference` the repository in it; or the address of a
    /// repository.
    ///
    /// # Errors
    /// If it is neither, or git would take it for something else.
    pub fn parse(given: &str, reference: Option<&str>, base: &Path) -> Result<Self, PluginError> {
        let refused = |message: String, hint: &str| Err(PluginError::refused(message, hint));
        let shown = rawko_core::text::harmless(given);
        if given.is_empty() || given.starts_with('-') || given.chars().any(char::is_control) {
            return refused(format!("`{shown}` is no folder and no address"), ADDRESSES);
        }
        let reference = reference.map(checked_reference).transpose()?;
        if let Ok(folder) = base.join(given).canonicalize()
            && folder.is_dir()
        {
            return match (reference, folder.to_str()) {
                (None, _) => Ok(Self::Folder(folder)),
                (Some(_), None) => {
                    refused(format!("the path of `{shown}` is not UTF-8"), "move the repository")
                }
                (reference, Some(path)) => Ok(Self::Git { url: path.to_owned(), reference }),
            };
        }
        match protocol(given) {
            Some("https" | "ssh" | "file") => {}
            Some(other) => {
                let message = format!("`{shown}` is not fetched: git is not asked by `{}`", harmless(other));
                return refused(message, ADDRESSES);
            }
            None => return refused(format!("there is no folder `{shown}`, and it is no address"), ADDRESSES),
        }
        if given.strip_prefix("https://").is_some_and(|rest| authority(rest).contains('@')) {
            let message = "the address has a login in it, which would be stored".to_owned();
            return refused(message, "clone the repository yourself, and add its folder");
        }
        Ok(Self::Git { url: given.to_owned(), reference })
    }

    /// The folder or the address, without branch, tag or commit.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Folder(folder) => folder.to_string_lossy().into_owned(),
            Self::Git { url, .. } => url.clone(),
        }
    }
}

impl fmt::Display for PluginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Git { url, reference: Some(reference) } => write!(f, "{url} at {reference}"),
            Self::Folder(_) | Self::Git { .. } => f.write_str(&self.place()),
        }
    }
}

const ADDRESSES: &str = "name a folder, or a repository like https://host/path.git, ssh://host/path.git, git@host:path.git or file:///path";

fn harmless(text: &str) -> String {
    rawko_core::text::truncate(&rawko_core::text::harmless(text), 40)
}

/// By which protocol git would fetch this; `None` where it is no address.
fn protocol(given: &str) -> Option<&str> {
    // `ext::sh -c …` names a program.
    if let Some((helper, _)) = given.split_once("::").filter(|(helper, _)| !helper.contains('/')) {
        return Some(helper);
    }
    if let Some((scheme, _)) = given.split_once("://") {
        return Some(scheme);
    }
    let (host, path) = given.split_once(':')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@.-_".contains(c);
    let is_host = host.contains('@') && host.chars().all(is_plain) && !host.contains("@-");
    (is_host && !path.is_empty() && !path.starts_with('-')).then_some("ssh")
}

fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// A branch, tag or commit, if git takes it for nothing else: neither an option nor several.
fn checked_reference(reference: &str) -> Result<String, PluginError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let is_good = !reference.is_empty()
        && reference.len() <= MAX_REFERENCE
        && !reference.starts_with('-')
        && !reference.contains("..")
        && reference.chars().all(is_plain);
    if is_good {
        return Ok(reference.to_owned());
    }
    let message = format!("`{}` is no branch, tag or commit", harmless(reference));
    Err(PluginError::refused(message, "name one, such as --ref v1.2.0, or a whole commit of 40 digits"))
}

/// A folder inside `root`, if it is there and no link leads out.
pub(super) fn subfolder(root: &Path, folder: &Path) -> Result<PathBuf, PluginError> {
    let is_plain = folder.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let inside = || {
        let (real, root) = (root.join(folder).canonicalize().ok()?, root.canonicalize().ok()?);
        (real.starts_with(root) && real.is_dir()).then_some(real)
    };
    inside().filter(|_| is_plain).ok_or_else(|| {
        let message = format!("there is no folder `{}` in it", harmless(&folder.to_string_lossy()));
        PluginError::refused(message, "name the plug-in's folder by its path in the source: --folder PATH")
    })
}

/// Fetches one commit of the repository at `url` into the empty folder `into`, and gives the commit. `env` looks up the
/// user's variables.
pub(super) fn fetch(
    git: &Path,
    url: &str,
    reference: Option<&str>,
    into: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<String, PluginError> {
    let passed: Vec<(&str, String)> =
        PASSED.into_iter().filter_map(|name| Some((name, env(name)?))).collect();
    let alone = |time| {
        let git = Git::alone(git).env("GIT_ALLOW_PROTOCOL", PROTOCOLS).envs(passed.iter().cloned());
        git.within(into).within_time(time).within_size(into, MAX_FETCHED)
    };
    let wanted = reference.unwrap_or("HEAD");
    let failed = |error: GitError| {
        let shown = rawko_core::text::harmless(url);
        let message = format!("{shown} could not be fetched at {wanted}: {}", why(&error));
        let hint = match error {
            GitError::TooSlow(_) | GitError::TooLarge(_) => {
                "clone it yourself, and add the plug-in's folder".to_owned()
            }
            _ => format!("see what git says: git ls-remote {}", rawko_core::text::shell_word(url)),
        };
        PluginError::Refused { message, hint }
    };
    alone(QUICK).args(["init", "--quiet", "--template="]).answer().map_err(failed)?;
    alone(FETCH)
        .args(["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", url, wanted])
        .answer()
        .map_err(failed)?;
    alone(QUICK)
        .args(["checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"])
        .answer()
        .map_err(failed)?;
    alone(QUICK).args(["rev-parse", "--verify", "HEAD^{commit}"]).line().map_err(failed)
}

/// What git complains about, on one line.
fn why(error: &GitError) -> String {
    let text = rawko_core::text::harmless(&error.to_string());
    let line = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    rawko_core::text::truncate(&line, 400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, reference: Option<&str>, expected: Result<&str, &str>) {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("folder")).unwrap();
        let found = PluginSource::parse(given, reference, base.path());
        let base = base.path().canonicalize().unwrap();
        match (found, expected) {
            (Ok(source), Ok(expected)) => {
                let shown = format!("{source:?}").replace(base.to_str().unwrap(), "BASE");
                assert!(shown.starts_with(expected), "{shown}");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{given}: {error}"),
            (found, expected) => panic!("{given}: {found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn folders_and_repositories_are_told_apart() {
        check("folder", None, Ok("Folder(\"BASE/folder\")"));
        check("folder", Some("v1"), Ok("Git { url: \"BASE/folder\", reference: Some(\"v1\") }"));
        check("https://host/a.git", None, Ok("Git { url: \"https://host/a.git\", reference: None }"));
        check("ssh://git@host:22/a", Some("main"), Ok("Git"));
        check("git@host.example:a/b.git", None, Ok("Git"));
        check("file:///tmp/a", Some(&"a".repeat(40)), Ok("Git"));
    }

    #[test]
    fn what_git_would_take_for_something_else_is_refused() {
        check("nowhere", None, Err("no folder `nowhere`"));
        check("", None, Err("no folder"));
        check("--upload-pack=evil", None, Err("no folder"));
        check("ext::sh -c evil", None, Err("by `ext`"));
        check("fd::17", None, Err("by `fd`"));
        check("http://host/a.git", None, Err("by `http`"));
        check("git://host/a.git", None, Err("by `git`"));
        check("a@-oProxyCommand=x:b", None, Err("it is no address"));
        check("git@host:-x", None, Err("it is no address"));
        check("https://me:secret@host/a.git", None, Err("has a login"));
        for reference in ["-x", "--upload-pack=x", "", "a b", "a:b", "+a", "a..b", "a^b", "a*"] {
            check("https://host/a.git", Some(reference), Err("is no branch"));
        }
    }

    #[test]
    fn a_folder_in_it_stays_in_it() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("in/a/b")).unwrap();
        std::fs::create_dir(root.path().join("out")).unwrap();
        std::os::unix::fs::symlink("../out", root.path().join("in/link")).unwrap();
        let inside = root.path().join("in");
        for good in ["a", "./a/b", "."] {
            assert!(subfolder(&inside, Path::new(good)).is_ok(), "{good}");
        }
        for bad in ["..", "../out", "link", "a/../..", "/etc", "none"] {
            assert!(subfolder(&inside, Path::new(bad)).is_err(), "{bad}");
        }
    }
}
