//! A statement that asks for what an earlier one left: where it goes, or what it is answered.

use std::rc::Rc;

use trunkline_protocol::{error::ErrorKind, packet::tracker_filter::TrackerFilter};
use trunkline_sql::{analysis::Depends, recall, recall::Recalled};

use crate::{
    clients::answers::not_supported,
    clients::client::{Awaits, Client, Phase, Purpose, Stage, Statement},
    rooms::Exchange,
    routing::route::Route,
    servers::conn::Conn,
    session_past::ask::{
        Place, asked_place, assign_numbers, is_held, put_text, route_hostgroup, runs_code, text_of,
        unheld,
    },
    session_past::insert_id::{INSERT_ID_LOST, Settled},
    session_past::warnings::put_remembered,
};

impl Exchange {
    /// A statement that has waited for what an earlier one left goes on, or waits for more of it.
    pub(crate) fn go_on_with_past(&mut self, client: &mut Client) {
        let Phase::Running(statement) = &mut client.phase else {
            return;
        };
        let Some(held) = statement.stage.release(|awaits| *awaits == Awaits::Past) else {
            return;
        };
        if let Phase::Running(statement) = std::mem::replace(&mut client.phase, Phase::Idle) {
            self.follow_past(client, held.route, statement, held.text_len);
        }
    }

    /// Sets a statement on its way that reads what an earlier one left. Its text is the last
    /// `text_len` bytes of its only packet.
    pub(super) fn follow_past(
        &mut self,
        client: &mut Client,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
    ) {
        self.core.drop_outdated_of(client);
        match self.core.settle_insert_id(client, &route, &statement) {
            Settled::GoesOn => {}
            Settled::Waits => {
                statement.stage = Stage::held(Awaits::Past, route, text_len);
                return self.core.clients.begin(client, statement);
            }
            Settled::Lost => {
                let error = ErrorKind::StateLost.says(INSERT_ID_LOST);
                return self.answer_refused(client, statement, error);
            }
        }
        if self.core.settle_found_rows(client, &route, &statement) {
            statement.stage = Stage::held(Awaits::Past, route, text_len);
            return self.core.clients.begin(client, statement);
        }
        if statement.command.purpose == Purpose::Execute {
            return self.follow_past_prepared(client, route, statement);
        }
        let (Some(session), Some(known)) =
            (client.session.as_ref(), statement.meaning.known.as_ref())
        else {
            return;
        };
        let analysis = &known.analysis;
        let is_answered = matches!(route, Route::Ok(_) | Route::Error(_) | Route::Limited(_));
        if analysis.statements != 1 || is_answered {
            return self.run_on_route(client, route, statement);
        }
        let depends = analysis.depends;
        if session.past.awaits(depends, runs_code(&statement)) {
            statement.stage = Stage::held(Awaits::Past, route, text_len);
            return self.core.clients.begin(client, statement);
        }
        let (last, insert) = (asked_place(session, depends), session.insert_conn);
        let reads = |what| depends.contains(what);
        let reads_last =
            reads(Depends::ROW_COUNT) || reads(Depends::FOUND_ROWS) || reads(Depends::DIAGNOSTICS);
        let mut known = Recalled::default();
        let mut route = route;
        if reads(Depends::CONNECTION_ID) {
            known.connection_id = Some(client.origin.number);
        }
        known.last_gtid = reads(Depends::LAST_GTID).then_some(session.past.last_gtid);
        let last_gtid = known.last_gtid;
        let has_default_trackers =
            reads(Depends::TRACKERS) && session.settings.told == TrackerFilter::DEFAULT;
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
                false => self.core.place_of(client, last),
            };
            let shows = text_of(&statement.command.frames, text_len).is_some_and(|text| {
                recall::show_diagnostics(text, &session.settings.modes).is_some()
            });
            let is_apart = session.past.is_row_count_apart && reads(Depends::DIAGNOSTICS);
            let numbers = session.past.recalled();
            if is_apart && assign_numbers(session, &mut statement, text_len, &numbers) {
                return self.run_on_route(client, route, statement);
            }
            let stays = match &place {
                // What may write goes nowhere but to its own hostgroup.
                Place::Leased(Route::Lease(hostgroup, _)) => {
                    !statement.meaning.is_read && !shows && *hostgroup != route_hostgroup(&route)
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
                    let asks = reads(Depends::DIAGNOSTICS) && !self.core.env.may_run_again(session);
                    if asks && assign_numbers(session, &mut statement, text_len, &known) {
                        return self.run_on_route(client, route, statement);
                    }
                    if asks && (shows || session.past.has_conditions()) {
                        return self.show_past(client, route, statement, text_len, &known);
                    }
                }
            }
        }
        client.put_recalled(&mut statement, text_len, &known);
        self.run_on_route(client, route, statement);
    }

    /// Warnings and errors whose connection has served others since.
    fn show_past(
        &mut self,
        client: &mut Client,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
        known: &Recalled,
    ) {
        let Some(session) = client.session.as_ref() else {
            return;
        };
        let (modes, format, status) =
            (session.settings.modes, session.login.format, session.settings.status);
        let Some(text) = text_of(&statement.command.frames, text_len) else {
            return self.run_on_route(client, route, statement);
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
                put_text(statement.command.frames.own(), text_len, text.as_bytes());
                self.run_on_route(client, route, statement);
            }
            Some(show) => {
                let mut reply = Vec::new();
                match &session.past.conditions.fetched {
                    Some(fetched) => fetched.put(&mut reply, show, format, status),
                    None => {
                        let past = (
                            session.past.conditions.warnings,
                            session.past.conditions.error.as_deref(),
                        );
                        put_remembered(&mut reply, past, show, format, status);
                    }
                }
                self.core.fx.buffers.give(statement.command.frames.into_own());
                self.core.fx.stats.counters.statements_answered += 1;
                self.core.write_client(client, |out| out.extend_from_slice(&reply));
                client.has_shown();
            }
            None if client.put_recalled(&mut statement, text_len, known) => {
                self.run_on_route(client, route, statement);
            }
            None => {
                let what = "diagnostics of a statement whose connection has served others since";
                self.answer_refused(client, statement, not_supported(what));
            }
        }
    }

    /// Sets an execution on its way that reads what an earlier statement left.
    fn follow_past_prepared(
        &mut self,
        client: &mut Client,
        route: Route,
        mut statement: Box<Statement>,
    ) {
        let (Some(session), Some(known)) =
            (client.session.as_ref(), statement.meaning.known.as_ref())
        else {
            return;
        };
        let stmt = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
        let Some(entry) = stmt.map(|stmt| Rc::clone(&stmt.entry)) else { return };
        if matches!(route, Route::Ok(_) | Route::Error(_) | Route::Limited(_)) {
            return self.run_on_route(client, route, statement);
        }
        let depends = known.analysis.depends;
        if session.past.awaits(depends, runs_code(&statement)) {
            statement.stage = Stage::held(Awaits::Past, route, 0);
            return self.core.clients.begin(client, statement);
        }
        let reads = |what| depends.contains(what);
        let reads_last =
            reads(Depends::ROW_COUNT) || reads(Depends::FOUND_ROWS) || reads(Depends::DIAGNOSTICS);
        let mut recalled = Recalled::default();
        if reads(Depends::CONNECTION_ID) {
            recalled.connection_id = Some(client.origin.number);
        }
        recalled.last_gtid = reads(Depends::LAST_GTID).then_some(session.past.last_gtid);
        let mut route = route;
        if reads_last {
            let left = asked_place(session, depends);
            // To find out about the one clears the other.
            let is_asked = session.past.is_insert_id_reported();
            let is_insert_id =
                reads(Depends::LAST_INSERT_ID) && (left != session.insert_conn || is_asked);
            let shows = recall::show_diagnostics(&entry.text, &entry.modes).is_some();
            let place = match is_insert_id {
                true => Place::Gone,
                false => self.core.place_of(client, left),
            };
            match place {
                Place::Idle if self.core.servers.may_go_back(&statement, &route, left) => {
                    route = unheld(route)
                }
                Place::Idle if shows && !is_held(&route) => {
                    route = self.core.servers.shown_at(left).map_or(route, Route::Hostgroup);
                }
                // What may write goes nowhere but to its own hostgroup.
                Place::Leased(lease)
                    if statement.meaning.is_read
                        || shows
                        || route_hostgroup(&lease) == route_hostgroup(&route) =>
                {
                    route = lease;
                }
                Place::Idle | Place::Leased(_) | Place::Gone => {
                    let connection_id = recalled.connection_id;
                    let last_gtid = recalled.last_gtid;
                    recalled = Recalled { connection_id, last_gtid, ..session.past.recalled() };
                    let is_lost = !self.core.env.may_run_again(session);
                    if is_lost && self.core.shows_past(client, &entry) {
                        self.core.fx.buffers.give(statement.command.frames.into_own());
                        return;
                    }
                }
            }
        }
        if recalled != Recalled::default() {
            statement.prepared.entry = self.recalled_entry(client, &entry, &recalled);
        }
        self.run_on_route(client, route, statement);
    }
}
