//! What clients are greeted with, so that drivers behave as they would directly.

use trunkline_config::Snapshot;
use trunkline_protocol::{
    Capabilities,
    auth::Plugin,
    packet::{
        greeting::{Flavor, Greeting, NONCE_LEN, PROTOCOL_VERSION},
        status,
    },
};
use trunkline_topology::Server;

use crate::{Facts, Knowledge};

#[cfg(test)]
mod tests;

/// What may be offered to clients at all: what the data plane carries through, and flags without
/// effect on the wire that servers set.
pub const SUPPORTED: Capabilities = Capabilities::LONG_PASSWORD
    .union(Capabilities::FOUND_ROWS)
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::ODBC)
    .union(Capabilities::LOCAL_FILES)
    .union(Capabilities::IGNORE_SPACE)
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::INTERACTIVE)
    .union(Capabilities::IGNORE_SIGPIPE)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::RESERVED)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PS_MULTI_RESULTS)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA)
    .union(Capabilities::SESSION_TRACK)
    .union(Capabilities::DEPRECATE_EOF)
    .union(Capabilities::OPTIONAL_RESULTSET_METADATA)
    .union(Capabilities::QUERY_ATTRIBUTES)
    .union(Capabilities::PROGRESS)
    .union(Capabilities::STMT_BULK_OPERATIONS)
    .union(Capabilities::EXTENDED_METADATA)
    .union(Capabilities::CACHE_METADATA);

/// What is only right where the server has it too.
const SERVERS_OWN: Capabilities =
    Capabilities::EXTENDED.union(Capabilities::OPTIONAL_RESULTSET_METADATA);

/// What Trunkline does itself, whatever servers can.
const OWN: Capabilities = Capabilities::COMPRESS.union(Capabilities::ZSTD_COMPRESSION_ALGORITHM);

/// What clients are greeted with while nothing is known of any server.
const DEFAULT_VERSION: &str = "8.4.0";
/// `utf8mb4_0900_ai_ci`, the default of that version.
const DEFAULT_CHARSET: u8 = 255;
/// `utf8mb4_general_ci`, the default of MariaDB.
const DEFAULT_CHARSET_MARIADB: u8 = 45;

/// The greeting for clients; the worker fills in nonce and connection id.
///
/// Version, character set, plug-in and how texts are read are those of the leading server: the
/// first one of a writer hostgroup, else of the lowest hostgroup, that anything is known of.
/// Capabilities are what all known servers have and [`SUPPORTED`] allows, and compression.
/// `settings.server_version` replaces the version.
pub fn greeting_for_clients(known: &Knowledge, snapshot: &Snapshot) -> Greeting {
    let mut greeting = match leading_facts(known, snapshot) {
        Some(facts) => greeting_of(facts, common_capabilities(facts, known, snapshot)),
        None => unknown_greeting(Flavor::of_version(&snapshot.settings.server_version)),
    };
    if !snapshot.settings.server_version.is_empty() {
        greeting.server_version.clone_from(&snapshot.settings.server_version);
    }
    debug_assert!(SUPPORTED.contains(greeting.capabilities));
    if snapshot.settings.have_compress {
        greeting.capabilities.insert(OWN);
    }
    greeting
}

/// While nothing is known of any server: what servers of this family greet with by default.
fn unknown_greeting(flavor: Flavor) -> Greeting {
    let (charset, plugin) = match flavor {
        Flavor::MySql => (DEFAULT_CHARSET, Plugin::CachingSha2),
        Flavor::MariaDb => (DEFAULT_CHARSET_MARIADB, Plugin::Native),
    };
    Greeting {
        protocol_version: PROTOCOL_VERSION,
        server_version: DEFAULT_VERSION.to_owned(),
        connection_id: 0,
        nonce: [0; NONCE_LEN],
        capabilities: SUPPORTED.without(SERVERS_OWN),
        charset,
        status: status::AUTOCOMMIT,
        auth_plugin: plugin.name().to_owned(),
    }
}

/// The version texts of all servers of the configuration; `None` while one of them is not known.
pub fn server_versions<'a>(known: &'a Knowledge, snapshot: &Snapshot) -> Option<Vec<&'a str>> {
    let facts = snapshot.mysql_servers().map(|server| known.of(&server.key.address));
    facts.map(|facts| facts.map(|facts| facts.version.as_str())).collect()
}

/// Whether the server that leads the greeting is known.
pub fn is_leader_known(known: &Knowledge, snapshot: &Snapshot) -> bool {
    by_rank(snapshot).next().is_some_and(|server| known.of(&server.key.address).is_some())
}

/// Servers, those of writer hostgroups first.
fn by_rank(snapshot: &Snapshot) -> impl Iterator<Item = &Server> {
    let groups = snapshot.replication.iter();
    let writers = groups.filter_map(|group| snapshot.hostgroup(group.writer_hostgroup));
    writers
        .flat_map(|hostgroup| &hostgroup.servers)
        .chain(snapshot.mysql_servers())
        .map(AsRef::as_ref)
}

fn leading_facts<'a>(known: &'a Knowledge, snapshot: &Snapshot) -> Option<&'a Facts> {
    by_rank(snapshot).find_map(|server| known.of(&server.key.address))
}

/// What every known server of the configuration has.
fn common_capabilities(leader: &Facts, known: &Knowledge, snapshot: &Snapshot) -> Capabilities {
    let facts = snapshot.mysql_servers().filter_map(|server| known.of(&server.key.address));
    let mut common = facts.fold(SUPPORTED, |common, facts| common & facts.capabilities);
    // A client takes this one for the family of the server, which is the leader's. MariaDB's own
    // flags are there only without it.
    common.remove(Capabilities::LONG_PASSWORD);
    if leader.capabilities.contains(Capabilities::LONG_PASSWORD) {
        common.remove(Capabilities::EXTENDED);
    }
    common | (leader.capabilities & Capabilities::LONG_PASSWORD)
}

fn greeting_of(facts: &Facts, capabilities: Capabilities) -> Greeting {
    let offered = Plugin::from_name(facts.auth_plugin.as_bytes());
    let plugin = match (offered, Flavor::of_version(&facts.version)) {
        (Some(plugin @ (Plugin::Native | Plugin::CachingSha2)), _) => plugin,
        (
            Some(
                Plugin::Sha256 | Plugin::Clear | Plugin::Ed25519 | Plugin::Parsec | Plugin::Dialog,
            )
            | None,
            flavor,
        ) => match flavor {
            Flavor::MariaDb => Plugin::Native,
            Flavor::MySql => Plugin::CachingSha2,
        },
    };
    let has_plugins = capabilities.contains(Capabilities::PLUGIN_AUTH);
    Greeting {
        protocol_version: PROTOCOL_VERSION,
        server_version: facts.version.clone(),
        connection_id: 0,
        nonce: [0; NONCE_LEN],
        capabilities,
        charset: facts.charset,
        status: status::AUTOCOMMIT | facts.reading,
        auth_plugin: if has_plugins { plugin.name().to_owned() } else { String::new() },
    }
}
