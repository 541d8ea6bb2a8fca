//! Decides which environment variables a child process gets: a harmless base and what the permissions name, but never
//! a secret.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::temporary::is_folder;

/// What programs need to find their files, their caches and their language.
const BASE: [&str; 37] = [
    "CARGO_HOME",
    "CONDA_PREFIX",
    "GEM_HOME",
    // Who commits, where no file says so: containers and CI.
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NIX_SSL_CERT_FILE",
    "NVM_DIR",
    "PATH",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// Always set, whatever the parent has: no colours, no pager, no prompts. The git settings keep files of the project from
/// making git start a program: by the configuration of a directory that looks like a bare repository, or as a file system
/// monitor.
const FIXED: [(&str, &str); 9] = [
    ("TERM", "dumb"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_0", "explicit"),
    ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_1", "false"),
];

/// Set unless the permissions name them and the parent has them: no one can type into an editor that a command opens,
/// so it ends at once and leaves the text as it is. The first four win over what configurations name.
const EDITORS: [(&str, &str); 6] = [
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("HGEDITOR", "true"),
    ("JJ_EDITOR", "true"),
    ("VISUAL", "true"),
    ("EDITOR", "true"),
];

/// Set besides where git is to take placeholders for the files whose size and time they have: of a file, only these and
/// its kind are compared.
pub(super) const BELIEVES_PLACEHOLDERS: [(&str, &str); 3] =
    [("GIT_CONFIG_COUNT", "3"), ("GIT_CONFIG_KEY_2", "core.checkStat"), ("GIT_CONFIG_VALUE_2", "minimal")];

/// Parts of a variable name that indicate a secret.
const SECRET_PARTS: [&str; 12] = [
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "KEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "SECRET",
    "SECRETS",
    "TOKEN",
    "TOKENS",
];

/// Whether a variable of this name is withheld from every child process, even if the permissions name it: provider keys,
/// tokens, passwords.
#[must_use]
pub fn looks_like_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let by_part = upper.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| SECRET_PARTS.contains(&part));
    let by_ending = ["APIKEY", "TOKEN", "PASSWORD", "SECRET"].iter().any(|end| upper.ends_with(end));
    // Keys of a collector of telemetry.
    let is_header = upper.starts_with("OTEL_") && upper.ends_with("_HEADERS");
    by_part || by_ending || is_header
}

/// Takes the variables whose names [look like a secret's](looks_like_secret) out of this process's environment, and gives
/// them back: for `RawkoBuilder::env` and `RawkoBuilder::secret_variables`. Then no process that reads
/// `/proc/PID/environ` finds them, and no child inherits them. Call it first in `main`, before there are other threads;
/// otherwise, and on systems other than Linux, the environment stays as it is.
#[must_use]
pub fn take_secret_variables() -> Vec<(OsString, OsString)> {
    rawko_sandbox::take_variables(looks_like_secret)
}

/// The environment of a child process: the base and the `named` variables, taken from `inherited`.
pub(crate) fn environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    named: &[String],
) -> Vec<(OsString, OsString)> {
    let passes = |name: &str| {
        let wanted = BASE.contains(&name) || name.starts_with("LC_") || named.iter().any(|n| n == name);
        wanted && !looks_like_secret(name)
    };
    let is_fixed = |name: &str| FIXED.iter().any(|(fixed, _)| *fixed == name);
    // Programs fail where it names no folder, and have one of their own where it names nothing.
    let is_lost = |name: &str, value: &OsStr| name == "TMPDIR" && !is_folder(Path::new(value));
    // A name that is not valid text is in no list.
    let mut passed: Vec<(OsString, OsString)> = inherited
        .filter(|(name, value)| {
            name.to_str().is_some_and(|name| passes(name) && !is_fixed(name) && !is_lost(name, value))
        })
        .collect();
    let own = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
    let editors = EDITORS.iter().filter(|(editor, _)| !passed.iter().any(|(name, _)| name == editor));
    let editors: Vec<_> = editors.map(own).collect();
    passed.extend(editors);
    passed.extend(FIXED.iter().map(own));
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(named: &[&str], name: &str, passes: bool) {
        let named: Vec<String> = named.iter().map(|n| (*n).to_owned()).collect();
        let inherited = [(OsString::from(name), OsString::from("v"))].into_iter();
        let got = environment(inherited, &named).contains(&(name.into(), "v".into()));
        assert_eq!(got, passes, "{name} with {named:?}");
    }

    #[test]
    fn the_base_and_what_is_named() {
        check(&[], "PATH", true);
        check(&[], "LC_ALL", true);
        check(&[], "HTTP_PROXY", false);
        check(&["HTTP_PROXY"], "HTTP_PROXY", true);
        check(&[], "LD_PRELOAD", false);
        check(&[], "BASH_ENV", false);
        check(&["TERM"], "TERM", false);
    }

    #[test]
    fn only_the_committers_identity_is_passed_on_of_git() {
        for who in ["AUTHOR", "COMMITTER"] {
            for what in ["NAME", "EMAIL", "DATE"] {
                check(&[], &format!("GIT_{who}_{what}"), true);
            }
        }
        for name in ["GIT_DIR", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF"] {
            check(&[], name, false);
        }
    }

    #[test]
    fn an_editor_ends_at_once_unless_the_user_grants_theirs() {
        for name in ["GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "VISUAL", "EDITOR", "HGEDITOR", "JJ_EDITOR"] {
            check(&[], name, false);
            check(&[name], name, true);
            let given = environment(std::iter::empty(), &[name.to_owned()]);
            assert!(given.contains(&(name.into(), "true".into())), "{name} is granted and not there");
        }
    }

    #[test]
    fn only_a_folder_is_passed_on_for_temporary_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let missing = folder.path().join("missing");
        let is_passed = |value: &Path| {
            let inherited = [(OsString::from("TMPDIR"), value.into())].into_iter();
            environment(inherited, &[]).iter().any(|(name, _)| name == "TMPDIR")
        };
        assert!(is_passed(folder.path()));
        assert!(!is_passed(&file) && !is_passed(&missing) && !is_passed(Path::new("src")));
    }

    #[test]
    fn secrets_never_pass_even_when_named() {
        for name in [
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "github_token",
            "AWS_SECRET_ACCESS_KEY",
            "HF_TOKEN",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "DB_PASSWORD",
            "PGPASSWORD",
            "MISTRALAPIKEY",
            "npm_config__authToken",
            "LC_API_KEY",
            "OTEL_EXPORTER_OTLP_HEADERS",
        ] {
            check(&[name], name, false);
        }
        check(&["TOKENIZERS_PARALLELISM"], "TOKENIZERS_PARALLELISM", true);
        check(&["KEYBOARD"], "KEYBOARD", true);
        check(&["OTEL_SERVICE_NAME"], "OTEL_SERVICE_NAME", true);
    }
}
