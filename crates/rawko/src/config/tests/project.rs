//! A project for one test: files, environment and flags, independent of the machine the test runs on.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::config::{ConfigErrors, GivenConfig, LoadOptions, Loaded, Overrides, load};

pub(super) const TOOLS: [&str; 10] =
    ["Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch", "WebSearch", "UpdatePlan", "Report"];

pub(super) struct TestProject {
    dir: TempDir,
    user: TempDir,
    env: Vec<(String, String)>,
    overrides: Overrides,
    config_file: Option<String>,
    providers: Vec<&'static str>,
}

impl TestProject {
    /// Files by their path in the project, `user:config.yaml` for the user's own.
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let project = Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
            user: tempfile::tempdir().expect("a temporary directory"),
            env: Vec::new(),
            overrides: Overrides::default(),
            config_file: None,
            providers: Vec::new(),
        };
        for (name, text) in files {
            project.write(name, text);
        }
        project
    }

    pub(super) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = match name.strip_prefix("user:") {
            Some(name) => self.user.path().join(name),
            None => self.dir.path().join(name),
        };
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, bytes).expect("a file");
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn flags(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    pub(super) fn config_file(mut self, path: &str) -> Self {
        self.config_file = Some(path.to_owned());
        self
    }

    /// Adds a provider that the embedder registers.
    pub(super) fn provider(mut self, name: &'static str) -> Self {
        self.providers.push(name);
        self
    }

    pub(super) fn load(&self) -> Result<Loaded, ConfigErrors> {
        self.load_with(&GivenConfig::default(), false)
    }

    /// With what a program gives in code.
    pub(super) fn load_with(&self, given: &GivenConfig, isolated: bool) -> Result<Loaded, ConfigErrors> {
        let env =
            |name: &str| self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        load(&LoadOptions {
            project_dir: self.dir.path(),
            user_dir: Some(self.user.path()),
            env: &env,
            overrides: &self.overrides,
            known_tools: &TOOLS,
            known_providers: &self.providers,
            config_file: self.config_file.as_deref().map(Path::new),
            given,
            isolated,
        })
    }

    #[track_caller]
    pub(super) fn loaded(&self) -> Loaded {
        self.load().unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Text with this project's temporary directories replaced by names.
    pub(super) fn named(&self, text: &str) -> String {
        text.replace(&*self.user.path().to_string_lossy(), "USER")
            .replace(&*self.dir.path().to_string_lossy(), "PROJECT")
    }

    /// The error report.
    #[track_caller]
    pub(super) fn report(&self) -> String {
        match self.load() {
            Ok(_) => panic!("there are no errors"),
            Err(errors) => self.named(&errors.to_string()),
        }
    }
}
