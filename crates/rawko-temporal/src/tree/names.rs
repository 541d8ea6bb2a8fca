//! Names that come from outside: they become arguments of git, parts of paths and of refs.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use rawko_core::text::is_plain_name;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::TreeError;

/// What the branch of a task begins with.
pub(super) const BRANCHES: &str = "rawko/";
/// The longest name of a task or a session.
const MAX_NAME: usize = 100;
/// The longest address or revision.
const MAX_ADDRESS: usize = 2000;

/// The branch that a task works on.
///
/// # Errors
/// If the task's name cannot be part of a branch's.
pub fn branch_of(task: &str) -> Result<String, TreeError> {
    check_name("name of a task", task)?;
    Ok(format!("{BRANCHES}{task}"))
}

/// A name that is a part of paths and refs.
pub(super) fn check_name(what: &'static str, name: &str) -> Result<(), TreeError> {
    let why = "use at most 100 letters, digits, `-`, `_` and `.`, as in fix-parser";
    if is_plain_name(name, MAX_NAME) { Ok(()) } else { Err(bad(what, name, why)) }
}

fn bad(what: &'static str, given: &str, why: &'static str) -> TreeError {
    let given: String = given.chars().take(200).collect();
    TreeError::Name { what, given: given.escape_debug().to_string(), why }
}

/// The id of a commit, in full.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitId(String);

impl CommitId {
    /// The id as hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How git calls the hash that made it.
    pub(super) fn format(&self) -> &'static str {
        if self.0.len() == 64 { "sha256" } else { "sha1" }
    }
}

impl FromStr for CommitId {
    type Err = TreeError;

    fn from_str(text: &str) -> Result<Self, TreeError> {
        let is_hex = |c: u8| c.is_ascii_digit() || matches!(c, b'a'..=b'f');
        if matches!(text.len(), 40 | 64) && text.bytes().all(is_hex) {
            return Ok(Self(text.to_owned()));
        }
        Err(bad("id of a commit", text, "it has 40 hexadecimal digits in lower case, or 64"))
    }
}

impl TryFrom<String> for CommitId {
    type Error = TreeError;

    fn try_from(text: String) -> Result<Self, TreeError> {
        text.parse()
    }
}

impl From<CommitId> for String {
    fn from(id: CommitId) -> Self {
        id.0
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The address of a repository: `https://…`, `ssh://…`, `user@host:path`, `file:///…` or an absolute path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Repository {
    url: String,
}

impl Repository {
    /// The address as it was given.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is on this machine.
    pub(super) fn is_path(&self) -> bool {
        self.url.starts_with('/') || self.url.starts_with("file://")
    }

    /// Whether the address leads where it seems to: `..` is the folder above, `%2e` a dot, and `#` ends the host.
    pub(super) fn is_plain(&self) -> bool {
        !self.url.contains(['%', '\\', '#', '?'])
            && self.url.matches('@').count() <= 1
            && self.url.split(['/', ':']).all(|part| !matches!(part, "." | ".."))
    }

    /// The protocols that git may use for it.
    pub(super) fn protocols(&self) -> &'static str {
        if self.is_path() {
            "file"
        } else if self.url.starts_with("http://") {
            "http:https"
        } else {
            // The worker's configuration may write one in place of the other (`url.….insteadOf`).
            "https:ssh"
        }
    }

    /// Name of its mirror.
    pub(super) fn mirror_name(&self) -> String {
        hex::encode(Sha256::digest(self.url.as_bytes())).chars().take(32).collect()
    }
}

impl FromStr for Repository {
    type Err = TreeError;

    fn from_str(url: &str) -> Result<Self, TreeError> {
        let no = |why| Err(bad("address of a repository", url, why));
        if url.is_empty() || url.len() > MAX_ADDRESS {
            return no("it is empty, or longer than 2000 bytes");
        }
        if url.chars().any(|c| c.is_control() || c == ' ' && !url.starts_with('/')) {
            return no("it contains a space or a control character");
        }
        if url.starts_with('-') {
            return no("it begins with `-`");
        }
        if url.starts_with('/') {
            let is_plain = Path::new(url).components().all(|part| part != std::path::Component::ParentDir);
            return if is_plain {
                Ok(Self { url: url.to_owned() })
            } else {
                no("a path may not contain `..`")
            };
        }
        if let Some((scheme, rest)) = url.split_once("://") {
            let authority = rest.split('/').next().unwrap_or_default();
            let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
            return match scheme {
                "file" if rest.starts_with('/') => Ok(Self { url: url.to_owned() }),
                "https" | "http" | "ssh" if user.contains(':') => {
                    let hidden = format!("{scheme}://…@{host}/…");
                    let why = "a password does not belong in an address, which is stored: give it to a credential helper of git on the workers";
                    Err(bad("address of a repository", &hidden, why))
                }
                "https" | "http" | "ssh"
                    if !host.is_empty() && !host.starts_with('-') && !user.starts_with('-') =>
                {
                    Ok(Self { url: url.to_owned() })
                }
                "https" | "http" | "ssh" => no("it names no host"),
                _ => no("use https://, ssh://, user@host:path, file:/// or an absolute path"),
            };
        }
        // As scp writes it.
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
        match url.split_once(':') {
            Some((host, path))
                if !host.is_empty()
                    && host.chars().all(is_host)
                    && !host.split('@').any(|part| part.is_empty() || part.starts_with('-'))
                    && !path.is_empty()
                    && !path.starts_with([':', '-']) =>
            {
                Ok(Self { url: url.to_owned() })
            }
            Some(_) => no("use https://, ssh://, user@host:path, file:/// or an absolute path"),
            None => no("a path must be absolute: workers do not share a folder to start from"),
        }
    }
}

impl TryFrom<String> for Repository {
    type Error = TreeError;

    fn try_from(url: String) -> Result<Self, TreeError> {
        url.parse()
    }
}

impl From<Repository> for String {
    fn from(repository: Repository) -> Self {
        repository.url
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// An address, or a pattern for addresses, in a form in which `/` ends the host: `git@host:path` has a `:` there.
pub(super) fn comparable(address: &str) -> String {
    match address.split_once(':') {
        Some((host, path)) if !address.contains("://") && !address.starts_with('/') => {
            format!("{host}/:{path}")
        }
        _ => address.to_owned(),
    }
}

/// A branch, a tag or a commit, as a person names it.
pub(super) fn check_revision(revision: &str) -> Result<(), TreeError> {
    check_ref("branch, tag or commit", revision)
}

/// A name below `refs/rawko/`.
pub(super) fn check_own_ref(name: &str) -> Result<(), TreeError> {
    if !name.starts_with("refs/rawko/") {
        return Err(bad("ref of rawko", name, "it must begin with refs/rawko/"));
    }
    check_ref("ref of rawko", name)
}

/// The rules of `git check-ref-format`, and none that begins like an option.
fn check_ref(what: &'static str, name: &str) -> Result<(), TreeError> {
    let is_bad = |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let is_good_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_ref = !name.starts_with('-')
        && name.len() <= MAX_ADDRESS
        && name != "@"
        && !name.chars().any(is_bad)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && name.split('/').all(is_good_part);
    if is_ref { Ok(()) } else { Err(bad(what, name, "git allows no such name")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_a_folder_and_a_branch() {
        assert_eq!(branch_of("fix-parser").unwrap(), "rawko/fix-parser");
        for name in ["", ".", "..", "-x", "a/b", "a..b", "x.lock", "a b", "x.", "a~1", "é", &"x".repeat(101)]
        {
            assert!(branch_of(name).is_err(), "{name}");
        }
    }

    #[test]
    fn addresses_name_a_host_or_an_absolute_path() {
        for url in [
            "https://example.org/a/b.git",
            "http://localhost:8080/a",
            "ssh://git@example.org:22/a",
            "git@example.org:a/b.git",
            "example.org:a",
            "file:///srv/a",
            "/srv/a b",
        ] {
            assert_eq!(url.parse::<Repository>().unwrap().url(), url);
        }
        for url in [
            "",
            "-oProxyCommand=x",
            "--upload-pack=x",
            "ext::sh -c touch% x",
            "ext::x",
            "fd::17",
            "foo::https://example.org",
            "git://example.org/a",
            "ftp://example.org/a",
            "ssh://-oProxyCommand=x/a",
            "ssh://-x@example.org/a",
            "-x@example.org:a",
            "git@-example.org:a",
            "https:///a",
            "file://host/a",
            "../a",
            "a/b",
            "/srv/../etc",
            "https://example.org/a\nb",
        ] {
            assert!(url.parse::<Repository>().is_err(), "{url}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        let error = "https://me:hunter2@example.org/a".parse::<Repository>().unwrap_err().to_string();
        assert!(error.contains("credential helper") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn revisions_are_no_options_and_no_expressions() {
        for name in ["main", "v1.2", "feature/x", "refs/heads/x", "0123abc"] {
            assert!(check_revision(name).is_ok(), "{name}");
        }
        for name in ["", "--all", "-x", "a..b", "HEAD~1", "a^{tree}", "a:b", "@", "a@{1}", "a b", "x/", ".x"]
        {
            assert!(check_revision(name).is_err(), "{name}");
        }
        assert!(check_own_ref("refs/rawko/20260101-000000-ab/1").is_ok());
        assert!(check_own_ref("refs/heads/main").is_err());
    }

    #[test]
    fn stored_forms_are_checked_when_they_are_read() {
        let id: CommitId = "a".repeat(40).parse().unwrap();
        assert_eq!(String::from(id.clone()), "a".repeat(40));
        assert!("A".repeat(40).parse::<CommitId>().is_err());
        assert!(CommitId::try_from("--all".to_owned()).is_err());
        assert_eq!(id.format(), "sha1");
    }
}
