//! Tokenizer, digest, classification, SET parsing
#![forbid(unsafe_code)]

pub mod analysis;
pub mod diagnostics;
pub mod digest;
pub mod hint;
pub mod recall;
pub mod routine;
pub mod set;
pub mod spooky;
pub mod token;
pub mod traceparent;
pub mod version;
