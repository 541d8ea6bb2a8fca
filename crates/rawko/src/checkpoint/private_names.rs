//! Files that are not kept because of their names: what people put secrets into.
//!
//! A kept tree is among the repository's objects, from where it may be copied, pushed and read by commands. What git
//! tracks is there already and is kept.

/// Whole names.
const NAMES: [&str; 15] = [
    ".env",
    ".git-credentials",
    ".htpasswd",
    ".netrc",
    ".pgpass",
    ".pypirc",
    "_netrc",
    "credentials.json",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "secrets.json",
    "secrets.yaml",
    "secrets.yml",
];
/// Endings of names.
const ENDINGS: [&str; 7] = [".jks", ".kdbx", ".key", ".keystore", ".p12", ".pem", ".pfx"];
/// Endings of files that show what is to be filled in: `.env.example`.
const EXAMPLES: [&str; 5] = [".dist", ".example", ".sample", ".template", ".tmpl"];

/// Why a file of this name is not kept.
pub(super) const WHY: &str = "its name says that it holds secrets";

/// Whether the name of the file at `path` says that it holds secrets.
pub(super) fn is_private(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let is_settings = name.starts_with(".env.") && !ends(&EXAMPLES);
    NAMES.contains(&name.as_str()) || is_settings || ends(&ENDINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_it() {
        for private in
            [".env", "a/.env.local", "keys/ID_RSA", "tls/server.pem", "x.p12", "config/secrets.yml"]
        {
            assert!(is_private(private.as_bytes()), "{private}");
        }
        for plain in
            [".env.example", "env", ".envrc", "src/key.rs", "keyboard", "id_rsa.pub", "pem", "secrets.rs"]
        {
            assert!(!is_private(plain.as_bytes()), "{plain}");
        }
    }
}
