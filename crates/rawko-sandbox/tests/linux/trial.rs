//! One command with its plan.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::io::{PipeReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

use rawko_sandbox::{ConfinementPlan, Control, HelperReport, Network, SharedNamespaces, ViewStep, Wall};
use tempfile::TempDir;

/// A project in a folder, and the plan of the commands that run in it.
pub(super) struct Trial {
    folder: TempDir,
    pub(super) plan: ConfinementPlan,
}

/// A command that runs.
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) control: Option<Control>,
    pub(super) shared: Option<SharedNamespaces>,
    report: Option<HelperReport>,
    output: PipeReader,
}

/// How it ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) output: String,
    pub(super) report: Option<HelperReport>,
}

thread_local! {
    /// By what the trials of this test are confined.
    pub(super) static WALL: RefCell<Wall> = const { RefCell::new(Wall::Namespaces) };
}

impl Trial {
    /// The project is granted.
    pub(super) fn new() -> Self {
        let place = if rustix::process::geteuid().is_root() { "/var/lib" } else { "/var/tmp" };
        let folder = TempDir::new_in(place).unwrap();
        let project = folder.path().join("project");
        for name in ["project", "temporary"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let plan = ConfinementPlan {
            wall: WALL.with_borrow(Wall::clone),
            directory: project.clone(),
            base: vec![ViewStep::Grant(project)],
            view: Vec::new(),
            temporary: folder.path().join("temporary"),
            network: Network::Own,
            input: Vec::new(),
            converses: false,
            max_processes: 4_096,
        };
        Self { folder, plan }
    }

    pub(super) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub(super) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A file beside the project.
    pub(super) fn outside(&self, name: &str, content: &str) -> PathBuf {
        let file = self.folder("outside").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        file
    }

    /// Lays an empty folder over `covered`, and shows `shown` in it.
    pub(super) fn covers_and_shows(&mut self, covered: &Path, shown: &Path) {
        self.plan.base.splice(0..0, [ViewStep::Cover(covered.to_owned()), ViewStep::Show(shown.to_owned())]);
    }

    pub(super) fn run(&self, script: &str) -> Ended {
        self.start(script, None).finish()
    }

    /// With a variable in the command's environment.
    pub(super) fn run_with(&self, name: &str, value: &Path, script: &str) -> Ended {
        self.start_with(script, None, &[(name, value)]).finish()
    }

    pub(super) fn start(&self, script: &str, shared: Option<&SharedNamespaces>) -> Running {
        self.start_with(script, shared, &[])
    }

    fn start_with(
        &self,
        script: &str,
        shared: Option<&SharedNamespaces>,
        variables: &[(&str, &Path)],
    ) -> Running {
        let helper = Path::new("/proc/self/exe");
        let arguments = ["-c", script].map(OsString::from);
        let (mut command, mut control) =
            rawko_sandbox::command(helper, Path::new("/bin/bash"), &arguments).unwrap();
        let (output, writer) = std::io::pipe().unwrap();
        let child = command
            .envs(variables.iter().copied())
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .spawn()
            .unwrap();
        drop(command);
        control.send(&self.plan, shared, None).unwrap();
        let first = control.report().unwrap();
        let shared = control.take_shared(&self.plan, shared).unwrap().map(|(shared, _)| shared);
        let report = first.filter(|report| *report != HelperReport::Ready);
        Running { child, control: Some(control), shared, report, output }
    }

    /// Waits until the command has written to the file.
    #[track_caller]
    pub(super) fn beats(&self, running: &mut Running, name: &str) {
        while fs::metadata(self.project().join(name)).map_or(0, |file| file.len()) < 3 {
            if running.child.try_wait().unwrap().is_some() {
                panic!("it ended: {:?} {:?}", running.report, running.control.as_mut().map(Control::report));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Checks that nothing writes to the file any more.
    pub(super) fn falls_silent(&self, name: &str) {
        let length = || fs::metadata(self.project().join(name)).map_or(0, |file| file.len());
        let before = length();
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(length(), before, "the process lives");
    }
}

impl Running {
    pub(super) fn finish(mut self) -> Ended {
        let mut output = Vec::new();
        self.output.read_to_end(&mut output).unwrap();
        let mut report = self.report.take();
        if let Some(control) = &mut self.control {
            while let Some(next) = control.report().unwrap() {
                report = Some(next);
            }
        }
        let status = self.child.wait().unwrap();
        Ended { status, output: String::from_utf8_lossy(&output).into_owned(), report }
    }
}

impl Ended {
    #[track_caller]
    pub(super) fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{:?}\n{}", self.report, self.output);
        self
    }

    #[track_caller]
    pub(super) fn says(self, text: &str) -> Self {
        assert!(self.output.contains(text), "{text} is not in {:?}\n{}", self.report, self.output);
        self
    }

    #[track_caller]
    pub(super) fn never_says(self, text: &str) -> Self {
        assert!(!self.output.contains(text), "{text} is in {}", self.output);
        self
    }
}
