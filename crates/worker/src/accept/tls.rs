//! Encryption, as far as a worker knows of it: whether it is offered and asked for, when it begins,
//! and what came of it. The driver carries it out.

use trunkline_protocol::{auth::native, error::ErrorKind, packet::greeting::Flavor};
use trunkline_session::frontend::ClientIdentity;
use trunkline_stats::ClientRefusal;
use trunkline_topology::{TlsFacts, TlsOffer, TlsVersion, User};

use crate::{
    Action, Side,
    action::Peer,
    clients::client::Frontend,
    clients::client::Phase,
    clients::session::ClientEntry,
    env::Env,
    rooms::{Core, Exchange},
    servers::conn::{Conn, ConnPhase},
};

impl Env {
    /// Whether a client from there must use TLS. Nobody can listen on a Unix socket.
    pub(crate) fn must_encrypt(&self, peer: &Peer) -> bool {
        match peer.tls {
            Some(TlsOffer::Required) => true,
            Some(TlsOffer::Off) => false,
            Some(TlsOffer::Optional) | None => {
                self.snapshot.settings.require_secure_transport && peer.client_addr.is_some()
            }
        }
    }

    /// Whether a client from there may use TLS.
    pub(crate) fn may_encrypt(&self, peer: &Peer) -> bool {
        let is_off = match peer.tls {
            Some(TlsOffer::Off) => true,
            Some(TlsOffer::Optional | TlsOffer::Required) => false,
            None => !self.snapshot.settings.have_ssl,
        };
        self.offers_tls && !is_off
    }
}

impl Core {
    /// See [`Worker::offer_tls`](crate::Worker::offer_tls).
    pub(crate) fn offer_tls(&mut self, is_offered: bool) {
        self.env.offers_tls = is_offered;
    }

    /// Makes what the login is acknowledged with to prove the certificate, where enough is known.
    pub(crate) fn prepare_proof(&mut self, client: &mut ClientEntry, identity: &ClientIdentity) {
        // As MariaDB does: not again with a change of user.
        if client.client().is_some() || self.env.greeting.flavor() != Flavor::MariaDb {
            return;
        }
        let fingerprint = client.origin.tls.as_ref().and_then(|facts| facts.own_fingerprint);
        let known = identity.native_stage2.zip(fingerprint);
        client.origin.proof = known.map(|(stage2, fingerprint)| {
            native::certificate_proof(&stage2, &identity.nonce, &fingerprint).into()
        });
    }

    /// See [`Worker::received`](crate::Worker::received).
    pub(crate) fn received(&mut self, side: Side) -> Vec<u8> {
        let inbox = match side {
            Side::Client(id) => self.clients.table.get_mut(id).map(|client| &mut client.io.inbox),
            Side::Server(id) => self.servers.conns.get_mut(id).map(|conn| &mut conn.io.inbox),
        };
        inbox.map(std::mem::take).unwrap_or_default()
    }

    /// See [`Worker::listener_tls`](crate::Worker::listener_tls).
    pub(crate) fn listener_tls(&self, listener: usize) -> Option<TlsOffer> {
        let settings = &self.env.snapshot.settings;
        let address = settings.listen.get(listener)?;
        let own = settings.listen_tls.iter().find(|own| own.address == *address);
        own.map(|own| own.offer)
    }

    /// See [`Worker::client_tls_up`](crate::Worker::client_tls_up).
    pub(crate) fn on_client_tls_up(&mut self, client: &mut Frontend, facts: TlsFacts) {
        let Phase::Login(handshake) = &mut client.phase else {
            return;
        };
        debug_assert!(handshake.awaits_tls() && client.io.inbox.is_empty());
        handshake.on_tls();
        let counters = &mut self.fx.stats.counters;
        match (facts.version, facts.is_resumed) {
            (TlsVersion::V1_2, false) => counters.client_tls_12 += 1,
            (TlsVersion::V1_2, true) => counters.client_tls_12_resumed += 1,
            (TlsVersion::V1_3, false) => counters.client_tls_13 += 1,
            (TlsVersion::V1_3, true) => counters.client_tls_13_resumed += 1,
        }
        let resumed = client.origin.peer.client_addr.filter(|_| facts.is_resumed);
        client.origin.tls = Some(Box::new(facts));
        let is_limited = self.env.snapshot.settings.tls_handshakes_per_address_max > 0;
        if let Some(addr) = resumed.filter(|_| is_limited) {
            self.env.shared.addresses().give_back_handshake(addr);
        }
    }

    /// Says of a client whose time is up if it is TLS that did not come up.
    pub(crate) fn tell_of_late_tls(&mut self, client: &mut Frontend) {
        if matches!(&client.phase, Phase::Login(handshake) if handshake.awaits_tls()) {
            let host = client.origin.peer.host();
            let time_ms = self.env.snapshot.settings.connect_timeout_client;
            self.fx.stats.counters.client_tls_failed += 1;
            self.fx.log(false, || {
                format!("TLS with client {host} failed: no handshake within {time_ms} ms")
            });
        }
    }

    /// See [`Worker::server_tls_up`](crate::Worker::server_tls_up).
    pub(crate) fn on_server_tls_up(&mut self, conn: &mut Conn, facts: TlsFacts) {
        let ConnPhase::Login(handshake) = &mut conn.phase else {
            return;
        };
        debug_assert!(handshake.awaits_tls() && conn.io.inbox.is_empty());
        handshake.on_tls(conn.io.outbox.buf(&mut self.fx.buffers));
        let counters = &mut self.fx.stats.counters;
        match (facts.version, facts.is_resumed) {
            (TlsVersion::V1_2, false) => counters.server_tls_12 += 1,
            (TlsVersion::V1_2, true) => counters.server_tls_12_resumed += 1,
            (TlsVersion::V1_3, false) => counters.server_tls_13 += 1,
            (TlsVersion::V1_3, true) => counters.server_tls_13_resumed += 1,
        }
        conn.io.tls = Some(Box::new(facts));
        self.touch_server(conn);
    }

    /// Clients and server connections that are encrypted now.
    pub(crate) fn encrypted(&self) -> (u64, u64) {
        let clients =
            self.clients.table.values().filter(|client| client.origin.tls.is_some()).count();
        let conns = self.servers.conns.values().filter(|conn| conn.io.tls.is_some()).count();
        (clients as u64, conns as u64)
    }
}

impl Exchange {
    /// Judges a client's encryption by what its user requires; one that lacks it is refused.
    pub(crate) fn is_encrypted_as_required(
        &mut self,
        client: &mut ClientEntry,
        user: &User,
        seq: u8,
    ) -> bool {
        let Err(missing) = user.require.check(client.origin.tls.as_deref()) else {
            return true;
        };
        let host = client.origin.peer.host();
        self.core.fx.stats.counters.client_refused(ClientRefusal::TlsRequired);
        let text = format!("Access denied for user '{}'@'{host}' ({missing})", user.name);
        self.refuse_user(client, seq, ErrorKind::AccessDenied.says(text));
        false
    }

    /// Has TLS begin with a client, unless its address has had enough of it in this second.
    pub(crate) fn let_encrypt(&mut self, client: &mut ClientEntry) {
        let max = self.core.env.snapshot.settings.tls_handshakes_per_address_max;
        let addr = client.origin.peer.client_addr;
        let Some(addr) = addr.filter(|_| max > 0) else {
            return self.core.fx.act(Action::StartClientTls(client.id));
        };
        if self.core.env.shared.addresses().take_handshake(addr, self.core.env.now.ms(), max) {
            return self.core.fx.act(Action::StartClientTls(client.id));
        }
        self.core.fx.stats.counters.client_refused(ClientRefusal::AddressBlocked);
        self.core.fx.log(false, || {
            format!("client {addr} began more than {max} TLS handshakes in a second")
        });
        let text = format!("Host '{addr}' is blocked because of many TLS handshakes");
        self.refuse_login(client, 2, ErrorKind::HostBlocked.says(text));
    }
}
