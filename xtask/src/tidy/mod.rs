//! `cargo xtask tidy`: what the compiler can't check of the design and the house style.

mod layers;
mod lexer;
mod lifecycle;
mod rooms;
mod source;
mod tree;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// Whether a finding fails the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Fails.
    Error,
    /// Is only said.
    Warning,
}

/// One thing that isn't as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    severity: Severity,
    /// Relative to the workspace.
    path: PathBuf,
    /// From 1; 0 means the whole file.
    line: usize,
    message: String,
}

impl Finding {
    fn error(path: &Path, line: usize, message: impl Into<String>) -> Finding {
        let (severity, path) = (Severity::Error, path.to_path_buf());
        Finding { severity, path, line, message: message.into() }
    }

    fn warning(path: &Path, line: usize, message: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, ..Finding::error(path, line, message) }
    }
}

/// All findings of a tree; shown warnings first, so that errors stand at the end.
#[derive(Debug)]
pub struct Report {
    files: usize,
    findings: Vec<Finding>,
}

impl Report {
    /// How many findings fail the check.
    pub fn errors(&self) -> usize {
        self.of(Severity::Error).count()
    }

    fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.severity == severity)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (severity, word) in [(Severity::Warning, "warning"), (Severity::Error, "error")] {
            for Finding { path, line, message, .. } in self.of(severity) {
                writeln!(f, "{word}: {}:{line}: {message}", path.display())?;
            }
        }
        let (errors, warnings) = (self.errors(), self.of(Severity::Warning).count());
        writeln!(f, "tidy: {} files, {errors} errors, {warnings} warnings", self.files)
    }
}

/// Checks the workspace in `root`.
///
/// # Errors
/// When the tree can't be read or cargo can't describe it; findings are in the report.
pub fn check(root: &Path) -> Result<Report> {
    let packages = layers::packages(root)?;
    let mut findings = layers::check(&packages);
    let files = tree::texts(root)?;
    let private = source::private_paths(root);
    for file in &files {
        let layer = layers::layer_of(&packages, &file.path);
        findings.extend(source::check(file, layer, &private));
    }
    findings.extend(rooms::check(&files));
    findings.extend(lifecycle::check(&files));
    Ok(Report { files: files.len(), findings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_tree_is_tidy() {
        let report = check(&crate::workspace_root()).unwrap();
        assert_eq!(report.errors(), 0, "\n{report}");
    }
}
