//! The admin port: MySQL's protocol for administrators, on the control plane.
//!
//! Reading order: [`accounts`] (who may come in), [`listener`] (where), [`connection`] (one
//! client), [`wire`] (packets over a stream, encrypted or not), [`packet`] (results as bytes),
//! [`parameter`] (values of prepared statements).

mod accounts;
mod connection;
mod listener;
mod packet;
mod parameter;
mod wire;

pub use accounts::Accounts;
pub use listener::{AdminListener, serve};
