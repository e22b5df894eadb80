//! MySQL and MariaDB wire protocol, both directions, zero-copy.
//!
//! Reading order: [`codec`] (integers and packet framing), [`capability`] (flags of the
//! handshake), [`packet`] (one file per packet), [`auth`] (one file per plug-in),
//! [`command`] (what a client asks), [`response`] (where an answer ends, and its translation
//! between two framings), [`error`] (what the proxy itself tells clients).
//!
//! Nothing here reads a socket, a clock or a random number: bytes, time and nonces come in as
//! arguments.
#![forbid(unsafe_code)]

pub mod auth;
pub mod capability;
pub mod codec;
pub mod collation;
pub mod command;
pub mod error;
pub mod packet;
pub mod proxy_header;
pub mod response;

pub use capability::Capabilities;
pub use codec::{Malformed, Reader};
