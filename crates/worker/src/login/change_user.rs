//! `COM_CHANGE_USER`: a client logs in anew on the same connection.
//!
//! What becomes of one that fails is the servers' custom, checked on both. MySQL ends the
//! connection. MariaDB keeps the user and the schema; the session's state is gone, as by a reset,
//! for that comes first, and it has the server's default character set, until a reset gives it the
//! one that the failed change named. After three failures on a
//! connection it knows the command no more (1047), whatever has succeeded in between. (It makes the
//! client wait for a second, which we do not: who guesses passwords is kept off by his address.)

use trunkline_pool::ConnId;
use trunkline_protocol::{
    codec::frame::{HEADER_LEN, put_payload},
    collation::lookup,
    error::ErrorKind,
    packet::{change_user::ChangeUser, greeting::Flavor},
    response::ResponseShape,
};
use trunkline_session::{
    frontend::{ClientHandshake, Refusal, Step},
    tracker::{Charset, PinReason},
};
use trunkline_topology::{HostgroupId, User};

use crate::{
    ClientId,
    clients::client::{Client, Frontend, Lease, Phase, Purpose, Session},
    clients::session::ClientEntry,
    login::LoginAccounts,
    rooms::{Core, Exchange, Lender},
    routing::route::Route,
    servers::dirt::RESET,
    shared::UserPlace,
};

/// Failures after which a connection of MariaDB's has no such command.
const FAILED_MAX: u8 = 3;

impl Exchange {
    /// `COM_CHANGE_USER`. What others may wait for, locks and open transactions, is given up before
    /// the client has its answer, as by a server.
    pub(crate) fn change_user(&mut self, client: &mut Client, payload: &[u8]) {
        let held = held_lease(&client.session);
        let is_unknown = self.core.env.keeps_user() && client.failed_changes >= FAILED_MAX;
        let Some((hostgroup, conn)) = held.filter(|_| !is_unknown) else {
            return self.core.change_when_over(client, payload.into());
        };
        self.core.keep_one_lease(client, Some(conn));
        // Who fails to change may ask for what a reset takes.
        self.with_conn(conn, |exchange, conn| {
            exchange.core.fetch_traces(conn, Some(&mut *client), None, false);
        });
        let mut frames = Vec::with_capacity(HEADER_LEN + RESET.len());
        put_payload(&mut frames, 0, RESET);
        let purpose = Purpose::ChangeUser(payload.into());
        let statement = self.core.statement(&frames, ResponseShape::Single, purpose);
        self.run_on_route(client, Route::Lease(hostgroup, conn), statement);
    }

    /// Goes on with a `COM_CHANGE_USER` whose session has given up what it held.
    pub(crate) fn change_released(&mut self, id: ClientId, payload: &[u8]) {
        let step = self.with_client(id, |exchange, client| {
            debug_assert!(matches!(client.phase, Phase::ChangeUser));
            exchange.begin_login_anew(client, payload)
        });
        self.with_entry(id, |exchange, entry| {
            if let Some(step) = step.flatten() {
                exchange.login_step(entry, step);
            }
            exchange.core.wake_commands(entry);
        });
    }

    fn begin_login_anew(&mut self, client: &mut Client, payload: &[u8]) -> Option<Step> {
        let keeps = self.core.env.keeps_user();
        if keeps && client.failed_changes >= FAILED_MAX {
            let error = ErrorKind::UnknownCommand.says("Unknown command");
            self.core.stay(client, None);
            client.note_error(&error);
            self.core.write_error(client, 1, &error);
            return None;
        }
        if keeps {
            name_charset(&mut client.session, payload);
        }
        let Frontend { origin, io, .. } = &mut client.front;
        let accounts = LoginAccounts::new(&self.core.env, &origin.peer, origin.tls.is_some());
        let (handshake, step) = ClientHandshake::change_user(
            client.session.login.capabilities,
            origin.nonce,
            payload,
            0,
            &accounts,
            io.outbox.buf(&mut self.core.fx.buffers),
        );
        client.phase = Phase::Login(Box::new(handshake));
        self.core.touch_client(client);
        let deadline =
            self.core.env.now.ms() + self.core.env.snapshot.settings.connect_timeout_client;
        self.core.clients.logins.logging_in.push_back((deadline, client.id));
        Some(step)
    }
}

/// Where a session holds something, before all what others may wait for.
pub(crate) fn held_lease(session: &Session) -> Option<(HostgroupId, ConnId)> {
    let held = session.leases.iter().filter(|lease| !lease.pins.is_empty());
    let lease = held.max_by_key(|lease| holds_others_up(lease))?;
    Some((lease.hostgroup, lease.conn))
}

/// Whether others may wait for what is held on a connection.
fn holds_others_up(lease: &Lease) -> bool {
    use PinReason::{BackupLock, NamedLock, TableLock, Transaction, Xa};
    [Transaction, NamedLock, TableLock, BackupLock, Xa].iter().any(|it| lease.pins.has(*it))
}

/// A reset goes back to the character set that was named last, by a change of user that fails as
/// well.
fn name_charset(session: &mut Session, payload: &[u8]) {
    let change = ChangeUser::parse(payload, session.login.capabilities);
    let named = change.ok().and_then(|change| change.collation);
    if let Some(named) = named.filter(|named| lookup(Flavor::MariaDb, *named).is_some()) {
        session.login.handshake_charset = Charset::Collation(named);
    }
}

impl Core {
    /// The old session ends, as its client has proved to be somebody. It is kept for the case that
    /// the change fails after all.
    pub(super) fn part_from_session(
        &mut self,
        entry: &mut ClientEntry,
        user: &User,
    ) -> Option<UserPlace> {
        let client = entry.client_mut()?;
        if !self.env.keeps_user() {
            self.end_session(client, None);
            entry.forget_session();
            return None;
        }
        self.log_session(client, "MySQL_Client_Close", String::new);
        self.free_leases(client, None);
        let soiled = std::mem::take(&mut client.session.soiled);
        self.reset_soiled(client.id, soiled, None);
        let login = &mut client.session.login;
        login.place.take_if(|_| login.user.key() == user.key())
    }

    /// Who failed to prove anything stays who he was. False for a first login, and where that ends
    /// the connection.
    pub(super) fn keeps_after(&mut self, entry: &mut ClientEntry, because: Refusal) -> bool {
        let kind = match because {
            Refusal::AccessDenied => ErrorKind::AccessDenied,
            Refusal::OutdatedAuthentication => ErrorKind::OutdatedAuthentication,
            Refusal::TlsRequired
            | Refusal::BadHandshake
            | Refusal::TlsNotOffered
            | Refusal::OutOfOrder
            | Refusal::MustWait(_) => return false,
        };
        let Some(client) = entry.client_mut() else { return false };
        let keeps = self.keep_user(client, None);
        if keeps {
            client.note_error(&kind.says("Access denied"));
        }
        keeps
    }

    /// The new session's place under its user's cap: the old one's, where it is the same user's.
    pub(super) fn place_of_user(
        &mut self,
        own: Option<UserPlace>,
        user: &User,
    ) -> Option<UserPlace> {
        own.or_else(|| self.env.shared.take_user(&user.key(), user.max_connections))
    }
}
