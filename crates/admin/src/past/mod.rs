//! What is shown of the history: ProxySQL's tables of `stats_history`, and lines for charts.
//!
//! Reading order: [`recorded_figures`] (what a frame has of the process), [`tables`] (frames to
//! rows), [`lines`] (periods to JSON).

pub(crate) mod lines;
pub(crate) mod tables;

use trunkline_stats::Report;

use crate::{kernel, proxysql};

/// Numbers of the process in a frame that are not in `stats_mysql_global`.
pub(crate) const USER_TICKS: &str = "process_user_ticks";
/// CPU time in the kernel.
pub(crate) const SYSTEM_TICKS: &str = "process_system_ticks";
/// Memory in RAM.
pub(crate) const RESIDENT: &str = "process_resident_bytes";
/// Memory of its own in RAM.
pub(crate) const ANONYMOUS: &str = "process_anonymous_bytes";
/// Address space.
pub(crate) const MAPPED: &str = "process_mapped_bytes";

/// What a frame of the history has of the process: ProxySQL's numbers, and what the kernel says.
pub fn recorded_figures(report: &Report) -> Vec<(String, u64)> {
    let kernel = kernel::figures();
    let own = [
        (USER_TICKS, kernel.user_ticks),
        (SYSTEM_TICKS, kernel.system_ticks),
        (RESIDENT, kernel.resident),
        (ANONYMOUS, kernel.anonymous),
        (MAPPED, kernel.mapped),
    ];
    let own = own.into_iter().map(|(name, number)| (name.to_owned(), number));
    proxysql::figures_of(report).into_iter().chain(own).collect()
}
