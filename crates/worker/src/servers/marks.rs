//! Marks: what servers know the transactions of one connection by, so that it can be found out
//! whether a `COMMIT` whose answer was lost was carried out (decision 0063).
//!
//! A mark belongs to one connection at a time, and goes back when all that was committed under it
//! is known. What goes back nobody knows what of is never used again.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;
use trunkline_catalog::Hidden;
use trunkline_pool::{AccountId, ConnState, SlotId};
use trunkline_protocol::{
    packet::{
        greeting::Flavor,
        status,
        track::{Change, Changes},
    },
    response::{Outcome, Relay, ResponseShape, ServerError},
};
use trunkline_session::tracker::{PinReason, SessionState, runs_unseen_code};
use trunkline_sql::{
    analysis::{Analysis, StatementKind, TransactionEffect},
    recall::Gtid,
};
use trunkline_topology::{
    ServerKey,
    gtid::Tag,
    mix,
    outcome::{CommitMark, MarkName},
};

use crate::{
    ClientId,
    causal::collect::ReportsGtids,
    clients::client::{Purpose, Running, Session, Statement},
    exchange::outcome::Doubt,
    exchange::send::put_own_query,
    rooms::Core,
    servers::conn::{Conn, InFlight, Owner},
};

/// Marks that one worker makes for one server. Servers remember each for ever.
const MARKS_MAX: u32 = 256;
/// Accounts that may mark nothing, and are remembered.
const REFUSED_MAX: usize = 4_096;
/// Variables of a session under which its transactions get no mark, or another one.
const UNMARKED: [&str; 6] = [
    "gtid_next",
    "server_id",
    "sql_log_bin",
    "gtid_domain_id",
    "gtid_seq_no",
    "pseudo_replica_mode",
];

/// The marks of a worker.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// What tells its marks from those of other workers, proxies and times.
    seed: u64,
    /// For each server how many were made, and those that no connection has.
    of: HashMap<ServerKey, (u32, Vec<CommitMark>), FixedState>,
    /// Accounts that the server has refused to mark.
    refused: HashSet<(SlotId, AccountId), FixedState>,
    /// Questions that were asked.
    asked: u64,
    /// Clients that wait to be told what became of their `COMMIT`.
    pub(crate) doubts: HashMap<ClientId, Doubt, FixedState>,
}

/// Whether what a connection commits is marked.
#[derive(Debug, Default)]
pub(crate) enum Marked {
    /// It is not.
    #[default]
    No,
    /// The server was told to, and has not answered.
    Asked(Box<CommitMark>),
    /// It is.
    Yes(Box<CommitMark>),
    /// It is not any more: it was reset.
    Lapsed(Box<CommitMark>),
}

impl Marked {
    /// A reset, a login or a variable has taken it back.
    pub(super) fn lapse(&mut self) {
        *self = match std::mem::take(self) {
            Self::No => Self::No,
            Self::Asked(mark) | Self::Yes(mark) | Self::Lapsed(mark) => Self::Lapsed(mark),
        };
    }

    /// What is committed from now on may not be told, until the server is asked again.
    pub(super) fn is_unheard(&mut self) {
        self.lapse();
        if let Self::Lapsed(mark) = self {
            mark.doubt();
        }
    }

    fn into_mark(self) -> Option<Box<CommitMark>> {
        match self {
            Self::No => None,
            Self::Asked(mark) | Self::Yes(mark) | Self::Lapsed(mark) => Some(mark),
        }
    }
}

impl Marks {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            of: HashMap::default(),
            refused: HashSet::default(),
            asked: 0,
            doubts: HashMap::default(),
        }
    }

    /// One that no connection has; `None` when there is none. Those that an earlier incarnation of
    /// the server has told of are taken last: they say nothing until this one has.
    fn take(&mut self, server: &ServerKey, flavor: Flavor, incarnation: u32) -> Option<CommitMark> {
        let seed = mix(self.seed);
        let made: u32 = self.of.values().map(|(made, _)| *made).sum();
        let (own, free) = self.of.entry(server.clone()).or_default();
        if let Some(at) = free.iter().rposition(|mark| mark.incarnation() == incarnation) {
            return Some(free.swap_remove(at));
        }
        if *own >= MARKS_MAX || flavor == Flavor::MariaDb && made >= MARKS_MAX {
            let mut mark = free.pop()?;
            mark.begin(incarnation);
            return Some(mark);
        }
        *own += 1;
        Some(CommitMark::new(name(seed, made, flavor)?, incarnation))
    }

    /// The number of the next question.
    pub(crate) fn next_ticket(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    fn put_back(&mut self, server: &ServerKey, mark: CommitMark) {
        if let Some((_, free)) = self.of.get_mut(server).filter(|_| mark.is_known()) {
            free.push(mark);
        }
    }

    /// A server has said what was committed under a mark that a lost connection had.
    pub(crate) fn settled(&mut self, server: &ServerKey, mark: CommitMark) {
        self.put_back(server, mark);
    }
}

/// The name of a mark. The number is one of a worker's; the seed is the worker's own.
fn name(seed: u64, number: u32, flavor: Flavor) -> Option<MarkName> {
    Some(match flavor {
        Flavor::MySql => {
            let text = format!("tl{:08x}_{number}", seed & 0xFFFF_FFFF);
            MarkName::Tag(Tag::parse(text.as_bytes())?)
        }
        // People number their servers from below.
        Flavor::MariaDb => {
            let own = u32::try_from(seed & 0x7F_FFFF).ok()?;
            MarkName::ServerId(0x8000_0000 | own << 8 | number & 0xFF)
        }
    })
}

/// Whether the session's transactions get no mark, or another one.
fn is_unmarked(state: &SessionState) -> bool {
    UNMARKED.iter().any(|name| state.variable(name).is_some())
}

impl Core {
    /// Whether what the client's statement commits has to be marked first: where it may commit
    /// something and the account may mark it. Servers refuse that within a transaction.
    #[cold]
    pub(crate) fn is_mark_due(
        &mut self,
        (statement, session): Running<'_>,
        conn: &mut Conn,
    ) -> bool {
        if is_unmarked(&session.settings.state) || is_unmarked(&conn.state) {
            conn.left.marked.lapse();
            return false;
        }
        let is_due = matches!(conn.left.marked, Marked::No | Marked::Lapsed(_))
            && self.env.wants_outcome(session)
            && conn.server.format.session_track
            && conn.list != ConnState::Shared
            && !self.servers.logins.marks.refused.contains(&(conn.slot, conn.login.account))
            && may_commit(session, statement);
        let lease = session.leases.iter().find(|lease| lease.conn == conn.id);
        let is_open = lease.is_some_and(|lease| {
            lease.is_begun || lease.is_in_trans || lease.pins.has(PinReason::Transaction)
        });
        is_due && !is_open
    }

    /// Marks what a connection commits, if its server reports that.
    #[cold]
    pub(crate) fn mark(&mut self, conn: &mut Conn) {
        let reports = match conn.server.flavor {
            Flavor::MySql => conn.server.gtids == ReportsGtids::Asked,
            Flavor::MariaDb => conn.server.gtids != ReportsGtids::No,
        };
        let Some(key) = self.servers.pool.slot(conn.slot).map(|slot| slot.server.key.clone())
        else {
            return;
        };
        if !reports {
            return;
        }
        let had = std::mem::take(&mut conn.left.marked).into_mark();
        let (flavor, incarnation) = (conn.server.flavor, conn.server.incarnation);
        let marks = &mut self.servers.logins.marks;
        let Some(mark) = had.or_else(|| marks.take(&key, flavor, incarnation).map(Box::new)) else {
            return;
        };
        let text = mark.name().set();
        conn.left.marked = Marked::Asked(mark);
        let mut relay =
            Relay::new(ResponseShape::Query, conn.server.format, conn.server.format, false);
        if conn.io.packing.is_none() {
            relay = relay.numbered_from(1);
        }
        conn.in_flight.push_back(InFlight {
            owner: Owner::Mark,
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        let takes_attributes = conn.server.takes_attributes;
        self.write_server(conn, |out| put_own_query(out, text.as_bytes(), takes_attributes));
    }

    /// A server has marked a connection, or refuses to.
    pub(crate) fn marked(&mut self, conn: &mut Conn, error: Option<&ServerError>) {
        let Marked::Asked(mark) = std::mem::take(&mut conn.left.marked) else { return };
        let Some(error) = error else {
            conn.left.marked = Marked::Yes(mark);
            return;
        };
        let Some(slot) = self.servers.pool.slot(conn.slot) else { return };
        let key = slot.server.key.clone();
        let privileges = mark.name().privileges();
        self.servers.logins.marks.put_back(&key, *mark);
        let refused = &mut self.servers.logins.marks.refused;
        if refused.len() < REFUSED_MAX && refused.insert((conn.slot, conn.login.account)) {
            let text = String::from_utf8_lossy(&error.message).into_owned();
            let account = self.servers.logins.accounts.key(conn.login.account);
            let user = account.map(|key| key.server_user().to_owned()).unwrap_or_default();
            self.fx.log(true, || {
                format!(
                    "what becomes of lost COMMITs of `{user}` on {} can't be found out: the \
                     account may not mark its connections ({text}): it lacks {privileges}",
                    key.address
                )
            });
        }
    }

    /// A statement has been answered: what has been told of its transactions.
    #[cold]
    pub(crate) fn note_committed(
        &mut self,
        conn: &mut Conn,
        statement: &Statement,
        outcome: &Outcome,
        last: Option<Gtid>,
    ) {
        let Marked::Yes(mark) = &mut conn.left.marked else {
            if is_unmarked(&conn.state) {
                conn.left.marked.lapse();
            }
            return;
        };
        let has_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
        let leaves_doubt = match &outcome.error {
            Some(_) => may_have_committed(statement),
            // Of several transactions, or with rows that end otherwise, not all numbers are told.
            None => {
                !statement.meaning.is_read
                    && (may_commit_more(statement)
                        || outcome.result_sets != 0 && !conn.server.format.deprecate_eof)
            }
        };
        if has_run && leaves_doubt {
            mark.doubt();
        }
        let mut is_own = true;
        for change in Changes::new(&outcome.changes) {
            let Ok(Change::Gtids(text)) = change else { continue };
            is_own &= mark.tell_set(std::str::from_utf8(text).unwrap_or("not UTF-8"));
        }
        if let Some((domain, server, sequence)) = last {
            is_own &= mark.tell_last(domain, server, sequence);
        }
        if has_run && is_in_transaction(outcome) && is_logged_anyway(statement) {
            mark.doubt();
        }
        if !is_own {
            // It is not what the server numbers by.
            mark.doubt();
            conn.left.marked.lapse();
        }
    }

    /// A connection ends: its mark goes back, if it is known what was committed under it.
    pub(super) fn give_mark_back(&mut self, conn: &mut Conn) {
        let Some(mark) = std::mem::take(&mut conn.left.marked).into_mark() else { return };
        let is_quiet = !conn.in_flight.iter().any(|entry| entry.is_statement);
        if let Some(slot) = self.servers.pool.slot(conn.slot).filter(|_| is_quiet) {
            let key = slot.server.key.clone();
            self.servers.logins.marks.put_back(&key, *mark);
        }
    }
}

impl Conn {
    /// What its transactions are known by, if they are. It has none from then on.
    pub(crate) fn take_mark(&mut self) -> Option<Box<CommitMark>> {
        match std::mem::take(&mut self.left.marked) {
            Marked::Yes(mark) => Some(mark),
            // What was sent behind the mark's name may have run without.
            Marked::No | Marked::Asked(_) | Marked::Lapsed(_) => None,
        }
    }
}

/// Whether a statement may commit something, or begins what may. One that looks at what was before
/// it goes without a mark.
fn may_commit(session: &Session, statement: &Statement) -> bool {
    let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
    let known = statement.meaning.known.as_ref().filter(|_| is_run);
    known.is_some_and(|known| {
        let writes = !statement.meaning.is_read || session.settings.state.is_autocommit_off();
        (writes || session.settings.begun.is_some())
            && known.analysis.depends.is_empty()
            // It is what was prepared just before.
            && !statement.prepared.runs_last
    })
}

/// Whether a statement may commit more than one transaction.
fn may_commit_more(statement: &Statement) -> bool {
    let is_one = |analysis: &Analysis| analysis.statements == 1 && !runs_unseen_code(analysis);
    !statement.meaning.known.as_ref().is_some_and(|known| is_one(&known.analysis))
}

/// Whether a table without transactions may keep what a statement wrote, whatever becomes of the
/// rest of it and of its transaction. MariaDB logs a transaction that is rolled back under its
/// number where that was so.
pub(crate) fn keeps_rows(statement: &Statement) -> bool {
    statement.meaning.proof.on_writer().hidden.may(Hidden::STAYS_WRITTEN)
}

/// Whether the transaction that a statement is in may be logged under a number though it is rolled
/// back: a table without transactions keeps rows, or a temporary table has come or gone.
fn is_logged_anyway(statement: &Statement) -> bool {
    use StatementKind as Kind;
    let Some(known) = statement.meaning.known.as_ref() else { return true };
    let writes_nothing = matches!(
        known.analysis.kind,
        Kind::Begin
            | Kind::StartTransaction
            | Kind::Savepoint
            | Kind::ReleaseSavepoint
            | Kind::RollbackSavepoint
            | Kind::Set
            | Kind::Show
            | Kind::Use
    );
    let is_plain = known.analysis.kind.handles_rows() && !keeps_rows(statement);
    !statement.meaning.is_read && !writes_nothing && !is_plain
}

fn is_in_transaction(outcome: &Outcome) -> bool {
    outcome.status.is_some_and(|flags| flags & status::IN_TRANS != 0)
}

/// Whether a statement that has failed may have committed something all the same.
fn may_have_committed(statement: &Statement) -> bool {
    if statement.meaning.is_read {
        return false;
    }
    let Some(known) = statement.meaning.known.as_ref() else { return true };
    let analysis = &known.analysis;
    let is_plain = analysis.is_one_whole_statement()
        && analysis.transaction == TransactionEffect::None
        && analysis.kind.handles_rows();
    let keeps = keeps_rows(statement);
    // What a transaction did before is committed by what ends it only.
    !is_plain || keeps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_a_worker_differ_and_are_used_again() {
        let mut marks = Marks::new(7);
        let key = |port| ServerKey {
            hostgroup: trunkline_topology::HostgroupId(1),
            address: trunkline_topology::Address::Tcp { host: "db".into(), port },
        };
        let one = marks.take(&key(1), Flavor::MariaDb, 1).expect("one");
        let two = marks.take(&key(2), Flavor::MariaDb, 1).expect("another");
        let three = marks.take(&key(1), Flavor::MariaDb, 1).expect("a third");
        assert!(one.name() != two.name() && one.name() != three.name());
        let MarkName::ServerId(id) = one.name() else { panic!("MariaDB has no tags") };
        assert!(id >= 0x8000_0000, "{id}");
        marks.settled(&key(1), one.clone());
        assert_eq!(marks.take(&key(1), Flavor::MariaDb, 1).map(|it| it.name()), Some(one.name()));
        let mut doubtful = three;
        doubtful.doubt();
        let name = doubtful.name();
        marks.settled(&key(1), doubtful);
        let next = marks.take(&key(1), Flavor::MariaDb, 1).expect("a fourth");
        assert!(next.name() != name);
        for _ in 4..MARKS_MAX {
            assert!(marks.take(&key(1), Flavor::MariaDb, 1).is_some());
        }
        assert!(marks.take(&key(1), Flavor::MariaDb, 1).is_none());
        assert!(Marks::new(8).take(&key(1), Flavor::MySql, 1).is_some());
    }

    #[test]
    fn marks_that_an_earlier_incarnation_has_told_of_are_taken_last() {
        let mut marks = Marks::new(7);
        let key = ServerKey {
            hostgroup: trunkline_topology::HostgroupId(1),
            address: trunkline_topology::Address::Tcp { host: "db".into(), port: 1 },
        };
        let mut old = marks.take(&key, Flavor::MySql, 1).expect("one");
        let name = old.name();
        let MarkName::Tag(tag) = name else { panic!("MySQL has tags") };
        let tag = tag.as_str();
        assert!(old.tell_set(&format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{tag}:1-5")));
        marks.settled(&key, old);
        for _ in 1..MARKS_MAX {
            let fresh = marks.take(&key, Flavor::MySql, 2).expect("another");
            assert!(fresh.name() != name && !fresh.is_in_doubt());
        }
        let old = marks.take(&key, Flavor::MySql, 2).expect("the last one");
        assert!(old.name() == name && old.is_in_doubt());
    }

    #[test]
    fn a_reset_takes_a_mark_back() {
        let mark = CommitMark::new(name(1, 2, Flavor::MySql).expect("a tag"), 1);
        let mut marked = Marked::Yes(Box::new(mark));
        marked.lapse();
        assert!(matches!(marked, Marked::Lapsed(_)));
        assert!(marked.into_mark().is_some());
    }
}
