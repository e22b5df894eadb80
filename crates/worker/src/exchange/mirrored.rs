//! Step 10: what has come of a statement and of its copy, and copies that would do harm.

use std::sync::Arc;

use trunkline_protocol::response::Outcome;
use trunkline_stats::MirrorSample;
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::{Client, Phase, Statement},
    clients::frames::is_split,
    env::Env,
    mirror::{COMMAND_LEN_MAX, HALVES_MAX, Seen, checksum, is_fit, kin_of},
    rooms::{Core, Exchange},
    servers::conn::Conn,
    statement::analysis::Known,
};

impl Env {
    /// Whether a copy on `copy` of a statement that runs on `original` is a statement of its own
    /// right, and never a second execution in the same place. `is_read`: it only reads, in both.
    pub(crate) fn may_copy(
        &self,
        statement: &Statement,
        known: &Known,
        is_read: bool,
        (original, copy): (HostgroupId, HostgroupId),
    ) -> bool {
        if original == copy || !is_fit(known) || statement.opens_cursor() {
            return false;
        }
        if statement.command.frames.len() > COMMAND_LEN_MAX || is_split(&statement.command.frames) {
            return false;
        }
        let snapshot = &self.snapshot;
        if snapshot.hostgroup(original).is_none() || snapshot.hostgroup(copy).is_none() {
            return false;
        }
        if is_read {
            return true;
        }
        // A write goes neither to a server that has it already nor to one that it is replicated to.
        !kin_of(snapshot, original).contains(&copy)
    }
}

impl Exchange {
    /// Before a copy goes out: drops it where it may not be made any more. What was a read may have
    /// become a write by DDL, and hostgroups may have other servers by now. `lent`: the connection
    /// that is lent, if one is.
    pub(crate) fn drops_copy(&mut self, client: &mut Client, lent: Option<&mut Conn>) -> bool {
        let Phase::Running(statement) = &client.phase else {
            return false;
        };
        let Some(copy_of) = statement.beside.copy_of.as_deref() else {
            return false;
        };
        let is_as_then =
            statement.meaning.is_read || Arc::ptr_eq(&copy_of.snapshot, &self.core.env.snapshot);
        let places = (copy_of.original, statement.target.hostgroup);
        let fits = |known: &Known| {
            self.core.env.may_copy(statement, known, statement.meaning.is_read, places)
        };
        if is_as_then && statement.meaning.known.as_deref().is_some_and(fits) {
            return false;
        }
        self.core.fx.stats.counters.mirrors_skipped += 1;
        self.end_client(client, lent);
        true
    }

    /// One of two statements whose answers are compared has been answered.
    pub(super) fn finish_half(
        &mut self,
        conn: &Conn,
        statement: &mut Statement,
        outcome: &Outcome,
    ) {
        let (Some(half), Some(known)) =
            (statement.beside.mirrored.take(), statement.meaning.known.as_deref())
        else {
            return;
        };
        let format = conn.server.format;
        let seen = Seen {
            is_copy: half.is_copy,
            rows: outcome.rows,
            rows_affected: outcome.affected_rows,
            error: outcome.error.as_ref().map(|error| error.code),
            checksum: half.copy.bytes().and_then(|bytes| checksum(bytes, format)),
            took_us: self.core.env.now.us.saturating_sub(statement.sent.sent_us),
        };
        let Some(other) = self.mirrors.halves.remove(&half.ticket) else {
            if self.mirrors.halves.len() >= HALVES_MAX {
                self.mirrors.halves.clear();
            }
            self.mirrors.halves.insert(half.ticket, seen);
            return;
        };
        let (original, copy) = if seen.is_copy { (other, seen) } else { (seen, other) };
        let has_rows_alike =
            (original.rows, original.rows_affected) == (copy.rows, copy.rows_affected);
        let differs = |a: Option<u64>, b: Option<u64>| a.zip(b).is_some_and(|(a, b)| a != b);
        self.core.fx.stats.mirrored(&MirrorSample {
            digest: known.digest,
            digest_text: &known.digest_text,
            hostgroup: half.hostgroups.0.0,
            mirror_hostgroup: half.hostgroups.1.0,
            errors_differ: original.error != copy.error,
            rows_differ: original.error == copy.error && !has_rows_alike,
            values_differ: has_rows_alike && differs(original.checksum, copy.checksum),
            original_us: original.took_us,
            mirror_us: copy.took_us,
        });
    }
}

impl Core {
    /// Counts a copy that was answered, or was not.
    pub(super) fn count_mirrored(&mut self, server: Option<usize>, error: Option<u16>) {
        let counters = &mut self.fx.stats.counters;
        counters.mirrors_run += 1;
        counters.mirrors_failed += u64::from(error.is_some());
        if let Some(server) = server {
            self.fx.stats.server_mut(server).statements += 1;
        }
    }
}
