//! Step 7, when a connection has to be made: opening and logging in.

use std::sync::Arc;

use trunkline_pool::{AccountId, ConnId, ConnState};
use trunkline_protocol::{
    capability::Capabilities,
    codec::frame,
    packet::greeting::{Flavor, Greeting},
    response::ReplyFormat,
};
use trunkline_session::{
    backend::{FailureKind, ServerFailure, ServerHandshake, ServerIdentity, ServerStep, TlsWish},
    frontend::Attribute,
    tracker::{Charset, Schema, SessionState},
};
use trunkline_sql::version::ServerVersion;
use trunkline_topology::{RefusalCause, Secret, ServerCompression, TlsMode};

use crate::{
    Action,
    clients::client::Phase,
    effects::Wake,
    rooms::{Core, Exchange, Lender},
    servers::conn::{AccountKey, Conn, ConnPhase},
    servers::trackers::Behind,
};

/// How long a server that has no room for another connection (1040) is not asked for one, ms.
const FULL_MS: u64 = 200;

/// Asked of every server beyond what the client's behaviour needs.
pub(crate) const ALWAYS_WANTED: Capabilities = Capabilities::LONG_PASSWORD
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

pub(crate) fn tls_wanted(mode: TlsMode) -> TlsWish {
    match mode {
        TlsMode::Disabled => TlsWish::Never,
        TlsMode::Preferred => TlsWish::Offered,
        TlsMode::Required | TlsMode::VerifyCa | TlsMode::VerifyIdentity => TlsWish::Always,
    }
}

pub(crate) fn compression_wanted(compression: ServerCompression) -> Capabilities {
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

impl Core {
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

    /// A server does not take an account: if it comes from a server, it may be another one now.
    fn doubt(&mut self, account: AccountId) {
        if self.servers.logins.accounts.key(account).is_some_and(AccountKey::is_granted) {
            self.look_up_users(None);
        }
    }
}

impl Exchange {
    /// Bytes of a server that the proxy logs in to.
    pub(crate) fn server_login_read(&mut self, conn: &mut Conn, bytes: &[u8]) {
        conn.io.inbox.extend_from_slice(bytes);
        while let ConnPhase::Login(handshake) = &mut conn.phase {
            if handshake.awaits_tls() {
                // The driver takes it.
                return;
            }
            let Some((header, payload, rest)) = frame::split_packet(&conn.io.inbox) else {
                if conn.io.inbox.len() > LOGIN_BYTES_MAX {
                    self.server_broke(conn, "sent too much before the login was over");
                }
                return;
            };
            let consumed = conn.io.inbox.len() - rest.len();
            let out = conn.io.outbox.buf(&mut self.core.fx.buffers);
            let step = handshake.on_packet(header, payload, out);
            conn.io.inbox.drain(..consumed);
            self.core.touch_server(conn);
            self.server_step(conn, step);
        }
        // A server says nothing between the login's OK and the first command.
        if !conn.is_closed() && !conn.io.inbox.is_empty() {
            self.server_broke(conn, "spoke without being asked");
        }
    }

    /// See [`Worker::server_encrypted`](crate::Worker::server_encrypted).
    pub(crate) fn on_server_encrypted(&mut self, conn: &mut Conn, ciphertext: Option<Vec<u8>>) {
        self.server_login_resumed(conn, |handshake, out| handshake.on_encrypted(ciphertext, out));
    }

    /// See [`Worker::server_derived`](crate::Worker::server_derived).
    pub(crate) fn on_server_derived(&mut self, conn: &mut Conn, seed: Option<Secret<[u8; 32]>>) {
        self.server_login_resumed(conn, |handshake, out| handshake.on_derived(seed, out));
    }

    fn server_login_resumed(
        &mut self,
        conn: &mut Conn,
        resume: impl FnOnce(&mut ServerHandshake, &mut Vec<u8>) -> ServerStep,
    ) {
        let ConnPhase::Login(handshake) = &mut conn.phase else {
            return;
        };
        let step = resume(handshake, conn.io.outbox.buf(&mut self.core.fx.buffers));
        self.core.touch_server(conn);
        self.server_step(conn, step);
        self.server_login_read(conn, &[]);
    }

    fn server_step(&mut self, conn: &mut Conn, step: ServerStep) {
        match step {
            ServerStep::Continue => {}
            ServerStep::StartTls => self.start_server_tls(conn),
            ServerStep::Encrypt { public_key_pem, plaintext } => {
                self.core.fx.act(Action::Encrypt { conn: conn.id, public_key_pem, plaintext });
            }
            ServerStep::Derive { password, derivation } => {
                self.core.fx.act(Action::Derive { conn: conn.id, password, derivation });
            }
            ServerStep::Ready(identity) => self.server_ready(conn, *identity),
            ServerStep::Failed(failure) => self.login_failed(conn, failure),
        }
    }

    fn server_ready(&mut self, conn: &mut Conn, identity: ServerIdentity) {
        conn.server.flavor = identity.greeting.flavor();
        conn.server.names_changes = names_changes(&identity.greeting);
        conn.server.format = ReplyFormat::of(identity.capabilities);
        conn.server.takes_attributes =
            identity.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let charset = Charset::Collation(identity.collation);
        conn.state = self.core.servers.states.intern(SessionState::new(Schema::None, charset));
        let capabilities = identity.capabilities;
        let is_new = conn.server.identity.is_none();
        let flags = identity.status;
        let thread = identity.greeting.connection_id;
        conn.server.identity = Some(Box::new(identity));
        if let Some(slot) = self.core.servers.pool.slot(conn.slot).filter(|_| is_new) {
            conn.server.incarnation = slot.server.health.establish(thread, conn.server.last_thread);
        }
        conn.phase = ConnPhase::Ready;
        conn.login.ready_us = self.core.env.now.us;
        let (slot, forwards) = (conn.slot, conn.login.forwards);
        let took_us = self.core.env.now.us.saturating_sub(conn.login.login_us);
        let slot_index = slot.index();
        self.core.servers.logins.password_turns.taken(slot_index, conn.login.account);
        self.core.servers.set_state(conn, ConnState::Unlisted);
        // One from before a shun is not used: it does not end that, or would be made over and over.
        let server = self.core.servers.pool.slot(slot).map(|slot| &slot.server.health);
        if let Some(health) = server.filter(|health| health.epoch() == conn.server.epoch) {
            health.count_success();
        }
        self.core.learn_autocommit(conn, Some(flags));
        self.core.servers.logins.last_failures.remove(&conn.server.hostgroup);
        self.core.fx.stats.server_mut(slot_index).connect_ok += 1;
        self.core.fx.stats.connected(took_us);
        match forwards {
            Some(client) => drop(self.with_client(client, |exchange, client| {
                exchange.forward_ready(conn, client);
            })),
            None => {
                self.core.begin_server_packing(conn, capabilities);
                self.core.switch_trackers_on(conn, Behind::Login, None);
                if !self.core.kill_carrier_ready(conn) {
                    self.core.freed(conn);
                }
            }
        }
    }

    /// The server refused the login. Wrong credentials are the account's fault, so those who
    /// wait as this account are told at once; an account at its own limit waits on; a wrong schema
    /// is the fast-forward client's that named it; anything else counts against the server.
    fn login_failed(&mut self, conn: &mut Conn, failure: ServerFailure) {
        let (hostgroup, account, slot) = (conn.server.hostgroup, conn.login.account, conn.slot);
        let forwards = conn.login.forwards;
        let address =
            self.core.servers.pool.slot(slot).map(|slot| slot.server.key.address.to_string());
        let address = address.unwrap_or_default();
        let user =
            self.core.servers.logins.accounts.key(account).map(|key| key.server_user().to_owned());
        let user = user.unwrap_or_default();
        let text = failure.message.clone();
        self.core.fx.log(true, || format!("server {address} refused user {user}: {text}"));
        match (failure.kind, forwards) {
            (FailureKind::AuthenticationDenied, _) if self.try_other_password(conn) => return,
            (FailureKind::AuthenticationDenied, _) => self.core.doubt(account),
            (FailureKind::NeedsPassword | FailureKind::Unproven, _) => {}
            // Asked again at the next tick.
            (FailureKind::AccountLimit, _) => {
                return self.give_up_connecting(conn, &failure.message);
            }
            (FailureKind::SchemaDenied, Some(client)) => {
                self.core.fx.stats.server_mut(slot.index()).connect_err += 1;
                self.core.drop_conn(conn);
                let error = failure.as_told(failure.message.clone());
                self.with_client(client, |exchange, client| exchange.refuse(client, 1, error));
                return self.core.fx.wake(Wake::Queue(hostgroup));
            }
            // It lives, and those that it has let in go on: it is asked again in a while.
            (FailureKind::TooManyConnections, _) => {
                let until_ms = self.core.env.now.ms() + FULL_MS;
                if let Some(slot) = self.core.servers.pool.slot(slot) {
                    slot.server.health.set_full(until_ms);
                }
                self.give_up_connecting(conn, &failure.message);
                return self.core.fx.wake(Wake::Queue(hostgroup));
            }
            (FailureKind::SchemaDenied, None) | (FailureKind::Protocol | FailureKind::Other, _) => {
                return self.connect_failed(conn, &failure.message);
            }
        }
        self.core.fx.stats.server_mut(slot.index()).connect_err += 1;
        self.core.kill_carrier_lost(conn.id, 0, &failure.message);
        self.core.drop_conn(conn);
        let text = format!("server {address} refused the account: {}", failure.message);
        if let Some(client) = forwards {
            let error = failure.as_told(text.clone());
            self.with_client(client, |exchange, client| exchange.refuse(client, 1, error));
        }
        while let Some(waiter) =
            self.core.servers.pool.waiters(hostgroup).take(|w| w.account == account)
        {
            self.core.fx.stats.refused(RefusalCause::AuthenticationFailed);
            let error = failure.as_told(text.clone());
            self.with_client(waiter.client, |exchange, client| match client.phase {
                Phase::AwaitServer(_) => exchange.refuse(client, 1, error),
                _ => exchange.fail_unsent(client, error, None),
            });
        }
        self.core.fx.wake(Wake::Queue(hostgroup));
    }

    fn start_server_tls(&mut self, conn: &mut Conn) {
        let (Some(slot), Some(account)) = (
            self.core.servers.pool.slot(conn.slot),
            self.core.servers.logins.accounts.key(conn.login.account),
        ) else {
            return self.lose_conn(conn, "its server has gone");
        };
        let server = Arc::clone(&slot.server);
        let params = Arc::clone(server.tls.params_of(account.server_user()));
        self.core.fx.act(Action::StartServerTls { conn: conn.id, server, params });
    }

    /// The server refused the account's password: the other one is tried, if there is one that was
    /// not refused just before. Whether it is.
    fn try_other_password(&mut self, conn: &mut Conn) -> bool {
        let (slot, account, tried) = (conn.slot.index(), conn.login.account, conn.login.password);
        let (hostgroup, forwards) = (conn.server.hostgroup, conn.login.forwards);
        let waited = conn.login.forwards_waited;
        let goes_on = self.core.has_retained(account)
            && self.core.servers.logins.password_turns.refused(
                slot,
                account,
                tried,
                self.core.env.now.ms(),
            );
        if !goes_on {
            return false;
        }
        self.core.fx.stats.server_mut(slot).connect_err += 1;
        self.core.drop_conn(conn);
        if let Some(client) = forwards {
            self.with_client(client, |exchange, client| exchange.open_forward(client, waited));
        }
        self.core.fx.wake(Wake::Queue(hostgroup));
        true
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

#[cfg(test)]
mod tests;
