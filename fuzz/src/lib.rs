//! Bytes from strangers against everything that reads them: one function per target, each of
//! which takes any bytes, panics when something is wrong and returns otherwise.
//!
//! `tests/replay.rs` runs them on stable from the seeds in `corpus/`; `cargo-fuzz/` runs them by
//! hand under libFuzzer. See `README.md`.
#![forbid(unsafe_code)]

mod binlog;
mod compressed;
mod control;
mod file;
mod gtids;
mod login;
pub mod mutate;
mod proxy_header;
mod server_login;
mod still;
mod text;
mod wire;
mod worker;

pub use binlog::binlog;
pub use compressed::compressed;
pub use control::{admin_port, http_requests};
pub use file::{config_file, rule_patterns};
pub use gtids::gtids;
pub use login::{client_handshake, server_handshake};
pub use proxy_header::proxy_header;
pub use server_login::server_login;
pub use text::{digest, set_statement, tokens};
pub use wire::{commands, framing, packets, response_relay};
pub use worker::worker;

/// A target: its name, which is that of its folder of seeds, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 19] = [
    ("framing", framing),
    ("compressed", compressed),
    ("packets", packets),
    ("commands", commands),
    ("response_relay", response_relay),
    ("client_handshake", client_handshake),
    ("server_handshake", server_handshake),
    ("server_login", server_login),
    ("proxy_header", proxy_header),
    ("admin_port", admin_port),
    ("http_requests", http_requests),
    ("tokens", tokens),
    ("digest", digest),
    ("set_statement", set_statement),
    ("config_file", config_file),
    ("rule_patterns", rule_patterns),
    ("gtids", gtids),
    ("binlog", binlog),
    ("worker", worker),
];

/// The first byte, which says how to read the others, and the others.
fn choice(data: &[u8]) -> (u8, &[u8]) {
    data.split_first().map_or((0, data), |(first, rest)| (*first, rest))
}
