//! What is wrong with a configuration, and where.

/// One error of a configuration file; it reads `trunkline.toml:12:1: unknown key …`.
///
/// A message never holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct ConfigError {
    /// The file's name as the caller gave it.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The path of the key, such as `server[2].weight` (lists count from 0); empty where the
    /// error belongs to no key.
    pub key: String,
    /// What is wrong, in lower case and without a full stop.
    pub message: String,
}
