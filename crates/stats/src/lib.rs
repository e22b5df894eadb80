//! Counters, histograms and the digest table; merged on demand
#![forbid(unsafe_code)]
