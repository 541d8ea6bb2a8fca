//! Where file systems are mounted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Whether something is mounted below the folder. Where that cannot be known, it is assumed.
pub(crate) fn are_inside(folder: &Path) -> bool {
    let Ok(folder) = std::fs::canonicalize(folder) else { return true };
    std::fs::read("/proc/thread-self/mountinfo").map_or(true, |mounts| inside(&mounts, &folder))
}

/// The same of the lines that Linux has for each mount.
fn inside(mounts: &[u8], folder: &Path) -> bool {
    let places =
        mounts.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    let mut places = places.map(unescaped);
    places.any(|place| {
        let place = Path::new(OsStr::from_bytes(&place));
        place != folder && place.starts_with(folder)
    })
}

/// Spaces, tabs, newlines and backslashes are written by three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let number = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                plain.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(place: &str, expected: bool) {
        let line = format!("36 25 0:31 / {place} rw,relatime shared:1 - tmpfs tmpfs rw\n");
        let mounts =
            format!("22 1 254:0 / / rw - ext4 /dev/vda rw\n{line}23 1 0:5 / /proc rw - proc proc rw\n");
        assert_eq!(inside(mounts.as_bytes(), Path::new("/home/a project")), expected, "{place}");
    }

    #[test]
    fn what_is_mounted_below_a_folder_is_inside() {
        check("/home/a\\040project/data", true);
        check("/home/a\\040project/da\\134ta", true);
        check("/home/a\\040project", false);
        check("/home/a\\040projects/data", false);
        check("/home/a", false);
        assert!(!are_inside(tempfile::tempdir().unwrap().path()));
        assert!(are_inside(Path::new("/")));
        assert!(are_inside(Path::new("/missing/folder")));
    }
}
