//! Files of toolchains and caches that hold secrets. They are looked for at every command: a person may log in meanwhile.

use std::fs;
use std::path::{Path, PathBuf};

use rawko_sandbox::ViewStep;

use crate::regular::{is_program, text_of};

/// Files in the home that hold secrets.
const SECRETS: [&str; 15] = [
    ".bundle/config",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    // Commands have their own, see `git_settings`.
    ".config/git/config",
    ".config/git/credentials",
    ".gem/credentials",
    ".gradle/gradle.properties",
    ".ivy2/.credentials",
    ".julia/servers",
    ".local/share/pnpm/auth.ini",
    ".local/share/uv/credentials",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".stack/upload",
    ".yarn/.npmrc",
];
/// The same in a folder that a variable names.
const SECRETS_OF_VARIABLES: [&str; 3] = [".credentials", "credentials", "credentials.toml"];
/// Settings in the home that may hold secrets among others, line by line.
const SETTINGS: [&str; 2] = [".cargo/config", ".cargo/config.toml"];
/// The same in a folder that a variable names.
const SETTINGS_OF_VARIABLES: [&str; 2] = ["config", "config.toml"];
/// Folders of scripts that may hold secrets.
const SCRIPTS: [&str; 1] = [".gradle/init.d"];
/// Scripts in the home that may hold secrets.
const SINGLE_SCRIPTS: [&str; 2] = [".gradle/init.gradle", ".gradle/init.gradle.kts"];
/// Folders of tools that hold no programs and no packages, so that no name in them is one of a secret.
pub(super) const HAVE_PROGRAMS: [&str; 8] =
    ["bin", "include", "lib", "lib64", "libexec", "sbin", "share", "shims"];
/// A folder of conda's own, which knows its environments by the history in it.
const CONDA: &str = "conda-meta";
/// The most names of a folder that are looked at.
const MOST_NAMES: usize = 1_000;
/// What the name of a setting contains whose value is a secret.
const NAMES: [&str; 6] = ["_auth", "apikey", "password", "passwd", "secret", "token"];
/// The largest file that is looked into. A larger one is hidden.
const LARGEST: u64 = 1 << 20;

/// Where secrets may be.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    files: Vec<PathBuf>,
    settings: Vec<PathBuf>,
    scripts: Vec<PathBuf>,
    script_folders: Vec<PathBuf>,
    /// Folders of tools in the home.
    tools: Vec<PathBuf>,
}

impl Secrets {
    /// `named`: folders that variables name. `known`: real paths of toolchains and caches that are known by their names.
    pub(super) fn new(home: Option<&Path>, named: &[PathBuf], known: &[PathBuf]) -> Self {
        let of_home = |names: &[&str]| -> Vec<PathBuf> {
            home.iter().flat_map(|home| names.iter().map(|name| home.join(name))).collect()
        };
        let of_named = |names: &[&str]| -> Vec<PathBuf> {
            named.iter().flat_map(|folder| names.iter().map(|name| folder.join(name))).collect()
        };
        Self {
            files: [of_home(&SECRETS), of_named(&SECRETS_OF_VARIABLES)].concat(),
            settings: [of_home(&SETTINGS), of_named(&SETTINGS_OF_VARIABLES)].concat(),
            scripts: of_home(&SINGLE_SCRIPTS),
            script_folders: of_home(&SCRIPTS),
            tools: known.iter().filter(|folder| is_tool(folder)).cloned().collect(),
        }
    }

    /// What is to be hidden now: real paths. Settings without their secrets are shown by [`Self::reduced`], if
    /// something can be mounted over a file.
    pub(super) fn hidden(&self, can_cover: bool) -> Vec<PathBuf> {
        let inside = self.script_folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        let inside = inside.filter_map(|entry| Some(entry.ok()?.path()));
        let scripts = self.scripts.iter().cloned().chain(inside).filter(|path| is_secret(path));
        let settings = self.settings.iter().filter(|path| {
            if can_cover { path.is_file() && text_of(path, LARGEST).is_none() } else { is_secret(path) }
        });
        let by_name = self.tools.iter().flat_map(|folder| private_files(folder));
        let all = self.files.iter().cloned().chain(scripts).chain(settings.cloned()).chain(by_name);
        all.filter_map(|path| fs::canonicalize(path).ok()).collect()
    }

    /// Settings that hold secrets, as commands see them.
    pub(super) fn reduced(&self) -> Vec<ViewStep> {
        let reduced = self.settings.iter().filter_map(|path| {
            let text = text_of(path, LARGEST)?;
            let content = without_secrets(&text);
            let place = fs::canonicalize(path).ok()?;
            (content != text).then(|| ViewStep::Text { place, content: content.into_bytes() })
        });
        reduced.collect()
    }
}

/// Whether a folder is one in which a tool keeps its own files: no folder of programs or of caches alone.
fn is_tool(folder: &Path) -> bool {
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    !HAVE_PROGRAMS.contains(&name(folder).as_str())
        && folder.parent().is_none_or(|above| name(above) != ".cache")
}

/// Histories and accounts in the folder of a tool and in the folders in it. Deeper files belong to packages.
fn private_files(tool: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_NAMES);
    let is_private = |name: &std::ffi::OsStr| name.to_str().is_some_and(is_private_name);
    let mut found = Vec::new();
    for entry in entries(tool) {
        let (Ok(kind), name) = (entry.file_type(), entry.file_name()) else { continue };
        if kind.is_dir() {
            if !name.to_str().is_some_and(|name| HAVE_PROGRAMS.contains(&name) || name == CONDA) {
                let inside = entries(&entry.path()).filter(|entry| is_private(&entry.file_name()));
                found.extend(inside.map(|entry| entry.path()));
            }
        } else if is_private(&name) {
            found.push(entry.path());
        }
    }
    // A program is no history, whatever its name.
    found.retain(|path| path.metadata().is_ok_and(|it| it.is_file() && !is_program(&it)));
    found
}

/// Whether tools give such a name to what a person typed, or to an account.
fn is_private_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let stem = name.trim_start_matches(['.', '_']);
    let (first, end) = stem.split_once('.').unwrap_or((stem, ""));
    let is_history =
        (stem.ends_with("history") || first.ends_with("history")) && !matches!(end, "md" | "rst");
    let is_account = matches!(
        first,
        "auth" | "credentials" | "netrc" | "npmrc" | "pypirc" | "secret" | "secrets" | "token" | "tokens"
    );
    let is_key = matches!(end, "jks" | "keystore" | "p12" | "pfx")
        || end == "properties"
            && ["keys", "key", "keystore", "signing"].iter().any(|kind| first.ends_with(kind));
    is_history || is_account || is_key
}

/// Whether a file holds secrets, or cannot be looked into.
fn is_secret(path: &Path) -> bool {
    path.is_file() && text_of(path, LARGEST).is_none_or(|text| without_secrets(&text) != text)
}

/// The text without the lines that hold a secret.
fn without_secrets(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !holds_secret(line)).collect()
}

/// Whether a line gives a value to a name that indicates a secret, or holds an address with an account.
fn holds_secret(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let has_account = lower.match_indices("://").any(|(at, _)| {
        lower
            .get(at + 3..)
            .and_then(|rest| rest.split(['/', '"', '\'']).next())
            .is_some_and(|host| host.contains('@'))
    });
    let is_named = NAMES.iter().flat_map(|name| lower.match_indices(name)).any(|(at, name)| {
        // The rest of the name, and what follows it.
        let rest = lower.get(at + name.len()..).unwrap_or_default();
        let rest =
            rest.trim_start_matches(|letter: char| letter.is_alphanumeric() || "-_.\"'".contains(letter));
        let value = rest.trim_start();
        value.starts_with(['=', ':', '(']) || rest != value && value.starts_with(['"', '\''])
    });
    has_account || is_named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, reduced: &str) {
        assert_eq!(without_secrets(text), reduced);
    }

    #[test]
    fn lines_with_secrets_are_left_out() {
        check("[registry]\ntoken = \"x\"\n[build]\njobs = 2\n", "[registry]\n[build]\njobs = 2\n");
        check("[registries.a]\nindex = \"i\"\nsecret-key = 'x'", "[registries.a]\nindex = \"i\"\n");
        check("registries.a = { index = \"i\", \"token\" = \"x\" }\n", "");
        check("index = \"https://user:word@example.com/i\"\n", "");
        check("index = \"https://example.com/@scope/i\"\n", "index = \"https://example.com/@scope/i\"\n");
        check("git-fetch-with-cli = true\n# a token\n", "git-fetch-with-cli = true\n# a token\n");
        check("credential-provider = \"cargo:token\"\n", "credential-provider = \"cargo:token\"\n");
        check("credentials { password 'x' }\nurl 'https://e.org'\n", "url 'https://e.org'\n");
    }

    #[test]
    fn names_of_histories_and_accounts_are_known() {
        let private = [
            "keys.properties",
            "release-signing.properties",
            "repl_history.jl",
            "deno_history.txt",
            ".bash_history",
            "auth.json",
            "credentials",
            ".npmrc",
            "upload.jks",
        ];
        let open = [
            "gradle-wrapper.properties",
            "History.md",
            "history_expansion.so",
            "config.toml",
            "tokenizer.json",
            "authors",
            "package.json",
            "cacert.pem",
        ];
        assert_eq!(private.map(is_private_name), [true; 9]);
        assert_eq!(open.map(is_private_name), [false; 8]);
    }

    #[test]
    fn what_is_made_later_is_found() {
        let home = tempfile::tempdir().unwrap();
        let secrets = Secrets::new(Some(home.path()), &[], &[]);
        assert!(secrets.hidden(true).is_empty());
        let put = |name: &str, text: &str| {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::canonicalize(path).unwrap()
        };
        let settings = put(".m2/settings.xml", "x");
        let script = put(".gradle/init.d/a.gradle", "password = 'x'\n");
        put(".gradle/init.d/b.gradle", "println 1\n");
        let config = put(".cargo/config.toml", "[registry]\ntoken = \"x\"\n");
        assert_eq!(secrets.hidden(true), [settings.clone(), script.clone()]);
        assert_eq!(secrets.hidden(false), [settings, script, config.clone()]);
        assert_eq!(secrets.reduced(), [ViewStep::Text { place: config, content: b"[registry]\n".to_vec() }]);
    }
}
