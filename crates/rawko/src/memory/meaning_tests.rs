use super::*;

#[test]
fn without_a_model_the_way_to_one_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let error = Meaning::load(folder.path()).unwrap_err();
    let expected = if cfg!(feature = "semantic") { "scripts/fetch-model.sh" } else { "--features semantic" };
    assert!(error.help.contains(expected), "{error:?}");
    let report = error.report();
    assert!(report.message.ends_with("memories are found by words alone"), "{report}");
}

#[test]
fn a_run_is_told_once_that_there_is_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::of_project(folder.path());
    for directory in [None, Some(folder.path().to_owned())] {
        let meaning = LazyMeaning::new(directory);
        let reports = |_| meaning.near(&store, "a task", Timestamp(0)).1.len();
        assert_eq!([0, 1, 2].map(reports), [1, 0, 0]);
    }
}

#[cfg(feature = "semantic")]
mod with_the_model {
    use std::fs;

    use rawko_core::agent::{AgentConfig, Importance};
    use rawko_core::memory::{Query, Recipient};

    use super::*;
    use crate::memory::{FOLDER, RecallOptions};

    /// The model, from the real weights in the user's directory for data.
    fn model() -> Meaning {
        let data = crate::config::user_data_dir(&|name| std::env::var(name).ok()).unwrap();
        Meaning::load(&data).unwrap()
    }

    fn write(folder: &Path, name: &str, title: &str, when: &str, more: &str) {
        let text = format!(
            "---\ntitle: {title}\nwhenToUse: {when}\nimportance: low\ndiscoveredBy: x\n{more}---\nBody.\n"
        );
        fs::create_dir_all(folder.join(FOLDER)).unwrap();
        fs::write(folder.join(FOLDER).join(name), text).unwrap();
    }

    #[test]
    #[ignore = "needs the weights: scripts/test-semantic.sh"]
    fn what_words_do_not_find_meaning_finds_and_keeps_its_vectors() {
        let meaning = model();
        let project = tempfile::tempdir().unwrap();
        let add = |name, title, when, more| write(project.path(), name, title, when, more);
        add("mail.md", "Mail is sent through the outbox table", "sending mail to customers", "");
        add("cents.md", "Amounts are integers in cents", "computing prices or totals", "");
        add(
            "old.md",
            "Subscribers are notified of a shipped parcel",
            "a parcel has shipped",
            "expiresAt: 2020-01-01\n",
        );
        // The superseded memory would be nearer than anything else.
        add("gone.md", "Subscribers are notified of a shipped parcel", "a parcel has shipped", "");
        add("newer.md", "Deployments happen on Tuesdays", "deploying", "supersedes: [gone]\n");
        let store = MemoryStore::of_project(project.path());
        let task = "Notify subscribers as soon as their parcel is on its way";
        let now = Timestamp(1_769_160_600_000);
        let agent: AgentConfig =
            serde_json::from_value(serde_json::json!({"name": "developer", "systemPrompt": ""})).unwrap();
        let recipient = Recipient::of(&agent, 5, Importance::Low);
        let query = Query::new(task, "developer", None);
        let told = |semantic| {
            let recall = store.recall(&query, &recipient, &RecallOptions { now, semantic });
            recall
                .selection
                .chosen
                .into_iter()
                .map(|one| (one.memory.path, one.score.semantic))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(BTreeMap::new()), []);

        let files = || fs::read_dir(project.path().join(FOLDER)).unwrap().count();
        let before = files();
        let leaving_nothing = meaning.near(&store.clone().without_caches(), task, now);
        assert_eq!(files(), before, "nothing is kept where nothing is to be left behind");

        let (near, reports) = meaning.near(&store, task, now);
        assert_eq!(leaving_nothing, (near.clone(), Vec::new()));
        assert!(reports.is_empty() && near["mail.md"].matches && !near["cents.md"].matches, "{near:?}");
        let retired = ["old.md", "gone.md"].map(|path| near.contains_key(path));
        assert_eq!(retired, [false; 2], "what has expired or was superseded is not compared");
        let told = told(near.clone());
        assert!(matches!(&told[..], [(path, points)] if path == "mail.md" && *points > 2.0), "{told:?}");

        let vectors = project.path().join(FOLDER).join(rawko_semantic::FILE_NAME);
        let before = fs::metadata(&vectors).unwrap().modified().unwrap();
        assert_eq!(meaning.near(&store, task, now).0, near);
        assert_eq!(fs::metadata(&vectors).unwrap().modified().unwrap(), before, "nothing is written again");
        let ignored = fs::read_to_string(project.path().join(FOLDER).join(".gitignore")).unwrap();
        assert!(ignored.contains("/.vectors"), "{ignored}");
        // A written memory is embedded at once, and then a selection has nothing to keep.
        add("new.md", "Parcels are tracked by the carrier", "tracking a parcel", "");
        assert_eq!(meaning.take_in(&store, now), []);
        let taken_in = fs::metadata(&vectors).unwrap().modified().unwrap();
        assert_ne!(taken_in, before);
        let near = meaning.near(&store, task, now).0;
        assert!(near.contains_key("new.md"));
        assert_eq!(fs::metadata(&vectors).unwrap().modified().unwrap(), taken_in);
        fs::write(&vectors, "damaged").unwrap();
        let anew = model();
        assert_eq!(anew.near(&store, task, now).0, near);
    }
}
