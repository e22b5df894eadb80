//! The sessions of one worker, for an operator.

use trunkline_stats::{HeldConn, SessionList, SessionQuery, SessionRow};
use trunkline_topology::causal::CausalReads;

use crate::{
    clients::client::{Awaits, Lease, Phase, Session, Stage},
    clients::session::AnyClient,
    replay::Noted,
    rooms::Core,
    servers::hold::paused,
    statement::analysis::Known,
};

/// The longest digest text in a row, bytes.
const DIGEST_LEN_MAX: usize = 1_024;

impl Core {
    /// See [`Worker::sessions`](crate::Worker::sessions).
    pub(crate) fn sessions(&self, query: SessionQuery) -> SessionList {
        let mut list = SessionList::default();
        for client in self.clients.table.values().filter(|client| !client.is_mirror) {
            let is_pinned = client
                .session()
                .is_some_and(|session| session.leases.iter().any(|lease| !lease.pins.is_empty()));
            list.total += 1;
            list.pinned += u64::from(is_pinned);
            if is_pinned || !query.pinned_only {
                list.sessions.push(self.session_row(client));
                // What can't be among the rows is let go before there is much of it.
                if list.sessions.len() >= query.rows_max.saturating_mul(2).saturating_add(64) {
                    list.shorten(query);
                }
            }
        }
        list.shorten(query);
        let resets = self.fx.stats.counters.resets();
        list.resets = resets.map(|(reason, count)| (reason.to_owned(), count)).collect();
        list
    }

    pub(crate) fn session_row(&self, client: &impl AnyClient) -> SessionRow {
        let rested_us = self.env.now.ms().saturating_sub(client.active_ms) * 1_000;
        let (doing, doing_us, known) = match &client.phase {
            Phase::Login(_) => ("login".to_owned(), rested_us, None),
            Phase::Idle | Phase::Closing => ("idle".to_owned(), rested_us, None),
            Phase::ChangeUser => ("login".to_owned(), rested_us, None),
            Phase::AwaitKill(_) => ("killing".to_owned(), rested_us, None),
            Phase::AwaitNames(_) => ("waiting".to_owned(), rested_us, None),
            Phase::Forward(_) => ("forwarding".to_owned(), rested_us, None),
            Phase::AwaitServer(hostgroup) => {
                let held = self.doing_held(*hostgroup);
                (held.unwrap_or_else(|| "queued".to_owned()), rested_us, None)
            }
            Phase::Running(statement) => {
                let doing = match statement.stage {
                    Stage::Held(_) | Stage::Queued | Stage::Returning => "queued",
                    Stage::Synchronising(_) => "synchronising",
                    Stage::Preparing(_) => "preparing",
                    Stage::Sent(_) | Stage::Shared(_) => "running",
                };
                let since_us = self.env.now.us.saturating_sub(statement.command.begun_us);
                let held = match statement.stage {
                    Stage::Queued => self.doing_held(statement.target.hostgroup),
                    Stage::Held(ref held) if held.awaits == Awaits::Writer => {
                        Some(self.no_writer(statement.target.hostgroup))
                    }
                    Stage::Held(ref held) if held.awaits == Awaits::Position => {
                        Some("awaiting a replica".to_owned())
                    }
                    Stage::Held(ref held) if held.awaits == Awaits::Outcome => {
                        Some("finding out whether it was committed".to_owned())
                    }
                    Stage::Held(_) => client.held_by_pause().map(paused),
                    _ => None,
                };
                let progress = statement.beside.noted.as_ref().and_then(Noted::progress);
                let doing = match (held, progress) {
                    (Some(held), _) => held,
                    (None, Some((at, count))) => {
                        let number = (at + 1).min(count);
                        format!("repeating a transaction, statement {number} of {count}")
                    }
                    (None, None) => doing.to_owned(),
                };
                (doing, since_us, statement.meaning.known.as_deref())
            }
        };
        let client_addr = client.origin.peer.client_addr;
        let session = client.session();
        SessionRow {
            id: client.origin.number,
            worker: u32::try_from(self.env.options.index).unwrap_or(u32::MAX),
            user: session.map(|it| it.login.user.name.clone()).unwrap_or_default(),
            client: client_addr.map_or_else(|| "unix".to_owned(), |addr| addr.to_string()),
            tls: client.origin.tls.as_ref().map(ToString::to_string).unwrap_or_default(),
            balancer: client.origin.peer.told.as_deref().unwrap_or_default().to_owned(),
            schema: session.map(schema_of).unwrap_or_default(),
            doing,
            doing_us,
            digest_text: known.map(digest_text).unwrap_or_default(),
            causal_reads: session.map(|it| self.causal_words(it)).unwrap_or_default(),
            holds: session.map(|it| self.holds(it)).unwrap_or_default(),
        }
    }

    /// Which writes a session's reads have to see.
    fn causal_words(&self, session: &Session) -> String {
        let (snapshot, user) = (&self.env.snapshot, &session.login.user);
        let home = user.default_hostgroup;
        let readers = snapshot.writer_group(home).map_or(home, |group| group.reader_hostgroup);
        let scope = snapshot.causal.readers(readers).map(|_| snapshot.causal_reads(user, readers));
        scope.filter(|it| *it != CausalReads::Off).map(|it| it.to_string()).unwrap_or_default()
    }

    fn holds(&self, session: &Session) -> Vec<HeldConn> {
        let kept = session.transaction.kept.as_deref();
        let why_not = kept.and_then(|kept| Some((kept.conn, kept.why_not?)));
        let mut held: Vec<_> = session.leases.iter().map(|lease| self.held(lease)).collect();
        for (lease, row) in session.leases.iter().zip(&mut held) {
            if let Some((_, why)) = why_not.filter(|(conn, _)| *conn == lease.conn) {
                row.reasons.push(format!("not repeatable ({})", why.name()));
            }
        }
        held
    }

    fn held(&self, lease: &Lease) -> HeldConn {
        let conn = self.servers.conns.get(lease.conn);
        let slot = conn.and_then(|conn| self.servers.pool.slot(conn.slot));
        let cause = lease.pinned_by.as_ref();
        let (digest, digest_text) = cause.map_or((0, &[][..]), |cause| cause.statement.digest());
        let digest_text = digest_text.get(..DIGEST_LEN_MAX).unwrap_or(digest_text);
        let tls = conn.and_then(|conn| conn.io.tls.as_ref());
        HeldConn {
            tls: tls.map(ToString::to_string).unwrap_or_default(),
            hostgroup: lease.hostgroup.0,
            server: slot.map(|slot| slot.server.key.address.to_string()).unwrap_or_default(),
            reasons: lease.pins.reasons().map(|reason| reason.name().to_owned()).collect(),
            held_us: cause.map_or(0, |cause| self.env.now.us.saturating_sub(cause.since_us)),
            digest,
            digest_text: String::from_utf8_lossy(digest_text).into_owned(),
        }
    }
}

fn schema_of(session: &Session) -> String {
    String::from_utf8_lossy(session.settings.state.schema.name()).into_owned()
}

fn digest_text(known: &Known) -> String {
    let text = known.digest_text.get(..DIGEST_LEN_MAX).unwrap_or(&known.digest_text);
    String::from_utf8_lossy(text).into_owned()
}
