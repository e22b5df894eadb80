//! One worker of the data plane as a pure machine: events in, actions out
#![forbid(unsafe_code)]
