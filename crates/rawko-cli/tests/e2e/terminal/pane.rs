//! A real terminal for the binary: a private tmux server, which always ends with its test.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::trial::Trial;

/// Longer than anything here takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// What the script says when the binary has ended.
const ENDED: &str = "THE-END:";

/// A terminal of one pane.
pub(super) struct Pane {
    pub(super) trial: Trial,
    deadline: Instant,
}

impl Pane {
    /// Starts the binary in a terminal of this size. `None`, after it was said, where there is no tmux.
    pub(super) fn start(trial: Trial, columns: usize, rows: usize, arguments: &[&str]) -> Option<Self> {
        let pane = Self::new(trial, arguments)?;
        // The trap is not inherited: Ctrl-C is for the binary, and the script goes on after it.
        let script = format!(
            "trap : INT QUIT\nstty -g > '{0}/before'\nsh '{0}/rawko.sh'\ncode=$?\nstty -g > '{0}/after'\n\
             echo {ENDED}$code\nread -r rest\n",
            pane.folder().display()
        );
        let file = pane.folder().join("pane.sh");
        std::fs::write(&file, script).unwrap();
        pane.open(columns, rows, &format!("sh '{}'", file.display()));
        Some(pane)
    }

    /// Starts an interactive shell, in which `sh ../rawko.sh` is the binary.
    pub(super) fn shell(trial: Trial, arguments: &[&str]) -> Option<Self> {
        let pane = Self::new(trial, arguments)?;
        pane.open(80, 30, "bash --norc --noprofile -i");
        Some(pane)
    }

    fn new(trial: Trial, arguments: &[&str]) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            testkit::skip("tmux is not installed");
            return None;
        }
        let trial = trial.env("TERM", "screen-256color");
        let mut command = trial.asker();
        command.args(arguments);
        let mut line = String::from("exec env -i");
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                line.push_str(&format!(" {}={}", name.display(), quoted(&value.to_string_lossy())));
            }
        }
        for word in std::iter::once(command.get_program()).chain(command.get_args()) {
            line.push_str(&format!(" {}", quoted(&word.to_string_lossy())));
        }
        let pane = Self { trial, deadline: Instant::now() + PATIENCE };
        std::fs::write(pane.folder().join("rawko.sh"), line).unwrap();
        Some(pane)
    }

    fn folder(&self) -> PathBuf {
        self.trial.outside().to_owned()
    }

    fn open(&self, columns: usize, rows: usize, command: &str) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let project = self.trial.project();
        let project = project.to_str().unwrap();
        self.tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, "-c", project, command]);
        self.tmux(&["set-option", "-g", "history-limit", "5000"]);
    }

    #[track_caller]
    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C.UTF-8");
        tmux.arg("-u").arg("-S").arg(self.folder().join("tmux")).args(["-f", "/dev/null"]).args(arguments);
        let output = tmux.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What is on the screen.
    pub(super) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The same with everything that has scrolled away. Lines that the terminal has wrapped are joined.
    pub(super) fn all(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J", "-S", "-"])
    }

    /// Types: names of keys, or text.
    pub(super) fn types(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types this text.
    pub(super) fn writes(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Pastes this text: marked as such, or as an old terminal does it.
    pub(super) fn pastes(&self, text: &str, is_marked: bool) {
        self.tmux(&["set-buffer", text]);
        self.tmux(&["paste-buffer", if is_marked { "-pd" } else { "-d" }]);
    }

    pub(super) fn resize(&self, columns: usize, rows: usize) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// Whether the cursor can be seen.
    pub(super) fn has_cursor(&self) -> bool {
        self.tmux(&["display-message", "-p", "#{cursor_flag}"]).trim() == "1"
    }

    /// Waits until the screen `is_so`, and gives it.
    #[track_caller]
    pub(super) fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(Instant::now() < self.deadline, "never came: {what}; there is:\n{}", self.all());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until this is on the screen.
    #[track_caller]
    pub(super) fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Waits for a file of the project.
    #[track_caller]
    pub(super) fn wait_for_file(&self, name: &str) {
        while !self.trial.project().join(name).exists() {
            assert!(Instant::now() < self.deadline, "never came: {name}; there is:\n{}", self.all());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the binary has ended with this status, and checks that the terminal is as it was. Gives all that was
    /// shown.
    #[track_caller]
    pub(super) fn ends(&self, code: i32) -> String {
        let end = self.wait_for(ENDED);
        assert!(end.contains(&format!("{ENDED}{code}\n")), "{}", self.all());
        let modes = |name: &str| std::fs::read_to_string(self.folder().join(name)).unwrap();
        assert_eq!(modes("after"), modes("before"), "the terminal has other modes than before");
        assert!(self.has_cursor(), "the cursor is hidden");
        let all = self.all();
        assert!(!all.contains("Ctrl-C stop"), "the view is still there:\n{all}");
        assert!(!all.contains(crate::trial::CANARY));
        all
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(self.folder().join("tmux")).arg("kill-server").output();
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
