//! Backend connections by state, waiters, limits
#![forbid(unsafe_code)]
