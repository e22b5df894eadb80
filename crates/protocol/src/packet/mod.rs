//! One file per packet: what it says, how it is read, how it is written.

pub mod attributes;
pub mod auth_switch;
pub mod change_user;
pub mod eof;
pub mod err;
pub mod greeting;
pub mod handshake_response;
pub mod ok;
pub mod reply_format;
pub mod status;
pub mod track;
pub mod tracker_filter;

#[cfg(test)]
mod handshake_tests;
