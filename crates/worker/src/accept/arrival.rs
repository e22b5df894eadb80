//! Where a client comes from, and whether anybody may come from there: before its login is read.
//!
//! A client of a balancer is greeted before its address is known, as MariaDB does it: the header
//! that tells it comes with, or in place of, what the client itself says first.

use std::sync::Arc;

use trunkline_protocol::{
    error::{ClientError, ErrorKind},
    proxy_header::{self, HeaderError, Opening},
};
use trunkline_stats::ClientRefusal;
use trunkline_topology::{AllowList, FailedLoginLimits, Origin, Waiting};

use crate::{
    action::Peer,
    clients::client::Frontend,
    clients::client::Phase,
    clients::session::ClientEntry,
    env::Env,
    rooms::{Core, Exchange},
};

/// What is settled of where a client comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A balancer's header may come, and tell its address.
    AwaitHeader,
    /// It may log in.
    Admitted,
    /// It was greeted, and may not: its first packet is answered with this.
    TurnedAway(Turned),
}

/// Why nobody from there may log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turned {
    /// `listen_allow` does not name the address.
    NotAllowed,
    /// As many clients as may be have logged in.
    Full,
    /// So have as many as may from its address.
    AddressFull,
}

impl Turned {
    fn cause(self) -> ClientRefusal {
        match self {
            Self::NotAllowed => ClientRefusal::AddressNotAllowed,
            Self::Full => ClientRefusal::TooManyConnections,
            Self::AddressFull => ClientRefusal::AddressConnections,
        }
    }

    /// What it is told.
    pub(crate) fn error(self, host: &str) -> ClientError {
        match self {
            Self::NotAllowed => {
                let text = format!("Host '{host}' is not allowed to connect to this server");
                ErrorKind::HostNotAllowed.says(text)
            }
            Self::Full | Self::AddressFull => {
                ErrorKind::TooManyConnections.says("Too many connections")
            }
        }
    }
}

impl Env {
    /// Whether a client's listener takes whoever comes from there.
    pub(crate) fn is_allowed(&self, peer: &Peer) -> bool {
        let own = self.snapshot.listen_allow(peer.listener);
        own.is_none_or(|own| own.includes(peer.client_addr, &peer.host_name))
    }

    /// Judges an address that is known.
    fn judge(&self, peer: &Peer) -> Result<(), Turned> {
        let settings = &self.snapshot.settings;
        let own = self.snapshot.listen_allow(peer.listener);
        // Where a name may let it in, it is judged when that is known.
        let may_be_named = own.is_some_and(AllowList::names_hosts) && peer.client_addr.is_some();
        if !may_be_named && !self.is_allowed(peer) {
            return Err(Turned::NotAllowed);
        }
        let Some(addr) = peer.client_addr else {
            return Ok(());
        };
        match settings.max_connections_per_address {
            0 => Ok(()),
            max if self.shared.addresses().is_full(addr, max) => Err(Turned::AddressFull),
            _ => Ok(()),
        }
    }

    /// How failed logins are answered.
    pub(crate) fn failed_login_limits(&self) -> FailedLoginLimits {
        let settings = &self.snapshot.settings;
        FailedLoginLimits {
            per_name: settings.failed_logins_max,
            per_origin: settings.failed_logins_per_address_max,
            wait_ms: settings.failed_login_delay,
            wait_max_ms: settings.failed_login_delay_max,
        }
    }

    /// Whether a balancer's header may come from there.
    fn may_tell_header(&self, peer: &Peer) -> bool {
        self.snapshot.settings.proxy_protocol_networks.includes(peer.client_addr)
    }
}

impl Core {
    /// What is settled of a client that has just connected, and why it is refused.
    pub(crate) fn arrive(
        &self,
        peer: &Peer,
        is_full: bool,
    ) -> (Arrival, Option<(ClientRefusal, Turned)>) {
        let refused = |turned: Turned| (Arrival::Admitted, Some((turned.cause(), turned)));
        if is_full {
            return refused(Turned::Full);
        }
        if self.env.may_tell_header(peer) {
            return (Arrival::AwaitHeader, None);
        }
        match self.env.judge(peer) {
            Ok(()) => (Arrival::Admitted, None),
            Err(turned) => refused(turned),
        }
    }

    /// A client has proved who it is: takes its places under the caps, which it has already after
    /// an earlier login.
    pub(crate) fn take_places(&mut self, client: &mut Frontend) -> Result<(), Turned> {
        if client.origin.has_place {
            return Ok(());
        }
        let settings = &self.env.snapshot.settings;
        let addr = client.origin.peer.client_addr;
        if let Some(addr) = addr.filter(|_| settings.max_connections_per_address > 0) {
            let max = settings.max_connections_per_address;
            let place = self.env.shared.addresses().take(addr, max);
            client.origin._address_place = Some(place.ok_or(Turned::AddressFull)?);
        }
        if !self.env.shared.take_client(settings.max_connections) {
            return Err(Turned::Full);
        }
        client.origin.has_place = true;
        self.leave_half_open(client);
        Ok(())
    }

    /// A client did not prove to be somebody: too often, and whoever says so has to wait.
    pub(crate) fn count_failed_login(&mut self, origin: Option<Origin>, name: &str) {
        let Some(origin) = origin else { return };
        let limits = self.env.failed_login_limits();
        let addresses = self.env.shared.addresses();
        let failed = addresses.failed(origin, name, self.env.now.ms(), limits);
        self.fx.stats.counters.failed_logins_forgotten += failed.forgotten;
        let Some(wait) = failed.wait else { return };
        self.fx.stats.counters.failed_login_blocks += 1;
        self.fx.log(true, || match wait.whose {
            Waiting::Name => {
                let name: String = name.chars().take(NAME_LOGGED_MAX).collect();
                format!("logins as {name:?} from {origin} fail: they have to wait {} ms", wait.ms)
            }
            Waiting::Origin => format!(
                "logins from {origin} fail with many names: those that are not known there have \
                 to wait {} ms",
                wait.ms
            ),
        });
    }

    /// A login succeeded.
    pub(crate) fn count_good_login(&self, client: &Frontend, name: &str) {
        let origin = client.origin.peer.origin();
        if let Some(origin) = origin.filter(|_| self.env.failed_login_limits().per_name > 0) {
            self.env.shared.addresses().succeeded(origin, name, self.env.now.ms());
        }
    }
}

/// The most characters of a name that is logged before its client has proven it.
const NAME_LOGGED_MAX: usize = 64;

impl Exchange {
    /// Looks for a balancer's header in what a greeted client has sent. Whether its login can be
    /// read.
    pub(crate) fn settle_arrival(&mut self, client: &mut ClientEntry) -> bool {
        if client.origin.arrival != Arrival::AwaitHeader {
            return true;
        }
        let Frontend { origin, io, .. } = &mut **client;
        match proxy_header::scan(&io.inbox) {
            Ok(Opening::Partial) => return false,
            Ok(Opening::Absent) => {}
            Ok(Opening::Whole(header, len)) => {
                let told = header.describe();
                if !told.is_empty() {
                    let told = Some(told.into());
                    origin.peer = Arc::new(Peer { told, ..(*origin.peer).clone() });
                }
                if !header.is_local {
                    // The process that is known is the balancer's.
                    origin.peer = Arc::new(Peer { client_uid: None, ..(*origin.peer).clone() });
                }
                if let Some((addr, _)) = header.addresses {
                    let client_addr = Some(addr.ip().to_canonical());
                    origin.peer = Arc::new(Peer { client_addr, ..(*origin.peer).clone() });
                    self.core.fx.stats.counters.proxy_headers += 1;
                }
                io.inbox.drain(..len);
            }
            Err(error) => {
                self.refuse_header(client, error);
                return false;
            }
        }
        let peer = Arc::clone(&client.origin.peer);
        let verdict = self.core.env.judge(&peer);
        client.origin.arrival = match verdict {
            Ok(()) => Arrival::Admitted,
            Err(turned) => Arrival::TurnedAway(turned),
        };
        self.core.count_half_open(client, peer.client_addr);
        true
    }

    fn refuse_header(&mut self, client: &mut ClientEntry, error: HeaderError) {
        let host = client.origin.peer.host();
        self.core
            .fx
            .log(true, || format!("balancer {host} sent a PROXY header that is wrong: {error}"));
        self.core.fx.stats.counters.client_refused(ClientRefusal::ProxyHeader);
        let text = format!("Bad handshake: the PROXY header is wrong: {error}");
        self.refuse_login(client, FIRST_ANSWER_SEQ, ErrorKind::BadHandshake.says(text));
    }

    /// Refuses a client whose login is due and of whose header only a part has come. Whether it
    /// did.
    pub(crate) fn refuse_late_header(&mut self, client: &mut ClientEntry) -> bool {
        if client.origin.arrival != Arrival::AwaitHeader || client.io.inbox.is_empty() {
            return false;
        }
        let host = client.origin.peer.host();
        self.core
            .fx
            .log(true, || format!("balancer {host} sent a part of a PROXY header, and no more"));
        self.core.fx.stats.counters.client_refused(ClientRefusal::ProxyHeader);
        let text = "Bad handshake: the PROXY header did not come in time";
        self.refuse_login(client, FIRST_ANSWER_SEQ, ErrorKind::BadHandshake.says(text));
        true
    }

    /// Answers the first packet of a client that may not log in.
    pub(crate) fn turn_away(&mut self, client: &mut ClientEntry, turned: Turned, seq: u8) {
        let error = turned.error(&client.origin.peer.host());
        self.core.fx.stats.counters.client_refused(turned.cause());
        self.refuse_login(client, seq, error);
    }

    /// Bytes that are no login: if they are a header, from where none is taken, that is said.
    pub(crate) fn refuse_garbage(&mut self, client: &mut ClientEntry) {
        let is_header = matches!(client.phase, Phase::Login(_))
            && !matches!(proxy_header::scan(&client.io.inbox), Ok(Opening::Absent));
        let host = client.origin.peer.host();
        let (cause, seq) = match is_header {
            true => (ClientRefusal::ProxyHeader, FIRST_ANSWER_SEQ),
            false => (ClientRefusal::HandshakeMalformed, 1),
        };
        if is_header {
            self.core.fx.log(true, || {
                format!("{host} sent a PROXY header, and is not in proxy_protocol_networks")
            });
        }
        self.core.fx.stats.counters.client_refused(cause);
        self.refuse_login(client, seq, ErrorKind::BadHandshake.says("Bad handshake"));
    }
}

/// The number of an answer to a client's first packet.
const FIRST_ANSWER_SEQ: u8 = 2;

#[cfg(test)]
mod tests;
