//! The dedicated connection of a fast-forward user.

use std::sync::Arc;

use trunkline_pool::{AccountId, ConnState, DedicatedChoice, Waiter};
use trunkline_protocol::{
    capability::{Capabilities, Compression},
    error::ErrorKind,
};
use trunkline_rules::FirewallMode;
use trunkline_session::backend::ServerHandshake;
use trunkline_topology::{HostgroupId, RefusalCause};

use crate::{
    Action, ClientId, Side,
    clients::client::{Client, Phase},
    rooms::{Core, Exchange, Lender},
    servers::conn::{Conn, ConnPhase},
    special::fast_forward::{THROUGHOUT, told_of},
};

impl Exchange {
    /// Opens the dedicated connection of a client that has logged in, or another in place of one
    /// that was refused. What the client sends
    /// meanwhile waits in its inbox.
    pub(crate) fn begin_forward(&mut self, client: &mut Client) {
        self.open_forward(client, None);
    }

    /// Opens the dedicated connection of a client, which may have waited for it.
    pub(crate) fn open_forward(&mut self, client: &mut Client, waited: Option<Waiter<ClientId>>) {
        if !matches!(client.phase, Phase::Idle | Phase::Forward(_)) {
            // It was closed meanwhile.
            return;
        }
        if self.core.is_forward_denied(client) {
            let text = self.core.env.snapshot.settings.firewall_whitelist_errormsg.clone();
            return self.refuse(client, 1, ErrorKind::NotAllowed.says(text));
        }
        let session = &*client.session;
        let (hostgroup, account) = (session.login.user.default_hostgroup, session.login.account);
        let asker = self.core.asker(client, account);
        let choice = self.core.servers.pool.choose_dedicated(hostgroup, &asker);
        let opened = match choice {
            DedicatedChoice::Open(slot) => self.core.open(slot, hostgroup, account, client),
            DedicatedChoice::Replace(_, conn) => {
                self.core.servers.taken(conn);
                let opened = self
                    .core
                    .with_conn(conn, |core, conn| core.replace(conn, hostgroup, account, client));
                opened.flatten()
            }
            DedicatedChoice::None(cause)
                if cause == RefusalCause::NoneOnline || waited.is_some() =>
            {
                if let Err(cause) = self.hold_forward(client, hostgroup, waited) {
                    self.refuse_forward(client, hostgroup, cause);
                }
                return;
            }
            DedicatedChoice::None(cause) => return self.refuse_forward(client, hostgroup, cause),
        };
        let Some(conn_id) = opened else {
            return self.refuse_forward(client, hostgroup, RefusalCause::AllAtMaxConnections);
        };
        client.phase = Phase::Forward(conn_id);
        self.core.with_conn(conn_id, |core, conn| core.log_in_for(client, conn, account, waited));
    }

    pub(crate) fn refuse_forward(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        cause: RefusalCause,
    ) {
        self.core.fx.stats.refused(cause);
        let why = self.core.refusal_text(hostgroup, cause);
        let text = format!(
            "Max connect timeout reached while reaching hostgroup {hostgroup} for \
             'fast_forward' session: {why}"
        );
        self.refuse(client, 1, ErrorKind::NoConnection.says(text));
    }

    /// The dedicated connection is logged in.
    pub(crate) fn forward_ready(&mut self, conn: &mut Conn, client: &mut Client) {
        let capabilities = client.session.login.capabilities;
        let compression = capabilities.compression();
        let is_paused = std::mem::take(&mut client.io.is_paused);
        let has = conn.server.identity.as_ref().map(|identity| identity.capabilities & THROUGHOUT);
        if has != Some(capabilities & THROUGHOUT) {
            self.core.discard_idle(conn);
            let text = "the server does not have the capabilities that the greeting promised";
            return self.refuse(client, 1, ErrorKind::NoConnection.says(text));
        }
        conn.phase = ConnPhase::Forward(client.id);
        conn.holder.owner = Some(client.id);
        let agreed = conn.server.identity.as_ref().and_then(|it| it.capabilities.compression());
        self.core.servers.set_state(conn, ConnState::Forwarding);
        let mut waiting = Vec::new();
        if agreed == compression {
            // Compressed or not, bytes go through as they are.
            let Some(packed) = self.core.end_client_packing(client) else {
                // It sent ahead of its login's end, and that is unpacked already.
                self.core.drop_conn(conn);
                return self.close_client(client);
            };
            waiting = packed;
        }
        waiting.append(&mut client.io.inbox);
        if !waiting.is_empty() {
            self.core.write_server(conn, |out| out.extend_from_slice(&waiting));
        }
        if is_paused {
            self.core.fx.act(Action::Resume(Side::Client(client.id)));
        }
        self.core.unpack_client_soon(client);
    }
}

impl Core {
    /// Has a connection that was opened just now log in for a client whose bytes go straight
    /// through.
    fn log_in_for(
        &self,
        client: &Client,
        conn: &mut Conn,
        account: AccountId,
        waited: Option<Waiter<ClientId>>,
    ) {
        let session = &*client.session;
        let schema = session.settings.state.schema.name();
        let schema = (!schema.is_empty()).then(|| schema.to_vec());
        let Some(mut login) = self.server_login(client, account, conn.slot, schema) else { return };
        let capabilities = session.login.capabilities;
        // The connection is this client's alone, so it is the client that is told of.
        login.attributes = told_of(session, &client.origin.peer);
        login.collation = self.env.collation_of(session);
        // The client speaks to the server itself, so they must have agreed on the same.
        login.capabilities =
            login.capabilities.intersection(Capabilities::CONNECT_WITH_DB).union(capabilities);
        if capabilities.compression() == Some(Compression::Zlib) {
            login.capabilities.remove(Capabilities::ZSTD_COMPRESSION_ALGORITHM);
        }
        // A change of user names none.
        login.zstd_level = session.login.zstd_level.clamp(1, 22);
        conn.phase = ConnPhase::Connecting(Box::new(ServerHandshake::new(login)));
        conn.login.forwards = Some(client.id);
        conn.login.forwards_waited = waited;
    }

    /// Whether a user with `fast_forward` is one whose statements the firewall judges: they can't
    /// be looked at, so it runs none. One whose statements are only told of goes on, and is told
    /// of once.
    fn is_forward_denied(&mut self, client: &mut Client) -> bool {
        let settings = &self.env.snapshot.settings;
        if !settings.firewall_whitelist_enabled {
            return false;
        }
        let user = Arc::clone(&client.session.login.user);
        let mode =
            self.env.snapshot.guards.firewall.mode(&user.name, client.origin.peer.client_addr);
        let did = match mode {
            FirewallMode::Off => return false,
            FirewallMode::Detecting => {
                self.fx.stats.counters.statements_detected += 1;
                "can't look at the statements"
            }
            FirewallMode::Protecting => {
                self.fx.stats.counters.statements_refused_firewall += 1;
                "denied a session"
            }
        };
        self.fx.log(true, || format!("firewall {did} of user {}, who has fast_forward", user.name));
        mode == FirewallMode::Protecting
    }
}
