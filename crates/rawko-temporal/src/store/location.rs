//! The kinds of store.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;

use super::error::StoreError;

/// The store, and the folder that it is in.
pub(super) type OpenedStore = (Arc<dyn ObjectStore>, Option<PathBuf>);

pub(super) fn open(location: &str, secrets: &[(String, String)]) -> Result<OpenedStore, StoreError> {
    if let Some(rest) = location.strip_prefix("s3://") {
        return Ok((bucket(location, rest, secrets)?, None));
    }
    let path = match location.split_once("://") {
        None => location,
        Some(("file", path)) if path.starts_with('/') && !path.contains('%') => path,
        Some(("file", _)) => {
            return Err(cannot(location, "write file:/// and a path without `%`, or the path alone"));
        }
        Some(_) => return Err(cannot(location, "use a path, file:///… or s3://bucket/prefix")),
    };
    let path = PathBuf::from(path);
    Ok((folder(location, &path)?, Some(path)))
}

fn folder(location: &str, path: &std::path::Path) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let not = |error: std::io::Error| cannot(location, &error.to_string());
    if !path.is_absolute() {
        return Err(cannot(
            location,
            "the path must be absolute: workers do not share a folder to start from",
        ));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(not)?;
    let found = path.metadata().map_err(not)?;
    // Its contents are made with the usual rights: others are kept out at the door.
    if found.mode() & 0o077 != 0 {
        let is_empty = std::fs::read_dir(path).map_err(not)?.next().is_none();
        if !is_empty || std::fs::set_permissions(path, Permissions::from_mode(0o700)).is_err() {
            let why = format!(
                "others may read it, and it holds what agents saw; run: chmod 700 {}",
                path.display()
            );
            return Err(cannot(location, &why));
        }
    }
    // Written to disk before it is said to be: the engine's history only says where it is.
    let folder =
        LocalFileSystem::new_with_prefix(path).map_err(|error| cannot(location, &error.to_string()))?;
    Ok(Arc::new(folder.with_fsync(true)))
}

#[cfg(feature = "s3")]
fn bucket(
    location: &str,
    rest: &str,
    secrets: &[(String, String)],
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    use object_store::aws::AmazonS3Builder;
    use object_store::prefix::PrefixStore;

    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.trim_end_matches('/');
    let prefix = match prefix {
        "" => None,
        prefix => Some(super::keys::checked_key(prefix)?),
    };
    // The same TLS as the rest of rawko. If the process has chosen one before, that is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    for (name, value) in secrets.iter().filter(|(name, _)| name.starts_with("AWS_")) {
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    let bucket = builder.build().map_err(|error| {
        let hint = "it needs AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, and AWS_ENDPOINT if it is not Amazon's";
        cannot(location, &format!("{error}; {hint}"))
    })?;
    Ok(match prefix {
        None => Arc::new(bucket),
        Some(prefix) => Arc::new(PrefixStore::new(bucket, prefix)),
    })
}

#[cfg(not(feature = "s3"))]
fn bucket(location: &str, _: &str, _: &[(String, String)]) -> Result<Arc<dyn ObjectStore>, StoreError> {
    Err(cannot(
        location,
        "this rawko was built without the feature `s3`: use a folder, or build it with the feature",
    ))
}

fn cannot(location: &str, why: &str) -> StoreError {
    StoreError::Location { location: location.escape_debug().to_string(), why: why.to_owned() }
}
