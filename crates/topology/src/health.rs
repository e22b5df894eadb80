//! What the data plane and the control plane both know of a server, as atomics.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use crate::{Circuit, Ejection, Role, causal::Reached};

/// Whether a server takes statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ServerState {
    /// Takes statements.
    Online = 0,
    /// Refused or lost connections lately; tried again when its penalty is over.
    Shunned = 1,
    /// Takes no new statements; those that run may end.
    OfflineSoft = 2,
    /// Takes nothing; its connections are closed.
    OfflineHard = 3,
    /// Lags by more than it may: takes no new statements until it has caught up; those that run
    /// may end, transactions too.
    Lagging = 4,
    /// Has not the role in its cluster that its hostgroup stands for: takes nothing.
    Standby = 5,
}

/// Why a hostgroup could not serve a statement, in the words of the refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalCause {
    /// The hostgroup has no server entry at all.
    NoServer,
    /// No server is online.
    NoneOnline,
    /// The hostgroup is its cluster's writers', and there is no writer.
    NoWriter,
    /// Every online server is at `max_connections`.
    AllAtMaxConnections,
    /// Every connection was busy, and more would not have helped.
    AllBusy,
    /// The queue of the hostgroup is full.
    QueueFull,
    /// Connecting took longer than allowed.
    ConnectTimeout,
    /// A server refused the user's credentials.
    AuthenticationFailed,
    /// The proxy is stopping.
    Stopping,
}

/// Health of one server entry, shared by all workers. Cache-padded so that two servers' counters
/// never share a line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ServerHealth {
    /// What an operator said, or that it is shunned.
    state: AtomicU8,
    /// Whether it lags by more than it may, whatever else is said of it.
    is_lagging: AtomicBool,
    /// Connections open or being opened, over all workers: the global cap counts here.
    connections: AtomicU32,
    /// Statements sent and not answered yet, over all workers.
    in_flight: AtomicU32,
    /// Statements prepared on its connections, over all workers.
    stmts: AtomicU32,
    /// Bumped when the state changes; connections of an older epoch are not used again.
    epoch: AtomicU32,
    /// Sessions lose what they hold on connections of an older epoch.
    deposed: AtomicU32,
    /// Sessions leave connections of an older epoch when their transactions there end, if not
    /// before.
    left: AtomicU32,
    /// Connections of an older epoch are lost, whatever is under way on them.
    severed: AtomicU32,
    /// Milliseconds of the proxy's clock until which the server stays shunned.
    shunned_until_ms: AtomicU64,
    /// What became of connects.
    connects: Connects,
    /// In the upper half which incarnation of the server it is, in the lower half how many of its
    /// connections are logged in, over all workers.
    life: AtomicU64,
    /// The highest number that this incarnation is known to have given to a connection.
    last_thread: AtomicU32,
    /// What its sessions begin with, as its connections have told: 0 nobody has.
    autocommit: AtomicU8,
    /// What it has to be in its cluster, where it is in one.
    roles: Roles,
    /// What workers have seen of it since that was taken last, and whether answers are of
    /// interest.
    seen: AtomicU8,
    /// Whether it is out because it did worse than its peers.
    ejection: Ejection,
    /// What it shows of what was written, where it is followed.
    pub reached: Reached,
}

/// What workers have seen of a server: several of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen(u8);

impl Seen {
    /// It answered a statement.
    pub const ANSWERED: Self = Self(1);
    /// It refused a connection, or cut one.
    pub const REFUSED: Self = Self(2);
    /// It refused a statement since it is read-only, or has lost its Galera cluster.
    pub const READ_ONLY: Self = Self(4);
    /// Answers are of interest.
    const WANTED: Self = Self(8);

    /// Whether that was seen.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What a server has had to be, one after the other; the last one holds. Loads that change it are
/// rare, and readers take no lock.
#[derive(Debug, Default)]
struct Roles {
    role: Option<Role>,
    next: OnceLock<Box<Roles>>,
}

impl Roles {
    #[inline]
    fn last(&self) -> &Self {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }
}

/// What became of connects to a server.
#[derive(Debug, Default)]
struct Connects {
    /// Failures since the last success.
    failures: AtomicU32,
    /// Milliseconds of the proxy's clock until which it is not asked for one more connection: it
    /// has no room. 0 where it had.
    full_until_ms: AtomicU64,
}

/// One incarnation more, in the upper half of a life.
const INCARNATION: u64 = 1 << 32;

impl ServerHealth {
    /// A server that starts in `state`.
    pub fn new(state: ServerState) -> Self {
        Self { state: AtomicU8::new(state as u8), ..Self::default() }
    }

    /// A member of a cluster that starts in `state`, and takes statements while it has this role.
    pub fn of_member(state: ServerState, role: Role) -> Self {
        let roles = Roles { role: Some(role), next: OnceLock::new() };
        Self { roles, ..Self::new(state) }
    }

    /// What it has to be in its cluster; `None` for one that is in none.
    pub fn role(&self) -> Option<&Role> {
        self.roles.last().role.as_ref()
    }

    /// It stands for another role from now on, or for none, and what is counted of it goes on. One
    /// caller at a time.
    pub fn set_role(&self, role: Option<Role>) {
        let next = Box::new(Roles { role, next: OnceLock::new() });
        // There is nobody else who sets one.
        drop(self.roles.last().next.set(next));
        self.epoch.fetch_add(1, Relaxed);
    }

    /// Whether it has not the role that its hostgroup stands for.
    #[inline]
    pub fn is_standby(&self) -> bool {
        self.role().is_some_and(|role| !role.is_given())
    }

    /// Whether it has lost a role that nobody else may have with it: not even what is under way
    /// goes on.
    pub fn is_deposed(&self) -> bool {
        self.role().is_some_and(Role::is_lost)
    }

    /// The state at `now_ms`; a shun whose time is over counts as online.
    pub fn state(&self, now_ms: u64) -> ServerState {
        match self.state.load(Relaxed) {
            0 | 1 if self.is_standby() => ServerState::Standby,
            0 => self.online(),
            1 if now_ms >= self.shunned_until_ms.load(Relaxed) => self.online(),
            1 => ServerState::Shunned,
            2 => ServerState::OfflineSoft,
            _ => ServerState::OfflineHard,
        }
    }

    /// What one is that nobody took out and that answers.
    fn online(&self) -> ServerState {
        match self.is_lagging.load(Relaxed) {
            true => ServerState::Lagging,
            false => ServerState::Online,
        }
    }

    /// Whether an operator took it out with its connections, as if it were not in the hostgroup.
    pub fn is_offline_hard(&self) -> bool {
        self.state.load(Relaxed) >= ServerState::OfflineHard as u8
    }

    /// Whether an operator or the monitor took it out: it takes no new statements.
    pub fn is_offline(&self) -> bool {
        self.state.load(Relaxed) >= ServerState::OfflineSoft as u8
            || self.is_lagging()
            || self.is_standby()
    }

    /// Whether it lags by more than it may.
    pub fn is_lagging(&self) -> bool {
        self.is_lagging.load(Relaxed)
    }

    /// Sets whether it lags by more than it may, and says whether that is news; a server that
    /// begins to has its epoch bumped.
    pub fn set_lagging(&self, is_lagging: bool) -> bool {
        let is_news = self.is_lagging.swap(is_lagging, Relaxed) != is_lagging;
        if is_news && is_lagging {
            self.epoch.fetch_add(1, Relaxed);
        }
        is_news
    }

    /// Sets what an operator or the monitor decided; a change bumps the epoch. That a server lags
    /// is said by [`set_lagging`](Self::set_lagging).
    pub fn set_state(&self, state: ServerState) {
        debug_assert!(!matches!(state, ServerState::Lagging | ServerState::Standby));
        if self.state.swap(state as u8, Relaxed) != state as u8 {
            self.epoch.fetch_add(1, Relaxed);
        }
    }

    /// Connections made so far are not used again: new ones are made in another way.
    pub fn retire_connections(&self) {
        self.epoch.fetch_add(1, Relaxed);
    }

    /// Connections made so far are not used again, and sessions lose what they hold there, even if
    /// the server gets its role back: another one had it meanwhile.
    pub fn depose_connections(&self) {
        let since = self.leave_connections();
        self.deposed.store(since, Relaxed);
    }

    /// Connections made so far are not used again, and sessions lose what they hold there as soon
    /// as they have no transaction open there, even if the server gets its role back. Gives the
    /// epoch of the connections that are not among them.
    pub fn leave_connections(&self) -> u32 {
        let since = self.epoch.fetch_add(1, Relaxed).wrapping_add(1);
        self.left.store(since, Relaxed);
        since
    }

    /// The epoch of the connections that sessions do not leave; at least
    /// [`deposed`](Self::deposed).
    #[inline]
    pub fn left(&self) -> u32 {
        self.left.load(Relaxed)
    }

    /// The epoch of the connections on which sessions may go on.
    pub fn deposed(&self) -> u32 {
        self.deposed.load(Relaxed)
    }

    /// Connections made so far are lost, with what is under way on them: another server has taken
    /// over from this one, which nobody hears of, and what it may still say is not so any more.
    pub fn sever_connections(&self) {
        let since = self.leave_connections();
        self.severed.store(since, Relaxed);
        self.deposed.store(since, Relaxed);
    }

    /// The epoch whose connections, and those of later ones, are not lost.
    #[inline]
    pub fn severed(&self) -> u32 {
        self.severed.load(Relaxed)
    }

    /// Takes the server out until `until_ms`, unless an operator took it offline.
    pub fn shun(&self, until_ms: u64) {
        self.begin_shun(until_ms);
    }

    /// Does what [`shun`](Self::shun) does, and says whether that is news: a connection has come up
    /// since it was shunned last.
    pub fn begin_shun(&self, until_ms: u64) -> bool {
        self.shunned_until_ms.store(until_ms, Relaxed);
        let online = ServerState::Online as u8;
        let shunned = ServerState::Shunned as u8;
        let is_news = self.state.compare_exchange(online, shunned, Relaxed, Relaxed).is_ok();
        if is_news {
            self.epoch.fetch_add(1, Relaxed);
        }
        self.ejection.comes_back_at(until_ms);
        is_news
    }

    /// A shun ends now: the server is tried, as there is no other.
    pub fn end_shun(&self, now_ms: u64) {
        if self.is_shunned() {
            self.shunned_until_ms.fetch_min(now_ms, Relaxed);
        }
    }

    /// Whether it was shunned and no connection has come up since, though its time may be over.
    pub fn is_shunned(&self) -> bool {
        self.state.load(Relaxed) == ServerState::Shunned as u8
    }

    /// Whether it is out because it did worse than its peers, and with which share it comes back.
    pub fn ejection(&self) -> &Ejection {
        &self.ejection
    }

    /// The part of its weight, of [`Ejection::PARTS`], that it has among its peers; 0 when it takes
    /// none of their statements.
    #[inline]
    pub fn parts(&self, now_ms: u64, slow_start_ms: u64) -> u64 {
        match (self.state(now_ms), self.ejection.circuit(now_ms)) {
            (ServerState::Online, Circuit::Closed) => self.ejection.parts(now_ms, slow_start_ms),
            (ServerState::Online, Circuit::HalfOpen) if self.in_flight() == 0 => Ejection::PARTS,
            _ => 0,
        }
    }

    /// Records a connect failure and returns how many came since the last success.
    pub fn count_failure(&self) -> u32 {
        self.connects.failures.fetch_add(1, Relaxed).saturating_add(1)
    }

    /// A connection came up: the server is well. Ends a shun.
    pub fn count_success(&self) {
        if self.connects.failures.load(Relaxed) != 0 {
            self.connects.failures.store(0, Relaxed);
        }
        if self.connects.full_until_ms.load(Relaxed) != 0 {
            self.connects.full_until_ms.store(0, Relaxed);
        }
        let online = ServerState::Online as u8;
        let shunned = ServerState::Shunned as u8;
        let _ = self.state.compare_exchange(shunned, online, Relaxed, Relaxed);
    }

    /// A connection has logged in that the server calls `thread`; `last_thread` was known when it
    /// was begun ([`last_thread`](Self::last_thread)). Gives the server's incarnation.
    ///
    /// As long as a connection stands it is the same server; with the first one behind the last,
    /// or one whose number is not above those before, it may be another: started again, perhaps
    /// with other settings, or reached at another address.
    pub fn establish(&self, thread: u32, last_thread: u32) -> u32 {
        // Nothing is believed yet of one that nobody was connected to.
        let was_met = self.last_thread() != 0;
        let is_other = |life: u64| was_met && standing(life) == 0 || thread <= last_thread;
        let next = |life: u64| match is_other(life) {
            true => life.wrapping_add(INCARNATION + 1),
            false => life.wrapping_add(1),
        };
        // `next` always gives one.
        let before = self.life.fetch_update(Relaxed, Relaxed, |life| Some(next(life)));
        let before = before.unwrap_or_else(|life| life);
        match is_other(before) {
            true => self.last_thread.store(thread, Relaxed),
            false => drop(self.last_thread.fetch_max(thread, Relaxed)),
        }
        incarnation_of(next(before))
    }

    /// A connection that was logged in has gone.
    pub fn disestablish(&self) {
        let before = self.life.fetch_sub(1, Relaxed);
        debug_assert!(standing(before) > 0);
    }

    /// Whether a connection that has logged in stands: what was learnt of the server is of it.
    pub fn is_connected(&self) -> bool {
        standing(self.life.load(Relaxed)) > 0
    }

    /// The highest number that the server is known to have given to a connection.
    pub fn last_thread(&self) -> u32 {
        self.last_thread.load(Relaxed)
    }

    /// Grows when it may be another server: what one has accepted or answered is not believed of
    /// the next.
    pub fn incarnation(&self) -> u32 {
        incarnation_of(self.life.load(Relaxed))
    }

    /// Whether its sessions begin with autocommit on; `None` when nobody has told.
    pub fn begins_with_autocommit(&self) -> Option<bool> {
        match self.autocommit.load(Relaxed) {
            0 => None,
            is_on => Some(is_on == 1),
        }
    }

    /// Says whether its sessions begin with autocommit on; `None` when that is not known any more.
    pub fn set_autocommit(&self, is_on: Option<bool>) {
        let said = is_on.map_or(0, |is_on| if is_on { 1 } else { 2 });
        self.autocommit.store(said, Relaxed);
    }

    /// Notes what a worker has seen.
    pub fn note(&self, seen: Seen) {
        self.seen.fetch_or(seen.0, Relaxed);
    }

    /// Notes that it has answered a statement, where that is of interest.
    #[inline]
    pub fn note_answer(&self) {
        let seen = Seen(self.seen.load(Relaxed));
        if seen.has(Seen::WANTED) && !seen.has(Seen::ANSWERED) {
            self.note(Seen::ANSWERED);
        }
    }

    /// What workers have seen since the last call, and whether they are to note answers too.
    pub fn take_seen(&self, wants_answers: bool) -> Seen {
        let next = if wants_answers { Seen::WANTED.0 } else { 0 };
        match self.seen.load(Relaxed) == next {
            true => Seen(next),
            false => Seen(self.seen.swap(next, Relaxed)),
        }
    }

    /// Connections of an older epoch must not be used again.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Relaxed)
    }

    /// The server has no room for one more connection (error 1040): it is not asked for one before
    /// `until_ms`.
    pub fn set_full(&self, until_ms: u64) {
        self.connects.full_until_ms.store(until_ms, Relaxed);
    }

    /// Whether the server had no room for another connection, when that was tried last.
    pub fn was_full(&self) -> bool {
        self.connects.full_until_ms.load(Relaxed) != 0
    }

    /// Whether the server said a moment ago that it has no room for another connection.
    pub fn is_full(&self, now_ms: u64) -> bool {
        now_ms < self.connects.full_until_ms.load(Relaxed)
    }

    /// Takes one of `max` places for a connection; false when all are taken.
    pub fn try_take_connection(&self, max: u32) -> bool {
        self.connections
            .fetch_update(Relaxed, Relaxed, |open| (open < max).then_some(open + 1))
            .is_ok()
    }

    /// Takes a place beyond the cap, for a `KILL` that must get to a server whose places are all
    /// taken.
    pub fn take_connection_beyond(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    /// Gives a connection's place back.
    pub fn give_back_connection(&self) {
        let before = self.connections.fetch_sub(1, Relaxed);
        debug_assert!(before > 0);
    }

    /// Connections open or being opened, over all workers.
    pub fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }

    /// The server has one prepared statement more.
    pub fn add_stmt(&self) {
        self.stmts.fetch_add(1, Relaxed);
    }

    /// The server has so many prepared statements less.
    pub fn close_stmts(&self, count: u32) {
        if count > 0 {
            let before = self.stmts.fetch_sub(count, Relaxed);
            debug_assert!(before >= count);
        }
    }

    /// Statements prepared on the server's connections, over all workers.
    pub fn stmts(&self) -> u32 {
        self.stmts.load(Relaxed)
    }

    /// A statement was sent.
    pub fn begin_statement(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// A statement was answered, or its connection is gone.
    pub fn end_statement(&self) {
        let before = self.in_flight.fetch_sub(1, Relaxed);
        debug_assert!(before > 0);
    }

    /// Statements sent and not answered yet, over all workers.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }
}

fn incarnation_of(life: u64) -> u32 {
    u32::try_from(life / INCARNATION).unwrap_or_default()
}

fn standing(life: u64) -> u64 {
    life % INCARNATION
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::WriterCell;

    #[test]
    fn the_cap_on_connections_holds() {
        let health = ServerHealth::default();
        assert!(health.try_take_connection(2) && health.try_take_connection(2));
        assert!(!health.try_take_connection(2));
        health.give_back_connection();
        assert!(health.try_take_connection(2));
    }

    #[test]
    fn a_shun_ends_by_time_or_by_success_and_changes_the_epoch() {
        let health = ServerHealth::default();
        health.shun(100);
        assert_eq!(health.state(99), ServerState::Shunned);
        assert_eq!(health.state(100), ServerState::Online);
        assert_eq!(health.epoch(), 1);
        health.count_success();
        assert_eq!(health.state(0), ServerState::Online);
    }

    #[test]
    fn a_shun_does_not_undo_an_operators_word() {
        let health = ServerHealth::new(ServerState::OfflineHard);
        health.shun(100);
        assert_eq!(health.state(200), ServerState::OfflineHard);
        assert!(health.is_offline());
        health.set_state(ServerState::Online);
        health.shun(300);
        assert!(!health.is_offline());
    }

    #[test]
    fn a_server_is_the_same_while_a_connection_stands_and_its_numbers_grow() {
        let health = ServerHealth::default();
        let establish = |thread| health.establish(thread, health.last_thread());
        let first = establish(10);
        assert_eq!((establish(12), establish(13)), (first, first));
        // Two logins cross: the later number comes first.
        let begun_at = health.last_thread();
        assert_eq!(health.establish(15, begun_at), first);
        assert_eq!(health.establish(14, begun_at), first);
        // It has begun to count anew, though the old connections seem to stand.
        let second = establish(3);
        assert_eq!((second, establish(4)), (first + 1, second));
        (0..7).for_each(|_| health.disestablish());
        assert_eq!(establish(50), second + 1);
    }

    #[test]
    fn another_role_leaves_everything_that_is_counted() {
        let health = ServerHealth::new(ServerState::Online);
        assert!(health.try_take_connection(2));
        let (is_given, ends_statements) = (AtomicBool::new(false), true);
        health.set_role(Some(Role::Shared { is_given, ends_statements }));
        assert_eq!((health.state(0), health.connections()), (ServerState::Standby, 1));
        health.set_role(None);
        assert_eq!((health.state(0), health.connections()), (ServerState::Online, 1));
    }

    #[test]
    fn a_member_takes_statements_while_it_has_its_role() {
        let cell = Arc::new(WriterCell::default());
        let role = Role::Writer { cell: Arc::clone(&cell), member: 3 };
        let health = ServerHealth::of_member(ServerState::Online, role);
        assert_eq!((health.state(0), health.is_deposed()), (ServerState::Standby, true));
        cell.set(Some(3));
        assert_eq!((health.state(0), health.is_deposed()), (ServerState::Online, false));
        health.shun(100);
        assert_eq!(health.state(50), ServerState::Shunned);
        cell.set(Some(1));
        assert_eq!(health.state(50), ServerState::Standby);
        assert!(health.is_offline());
        health.set_state(ServerState::OfflineSoft);
        assert_eq!(health.state(50), ServerState::OfflineSoft);
        // A reader's statements and transactions end by themselves.
        let (is_given, ends_statements) = (AtomicBool::new(false), false);
        let reader = Role::Shared { is_given, ends_statements };
        let reader = ServerHealth::of_member(ServerState::Online, reader);
        assert_eq!((reader.state(0), reader.is_deposed()), (ServerState::Standby, false));
    }

    #[test]
    fn connections_are_left_behind_their_transactions_or_at_once() {
        let health = ServerHealth::default();
        let ends = || (health.epoch(), health.left(), health.deposed(), health.severed());
        health.retire_connections();
        assert_eq!(ends(), (1, 0, 0, 0));
        assert_eq!(health.leave_connections(), 2);
        assert_eq!(ends(), (2, 2, 0, 0));
        health.depose_connections();
        assert_eq!(ends(), (3, 3, 3, 0));
        health.sever_connections();
        assert_eq!(ends(), (4, 4, 4, 4));
    }

    #[test]
    fn one_that_lags_takes_nothing_new_and_stays_what_it_is_otherwise() {
        let health = ServerHealth::default();
        assert!(health.set_lagging(true) && !health.set_lagging(true));
        assert_eq!((health.state(0), health.epoch()), (ServerState::Lagging, 1));
        assert!(health.is_offline());
        health.shun(100);
        assert_eq!(health.state(99), ServerState::Shunned);
        assert_eq!(health.state(100), ServerState::Lagging);
        health.set_state(ServerState::OfflineSoft);
        assert_eq!(health.state(100), ServerState::OfflineSoft);
        health.set_state(ServerState::Online);
        assert_eq!(health.state(100), ServerState::Lagging);
        assert!(health.set_lagging(false));
        assert_eq!(health.state(0), ServerState::Online);
        assert!(!health.is_offline());
    }
}
