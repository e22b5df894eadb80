//! Step 5: where a statement goes.

use std::{rc::Rc, sync::Arc};

use trunkline_catalog::Proof;
use trunkline_pool::ConnId;
use trunkline_rules::{Answer, Question};
use trunkline_session::tracker::{PinReason, Schema};
use trunkline_sql::{
    analysis::{Analysis, Depends, Effect, StatementKind},
    hint::Hints,
    set::{Assignment, Scope},
    token::Modes,
};
use trunkline_topology::{HostgroupId, ServerKey};

use crate::{
    ClientId,
    clients::Clients,
    clients::client::{Lease, Session},
    prepared::may_compute,
    rooms::{Commands, Core},
    routing::directives::Directives,
    routing::kept::{keeping_lease, variables_elsewhere},
    routing::read_only::only_looks,
    routing::rewrite::Rewritten,
    routing::split::{Transactions, hinted, hinted_server, ruled, split},
    statement::analysis::Known,
    statement::proof::Proven,
};

/// Decisions remembered per worker.
pub(super) const DECISIONS_MAX: usize = 16_384;

/// Where a statement goes.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// To this connection, which the session holds.
    Lease(HostgroupId, ConnId),
    /// To any connection of this hostgroup.
    Hostgroup(HostgroupId),
    /// To any connection of this reader hostgroup, by the split: its writers can serve it too.
    Reader(HostgroupId),
    /// Nowhere: a rule answers it with an error of this text.
    Error(Arc<str>),
    /// Nowhere: there have been too many, and this says of what.
    Limited(Arc<str>),
    /// Nowhere: a rule answers it with OK and this text.
    Ok(Arc<str>),
}

/// What rules, hints and the split make of a statement.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) route: Route,
    pub(crate) orders: Directives,
    /// What is sent in its place.
    pub(crate) rewritten: Option<Rewritten>,
    /// The only server that it is to run on.
    pub(crate) server: Option<Box<ServerKey>>,
    /// What is proven of it where it goes.
    pub(crate) proven: Proven,
}

/// What the statement is asked about for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking<'a> {
    /// It is to run.
    Query,
    /// It is to be prepared.
    Prepare,
    /// It was prepared, and is to run: in the schema where that was, whatever the session has
    /// chosen since.
    Execute(&'a Schema),
}

/// What rules say of a statement.
#[derive(Default)]
struct Ruling {
    answer: Option<Route>,
    hostgroup: Option<HostgroupId>,
    rewritten: Option<Vec<u8>>,
}

impl Clients {
    /// Refuses what would find `NULL` for a user variable that its session has elsewhere.
    #[inline]
    fn refuse_null(&self, id: ClientId, route: Route, analysis: &Analysis) -> Route {
        if !analysis.depends.contains(Depends::USER_VARIABLE_READ) {
            return route;
        }
        let session = self.get(id).and_then(|client| client.session.as_ref());
        let (Some(session), Some(to)) = (session, hostgroup_of(&route)) else { return route };
        match variables_elsewhere(session, to, analysis) {
            None => route,
            Some(held) => Route::Error(
                format!(
                    "a user variable that this statement reads may be one that the session has \
                     set on hostgroup {held}, and the statement goes to hostgroup {to}: set it \
                     there, or have a rule send both to the same hostgroup"
                )
                .into(),
            ),
        }
    }
}

impl Commands {
    /// Decides for a statement that has a text. What the session's last statement left to be read
    /// stops holding it, unless this one reads it. `own`: what is proven of it on the servers of
    /// its session's hostgroup.
    pub(crate) fn route_text(
        &mut self,
        id: ClientId,
        known: &Rc<Known>,
        text: &[u8],
        asking: Asking<'_>,
        modes: &Modes,
        own: Proven,
    ) -> Routed {
        let mut orders = Directives::of_settings(&self.exchange.core.env.snapshot.settings);
        let ruling = self.ask_rules(id, known, text, asking, &mut orders);
        let is_prepared = asking == Asking::Prepare;
        let rewritten = ruling
            .rewritten
            .and_then(|new| self.exchange.take_rewrite(text, new, is_prepared, modes));
        // One that a rule answers leaves the session as it is.
        if let Some(route) = ruling.answer {
            let proven = Proven { proof: Proof::NOTHING, ..own };
            return Routed { route, orders, rewritten, server: None, proven };
        }
        let own = match &rewritten {
            Some(rewritten) => self.exchange.core.proof_at(id, &rewritten.known, asking, own.group),
            None => own,
        };
        let known = rewritten.as_ref().map_or(known, |rewritten| &rewritten.known);
        self.exchange.core.end_brief_pins(id, &known.analysis);
        let mut hostgroup =
            ruling.hostgroup.map(|named| self.exchange.core.ruled(id, named, &known.analysis));
        let mut server = None;
        if let Some(hints) = known
            .hints
            .as_deref()
            .filter(|_| self.exchange.core.env.snapshot.settings.query_digests)
        {
            orders.take_hints(hints);
            let there = match hints.hostgroup {
                Some(number) => {
                    self.exchange.core.proof_at(id, known, asking, HostgroupId(number)).proof
                }
                None => own.proof,
            };
            hostgroup =
                self.exchange.core.hinted(id, (&known.analysis, there), hints).or(hostgroup);
            server = self.exchange.core.hinted_server(id, known, asking, hints);
            hostgroup = server.as_ref().map(|server| server.hostgroup).or(hostgroup);
        }
        let limited = match self.router.limits.is_empty() || asking == Asking::Prepare {
            true => None,
            false => self.admit(id, known, &mut orders),
        };
        let known = Rc::clone(known);
        let route = limited.unwrap_or_else(|| {
            if asking != Asking::Prepare {
                match self.exchange.core.end_transactions(id, &known.analysis) {
                    Ok(kept) => hostgroup = kept.or(hostgroup),
                    Err(text) => return Route::Error(text.into()),
                }
            }
            if asking != Asking::Prepare
                || may_compute(&known, own.proof, self.exchange.core.env.greeting.flavor())
            {
                let refusal =
                    self.exchange.core.leave_reader(id, (&known, asking), own.proof, hostgroup);
                if let Some(text) = refusal {
                    return Route::Error(text.into());
                }
            }
            let route = self.exchange.core.route_decided(id, hostgroup, Some(&known), own.proof);
            match asking == Asking::Prepare {
                true => route,
                false => self.exchange.core.clients.refuse_null(id, route, &known.analysis),
            }
        });
        let to = hostgroup_of(&route);
        if let (Some(named), Some(to)) = (hostgroup, to) {
            self.exchange.core.fx.stats.counters.statements_kept += u64::from(to != named);
        }
        // What is held elsewhere, or begins anew on the writer, does not go to that server.
        let server = server.filter(|server| to == Some(server.hostgroup));
        let mut proven = match to {
            // The servers of another group may have other tables.
            Some(to) if to != own.group && self.exchange.core.env.group_of(to) != own.group => {
                self.exchange.core.proof_at(id, &known, asking, to)
            }
            Some(_) | None => own,
        };
        if let Some(to) = to {
            proven.proof = self.exchange.core.proof_in(to, proven.proof);
        }
        Routed { route, orders, rewritten, server, proven }
    }

    /// Asks the rules, and fast routing behind them.
    fn ask_rules(
        &mut self,
        id: ClientId,
        known: &Known,
        text: &[u8],
        asking: Asking<'_>,
        orders: &mut Directives,
    ) -> Ruling {
        let snapshot = &self.exchange.core.env.snapshot;
        let Some(client) = self.exchange.core.clients.get_mut(id) else {
            return Ruling::default();
        };
        let Some(session) = client.session.as_mut() else {
            return Ruling::default();
        };
        let mut ruling = Ruling::default();
        let (mut flag, mut applied) = (session.settings.next_flag, false);
        if !snapshot.rules.is_empty() {
            self.router.chance = next_chance(self.router.chance);
            let question = Question {
                username: &session.login.user.name,
                schema: session.settings.state.schema.name(),
                flag,
                client_addr: client.origin.peer.client_addr,
                proxy_addr: client.origin.peer.proxy_addr,
                proxy_port: client.origin.peer.proxy_port,
                digest: snapshot.settings.query_digests.then_some(known.digest),
                digest_text: &known.digest_text,
                query: text,
                may_rewrite: !matches!(asking, Asking::Execute(_)),
                chance: self.router.chance,
            };
            let decision =
                self.router.decisions.decide(&snapshot.rules, &question, &mut self.router.hits);
            self.exchange.core.fx.stats.counters.rewrites_skipped +=
                u64::from(decision.rewrites_skipped);
            (flag, applied) = (decision.final_flag, decision.applied);
            ruling = Ruling {
                answer: answer_of(decision.answer()),
                hostgroup: decision.effects.destination_hostgroup,
                rewritten: decision.rewritten.clone(),
            };
            orders.take_effects(&decision.effects);
            if let Some(flag) = decision.session_flag() {
                session.settings.next_flag = flag;
            }
            self.router.matched_rules.clear();
            if self.router.guards.limits_rules() {
                let ids =
                    decision.matched().iter().map(|index| snapshot.rules.rule_id(*index as usize));
                self.router.matched_rules.extend(ids.flatten());
            }
        }
        if !applied && !snapshot.fast_routes.is_empty() {
            let (user, schema) = (&session.login.user.name, session.settings.state.schema.name());
            let fast = snapshot.fast_routes.find(user, schema, flag);
            ruling.hostgroup = fast.or(ruling.hostgroup);
        }
        if self.exchange.core.env.snapshot.settings.firewall_whitelist_enabled {
            let denied = self.exchange.core.ask_firewall(id, known, flag);
            ruling.answer = ruling.answer.or(denied);
        }
        ruling
    }
}

impl Core {
    /// The hostgroup that a statement's comments name.
    fn hinted(
        &self,
        id: ClientId,
        statement: (&Analysis, Proof),
        hints: &Hints,
    ) -> Option<HostgroupId> {
        let session = self.clients.get(id)?.session.as_ref()?;
        let default = session.login.user.default_hostgroup;
        let groups = &self.env.snapshot.replication;
        let autocommit_off = session.settings.state.is_autocommit_off();
        let is_online = |readers| self.servers.pool.has_online(readers, self.env.now.ms());
        hinted(hints, default, groups, statement, autocommit_off, is_online)
    }

    /// The hostgroup of a statement that a rule sends to `named`.
    fn ruled(&self, id: ClientId, named: HostgroupId, analysis: &Analysis) -> HostgroupId {
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        let Some(session) = session else { return named };
        let begins =
            session.settings.state.is_autocommit_off() && session.transaction_lease().is_none();
        let default = session.login.user.default_hostgroup;
        ruled(named, default, &self.env.snapshot.replication, (analysis, begins))
    }

    /// The server that a statement's comments name, unless it is a reader and the statement may
    /// write there.
    fn hinted_server(
        &mut self,
        id: ClientId,
        known: &Known,
        asking: Asking<'_>,
        hints: &Hints,
    ) -> Option<Box<ServerKey>> {
        let session = self.clients.get(id)?.session.as_ref()?;
        let autocommit_off = session.settings.state.is_autocommit_off();
        let default = session.login.user.default_hostgroup;
        let (key, is_reader) =
            hinted_server(hints, &self.env.snapshot, default, self.env.now.ms())?;
        let key = Box::new(key.clone());
        let may_go = !is_reader
            || !autocommit_off && self.proof_at(id, known, asking, key.hostgroup).proof.reads;
        may_go.then_some(key)
    }

    /// Decides for a command without a text: as for one that may write.
    pub(crate) fn route_plain(&mut self, id: ClientId) -> Route {
        self.route_decided(id, None, None, Proof::NOTHING)
    }

    fn route_decided(
        &self,
        id: ClientId,
        decided: Option<HostgroupId>,
        known: Option<&Rc<Known>>,
        proof: Proof,
    ) -> Route {
        let reads = proof.reads;
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        let Some(session) = session else {
            return Route::Hostgroup(HostgroupId::default());
        };
        if has_plant!(self, SplitIgnoresTransaction) && reads {
            return Route::Hostgroup(self.split(session, known, reads));
        }
        // A transaction that is to begin anew does so on the writer, wherever a rule sees it.
        let decided = match session.begins_read_only {
            true => Some(session.login.user.default_hostgroup),
            false => decided,
        };
        if let Some(lease) = session.transaction_lease()
            && !session.begins_read_only
            && (session.login.user.transaction_persistent || decided.is_none())
        {
            return Route::Lease(lease.hostgroup, lease.conn);
        }
        let wanted = match decided {
            Some(hostgroup) => match self.keeping_lease(session, hostgroup, known, proof) {
                Some(lease) => return Route::Lease(lease.hostgroup, lease.conn),
                None => hostgroup,
            },
            None => {
                let home = session.login.user.default_hostgroup;
                let readers =
                    self.env.snapshot.writer_group(home).map(|group| group.reader_hostgroup);
                let may_write_at = |to| {
                    to == home
                        || has_plant!(self, ReaderAttractsWrite)
                        || Some(to) != readers
                            && does_not_write(known.map(|it| &it.analysis), proof)
                };
                let text = known.map(|known| &**known);
                // Without autocommit it begins a transaction, in which others may write.
                let only_reads = reads && !session.settings.state.is_autocommit_off();
                if let Some(lease) = held_lease(session, text, only_reads, may_write_at) {
                    return Route::Lease(lease.hostgroup, lease.conn);
                }
                self.split(session, known, reads)
            }
        };
        match session.leases.iter().find(|lease| lease.hostgroup == wanted) {
            Some(lease) => Route::Lease(lease.hostgroup, lease.conn),
            None if decided.is_none() && wanted != session.login.user.default_hostgroup => {
                Route::Reader(wanted)
            }
            None => Route::Hostgroup(wanted),
        }
    }

    /// The connection that a statement stays on, whatever rules and hints say.
    fn keeping_lease<'a>(
        &self,
        session: &'a Session,
        decided: HostgroupId,
        known: Option<&Rc<Known>>,
        proof: Proof,
    ) -> Option<&'a Lease> {
        if session.leases.is_empty() || session.begins_read_only {
            return None;
        }
        let group = self.env.group_of(decided);
        let is_same_group = |hostgroup| self.env.group_of(hostgroup) == group;
        keeping_lease(session, decided, (&known?.analysis, proof), is_same_group)
    }

    /// The automatic read/write split, for a session that holds no connection.
    fn split(&self, session: &Session, known: Option<&Rc<Known>>, reads: bool) -> HostgroupId {
        let default = session.login.user.default_hostgroup;
        let group = self.env.snapshot.writer_group(default);
        let is_online = |readers| self.servers.pool.has_online(readers, self.env.now.ms());
        let analysis = known.map(|known| &known.analysis);
        let transactions = Transactions::of(&session.settings.state);
        split(group, analysis, reads, transactions, is_online).hostgroup(default)
    }
}

/// Where a statement goes, if it goes to a server.
pub(crate) fn hostgroup_of(route: &Route) -> Option<HostgroupId> {
    match route {
        Route::Lease(hostgroup, _) | Route::Hostgroup(hostgroup) | Route::Reader(hostgroup) => {
            Some(*hostgroup)
        }
        Route::Error(_) | Route::Limited(_) | Route::Ok(_) => None,
    }
}

fn answer_of(answer: Option<Answer<'_>>) -> Option<Route> {
    answer.map(|answer| match answer {
        Answer::Ok(text) => Route::Ok(Arc::clone(text)),
        Answer::Error(text) => Route::Error(Arc::clone(text)),
    })
}

/// The next of a sequence of numbers that look like chance. Source: Marsaglia, "Xorshift RNGs".
fn next_chance(mut number: u64) -> u64 {
    number ^= number << 13;
    number ^= number >> 7;
    number ^ number << 17
}

/// Of the connections that a session holds, the one for a statement that no rule sends anywhere:
/// where its last statement ran, for one that reads what that left; else where there is what it
/// gives back, a lock; else where its next transaction is spoken of; else the writer, where it
/// holds more than what reads left there; else the first that does. What may write follows nothing
/// to where `may_write_at` says no: rules may have sent the session to a reader there.
fn held_lease<'a>(
    session: &'a Session,
    known: Option<&Known>,
    is_read: bool,
    may_write_at: impl Fn(HostgroupId) -> bool,
) -> Option<&'a Lease> {
    let may_write_at = |lease: &&Lease| may_write_at(lease.hostgroup);
    let left = [Depends::ROW_COUNT, Depends::FOUND_ROWS, Depends::DIAGNOSTICS];
    let reads = |what| known.is_some_and(|known| known.analysis.depends.contains(what));
    let reads_last = left.into_iter().any(reads);
    let last_conn = session.last_conn.filter(|_| reads_last).map(|(conn, _)| conn);
    let may_follow = |lease: &&Lease| is_read || may_write_at(lease);
    let last = session.leases.iter().find(|lease| Some(lease.conn) == last_conn);
    let last = last.filter(may_follow);
    // Of two, the one that has what it gives back.
    let ends = known.and_then(|known| given_back(&known.analysis));
    let gives_back = |lease: &&Lease| ends.is_some_and(|reason| lease.pins.has(reason));
    let ended = session.leases.iter().find(gives_back);
    let binds = |lease: &&Lease| may_write_at(lease) || is_read && !holds_reads_only(lease);
    // What `SET TRANSACTION` said is of the next one, wherever else the session is held.
    let awaits = |lease: &&Lease| lease.pins.has(PinReason::NextTransaction);
    let next = session.leases.iter().find(awaits).filter(may_follow);
    // A transaction may be open on the writer that no reply told of: a `CALL` that failed.
    let holds_writer = |lease: &&Lease| may_write_at(lease) && !holds_reads_only(lease);
    // What it did of itself it did on its user's own hostgroup, where nothing else sent it.
    let is_home = |lease: &&Lease| lease.hostgroup == session.login.user.default_hostgroup;
    let holding = || session.leases.iter().filter(holds_writer);
    let writer = || holding().find(is_home).or_else(|| holding().next());
    last.or(ended).or(next).or_else(writer).or_else(|| session.leases.iter().find(binds))
}

/// Whether a statement does no harm on a server of which nobody says that it may be written to.
fn does_not_write(analysis: Option<&Analysis>, proof: Proof) -> bool {
    analysis.is_some_and(|it| only_looks(it, proof) || sets_user_variables(it))
}

/// Whether a statement gives values to user variables and can do nothing else.
fn sets_user_variables(analysis: &Analysis) -> bool {
    let is_of_user = |assignment: &Assignment| {
        matches!(assignment, Assignment::Variable { scope: Scope::UserVariable, .. })
    };
    analysis.kind == StatementKind::Set
        && analysis.statements == 1
        && analysis.is_complete
        && analysis.references.is_whole
        && analysis.references.tables.is_empty()
        && !analysis.depends.contains(Depends::UNKNOWN_FUNCTION)
        && matches!(&*analysis.effects, [Effect::Set(all)] if all.iter().all(is_of_user))
}

/// What a statement gives back, or asks for.
fn given_back(analysis: &Analysis) -> Option<PinReason> {
    let given = analysis.effects.iter().find_map(|effect| match effect {
        Effect::UnlockTables => Some(PinReason::TableLock),
        // One that is named is released by a statement that does nothing else.
        Effect::ReleaseLock(Some(_)) | Effect::ReleaseAllLocks => Some(PinReason::NamedLock),
        Effect::DropTable { temporary: true, .. } => Some(PinReason::TemporaryTable),
        Effect::HandlerClose(_) => Some(PinReason::Handler),
        Effect::Xa(_) => Some(PinReason::Xa),
        _ => None,
    });
    given.or(analysis.depends.contains(Depends::SEQUENCE).then_some(PinReason::Sequence))
}

/// Whether all that holds a session on a connection is what reads left: rows to be fetched, counts
/// and warnings.
fn holds_reads_only(lease: &Lease) -> bool {
    lease.pins.reasons().all(|reason| reason == PinReason::Cursor || is_of_reads(reason))
}

/// Whether it is a count or a warning that a read left.
pub(super) fn is_of_reads(reason: PinReason) -> bool {
    matches!(reason, PinReason::FoundRows | PinReason::Warnings)
}

#[cfg(test)]
mod tests;
