//! The texts of the tree.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders that hold no source: build output, version control, generated inputs.
const SKIPPED_FOLDERS: [&str; 6] =
    ["target", ".git", "corpus", "artifacts", "runs", "node_modules"];
/// What is read; data files are not ours to format.
const EXTENSIONS: [&str; 6] = ["rs", "toml", "md", "sh", "yml", "yaml"];

/// One text file.
pub struct Text {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// All of it.
    pub text: String,
}

/// All text files below `root`, in order of their paths.
pub fn texts(root: &Path) -> Result<Vec<Text>> {
    let mut found = Vec::new();
    collect(root, root, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Text>) -> Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            let name = entry.file_name();
            if !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
                collect(root, &path, found)?;
            }
        } else if kind.is_file() && is_text(&path) {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let path = path.strip_prefix(root)?.to_path_buf();
            found.push(Text { path, text });
        }
    }
    Ok(())
}

fn is_text(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some(extension) => EXTENSIONS.contains(&extension),
        // Scripts of the continuous integration have none.
        None => path.parent().and_then(Path::file_name).is_some_and(|name| name == ".ci"),
    }
}
