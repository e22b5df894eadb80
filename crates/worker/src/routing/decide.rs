//! Where a statement goes, and why: the one decision that a statement on its way, an execution of
//! a prepared statement, a mirror's copy and `EXPLAIN ROUTE` have in common. It depends on its
//! [`Case`] alone and changes nothing.
//!
//! The first of these that has something to say decides:
//!
//! 1. a rule's answer, then the firewall's ([`Ruling`]);
//! 2. a limit that is exceeded;
//! 3. for what ends transactions in several hostgroups, the one that has written;
//! 4. what may write and would end a transaction on a reader, and can't ([`Nowhere::Refused`]);
//! 5. a transaction that leaves its reader: the writer;
//! 6. an open transaction, unless the user's may be left and a hostgroup is named, or reads have
//!    begun it on readers and the statement may write;
//! 7. where a hostgroup is named, a connection whose state the statement is to see; else that
//!    hostgroup. Comments name one before fast routing does, and fast routing before rules;
//! 8. a connection that the session holds;
//! 9. the automatic read/write split.
//!
//! At the end is refused what would find `NULL` for a user variable where it goes, and what would
//! commit implicitly what has been written in another hostgroup.

#[cfg(test)]
mod tests;

use std::fmt;

use trunkline_catalog::Proof;
use trunkline_config::Snapshot;
use trunkline_pool::ConnId;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_session::tracker::PinReason;
use trunkline_sql::{
    analysis::{Analysis, Depends},
    hint::Hints,
    token::Modes,
};
use trunkline_topology::{HostgroupId, ServerKey, ServerState, User};

use crate::{
    clients::client::{Lease, Session},
    env::Env,
    exchange::begun::Begun,
    routing::{
        follow::{Follows, does_not_write, followed},
        kept::{keeping_lease, runs_other_text, variables_elsewhere},
        read_only::{Leaving, leaves_reader, only_looks},
        ruling::{By, Ruling},
        several::{ended, ends_transactions},
        split::{Obeyed, Split, Transactions, hinted_hostgroup, ruled, split},
    },
    statement::analysis::Known,
};

/// All that a decision depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// When servers are asked for that are online, ms.
    pub(super) now_ms: u64,
    pub(super) user: &'a User,
    pub(super) session: Held<'a>,
    pub(super) aim: Aim,
    /// The statement as it is sent; `None` for a command without a text.
    pub(super) known: Option<&'a Known>,
    /// What is proven of it on the servers of the user's own hostgroup.
    pub(super) proof: Proof,
    pub(super) ruling: &'a Ruling,
    /// What its comments ask for, where they are listened to.
    pub(super) hinted: Option<Hinted<'a>>,
    /// The limit that refuses it, by its place in the configuration.
    pub(super) limit: Option<usize>,
    #[cfg(feature = "plants")]
    pub(super) plant: Option<crate::plants::Plant>,
}

/// What a statement is routed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// It is to run.
    Run,
    /// It is to be prepared; servers that compute constants meanwhile may do something.
    Prepare { computes: bool },
    /// It is a mirror's copy, for this hostgroup unless its rules say otherwise; `None` for the
    /// user's own.
    Copy(Option<HostgroupId>),
}

/// What a session holds, as far as routing looks at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held<'a> {
    /// Its connections, of which the statement gives some up.
    leases: &'a [Lease],
    gives_up: GivesUp,
    /// The connection that ran its last statement.
    pub(super) last_conn: Option<ConnId>,
    /// Its transaction begins anew on the writer before the statement.
    pub(super) begins_read_only: bool,
    /// Its transaction of which no server knows yet.
    pub(super) begun: Option<Begun>,
    pub(super) transactions: Transactions,
    pub(super) flavor: Flavor,
}

/// What a statement's comments ask for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hinted<'a> {
    pub(super) hints: &'a Hints,
    /// The server that they name, where it is online, and whether it is a reader.
    pub(super) server: Option<(&'a ServerKey, bool)>,
    /// What is proven of the statement on the servers that they name.
    pub(super) proof: Proof,
}

/// Connections that a session gives up as its statement is routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivesUp {
    Nothing,
    /// Those with a transaction that are not of this hostgroup.
    TransactionsBut(HostgroupId),
    /// A reader's, where its transaction ends without a `COMMIT`.
    Reader(ConnId),
}

/// Where a statement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// To this connection, which the session holds.
    Lease(HostgroupId, ConnId),
    /// To any connection of this hostgroup.
    Hostgroup(HostgroupId),
    /// To any connection of this reader hostgroup, by the split: its writers can serve it too.
    Reader(HostgroupId),
}

/// Why a statement goes where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// A comment names the server.
    Server,
    /// A comment names the hostgroup.
    Comment,
    /// A comment names readers, and the statement may write.
    CommentOfReaders,
    /// A rule or fast routing names the hostgroup, or readers that the statement must not go to.
    Named(By, Obeyed),
    /// A transaction is open there.
    Transaction,
    /// It ends transactions in several hostgroups, and this is the one that has written.
    EndsTransactions,
    /// Its transaction leaves its reader.
    LeavesReader,
    /// The session has something there that the statement is to see, whoever names another place.
    Stays,
    /// The session holds a connection there.
    Holds(Follows),
    /// Its comments say what it has to see, and nobody knows what replicas show.
    Unfollowed,
    /// By the automatic split.
    Split(Split),
    /// It is a copy, and this is where the original's rule or hint sends copies.
    Mirror,
    /// It is a copy, and nobody says where it goes.
    MirrorDefault,
}

/// Why a statement goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nowhere {
    /// Rules or the firewall answer it: [`Ruling::answer`].
    Answered,
    /// A limit is exceeded, by its place in the configuration.
    Limited(usize),
    /// It would do harm.
    Refused(Refusal),
}

/// What harm a statement would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It would commit one of two transactions that have written.
    TwoHaveWritten(HostgroupId, HostgroupId),
    /// It ends transactions in several hostgroups, and here the session holds more.
    HeldBeside(HostgroupId, PinReason),
    /// It ends a transaction on a reader, where the session holds more.
    HeldOnReader(PinReason),
    /// It commits what is open in the first hostgroup implicitly, and goes to the second.
    OpenElsewhere(HostgroupId, HostgroupId),
    /// It reads user variables that are in the first hostgroup, and goes to the second.
    VariablesElsewhere(HostgroupId, HostgroupId),
}

/// What is decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decided {
    pub(super) place: Result<(Place, Reason), Nowhere>,
    /// The hostgroup that was named, wherever it goes.
    pub(super) named: Option<HostgroupId>,
    /// It goes to the server that its comments name, and to no other.
    pub(super) is_for_server: bool,
    pub(super) gives_up: GivesUp,
    /// The session's transaction begins anew on the writer before the statement.
    pub(super) begins_read_only: bool,
}

impl<'a> Held<'a> {
    /// Nothing: what a new session holds that reads texts so.
    pub(super) fn nothing(modes: Modes) -> Self {
        Self {
            leases: &[],
            gives_up: GivesUp::Nothing,
            last_conn: None,
            begins_read_only: false,
            begun: None,
            transactions: Transactions::default(),
            flavor: if modes.flavor_mariadb { Flavor::MariaDb } else { Flavor::MySql },
        }
    }

    /// What a session holds; `leases` are its connections.
    #[inline]
    pub(super) fn of(session: &Session, leases: &'a [Lease]) -> Self {
        Self {
            leases,
            gives_up: GivesUp::Nothing,
            last_conn: session.last_conn.map(|(conn, _)| conn),
            begins_read_only: session.transaction.begins_read_only,
            begun: session.settings.begun,
            transactions: Transactions::of(&session.settings.state),
            flavor: session.flavor(),
        }
    }

    /// With these connections in place of its own.
    pub(super) fn with(self, leases: &[Lease]) -> Held<'_> {
        Held { leases, ..self }
    }

    /// The connections that it keeps.
    #[inline]
    pub(super) fn leases(&self) -> impl Iterator<Item = &'a Lease> + Clone + use<'a> {
        let gives_up = self.gives_up;
        self.leases.iter().filter(move |lease| !gives_up.has(lease))
    }

    fn in_transaction(&self) -> Option<&'a Lease> {
        self.leases().find(|lease| lease.pins.has(PinReason::Transaction))
    }
}

impl GivesUp {
    /// Whether a connection is given up.
    #[inline]
    pub(super) fn has(self, lease: &Lease) -> bool {
        match self {
            Self::Nothing => false,
            Self::TransactionsBut(kept) => {
                lease.hostgroup != kept && lease.pins.has(PinReason::Transaction)
            }
            Self::Reader(conn) => lease.conn == conn,
        }
    }
}

impl Place {
    /// The hostgroup.
    #[inline]
    pub(super) fn hostgroup(self) -> HostgroupId {
        match self {
            Self::Lease(hostgroup, _) | Self::Hostgroup(hostgroup) | Self::Reader(hostgroup) => {
                hostgroup
            }
        }
    }

    fn on(lease: &Lease) -> Self {
        Self::Lease(lease.hostgroup, lease.conn)
    }
}

impl Decided {
    fn nowhere(case: &Case<'_>, why: Nowhere) -> Self {
        Self::changing_nothing(case, Err(why))
    }

    /// What leaves the session as it is.
    fn changing_nothing(case: &Case<'_>, place: Result<(Place, Reason), Nowhere>) -> Self {
        Self {
            place,
            named: None,
            is_for_server: false,
            gives_up: GivesUp::Nothing,
            begins_read_only: case.session.begins_read_only,
        }
    }

    /// The hostgroup, if it goes to one.
    #[inline]
    pub(crate) fn hostgroup(&self) -> Option<HostgroupId> {
        self.place.ok().map(|(place, _)| place.hostgroup())
    }
}

/// Decides where a statement goes.
pub(crate) fn decide(case: &Case<'_>) -> Decided {
    if case.ruling.answer.is_some() {
        return Decided::nowhere(case, Nowhere::Answered);
    }
    if let Aim::Copy(place) = case.aim {
        return copied(case, place);
    }
    if let Some(limit) = case.limit {
        return Decided::nowhere(case, Nowhere::Limited(limit));
    }
    let mut named = case.named();
    let is_server_named = matches!(named, Some((_, Reason::Server)));
    let mut session = case.session;
    if let Some(known) = case.known {
        match meets_transactions(case, &mut session, known, named) {
            Ok(Some(kept)) => named = Some((kept, Reason::EndsTransactions)),
            Ok(None) => {}
            Err(refusal) => {
                let refused = Decided::nowhere(case, Nowhere::Refused(refusal));
                return Decided { begins_read_only: session.begins_read_only, ..refused };
            }
        }
    }
    let (place, why) = case.place(&session, named);
    if let Some(refusal) = case.parts_from_transaction(&session, place) {
        let refused = Decided::nowhere(case, Nowhere::Refused(refusal));
        return Decided { begins_read_only: session.begins_read_only, ..refused };
    }
    let server = case.hinted.and_then(|hinted| hinted.server).filter(|_| is_server_named);
    Decided {
        place: match case.lacks_variable(&session, place) {
            Some(refusal) => Err(Nowhere::Refused(refusal)),
            None => Ok((place, why)),
        },
        named: named.map(|(hostgroup, _)| hostgroup),
        // What is held elsewhere, or begins anew on the writer, does not go to that server.
        is_for_server: server.is_some_and(|(key, _)| key.hostgroup == place.hostgroup()),
        gives_up: session.gives_up,
        begins_read_only: session.begins_read_only,
    }
}

/// Where a mirror's copy goes: its session holds nothing, and neither comments nor the split are
/// asked, as the original's rule or hint says where it goes.
fn copied(case: &Case<'_>, place: Option<HostgroupId>) -> Decided {
    let ruled = case.ruling.named.map(|(named, by)| (named, Reason::Named(by, Obeyed::AsSaid)));
    let named = ruled.or(place.map(|place| (place, Reason::Mirror)));
    let (to, why) = named.unwrap_or((case.user.default_hostgroup, Reason::MirrorDefault));
    Decided::changing_nothing(case, Ok((Place::Hostgroup(to), why)))
}

/// What a statement does to transactions that are open on several connections, or on a reader.
/// The hostgroup that it goes to for that.
#[inline]
fn meets_transactions(
    case: &Case<'_>,
    session: &mut Held<'_>,
    known: &Known,
    named: Option<(HostgroupId, Reason)>,
) -> Result<Option<HostgroupId>, Refusal> {
    let mut kept = None;
    match case.aim {
        Aim::Prepare { computes: false } | Aim::Copy(_) => return Ok(None),
        Aim::Prepare { computes: true } => {}
        Aim::Run => {
            kept = ended(session, &known.analysis)?;
            if let Some(kept) = kept {
                session.gives_up = GivesUp::TransactionsBut(kept);
            }
        }
    }
    session.begins_read_only = false;
    let named = kept.or(named.map(|(hostgroup, _)| hostgroup));
    match leaves_reader(case, session, &known.analysis, named)? {
        Leaving::Not => {}
        Leaving::BeginsAnew => session.begins_read_only = true,
        Leaving::Ends(conn) => session.gives_up = GivesUp::Reader(conn),
    }
    Ok(kept)
}

impl<'a> Case<'a> {
    /// The case of a command without a text.
    #[inline]
    pub(crate) fn of(env: &'a Env, session: &'a Session, ruling: &'a Ruling) -> Self {
        Self {
            snapshot: &env.snapshot,
            now_ms: env.now.ms(),
            user: &session.login.user,
            session: Held::of(session, &session.leases),
            aim: Aim::Run,
            known: None,
            proof: Proof::NOTHING,
            ruling,
            hinted: None,
            limit: None,
            #[cfg(feature = "plants")]
            plant: env.plant,
        }
    }

    /// The case of a mirror's copy. Its original's rule or hint sends it to this hostgroup; `None`
    /// to the user's own.
    pub(crate) fn of_copy(self, place: Option<HostgroupId>) -> Self {
        Self { aim: Aim::Copy(place), ..self }
    }
}

impl Case<'_> {
    /// The hostgroup that comments, fast routing or rules name, in this order.
    #[inline]
    fn named(&self) -> Option<(HostgroupId, Reason)> {
        let analysis = &self.known?.analysis;
        let hinted = self.hinted.as_ref().and_then(|hinted| self.hinted_to(hinted, analysis));
        hinted.or_else(|| {
            let (named, by) = self.ruling.named?;
            let groups = &self.snapshot.replication;
            let default = self.user.default_hostgroup;
            let (to, readers) = ruled(named, default, groups, (analysis, self.begins()));
            Some((to, Reason::Named(by, readers)))
        })
    }

    /// The hostgroup that comments name, or where what they ask for is to be had.
    fn hinted_to(&self, hinted: &Hinted<'_>, analysis: &Analysis) -> Option<(HostgroupId, Reason)> {
        let named = self.hinted_named(hinted, analysis);
        // A read sees what its transaction does, wherever that is.
        let is_free = self.session.in_transaction().is_none();
        if !hinted.hints.is_causal() || self.snapshot.has_causal_reads || !is_free {
            return named;
        }
        // Nobody follows replicas as long as no read is causal by the configuration.
        let home = self.user.default_hostgroup;
        let ruled = self.ruling.named.map(|(to, _)| to);
        let to = named.map(|(to, _)| to).or(ruled);
        let writer = match to {
            Some(to) => self.snapshot.reader_group(to).map(|group| group.writer_hostgroup),
            None => self.snapshot.writer_group(home).map(|group| group.writer_hostgroup),
        };
        writer.map(|writer| (writer, Reason::Unfollowed)).or(named)
    }

    /// The hostgroup that comments name.
    fn hinted_named(
        &self,
        hinted: &Hinted<'_>,
        analysis: &Analysis,
    ) -> Option<(HostgroupId, Reason)> {
        let Hinted { hints, server, proof } = *hinted;
        let autocommit_off = self.session.transactions.autocommit_off;
        let only_reads = proof.reads && !autocommit_off;
        if let Some((key, _)) = server.filter(|(_, is_reader)| !is_reader || only_reads) {
            return Some((key.hostgroup, Reason::Server));
        }
        let default = self.user.default_hostgroup;
        let groups = &self.snapshot.replication;
        let statement = (analysis, proof);
        let is_online = |readers| has_online(self.snapshot, readers, self.now_ms);
        let to = hinted_hostgroup(hints, default, groups, statement, autocommit_off, is_online)?;
        let is_obeyed = hints.hostgroup.is_none_or(|named| named == to.0);
        Some((to, if is_obeyed { Reason::Comment } else { Reason::CommentOfReaders }))
    }

    /// Where it goes, given what is named and what its session holds.
    fn place(&self, session: &Held<'_>, named: Option<(HostgroupId, Reason)>) -> (Place, Reason) {
        let home = self.user.default_hostgroup;
        if has_plant!(in self, SplitIgnoresTransaction) && self.proof.reads {
            let split = self.split();
            return (Place::Hostgroup(split.hostgroup(home)), Reason::Split(split));
        }
        // A transaction that is to begin anew does so on the writer, wherever a rule sees it.
        let named = match session.begins_read_only {
            true => Some((home, Reason::LeavesReader)),
            false => named,
        };
        if !session.begins_read_only
            && (named.is_none() || self.user.transaction_persistent)
            && let Some(lease) = self.transaction(session)
        {
            return (Place::on(lease), Reason::Transaction);
        }
        if let Some(begun) = session.begun {
            let named = named.map(|(hostgroup, _)| hostgroup);
            return (self.begun_place(session, begun, named), Reason::Transaction);
        }
        let (wanted, why) = match named {
            Some((hostgroup, why)) => match self.stays(session, hostgroup) {
                Some(lease) => return (Place::on(lease), Reason::Stays),
                None => (hostgroup, why),
            },
            None => {
                if let Some((lease, why)) = self.follows(session) {
                    return (Place::on(lease), Reason::Holds(why));
                }
                let split = self.split();
                (split.hostgroup(home), Reason::Split(split))
            }
        };
        let place = match session.leases().find(|lease| lease.hostgroup == wanted) {
            Some(lease) => Place::on(lease),
            None if named.is_none() && wanted != home => Place::Reader(wanted),
            None => Place::Hostgroup(wanted),
        };
        (place, why)
    }

    /// The connection with the open transaction that it belongs to. Without autocommit, one that
    /// reads have begun on readers is not one for what may write.
    #[inline]
    fn transaction<'a>(&self, session: &Held<'a>) -> Option<&'a Lease> {
        let open = session.leases().filter(|lease| lease.pins.has(PinReason::Transaction));
        let mut open = open.filter(|lease| {
            !session.transactions.autocommit_off
                || lease.only_reads
                || !self.are_readers(lease.hostgroup)
                || self.known.is_none_or(|known| belongs_anywhere(&known.analysis, self.proof))
        });
        open.next()
    }

    /// Whether a hostgroup is the readers of a group, and not the user's own.
    fn are_readers(&self, hostgroup: HostgroupId) -> bool {
        hostgroup != self.user.default_hostgroup && self.snapshot.reader_group(hostgroup).is_some()
    }

    /// Whether it begins a transaction of itself: none is open, and each statement belongs to one.
    fn begins(&self) -> bool {
        self.session.transactions.autocommit_off && self.session.in_transaction().is_none()
    }

    /// The connection that it stays on, whoever names another hostgroup.
    fn stays<'a>(&self, session: &Held<'a>, named: HostgroupId) -> Option<&'a Lease> {
        if session.leases.is_empty() || session.begins_read_only {
            return None;
        }
        let group_of = |id| self.snapshot.reader_group(id).map_or(id, |it| it.writer_hostgroup);
        let group = group_of(named);
        let home = self.user.default_hostgroup;
        let statement = (&self.known?.analysis, self.proof);
        let kept = keeping_lease(session, (home, named), statement, |id| group_of(id) == group)?;
        (!self.begins() || !self.are_readers(kept.hostgroup)).then_some(kept)
    }

    /// The connection that it follows its session to, where no hostgroup is named.
    #[inline]
    fn follows<'a>(&self, session: &Held<'a>) -> Option<(&'a Lease, Follows)> {
        if session.leases.is_empty() {
            return None;
        }
        let home = self.user.default_hostgroup;
        let readers = self.snapshot.writer_group(home).map(|group| group.reader_hostgroup);
        let analysis = self.known.map(|known| &known.analysis);
        let may_write_at = |to| {
            to == home
                || has_plant!(in self, ReaderAttractsWrite)
                || Some(to) != readers && does_not_write(analysis, self.proof)
        };
        // Without autocommit it begins a transaction, in which others may write.
        let only_reads = self.proof.reads && !session.transactions.autocommit_off;
        followed(session, home, analysis, only_reads, may_write_at)
    }

    /// Whether a hostgroup has a server that takes statements.
    pub(super) fn is_online(&self, hostgroup: HostgroupId) -> bool {
        has_online(self.snapshot, hostgroup, self.now_ms)
    }

    /// The automatic read/write split, for a session that holds no connection.
    fn split(&self) -> Split {
        let group = self.snapshot.writer_group(self.user.default_hostgroup);
        let is_online = |readers| self.is_online(readers);
        let analysis = self.known.map(|known| &known.analysis);
        split(group, analysis, self.proof.reads, self.session.transactions, is_online)
    }

    /// Why it is refused where it commits a transaction implicitly, and that has written elsewhere:
    /// it would stay open there.
    #[inline]
    fn parts_from_transaction(&self, session: &Held<'_>, place: Place) -> Option<Refusal> {
        let analysis = &self.known.filter(|_| self.aim == Aim::Run)?.analysis;
        let to = place.hostgroup();
        let is_apart = |lease: &&Lease| {
            let has_written = lease.has_written && !lease.only_reads;
            lease.hostgroup != to && lease.pins.has(PinReason::Transaction) && has_written
        };
        let lease = session.leases().find(is_apart)?;
        analysis.commits_implicitly().then_some(Refusal::OpenElsewhere(lease.hostgroup, to))
    }

    /// Why it is refused where it would find `NULL` for a user variable that its session has
    /// elsewhere.
    #[inline]
    fn lacks_variable(&self, session: &Held<'_>, place: Place) -> Option<Refusal> {
        let analysis = &self.known.filter(|_| self.aim == Aim::Run)?.analysis;
        let may_read = analysis.depends.contains(Depends::USER_VARIABLE_READ);
        if session.leases.is_empty() || !may_read && !runs_other_text(analysis) {
            return None;
        }
        let held = variables_elsewhere(session, place.hostgroup(), analysis)?;
        Some(Refusal::VariablesElsewhere(held, place.hostgroup()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoHaveWritten(one, other) => write!(
                f,
                "transactions have written in hostgroups {one} and {other}, and can't be \
                 committed as one: roll back, or set transaction_persistent for this user"
            ),
            Self::HeldBeside(hostgroup, held) => write!(
                f,
                "transactions are open in several hostgroups, and in {hostgroup} the session \
                 holds a {}: give that back first",
                held.name()
            ),
            Self::HeldOnReader(held) => write!(
                f,
                "this statement ends a transaction on a reader, where the session holds a {}: \
                 give that back first",
                held.name()
            ),
            Self::OpenElsewhere(open, to) => write!(
                f,
                "this statement goes to hostgroup {to}, and would commit the transaction that is \
                 open in hostgroup {open}: COMMIT or ROLLBACK first"
            ),
            Self::VariablesElsewhere(held, to) => write!(
                f,
                "a user variable that this statement reads may be one that the session has set \
                 on hostgroup {held}, and the statement goes to hostgroup {to}: set it there, or \
                 have a rule send both to the same hostgroup"
            ),
        }
    }
}

/// Whether a statement does no harm in a transaction on readers: it looks at something, or ends the
/// transaction and does nothing else.
fn belongs_anywhere(analysis: &Analysis, proof: Proof) -> bool {
    only_looks(analysis, proof) || ends_transactions(analysis)
}

/// Whether a hostgroup has a server that takes statements.
fn has_online(snapshot: &Snapshot, hostgroup: HostgroupId, now_ms: u64) -> bool {
    let servers = snapshot.hostgroup(hostgroup).map(|hostgroup| &hostgroup.servers);
    servers
        .into_iter()
        .flatten()
        .any(|server| server.weight > 0 && server.health.state(now_ms) == ServerState::Online)
}
