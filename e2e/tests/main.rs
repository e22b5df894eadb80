//! One binary for all end-to-end tests.

mod backends;
mod charset_sweep;
mod charsets;
mod wire;

mod access;
mod admin;
mod adversary;
mod auth;
mod bad_input;
mod binlog;
mod cache;
mod commands;
mod compression;
mod config;
mod differential;
mod extensions;
mod manual;
mod memory;
mod mirror;
mod operate;
mod protocol;

mod stage;

mod balance;
mod concurrency;
mod exchanged;
mod failover;
mod guards;
mod hidden;
mod huge;
mod infile;
mod kill;
mod lag;
mod pinning;
mod prepared;
mod promises;
mod proven;
mod references;
mod remembered;
mod routing;
mod rules;
mod sessions;
mod set_property;
mod shared_cache;
mod sharing;
mod state;
mod sysbench;
mod tcp;
mod ties;
mod tls;
mod tokens;
mod traces;
mod unreached;
mod varieties;
