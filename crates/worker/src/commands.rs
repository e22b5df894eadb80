//! Step 3: clients' commands. Each begins its way here.

pub(crate) mod binlog;
pub(crate) mod command;
pub(crate) mod internal_session;
pub(crate) mod names;
pub(crate) mod prepared;
pub(crate) mod submit;
