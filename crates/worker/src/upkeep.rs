//! When what is done now and then was done last.

/// The state of a worker's upkeep.
#[derive(Default)]
pub(crate) struct Upkeep {
    pub sweep_ms: u64,
    /// When it last looked at clients that rest.
    pub rests_checked_ms: u64,
    /// Whether any client that rests wants to be ended soon.
    pub has_short_rests: bool,
    pub conns_swept_ms: u64,
    pub waiters_checked_ms: u64,
    /// What [`Shared::globals_set`](crate::Shared) said when connections were looked at last.
    pub globals_seen: u64,
    /// Since when it stops, ms.
    pub stopping: Option<u64>,
    pub is_stopped: bool,
}
