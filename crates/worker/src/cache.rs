//! Step 6: a statement that a rule makes cacheable is answered with an equal one's answer.
//!
//! An answer is stored as its server sent it, and goes through the same relay again for each
//! client, so that everybody gets its own framing. Found is only what agrees in everything that
//! changes an answer ([`Core::put_key`]); stored is only what is complete, without an error, and
//! left nothing behind ([`Core::stored`]). A hit takes no lease and touches no server.
//! `docs/decisions/0019`.

pub(crate) mod capture;

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use trunkline_cache::{Begun, Cache, Reply, Ticket, Waiter};
use trunkline_catalog::{Hidden, Proof};
use trunkline_config::Snapshot;
use trunkline_protocol::{
    codec::{
        Malformed,
        frame::{HEADER_LEN, Header},
    },
    packet::{
        ok::{self, OkPacket, put_result_end},
        status,
        track::Change,
    },
    response::{Fed, Relay, ReplyFormat, ResponseShape},
};
use trunkline_rules::Effects;
use trunkline_session::tracker::{Charset, PinReason, SessionState, StateTable};
use trunkline_sql::analysis::{Analysis, Depends, StatementKind};
use trunkline_topology::{Basis, HostgroupId};

use self::shared::has_shared_place;
use crate::{
    ClientId,
    cache::capture::Capture,
    clients::client::{Awaits, Client, Held, Phase, Purpose, Session, Stage, Statement},
    clients::frames::is_split,
    env::Env,
    prepared::know_columns,
    rooms::{Core, Exchange, Lender},
    routing::route::Route,
};

mod shared;
pub(crate) mod until;

/// How many bytes at a key's beginning mean something to this process only.
const LOCAL_LEN: usize = 16;

/// What a key begins with: the servers that are asked and the defaults of their sessions, as far as
/// they are known here. A reload may give a hostgroup other servers; a `SET GLOBAL` or a server's
/// restart gives sessions other defaults.
fn local_part(env: &Env, hostgroup: HostgroupId) -> [u8; LOCAL_LEN] {
    let mut part = [0; LOCAL_LEN];
    let (servers, globals) = part.split_at_mut(LOCAL_LEN / 2);
    servers.copy_from_slice(&servers_hash(&env.snapshot, hostgroup).to_le_bytes());
    globals.copy_from_slice(&env.shared.globals_set().to_le_bytes());
    part
}

/// Which servers a hostgroup has, and since which start of each.
fn servers_hash(snapshot: &Snapshot, hostgroup: HostgroupId) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    let servers = snapshot.hostgroup(hostgroup).into_iter().flat_map(|group| &group.servers);
    servers.for_each(|server| {
        (&server.key.address, server.health.incarnation()).hash(&mut hasher);
    });
    hasher.finish()
}

/// A longer command is not cached, bytes.
const COMMAND_LEN_MAX: usize = 64 * 1024;
/// How long a statement waits for the answer to an equal one, where its rule does not say so, ms.
const WAIT_MS: u32 = 1_000;
/// What may hold a session on its connection while it is answered from the cache: none of it
/// changes an answer.
const HARMLESS_PINS: [PinReason; 3] = [PinReason::Rule, PinReason::Warnings, PinReason::FoundRows];
/// Status flags of an answer that means something for its own connection only.
pub(crate) const UNSTORED_STATUS: u16 =
    status::IN_TRANS | status::MORE_RESULTS | status::CURSOR_EXISTS;

/// What a rule or a hint says of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheOrder {
    /// How old an answer may be, ms; not 0.
    ttl_ms: u32,
    /// It may be given until a table changes that it depends on, and what is known of changes may
    /// be so old, ms; 0 when only its age counts.
    until_age_ms: u16,
    /// Whether answers without rows are stored; `None` as the setting says.
    pub(crate) stores_empty: Option<bool>,
    /// How long to wait for an equal statement's answer, ms.
    wait_ms: u32,
    /// The rule; 0 for a hint.
    pub(crate) rule: u32,
    /// What varies is cached too.
    pub(crate) is_always: bool,
}

impl CacheOrder {
    /// What rules say; `None` when they do not make the statement cacheable.
    pub(crate) fn of_effects(effects: &Effects) -> Option<Self> {
        let ttl_ms = effects.cache_ttl_ms.filter(|ttl_ms| *ttl_ms > 0);
        let is_until = effects.cache_until_changed == Some(true);
        let age_max_ms = effects.cache_age_max_ms.and_then(|ms| u16::try_from(ms).ok());
        let until_age_ms = if is_until { age_max_ms.unwrap_or(until::AGE_MAX_MS) } else { 0 };
        Some(Self {
            ttl_ms: ttl_ms.or(is_until.then_some(until::TTL_MS))?,
            until_age_ms,
            stores_empty: effects.cache_empty_result,
            wait_ms: effects.cache_timeout_ms.unwrap_or(WAIT_MS),
            rule: effects.cache_rule.unwrap_or_default(),
            is_always: effects.cache_always == Some(true) && !is_until,
        })
    }

    /// What a hint makes of it: another time, or none.
    pub(crate) fn hinted(before: Option<Self>, ttl_ms: u32) -> Option<Self> {
        let plain = Self {
            ttl_ms,
            until_age_ms: 0,
            stores_empty: None,
            wait_ms: WAIT_MS,
            rule: 0,
            is_always: false,
        };
        (ttl_ms > 0).then(|| Self { ttl_ms, ..before.unwrap_or(plain) })
    }

    /// How old an answer may be, ms.
    pub(crate) fn ttl_ms(self) -> u32 {
        self.ttl_ms
    }

    /// Whether an answer is given until a table changes that it depends on.
    pub(crate) fn is_until_changed(self) -> bool {
        self.until_age_ms > 0
    }

    /// How old what is known of changes may be, ms.
    fn age_max_ms(self) -> u64 {
        self.until_age_ms.into()
    }

    pub(crate) fn ttl_us(self) -> u64 {
        u64::from(self.ttl_ms) * 1_000
    }
}

impl CacheFill {
    /// Whether its key is one of now: a reload, a restart or a `SET GLOBAL` may have come while the
    /// statement waited.
    pub(crate) fn is_of_now(&self, env: &Env) -> bool {
        let parts = self.key.split_first_chunk::<LOCAL_LEN>();
        parts.is_some_and(|(local, rest)| {
            let hostgroup = rest.first_chunk().map(|id| HostgroupId(u32::from_le_bytes(*id)));
            hostgroup.is_some_and(|hostgroup| *local == local_part(env, hostgroup))
        })
    }
}

/// A statement whose answer is to be stored.
#[derive(Debug)]
pub(crate) struct CacheFill {
    pub(crate) cache: Arc<Cache>,
    pub(crate) key: Box<[u8]>,
    pub(crate) ticket: Ticket,
    /// What has come of the answer.
    pub(crate) copy: Capture,
    /// Where it goes beside, if there is a shared cache.
    pub(crate) shared: Option<shared::SharedPlace>,
    /// What its answer depends on, where it is kept until that changes.
    pub(crate) basis: Option<Box<Basis>>,
}

/// What the cache has for a statement.
enum Found {
    Answer(Arc<Reply>),
    /// Its answer is to be stored.
    Fill(Ticket),
    /// Its answer is to be stored in place of one that is to be renewed: a server is asked, whoever
    /// else has it.
    Renew(Ticket),
    /// An equal one is under way, and it waits for that one's answer.
    Wait,
    /// It goes on as any other.
    Nothing,
}

impl Exchange {
    /// Answers a statement from the cache, has it wait for an equal one's answer, or sets it on its
    /// route, perhaps with the order to store its answer.
    pub(crate) fn ask_cache(
        &mut self,
        client: &mut Client,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
        order: CacheOrder,
    ) {
        let mut key = std::mem::take(&mut self.statements.cache_key);
        key.clear();
        if self.core.put_key(client, &route, &statement, text_len, order, &mut key).is_none() {
            self.statements.cache_key = key;
            return self.delay_or_start(client, route, statement, text_len);
        }
        let found = self.core.look_up(client, &key, order, order.wait_ms > 0);
        let found = self.core.prepare_fill(client, &mut statement, (&key, &route), order, found);
        match found {
            Found::Fill(_) if has_shared_place(&statement) => {
                self.ask_shared(client, route, statement, text_len);
            }
            Found::Answer(reply) => {
                self.answer_cached(client, &mut statement, order, &reply);
                self.retire(statement);
            }
            Found::Wait => {
                let awaits = Awaits::Cached(key.as_slice().into());
                statement.stage = Stage::held(awaits, route, text_len);
                self.core.await_cached(client, statement, order);
            }
            Found::Fill(_) | Found::Renew(_) | Found::Nothing => {
                self.core.count_miss(order);
                self.delay_or_start(client, route, statement, text_len);
            }
        }
        self.statements.cache_key = key;
    }

    /// Answers a statement with what the cache has.
    fn answer_cached(
        &mut self,
        client: &mut Client,
        statement: &mut Statement,
        order: CacheOrder,
        reply: &Reply,
    ) {
        let flavor = self.core.env.greeting.flavor();
        let session = &mut *client.session;
        let shape = ResponseShape::Query;
        let mut relay =
            Relay::new(shape, reply.format, session.login.format, true).numbered_from(1);
        relay.set_told(session.settings.told.clone());
        relay.set_status(session.settings.status);
        relay.set_without_cursor();
        know_columns(&mut relay, statement, session);
        let before = client.io.outbox.position();
        let fed = relay.feed(&reply.bytes, client.io.outbox.buf(&mut self.core.fx.buffers));
        let sent = client.io.outbox.position() - before;
        self.core.touch_client(client);
        if !matches!(fed, Ok(Fed { ended: true, .. })) {
            debug_assert!(false, "a stored answer is whole");
            return self.close_client_now(client);
        }
        let outcome = relay.into_outcome();
        let session = &mut *client.session;
        // No connection has what this statement left: there is nothing but the counts.
        session.past.learn(statement, &outcome, flavor, None, false);
        session.last_conn = None;
        client.stmt_answered(statement, &outcome);
        self.core.clients.count_waiting(client);
        let age_us = reply.age_us(self.core.env.now.us);
        let counters = &mut self.core.fx.stats.counters;
        counters.cache_hits += 1;
        counters.cache_sent_bytes += sent;
        counters.statements_answered += 1;
        let figures = self.core.fx.stats.cache_mut(order.rule);
        figures.hits += 1;
        figures.sent_bytes += sent;
        figures.age_us += age_us;
        statement.target.hostgroup = HostgroupId(trunkline_stats::HOSTGROUP_CACHE);
        // It has not waited for a connection.
        statement.sent.sent_us = statement.command.begun_us;
        self.sample(client, statement, None, Some(&outcome), None);
    }

    /// Lets those go on whose answers were stored. What they do then may wake others, which come
    /// with the next call.
    #[inline]
    pub(crate) fn go_on_cached(&mut self) {
        for _ in 0..self.core.clients.cache_woken.len() {
            if let Some(id) = self.core.clients.cache_woken.pop_front() {
                self.with_client(id, Self::go_on_with);
            }
        }
    }

    fn go_on_with(&mut self, client: &mut Client) {
        let is_it = |awaits: &Awaits| matches!(awaits, Awaits::Cached(_));
        let Some((mut statement, held)) = client.phase.take_held(is_it) else { return };
        let Held { awaits, route, text_len } = held;
        let order = statement.target.directives.cache;
        let (Awaits::Cached(key), Some(order)) = (awaits, order) else {
            return self.run_on_route(client, route, statement);
        };
        if let Some(cause) = client.session.lost.clone() {
            // What it was to be a part of has gone while it waited.
            self.core.clients.set_timer(client, 0);
            client.phase = Phase::Running(statement);
            self.fail_statement(client, cause.into_end(), None);
            return self.close_client(client);
        }
        self.core.clients.set_timer(client, 0);
        let route = client.still_there(route);
        if statement.beside.fill.is_some() {
            return self.go_on_from_shared(client, route, statement, text_len, order);
        }
        match self.core.look_up(client, &key, order, false) {
            Found::Answer(reply) => {
                self.answer_cached(client, &mut statement, order, &reply);
                self.retire(statement);
                return self.after_statement(client, None);
            }
            found => {
                self.core.prepare_fill(client, &mut statement, (&key, &route), order, found);
            }
        }
        self.core.count_miss(order);
        self.delay_or_start(client, route, statement, text_len);
    }
}

impl Core {
    fn new_fill(&self, key: &[u8], ticket: Ticket, route: &Route) -> Box<CacheFill> {
        let settings_max = self.env.snapshot.settings.query_cache_result_max;
        let share = usize::try_from(self.env.shared.cache().reply_max()).unwrap_or(usize::MAX);
        Box::new(CacheFill {
            cache: Arc::clone(self.env.shared.cache()),
            key: key.into(),
            ticket,
            copy: Capture::new(settings_max.min(share.saturating_sub(key.len()))),
            shared: self.shared_place(key, route),
            basis: None,
        })
    }

    fn look_up(
        &mut self,
        client: &mut Client,
        key: &[u8],
        order: CacheOrder,
        may_wait: bool,
    ) -> Found {
        let now_us = self.env.now.us;
        let mut found = self.env.shared.cache().get(key, order.ttl_us(), now_us);
        self.fx.stats.counters.cache_lookups += 1;
        if order.is_until_changed() {
            let Some(own_ms) = self.own_writes_by(client) else { return Found::Nothing };
            found = found.filter(|reply| self.still_holds(reply, order, own_ms));
        }
        match found {
            Some(reply) if !reply.is_soft(now_us) => Found::Answer(reply),
            // The first one renews it.
            Some(reply) => match self.env.shared.cache().begin(key, None, now_us) {
                Begun::Fill(ticket) => Found::Renew(ticket),
                Begun::Wait | Begun::Busy => Found::Answer(reply),
            },
            None => {
                let (worker, ClientId { index, generation }) = (self.env.options.index, client.id);
                let waiter = may_wait.then_some(Waiter { worker, index, generation });
                match self.env.shared.cache().begin(key, waiter, now_us) {
                    Begun::Fill(ticket) => Found::Fill(ticket),
                    Begun::Wait => Found::Wait,
                    Begun::Busy => Found::Nothing,
                }
            }
        }
    }

    /// Waits until an equal statement has been answered, or for as long as its rule says.
    fn await_cached(&mut self, client: &mut Client, statement: Box<Statement>, order: CacheOrder) {
        self.fx.stats.counters.cache_waits += 1;
        self.fx.stats.cache_mut(order.rule).waits += 1;
        let mut wait_ms = u64::from(order.wait_ms);
        if statement.target.directives.timeout_ms > 0 {
            wait_ms = wait_ms.min(statement.target.directives.timeout_ms);
        }
        self.clients.begin(client, statement);
        self.clients.set_timer(client, self.env.now.ms() + wait_ms);
    }

    /// See [`Worker::cache_woken`](crate::Worker::cache_woken).
    pub(crate) fn on_cache_woken(&mut self, clients: Vec<ClientId>) {
        self.clients.cache_woken.extend(clients);
    }

    /// A server is asked.
    fn count_miss(&mut self, order: CacheOrder) {
        self.fx.stats.cache_mut(order.rule).misses += 1;
    }

    /// Appends everything that changes the answer to a statement; `None` when it is not to be
    /// cached, or its session is in a state that no other one can be in.
    fn put_key(
        &mut self,
        client: &mut Client,
        route: &Route,
        statement: &Statement,
        text_len: usize,
        order: CacheOrder,
        key: &mut Vec<u8>,
    ) -> Option<()> {
        let (Route::Hostgroup(hostgroup) | Route::Reader(hostgroup) | Route::Lease(hostgroup, _)) =
            route
        else {
            return None;
        };
        let known = statement.meaning.known.as_deref()?;
        let session: &mut Session = &mut client.session;
        let is_fit = self.env.shared.cache().is_on()
            && is_cacheable(&known.analysis, statement.meaning.proof, order)
            && is_free(session)
            && !session.settings.state.finds_inserted_by_null(self.env.shared.finds_by_null())
            && statement.command.attributes.is_none()
            && statement.command.frames.len() <= COMMAND_LEN_MAX
            && !is_split(&statement.command.frames);
        if !is_fit {
            return None;
        }
        key.extend_from_slice(&local_part(&self.env, *hostgroup));
        key.extend_from_slice(&hostgroup.0.to_le_bytes());
        // A reload may give a user another account.
        put(key, self.servers.logins.accounts.key(session.login.account)?.server_user().as_bytes());
        put(key, session.login.user.key().as_bytes());
        let behaviour = session.login.capabilities.intersection(crate::login::BEHAVIOUR);
        key.extend_from_slice(&behaviour.bits().to_le_bytes());
        key.push(u8::from(session.settings.modes.no_backslash_escapes));
        // Answers of the one kind are none of the other.
        key.push(u8::from(order.is_until_changed()));
        match has_plant!(self, CacheForgetsInput) {
            false => put_state(key, &session.settings.state, order.is_always),
            true => put_settings(key, &session.settings.state, order.is_always),
        }
        let states = &mut self.servers.states;
        put_statement(statement, session, states, text_len, key)
    }
}

/// Appends the text, or what is executed with its parameters; `None` of what has no answer that
/// others could be given.
fn put_statement(
    statement: &Statement,
    session: &mut Session,
    states: &mut StateTable,
    text_len: usize,
    key: &mut Vec<u8>,
) -> Option<()> {
    match statement.command.purpose {
        Purpose::Query => {
            let frames = &statement.command.frames;
            key.push(b't');
            key.extend_from_slice(frames.get(frames.len().checked_sub(text_len)?..)?);
            Some(())
        }
        Purpose::Execute => {
            let settings = &mut session.settings;
            let reading_of = |contents| settings.reading.of(&settings.state, contents, states);
            let stmt = session.prepared.get(statement.prepared.stmt_id?)?;
            key.push(b'b');
            stmt.put_key(statement, reading_of, key)
        }
        Purpose::InitDb(_)
        | Purpose::LoginSchema(..)
        | Purpose::Prepare
        | Purpose::Fetch
        | Purpose::Reset
        | Purpose::ChangeUser(_)
        | Purpose::Register
        | Purpose::Dump
        | Purpose::Other => None,
    }
}

fn route_hostgroup(route: &Route) -> Option<HostgroupId> {
    match route {
        Route::Hostgroup(hostgroup) | Route::Reader(hostgroup) | Route::Lease(hostgroup, _) => {
            Some(*hostgroup)
        }
        _ => None,
    }
}

/// Whether answers to such a statement may be stored at all.
pub(crate) fn is_cacheable(analysis: &Analysis, proof: Proof, order: CacheOrder) -> bool {
    let is_select = analysis.kind == StatementKind::Select;
    let is_one = analysis.statements == 1 && analysis.is_complete;
    let varies = analysis.varies || proof.hidden.may(Hidden::VARIES);
    let calls_only = analysis.effects.is_empty()
        && (analysis.depends == Depends::UNKNOWN_FUNCTION || analysis.depends == Depends::empty());
    // To insist stands for what is not known, not against what is.
    let known = [Hidden::READS_SESSION, Hidden::WRITES];
    let is_known_not_to_be = known.into_iter().any(|harm| proof.hidden.has(harm));
    match order.is_always {
        false => is_one && is_select && proof.reads && !varies,
        true => is_one && (proof.reads || is_select && calls_only && !is_known_not_to_be),
    }
}

/// Whether a session's answers are those that any other one in its state would get.
fn is_free(session: &Session) -> bool {
    let is_held = |pins: &trunkline_session::tracker::Pins| pins.has_other_than(&HARMLESS_PINS);
    !session.settings.state.is_autocommit_off()
        && session.settings.status & status::IN_TRANS == 0
        && !session.leases.iter().any(|lease| is_held(&lease.pins))
}

/// Appends a part of a key, so that no two lists of parts are one key.
fn put(key: &mut Vec<u8>, part: &[u8]) {
    let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
    key.extend_from_slice(&len.to_le_bytes());
    key.extend_from_slice(part);
}

/// Variables that change no answer to a statement that is cached. `autocommit` is on for all.
const WITHOUT_PART: [&str; 7] = [
    "autocommit",
    "foreign_key_checks",
    "interactive_timeout",
    "net_read_timeout",
    "net_write_timeout",
    "unique_checks",
    "wait_timeout",
];

/// Appends a session's state. User variables are left out: a statement that reads any is not
/// cached. `reads_any`: the statement may read any system variable.
fn put_state(key: &mut Vec<u8>, state: &SessionState, reads_any: bool) {
    put(key, state.schema.name());
    put_settings(key, state, reads_any);
}

/// The state beside the schema.
fn put_settings(key: &mut Vec<u8>, state: &SessionState, reads_any: bool) {
    let (kind, bytes): (u8, &[u8]) = match &state.charset {
        Charset::Collation(id) => (b'c', &id.to_le_bytes()),
        Charset::Names(text) => (b'n', text),
        Charset::CharacterSet(text) => (b's', text),
        Charset::Unknown => (b'u', b""),
    };
    key.push(kind);
    put(key, bytes);
    let matters = |name: &str| reads_any || !WITHOUT_PART.contains(&name);
    for (name, value) in state.variables().iter().filter(|(name, _)| matters(name)) {
        put(key, name.as_bytes());
        put(key, value);
    }
    key.push(0xFF);
}

/// Whether a change of session state is none: the server numbers its statements.
pub(crate) fn is_passing(change: Result<Change<'_>, Malformed>) -> bool {
    matches!(change, Ok(Change::SystemVariable { name: b"statement_id", .. }))
}

/// An answer without the number of its warnings, in its EOF packets or in the OK at its end,
/// and without session state.
pub(crate) fn bare(mut bytes: Vec<u8>, format: ReplyFormat) -> Option<Vec<u8>> {
    let mut at = 0;
    let mut last = None;
    while let Some(header) = bytes.get(at..).and_then(Header::read) {
        let payload = at + HEADER_LEN..at + HEADER_LEN + header.payload_len;
        // No row of five bytes begins so: it is an EOF packet.
        if let Some([0xFE, low, high, _, _]) = bytes.get_mut(payload.clone()) {
            (*low, *high) = (0, 0);
        }
        last = Some((at, header.seq));
        at = payload.end;
    }
    let (at, seq) = last?;
    if !format.deprecate_eof {
        return Some(bytes);
    }
    let payload = bytes.get(at + HEADER_LEN..)?.to_vec();
    let ok = ok::parse(&payload, format.session_track).ok()?;
    bytes.truncate(at);
    put_result_end(&mut bytes, seq, &OkPacket { warnings: 0, changes: b"", ..ok }, format);
    Some(bytes)
}

#[cfg(test)]
mod tests;
