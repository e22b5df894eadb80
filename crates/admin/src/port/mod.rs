//! The admin port: MySQL's protocol for administrators, on the control plane.
//!
//! Reading order: [`accounts`] (who may come in), [`door`] (places, failed logins), [`listener`]
//! (where), [`login`], [`connection`] (one client), [`wire`] (packets over a stream, encrypted or
//! not), [`packet`] (results as bytes), [`parameter`] (values of prepared statements).

mod accounts;
mod connection;
mod door;
mod half_open;
mod handshakes;
mod listener;
mod login;
mod packet;
mod parameter;
mod wire;

pub use accounts::Accounts;
pub(crate) use door::Door;
pub use listener::{AdminListener, serve};
