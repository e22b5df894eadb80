//! When what is done now and then was done last.

pub(crate) mod inventory;
/// The state of a worker's upkeep.
pub(crate) mod moving;
pub(crate) mod reload;
pub(crate) mod report;
pub(crate) mod stop;
pub(crate) mod timer;

#[derive(Default)]
pub(crate) struct Upkeep {
    pub sweep_ms: u64,
    /// When it last looked at clients that rest.
    pub rests_checked_ms: u64,
    /// Whether any client that rests wants to be ended soon.
    pub has_short_rests: bool,
    pub conns_swept_ms: u64,
    pub waiters_checked_ms: u64,
}
