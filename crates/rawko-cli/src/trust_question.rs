//! The first start in a folder that brings its own configuration, with a person at the terminal: one question.
//!
//! The user trusts exactly the text that was shown: the digest is taken with the claims, and the configuration is read
//! and compared again afterwards. Without a terminal nothing is asked and the folder is refused.

use std::io::{self, BufRead as _, Read as _};

use rawko::{Rawko, RawkoBuilder};

use crate::console::can_ask;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::trust_shown;
use crate::workspace::Workspace;

/// Answers that are none, after which there is no trust.
const PATIENCE: usize = 5;

impl Workspace {
    /// Builds it, and asks for trust first if that is needed and a person is there to give it.
    pub(crate) fn build(&self, builder: RawkoBuilder) -> Result<Rawko, Failure> {
        match builder.clone().build() {
            Err(error @ rawko::Error::Untrusted { .. }) => {
                if !can_ask() || !self.is_trusted_now()? {
                    return Err(error.into());
                }
                Ok(builder.build()?)
            }
            built => Ok(built?),
        }
    }

    /// Asks, and stores a yes. The question shows everything that the trust covers: the options of this command may
    /// override some of it, and the next command may not.
    fn is_trusted_now(&self) -> Result<bool, Failure> {
        let store = self.trust_store()?;
        let seen = self.builder().trusted(true).build()?;
        let loaded = seen.config();
        let Some(digest) = &loaded.project_digest else { return Ok(false) };
        let folder = seen.project();
        self.console.write_error(&introduction(&seen))?;
        let changed = store.changed(folder, &loaded.project_files).unwrap_or_default();
        self.console.write_error(&trust_shown::changed(&changed))?;
        for _ in 0..PATIENCE {
            self.console.write_error("Trust it as it is now? [y/N/show] ")?;
            let mut line = String::new();
            // The end of the input is no consent.
            let _ = io::stdin().lock().take(1_000).read_line(&mut line);
            match line.trim().to_ascii_lowercase().as_str() {
                "y" | "yes" => {
                    store.trust(folder, digest, &loaded.project_files).map_err(Failure::trust_not_stored)?;
                    self.console.write_error("Trusted. To revoke it: rawko trust --revoke\n")?;
                    return Ok(true);
                }
                "s" | "show" => self.console.write_error(&trust_shown::files(loaded))?,
                "" | "n" | "no" => return Ok(false),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// What the folder claims, and what else the trust is for.
fn introduction(rawko: &Rawko) -> String {
    format!(
        "{} brings settings that need your trust:\n{}{}",
        clean_line(&rawko.project().to_string_lossy()),
        trust_shown::claims(&rawko.config().claims),
        trust_shown::also_active(rawko)
    )
}
