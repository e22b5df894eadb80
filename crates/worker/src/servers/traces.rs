//! What a connection still knows of a session's last statement is fetched before another session
//! gets it.

use crate::session_past::warnings::{self};
use trunkline_pool::ConnId;
use trunkline_protocol::response::{Relay, ResponseShape};

use crate::{
    ClientId,
    clients::client::{Awaits, Client, Phase, Stage},
    effects::Wake,
    exchange::send::put_own_query,
    rooms::Core,
    servers::conn::{Conn, InFlight, Owner},
    session_past::{Left, Trace, left_on},
};

impl Core {
    /// Fetches what the session that had a connection last may yet ask for, before `next` gets
    /// it. `keeps`: what the same session left before stays there for it. `lent`: the client that
    /// is lent, if one is: it may be the one that had the connection.
    #[inline]
    pub(crate) fn fetch_traces(
        &mut self,
        conn: &mut Conn,
        lent: Option<&mut Client>,
        next: Option<ClientId>,
        keeps: bool,
    ) {
        let last = conn.holder.last_client;
        if let Some(last) = last.filter(|last| !keeps || Some(*last) != next) {
            self.fetch_traces_of(last, conn, lent, next);
        }
    }

    #[inline(never)]
    fn fetch_traces_of(
        &mut self,
        last: ClientId,
        conn: &mut Conn,
        lent: Option<&mut Client>,
        next: Option<ClientId>,
    ) {
        let client = match lent {
            Some(client) if client.id == last => Some(client),
            _ => self.clients.get_mut(last),
        };
        let Some(client) = client else { return };
        let session = &mut *client.session;
        // Its next statement makes its warnings void.
        let is_other = Some(last) != next;
        let Left { warnings, found_rows, insert_id } = left_on(session, conn);
        let (warnings, found_rows) = (warnings && is_other, found_rows && is_other);
        let past = &mut session.past;
        if found_rows {
            past.awaits_found_rows = Some(conn.id);
            past.found_conn = None;
        }
        if warnings {
            past.conditions.awaits_warnings = Some(conn.id);
        }
        if insert_id {
            past.awaits_insert_id = Some(conn.id);
        }
        // The second clears what the first asks for.
        if warnings {
            self.fetch_trace(conn, last, Trace::Warnings);
        }
        if found_rows {
            self.fetch_trace(conn, last, Trace::FoundRows);
        }
        if insert_id {
            self.fetch_trace(conn, last, Trace::InsertId);
        }
    }

    /// Fetches what a session may yet ask for from a connection at rest, on no list, that is to be
    /// closed or to go to another account. False where there is nothing to fetch; else the
    /// connection is offered again when all has come.
    pub(crate) fn fetch_before_parting(
        &mut self,
        conn: &mut Conn,
        lent: Option<&mut Client>,
    ) -> bool {
        let fetched = self.fx.stats.counters.traces_fetched;
        self.fetch_traces(conn, lent, None, false);
        if self.fx.stats.counters.traces_fetched == fetched {
            return false;
        }
        self.rest_when_quiet(conn);
        true
    }

    pub(crate) fn fetch_trace(&mut self, conn: &mut Conn, client: ClientId, trace: Trace) {
        let text: &[u8] = match trace {
            Trace::Warnings => b"SHOW WARNINGS",
            Trace::FoundRows => b"SELECT FOUND_ROWS()",
            // The session tracker reports the value; the statement has no other effect.
            Trace::InsertId if conn.server.names_changes => {
                b"SET @@SESSION.last_insert_id=LAST_INSERT_ID()"
            }
            // To ask is to find one row.
            Trace::InsertId => b"SELECT LAST_INSERT_ID(),FOUND_ROWS()",
        };
        let captures = trace != Trace::InsertId || !conn.server.names_changes;
        let takes_attributes = conn.server.takes_attributes;
        let captured = warnings::captured_format(conn.server.format);
        let relay = Relay::new(ResponseShape::Query, conn.server.format, captured, captures);
        let owner = Owner::Trace(client, trace);
        conn.in_flight.push_back(InFlight {
            owner,
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        self.fx.stats.counters.traces_fetched += 1;
        self.write_server(conn, |out| {
            put_own_query(out, text, takes_attributes);
        });
    }

    /// Nothing more will come of a trace that was fetched from this connection.
    pub(crate) fn trace_gone(&mut self, client: &mut Client, conn_id: ConnId, trace: Trace) {
        if let Some(session) = client.awaiting(conn_id, trace) {
            *session.past.awaited_mut(trace) = None;
        }
        let waits =
            |stage: &Stage| matches!(stage, Stage::Held(held) if held.awaits == Awaits::Past);
        if matches!(&client.phase, Phase::Running(statement) if waits(&statement.stage)) {
            self.fx.wake(Wake::PastTold(client.id));
        }
    }

    /// Connections that have gone leave traces behind that never come.
    pub(crate) fn traces_gone(&mut self, conn_id: ConnId, in_flight: Vec<(ClientId, Trace)>) {
        for (client, trace) in in_flight {
            self.fx.wake(Wake::TraceGone(client, conn_id, trace));
        }
    }
}
