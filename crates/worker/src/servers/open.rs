//! Step 7, when a connection has to be made: opening and logging in.

use std::sync::Arc;

use trunkline_pool::{AccountId, ConnId, ConnState, SlotId};
use trunkline_protocol::{
    capability::Capabilities,
    codec::frame,
    collation::UTF8MB4_GENERAL_CI,
    packet::greeting::{Flavor, Greeting},
    response::ReplyFormat,
};
use trunkline_session::{
    backend::{
        FailureKind, ServerFailure, ServerHandshake, ServerIdentity, ServerLogin, ServerStep,
        TlsWish,
    },
    frontend::Attribute,
    tracker::{Charset, Schema, SessionState, is_plain_name},
};
use trunkline_sql::version::ServerVersion;
use trunkline_topology::{Address, HostgroupId, RefusalCause, Secret, ServerCompression, TlsMode};

use crate::{
    Action, ClientId,
    clients::client::Session,
    effects::Wake,
    env::Env,
    rooms::{Core, Exchange},
    servers::conn::{AccountKey, Conn, ConnPhase, Owner},
    servers::trackers::Behind,
};

/// Asked of every server beyond what the client's behaviour needs.
const ALWAYS_WANTED: Capabilities = Capabilities::LONG_PASSWORD
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::LOCAL_FILES)
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::PS_MULTI_RESULTS)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::SESSION_TRACK)
    .union(Capabilities::QUERY_ATTRIBUTES)
    .union(Capabilities::PROGRESS)
    .union(Capabilities::STMT_BULK_OPERATIONS);

fn tls_wanted(mode: TlsMode) -> TlsWish {
    match mode {
        TlsMode::Disabled => TlsWish::Never,
        TlsMode::Preferred => TlsWish::Offered,
        TlsMode::Required | TlsMode::VerifyCa | TlsMode::VerifyIdentity => TlsWish::Always,
    }
}

fn compression_wanted(compression: ServerCompression) -> Capabilities {
    match compression {
        ServerCompression::Off => Capabilities::EMPTY,
        ServerCompression::Zlib => Capabilities::COMPRESS,
        ServerCompression::Zstd => {
            Capabilities::COMPRESS.union(Capabilities::ZSTD_COMPRESSION_ALGORITHM)
        }
    }
}

/// The most bytes that a server may send before the login is over.
const LOGIN_BYTES_MAX: usize = 64 * 1024;

impl Env {
    /// The collation of a session's handshake.
    pub(crate) fn collation_of(&self, session: &Session) -> u16 {
        match session.handshake_charset {
            Charset::Collation(id) => id,
            _ => u16::from(self.greeting.charset),
        }
    }
}

impl Core {
    /// Opens a connection; its place under the cap is taken. `client`'s credential logs in.
    pub(crate) fn open(
        &mut self,
        slot: SlotId,
        hostgroup: HostgroupId,
        account: AccountId,
        client: ClientId,
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
        let conn = Conn {
            password: self.servers.password_turns.turn(slot.index(), account),
            schemas_defined: self.env.shared.schemas_defined(),
            epoch: server.health.epoch(),
            last_thread: server.health.last_thread(),
            since_ms: self.env.now.ms(),
            login_us: self.env.now.us,
            ..Conn::new((slot, hostgroup), account, ConnPhase::Connecting(handshake), state)
        };
        let id = self.servers.conns.insert_with(|_| conn);
        self.servers.set_state(id, ConnState::Connecting);
        self.fx.stats.counters.server_connections_opened += 1;
        self.fx.act(Action::Open { conn: id, server });
        Some(id)
    }

    /// What to log in with: the account's name, and the credential of a client that is it.
    pub(crate) fn server_login(
        &self,
        client: ClientId,
        account: AccountId,
        slot: SlotId,
        schema: Option<Vec<u8>>,
    ) -> Option<ServerLogin> {
        let server = &self.servers.pool.slot(slot)?.server;
        let key = self.servers.accounts.key(account)?;
        let session = self.clients.get(client)?.session.as_ref()?;
        // Replies in the framing of the client that needs them are relayed as they are.
        let framing = session.capabilities.intersection(Capabilities::DEPRECATE_EOF);
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
        })
    }

    /// Logs an idle connection, already off its list, in as `account`. What sessions left there is
    /// fetched before: then it is offered again.
    pub(crate) fn log_in_again(
        &mut self,
        slot: SlotId,
        conn_id: ConnId,
        account: AccountId,
        client: ClientId,
    ) {
        if self.fetch_before_parting(conn_id) {
            return;
        }
        let Some(login) = self.server_login(client, account, slot, None) else {
            return self.discard_idle(conn_id);
        };
        let Some(conn) = self.servers.conns.get_mut(conn_id) else {
            return;
        };
        // The answer to the trackers' `SET` may be on its way still; it comes before the login's.
        debug_assert!(
            conn.in_flight
                .iter()
                .all(|entry| matches!(entry.owner, Owner::Setup | Owner::Defaults))
        );
        let charset = Charset::Collation(login.collation);
        conn.state = self.servers.states.intern(SessionState::new(Schema::None, charset));
        conn.account = account;
        conn.password = self.servers.password_turns.turn(slot.index(), account);
        conn.since_ms = self.env.now.ms();
        conn.login_us = self.env.now.us;
        conn.owner = None;
        // What sessions left here is gone with the login before.
        conn.last_client = None;
        conn.accepted_sets = Vec::new();
        conn.was_reset();
        conn.conditions_turn = None;
        conn.turn += 1;
        let Some(identity) = conn.identity.as_deref().cloned() else {
            return;
        };
        let out = conn.outbox.buf(&mut self.fx.buffers);
        let handshake = ServerHandshake::change_user(login, identity, out);
        conn.phase = ConnPhase::Login(Box::new(handshake));
        self.servers.set_state(conn_id, ConnState::Connecting);
        self.touch_server(conn_id);
        self.forget_stmts(conn_id);
    }

    /// See [`Worker::server_connected`](crate::Worker::server_connected).
    pub(crate) fn server_connected(&mut self, id: ConnId) {
        let Some(conn) = self.servers.conns.get_mut(id) else {
            return;
        };
        let phase = std::mem::replace(&mut conn.phase, ConnPhase::Ready);
        conn.phase = match phase {
            ConnPhase::Connecting(handshake) => ConnPhase::Login(handshake),
            other => other,
        };
    }
}

impl Exchange {
    /// Bytes of a server that the proxy logs in to.
    pub(crate) fn server_login_read(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.core.servers.conns.get_mut(id) else {
            return;
        };
        conn.inbox.extend_from_slice(bytes);
        while let Some(conn) = self.core.servers.conns.get_mut(id) {
            let ConnPhase::Login(handshake) = &mut conn.phase else {
                break;
            };
            if handshake.awaits_tls() {
                // The driver takes it.
                return;
            }
            let Some((header, payload, rest)) = frame::split_packet(&conn.inbox) else {
                if conn.inbox.len() > LOGIN_BYTES_MAX {
                    self.server_broke(id, "sent too much before the login was over");
                }
                return;
            };
            let consumed = conn.inbox.len() - rest.len();
            let out = conn.outbox.buf(&mut self.core.fx.buffers);
            let step = handshake.on_packet(header, payload, out);
            conn.inbox.drain(..consumed);
            self.core.touch_server(id);
            self.server_step(id, step);
        }
        // A server says nothing between the login's OK and the first command.
        if let Some(conn) = self.core.servers.conns.get_mut(id)
            && !conn.inbox.is_empty()
        {
            self.server_broke(id, "spoke without being asked");
        }
    }

    /// See [`Worker::server_encrypted`](crate::Worker::server_encrypted).
    pub(crate) fn on_server_encrypted(&mut self, id: ConnId, ciphertext: Option<Vec<u8>>) {
        self.server_login_resumed(id, |handshake, out| handshake.on_encrypted(ciphertext, out));
    }

    /// See [`Worker::server_derived`](crate::Worker::server_derived).
    pub(crate) fn on_server_derived(&mut self, id: ConnId, seed: Option<Secret<[u8; 32]>>) {
        self.server_login_resumed(id, |handshake, out| handshake.on_derived(seed, out));
    }

    fn server_login_resumed(
        &mut self,
        id: ConnId,
        resume: impl FnOnce(&mut ServerHandshake, &mut Vec<u8>) -> ServerStep,
    ) {
        let Some(conn) = self.core.servers.conns.get_mut(id) else {
            return;
        };
        let ConnPhase::Login(handshake) = &mut conn.phase else {
            return;
        };
        let step = resume(handshake, conn.outbox.buf(&mut self.core.fx.buffers));
        self.core.touch_server(id);
        self.server_step(id, step);
        self.server_login_read(id, &[]);
    }

    fn server_step(&mut self, id: ConnId, step: ServerStep) {
        match step {
            ServerStep::Continue => {}
            ServerStep::StartTls => self.start_server_tls(id),
            ServerStep::Encrypt { public_key_pem, plaintext } => {
                self.core.fx.act(Action::Encrypt { conn: id, public_key_pem, plaintext });
            }
            ServerStep::Derive { password, derivation } => {
                self.core.fx.act(Action::Derive { conn: id, password, derivation });
            }
            ServerStep::Ready(identity) => self.server_ready(id, *identity),
            ServerStep::Failed(failure) => self.login_failed(id, failure),
        }
    }

    fn server_ready(&mut self, id: ConnId, identity: ServerIdentity) {
        let Some(conn) = self.core.servers.conns.get_mut(id) else {
            return;
        };
        conn.flavor = identity.greeting.flavor();
        conn.names_changes = names_changes(&identity.greeting);
        conn.format = ReplyFormat::of(identity.capabilities);
        conn.takes_attributes = identity.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let charset = Charset::Collation(identity.collation);
        conn.state = self.core.servers.states.intern(SessionState::new(Schema::None, charset));
        let capabilities = identity.capabilities;
        let is_new = conn.identity.is_none();
        let flags = identity.status;
        let thread = identity.greeting.connection_id;
        conn.identity = Some(Box::new(identity));
        if let Some(slot) = self.core.servers.pool.slot(conn.slot).filter(|_| is_new) {
            conn.incarnation = slot.server.health.establish(thread, conn.last_thread);
        }
        conn.phase = ConnPhase::Ready;
        let (hostgroup, slot, forwards) = (conn.hostgroup, conn.slot, conn.forwards);
        let took_us = self.core.env.now.us.saturating_sub(conn.login_us);
        let slot_index = slot.index();
        self.core.servers.password_turns.taken(slot_index, conn.account);
        self.core.servers.set_state(id, ConnState::Unlisted);
        if let Some(slot) = self.core.servers.pool.slot(slot) {
            slot.server.health.count_success();
        }
        self.core.learn_autocommit(id, Some(flags));
        self.core.servers.last_failures.remove(&hostgroup);
        self.core.fx.stats.server_mut(slot_index).connect_ok += 1;
        self.core.fx.stats.connected(took_us);
        match forwards {
            Some(client) => self.forward_ready(id, client),
            None => {
                self.core.begin_server_packing(id, capabilities);
                self.core.switch_trackers_on(id, Behind::Login);
                if !self.kill_carrier_ready(id) {
                    self.core.freed(id);
                }
            }
        }
    }

    /// The server refused the login. Wrong credentials are the account's fault, so those who
    /// wait as this account are told at once; a wrong schema is the fast-forward client's that
    /// named it; anything else counts against the server.
    fn login_failed(&mut self, id: ConnId, failure: ServerFailure) {
        let Some(conn) = self.core.servers.conns.get(id) else {
            return;
        };
        let (hostgroup, account, slot) = (conn.hostgroup, conn.account, conn.slot);
        let forwards = conn.forwards;
        let address =
            self.core.servers.pool.slot(slot).map(|slot| slot.server.key.address.to_string());
        let address = address.unwrap_or_default();
        let user = self.core.servers.accounts.key(account).map(|key| key.server_user().to_owned());
        let user = user.unwrap_or_default();
        let text = failure.message.clone();
        self.core.fx.log(true, || format!("server {address} refused user {user}: {text}"));
        match (failure.kind, forwards) {
            (FailureKind::AuthenticationDenied, _) if self.try_other_password(id) => return,
            (FailureKind::AuthenticationDenied, _) => self.core.doubt(account),
            (FailureKind::NeedsPassword, _) => {}
            (FailureKind::SchemaDenied, Some(client)) => {
                self.core.fx.stats.server_mut(slot.index()).connect_err += 1;
                self.core.drop_conn(id);
                self.refuse(client, 1, failure.as_told(failure.message.clone()));
                return self.core.fx.wake(Wake::Queue(hostgroup));
            }
            (FailureKind::SchemaDenied, None)
            | (FailureKind::TooManyConnections | FailureKind::Protocol | FailureKind::Other, _) => {
                return self.connect_failed(id, &failure.message);
            }
        }
        self.core.fx.stats.server_mut(slot.index()).connect_err += 1;
        self.core.kill_carrier_lost(id, 0, &failure.message);
        self.core.drop_conn(id);
        let text = format!("server {address} refused the account: {}", failure.message);
        if let Some(client) = forwards {
            self.refuse(client, 1, failure.as_told(text.clone()));
        }
        while let Some(waiter) =
            self.core.servers.pool.waiters(hostgroup).take(|w| w.account == account)
        {
            self.core.fx.stats.refused(RefusalCause::AuthenticationFailed);
            self.fail_unsent(waiter.client, failure.as_told(text.clone()));
        }
        self.core.fx.wake(Wake::Queue(hostgroup));
    }
}

impl Core {
    /// A server does not take an account: if it comes from a server, it may be another one now.
    fn doubt(&mut self, account: AccountId) {
        if self.servers.accounts.key(account).is_some_and(AccountKey::is_granted) {
            self.look_up_users(None);
        }
    }
}

/// Attributes in the form in which a login takes them.
pub(crate) fn as_sent(attributes: &[Attribute]) -> Vec<(Vec<u8>, Vec<u8>)> {
    attributes.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

/// Whether a server's session tracker tells the change of each variable under that one's name.
/// Measured: MariaDB 11.8 tells those that have no place of their own (`last_insert_id`,
/// `timestamp`, …) as `last_gtid`; 10.11 does not.
fn names_changes(greeting: &Greeting) -> bool {
    let version = ServerVersion::of_greeting(&greeting.server_version);
    greeting.flavor() == Flavor::MySql || version < ServerVersion::new(11, 0)
}
