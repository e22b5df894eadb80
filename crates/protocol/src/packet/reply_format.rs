//! What two ends agreed on about the form of replies.

use crate::capability::Capabilities;

/// How one side of the proxy frames its replies: the outcome of its capability negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplyFormat {
    /// `CLIENT_DEPRECATE_EOF`: no EOF after column definitions, OK (0xFE) after rows.
    pub deprecate_eof: bool,
    /// `CLIENT_SESSION_TRACK`: OK packets may carry session state changes.
    pub session_track: bool,
    /// MySQL's `CLIENT_OPTIONAL_RESULTSET_METADATA`: a column count and `PREPARE_OK` are followed
    /// by a flag that says whether definitions come.
    pub optional_metadata: bool,
    /// `MARIADB_CLIENT_CACHE_METADATA`: a column count is followed by that flag.
    pub cached_metadata: bool,
    /// `MARIADB_CLIENT_EXTENDED_METADATA`: column definitions have one more string.
    pub extended_metadata: bool,
    /// `MARIADB_CLIENT_PROGRESS`: reports of progress may precede an answer.
    pub progress: bool,
}

impl ReplyFormat {
    /// None of it.
    pub const PLAIN: Self = Self::of(Capabilities::EMPTY);

    /// What these capabilities make of replies.
    pub const fn of(capabilities: Capabilities) -> Self {
        Self {
            deprecate_eof: capabilities.contains(Capabilities::DEPRECATE_EOF),
            session_track: capabilities.contains(Capabilities::SESSION_TRACK),
            optional_metadata: capabilities.contains(Capabilities::OPTIONAL_RESULTSET_METADATA),
            cached_metadata: capabilities.contains(Capabilities::CACHE_METADATA),
            extended_metadata: capabilities.contains(Capabilities::EXTENDED_METADATA),
            progress: capabilities.contains(Capabilities::PROGRESS),
        }
    }

    /// Whether a column count says if definitions follow it.
    pub const fn has_metadata_flag(self) -> bool {
        self.optional_metadata || self.cached_metadata
    }
}
