//! Data directories are made once and copied, because making one takes seconds.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::servers_dir::servers_dir;

/// Counted up when what a template holds changes otherwise than by its commands.
const SHAPE: u32 = 1;

/// The template `name` of the server program `program`, made by `build` in an empty folder if
/// there is none yet.
///
/// It lasts across test runs, in the servers folder, and is made anew when the program or `args`
/// change. Processes that want it at once wait for the one that makes it.
pub(crate) fn template(
    name: &str,
    program: &Path,
    args: &[String],
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let folder = servers_dir().join("templates");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let lock = File::create(folder.join(format!("{name}.lock")))?;
    lock.lock()?;
    let finished = folder.join(format!("{name}-{:016x}", fingerprint(program, args)?));
    if finished.is_dir() {
        return Ok(finished);
    }
    // Under another name until it is whole: a maker that is killed leaves nothing half made.
    let partial = folder.join(format!("{name}.partial"));
    let _ = std::fs::remove_dir_all(&partial);
    std::fs::create_dir(&partial)?;
    build(&partial).with_context(|| format!("cannot make a data directory for {name}"))?;
    std::fs::rename(&partial, &finished)?;
    Ok(finished)
}

/// Copies a folder with all it holds. Files of the same file system may share their blocks.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            copy_file(&entry.path(), &target)
                .with_context(|| format!("cannot copy {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// The unit of a hole in a file.
const PAGE: usize = 16_384;
static HOLE: [u8; PAGE] = [0; PAGE];

/// Copies a file with its permissions, and leaves holes where it has zeros: two thirds of a new
/// data directory are.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let mut source = File::open(from)?;
    let mut target = File::create(to)?;
    let mut buf = vec![0; 16 * PAGE];
    let mut len = 0;
    loop {
        let read = source.read(&mut buf)?;
        if read == 0 {
            break;
        }
        for page in buf.get(..read).unwrap_or_default().chunks(PAGE) {
            match HOLE.starts_with(page) {
                true => target.seek_relative(i64::try_from(page.len())?)?,
                false => target.write_all(page)?,
            }
        }
        len += u64::try_from(read)?;
    }
    target.set_len(len)?;
    target.set_permissions(source.metadata()?.permissions())?;
    Ok(())
}

/// Runs a command to its end; its output is shown only when it fails.
pub(crate) fn run_quietly(what: &str, command: &mut Command) -> Result<()> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {what}"))?;
    if !output.status.success() {
        let (out, err) = (output.stdout, output.stderr);
        let text = String::from_utf8_lossy(&out) + String::from_utf8_lossy(&err);
        bail!("{what} failed ({}):\n{text}", output.status);
    }
    Ok(())
}

fn fingerprint(program: &Path, args: &[String]) -> Result<u64> {
    let meta = std::fs::metadata(program)
        .with_context(|| format!("cannot look at {}", program.display()))?;
    let mut hasher = DefaultHasher::new();
    (SHAPE, program, meta.len(), meta.modified()?, args).hash(&mut hasher);
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::TempFolder;

    #[test]
    fn a_copy_is_the_same_and_has_holes() {
        use std::os::unix::fs::MetadataExt;
        let folder = TempFolder::new("copy").unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let mut bytes = vec![0; 300 * PAGE + 17];
        bytes[5 * PAGE] = 1;
        bytes[299 * PAGE + 1] = 2;
        std::fs::write(&from, &bytes).unwrap();
        copy_file(&from, &to).unwrap();
        assert!(std::fs::read(&to).unwrap() == bytes);
        let blocks = std::fs::metadata(&to).unwrap().blocks();
        assert!(blocks * 512 <= 4 * u64::try_from(PAGE).unwrap(), "{blocks} blocks");
    }
}
