//! Galera Load Balancer's control protocol: what is asked and what is answered.
//!
//! Source: glb 1.0, README, "Runtime management". A request is a word or a server with a weight;
//! words may be cut short or have more letters (`getstats`).

use std::fmt::Write;

use trunkline_config::{Config, ServerEntry, ServerTlsWish, TcpFront, tcp::Balance};
use trunkline_stats::TcpListenerRow;
use trunkline_topology::{Address, HostgroupId, ServerCompression, ServerKey, ServerState};

/// The weight of a server that is named without one.
const DEFAULT_WEIGHT: u32 = 1;
/// The cap of a server that is added to a hostgroup without any.
const DEFAULT_MAX_CONNECTIONS: u32 = 1_000;
/// The largest weight, as in the configuration.
const WEIGHT_MAX: u32 = 10_000_000;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The table of servers.
    Info,
    /// Counters since they were asked for last.
    Stat,
    /// Adds a server or changes its weight; 0 gives it no new clients.
    Set(Address, u32),
    /// Takes a server away, and cuts its clients off.
    Remove(Address),
}

/// Reads a request; `None` when it is none.
pub fn parse(line: &str) -> Option<Request> {
    let line = line.trim_matches(|c: char| c.is_control() || c.is_whitespace());
    let (word, rest) = match line.split_once(char::is_whitespace) {
        Some((word, rest)) => (word.to_ascii_lowercase(), rest.trim()),
        None => (line.to_ascii_lowercase(), ""),
    };
    match (word.as_str(), rest) {
        (word, "") if word.starts_with("getinfo") => Some(Request::Info),
        (word, "") if word.starts_with("getstat") => Some(Request::Stat),
        ("addsrv" | "setsrv" | "add" | "set", server) => server_request(server),
        ("delsrv" | "remove", server) => Some(Request::Remove(split(server)?.0)),
        ("drainsrv" | "drain", server) => Some(Request::Set(split(server)?.0, 0)),
        (_, "") => server_request(line),
        _ => None,
    }
}

fn server_request(text: &str) -> Option<Request> {
    let (address, weight) = split(text)?;
    match weight {
        None => Some(Request::Set(address, DEFAULT_WEIGHT)),
        Some(weight) if weight < 0.0 => Some(Request::Remove(address)),
        Some(weight) => {
            // Weights are whole numbers here, and `1.000` is one.
            let whole = format!("{weight}").parse().ok().filter(|whole| *whole <= WEIGHT_MAX)?;
            Some(Request::Set(address, whole))
        }
    }
}

/// `host:port` or `host:port:weight`; an IPv6 address stands in brackets.
fn split(text: &str) -> Option<(Address, Option<f64>)> {
    let after_host = text.rfind(']').map_or(0, |at| at + 1);
    let colons = text.get(after_host..)?.matches(':').count();
    let (server, weight) = match colons {
        1 => (text, None),
        2 => {
            let (server, weight) = text.rsplit_once(':')?;
            (server, Some(weight.parse().ok().filter(|weight: &f64| weight.is_finite())?))
        }
        _ => return None,
    };
    Some((server.parse().ok()?, weight))
}

/// The configuration after a change of the servers of a hostgroup.
///
/// A server that is removed stays in the configuration as `OFFLINE_HARD`, which cuts its clients
/// off; a reload forgets it.
pub fn changed(mut config: Config, hostgroup: HostgroupId, request: &Request) -> Config {
    let (address, weight) = match request {
        Request::Set(address, weight) => (address, Some(*weight)),
        Request::Remove(address) => (address, None),
        Request::Info | Request::Stat => return config,
    };
    let key = ServerKey { hostgroup, address: address.clone() };
    let entry = config.servers.iter_mut().find(|entry| entry.key == key);
    match (entry, weight) {
        (Some(entry), Some(weight)) => {
            entry.weight = weight;
            entry.status = ServerState::Online;
        }
        (Some(entry), None) => entry.status = ServerState::OfflineHard,
        (None, Some(weight)) => {
            let other = config.servers.iter().find(|entry| entry.key.hostgroup == hostgroup);
            let max = other.map_or(DEFAULT_MAX_CONNECTIONS, |entry| entry.max_connections);
            config.servers.push(ServerEntry {
                rank: 0,
                zone: String::new(),
                key,
                weight,
                max_connections: max,
                max_replication_lag: 0,
                compression: ServerCompression::Off,
                tls: ServerTlsWish::default(),
                status: ServerState::Online,
                comment: "added on the control socket".to_owned(),
            });
        }
        (None, None) => {}
    }
    config
}

const RULE: &str = "------------------------------------------------------\n";

/// The table of servers.
pub fn info(front: &TcpFront, row: Option<&TcpListenerRow>) -> String {
    let in_use = |address: &Address, hostgroup: HostgroupId| {
        let address = address.to_string();
        let servers = row.into_iter().flat_map(|row| &row.servers);
        let mut servers = servers.filter(|it| it.hostgroup == hostgroup.0 && it.address == address);
        servers.next().map_or(0, |server| server.connections)
    };
    let is_there = |state: ServerState| state != ServerState::OfflineHard;
    let servers = || front.servers.iter().filter(|it| is_there(it.health.state(u64::MAX)));
    let total: u64 = servers().map(|server| u64::from(server.weight)).sum();
    let has_map = matches!(front.options.balance, Balance::Source | Balance::Random);
    let mut text = format!("Router:\n{RULE}");
    text.push_str("        Address       :   weight   usage    map  conns\n");
    for server in servers() {
        let address = &server.key.address;
        let connections = in_use(address, server.key.hostgroup);
        let usage = 1.0 - 1.0 / (connections as f64 + 1.0);
        let map = match has_map {
            true => format!("{:7.3}", f64::from(server.weight) / (total.max(1) as f64)),
            false => format!("{:>7}", "N/A"),
        };
        let weight = f64::from(server.weight);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:>21} : {weight:8.3} {usage:7.3} {map} {connections:5}",
            address.to_string()
        );
    }
    let connections = row.map_or(0, |row| row.connections);
    let (count, max) = (servers().count(), front.options.max_connections);
    let _ = writeln!(
        text,
        "{RULE}Destinations: {count}, total connections: {connections} of {max} max"
    );
    text
}

/// What [`stat`] compares with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    from_clients: u64,
    from_servers: u64,
    reads: u64,
    opened: u64,
}

impl Sums {
    /// The sums of a listener.
    pub fn of(row: Option<&TcpListenerRow>) -> Self {
        let mut sums = Self::default();
        for server in row.into_iter().flat_map(|row| &row.servers) {
            sums.from_clients += server.counters.bytes_to_server;
            sums.from_servers += server.counters.bytes_to_client;
            sums.reads += server.counters.reads;
            sums.opened += server.counters.connected;
        }
        sums
    }
}

/// Counters since the last time, which was so many milliseconds ago. What glb counts of its calls
/// of `poll` is 0: many listeners share one here.
pub fn stat(before: Sums, now: Sums, connections: u64, elapsed_ms: u64) -> String {
    let from_clients = now.from_clients.saturating_sub(before.from_clients);
    let from_servers = now.from_servers.saturating_sub(before.from_servers);
    let reads = now.reads.saturating_sub(before.reads);
    let opened = now.opened.saturating_sub(before.opened);
    let sum = from_clients.saturating_add(from_servers);
    let elapsed = elapsed_ms as f64 / 1_000.0;
    format!(
        "in: {from_clients} out: {from_servers} recv: {sum} / {reads} send: {sum} / {reads} \
         conns: {opened} / {connections} poll: 0 / 0 / 0 elapsed: {elapsed:.5}\n"
    )
}

#[cfg(test)]
mod tests {
    use trunkline_config::{Snapshot, parse as parse_config};

    use super::*;

    #[test]
    fn requests_are_read_as_glb_reads_them() {
        let set = |text: &str, weight| Some(Request::Set(text.parse().expect("address"), weight));
        let remove = |text: &str| Some(Request::Remove(text.parse().expect("address")));
        let check =
            |line: &str, expected: Option<Request>| assert_eq!(parse(line), expected, "{line}");
        check("getinfo\n", Some(Request::Info));
        check("GetStats\r\n\0", Some(Request::Stat));
        check("10.0.0.1:3306", set("10.0.0.1:3306", 1));
        check("10.0.0.1:3306:5\n", set("10.0.0.1:3306", 5));
        check("10.0.0.1:3306:5.000", set("10.0.0.1:3306", 5));
        check("db-1:3306:0", set("db-1:3306", 0));
        check("[::1]:3306:2", set("[::1]:3306", 2));
        check("10.0.0.1:3306:-1", remove("10.0.0.1:3306"));
        check("addsrv 10.0.0.1:3306:3", set("10.0.0.1:3306", 3));
        check("setsrv 10.0.0.1:3306:0", set("10.0.0.1:3306", 0));
        check("drainsrv 10.0.0.1:3306", set("10.0.0.1:3306", 0));
        check("delsrv 10.0.0.1:3306", remove("10.0.0.1:3306"));
        for line in ["", "help", "10.0.0.1", "10.0.0.1:3306:x", "a:1:0.5", "a:1:nan", "getinfo x"] {
            check(line, None);
        }
        check("a:1:99999999999", None);
    }

    fn config(servers: &str) -> Config {
        let text = format!("{servers}\n[[tcp_listener]]\naddress = \"127.0.0.1:1\"\nhostgroup = 1");
        let no_files = |_: &str| Err("no files here".to_owned());
        parse_config(&text, "test.toml", &no_files).expect("valid")
    }

    #[test]
    fn servers_are_added_changed_and_removed() {
        let one = "[[server]]\nhostgroup = 1\naddress = \"10.0.0.1:1\"\nmax_connections = 7";
        let shown = |config: &Config| -> Vec<String> {
            let entries = config.servers.iter();
            entries.map(|it| format!("{} {} {:?}", it.key.address, it.weight, it.status)).collect()
        };
        let hostgroup = HostgroupId(1);
        let change =
            |config: Config, line: &str| changed(config, hostgroup, &parse(line).expect(line));
        let config = change(config(one), "10.0.0.2:1:4");
        assert_eq!(shown(&config), ["10.0.0.1:1 1 Online", "10.0.0.2:1 4 Online"]);
        assert_eq!(config.servers[1].max_connections, 7);
        let config = change(change(config, "10.0.0.2:1:0"), "10.0.0.1:1:-1");
        assert_eq!(shown(&config), ["10.0.0.1:1 1 OfflineHard", "10.0.0.2:1 0 Online"]);
        let config = change(config, "10.0.0.1:1:2");
        assert_eq!(shown(&config), ["10.0.0.1:1 2 Online", "10.0.0.2:1 0 Online"]);
    }

    #[test]
    fn the_table_and_the_line_have_glbs_shape() {
        let servers = "[[server]]\nhostgroup = 1\naddress = \"10.0.0.1:3306\"\nweight = 2\n\
                       [[server]]\nhostgroup = 1\naddress = \"10.0.0.2:3306\"\n\
                       status = \"OFFLINE_HARD\"";
        let snapshot = Snapshot::build(config(servers), None);
        let expected = format!(
            "Router:\n{RULE}        Address       :   weight   usage    map  conns\n        \
             10.0.0.1:3306 :    2.000   0.000     N/A     0\n{RULE}Destinations: 1, total \
             connections: 0 of 10000 max\n"
        );
        assert_eq!(info(&snapshot.tcp[0], None), expected);
        let now = Sums { from_clients: 10, from_servers: 5, reads: 3, opened: 2 };
        assert_eq!(
            stat(Sums { opened: 1, ..Sums::default() }, now, 1, 1_500),
            "in: 10 out: 5 recv: 15 / 3 send: 15 / 3 conns: 1 / 1 poll: 0 / 0 / 0 \
             elapsed: 1.50000\n"
        );
        let line = stat(Sums::default(), now, 1, 1_500);
        assert_eq!(line.split_whitespace().nth(23), Some("1.50000"), "field 24");
    }
}
