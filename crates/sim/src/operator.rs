//! Operators: they publish configurations, set states of servers, look at statistics and stop
//! the proxy.

use std::sync::Arc;

use trunkline_config::Snapshot;
use trunkline_protocol::{
    Capabilities,
    auth::Plugin,
    packet::{
        greeting::{Flavor, Greeting, NONCE_LEN, PROTOCOL_VERSION},
        status,
    },
};

use crate::{
    plan::{ConfigSpec, Plan},
    server::offered,
};

/// What the model servers have of what the proxy can offer (`monitor::greeting::SUPPORTED`):
/// clients of the world are offered no more.
const OFFERED: Capabilities = Capabilities::LONG_PASSWORD
    .union(Capabilities::FOUND_ROWS)
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::ODBC)
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
    .union(Capabilities::COMPRESS)
    .union(Capabilities::ZSTD_COMPRESSION_ALGORITHM)
    .union(Capabilities::LOCAL_FILES)
    .union(Capabilities::STMT_BULK_OPERATIONS)
    .union(Capabilities::DEPRECATE_EOF);

/// What is the proxy's affair, whatever its servers can do.
const PROXYS_OWN: Capabilities = Capabilities::ODBC
    .union(Capabilities::IGNORE_SPACE)
    .union(Capabilities::INTERACTIVE)
    .union(Capabilities::IGNORE_SIGPIPE)
    .union(Capabilities::RESERVED);

/// The configuration in force and the one that came before.
#[derive(Debug)]
pub struct Operator {
    snapshot: Arc<Snapshot>,
    greeting: Arc<Greeting>,
    /// Places, in the plan, of the configurations published, by version from 1.
    published: Vec<usize>,
}

impl Operator {
    /// The plan's first configuration is published.
    pub fn new(plan: &Plan) -> Self {
        let config = plan.configs.first().cloned().unwrap_or_default().config();
        let flavor = plan.cluster.hosts.first().map_or(Flavor::MariaDb, |host| host.flavor);
        Self {
            snapshot: Arc::new(config.snapshot(None)),
            greeting: Arc::new(greeting(flavor)),
            published: vec![0],
        }
    }

    /// The configuration published last.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    /// What clients are greeted with.
    pub fn greeting(&self) -> Arc<Greeting> {
        Arc::clone(&self.greeting)
    }

    /// Publishes the plan's configuration number `place`.
    pub fn publish(&mut self, plan: &Plan, place: usize) -> Option<Arc<Snapshot>> {
        let config = plan.configs.get(place)?.config();
        self.snapshot = Arc::new(config.snapshot(Some(&self.snapshot)));
        self.published.push(place);
        debug_assert_eq!(self.snapshot.version, self.published.len() as u64);
        Some(self.snapshot())
    }

    /// The place, in the plan, of the configuration published last.
    pub fn place_in_force(&self) -> Option<usize> {
        self.published.last().copied()
    }

    /// Configurations from version `oldest` on.
    pub fn in_force<'a>(
        &'a self,
        plan: &'a Plan,
        oldest: u64,
    ) -> impl Iterator<Item = &'a ConfigSpec> {
        let skipped = usize::try_from(oldest.saturating_sub(1)).unwrap_or(usize::MAX);
        self.published.iter().skip(skipped).filter_map(|place| plan.configs.get(*place))
    }
}

/// The greeting for servers of this dialect.
fn greeting(flavor: Flavor) -> Greeting {
    let (version, charset, plugin) = match flavor {
        Flavor::MariaDb => ("10.11.14-MariaDB", 45, Plugin::Native),
        Flavor::MySql => ("9.7.0", 255, Plugin::CachingSha2),
    };
    Greeting {
        protocol_version: PROTOCOL_VERSION,
        server_version: version.to_owned(),
        connection_id: 0,
        nonce: [0; NONCE_LEN],
        capabilities: OFFERED & (offered(flavor) | PROXYS_OWN),
        charset,
        status: status::AUTOCOMMIT,
        auth_plugin: plugin.name().to_owned(),
    }
}
