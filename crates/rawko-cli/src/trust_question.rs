//! The first start in a folder that brings its own configuration, with somebody at the terminal: one question.
//!
//! What is trusted is what was shown: the digest is taken with the claims, and the configuration is read and compared
//! again afterwards. Without a terminal nothing is asked and the folder is refused.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use rawko::config::Claim;
use rawko::{Rawko, RawkoBuilder};

use crate::commands::trust;
use crate::failure::Failure;
use crate::output::{clean, clean_line};
use crate::workspace::Workspace;

/// Most claims that are shown before the question; `show` shows the files.
const SHOWN_CLAIMS: usize = 20;
/// Most bytes of a file that are shown.
const SHOWN_BYTES: u64 = 64 * 1024;
/// Answers that are none, after which there is no trust.
const PATIENCE: usize = 5;

impl Workspace {
    /// Builds it, and asks for trust first where that is needed and somebody is there to give it.
    pub(crate) fn build(&self, builder: RawkoBuilder) -> Result<Rawko, Failure> {
        match builder.clone().build() {
            Err(error @ rawko::Error::Untrusted { .. }) => {
                let is_asked = io::stdin().is_terminal() && io::stderr().is_terminal();
                if !is_asked || !self.is_trusted_now()? {
                    return Err(error.into());
                }
                Ok(builder.build()?)
            }
            built => Ok(built?),
        }
    }

    /// Asks, and stores a yes. What is shown is all that the trust is for: the options of this command may override some
    /// of it, and the next command may not.
    fn is_trusted_now(&self) -> Result<bool, Failure> {
        let store = trust::store(self)?;
        let seen = self.builder().trusted(true).build()?;
        let loaded = seen.config();
        let Some(digest) = &loaded.project_digest else { return Ok(false) };
        let folder = seen.project();
        self.console.write_error(&introduction(folder, &loaded.claims))?;
        for _ in 0..PATIENCE {
            self.console.write_error("Trust it as it is now? [y/N/show] ")?;
            let mut line = String::new();
            // The end of the input is no consent.
            let _ = io::stdin().lock().take(1_000).read_line(&mut line);
            match line.trim().to_ascii_lowercase().as_str() {
                "y" | "yes" => {
                    store.trust(folder, digest).map_err(trust::refused)?;
                    self.console.write_error("Trusted. To revoke it: rawko trust --revoke\n")?;
                    return Ok(true);
                }
                "s" | "show" => self.console.write_error(&files(folder, &loaded.claims))?,
                "" | "n" | "no" => return Ok(false),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// What the folder claims, in short.
fn introduction(folder: &Path, claims: &[Claim]) -> String {
    let mut text =
        format!("{} brings settings that need your trust:\n", clean_line(&folder.to_string_lossy()));
    for claim in claims.iter().take(SHOWN_CLAIMS) {
        text.push_str(&format!("  {}\n", clean_line(&claim.to_string())));
    }
    if claims.len() > SHOWN_CLAIMS {
        text.push_str(&format!("  and {} more\n", claims.len() - SHOWN_CLAIMS));
    }
    text
}

/// The files that make the claims.
fn files(folder: &Path, claims: &[Claim]) -> String {
    let paths: BTreeSet<&PathBuf> = claims.iter().map(|claim| &claim.path).collect();
    let mut text = String::new();
    for path in paths {
        let mut bytes = Vec::new();
        let read = std::fs::File::open(folder.join(path))
            .and_then(|file| file.take(SHOWN_BYTES + 1).read_to_end(&mut bytes));
        let is_cut = bytes.len() as u64 > SHOWN_BYTES;
        bytes.truncate(usize::try_from(SHOWN_BYTES).unwrap_or(usize::MAX));
        let content = match read {
            Ok(_) => clean(&String::from_utf8_lossy(&bytes)).into_owned(),
            Err(error) => format!("it cannot be read: {error}"),
        };
        let name = clean_line(&path.to_string_lossy());
        let more = if is_cut { "\n… (the rest is not shown)" } else { "" };
        text.push_str(&format!("--- {name}\n{}{more}\n", content.trim_end()));
    }
    text
}
