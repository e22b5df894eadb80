//! Executions that ask for what an earlier statement left, when its connection has served others
//! since. Preparing disturbs nothing of it on either server, so where it is still there the
//! execution goes there; elsewhere it is answered from what the session keeps, or run as a text
//! with the numbers in it.

use std::rc::Rc;

use trunkline_protocol::response::Prepared;
use trunkline_sql::{
    analysis::Depends,
    recall::{self, Recalled},
};

use super::{
    ask::{Place, asked_place, is_held, route_hostgroup, runs_code, unheld},
    warnings::put_remembered_binary,
};
use crate::{
    ClientId,
    clients::client::{Statement, Waiting},
    prepared::{Entries, Entry, EntryKey},
    rooms::{Core, Exchange},
    routing::route::Route,
};

impl Exchange {
    /// Sets an execution on its way that reads what an earlier statement left.
    pub(crate) fn follow_past_prepared(
        &mut self,
        id: ClientId,
        route: Route,
        mut statement: Box<Statement>,
    ) {
        let Some(client) = self.core.clients.get(id) else { return };
        let (Some(session), Some(known)) = (client.session.as_ref(), statement.known.as_ref())
        else {
            return;
        };
        let stmt = statement.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
        let Some(entry) = stmt.map(|stmt| Rc::clone(&stmt.entry)) else { return };
        if matches!(route, Route::Ok(_) | Route::Error(_) | Route::Limited(_)) {
            return self.run_on_route(id, route, statement);
        }
        let depends = known.analysis.depends;
        if session.past.awaits(depends, runs_code(&statement)) {
            statement.waiting = Some(Box::new(Waiting { route, text_len: 0, awaits_cache: None }));
            return self.core.clients.begin(id, statement);
        }
        let reads = |what| depends.contains(what);
        let reads_last =
            reads(Depends::ROW_COUNT) || reads(Depends::FOUND_ROWS) || reads(Depends::DIAGNOSTICS);
        let mut recalled = Recalled::default();
        if reads(Depends::CONNECTION_ID) {
            recalled.connection_id = Some(client.number);
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
                false => self.core.place_of(id, left),
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
                    if statement.is_read
                        || shows
                        || route_hostgroup(&lease) == route_hostgroup(&route) =>
                {
                    route = lease;
                }
                Place::Idle | Place::Leased(_) | Place::Gone => {
                    let connection_id = recalled.connection_id;
                    let last_gtid = recalled.last_gtid;
                    recalled = Recalled { connection_id, last_gtid, ..session.past.recalled() };
                    let is_lost = session
                        .past
                        .run_again(
                            &session.state,
                            self.core.env.shared.catalog(),
                            self.core.env.now.ms(),
                        )
                        .is_none();
                    if is_lost && self.core.shows_past(id, &entry) {
                        self.core.fx.buffers.give(statement.frames);
                        return;
                    }
                }
            }
        }
        if recalled != Recalled::default() {
            statement.entry = self.recalled_entry(id, &entry, &recalled);
        }
        self.run_on_route(id, route, statement);
    }

    /// A statement's text with what is known in it, to be prepared and run once; `None` when it
    /// asks for none of that.
    fn recalled_entry(
        &mut self,
        id: ClientId,
        entry: &Entry,
        recalled: &Recalled,
    ) -> Option<Rc<Entry>> {
        let session = self.core.clients.get(id)?.session.as_ref()?;
        let modes = entry.modes;
        let counted = recall::show_diagnostics(&entry.text, &modes).filter(|show| show.counts);
        let text = match counted {
            Some(show) => {
                let (name, count) = match show.errors_only {
                    true => ("error_count", recalled.error_count),
                    false => ("warning_count", recalled.warning_count),
                };
                let count = recall::unsigned(count?);
                let text = format!("SELECT {count} AS `@@session.{name}`");
                text.into_bytes()
            }
            None => recall::recall(&entry.text, &modes, recalled)?,
        };
        let known = self.statements.analyses.know(&text, &modes);
        let key = EntryKey {
            account: session.account,
            reading: std::sync::Arc::clone(&entry.reading),
            has_literals: true,
            text: text.into(),
        };
        let columns = u16::from(entry.has_rows);
        let prepared = Prepared { stmt_id: 0, params: entry.params, columns, takes_vector: false };
        Some(Entries::own(&key, (known, modes), prepared))
    }
}

impl Core {
    /// Answers a prepared `SHOW WARNINGS` or `SHOW ERRORS`; false for anything else.
    fn shows_past(&mut self, id: ClientId, entry: &Entry) -> bool {
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        let Some(session) = session else { return false };
        let show = recall::show_diagnostics(&entry.text, &entry.modes);
        let Some(show) = show.filter(|show| !show.counts && session.past.has_conditions()) else {
            return false;
        };
        let (format, status) = (session.format, session.status);
        let mut reply = Vec::new();
        match &session.past.fetched {
            Some(fetched) => fetched.put_binary(&mut reply, show, format, status),
            None => {
                let past = (session.past.warnings, session.past.error.as_deref());
                put_remembered_binary(&mut reply, past, show, format, status);
            }
        }
        self.fx.stats.counters.statements_answered += 1;
        self.write_client(id, |out| out.extend_from_slice(&reply));
        self.clients.has_shown(id);
        true
    }
}
