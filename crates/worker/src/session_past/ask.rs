//! A statement that asks for what an earlier one left: where it goes, or what it is answered.

use trunkline_catalog::Hidden;
use trunkline_pool::ConnId;
use trunkline_protocol::{
    codec::frame::{HEADER_LEN, Header, put_payload},
    packet::{greeting::Flavor, tracker_filter::TrackerFilter},
};
use trunkline_sql::{
    analysis::Depends,
    diagnostics::{StatementArea, assign_diagnostics},
    recall::{self, Recalled},
};
use trunkline_topology::HostgroupId;

use super::{
    Trace,
    insert_id::{Settled, gives_values},
    warnings::put_remembered,
};
use crate::{
    ClientId,
    clients::Clients,
    clients::client::{Purpose, Session, Stage, Statement, Waiting},
    exchange::send::runs_a_routine,
    rooms::{Core, Exchange},
    routing::route::Route,
    servers::Servers,
    servers::conn::Conn,
};

/// Where what a session left is still to be found.
pub(super) enum Place {
    Idle,
    Leased(Route),
    /// Another session has had the connection since, or it has gone.
    Gone,
}

impl Servers {
    /// The hostgroup of the connection where something was left, for what only shows it: that may
    /// follow to a reader.
    pub(super) fn shown_at(&self, left: Option<(ConnId, u64)>) -> Option<HostgroupId> {
        left.and_then(|(conn, _)| self.conns.get(conn)).map(|conn| conn.hostgroup)
    }

    /// Whether a statement may go to a connection at rest where something was left: one that may
    /// write to its own hostgroup only, and none away from a connection that its session holds.
    pub(super) fn may_go_back(
        &self,
        statement: &Statement,
        route: &Route,
        left: Option<(ConnId, u64)>,
    ) -> bool {
        let conn = left.and_then(|(conn, _)| self.conns.get(conn));
        let is_own = |conn: &Conn| conn.hostgroup == route_hostgroup(route);
        !is_held(route) && conn.is_some_and(|conn| statement.is_read || is_own(conn))
    }
}

impl Clients {
    /// The proxy has carried something out itself that leaves this row count.
    pub(crate) fn counts_rows(&mut self, id: ClientId, count: i64) {
        let session = self.get_mut(id).and_then(|client| client.session.as_mut());
        if let Some(session) = session {
            session.past.counts_rows_apart(count);
        }
    }

    /// The proxy has shown the session's conditions.
    pub(super) fn has_shown(&mut self, id: ClientId) {
        self.counts_rows(id, -1);
        let session = self.get_mut(id).and_then(|client| client.session.as_mut());
        session.into_iter().for_each(|session| session.past.has_shown());
    }

    /// Puts what is known into a statement's text; false when it asks for none of it.
    pub(crate) fn put_recalled(
        &self,
        id: ClientId,
        statement: &mut Statement,
        text_len: usize,
        known: &Recalled,
    ) -> bool {
        if *known == Recalled::default() {
            return false;
        }
        let session = self.get(id).and_then(|client| client.session.as_ref());
        let modes = session.map(|session| session.modes).unwrap_or_default();
        let text = text_of(&statement.frames, text_len);
        let Some(recalled) = text.and_then(|text| recall::recall(text, &modes, known)) else {
            return false;
        };
        put_text(&mut statement.frames, text_len, &recalled);
        statement.is_recalled = true;
        true
    }
}

impl Exchange {
    /// Sets a statement on its way that reads what an earlier one left. Its text is the last
    /// `text_len` bytes of its only packet.
    pub(crate) fn follow_past(
        &mut self,
        id: ClientId,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
    ) {
        self.core.drop_outdated_of(id);
        match self.core.settle_insert_id(id, &route, &statement) {
            Settled::GoesOn => {}
            Settled::Waits => {
                statement.waiting = Some(Box::new(Waiting { route, text_len, awaits_cache: None }));
                return self.core.clients.begin(id, statement);
            }
            Settled::Lost => return self.core.refuse_lost_insert_id(id, *statement),
        }
        if self.core.settle_found_rows(id, &route, &statement) {
            statement.waiting = Some(Box::new(Waiting { route, text_len, awaits_cache: None }));
            return self.core.clients.begin(id, statement);
        }
        if statement.purpose == Purpose::Execute {
            return self.follow_past_prepared(id, route, statement);
        }
        let Some(client) = self.core.clients.get(id) else {
            return;
        };
        let (Some(session), Some(known)) = (client.session.as_ref(), statement.known.as_ref())
        else {
            return;
        };
        let analysis = &known.analysis;
        let is_answered = matches!(route, Route::Ok(_) | Route::Error(_) | Route::Limited(_));
        if analysis.statements != 1 || is_answered {
            return self.run_on_route(id, route, statement);
        }
        let depends = analysis.depends;
        if session.past.awaits(depends, runs_code(&statement)) {
            statement.waiting = Some(Box::new(Waiting { route, text_len, awaits_cache: None }));
            return self.core.clients.begin(id, statement);
        }
        let (last, insert) = (asked_place(session, depends), session.insert_conn);
        let reads = |what| depends.contains(what);
        let reads_last =
            reads(Depends::ROW_COUNT) || reads(Depends::FOUND_ROWS) || reads(Depends::DIAGNOSTICS);
        let mut known = Recalled::default();
        let mut route = route;
        if reads(Depends::CONNECTION_ID) {
            known.connection_id = Some(client.number);
        }
        known.last_gtid = reads(Depends::LAST_GTID).then_some(session.past.last_gtid);
        let last_gtid = known.last_gtid;
        let has_default_trackers =
            reads(Depends::TRACKERS) && session.told == TrackerFilter::DEFAULT;
        known.has_default_trackers = has_default_trackers;
        if reads_last {
            // To find out about the one clears the other.
            let is_asked = session.past.is_insert_id_reported();
            let is_insert_id = reads(Depends::LAST_INSERT_ID) && (last != insert || is_asked);
            let conn = last.and_then(|(conn, _)| self.core.servers.conns.get(conn));
            let is_others =
                reads(Depends::DIAGNOSTICS) && conn.is_some_and(Conn::keeps_others_conditions);
            let place = match is_insert_id || is_others {
                true => Place::Gone,
                false => self.core.place_of(id, last),
            };
            let shows = text_of(&statement.frames, text_len)
                .is_some_and(|text| recall::show_diagnostics(text, &session.modes).is_some());
            let is_apart = session.past.is_row_count_apart && reads(Depends::DIAGNOSTICS);
            let numbers = session.past.recalled();
            if is_apart && assign_numbers(session, &mut statement, text_len, &numbers) {
                return self.run_on_route(id, route, statement);
            }
            let stays = match &place {
                // What may write goes nowhere but to its own hostgroup.
                Place::Leased(Route::Lease(hostgroup, _)) => {
                    !statement.is_read && !shows && *hostgroup != route_hostgroup(&route)
                }
                Place::Idle if shows && !is_held(&route) => {
                    route = self.core.servers.shown_at(last).map_or(route, Route::Hostgroup);
                    false
                }
                Place::Idle => !self.core.servers.may_go_back(&statement, &route, last),
                Place::Leased(_) | Place::Gone => false,
            };
            let place = if stays { Place::Gone } else { place };
            match place {
                Place::Idle => route = unheld(route),
                Place::Leased(lease) => route = lease,
                Place::Gone => {
                    let connection_id = known.connection_id;
                    known = Recalled {
                        connection_id,
                        last_gtid,
                        has_default_trackers,
                        ..session.past.recalled()
                    };
                    let asks = reads(Depends::DIAGNOSTICS)
                        && session
                            .past
                            .run_again(
                                &session.state,
                                self.core.env.shared.catalog(),
                                self.core.env.now.ms(),
                            )
                            .is_none();
                    if asks && assign_numbers(session, &mut statement, text_len, &known) {
                        return self.run_on_route(id, route, statement);
                    }
                    if asks && (shows || session.past.has_conditions()) {
                        return self.show_past(id, route, statement, text_len, &known);
                    }
                }
            }
        }
        self.core.clients.put_recalled(id, &mut statement, text_len, &known);
        self.run_on_route(id, route, statement);
    }

    /// Warnings and errors whose connection has served others since.
    fn show_past(
        &mut self,
        id: ClientId,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
        known: &Recalled,
    ) {
        let Some(session) = self.core.clients.get(id).and_then(|client| client.session.as_ref())
        else {
            return;
        };
        let (modes, format, status) = (session.modes, session.format, session.status);
        let Some(text) = text_of(&statement.frames, text_len) else {
            return self.run_on_route(id, route, statement);
        };
        match recall::show_diagnostics(text, &modes) {
            Some(show) if show.counts => {
                let (name, count) = match show.errors_only {
                    true => ("error_count", known.error_count),
                    false => ("warning_count", known.warning_count),
                };
                let count = count.unwrap_or_default();
                let count = recall::unsigned(count);
                let text = format!("SELECT {count} AS `@@session.{name}`");
                put_text(&mut statement.frames, text_len, text.as_bytes());
                self.run_on_route(id, route, statement);
            }
            Some(show) => {
                let mut reply = Vec::new();
                match &session.past.fetched {
                    Some(fetched) => fetched.put(&mut reply, show, format, status),
                    None => {
                        let past = (session.past.warnings, session.past.error.as_deref());
                        put_remembered(&mut reply, past, show, format, status);
                    }
                }
                self.core.fx.buffers.give(statement.frames);
                self.core.fx.stats.counters.statements_answered += 1;
                self.core.write_client(id, |out| out.extend_from_slice(&reply));
                self.core.clients.has_shown(id);
            }
            None if self.core.clients.put_recalled(id, &mut statement, text_len, known) => {
                self.run_on_route(id, route, statement);
            }
            None => {
                self.core.fx.buffers.give(statement.frames);
                let what = "diagnostics of a statement whose connection has served others since";
                self.core.not_supported(id, what);
            }
        }
    }
}

impl Core {
    /// Whether nobody has used a connection since the session left something there.
    pub(super) fn place_of(&self, id: ClientId, trace: Option<(ConnId, u64)>) -> Place {
        let Some((conn_id, turn)) = trace else {
            return Place::Gone;
        };
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        let (Some(conn), Some(session)) = (self.servers.conns.get(conn_id), session) else {
            return Place::Gone;
        };
        let is_own = conn.turn == turn && conn.last_client == Some(id);
        match conn.list {
            state if state.is_free() && is_own && conn.account == session.account => Place::Idle,
            state if state.is_leased() && is_own && conn.owner == Some(id) => {
                Place::Leased(Route::Lease(conn.hostgroup, conn_id))
            }
            _ => Place::Gone,
        }
    }

    /// Sees to it that `FOUND_ROWS()` is known before a statement asks for it elsewhere than on the
    /// connection that has it. True where the statement waits for that.
    fn settle_found_rows(&mut self, id: ClientId, route: &Route, statement: &Statement) -> bool {
        let depends = statement.known.as_ref().map(|known| known.analysis.depends);
        if !depends.is_some_and(|depends| depends.contains(Depends::FOUND_ROWS)) {
            return false;
        }
        let session = self.clients.get_mut(id).and_then(|client| client.session.as_mut());
        let Some(session) = session else { return false };
        let left = session.past.found_conn.filter(|_| session.past.found_rows.is_none());
        let Some((conn_id, turn)) = left else { return false };
        let conn = self.servers.conns.get(conn_id);
        let own = conn.filter(|conn| conn.turn == turn && conn.last_client == Some(id));
        let Some(conn) = own.filter(|conn| !goes_to(route, statement, conn_id, conn)) else {
            return false;
        };
        match conn.list {
            state if state.is_free() => self.fetch_from_idle(conn_id),
            state if state.is_leased() => {
                session.past.awaits_found_rows = Some(conn_id);
                // To ask is to find one row.
                session.past.found_conn = None;
                self.fetch_trace(conn_id, id, Trace::FoundRows);
            }
            _ => return false,
        }
        true
    }

    /// Before the proxy runs something of its own there that finds rows: asks the connection for
    /// the session's `FOUND_ROWS()`, where no reply told. True when the statement waits for it.
    pub(crate) fn asks_for_found_rows(&mut self, id: ClientId, conn_id: ConnId) -> bool {
        let turn = self.servers.conns.get(conn_id).map(|conn| conn.turn);
        let session = self.clients.get_mut(id).and_then(|client| client.session.as_mut());
        let (Some(turn), Some(session)) = (turn, session) else { return false };
        let past = &mut session.past;
        if past.found_rows.is_some() || past.found_conn != Some((conn_id, turn)) {
            return false;
        }
        past.awaits_found_rows = Some(conn_id);
        // To ask is to find one row.
        past.found_conn = None;
        self.fetch_trace(conn_id, id, Trace::FoundRows);
        self.clients.set_stage(id, Stage::Synchronising(conn_id));
        true
    }

    /// The proxy has carried out a statement without rows that uses no table. MariaDB keeps what
    /// conditions there are, MySQL does not.
    pub(crate) fn ran_itself(&mut self, id: ClientId) {
        let is_mysql = self.env.greeting.flavor() == Flavor::MySql;
        let session = self.clients.get_mut(id).and_then(|client| client.session.as_mut());
        let Some(session) = session else { return };
        match is_mysql {
            true => {
                session.last_conn = None;
                session.past.succeeded(0);
            }
            false => session.past.counts_rows_apart(0),
        }
    }
}

/// Whether a statement is asked to wait for, or to be routed by, what an earlier one left.
pub(crate) fn reads_past(statement: &Statement) -> bool {
    let Some(known) = &statement.known else {
        return false;
    };
    let depends = known.analysis.depends;
    let reads = |what| depends.contains(what);
    reads(Depends::LAST_INSERT_ID)
        || reads(Depends::ROW_COUNT)
        || reads(Depends::FOUND_ROWS)
        || reads(Depends::DIAGNOSTICS)
        || reads(Depends::CONNECTION_ID)
        || reads(Depends::TRACKERS)
        || reads(Depends::LAST_GTID)
        || runs_code(statement)
        || gives_values(known.analysis.kind)
}

/// Whether it runs code that may read anything of its session's past.
pub(crate) fn runs_code(statement: &Statement) -> bool {
    statement.proof.hidden.may(Hidden::READS_SESSION)
        || statement.known.as_ref().is_some_and(|known| runs_a_routine(&known.analysis))
}

/// The one connection that has what these read, and its turn, if one has all of it.
pub(super) fn asked_place(session: &Session, depends: Depends) -> Option<(ConnId, u64)> {
    let reads = |what| depends.contains(what);
    let found = session.past.found_conn;
    if session.past.is_row_count_apart && reads(Depends::ROW_COUNT) && !reads(Depends::DIAGNOSTICS)
    {
        return None;
    }
    match (reads(Depends::FOUND_ROWS), reads(Depends::ROW_COUNT) || reads(Depends::DIAGNOSTICS)) {
        (true, false) => found,
        (true, true) => session.last_conn.filter(|last| Some(*last) == found),
        (false, _) => session.last_conn,
    }
}

/// Whether a statement on this route goes where something was left: one that may write to its own
/// hostgroup only.
pub(super) fn goes_to(route: &Route, statement: &Statement, conn_id: ConnId, conn: &Conn) -> bool {
    match route {
        Route::Lease(_, lease) => *lease == conn_id,
        _ => statement.is_read || conn.hostgroup == route_hostgroup(route),
    }
}

pub(super) fn is_held(route: &Route) -> bool {
    matches!(route, Route::Lease(..))
}

/// The same without a held connection.
pub(super) fn unheld(route: Route) -> Route {
    match route {
        Route::Lease(hostgroup, _) => Route::Hostgroup(hostgroup),
        route => route,
    }
}

pub(super) fn route_hostgroup(route: &Route) -> HostgroupId {
    match route {
        Route::Lease(hostgroup, _) | Route::Hostgroup(hostgroup) | Route::Reader(hostgroup) => {
            *hostgroup
        }
        Route::Error(_) | Route::Limited(_) | Route::Ok(_) => HostgroupId::default(),
    }
}

/// Makes an assignment of numbers of a `GET DIAGNOSTICS`; false when it is another statement.
fn assign_numbers(
    session: &Session,
    statement: &mut Statement,
    text_len: usize,
    known: &Recalled,
) -> bool {
    let (Some(row_count), Some(number)) = (known.row_count, known.warning_count) else {
        return false;
    };
    // So many are kept, however many were counted.
    let max = session.state.variable("max_error_count").and_then(parsed);
    let area = StatementArea { row_count, number: number.min(max.unwrap_or(number)) };
    let text = text_of(&statement.frames, text_len);
    let Some(text) = text.and_then(|text| assign_diagnostics(text, &session.modes, area)) else {
        return false;
    };
    put_text(&mut statement.frames, text_len, &text);
    true
}

/// A number as it stands in a text.
fn parsed(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// The text at the end of a command in one packet.
fn text_of(frames: &[u8], text_len: usize) -> Option<&[u8]> {
    let header = Header::read(frames)?;
    if header.is_continued() {
        return None;
    }
    frames.get(frames.len().checked_sub(text_len)?..)
}

/// Replaces the text at the end of a command in one packet.
fn put_text(frames: &mut Vec<u8>, text_len: usize, text: &[u8]) {
    let keep = frames.len().saturating_sub(text_len);
    let before = frames.get(HEADER_LEN..keep);
    let payload = [before.unwrap_or_default(), text].concat();
    frames.clear();
    put_payload(frames, 0, &payload);
}
