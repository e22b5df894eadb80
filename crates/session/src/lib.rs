//! The state machines of one client and one server connection
#![forbid(unsafe_code)]
