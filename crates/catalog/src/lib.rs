//! What names mean on the servers, and what is therefore proven of a statement.
//!
//! A text alone does not say what it does: `SELECT * FROM t` reads if `t` is a base table, and may
//! do anything if it is a view over a stored function. The servers' dictionaries say what `t` is.
//! The control plane asks them, all workers read what came of it, and whatever is not known is
//! taken for the worst ([`Hidden::UNKNOWN`]).
#![forbid(unsafe_code)]

mod catalog;
mod grants;
mod inquiry;
mod judge;
mod object;
mod proof;

pub use catalog::{
    ASK_TIME_MAX_MS, ASKS_MAX, Begun, Catalog, CopyTicket, DefinitionTicket, Figures, Found,
    Moment, Place, Told, UNTOLD_MS, Version, WAITERS_MAX, Waiter,
};
pub use inquiry::{Inquiry, Query, Row, SESSION};
pub use object::{Hidden, Kind, Name, Object};
pub use proof::{Judgement, Proof, Untracked, bases_of, prove, prove_nameless};
