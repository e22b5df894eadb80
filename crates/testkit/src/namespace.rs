//! Programs that see files of a test's in place of the system's.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// A file or folder, and what it lies over.
pub type Overlay = (PathBuf, PathBuf);

/// Lays `$1` over `$2`, as many pairs as there are before `--`, and becomes the program behind.
const SCRIPT: &str = r#"
while [ "$1" != "--" ]; do
    mount --bind "$1" "$2" || exit 1
    shift 2
done
shift
exec "$@"
"#;

/// Whether [`overlaid`] works here: it takes root, or a system that lets others make namespaces.
#[must_use]
pub fn can_overlay() -> bool {
    let tried = Command::new("unshare").args(["--mount", "true"]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// A command in a mount namespace of its own where these lie over the system's files. It is one
/// process, so signals reach the program.
#[must_use]
pub fn overlaid(command: &Command, overlays: &[Overlay]) -> Command {
    let mut outer = Command::new("unshare");
    outer.args(["--mount", "sh", "-c", SCRIPT, "sh"]);
    outer.args(overlays.iter().flat_map(|(file, over)| [file, over]));
    outer.arg("--").arg(command.get_program()).args(command.get_args());
    let given =
        |(name, value): (&OsStr, Option<&OsStr>)| Some((name.to_owned(), value?.to_owned()));
    outer.envs(command.get_envs().filter_map(given));
    if let Some(folder) = command.get_current_dir() {
        outer.current_dir(folder);
    }
    outer
}
