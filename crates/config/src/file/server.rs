//! `[[server]]`.

use std::{path::PathBuf, sync::Arc};

use trunkline_topology::{
    Address, HostgroupId, ServerCompression, ServerKey, ServerState, TlsMode, TlsParams,
};

use crate::{
    ServerEntry, ServerTlsEntry, ServerTlsWish,
    file::{
        check::{Entries, HOSTGROUPS, Placed},
        report::Report,
        table::Table,
    },
    settings::{Given, read_text},
};

/// Columns of ProxySQL's `mysql_servers` that come with later features.
const LATER: [&str; 2] = ["gtid_port", "max_latency_ms"];

/// The largest `max_replication_lag`, as in ProxySQL: four years, s.
const LAG_MAX_SEC: u32 = 126_144_000;

/// The default port of `hostname` without `port`.
const DEFAULT_PORT: u32 = 3_306;

pub(super) fn read(table: &mut Table<'_>, report: &mut Report<'_>, entries: &mut Entries) {
    let hostgroup_key = table.either(report, "hostgroup", "hostgroup_id");
    let hostgroup = match table.has(hostgroup_key) {
        true => table.number(report, hostgroup_key, HOSTGROUPS),
        false => Some(0),
    };
    let address = read_address(table, report);
    let weight = table.number(report, "weight", 0..=10_000_000);
    let max_connections = table.number(report, "max_connections", 0..=1_000_000);
    let max_replication_lag = table.number(report, "max_replication_lag", 0..=LAG_MAX_SEC);
    let status = table.value(report, "status", |given| read_status(read_text(given)?));
    let compression = table.value(report, "compression", read_compression);
    let tls = read_tls(table, report);
    let comment = table.text(report, "comment");
    table.finish(report, &LATER);

    let Some(hostgroup) = hostgroup.map(HostgroupId) else {
        entries.unsure = true;
        return;
    };
    entries.hostgroups.insert(hostgroup);
    let Some(address) = address else { return };
    let entry = ServerEntry {
        key: ServerKey { hostgroup, address },
        weight: weight.unwrap_or(1),
        max_connections: max_connections.unwrap_or(1_000),
        max_replication_lag: max_replication_lag.unwrap_or(0),
        compression: compression.unwrap_or_default(),
        tls,
        status: status.unwrap_or(ServerState::Online),
        comment: comment.unwrap_or_default(),
    };
    let name = if table.has("address") { "address" } else { "hostname" };
    entries.servers.push(Placed { value: entry, at: table.place(name) });
}

/// `address`, or `hostname` and `port` as ProxySQL has them.
fn read_address(table: &mut Table<'_>, report: &mut Report<'_>) -> Option<Address> {
    let hostname = table.text(report, "hostname");
    let port = table.number(report, "port", 0..=65_535);
    let address = table.value(report, "address", |given| {
        let text = read_text(given)?;
        text.parse::<Address>().map_err(|error| format!("is wrong: {error}"))
    });
    match (table.has("address"), table.has("hostname")) {
        (true, true) => {
            let message = "`address` and `hostname` in [[server]] mean the same; give one";
            table.error(report, "hostname", message.to_owned());
            None
        }
        (true, false) if table.has("port") => {
            let message = "`port` goes with `hostname`; `address` in [[server]] holds its own";
            table.error(report, "port", message.to_owned());
            None
        }
        (true, false) => address,
        (false, true) => {
            let port = if table.has("port") { port? } else { DEFAULT_PORT };
            join(&hostname?, port).map_err(|message| table.error(report, "hostname", message)).ok()
        }
        (false, false) => {
            table.missing(report, "address");
            None
        }
    }
}

/// The address of ProxySQL's two columns; port 0 or a leading `/` makes it a Unix socket.
fn join(hostname: &str, port: u32) -> Result<Address, String> {
    if hostname.starts_with('/') {
        return Ok(Address::Unix(PathBuf::from(hostname)));
    }
    if port == 0 {
        return Err(format!(
            "`hostname` in [[server]] must be the path of a Unix socket where `port` is 0, not \
             `{hostname}`"
        ));
    }
    let is_ip = hostname.parse::<std::net::IpAddr>().is_ok();
    let joined = match is_ip && hostname.contains(':') {
        true => format!("[{hostname}]:{port}"),
        false if hostname.contains([':', '[', ']']) => {
            return Err(format!(
                "`hostname` in [[server]] must be a host without a port, not `{hostname}`"
            ));
        }
        false => format!("{hostname}:{port}"),
    };
    joined.parse().map_err(|error| format!("`hostname` in [[server]] is wrong: {error}"))
}

/// ProxySQL's 0 and 1, or a word.
fn read_compression(given: &Given) -> Result<ServerCompression, String> {
    match given {
        Given::Integer(0) | Given::Boolean(false) => Ok(ServerCompression::Off),
        Given::Integer(1) | Given::Boolean(true) => Ok(ServerCompression::Zlib),
        Given::Text(word) if word == "off" => Ok(ServerCompression::Off),
        Given::Text(word) if word == "zlib" => Ok(ServerCompression::Zlib),
        Given::Text(word) if word == "zstd" => Ok(ServerCompression::Zstd),
        Given::Text(other) => Err(format!("must be 0, 1, zlib or zstd, not `{other}`")),
        Given::Integer(other) => Err(format!("must be 0, 1, zlib or zstd, not {other}")),
        Given::List(_) | Given::Other(_) => {
            Err(format!("must be 0, 1, zlib or zstd, not {}", given.type_name()))
        }
    }
}

/// `tls`, or ProxySQL's `use_ssl`.
fn read_tls(table: &mut Table<'_>, report: &mut Report<'_>) -> ServerTlsWish {
    let name = table.either(report, "tls", "use_ssl");
    let wish = table.value(report, name, |given| {
        let words = TlsMode::WORDS.map(|(word, _)| word).join(", ");
        match given {
            Given::Integer(0) | Given::Boolean(false) => Ok(ServerTlsWish::Mode(TlsMode::Disabled)),
            Given::Integer(1) | Given::Boolean(true) => Ok(ServerTlsWish::Default),
            Given::Text(text) => TlsMode::WORDS
                .into_iter()
                .find(|(word, _)| word == text)
                .map(|(_, mode)| ServerTlsWish::Mode(mode))
                .ok_or_else(|| format!("must be {words}, 0 or 1, not `{text}`")),
            Given::Integer(other) => Err(format!("must be {words}, 0 or 1, not {other}")),
            Given::List(_) | Given::Other(_) => {
                Err(format!("must be {words}, 0 or 1, not {}", given.type_name()))
            }
        }
    });
    wish.unwrap_or_default()
}

/// `[[server_ssl_params]]`: what TLS to one server works with, as in ProxySQL's
/// `mysql_servers_ssl_params`.
pub(super) fn read_ssl_params(
    table: &mut Table<'_>,
    report: &mut Report<'_>,
    entries: &mut Entries,
) {
    let address = read_address(table, report);
    let username = table.text(report, "username").unwrap_or_default();
    let mut text = |name| table.text(report, name).unwrap_or_default();
    let params = TlsParams {
        ca: text("ssl_ca"),
        cert: text("ssl_cert"),
        key: text("ssl_key"),
        capath: text("ssl_capath"),
        crl: text("ssl_crl"),
        crlpath: text("ssl_crlpath"),
        cipher: text("ssl_cipher"),
        tls_version: text("tls_version"),
    };
    let _comment = table.text(report, "comment");
    table.finish(report, &[]);
    let Some(address) = address else { return };
    let entry = ServerTlsEntry { address, username, params: Arc::new(params) };
    let is_same =
        |other: &ServerTlsEntry| other.address == entry.address && other.username == entry.username;
    if entries.tls_params.iter().any(is_same) {
        let message = format!("[[server_ssl_params]] for {} is there twice", entry.address);
        return table.error(report, "address", message);
    }
    entries.tls_params.push(entry);
}

fn read_status(word: &str) -> Result<ServerState, String> {
    match word.to_ascii_uppercase().as_str() {
        "ONLINE" => Ok(ServerState::Online),
        "OFFLINE_SOFT" => Ok(ServerState::OfflineSoft),
        "OFFLINE_HARD" => Ok(ServerState::OfflineHard),
        _ => Err(format!("must be ONLINE, OFFLINE_SOFT or OFFLINE_HARD, not `{word}`")),
    }
}
