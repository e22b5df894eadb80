//! A statement that asks for what an earlier one left: where it goes, or what it is answered.

use std::rc::Rc;

use trunkline_protocol::error::ErrorKind;
use trunkline_sql::{analysis::Depends, recall, recall::Recalled};

use crate::{
    clients::answers::not_supported,
    clients::client::{Awaits, Client, Phase, Purpose, Stage, Statement},
    rooms::Exchange,
    routing::route::Route,
    session_past::ask::{
        ASKING_LEN_MAX, assign_numbers, is_asked_in_vain, put_text, reads_last, runs_code, text_of,
    },
    session_past::insert_id::{INSERT_ID_LOST, Settled},
    session_past::warnings::put_remembered,
};

/// What a long statement asks for that nobody puts into its text.
const TOO_LONG: &str = "ROW_COUNT(), FOUND_ROWS(), warnings or last_gtid in a statement of more than \
                        64 KiB, of a connection that has served others since";

impl Exchange {
    /// A statement that has waited for what an earlier one left goes on, or waits for more of it.
    pub(crate) fn go_on_with_past(&mut self, client: &mut Client) {
        if let Some((statement, held)) = client.phase.take_held(|it| *it == Awaits::Past) {
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
            Settled::Waits => return self.hold_for_past(client, route, statement, text_len),
            Settled::Lost => {
                let error = ErrorKind::StateLost.says(INSERT_ID_LOST);
                return self.answer_refused(client, statement, error);
            }
        }
        if self.core.settle_found_rows(client, &route, &statement) {
            return self.hold_for_past(client, route, statement, text_len);
        }
        let Some(known) = statement.meaning.known.as_ref() else {
            return self.run_on_route(client, route, statement);
        };
        let session = &*client.session;
        let depends = known.analysis.depends;
        let is_answered = matches!(route, Route::Ok(_) | Route::Error(_) | Route::Limited(_));
        if known.analysis.statements != 1 || is_answered {
            let row_count = session.past.row_count(depends);
            if !is_answered && statement.command.purpose == Purpose::Query {
                let counted = Recalled { row_count, ..Recalled::default() };
                if is_asked_in_vain(text_len, &counted) {
                    return self.answer_refused(client, statement, not_supported(TOO_LONG));
                }
                client.put_recalled(&mut statement, text_len, &counted);
            }
            return self.run_on_route(client, route, statement);
        }
        if session.past.awaits(depends, runs_code(&statement)) {
            return self.hold_for_past(client, route, statement, text_len);
        }
        match statement.command.purpose {
            Purpose::Execute => self.follow_past_prepared(client, route, statement, depends),
            _ => self.follow_past_of_text(client, (route, statement), text_len, depends),
        }
    }

    /// A statement goes on whose session's past has not come in time: what was awaited is lost, as
    /// if its connection were. False for one that does not wait for that, or has run out of its own
    /// time.
    pub(crate) fn go_on_without_past(&mut self, client: &mut Client) -> bool {
        let now_ms = self.core.env.now.ms();
        let waits = matches!(&client.phase, Phase::Running(statement)
            if matches!(&statement.stage, Stage::Held(held) if held.awaits == Awaits::Past)
                && !(1..=now_ms).contains(&statement.deadline_ms));
        if !waits {
            return false;
        }
        let given_up = client.session.gives_up_fetching();
        self.core.fx.stats.counters.traces_late += u64::from(given_up);
        self.go_on_with_past(client);
        true
    }

    /// Keeps a statement until what an earlier one left has been fetched, or for as long as one
    /// waits for a connection.
    fn hold_for_past(
        &mut self,
        client: &mut Client,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
    ) {
        let wait_ms = self.core.env.snapshot.settings.connect_timeout_server_max;
        let until_ms = self.core.env.now.ms() + wait_ms;
        let until_ms = match statement.deadline_ms {
            0 => until_ms,
            deadline_ms => until_ms.min(deadline_ms),
        };
        statement.stage = Stage::held(Awaits::Past, route, text_len);
        self.core.clients.begin(client, statement);
        self.core.clients.set_timer(client, until_ms);
    }

    /// Sets a text on its way that reads what an earlier statement left: where that still is, or
    /// with what the session knows of it.
    fn follow_past_of_text(
        &mut self,
        client: &mut Client,
        (mut route, mut statement): (Route, Box<Statement>),
        text_len: usize,
        depends: Depends,
    ) {
        let session = &*client.session;
        let mut known = client.own_values(depends);
        if reads_last(depends) {
            let shows = text_of(&statement.command.frames, text_len).is_some_and(|text| {
                recall::show_diagnostics(text, &session.settings.modes).is_some()
            });
            let is_apart =
                session.past.is_row_count_apart && depends.contains(Depends::DIAGNOSTICS);
            let numbers = session.past.recalled(&known);
            if is_apart && assign_numbers(session, &mut statement, text_len, &numbers) {
                return self.run_on_route(client, route, statement);
            }
            let (goes, is_there) = self.core.asked_route(client, &statement, route, shows);
            route = goes;
            if is_there && runs_code(&statement) {
                known.row_count = session.past.row_count(depends);
            }
            if !is_there {
                known = session.past.recalled(&known);
                let asks =
                    depends.contains(Depends::DIAGNOSTICS) && !self.core.env.may_run_again(session);
                if asks && assign_numbers(session, &mut statement, text_len, &known) {
                    return self.run_on_route(client, route, statement);
                }
                if asks && text_len > ASKING_LEN_MAX {
                    return self.answer_refused(client, statement, not_supported(TOO_LONG));
                }
                if asks && (shows || session.past.has_conditions()) {
                    return self.show_past(client, route, statement, text_len, &known);
                }
            }
        }
        if is_asked_in_vain(text_len, &known) {
            return self.answer_refused(client, statement, not_supported(TOO_LONG));
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
        let session = &*client.session;
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
                self.retire(statement);
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
        mut route: Route,
        mut statement: Box<Statement>,
        depends: Depends,
    ) {
        let session = &*client.session;
        let stmt = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
        let Some(entry) = stmt.map(|stmt| Rc::clone(&stmt.entry)) else { return };
        let mut known = client.own_values(depends);
        if reads_last(depends) {
            let shows = entry.text.len() <= ASKING_LEN_MAX
                && recall::show_diagnostics(&entry.text, &entry.modes).is_some();
            let (goes, is_there) = self.core.asked_route(client, &statement, route, shows);
            route = goes;
            let count = session.past.row_count(depends);
            if is_there && (runs_code(&statement) || self.core.is_read_elsewhere(client, &entry)) {
                known.row_count = count;
            }
            let session = &*client.session;
            if !is_there {
                known = session.past.recalled(&known);
                let is_lost = !self.core.env.may_run_again(session);
                if is_lost && self.core.shows_past(client, &entry) {
                    self.core.fx.buffers.give(statement.command.frames.into_own());
                    return;
                }
            }
        }
        if is_asked_in_vain(entry.text.len(), &known) {
            return self.answer_refused(client, statement, not_supported(TOO_LONG));
        }
        if known != Recalled::default() {
            statement.prepared.entry = self.recalled_entry(client, &entry, &known);
        }
        self.run_on_route(client, route, statement);
    }
}
