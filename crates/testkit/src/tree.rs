//! Servers from trees of their own beside the distribution's packages.
//!
//! A tree is a minimal Debian system that holds the server with its own C library; its programs run
//! through its own loader, without chroot. `cargo xtask servers` makes them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::servers_dir::servers_dir;

/// The folder that a server's programs are run from.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    loader: PathBuf,
    libraries: PathBuf,
}

impl Tree {
    /// Looks for a tree in the servers folder that has this program. The error says where it was
    /// looked for and what makes it.
    pub(crate) fn find(name: &str, program: &str) -> Result<Tree, String> {
        let root = servers_dir().join(name);
        let (loader, triplet) = match std::env::consts::ARCH {
            "x86_64" => ("lib64/ld-linux-x86-64.so.2", "x86_64-linux-gnu"),
            "aarch64" => ("lib/ld-linux-aarch64.so.1", "aarch64-linux-gnu"),
            other => return Err(format!("no tree of servers is known for architecture {other}")),
        };
        let loader = root.join(loader);
        let libraries = root.join("usr/lib").join(triplet);
        if loader.exists() && root.join(program).exists() {
            return Ok(Tree { root, loader, libraries });
        }
        let place = root.display();
        Err(format!("no {program} in {place} (cargo xtask servers makes it when run as root)"))
    }

    /// Where its libraries are.
    pub(crate) fn libraries(&self) -> &Path {
        &self.libraries
    }

    /// A command that runs a program of the tree, given by its path inside it.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(&self.loader);
        command.arg("--library-path").arg(&self.libraries).arg(self.root.join(program));
        command
    }
}
