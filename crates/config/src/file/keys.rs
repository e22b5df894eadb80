//! `server_public_key`, of the settings and of `[[hostgroup]]`: public keys of servers, or the path
//! of a file with them.

use std::sync::Arc;

use trunkline_topology::PinnedKeys;

use crate::{
    Settings, Subject,
    error::ErrorKind,
    file::{FileSource, report::Report},
};

/// The name of the setting and of the column.
pub(super) const NAME: &str = "server_public_key";

/// Reads keys, or the file that `text` names; nothing where it is empty. The error says what is
/// wrong, without the name.
pub(super) fn read(text: &str, files: &dyn FileSource) -> Result<Arc<PinnedKeys>, String> {
    if text.is_empty() {
        return Ok(Arc::default());
    }
    if PinnedKeys::is_inline(text) {
        return PinnedKeys::parse(text).map(Arc::new);
    }
    let read = files.read_keys(text).map_err(|why| format!("`{text}` cannot be read: {why}"))?;
    PinnedKeys::parse(&read).map(Arc::new).map_err(|why| format!("`{text}` {why}"))
}

/// The keys of the settings.
pub(super) fn of_settings(
    settings: &Settings,
    files: &dyn FileSource,
    report: &mut Report<'_>,
) -> Arc<PinnedKeys> {
    read(&settings.server_public_key.0, files).unwrap_or_else(|why| {
        let message = format!("`{NAME}` is wrong: {why}");
        report.add(ErrorKind::Unreadable, Subject::setting(NAME), message);
        Arc::default()
    })
}
