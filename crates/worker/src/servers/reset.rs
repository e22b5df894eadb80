//! Connections that a session has left are brought to a known state before anybody else gets them.

use trunkline_pool::ConnState;
use trunkline_protocol::codec::frame::put_payload;
use trunkline_session::tracker::{Charset, Schema, SessionState};

use crate::{
    clients::client::Client,
    prepared::ServerStmts,
    rooms::Core,
    servers::conn::{Conn, InFlight, Owner},
    servers::dirt::{Dirt, RESET},
    servers::trackers::Behind,
};

impl Core {
    /// Brings a connection that a session left to a known state.
    pub(crate) fn free_after_session(&mut self, conn: &mut Conn, lent: Option<&mut Client>) {
        conn.holder.owner = None;
        let mut leaves_unseen = false;
        for entry in &mut conn.in_flight {
            if let Owner::Client(_) | Owner::Sync(..) | Owner::Prepare(_) = entry.owner {
                if entry.is_statement && conn.left.may_last {
                    conn.left.dirt = Some(Dirt::Ends);
                }
                entry.owner = Owner::Nobody;
                entry.relay.set_discard();
                leaves_unseen = true;
            }
        }
        if leaves_unseen {
            conn.left.insert_ids.forget();
            // It may choose another schema, which a reset does not take back.
            conn.state =
                self.servers.states.intern(SessionState::new(Schema::Unknown, Charset::Unknown));
        }
        if conn.io.is_paused {
            conn.io.is_paused = false;
            self.resume_server(conn);
        }
        let is_quiet = conn.in_flight.is_empty();
        conn.holder.since_ms = self.env.now.ms();
        self.servers.set_state(conn, ConnState::Resetting);
        if is_quiet {
            self.reset_conn(conn, lent);
        }
    }

    /// `COM_RESET_CONNECTION`: rolls back, drops temporary tables, releases locks, forgets
    /// variables and statements. What a reset does not take back ends with the connection.
    pub(crate) fn reset_conn(&mut self, conn: &mut Conn, mut lent: Option<&mut Client>) {
        conn.end_copies();
        debug_assert!(conn.list.is_resetting() && conn.in_flight.is_empty());
        // What ran for a client that has gone is over.
        conn.holder.unheard = None;
        self.fetch_traces(conn, lent.as_deref_mut(), None, false);
        conn.holder.last_client = None;
        if conn.holder.close_on_release || conn.left.dirt == Some(Dirt::Ends) {
            // What is fetched comes first, and then this again.
            return if conn.in_flight.is_empty() {
                self.drop_conn(conn)
            };
        }
        if conn.holder.kills > 0 {
            return self.servers.set_state(conn, ConnState::AwaitingKill);
        }
        if has_plant!(self, ResetForgotten) {
            return self.reset_done(conn, lent);
        }
        conn.left.conditions_turn = None;
        let relay = conn.own_relay();
        conn.in_flight.push_back(InFlight {
            owner: Owner::Reset,
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        self.fx.stats.counters.server_connections_reset += 1;
        self.servers.set_state(conn, ConnState::Resetting);
        self.write_server(conn, |out| {
            put_payload(out, 0, RESET);
        });
    }

    pub(crate) fn reset_done(&mut self, conn: &mut Conn, lent: Option<&mut Client>) {
        self.forget_stmts(conn);
        conn.holder.was_killed = false;
        conn.was_reset();
        self.forget_conn_state(conn);
        self.switch_trackers_on(conn, Behind::Reset, lent);
        self.freed(conn);
    }

    /// After a reset the schema is as it was, variables have their defaults, and servers differ
    /// in the character set. They do not know the schema's own any more.
    pub(crate) fn forget_conn_state(&mut self, conn: &mut Conn) {
        let schema = match &conn.state.schema {
            Schema::Named(_) | Schema::Unknown => Schema::Unknown,
            Schema::None => Schema::None,
        };
        let state = SessionState::new(schema, Charset::Unknown);
        conn.state = self.servers.states.intern(state);
        conn.left.last_gtid = None;
    }

    /// Takes a lease out of a session. The connection is nobody's; the caller moves it to another
    /// list.
    pub(crate) fn take_lease(&mut self, client: &mut Client, conn: &mut Conn) {
        client.session.leave(conn.id);
        conn.holder.owner = None;
    }

    /// The server's statements of a connection are gone: it was reset.
    pub(crate) fn forget_stmts(&mut self, conn: &mut Conn) {
        if has_plant!(self, StalePreparedId) {
            return;
        }
        let count = u32::try_from(conn.stmts.len()).unwrap_or(u32::MAX);
        conn.stmts = ServerStmts::to_close(Vec::new());
        if let Some(slot) = self.servers.pool.slot(conn.slot) {
            slot.server.health.close_stmts(count);
        }
    }
}
