//! `[[server]]` and `[[server_ssl_params]]`.

use std::{path::PathBuf, sync::Arc};

use trunkline_topology::{
    Address, HostgroupId, ServerCompression, ServerKey, ServerState, TlsMode, TlsParams,
};

use crate::{
    ServerEntry, ServerTlsEntry, ServerTlsWish, Wrong,
    error::ErrorKind,
    file::{
        check::{Entries, HOSTGROUP_MAX, Placed},
        row::Row,
        section::{
            Column, Draft, comment, harmless, instead_of, later, needed, number, text, value,
        },
    },
    settings::{Given, read_text, wrong_type},
};

/// The largest `max_replication_lag`, as in ProxySQL: four years, s.
const LAG_MAX_SEC: u32 = 126_144_000;
/// The default port of `hostname` without `port`.
const DEFAULT_PORT: u32 = 3_306;
const PORT_MAX: u32 = 65_535;
const RANK_MAX: u32 = 1_000;
/// The longest name of a zone, bytes.
const ZONE_LEN_MAX: usize = 255;

pub(super) struct ServerDraft {
    /// Nowhere until its address is read.
    entry: ServerEntry,
    at: AddressDraft,
}

impl Default for ServerDraft {
    fn default() -> Self {
        let address = Address::Unix(PathBuf::new());
        let entry = ServerEntry::new(ServerKey { hostgroup: HostgroupId(0), address });
        Self { entry, at: AddressDraft::default() }
    }
}

impl ServerDraft {
    fn read_zone(&mut self, given: &Given) -> Result<(), Wrong> {
        let zone = read_text(given)?;
        if zone.len() > ZONE_LEN_MAX {
            let len = zone.len();
            return Err(format!("may have up to {ZONE_LEN_MAX} bytes, not {len}").into());
        }
        self.entry.zone = zone.to_owned();
        Ok(())
    }
}

impl Draft for ServerDraft {
    const NAME: &'static str = "server";
    const TABLE: &'static str = "mysql_servers";
    const KEY: &'static str = "hostgroup_id {hostgroup_id}, {hostname}:{port}";
    const COLUMNS: &'static [Column<Self>] = &[
        number("hostgroup", 0, HOSTGROUP_MAX, |it, id| it.entry.key.hostgroup = HostgroupId(id)),
        instead_of(
            "hostgroup",
            number("hostgroup_id", 0, HOSTGROUP_MAX, |it, id| {
                it.entry.key.hostgroup = HostgroupId(id)
            }),
        ),
        needed(value("address", |it, given| it.at.read_address(given))),
        instead_of("address", text("hostname", |it, text| it.at.hostname = Some(text))),
        number("port", 0, PORT_MAX, |it, port| it.at.port = Some(port)),
        number("weight", 0, 10_000_000, |it, weight| it.entry.weight = weight),
        number("max_connections", 0, 1_000_000, |it, count| it.entry.max_connections = count),
        number("max_replication_lag", 0, LAG_MAX_SEC, |it, sec| it.entry.max_replication_lag = sec),
        number("rank", 0, RANK_MAX, |it, rank| it.entry.rank = rank),
        value("zone", |it, given| it.read_zone(given)),
        value("status", |it, given| read_status(given).map(|status| it.entry.status = status)),
        value("compression", |it, given| {
            read_compression(given).map(|is| it.entry.compression = is)
        }),
        value("tls", |it, given| read_tls(given).map(|wish| it.entry.tls = wish)),
        instead_of(
            "tls",
            value("use_ssl", |it, given| read_tls(given).map(|wish| it.entry.tls = wish)),
        ),
        text("comment", |it, text| it.entry.comment = text),
        harmless(later("gtid_port")),
        harmless(later("max_latency_ms")),
    ];

    fn finish(mut self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let address = self.at.finish(row);
        if row.is_refused("hostgroup") || row.is_refused("hostgroup_id") {
            entries.unsure = true;
            return;
        }
        entries.hostgroups.insert(self.entry.key.hostgroup);
        if let Some(address) = address {
            self.entry.key.address = address;
            entries.servers.push(Placed { value: self.entry, index: row.index });
        }
    }
}

/// What TLS to one server works with.
#[derive(Default)]
pub(super) struct SslParamsDraft {
    at: AddressDraft,
    username: String,
    params: TlsParams,
}

impl Draft for SslParamsDraft {
    const NAME: &'static str = "server_ssl_params";
    const TABLE: &'static str = "mysql_servers_ssl_params";
    const KEY: &'static str = "{hostname}:{port}, username {username}";
    const COLUMNS: &'static [Column<Self>] = &[
        needed(value("address", |it, given| it.at.read_address(given))),
        instead_of("address", text("hostname", |it, text| it.at.hostname = Some(text))),
        number("port", 0, PORT_MAX, |it, port| it.at.port = Some(port)),
        text("username", |it, text| it.username = text),
        text("ssl_ca", |it, text| it.params.ca = text),
        text("ssl_cert", |it, text| it.params.cert = text),
        text("ssl_key", |it, text| it.params.key = text),
        text("ssl_capath", |it, text| it.params.capath = text),
        text("ssl_crl", |it, text| it.params.crl = text),
        text("ssl_crlpath", |it, text| it.params.crlpath = text),
        text("ssl_cipher", |it, text| it.params.cipher = text),
        text("tls_version", |it, text| it.params.tls_version = text),
        comment(),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let Self { at, username, params } = self;
        let Some(address) = at.finish(row) else { return };
        let entry = ServerTlsEntry { address, username, params: Arc::new(params) };
        let is_same = |other: &ServerTlsEntry| {
            other.address == entry.address && other.username == entry.username
        };
        if entries.tls_params.iter().any(is_same) {
            let message = format!("[[server_ssl_params]] for {} is there twice", entry.address);
            return row.error(ErrorKind::Duplicate, "address", message);
        }
        entries.tls_params.push(entry);
    }
}

/// `address`, or `hostname` and `port` as ProxySQL has them.
#[derive(Default)]
struct AddressDraft {
    address: Option<Address>,
    hostname: Option<String>,
    port: Option<u32>,
}

impl AddressDraft {
    fn read_address(&mut self, given: &Given) -> Result<(), Wrong> {
        let address = read_text(given)?.parse().map_err(|error| format!("is wrong: {error}"))?;
        self.address = Some(address);
        Ok(())
    }

    /// The address; `None` when it is wrong, and reported.
    fn finish(self, row: &mut Row<'_, '_>) -> Option<Address> {
        if row.has("address") {
            if row.has("port") && !row.has("hostname") {
                let message =
                    format!("`port` goes with `hostname`; `address`{} holds its own", row.within());
                row.error(ErrorKind::Conflict, "port", message);
            }
            return self.address.filter(|_| !row.has("port") && !row.has("hostname"));
        }
        let port = if row.has("port") { self.port? } else { DEFAULT_PORT };
        let joined = join(&self.hostname?, port);
        joined.map_err(|reason| row.refuse("hostname", reason.into())).ok()
    }
}

/// The address of ProxySQL's two columns; port 0 or a leading `/` makes it a Unix socket.
fn join(hostname: &str, port: u32) -> Result<Address, String> {
    if hostname.starts_with('/') {
        return Ok(Address::Unix(PathBuf::from(hostname)));
    }
    if port == 0 {
        return Err(format!(
            "must be the path of a Unix socket where `port` is 0, not `{hostname}`"
        ));
    }
    let is_ip = hostname.parse::<std::net::IpAddr>().is_ok();
    let joined = match is_ip && hostname.contains(':') {
        true => format!("[{hostname}]:{port}"),
        false if hostname.contains([':', '[', ']']) => {
            return Err(format!("must be a host without a port, not `{hostname}`"));
        }
        false => format!("{hostname}:{port}"),
    };
    joined.parse().map_err(|error| format!("is wrong: {error}"))
}

/// ProxySQL's 0 and 1, or a word.
fn read_compression(given: &Given) -> Result<ServerCompression, Wrong> {
    const WORDS: &str = "0, 1, zlib or zstd";
    Ok(match given {
        Given::Integer(0) | Given::Boolean(false) => ServerCompression::Off,
        Given::Integer(1) | Given::Boolean(true) => ServerCompression::Zlib,
        Given::Text(word) if word == "off" => ServerCompression::Off,
        Given::Text(word) if word == "zlib" => ServerCompression::Zlib,
        Given::Text(word) if word == "zstd" => ServerCompression::Zstd,
        other => return Err(none_of(WORDS, other)),
    })
}

/// The words of `tls`, or ProxySQL's 0 and 1.
fn read_tls(given: &Given) -> Result<ServerTlsWish, Wrong> {
    let words = || format!("{}, 0 or 1", TlsMode::WORDS.map(|(word, _)| word).join(", "));
    match given {
        Given::Integer(0) | Given::Boolean(false) => Ok(ServerTlsWish::Mode(TlsMode::Disabled)),
        Given::Integer(1) | Given::Boolean(true) => Ok(ServerTlsWish::Default),
        Given::Text(text) => match TlsMode::WORDS.into_iter().find(|(word, _)| word == text) {
            Some((_, mode)) => Ok(ServerTlsWish::Mode(mode)),
            None => Err(none_of(&words(), given)),
        },
        other => Err(none_of(&words(), other)),
    }
}

/// `must be 0 or 1, not …`, with the value where it is one.
fn none_of(expected: &str, given: &Given) -> Wrong {
    let shown = match given {
        Given::Integer(number) => number.to_string(),
        Given::Text(text) => format!("`{text}`"),
        other => return wrong_type(expected, other),
    };
    format!("must be {expected}, not {shown}").into()
}

fn read_status(given: &Given) -> Result<ServerState, Wrong> {
    let word = read_text(given)?;
    match word.to_ascii_uppercase().as_str() {
        "ONLINE" => Ok(ServerState::Online),
        "OFFLINE_SOFT" => Ok(ServerState::OfflineSoft),
        "OFFLINE_HARD" => Ok(ServerState::OfflineHard),
        _ => Err(format!("must be ONLINE, OFFLINE_SOFT or OFFLINE_HARD, not `{word}`").into()),
    }
}
