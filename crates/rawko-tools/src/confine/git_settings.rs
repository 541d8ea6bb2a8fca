//! The user's settings of git, as commands get them: without what holds a secret or names a program of the user's.
//!
//! Git itself reads them, includes resolved, so that they mean here what they mean to it. A list names what is kept,
//! because new settings of git, or of tools that keep theirs there, may hold a secret.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Sections that are kept.
const SECTIONS: [&str; 46] = [
    "add",
    "advice",
    "am",
    "apply",
    "author",
    "blame",
    "branch",
    "checkout",
    "clean",
    "clone",
    "color",
    "column",
    "commit",
    "committer",
    "core",
    "diff",
    "feature",
    "fetch",
    "filter",
    "format",
    "gc",
    "gpg",
    "grep",
    "help",
    "i18n",
    "index",
    "init",
    "lfs",
    "log",
    "mailmap",
    "merge",
    "notes",
    "pack",
    "protocol",
    "pull",
    "push",
    "rebase",
    "rerere",
    "safe",
    "stash",
    "status",
    "submodule",
    "tag",
    "url",
    "user",
    "versionsort",
];
/// Single settings that are kept.
const KEPT: [&str; 2] = ["http.sslcainfo", "http.sslcapath"];
/// Settings of these sections that name programs for git to start, or folders of them.
const PROGRAMS: [&str; 7] = [
    "core.alternaterefscommand",
    "core.askpass",
    "core.fsmonitor",
    "core.gitproxy",
    "core.hookspath",
    "core.sshcommand",
    "init.templatedir",
];
/// Parts of names that say that the value is a secret.
const SECRETS: [&str; 4] = ["pass", "secret", "token", "extraheader"];

/// The name of the file in a home.
pub(super) const NAME: &str = ".gitconfig";

/// Settings that a repository keeps which a command made: none of them runs anything.
const OF_REPOSITORIES: [(&str, &[&str]); 14] = [
    ("branch", &["merge", "pushremote", "rebase", "remote"]),
    ("commit", &["gpgsign"]),
    (
        "core",
        &[
            "autocrlf",
            "bare",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "precomposeunicode",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "symlinks",
            "worktree",
        ],
    ),
    ("extensions", &["objectformat", "refstorage"]),
    ("fetch", &["prune"]),
    ("gc", &["auto"]),
    ("init", &["defaultbranch"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default"]),
    ("receive", &["denycurrentbranch", "denydeletes", "denynonfastforwards"]),
    ("remote", &["fetch", "mirror", "prune", "pushurl", "tagopt", "url"]),
    ("submodule", &["active", "branch", "url"]),
    ("tag", &["gpgsign"]),
    ("user", &["email", "name"]),
];

/// The user's settings without those that are not for commands, as one file; `None` where there are none.
pub(super) fn reduced(home: &Path, project: &Path) -> Option<String> {
    // The later one wins.
    let files = [home.join(".config/git/config"), home.join(NAME)];
    let texts: Vec<String> =
        files.iter().filter_map(|file| Some(reduce(&list(file, home, project)?, is_kept))).collect();
    (!texts.is_empty()).then(|| texts.concat())
}

/// What a repository keeps of the settings that a command gave it; `None` where it keeps all of them.
pub(super) fn of_a_new_repository(listed: &str) -> Option<String> {
    let is_kept = |section: &str, _: Option<&str>, name: &str, _: &str| {
        OF_REPOSITORIES.iter().any(|(known, names)| section == *known && names.contains(&name))
    };
    let kept = reduce(listed, is_kept);
    (kept != reduce(listed, |_, _, _, _| true)).then_some(kept)
}

/// What git reads from a file: names and values, each with a NUL after it.
fn list(file: &Path, home: &Path, project: &Path) -> Option<String> {
    if !file.is_file() {
        return None;
    }
    // In the project, on which conditions of an include may depend.
    let git = super::git::list_settings(Some(home.as_os_str()), &[project])?.within(project);
    let listed = git.args(["--includes", "--file"]).arg(file).answer();
    // Settings that git cannot read are not used by it either.
    listed.ok().map(|listed| String::from_utf8_lossy(&listed).into_owned())
}

fn reduce(listed: &str, is_kept: impl Fn(&str, Option<&str>, &str, &str) -> bool) -> String {
    let mut text = String::new();
    for entry in listed.split_terminator('\0') {
        let (key, value) = entry.split_once('\n').map_or((entry, None), |(key, value)| (key, Some(value)));
        let Some((section, rest)) = key.split_once('.') else { continue };
        let (subsection, name) =
            rest.rsplit_once('.').map_or((None, rest), |(subsection, name)| (Some(subsection), name));
        if !is_kept(section, subsection, name, value.unwrap_or_default()) {
            continue;
        }
        let subsection = subsection.map(|text| format!(" {}", quoted(text))).unwrap_or_default();
        let value = value.map(|value| format!(" = {}", quoted(value))).unwrap_or_default();
        text.push_str(&format!("[{section}{subsection}]\n\t{name}{value}\n"));
    }
    text
}

/// Whether a setting is for commands. Git writes sections and names in lower case.
fn is_kept(section: &str, subsection: Option<&str>, name: &str, value: &str) -> bool {
    let plain = format!("{section}.{name}");
    let holds_account = |text: &str| text.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    let is_listed = SECTIONS.contains(&section) || subsection.is_none() && KEPT.contains(&plain.as_str());
    // An alias of the shell is a program, and others are a convenience.
    is_listed
        && !PROGRAMS.contains(&plain.as_str())
        && !SECRETS.iter().any(|part| name.contains(part))
        && !holds_account(value)
        && !subsection.is_some_and(holds_account)
}

/// In quotes, in which both subsections and values may hold anything; no name holds a line break.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
    format!("\"{escaped}\"")
}

/// Puts the settings into a home of commands, unless they are there already: `record` holds what was put there last. So what
/// a command sets for itself stays until the user's settings change. Nothing is written where a link of a command's leads.
pub(super) fn put(text: Option<&str>, home: &Path, record: &Path) -> io::Result<()> {
    let last = fs::read_to_string(record).ok();
    if last.as_deref() == text {
        return Ok(());
    }
    let new = new_name(home);
    let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    made.write_all(text.unwrap_or_default().as_bytes())?;
    fs::rename(&new, home.join(NAME))?;
    match text {
        Some(text) => fs::write(record, text),
        None => fs::remove_file(record),
    }
}

/// A name that no command knows before.
fn new_name(home: &Path) -> PathBuf {
    use std::hash::{BuildHasher as _, RandomState};
    home.join(format!("{NAME}-{:x}", RandomState::new().hash_one(std::process::id())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// What git reads from the settings after they were reduced.
    #[track_caller]
    fn check(settings: &str, kept: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let (home, own) = (folder.path().join("home"), folder.path().join("own"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&own).unwrap();
        fs::write(home.join(NAME), settings).unwrap();
        fs::write(home.join("included"), "[user]\n\tname = Included\n[http]\n\tproxy = CANARY\n").unwrap();
        put(reduced(&home, folder.path()).as_deref(), &own, &folder.path().join("record")).unwrap();
        let found = list(&own.join(NAME), &own, folder.path()).unwrap();
        let found: Vec<&str> = found.split_terminator('\0').collect();
        assert_eq!(found, kept);
        assert!(!fs::read_to_string(own.join(NAME)).unwrap().contains("CANARY"));
    }

    #[test]
    fn what_holds_a_secret_or_names_a_program_is_left_out() {
        check(
            "[user]\n\tname = \"A \\\"B\\\" C # d\"\n\temail = a@b.c\n[commit]\n\tverbose\n\
             [http \"https://a.com\"]\n\textraHeader = CANARY\n[http]\n\tproxy = http://u:CANARY@p\n\tsslCAInfo = /ca\n\
             [credential]\n\thelper = store --file CANARY\n[github]\n\ttoken = CANARY\n[sendemail]\n\tsmtpPass = CANARY\n[lfs]\n\tpassword = CANARY\n\
             [core]\n\tautocrlf = input\n\tsshCommand = CANARY\n\tfsmonitor = CANARY\n\thooksPath = CANARY\n\taskPass = CANARY\n\
             [alias]\n\tx = !CANARY\n[url \"https://u:CANARY@a.com/\"]\n\tinsteadOf = a:\n\
             [url \"https://a.com/\"]\n\tinsteadOf = b:\n\tinsteadOf = https://CANARY@a.com/\n\
             [include]\n\tpath = included\n[includeIf \"gitdir:/CANARY\"]\n\tpath = CANARY\n[unknown]\n\tx = CANARY\n",
            &[
                "user.name\nA \"B\" C # d",
                "user.email\na@b.c",
                "commit.verbose",
                "http.sslcainfo\n/ca",
                "core.autocrlf\ninput",
                "url.https://a.com/.insteadof\nb:",
                "user.name\nIncluded",
            ],
        );
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (own, target) = (folder.path().join("own"), folder.path().join("target"));
        fs::create_dir(&own).unwrap();
        fs::write(&target, "KEPT").unwrap();
        std::os::unix::fs::symlink(&target, own.join(NAME)).unwrap();
        let record = folder.path().join("record");
        put(Some("[user]\n"), &own, &record).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "KEPT");
        let now = || fs::read_to_string(own.join(NAME)).unwrap();
        assert_eq!(now(), "[user]\n");
        // What a command sets for itself stays until the user's settings change.
        fs::write(own.join(NAME), "[core]\n").unwrap();
        put(Some("[user]\n"), &own, &record).unwrap();
        assert_eq!(now(), "[core]\n");
        put(None, &own, &record).unwrap();
        assert_eq!(now(), "");
    }
}
