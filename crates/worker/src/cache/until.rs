//! Answers that are kept until a table changes that they depend on.
//!
//! Before the statement is sent, its answer gets a basis: the tables, and the version up to which
//! its server shows changes. A hit compares. In doubt there is none: where the binary log is behind
//! or cut, or may not have told yet what the session itself has written. `docs/decisions/0088`.

use std::{fmt, sync::Arc};

use trunkline_cache::Reply;
use trunkline_catalog::{Name, Untracked};
use trunkline_config::Snapshot;
use trunkline_sql::analysis::StatementKind;
use trunkline_topology::{Basis, HostgroupId, Refused, TableVersions, Tables};

use super::{CacheOrder, Found, route_hostgroup};
use crate::{
    clients::client::{Client, Purpose, Session, Statement},
    rooms::Core,
    routing::route::Route,
    session_past::runs_code,
};

/// How long an answer is kept at most that no `cache_ttl` bounds, ms.
pub(super) const TTL_MS: u32 = 24 * 3_600 * 1_000;
/// How old what is known of changes may be where the rule does not say so, ms.
pub(super) const AGE_MAX_MS: u16 = 1_000;

/// What a session may have written that the binary log has not told yet.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnWrites {
    /// The batch in which its last write ended, µs; 0 when that is settled.
    ended_us: u64,
    /// All that it has written was committed by then, ms.
    by_ms: u64,
}

impl OwnWrites {
    /// A write has ended in the batch of this time.
    pub(crate) fn end(&mut self, now_us: u64) {
        self.ended_us = now_us.max(1);
    }

    /// By when all that it has written was committed, ms. `None` in the very batch in which a write
    /// has ended: the batch began before that.
    fn by_ms(&mut self, now_us: u64) -> Option<u64> {
        if self.ended_us >= now_us {
            return None;
        }
        if self.ended_us > 0 {
            *self = Self { ended_us: 0, by_ms: now_us / 1_000 };
        }
        Some(self.by_ms)
    }
}

/// Why a statement's answers are not kept until a table changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unkept {
    /// Its hostgroup is none of a cluster with `binlog_stream`.
    NoStream,
    /// The stream is not good for it now.
    Stream(String),
    /// Not all names are known.
    Text,
    /// Changes of this are not told.
    Name(Name),
}

impl From<Untracked> for Unkept {
    fn from(why: Untracked) -> Self {
        match why {
            Untracked::Text => Self::Text,
            Untracked::Name(name) => Self::Name(name),
        }
    }
}

impl fmt::Display for Unkept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStream => f.write_str("its hostgroup is in no cluster with binlog_stream"),
            Self::Stream(why) => f.write_str(why),
            Self::Text => f.write_str("its text does not tell what it reads"),
            Self::Name(name) => {
                let text = |bytes| String::from_utf8_lossy(bytes);
                let (schema, table) = (text(&name.schema), text(&name.table));
                write!(
                    f,
                    "{schema}.{table} is not known to depend on InnoDB tables only, with all of \
                     their foreign keys"
                )
            }
        }
    }
}

/// The versions of the tables that a hostgroup's servers have.
pub(crate) fn versions_of(
    snapshot: &Snapshot,
    hostgroup: HostgroupId,
) -> Option<&Arc<TableVersions>> {
    let mut clusters = snapshot.clusters.iter();
    let cluster = clusters
        .find(|it| [it.entry.writer_hostgroup, it.entry.reader_hostgroup].contains(&hostgroup));
    cluster?.versions.as_ref()
}

/// What an answer of these tables will depend on.
pub(crate) fn tables(bases: &[Name]) -> Tables {
    let mut bases: Vec<_> = bases.iter().map(|name| (&*name.schema, &*name.table)).collect();
    bases.sort_unstable();
    bases.dedup();
    Tables::new(bases.into_iter())
}

/// A session that reads what is not committed sees what no log tells.
fn reads_committed(session: &Session) -> bool {
    let isolation = session.settings.state.variable("transaction_isolation");
    isolation.is_none_or(|value| {
        let name = value.strip_prefix(b"'").and_then(|it| it.strip_suffix(b"'")).unwrap_or(value);
        [&b"REPEATABLE-READ"[..], b"READ-COMMITTED"].iter().any(|it| it.eq_ignore_ascii_case(name))
    })
}

impl Core {
    /// A statement that found no answer is to store its own, where that may be kept.
    pub(super) fn prepare_fill(
        &mut self,
        client: &Client,
        statement: &mut Statement,
        (key, route): (&[u8], &Route),
        order: CacheOrder,
        found: Found,
    ) -> Found {
        let (Found::Fill(ticket) | Found::Renew(ticket)) = found else { return found };
        let mut fill = self.new_fill(key, ticket, route);
        if order.is_until_changed() {
            let hostgroup = route_hostgroup(route);
            fill.basis =
                hostgroup.and_then(|to| self.basis_of(client, statement, to).ok()).map(Box::new);
            // Other proxies know nothing of the versions here.
            fill.shared = None;
            if fill.basis.is_none() {
                let waiters = fill.cache.finish(&fill.key, fill.ticket, None);
                self.wake_waiters(waiters);
                return Found::Nothing;
            }
        }
        statement.beside.fill = Some(fill);
        found
    }

    /// By when all that the session has written was committed, ms, where its statement may be
    /// answered from what is kept until it changes, or fill that.
    pub(super) fn own_writes_by(&mut self, client: &mut Client) -> Option<u64> {
        let now_us = self.env.now.us;
        let session = &mut *client.session;
        if !reads_committed(session) {
            return None;
        }
        session.settings.own_writes.by_ms(now_us)
    }

    /// What the answer to a statement on its way to this hostgroup will depend on.
    pub(super) fn basis_of(
        &self,
        client: &Client,
        statement: &Statement,
        hostgroup: HostgroupId,
    ) -> Result<Basis, Unkept> {
        let versions = versions_of(&self.env.snapshot, hostgroup).ok_or(Unkept::NoStream)?;
        if let Some(why) = versions.trouble() {
            return Err(Unkept::Stream(why));
        }
        // Before the names: what is defined from here on is told by another version.
        let known_at = versions.last_of_all();
        let bases = self.bases_of(&client.session, statement, hostgroup)?;
        let tables = tables(&bases);
        Ok(Basis::new(Arc::clone(versions), Arc::new(tables), known_at))
    }

    /// Whether an answer that was found may be given.
    pub(super) fn still_holds(&mut self, reply: &Reply, order: CacheOrder, own_ms: u64) -> bool {
        let Some(basis) = &reply.basis else { return false };
        let now_ms = self.env.now.ms();
        match basis.look(now_ms, order.age_max_ms(), own_ms) {
            Ok(()) => true,
            Err(Refused::Late) => {
                self.fx.stats.cache_mut(order.rule).late += 1;
                false
            }
            Err(Refused::Changed(table)) => {
                self.fx.stats.cache_changed(order.rule, table);
                false
            }
        }
    }
}

/// A statement is over, in the batch of this time, that may have written.
pub(crate) fn end_own_write(session: &mut Session, statement: &Statement, now_us: u64) {
    if may_have_written(session, statement) {
        session.settings.own_writes.end(now_us);
    }
}

/// Whether something may have been committed by a statement. Its session is as before it.
fn may_have_written(session: &Session, statement: &Statement) -> bool {
    use StatementKind as Kind;
    let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
    if statement.meaning.is_read || !is_run {
        return false;
    }
    let Some(known) = statement.meaning.known.as_deref() else { return true };
    let analysis = &known.analysis;
    let writes_nothing = matches!(analysis.kind, Kind::Set | Kind::Show | Kind::Use)
        && analysis.is_one_whole_statement()
        && !runs_code(statement)
        && !session.is_in_transaction()
        && !session.settings.state.is_autocommit_off();
    !writes_nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_writes_were_committed_by_the_batch_behind_their_end() {
        let mut own = OwnWrites::default();
        assert_eq!(own.by_ms(5_000), Some(0));
        own.end(7_000);
        assert_eq!(own.by_ms(7_000), None, "its end may be behind the beginning of the batch");
        assert_eq!(own.by_ms(8_500), Some(8));
        assert_eq!(own.by_ms(9_000), Some(8));
        own.end(9_000);
        own.end(9_500);
        assert_eq!(own.by_ms(10_000), Some(10));
    }
}
