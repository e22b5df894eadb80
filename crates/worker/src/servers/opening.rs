//! Step 7, when a connection has to be made: opening.

use std::sync::Arc;

use trunkline_pool::{AccountId, ConnId, ConnState, SlotId};
use trunkline_protocol::{capability::Capabilities, collation::UTF8MB4_GENERAL_CI};
use trunkline_session::{
    backend::{ServerHandshake, ServerLogin},
    tracker::{Charset, Schema, SessionState, is_plain_name},
};
use trunkline_topology::{Address, HostgroupId};

use crate::{
    Action,
    clients::client::{Client, Session},
    env::Env,
    rooms::{Core, Lender},
    server_login::{ALWAYS_WANTED, as_sent, compression_wanted, tls_wanted},
    servers::conn::{Conn, ConnPhase},
};

impl Core {
    /// Opens a connection; its place under the cap is taken. `client`'s credential logs in.
    pub(crate) fn open(
        &mut self,
        slot: SlotId,
        hostgroup: HostgroupId,
        account: AccountId,
        client: &Client,
    ) -> Option<ConnId> {
        let server = Arc::clone(&self.servers.pool.slot(slot)?.server);
        let Some(mut login) = self.server_login(client, account, slot, None) else {
            server.health.give_back_connection();
            return None;
        };
        login.capabilities.insert(compression_wanted(server.compression));
        let collation = login.collation;
        let handshake = Box::new(ServerHandshake::new(login));
        let state = SessionState::new(Schema::None, Charset::Collation(collation));
        let state = self.servers.states.intern(state);
        let password = self.servers.logins.password_turns.turn(slot.index(), account);
        let (phase, env) = (ConnPhase::Connecting(handshake), &self.env);
        let id = self.servers.conns.insert_with(|id| {
            let mut conn = Conn::new(id, (slot, hostgroup), account, phase, state);
            conn.login.password = password;
            conn.login.login_us = env.now.us;
            conn.left.schemas_defined = env.shared.schemas_defined();
            conn.server.epoch = server.health.epoch();
            conn.server.last_thread = server.health.last_thread();
            conn.holder.since_ms = env.now.ms();
            conn
        });
        self.with_conn(id, |core, conn| core.servers.set_state(conn, ConnState::Connecting));
        self.fx.stats.counters.server_connections_opened += 1;
        self.fx.act(Action::Open { conn: id, server });
        Some(id)
    }

    /// What to log in with: the account's name, and the credential of a client that is it.
    pub(crate) fn server_login(
        &self,
        client: &Client,
        account: AccountId,
        slot: SlotId,
        schema: Option<Vec<u8>>,
    ) -> Option<ServerLogin> {
        let server = &self.servers.pool.slot(slot)?.server;
        let key = self.servers.logins.accounts.key(account)?;
        let session = &*client.session;
        // Replies in the framing of the client that needs them are relayed as they are.
        let framing = session.login.capabilities.intersection(Capabilities::DEPRECATE_EOF);
        let mut capabilities = ALWAYS_WANTED.union(key.behaviour).union(framing);
        if schema.is_some() {
            capabilities.insert(Capabilities::CONNECT_WITH_DB);
        }
        let (user, credential) = self.credential_for(slot, account, session)?;
        // The account's name is in UTF-8, whatever the session's character set is.
        let collation = match is_plain_name(user.as_bytes()) {
            true => self.env.collation_of(session),
            false => UTF8MB4_GENERAL_CI,
        };
        Some(ServerLogin {
            user,
            credential,
            schema,
            collation,
            capabilities,
            attributes: as_sent(self.env.shared.attributes()),
            zstd_level: self.env.snapshot.settings.zstd_compression_level,
            is_local: matches!(server.key.address, Address::Unix(_)),
            tls: tls_wanted(server.tls.mode),
            keys: Arc::clone(&server.keys),
        })
    }
}

impl Env {
    /// The collation of a session's handshake.
    pub(crate) fn collation_of(&self, session: &Session) -> u16 {
        match session.login.handshake_charset {
            Charset::Collation(id) => id,
            _ => u16::from(self.greeting.charset),
        }
    }
}
