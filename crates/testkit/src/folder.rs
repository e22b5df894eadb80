//! Temporary folders that go away with their owner.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

/// A folder under the system's temporary folder, readable by its owner only, removed on drop.
///
/// Its path is short, because a Unix socket's path must fit into 107 bytes. With the environment
/// variable `TRUNKLINE_KEEP` set to anything it stays, so that logs can be read after a failure.
#[derive(Debug)]
pub struct TempFolder {
    path: PathBuf,
}

impl TempFolder {
    /// Makes a new empty folder; `name` says in a listing what it is for.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(name: &str) -> Result<TempFolder> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // A number that another process with this id left behind is simply passed over.
        for _ in 0..10_000 {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let id = std::process::id();
            let path = std::env::temp_dir().join(format!("tkln-{name}-{id}-{number}"));
            match create_private(&path) {
                Ok(()) => return Ok(TempFolder { path }),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => {
                    return Err(e).with_context(|| format!("cannot make {}", path.display()));
                }
            }
        }
        anyhow::bail!("no free folder name for {name} in the temporary folder")
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether folders are kept for reading (`TRUNKLINE_KEEP`).
    pub(crate) fn kept() -> bool {
        std::env::var_os("TRUNKLINE_KEEP").is_some()
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        if TempFolder::kept() {
            return;
        }
        // A folder that can't be removed is only untidy; a panic here would hide the test's own.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_distinct_and_goes_away() {
        use std::os::unix::fs::PermissionsExt;
        let one = TempFolder::new("t").unwrap();
        let two = TempFolder::new("t").unwrap();
        assert_ne!(one.path(), two.path());
        let mode = std::fs::metadata(one.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::write(one.path().join("f"), "x").unwrap();
        let path = one.path().to_path_buf();
        drop(one);
        assert!(TempFolder::kept() || !path.exists());
    }
}
