//! The one table of scalar settings, by sections. A setting exists by its row in a file of
//! `variables`: the field of [`Settings`], its default, the key of the file and the page of the
//! manual all come from it.

#[macro_use]
mod workers;
#[macro_use]
mod operators;
#[macro_use]
mod clients;
#[macro_use]
mod tls;
#[macro_use]
mod connections;
#[macro_use]
mod statements;
#[macro_use]
mod servers;
#[macro_use]
mod texts;
#[macro_use]
mod cache;
#[macro_use]
mod monitoring;
#[macro_use]
mod traces;
#[macro_use]
mod process;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use trunkline_sql::routine::Routines;
use trunkline_topology::{
    Concurrency, HeartbeatTable, LazyTransactions, Origins, Ratio, Secret, TenantScope,
    causal::{CausalFallback, CausalReads},
    outcome::CommitOutcomes,
};

use crate::{
    Collector, ListenAddress, ListenAllow, ListenTls, OperatorAccounts, RedisServer, WorkerCpus,
    Wrong,
    settings::{
        AdminTypes, Given, IoDriver, KeySource, LogFormat, LogLevel, Range, Reload, Setting,
        SettingValue, StateFile, TlsDefault, TlsVersionMin,
    },
};

macro_rules! settings {
    ([$( $(#[doc = $doc:literal])+
        $name:ident: $type:ty = $default:expr,
        $range:expr, $unit:literal, $reload:ident, $since:literal;
    )+]) => {
        /// Every scalar setting. The table that makes it is [`SETTINGS`], which also has units,
        /// ranges and whether a change needs a restart.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $( $(#[doc = $doc])+ pub $name: $type, )+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $( $name: $default, )+ }
            }
        }

        /// The rows of the table, in the order of the manual.
        pub const SETTINGS: &[Setting] = &[ $( Setting {
            name: stringify!($name),
            kind: <$type as SettingValue>::KIND,
            unit: $unit,
            range: $range,
            reload: Reload::$reload,
            since: $since,
            doc: concat!($($doc),+),
        }, )+ ];

        impl Settings {
            /// Sets the setting called `name`. `Ok(false)` when there is none of that name; the
            /// error says what the value must be, without the name.
            pub fn set(&mut self, name: &str, given: &Given) -> Result<bool, Wrong> {
                match name {
                    $( stringify!($name) => self.$name = SettingValue::read(given, $range)?, )+
                    _ => return Ok(false),
                }
                Ok(true)
            }

            /// The value of the setting called `name` as the file writes it, without quotes.
            pub fn show(&self, name: &str) -> Option<String> {
                match name {
                    $( stringify!($name) => Some(SettingValue::show(&self.$name)), )+
                    _ => None,
                }
            }

            /// Takes from `running` what only a restart may change.
            pub(crate) fn keep_running(&mut self, running: &Self) {
                $( if Reload::$reload == Reload::Restart {
                    self.$name.clone_from(&running.$name);
                } )+
            }
        }
    };
}

/// One day in milliseconds.
const DAY_MS: u64 = 86_400_000;

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

fn every_address(port: u16) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))
}

// Each section hands the rows so far, and its own, to the next; the last makes the table.
workers! {
    [] operators clients tls connections statements servers texts cache monitoring traces process
        settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_within_its_own_range() {
        let defaults = Settings::default();
        for row in SETTINGS {
            let shown = defaults.show(row.name).expect("a row has a field");
            let given = match (row.kind, row.name) {
                (_, "state_file" | "listen" | "listen_tls") => continue,
                ("integer", _) => Given::Integer(shown.parse().expect(row.name)),
                ("boolean", _) => Given::Boolean(shown == "true"),
                _ => Given::Text(shown.clone()),
            };
            let mut read = Settings::default();
            assert_eq!(read.set(row.name, &given), Ok(true), "{}", row.name);
            assert_eq!(read.show(row.name), Some(shown), "{}", row.name);
        }
    }

    #[test]
    fn every_row_is_documented_and_named_once() {
        for (at, row) in SETTINGS.iter().enumerate() {
            assert!(row.doc.trim().ends_with('.'), "{}", row.name);
            assert!(!row.since.is_empty(), "{}", row.name);
            assert!(SETTINGS[..at].iter().all(|other| other.name != row.name), "{}", row.name);
        }
    }

    #[test]
    fn an_unknown_name_is_not_set() {
        assert_eq!(Settings::default().set("nothing", &Given::Integer(1)), Ok(false));
        assert_eq!(Settings::default().show("nothing"), None);
    }

    #[test]
    fn only_what_needs_a_restart_is_kept() {
        let running = Settings { workers: 2, wait_timeout: 1, ..Settings::default() };
        let mut next = Settings { workers: 4, wait_timeout: 5, ..Settings::default() };
        next.keep_running(&running);
        assert_eq!((next.workers, next.wait_timeout), (2, 5));
    }
}
