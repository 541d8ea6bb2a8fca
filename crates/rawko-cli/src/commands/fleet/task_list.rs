//! Tasks of a file: one a line in words, or one JSON object a line.

use std::path::Path;

use rawko::config::{PlainNumber, TimeLimit};
use rawko_temporal::{Carriage, TaskOptions, TaskSpec};
use serde::Deserialize;

use super::arguments::TaskArgs;
use crate::failure::Failure;
use crate::lines::LineReader;
use crate::output::clean_line;

/// One task, and what is set for it alone.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListedTask {
    /// In words.
    pub(super) task: String,
    /// Its id; made of repository, commit and task where absent.
    #[serde(default)]
    pub(super) id: Option<String>,
    /// The repository.
    #[serde(default)]
    pub(super) repo: Option<String>,
    /// The branch, tag or commit to begin with.
    #[serde(default)]
    pub(super) branch: Option<String>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    verify: Option<Vec<String>>,
    #[serde(default)]
    max_iterations: Option<u32>,
    #[serde(default)]
    max_cost: Option<f64>,
    #[serde(default)]
    timeout: Option<String>,
    #[serde(default)]
    priority: Option<u32>,
    #[serde(default)]
    merge_request: Option<bool>,
}

impl ListedTask {
    /// A task of the command line.
    pub(super) fn of_words(task: &str) -> Self {
        Self { task: task.to_owned(), ..Self::default() }
    }

    /// What is set for it: its own settings go before those of the command line.
    ///
    /// # Errors
    /// If one cannot be used, in words.
    pub(super) fn settings(&self, all: &TaskArgs) -> Result<(TaskOptions, Carriage), String> {
        let own_time = self.timeout.as_deref().map(|text| TimeLimit::parse(text, PlainNumber::Seconds));
        let timeout = own_time.transpose().map_err(|error| format!("`timeout`: {error}"))?.or(all.timeout);
        if self.max_iterations == Some(0) {
            return Err("`maxIterations` is at least 1".to_owned());
        }
        if self.max_cost.is_some_and(|cost| !cost.is_finite() || cost < 0.0) {
            return Err("`maxCost` is an amount in US dollars, like 2.50".to_owned());
        }
        if self.priority.is_some_and(|priority| !(1..=5).contains(&priority)) {
            return Err("`priority` is 1 to 5".to_owned());
        }
        let of_all = (!all.verify.is_empty()).then(|| all.verify.clone());
        let options = TaskOptions {
            provider: self.provider.clone().or_else(|| all.provider.clone()),
            model: self.model.clone().or_else(|| all.model.clone()),
            agent: self.agent.clone().or_else(|| all.agent.clone()),
            max_iterations: self.max_iterations.or(all.max_iterations),
            max_cost: self.max_cost.or(all.max_cost),
            timeout_ms: timeout.map(|limit| limit.as_ms().unwrap_or(0)),
            verify: self.verify.clone().or(of_all),
            merge_request: self.merge_request.unwrap_or(all.merge_request),
        };
        let usual = Carriage::default();
        let priority = self.priority.or(all.priority).unwrap_or(usual.priority);
        let heartbeat_ms = all.takeover.map_or(usual.heartbeat_ms, |takeover| takeover.as_ms());
        if !(1_000..=3_600_000).contains(&heartbeat_ms) {
            return Err("`takeover` is 1s to 1h".to_owned());
        }
        Ok((options, Carriage { priority, heartbeat_ms, ..usual }))
    }
}

/// Reads the tasks of a file; of standard input if it is `-`. Empty lines and those that begin with `#` are none.
pub(super) fn read(file: &Path) -> Result<Vec<ListedTask>, Failure> {
    let mut lines = LineReader::open(Some(file), "tasks")?;
    let mut tasks = Vec::new();
    while let Some(line) = lines.next()? {
        let parsed = std::str::from_utf8(line).map_err(|error| error.to_string()).and_then(parse);
        match parsed {
            Ok(task) => tasks.extend(task),
            Err(why) => {
                let place = format!("line {} of {}", lines.number(), clean_line(lines.name()));
                return Err(Failure::usage(format!("{place} is no task: {}", clean_line(&why))).with_hint(
                    "write the task in words, or a JSON object like {\"task\": \"fix it\", \"branch\": \"main\"}",
                ));
            }
        }
    }
    if tasks.is_empty() {
        return Err(Failure::usage(format!("{} holds no task", clean_line(lines.name())))
            .with_hint("write one task a line"));
    }
    Ok(tasks)
}

fn parse(line: &str) -> Result<Option<ListedTask>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if !line.starts_with('{') {
        return Ok(Some(ListedTask::of_words(line)));
    }
    let task: ListedTask = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if task.task.trim().is_empty() {
        return Err("its `task` is empty".to_owned());
    }
    Ok(Some(task))
}

/// An id for a task that has none: its first words, for people, and what it is made of.
pub(super) fn id_of(repository: &str, revision: Option<&str>, task: &str) -> String {
    const WORDS: usize = 5;
    const SLUG: usize = 40;
    const DIGITS: usize = 12;
    let made_of = format!("{repository}\0{}\0{task}", revision.unwrap_or_default());
    let digest = format!("{:?}", rawko::tools::Digest::of(made_of.as_bytes()));
    let digest = digest.get(..DIGITS).unwrap_or(&digest);
    let plain: String =
        task.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' }).collect();
    let slug = plain.split_whitespace().take(WORDS).collect::<Vec<_>>().join("-");
    let slug = slug.get(..SLUG).unwrap_or(&slug).trim_end_matches('-');
    if slug.is_empty() { format!("task-{digest}") } else { format!("{slug}-{digest}") }
}

/// Names a submission by its tasks, so that the same submission is the same a second time.
pub(super) fn submission_of(specs: &[TaskSpec]) -> String {
    let ids: Vec<&str> = specs.iter().map(|spec| spec.id.as_str()).collect();
    let digest = format!("{:?}", rawko::tools::Digest::of(ids.join("\n").as_bytes()));
    format!("submission-{}", digest.get(..12).unwrap_or(&digest))
}

#[cfg(test)]
mod tests {
    use rawko::config::TimeSpan;

    use super::*;

    #[test]
    fn a_line_is_a_task_in_words_or_an_object() {
        assert_eq!(parse("  add a flag \n"), Ok(Some(ListedTask::of_words("add a flag"))));
        assert_eq!(parse("\n"), Ok(None));
        assert_eq!(parse("# later"), Ok(None));
        let task = parse(r#"{"task": "fix it", "id": "one", "repo": "/srv/a", "branch": "main"}"#);
        let task = task.unwrap().unwrap();
        assert_eq!((task.task.as_str(), task.id.as_deref()), ("fix it", Some("one")));
        assert_eq!((task.repo.as_deref(), task.branch.as_deref()), (Some("/srv/a"), Some("main")));
        for (line, why) in [
            (r#"{"task": "x", "cwd": "/"}"#, "unknown field `cwd`"),
            (r#"{"id": "x"}"#, "missing field `task`"),
            (r#"{"task": " "}"#, "empty"),
            ("{fix it}", "key must be a string"),
        ] {
            assert!(parse(line).unwrap_err().contains(why), "{line}: {:?}", parse(line));
        }
    }

    #[test]
    fn a_file_is_refused_at_its_wrong_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tasks");
        std::fs::write(&file, "one task\n\n{\"task\": 1}\n").unwrap();
        let failure = read(&file).unwrap_err();
        assert!(failure.message().starts_with("line 3 of "), "{}", failure.message());
        std::fs::write(&file, "# nothing\n").unwrap();
        assert!(read(&file).unwrap_err().message().contains("holds no task"));
        std::fs::write(&file, "one\ntwo words\n").unwrap();
        assert_eq!(read(&file).unwrap().len(), 2);
    }

    #[test]
    fn a_tasks_own_settings_go_first() {
        let all = TaskArgs {
            model: Some("m".to_owned()),
            verify: vec!["make".to_owned()],
            max_cost: Some(2.0),
            priority: Some(2),
            ..TaskArgs::default()
        };
        let own =
            parse(r#"{"task": "t", "maxCost": 1, "timeout": "30m", "verify": [], "mergeRequest": true}"#);
        let (options, carriage) = own.unwrap().unwrap().settings(&all).unwrap();
        assert_eq!(options.model.as_deref(), Some("m"));
        assert_eq!((options.max_cost, options.timeout_ms), (Some(1.0), Some(1_800_000)));
        assert_eq!((options.verify, options.merge_request), (Some(Vec::new()), true));
        assert_eq!((carriage.priority, carriage.heartbeat_ms), (2, 10_000));
        for (takeover, heartbeat_ms) in [(999, None), (5_000, Some(5_000)), (3_600_001, None)] {
            let all = TaskArgs { takeover: TimeSpan::from_ms(takeover), ..TaskArgs::default() };
            let set = ListedTask::of_words("t").settings(&all).ok();
            assert_eq!(set.map(|(_, carriage)| carriage.heartbeat_ms), heartbeat_ms);
        }
        let (options, carriage) = ListedTask::of_words("t").settings(&TaskArgs::default()).unwrap();
        assert_eq!((options, carriage), (TaskOptions::default(), Carriage::default()));
        for wrong in [r#""priority": 6"#, r#""maxIterations": 0"#, r#""maxCost": -1"#, r#""timeout": "soon""#]
        {
            let task = parse(&format!(r#"{{"task": "t", {wrong}}}"#)).unwrap().unwrap();
            assert!(task.settings(&TaskArgs::default()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_id_follows_from_what_the_task_is() {
        let id = |revision, task| id_of("/srv/a", revision, task);
        let one = id(None, "Add a --version flag, and document it well");
        assert!(one.starts_with("add-a-version-flag-and-"), "{one}");
        assert_eq!(one, id(None, "Add a --version flag, and document it well"));
        assert_ne!(one, id(Some("main"), "Add a --version flag, and document it well"));
        assert!(id(None, "修复").starts_with("task-"));
        for task in ["修复", "x", "--- ...", &"word ".repeat(30), &"w".repeat(300)] {
            let id = id(None, task);
            assert!(rawko_temporal::tree::branch_of(&id).is_ok(), "{id}");
        }
    }
}
