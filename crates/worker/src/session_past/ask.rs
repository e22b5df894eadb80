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

use super::{Trace, insert_id::gives_values};
use crate::{
    clients::client::{Client, Session, Statement},
    exchange::past::runs_a_routine,
    rooms::{Core, Lender},
    routing::route::Route,
    servers::Servers,
    servers::conn::Conn,
};

/// Where what a session left is still to be found.
enum Place {
    Idle,
    Leased(Route),
    /// Another session has had the connection since, or it has gone.
    Gone,
}

impl Servers {
    /// The hostgroup of the connection where something was left, for what only shows it: that may
    /// follow to a reader.
    fn shown_at(&self, left: Option<(ConnId, u64)>) -> Option<HostgroupId> {
        left.and_then(|(conn, _)| self.conns.get(conn)).map(|conn| conn.server.hostgroup)
    }

    /// Whether a statement may go to a connection at rest where something was left: one that may
    /// write to its own hostgroup only, and none away from a connection that its session holds.
    fn may_go_back(
        &self,
        statement: &Statement,
        route: &Route,
        left: Option<(ConnId, u64)>,
    ) -> bool {
        let conn = left.and_then(|(conn, _)| self.conns.get(conn));
        let is_own = |conn: &Conn| conn.server.hostgroup == route_hostgroup(route);
        !is_held(route) && conn.is_some_and(|conn| statement.meaning.is_read || is_own(conn))
    }
}

impl Client {
    /// The proxy has carried something out itself that leaves this row count.
    pub(crate) fn counts_rows(&mut self, count: i64) {
        self.session.past.counts_rows_apart(count);
    }

    /// The proxy has shown the session's conditions.
    pub(crate) fn has_shown(&mut self) {
        self.counts_rows(-1);
        self.session.past.has_shown();
    }

    /// What the session itself knows of what a statement asks for.
    pub(crate) fn own_values(&self, depends: Depends) -> Recalled {
        let session = &*self.session;
        let reads = |what| depends.contains(what);
        Recalled {
            connection_id: reads(Depends::CONNECTION_ID).then_some(self.origin.number),
            last_gtid: reads(Depends::LAST_GTID).then_some(session.past.last_gtid),
            has_default_trackers: reads(Depends::TRACKERS)
                && session.settings.told == TrackerFilter::DEFAULT,
            ..Recalled::default()
        }
    }

    /// Puts what is known into a statement's text; false when it asks for none of it.
    pub(crate) fn put_recalled(
        &self,
        statement: &mut Statement,
        text_len: usize,
        known: &Recalled,
    ) -> bool {
        if *known == Recalled::default() {
            return false;
        }
        let modes = self.session.settings.modes;
        let text = text_of(&statement.command.frames, text_len);
        let Some(recalled) = text.and_then(|text| recall::recall(text, &modes, known)) else {
            return false;
        };
        put_text(statement.command.frames.own(), text_len, &recalled);
        statement.meaning.is_recalled = true;
        true
    }
}

impl Core {
    /// Whether nobody has used a connection since the session left something there.
    fn place_of(&self, client: &Client, trace: Option<(ConnId, u64)>) -> Place {
        let Some((conn_id, turn)) = trace else {
            return Place::Gone;
        };
        let Some(conn) = self.servers.conns.get(conn_id) else {
            return Place::Gone;
        };
        let is_own = conn.holder.turn == turn && conn.holder.last_client == Some(client.id);
        match conn.list {
            state
                if state.is_free()
                    && is_own
                    && conn.login.account == client.session.login.account =>
            {
                Place::Idle
            }
            state if state.is_leased() && is_own && conn.holder.owner == Some(client.id) => {
                Place::Leased(Route::Lease(conn.server.hostgroup, conn_id))
            }
            _ => Place::Gone,
        }
    }

    /// Where a statement goes that reads what its session's last one left, and whether that is
    /// still there. `shows`: it only shows warnings or errors.
    pub(crate) fn asked_route(
        &self,
        client: &Client,
        statement: &Statement,
        route: Route,
        shows: bool,
    ) -> (Route, bool) {
        let known = statement.meaning.known.as_ref();
        let Some(known) = known else { return (route, false) };
        let session = &*client.session;
        let depends = known.analysis.depends;
        let left = asked_place(session, depends);
        // To find out about the one clears the other.
        let is_asked = session.past.is_insert_id_reported();
        let is_id_elsewhere =
            depends.contains(Depends::LAST_INSERT_ID) && (left != session.insert_conn || is_asked);
        let conn = left.and_then(|(conn, _)| self.servers.conns.get(conn));
        let is_others = depends.contains(Depends::DIAGNOSTICS)
            && conn.is_some_and(Conn::keeps_others_conditions);
        if is_id_elsewhere || is_others {
            return (route, false);
        }
        match self.place_of(client, left) {
            Place::Idle if shows && !is_held(&route) => {
                (self.servers.shown_at(left).map_or(route, Route::Hostgroup), true)
            }
            Place::Idle => {
                let may_go_back = self.servers.may_go_back(statement, &route, left);
                (route, may_go_back)
            }
            // What may write goes nowhere but to its own hostgroup.
            Place::Leased(lease)
                if statement.meaning.is_read
                    || shows
                    || route_hostgroup(&lease) == route_hostgroup(&route) =>
            {
                (lease, true)
            }
            Place::Leased(_) | Place::Gone => (route, false),
        }
    }

    /// Sees to it that `FOUND_ROWS()` is known before a statement asks for it elsewhere than on the
    /// connection that has it. True where the statement waits for that.
    pub(crate) fn settle_found_rows(
        &mut self,
        client: &mut Client,
        route: &Route,
        statement: &Statement,
    ) -> bool {
        let depends = statement.meaning.known.as_ref().map(|known| known.analysis.depends);
        let reads = depends.is_some_and(|depends| depends.contains(Depends::FOUND_ROWS));
        // What code may read is put there beforehand, so it has to be known.
        if !reads && !runs_code(statement) {
            return false;
        }
        let session = &*client.session;
        let left = session.past.found_conn.filter(|_| session.past.found_rows.is_none());
        let Some((conn_id, turn)) = left else { return false };
        let waits = self.with_conn(conn_id, |core, conn| {
            let is_own = conn.holder.turn == turn && conn.holder.last_client == Some(client.id);
            if !is_own || goes_to(route, statement, conn) {
                return false;
            }
            match conn.list {
                state if state.is_free() => core.fetch_from_idle(client, conn),
                state if state.is_leased() => {
                    let session = &mut *client.session;
                    session.past.awaits_found_rows = Some(conn.id);
                    // To ask is to find one row.
                    session.past.found_conn = None;
                    core.fetch_trace(conn, client.id, Trace::FoundRows);
                }
                _ => return false,
            }
            true
        });
        waits == Some(true)
    }

    /// The proxy has carried out a statement without rows that uses no table. MariaDB keeps what
    /// conditions there are, MySQL does not.
    pub(crate) fn ran_itself(&mut self, client: &mut Client) {
        let is_mysql = self.env.greeting.flavor() == Flavor::MySql;
        let session = &mut *client.session;
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
    let Some(known) = &statement.meaning.known else {
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

/// Whether a statement with these dependencies reads what the session's last one left.
pub(crate) fn reads_last(depends: Depends) -> bool {
    [Depends::ROW_COUNT, Depends::FOUND_ROWS, Depends::DIAGNOSTICS]
        .iter()
        .any(|what| depends.contains(*what))
}

/// Whether it runs code that may read anything of its session's past.
pub(crate) fn runs_code(statement: &Statement) -> bool {
    statement.meaning.proof.hidden.may(Hidden::READS_SESSION)
        || statement.meaning.known.as_ref().is_some_and(|known| runs_a_routine(&known.analysis))
}

/// The one connection that has what these read, and its turn, if one has all of it.
fn asked_place(session: &Session, depends: Depends) -> Option<(ConnId, u64)> {
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
pub(super) fn goes_to(route: &Route, statement: &Statement, conn: &Conn) -> bool {
    match route {
        Route::Lease(_, lease) => *lease == conn.id,
        _ => statement.meaning.is_read || conn.server.hostgroup == route_hostgroup(route),
    }
}

fn is_held(route: &Route) -> bool {
    matches!(route, Route::Lease(..))
}

fn route_hostgroup(route: &Route) -> HostgroupId {
    match route {
        Route::Lease(hostgroup, _) | Route::Hostgroup(hostgroup) | Route::Reader(hostgroup) => {
            *hostgroup
        }
        Route::Error(_) | Route::Limited(_) | Route::Ok(_) => HostgroupId::default(),
    }
}

/// Makes an assignment of numbers of a `GET DIAGNOSTICS`; false when it is another statement.
pub(crate) fn assign_numbers(
    session: &Session,
    statement: &mut Statement,
    text_len: usize,
    known: &Recalled,
) -> bool {
    let (Some(row_count), Some(number)) = (known.row_count, known.warning_count) else {
        return false;
    };
    // So many are kept, however many were counted.
    let max = session.settings.state.variable("max_error_count").and_then(parsed);
    let area = StatementArea { row_count, number: number.min(max.unwrap_or(number)) };
    let text = text_of(&statement.command.frames, text_len);
    let Some(text) = text.and_then(|text| assign_diagnostics(text, &session.settings.modes, area))
    else {
        return false;
    };
    put_text(statement.command.frames.own(), text_len, &text);
    true
}

/// A number as it stands in a text.
fn parsed(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// A longer text is not looked at for questions for its session's past, bytes: nobody puts answers
/// into it.
pub(crate) const ASKING_LEN_MAX: usize = 64 * 1024;

/// What is not put into a text that is too long for it. `CONNECTION_ID()` may stay: elsewhere it is
/// the connection's own as well.
pub(crate) fn is_asked_in_vain(text_len: usize, known: &Recalled) -> bool {
    let beside_id = Recalled { connection_id: known.connection_id, ..Recalled::default() };
    text_len > ASKING_LEN_MAX && *known != beside_id
}

/// The text at the end of a command in one packet, unless it is long.
pub(crate) fn text_of(frames: &[u8], text_len: usize) -> Option<&[u8]> {
    let header = Header::read(frames)?;
    if header.is_continued() || text_len > ASKING_LEN_MAX {
        return None;
    }
    frames.get(frames.len().checked_sub(text_len)?..)
}

/// Replaces the text at the end of a command in one packet.
pub(crate) fn put_text(frames: &mut Vec<u8>, text_len: usize, text: &[u8]) {
    let keep = frames.len().saturating_sub(text_len);
    let before = frames.get(HEADER_LEN..keep);
    let payload = [before.unwrap_or_default(), text].concat();
    frames.clear();
    put_payload(frames, 0, &payload);
}

#[cfg(test)]
mod tests;
