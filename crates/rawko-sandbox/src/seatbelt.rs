//! Writes profiles for Seatbelt, the sandbox of macOS, in its language SBPL.
//!
//! Pure text: this module neither reads files nor runs anything, so it is built and tested on every system. It was never
//! tested on macOS, and rawko does not use it yet. Of the rules that match an operation the last one counts, so what is
//! denied comes after what is allowed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What one command may see, change and reach. Paths are absolute and resolved: Seatbelt compares real paths, and `/tmp`
/// and `/etc` are links into `/private`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Read with all that is in them: the project, toolchains.
    pub read: Vec<PathBuf>,
    /// Read and written with all that is in them.
    pub write: Vec<PathBuf>,
    /// Neither read nor written.
    pub denied: Vec<PathBuf>,
    /// Read, and not written.
    pub protected: Vec<PathBuf>,
    /// The command's home.
    pub home: PathBuf,
    /// The command's folder for temporary files.
    pub temporary: PathBuf,
    /// The port of the proxy on this machine; `None` for no network.
    pub proxy: Option<u16>,
}

/// A profile cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileError {
    /// The path has a NUL, or is not UTF-8.
    NoText(PathBuf),
    /// The path is not absolute, or goes up by `..`.
    NotResolved(PathBuf),
}

impl std::fmt::Display for ProfileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoText(path) => {
                write!(
                    f,
                    "{path:?} cannot be named in a sandbox profile: rename it, without NUL and in UTF-8"
                )
            }
            Self::NotResolved(path) => {
                write!(
                    f,
                    "{path:?} cannot be named in a sandbox profile: resolve it to an absolute path first"
                )
            }
        }
    }
}

impl std::error::Error for ProfileError {}

/// What every command needs: processes of its own, the system to read, devices without effect.
const BASE: &str = r#"(version 1)
(deny default)
(allow process-fork)
(allow process-exec*)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup
  (global-name "com.apple.system.logger")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow file-read-metadata)
(allow file-read*
  (literal "/")
  (subpath "/usr")
  (subpath "/bin")
  (subpath "/sbin")
  (subpath "/opt/homebrew")
  (subpath "/System")
  (subpath "/Library")
  (subpath "/Applications/Xcode.app")
  (subpath "/private/etc")
  (subpath "/private/var/select")
  (subpath "/private/var/db/timezone")
  (subpath "/private/var/db/dyld")
  (literal "/dev/random")
  (literal "/dev/urandom"))
(allow file-read* file-write-data file-ioctl
  (literal "/dev/null")
  (literal "/dev/zero"))
(deny file-read* file-write*
  (subpath "/Library/Keychains")
  (subpath "/System/Library/Keychains")
  (subpath "/private/etc/master.passwd")
  (subpath "/private/etc/ssh")
  (subpath "/private/etc/sudoers"))
"#;

/// What nothing may write, in whatever folder it is. `.git` itself is named so that it cannot be moved away. Most disks of
/// macOS ignore case.
const PROTECTED: &str = r##"(deny file-write*
  (regex #"/\.[Gg][Ii][Tt]$")
  (regex #"/\.[Gg][Ii][Tt]/([Cc][Oo][Nn][Ff][Ii][Gg]|[Cc][Oo][Mm][Mm][Oo][Nn][Dd][Ii][Rr])")
  (regex #"/\.[Gg][Ii][Tt]/([Hh][Oo][Oo][Kk][Ss]|[Ii][Nn][Ff][Oo])(/|$)")
  (regex #"/\.([Rr][Aa][Ww][Kk][Oo]|[Cc][Ll][Aa][Uu][Dd][Ee])(/|$)"))
"##;

impl Profile {
    /// The profile as `sandbox-exec -p` takes it.
    ///
    /// # Errors
    /// A path that cannot be named in one.
    pub fn text(&self) -> Result<String, ProfileError> {
        // First, so that an error names the path itself and not a folder around it.
        self.protected.iter().chain(&self.denied).try_for_each(|path| quoted(path).map(drop))?;
        let own = [self.home.clone(), self.temporary.clone()];
        let mut text = BASE.to_owned();
        rule(&mut text, "allow file-read*", "subpath", &self.read)?;
        rule(&mut text, "allow file-read* file-write*", "subpath", &self.write)?;
        rule(&mut text, "allow file-read* file-write*", "subpath", &own)?;
        if let Some(port) = self.proxy {
            let _ = writeln!(text, "(allow network-outbound (remote ip \"localhost:{port}\"))");
        }
        text.push_str(PROTECTED);
        // A folder around them cannot be moved: they would have names that no rule covers.
        let around = self.protected.iter().chain(&self.denied).flat_map(|path| path.ancestors().skip(1));
        let around: BTreeSet<PathBuf> = around.map(Path::to_owned).collect();
        rule(&mut text, "deny file-write-unlink", "literal", &Vec::from_iter(around))?;
        rule(&mut text, "deny file-write*", "subpath", &self.protected)?;
        rule(&mut text, "deny file-read* file-write*", "subpath", &self.denied)?;
        Ok(text)
    }
}

fn rule(text: &mut String, what: &str, filter: &str, paths: &[PathBuf]) -> Result<(), ProfileError> {
    if paths.is_empty() {
        // Without a filter it would hold for every path.
        return Ok(());
    }
    let _ = write!(text, "({what}");
    for path in paths {
        let _ = write!(text, "\n  ({filter} {})", quoted(path)?);
    }
    text.push_str(")\n");
    Ok(())
}

/// The path as a string of SBPL.
fn quoted(path: &Path) -> Result<String, ProfileError> {
    let name = path.to_str().filter(|name| !name.contains('\0'));
    let name = name.ok_or_else(|| ProfileError::NoText(path.to_owned()))?;
    // By hand: on Windows no such path is absolute.
    if !name.starts_with('/') || name.split('/').any(|part| part == ".." || part == ".") {
        return Err(ProfileError::NotResolved(path.to_owned()));
    }
    let mut text = String::from("\"");
    for letter in name.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ => text.push(letter),
        }
    }
    text.push('"');
    Ok(text)
}

#[cfg(test)]
#[path = "seatbelt_tests.rs"]
mod tests;
