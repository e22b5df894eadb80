//! A write that a server has refused since it is not the writer any more waits for the next one.

use trunkline_catalog::Hidden;
use trunkline_protocol::{codec::frame::split_packet, packet::err, response::Outcome};
use trunkline_sql::analysis::{Depends, StatementKind, TransactionEffect};
use trunkline_topology::Seen;

use crate::{
    clients::client::{Awaits, Client, Phase, Purpose, Session, Stage, Statement},
    commands::prepared::is_bulk,
    replay::Noted,
    rooms::{Core, Exchange},
    routing::route::Route,
    servers::conn::Conn,
    servers::read_only::says_read_only,
};

/// How long a refused write waits before it is looked for the writer again, ms.
const LOOK_AGAIN_MS: u64 = 20;

/// Why a client is told that its write was refused, though its cluster may soon have another
/// writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Its session holds something on that server: a transaction, a temporary table, a lock.
    Held,
    /// It is not proven that nothing has happened.
    Unproven,
    /// It has been refused for all of `hold_timeout`.
    Late,
}

impl Exchange {
    /// Takes back the answer to a write that its server has refused without doing anything, and has
    /// the write wait for its cluster's writer. False where the client is told. `answer`: the last
    /// bytes of the answer, which have just come.
    #[cold]
    pub(crate) fn withholds_refusal(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        outcome: &Outcome,
        answer: &[u8],
    ) -> bool {
        if !outcome.error.as_ref().is_some_and(says_read_only) {
            return false;
        }
        let Phase::Running(statement) = &client.phase else { return false };
        if statement.beside.noted.as_ref().is_some_and(Noted::is_repeated) {
            return false;
        }
        let hostgroup = statement.target.hostgroup;
        let Some(cluster) = self.core.env.snapshot.cluster_writing_in(hostgroup) else {
            return false;
        };
        if conn.server.hostgroup != hostgroup {
            return false;
        }
        let timeout_ms = cluster.entry.hold_timeout;
        let timeout_ms = timeout_ms.unwrap_or(self.core.env.snapshot.settings.hold_timeout);
        let why = self.core.why_told(client, conn, outcome, answer, timeout_ms);
        let counters = &mut self.core.fx.stats.counters;
        match why {
            Some(Told::Held) => counters.refusals_told_held += 1,
            Some(Told::Unproven) => counters.refusals_told_unproven += 1,
            Some(Told::Late) => counters.refusals_told_late += 1,
            None => {
                counters.refusals_withheld += 1;
                self.core.wait_for_writer(client, conn, answer.len());
                return true;
            }
        }
        false
    }
}

impl Core {
    fn why_told(
        &self,
        client: &Client,
        conn: &Conn,
        outcome: &Outcome,
        answer: &[u8],
        timeout_ms: u64,
    ) -> Option<Told> {
        let Some((statement, session)) = client.running() else { return Some(Told::Unproven) };
        let waited_ms = self.env.now.us.saturating_sub(statement.command.begun_us) / 1_000;
        let is_proven = is_only_answer(outcome, answer)
            && !client.is_mirror
            && statement.ending.is_none()
            && statement.stage == Stage::Sent(conn.id)
            // Who was told that it is killed does not see it run.
            && !conn.may_be_hit()
            && is_simple_write(statement)
            && statement.is_unchanged(self.env.shared.catalog());
        match () {
            () if holds_something(session, conn) => Some(Told::Held),
            () if !is_proven => Some(Told::Unproven),
            () if waited_ms >= timeout_ms => Some(Told::Late),
            () => None,
        }
    }

    /// The write waits, and its connection is free. The last `len` bytes for the client, the
    /// refusal, have not been written yet.
    fn wait_for_writer(&mut self, client: &mut Client, conn: &mut Conn, len: usize) {
        client.io.outbox.take_back(len);
        if let Some(slot) = self.servers.pool.slot(conn.slot) {
            slot.server.health.note(Seen::READ_ONLY);
        }
        let left = client.session.leave(conn.id);
        if let Phase::Running(statement) = &mut client.phase {
            let route = Route::Hostgroup(statement.target.hostgroup);
            statement.stage = Stage::held(Awaits::Writer, route, 0);
            statement.prepared.runs_last = false;
        }
        if let Some(left) = left {
            self.free_lease(client, &left.lease, Some(conn));
        }
        let at_ms = self.env.now.ms() + LOOK_AGAIN_MS;
        self.clients.set_timer(client, at_ms);
    }
}

/// Whether the answer is one error, whose bytes these are.
pub(super) fn is_only_answer(outcome: &Outcome, answer: &[u8]) -> bool {
    let is_first = outcome.status.is_none() && outcome.result_sets == 0;
    let is_error = matches!(split_packet(answer), Some((_, [err::HEADER, ..], [])));
    is_first && is_error && outcome.bytes == answer.len() as u64
}

/// Whether a session has something on a server that it would not have on another one.
fn holds_something(session: &Session, conn: &Conn) -> bool {
    let lease = session.leases.iter().find(|lease| lease.conn == conn.id);
    session.is_in_transaction()
        || session.settings.begun.is_some()
        || session.settings.state.is_autocommit_off()
        || lease.is_none_or(|lease| lease.is_in_trans || !lease.pins.is_empty())
}

/// Whether a statement writes into one table and does nothing else, by its text or by a trigger:
/// refused, it has done nothing.
fn is_simple_write(statement: &Statement) -> bool {
    const HARMS: [Hidden; 5] =
        [Hidden::WRITES, Hidden::LEAVES, Hidden::STAYS, Hidden::READS_SESSION, Hidden::CHANGED];
    // What an earlier statement has left on the connection that is given up.
    const PAST: [Depends; 7] = [
        Depends::LAST_INSERT_ID,
        Depends::ROW_COUNT,
        Depends::FOUND_ROWS,
        Depends::DIAGNOSTICS,
        Depends::CONNECTION_ID,
        Depends::TRACKERS,
        Depends::LAST_GTID,
    ];
    // Of an execution for many rows, the server commits each, and refuses what is left.
    let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute)
        && !is_bulk(statement);
    let Some(known) = statement.meaning.known.as_ref().filter(|_| is_run) else { return false };
    let analysis = &known.analysis;
    let hidden = statement.meaning.proof.hidden;
    let is_write = matches!(
        analysis.kind,
        StatementKind::Insert
            | StatementKind::Update
            | StatementKind::Delete
            | StatementKind::Replace
    );
    is_write
        && analysis.statements == 1
        && analysis.is_complete
        && analysis.effects.is_empty()
        && analysis.transaction == TransactionEffect::None
        && analysis.references.tables.len() == 1
        && !HARMS.iter().any(|harm| hidden.may(*harm))
        && !PAST.iter().any(|past| analysis.depends.contains(*past))
        && statement.beside.fill.is_none()
        && statement.beside.mirrored.is_none()
}

#[cfg(test)]
mod tests;
