//! When what is done now and then was done last.

mod inventory;
/// The state of a worker's upkeep.
pub(crate) mod moving;
pub(crate) mod outliers;
mod pauses;
mod reload;
pub(crate) mod report;
mod severed;
pub(crate) mod share;
mod silence;
mod stop;
pub(crate) mod timer;

#[derive(Default)]
pub(crate) struct Upkeep {
    pub(crate) sweep_ms: u64,
    /// When it last looked at clients that rest.
    pub(crate) rests_checked_ms: u64,
    /// Whether any client that rests wants to be ended soon.
    pub(crate) has_short_rests: bool,
    pub(crate) conns_swept_ms: u64,
    /// When it last looked at what waits for a time.
    pub(crate) ticked_ms: u64,
    /// When it last looked for servers that have gone silent.
    pub(crate) silence_checked_ms: u64,
    /// What it knows of connections that others hold and its statements wait for.
    pub(crate) shares: share::Shares,
}

#[cfg(test)]
mod tests;
