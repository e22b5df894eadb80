//! One session twice: through the proxy, and on a server connection of its own.

use anyhow::{Context, Result};
use trunkline_testkit::Trunkline;

use crate::client::{Answer, Client};
use crate::plan::{Account, Act};
use crate::stage::{SCHEMA, Stage};

/// A session and its twin.
pub struct Session {
    /// Through the proxy.
    pub proxied: Client,
    /// Directly.
    pub direct: Client,
}

impl Session {
    pub fn begin(stage: &Stage, proxy: &Trunkline, account: Account) -> Result<Session> {
        let name = account.name();
        let login = |port| Client::login(port, name, name, SCHEMA);
        let proxied = login(proxy.port()).context("through the proxy")?;
        Ok(Session { proxied, direct: login(stage.direct_port())? })
    }
}

/// What `client` answers to an act that is a command of the protocol.
pub fn act(client: &mut Client, act: &Act, target: u32) -> Vec<Answer> {
    match act {
        Act::Query(text) | Act::Strike(text) => client.query(text),
        Act::Prepared(text) => client.prepared(text),
        Act::Close => client.close_statements(),
        Act::Reset => client.reset(),
        Act::Ping => client.ping(),
        Act::ChangeUser(name) => client.change_user(name, name, SCHEMA),
        Act::Schema(name) => client.init_db(name),
        Act::Kill { is_connection, .. } => {
            let what = if *is_connection { "CONNECTION" } else { "QUERY" };
            client.query(format!("KILL {what} {target}").as_bytes())
        }
        Act::Reconnect => Vec::new(),
    }
}
