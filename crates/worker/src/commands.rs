//! Step 3: clients' commands. Each begins its way here.

mod anew;
mod binlog;
pub(crate) mod causal_token;
pub(crate) mod command;
mod internal_session;
mod names;
pub(crate) mod prepared;
mod stmts;
mod studying;
mod submit;

#[cfg(test)]
mod tests;
