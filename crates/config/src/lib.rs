//! The one table of settings; the file; snapshot, validation and difference
#![forbid(unsafe_code)]
