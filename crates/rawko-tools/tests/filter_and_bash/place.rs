//! Where lines are run: a folder in which programs record that they were started, in namespaces of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::options::{LISTED, UNLISTED};

/// Programs that are the real ones, if the machine has them: what they start and write is seen. The others only record
/// that they were started.
const REAL: &[&str] = &[
    "sort", "uniq", "sed", "find", "cut", "awk", "diff", "diff3", "sdiff", "shuf", "iconv", "file", "xxd",
    "od", "comm", "paste", "xargs", "env", "nice", "timeout", "nohup", "stdbuf", "setsid", "time", "ionice",
    "taskset", "ls", "wc", "git", "curl",
];

/// The longest that a batch may take.
const LONGEST: Duration = Duration::from_secs(120);

/// Runs each line of a file in a bash of its own. It finds nothing in `PATH` but the programs here.
const RUNNER: &str = r#"
ulimit -t 2
while IFS= read -r -d '' line <&3; do
  cd "$WORK"
  "$BASH" -c "$line" </dev/null >/dev/null 2>&1 3<&-
done 3<"$LINES_FILE"
# What runs in the background is seen, too: in the namespace there is nothing else.
[ -z "$ALONE" ] || for ((i = 0; i < 20000; i++)); do kill -0 -1 2>/dev/null || break; done
"#;

/// Makes everything read-only but the folder, and then runs bash.
const ENTER: &str = r#"
mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,bind,ro / || exit 97
exec env -i ALONE=1 PATH="$0/bin" WORK="$0/top/work" LINES_FILE="$0/lines" "$1" "$0/runner"
"#;

/// A folder with programs.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    is_closed: bool,
    untouched: BTreeMap<PathBuf, Vec<u8>>,
}

/// What a batch of lines did that it may not do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Leaks {
    /// Calls of programs that are not listed.
    pub(crate) programs: BTreeSet<String>,
    /// Files that were written or removed.
    pub(crate) files: BTreeSet<String>,
}

impl Leaks {
    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.files.is_empty()
    }
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) calls: usize,
    pub(crate) leaks: Leaks,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut place = Self { folder, is_closed: true, untouched: BTreeMap::new() };
        place.is_closed = place.can_be_closed();
        fs::write(place.path("runner"), RUNNER).unwrap();
        place.lay_out();
        place.untouched = place.files();
        place
    }

    pub(crate) fn project(&self) -> String {
        self.path("top/work").display().to_string()
    }

    /// Whether lines run in namespaces, with real programs.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn lay_out(&self) {
        let _ = fs::remove_dir_all(self.path("top"));
        let _ = fs::remove_dir_all(self.path("bin"));
        fs::create_dir(self.path("bin")).unwrap();
        for name in LISTED.iter().chain(UNLISTED) {
            // Builtins of bash need no program.
            if !matches!(*name, "[" | "test" | "echo" | "printf" | "read" | "set" | "export" | "command") {
                self.program(&self.path("bin").join(name), name);
            }
        }
        fs::create_dir_all(self.path("top/work/src")).unwrap();
        fs::create_dir_all(self.path("top/work/.rawko")).unwrap();
        fs::write(self.path("top/work/a"), "A\n").unwrap();
        fs::write(self.path("top/work/src/b"), "w z\n").unwrap();
        // Text that runs a program where it is calculated with, in a file and as the name of one.
        fs::write(self.path("top/work/src/e"), "a[$(evil)]\n").unwrap();
        fs::create_dir(self.path("top/work/a[$(evil)]")).unwrap();
        // A program of the project with a listed name: it runs only if `PATH` was changed.
        self.program(&self.path("top/work/src/ls"), "evil");
        fs::write(self.path("log"), "").unwrap();
    }

    fn program(&self, path: &Path, name: &str) {
        let real = REAL.contains(&name).then(|| real_path(name)).flatten().filter(|_| self.is_closed);
        let end = real.map_or(String::new(), |real| format!("exec '{}' \"$@\"\n", real.display()));
        let log = self.path("log");
        let text = format!("#!/bin/sh\nprintf '%s\\000' '\u{1}{name}' \"$@\" >>'{}'\n{end}", log.display());
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn can_be_closed(&self) -> bool {
        let mut unshare = Command::new("unshare");
        let args = ["-m", "-r", "--pid", "--fork", "--kill-child", "--net", "sh", "-c"];
        unshare.args(args).arg("mount --make-rprivate / && mount -o remount,bind,ro /");
        unshare.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Runs the lines one after the other and says what they did. Where `may_write`, the project's files are theirs, but not
    /// rawko's.
    pub(crate) fn run(&self, lines: &[String], may_write: bool) -> Seen {
        let text: String = lines.iter().map(|line| format!("{line}\0")).collect();
        fs::write(self.path("lines"), text).unwrap();
        fs::write(self.path("log"), "").unwrap();
        let shell = rawko_tools::shell().unwrap();
        let mut command = if self.is_closed {
            let mut unshare = Command::new("unshare");
            unshare.args(["-m", "-r", "--pid", "--fork", "--kill-child", "--net", "sh", "-c", ENTER]);
            unshare.arg(self.folder.path()).arg(shell);
            unshare
        } else {
            let mut bash = Command::new(shell);
            bash.arg(self.path("runner")).env_clear().env("PATH", self.path("bin"));
            bash.env("WORK", self.path("top/work")).env("LINES_FILE", self.path("lines"));
            bash
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        wait(command.spawn().unwrap(), lines);
        self.seen(may_write)
    }

    fn seen(&self, may_write: bool) -> Seen {
        let log = fs::read(self.path("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let mut seen = Seen::default();
        for call in log.split('\u{1}').skip(1) {
            seen.calls += 1;
            let words: Vec<&str> = call.split('\0').filter(|word| !word.is_empty()).collect();
            if words.first().is_some_and(|name| !LISTED.contains(name)) {
                seen.leaks.programs.insert(words.join(" "));
            }
        }
        let files = self.files();
        let all: BTreeSet<&PathBuf> = files.keys().chain(self.untouched.keys()).collect();
        let changed = all.into_iter().filter(|path| files.get(*path) != self.untouched.get(*path));
        let mut changed: BTreeSet<String> = changed.map(|path| path.display().to_string()).collect();
        if !changed.is_empty() {
            self.lay_out();
        }
        if may_write {
            let (own, protected) = (self.project() + "/", self.project() + "/.rawko");
            changed.retain(|path| !path.starts_with(&own) || path.starts_with(&protected));
        }
        seen.leaks.files = changed;
        seen
    }

    /// All files that lines could write, with their contents; but not what `git init` makes.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.path("top"), self.path("bin")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.ends_with("work/.git") {
                    continue;
                }
                if entry.file_type().unwrap().is_dir() {
                    folders.push(path.clone());
                    found.insert(path, Vec::new());
                } else {
                    let text = fs::read(&path).unwrap_or_default();
                    found.insert(path, text);
                }
            }
        }
        found
    }
}

fn real_path(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn wait(mut child: Child, lines: &[String]) {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    while begun.elapsed() < LONGEST {
        if let Some(status) = child.try_wait().unwrap() {
            assert_ne!(status.code(), Some(97), "the namespaces could not be entered");
            return;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("one of these lines does not end: {lines:#?}");
}
