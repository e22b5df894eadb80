//! What operators look at: metrics, health and status over HTTP, and the text of
//! `trunkline status`.
//!
//! Reading order: [`source`] (what the binary provides), [`http`] (the server and its routes),
//! [`exposition`] (Prometheus's text format), [`status`] (tables for a terminal).

pub mod exposition;
pub mod http;
pub mod source;
pub mod status;

pub use http::serve;
pub use source::{Health, ReportFuture, SessionsFuture, StatusSource};
pub use status::{sessions::sessions_text, status_text};

#[cfg(test)]
mod sample;
