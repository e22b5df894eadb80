//! What a session has set on its server connection, as a typed record that can be moved to
//! another connection.
//!
//! A client's session and each server connection hold one [`SessionState`]. Equal states are one
//! allocation ([`StateTable`]), so that "nothing differs" is a pointer comparison. Where they
//! differ, [`difference`] says what to send so that they agree.

mod apply;
mod pins;
mod state;
mod sync;

pub use apply::{
    Applied, Trust, apply_outcome, apply_report, ran_before_error, reported_schema, reports_change,
    reports_lasting, runs_unseen_code, sets_trackers,
};
pub use pins::{PinReason, Pins};
pub use state::{
    Charset, Schema, SessionState, StateTable, UserVariable, is_plain_name, is_word_or,
};
pub use sync::{Difference, Sync, difference, has_others_names, report_text};
