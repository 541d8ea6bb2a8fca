//! A session that another program began and suspended is taken up by the binary.

use std::collections::HashMap;
use std::time::Duration;

use rawko::config::TrustStore;
use rawko::{Error, Rawko};
use serde_json::json;

use crate::answers::{bash, developer};
use crate::trial::Trial;

#[test]
#[cfg(target_os = "linux")]
fn a_session_that_a_program_suspended_is_resumed() {
    let server = developer([bash("trap '' TERM; echo $$ > pid; sleep 1000"), bash("echo later > after")]);
    let trial = Trial::new(server).user_config("/permissions/sandbox", json!("off"));
    let text = |text: &std::ffi::OsStr| text.to_str().map(str::to_owned);
    let variables: HashMap<String, String> =
        trial.asker().get_envs().filter_map(|(name, value)| Some((text(name)?, text(value?)?))).collect();
    let home = trial.outside().join("home");
    let rawko = Rawko::builder()
        .project(trial.project())
        .user_config_dir(home.join("config/rawko"))
        .trust_store(TrustStore::new(&home.join("state/rawko")))
        .env(move |name| variables.get(name).cloned())
        .build()
        .unwrap();
    let run = rawko.run("Write it.").unwrap();
    let (control, file) = (run.control(), trial.project().join("pid"));
    let suspending = async {
        loop {
            let written = std::fs::read_to_string(&file).unwrap_or_default();
            if let Some(pid) = written.strip_suffix('\n') {
                control.suspend();
                return pid.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (result, pid) = runtime.block_on(async { tokio::join!(run.finish(), suspending) });
    assert!(matches!(result, Err(Error::Suspended { .. })), "{result:?}");
    assert!(!std::path::Path::new("/proc").join(pid).exists(), "the command has outlived the run");
    let (code, out, err) = trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(std::fs::read_to_string(trial.project().join("after")).unwrap(), "later\n");
    assert!(trial.server.asked()[2].last_text().contains("Outcome unknown"));
}
