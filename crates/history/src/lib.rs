//! Numbers of the past, kept in files of bounded size.
//!
//! Reading order: [`Frame`] (what happened in some seconds), [`Observer`] (makes frames of
//! reports), [`History`] (keeps them, by resolution), [`visit`] (reads them), [`Period`] (sums and
//! lines of a time).
//!
//! - **Invariant:** the files never take more than they may
//!   (`the_oldest_leave_when_there_is_no_room`).
//! - **Invariant:** a record is read as it was written or not at all
//!   (`what_is_damaged_ends_its_file_and_nothing_else`).
#![forbid(unsafe_code)]

mod codec;
mod files;
mod frame;
mod observer;
mod period;
mod sketch;

pub use files::{History, Resolution, bytes_of, visit, visit_while};
pub use frame::{DIGESTS_MAX, DigestLine, Frame, Mark, SERVERS_MAX, ServerLine, Sums};
pub use observer::Observer;
pub use period::{POINTS_MAX, Period, Point};
pub use sketch::Sketch;
