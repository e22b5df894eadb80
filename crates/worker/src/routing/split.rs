//! The automatic read/write split, routing hints, and hostgroups that rules name, as decisions by
//! themselves: parts of [`decide`](super::decide).

use trunkline_catalog::Proof;
use trunkline_config::{ServerEntry, Snapshot};
use trunkline_session::tracker::SessionState;
use trunkline_sql::{
    analysis::{Analysis, Effect, TransactionEffect},
    hint::{Hints, RouteHint},
};
use trunkline_topology::{
    Address, HostgroupId, ReadWriteSplit, ReplicationGroup, ServerKey, ServerState,
};

use crate::routing::read_only::only_looks;

/// Where the split sends a statement that no rule and no held connection decides, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// To the user's hostgroup, which is no writer of a group.
    NoGroup,
    /// To the writer: only rules send statements to the readers of this group.
    RulesOnly,
    /// To the writer: the statement may write, or depends on its connection.
    MayWrite,
    /// To the writer: `autocommit` is off, so a transaction begins.
    AutocommitOff,
    /// To the writer: what is read in the transaction is locked for others.
    Serializable,
    /// To the writer: it could go to a reader, but none is online.
    NoReader,
    /// To these readers: it begins a transaction that only reads.
    ReadOnlyTransaction(HostgroupId),
    /// To these readers: it certainly only reads.
    Read(HostgroupId),
}

impl Split {
    /// The hostgroup, for a user with this default.
    pub fn hostgroup(self, default: HostgroupId) -> HostgroupId {
        match self {
            Self::NoGroup
            | Self::RulesOnly
            | Self::MayWrite
            | Self::AutocommitOff
            | Self::Serializable
            | Self::NoReader => default,
            Self::ReadOnlyTransaction(readers) | Self::Read(readers) => readers,
        }
    }

    /// Why, for people.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoGroup => "the user's default",
            Self::RulesOnly => "the user's default: no rule says otherwise",
            Self::MayWrite => "the writer: it may write",
            Self::AutocommitOff => "the writer: autocommit is off",
            Self::Serializable => "the writer: in serializable transactions reads lock",
            Self::NoReader => "the writer: no reader is online",
            Self::ReadOnlyTransaction(_) => "a reader: the transaction is read only",
            Self::Read(_) => "a reader: outside transactions it only reads",
        }
    }
}

/// What the split asks of a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct Transactions {
    /// Each statement belongs to one.
    pub autocommit_off: bool,
    /// What they read is locked.
    pub serializable: bool,
}

impl Transactions {
    /// A session's.
    pub fn of(state: &SessionState) -> Self {
        let (autocommit_off, serializable) = (state.is_autocommit_off(), state.is_serializable());
        Self { autocommit_off, serializable }
    }
}

/// Splits for a session that holds no connection. `group` is the group of which the user's
/// default hostgroup is the writer, `statement` is `None` for a command without a text, `reads`
/// whether it is proven to have no effects, and `is_online` says whether a hostgroup has a server
/// that takes statements.
#[inline]
pub fn split(
    group: Option<&ReplicationGroup>,
    statement: Option<&Analysis>,
    reads: bool,
    transactions: Transactions,
    is_online: impl FnOnce(HostgroupId) -> bool,
) -> Split {
    let Some(group) = group else {
        return Split::NoGroup;
    };
    if group.read_write_split == ReadWriteSplit::Rules {
        return Split::RulesOnly;
    }
    let Some(analysis) = statement else {
        return Split::MayWrite;
    };
    let begins_read_only = analysis.statements == 1
        && matches!(analysis.transaction, TransactionEffect::Begin { read_only: true, .. });
    let only_reads =
        reads && analysis.transaction == TransactionEffect::None && analysis.depends.is_empty();
    if !only_reads && !begins_read_only {
        return Split::MayWrite;
    }
    if transactions.autocommit_off && !begins_read_only {
        return Split::AutocommitOff;
    }
    if transactions.serializable && begins_read_only {
        return Split::Serializable;
    }
    let readers = group.reader_hostgroup;
    match (is_online(readers), begins_read_only) {
        (false, _) => Split::NoReader,
        (true, true) => Split::ReadOnlyTransaction(readers),
        (true, false) => Split::Read(readers),
    }
}

/// The hostgroup that a statement's comments name; it goes before what rules say. `None` when they
/// name none, or one that this statement must not go to: MaxScale's `route to slave` holds for what
/// only reads, outside transactions. Where the number is that of a group's readers, what may do
/// more than look at something goes to the group's writer.
pub fn hinted_hostgroup(
    hints: &Hints,
    default: HostgroupId,
    groups: &[ReplicationGroup],
    (analysis, proof): (&Analysis, Proof),
    autocommit_off: bool,
    is_online: impl FnOnce(HostgroupId) -> bool,
) -> Option<HostgroupId> {
    if let Some(number) = hints.hostgroup {
        let named = HostgroupId(number);
        let read_there = groups.iter().find(|group| group.reader_hostgroup == named);
        let harmless = !autocommit_off && only_looks(analysis, proof);
        return Some(read_there.filter(|_| !harmless).map_or(named, |it| it.writer_hostgroup));
    }
    match hints.route.as_ref()? {
        RouteHint::Master => Some(default),
        RouteHint::Slave => {
            let group = groups.iter().find(|group| group.writer_hostgroup == default)?;
            let readers = group.reader_hostgroup;
            (proof.reads && !autocommit_off && is_online(readers)).then_some(readers)
        }
        RouteHint::Server(_) => None,
    }
}

/// How far a rule or fast routing is obeyed that names a hostgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obeyed {
    /// The statement goes there.
    AsSaid,
    /// It begins a transaction, in which others may write: from the readers of a group to its
    /// writer.
    UnlessItBegins,
    /// It is about a named lock, which is one for all sessions in one place only: from the readers
    /// of a group to its writer.
    UnlessItLocks,
}

/// The hostgroup of a statement for which a rule or fast routing names one, for a user with this
/// default. Where it names the readers of a group, two kinds of statements go to the group's
/// writer. Without autocommit one begins a transaction (`begins`), in which others may write. And
/// a named lock is one for all sessions in one place only.
#[inline]
pub fn ruled(
    named: HostgroupId,
    default: HostgroupId,
    groups: &[ReplicationGroup],
    (analysis, begins): (&Analysis, bool),
) -> (HostgroupId, Obeyed) {
    let is_named = |group: &&ReplicationGroup| group.reader_hostgroup == named && named != default;
    let Some(group) = groups.iter().find(is_named) else {
        return (named, Obeyed::AsSaid);
    };
    let is_lock = |effect: &Effect| {
        matches!(effect, Effect::GetLock(_) | Effect::ReleaseLock(_) | Effect::ReleaseAllLocks)
    };
    match analysis.effects.iter().any(is_lock) {
        _ if begins => (group.writer_hostgroup, Obeyed::UnlessItBegins),
        true => (group.writer_hostgroup, Obeyed::UnlessItLocks),
        false => (named, Obeyed::AsSaid),
    }
}

/// The server that a statement's comments name (MaxScale's `route to server`), by its comment in
/// the configuration, its address or its host; one of the user's own hostgroups goes before
/// others. The flag says that it is a reader, where nothing is to be that may write. `None` when
/// there is none of that name that is online.
pub fn hinted_server<'a>(
    hints: &Hints,
    snapshot: &'a Snapshot,
    default: HostgroupId,
    now_ms: u64,
) -> Option<(&'a ServerKey, bool)> {
    let (None, Some(RouteHint::Server(name))) = (hints.hostgroup, hints.route.as_ref()) else {
        return None;
    };
    let name = std::str::from_utf8(name).ok()?;
    let group = snapshot.writer_group(default);
    let is_own =
        |id: HostgroupId| id == default || group.is_some_and(|group| group.reader_hostgroup == id);
    let named = |entry: &&ServerEntry| {
        let address = &entry.key.address;
        let is_host = matches!(address, Address::Tcp { host, .. } if host == name);
        entry.comment == name || is_host || address.to_string() == name
    };
    let entries = || snapshot.config.servers.iter().filter(named);
    let key = &entries().find(|entry| is_own(entry.key.hostgroup)).or(entries().next())?.key;
    let servers = &snapshot.hostgroup(key.hostgroup)?.servers;
    let server = servers.iter().find(|server| server.key == *key)?;
    let is_reader =
        snapshot.replication.iter().any(|group| group.reader_hostgroup == key.hostgroup);
    let is_online = server.weight > 0 && server.health.state(now_ms) == ServerState::Online;
    is_online.then_some((key, is_reader))
}

/// Of which hostgroup's servers it matters what is proven of a statement with these comments.
/// `server` is the one that they name, and whether it is a reader. `None` where it is its session's
/// own hostgroup.
pub(super) fn hinted_place(
    hints: &Hints,
    server: Option<(&ServerKey, bool)>,
) -> Option<HostgroupId> {
    let server = server.filter(|(_, is_reader)| *is_reader).map(|(key, _)| key.hostgroup);
    hints.hostgroup.map(HostgroupId).or(server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_catalog::Hidden;
    use trunkline_sql::{
        analysis::{Access, analyse},
        token::Modes,
    };

    const READERS: HostgroupId = HostgroupId(20);

    fn group(read_write_split: ReadWriteSplit) -> ReplicationGroup {
        let writer_hostgroup = HostgroupId(10);
        ReplicationGroup { writer_hostgroup, reader_hostgroup: READERS, read_write_split }
    }

    #[test]
    fn reads_outside_transactions_go_to_readers_that_are_online() {
        let auto = group(ReadWriteSplit::Auto);
        let check = |text: &str, autocommit_off, is_online, expected| {
            let transactions = Transactions { autocommit_off, serializable: false };
            let analysis = analyse(text.as_bytes(), &Modes::default());
            let reads = analysis.access == Access::CertainlyReads;
            let split = split(Some(&auto), Some(&analysis), reads, transactions, |_| is_online);
            assert_eq!(split, expected, "{text}");
        };
        check("SELECT 1", false, true, Split::Read(READERS));
        check("SELECT 1", false, false, Split::NoReader);
        check("SELECT 1", true, true, Split::AutocommitOff);
        check("SELECT LAST_INSERT_ID()", false, true, Split::MayWrite);
        check("SELECT 1 FOR UPDATE", true, true, Split::MayWrite);
        let begin = "START TRANSACTION READ ONLY";
        check(begin, false, true, Split::ReadOnlyTransaction(READERS));
        check(begin, true, true, Split::ReadOnlyTransaction(READERS));
        check("START TRANSACTION READ ONLY; SELECT 1", false, true, Split::MayWrite);
        check("BEGIN", false, true, Split::MayWrite);
    }

    #[test]
    fn a_serializable_transaction_locks_what_it_reads_on_the_writer() {
        let auto = group(ReadWriteSplit::Auto);
        let serializable = Transactions { autocommit_off: false, serializable: true };
        let check = |text: &str, reads, expected| {
            let analysis = analyse(text.as_bytes(), &Modes::default());
            let split = split(Some(&auto), Some(&analysis), reads, serializable, |_| true);
            assert_eq!(split, expected, "{text}");
        };
        check("START TRANSACTION READ ONLY", false, Split::Serializable);
        // By itself a read locks nothing.
        check("SELECT 1", true, Split::Read(READERS));
    }

    #[test]
    fn without_a_group_or_a_text_nothing_is_split() {
        const NONE: Transactions = Transactions { autocommit_off: false, serializable: false };
        let analysis = analyse(b"SELECT 1", &Modes::default());
        assert_eq!(split(None, Some(&analysis), true, NONE, |_| true), Split::NoGroup);
        let rules = group(ReadWriteSplit::Rules);
        assert_eq!(split(Some(&rules), Some(&analysis), true, NONE, |_| true), Split::RulesOnly);
        let auto = group(ReadWriteSplit::Auto);
        assert_eq!(split(Some(&auto), None, false, NONE, |_| true), Split::MayWrite);
    }

    #[test]
    fn a_hint_names_a_hostgroup_and_sends_no_write_to_a_reader() {
        let auto = group(ReadWriteSplit::Auto);
        let said = |text: &str, autocommit_off, expected: Option<u32>| {
            let modes = Modes::default();
            let analysis = analyse(text.as_bytes(), &modes);
            let comment = text.strip_prefix("/*").and_then(|rest| rest.split_once("*/"));
            let comment = comment.map(|(comment, _)| comment.as_bytes());
            let hints = Hints::find(text.as_bytes(), comment, &modes);
            let proof =
                Proof { reads: analysis.access == Access::CertainlyReads, hidden: Hidden::empty() };
            let (default, groups) = (HostgroupId(10), std::slice::from_ref(&auto));
            let statement = (&analysis, proof);
            let found =
                hinted_hostgroup(&hints, default, groups, statement, autocommit_off, |_| true);
            assert_eq!(found, expected.map(HostgroupId), "{text}");
        };
        let check = |text: &str, expected| said(text, false, expected);
        said("/* hostgroup=20 */ SELECT 1", true, Some(10));
        said("/* hostgroup=7 */ SELECT 1", true, Some(7));
        said("SELECT 1 -- maxscale route to slave", true, None);
        check("/* hostgroup=7 */ DELETE FROM t", Some(7));
        check("/* hostgroup=20 */ SELECT a FROM t", Some(20));
        check("/* hostgroup=20 */ SELECT @@server_id", Some(20));
        check("/* hostgroup=20 */ SHOW REPLICA STATUS", Some(20));
        for text in [
            "DELETE FROM t",
            "SELECT a FROM t FOR SHARE",
            "SELECT GET_LOCK('a', 0)",
            "SELECT f()",
            "BEGIN",
            "CREATE TABLE t (a INT)",
            "SELECT 1; DELETE FROM t",
            "SET @a = 1",
        ] {
            check(&format!("/* hostgroup=20 */ {text}"), Some(10));
        }
        check("SELECT 1 -- maxscale route to slave", Some(20));
        check("DELETE FROM t -- maxscale route to slave", None);
        check("SELECT 1 -- maxscale route to master", Some(10));
        check("SELECT 1 -- maxscale route to server db1", None);
        check("SELECT 1 /* nothing */", None);
    }

    #[test]
    fn a_rule_that_names_readers_is_obeyed_by_what_neither_locks_nor_begins() {
        let groups = [group(ReadWriteSplit::Rules)];
        let ruled_to = |text: &str, named: u32, default: u32, begins: bool| {
            let analysis = analyse(text.as_bytes(), &Modes::default());
            ruled(HostgroupId(named), HostgroupId(default), &groups, (&analysis, begins)).0.0
        };
        let read = "SELECT a FROM t";
        assert_eq!(ruled_to(read, 20, 10, false), 20);
        assert_eq!(ruled_to(read, 20, 10, true), 10, "it begins a transaction");
        for text in
            ["SELECT GET_LOCK('a', 1)", "SELECT RELEASE_LOCK('a')", "DO RELEASE_ALL_LOCKS()"]
        {
            assert_eq!(ruled_to(text, 20, 10, false), 10, "{text}");
        }
        assert_eq!(ruled_to(read, 20, 20, true), 20, "its user's own hostgroup");
        assert_eq!(ruled_to(read, 30, 10, true), 30, "no group's readers");
    }
}
