//! Step 8: a connection is brought to its session's state, before a statement or in front of it.

use std::sync::Arc;

use trunkline_protocol::{
    codec::frame::put_payload,
    packet::greeting::Flavor,
    response::{Relay, ResponseShape},
};
use trunkline_session::tracker::{Difference, Schema, SessionState, Sync, difference};

use crate::{
    clients::client::{Client, Purpose, Stage},
    exchange::lost::only_looks_at,
    exchange::past::PastHere,
    exchange::pins::PLAIN_VARIABLES,
    exchange::send::{has_transaction, put_own_query, text_hash},
    rooms::{Core, Exchange},
    servers::conn::{Conn, InFlight, Owner},
};

/// Whether a `SET` of the proxy's own may be refused by a server that has accepted it: it names a
/// variable that not every account may set, or that names something on the server, as far as is
/// known.
fn may_be_refused_later(text: &[u8]) -> bool {
    const BEGIN: &[u8] = b"@@SESSION.";
    let places = text.windows(BEGIN.len()).enumerate().filter(|(_, part)| *part == BEGIN);
    let mut names = places.map(|(at, _)| {
        let rest = text.get(at + BEGIN.len()..).unwrap_or_default();
        let is_name = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        rest.get(..rest.iter().take_while(|byte| is_name(byte)).count()).unwrap_or_default()
    });
    names.any(|name| !PLAIN_VARIABLES.contains(&name) && !ALWAYS_TAKEN.contains(&name))
}

/// Besides [`PLAIN_VARIABLES`], variables that each account may set for its session, whatever there
/// is on the server, on MariaDB 10.11 and MySQL 9.7.
const ALWAYS_TAKEN: [&[u8]; 16] = [
    b"character_set_client",
    b"character_set_connection",
    b"character_set_results",
    b"collation_connection",
    b"completion_type",
    b"default_week_format",
    b"last_insert_id",
    b"max_join_size",
    b"optimizer_switch",
    b"sql_auto_is_null",
    b"sql_big_selects",
    b"transaction_isolation",
    b"transaction_read_only",
    b"tx_isolation",
    b"tx_read_only",
    b"updatable_views_with_limit",
];

/// Appends a `COM_INIT_DB` packet.
pub(crate) fn put_init_db(out: &mut Vec<u8>, schema: &[u8]) {
    let mut payload = Vec::with_capacity(schema.len() + 1);
    payload.push(0x02);
    payload.extend_from_slice(schema);
    put_payload(out, 0, &payload);
}

/// Whether a `KILL QUERY`, or the time limit of the session before, may end what brings a
/// connection to a state, with nothing done: any `SET`, on MariaDB (`docs/decisions/0095`).
fn may_be_interrupted(conn: &Conn, sync: &Sync) -> bool {
    conn.server.flavor == Flavor::MariaDb && sync.sets()
}

impl Exchange {
    /// Sends what brings the connection to the session's state, and behind that the statement, now
    /// or when the servers have accepted the state.
    pub(super) fn send_with_state(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        past: &PastHere,
        awaits_reset: bool,
    ) {
        let Some((statement, session)) = client.running_mut() else { return };
        let is_read = statement.meaning.is_read;
        let only_looks = only_looks_at(statement);
        let is_dump = statement.command.purpose == Purpose::Dump;
        let mut state = Arc::clone(&session.settings.state);
        let mut found = difference(&conn.state, &state, conn.server.flavor);
        let is_held = session.lease_mut(conn.id).is_some_and(|lease| !lease.pins.is_empty());
        if found == Difference::ChangeUser && is_held {
            // The schema went on other servers. What is held here stays, in the one that is here.
            let mut there = (*state).clone();
            there.schema = conn.state.schema.clone();
            state = self.core.servers.states.intern(there);
            found = difference(&conn.state, &state, conn.server.flavor);
        }
        let mut sync = match found {
            Difference::None => Sync::default(),
            Difference::Sync(sync) => sync,
            Difference::ChangeUser => return self.exchange(client, conn),
        };
        if has_plant!(self.core, SyncSkipped) && is_read {
            sync.set = None;
        }
        let proof = sync.set.as_deref().map(text_hash);
        if past.needs_trace {
            past.bring(session, conn, &mut sync);
        }
        let begins = session.begins_on(conn.id).filter(|_| !is_dump);
        let waits_to_begin =
            begins.is_some_and(|begun| self.core.waits_for_begin(begun, conn, &state));
        let waits = is_dump
            || !is_read
                && (awaits_reset
                    || waits_to_begin
                    || self.core.waits_for_sync(conn, &sync, proof)
                    || !only_looks && may_be_interrupted(conn, &sync)
                    || has_transaction(session, conn.id));
        if !Arc::ptr_eq(&conn.state, &state) || past.needs_trace || begins.is_none() {
            self.core.send_sync(client, conn, state, sync, proof);
        }
        if let Some(begun) = begins {
            if let (true, Some(running)) = (self.core.env.snapshot.follows_gtids, client.running())
            {
                self.core.follow_gtids(running, conn);
            }
            self.core.put_begin(client, conn, begun);
        }
        match waits {
            true => {
                self.core.fx.stats.counters.statements_awaited_state += 1;
                client.set_assigned(Stage::Synchronising(conn.id), self.core.env.now.us);
            }
            false => self.send_statement(client, conn, Stage::Sent(conn.id)),
        }
    }
}

impl Core {
    /// Whether a statement that is no read must not go out before the state is confirmed. A read
    /// may: its reply is dropped if the state was refused. So may any statement behind a `SET` that
    /// the server has accepted before and can't refuse now.
    fn waits_for_sync(&self, conn: &Conn, sync: &Sync, proof: Option<u64>) -> bool {
        // The one that it had before its reset is still its, and can't be refused.
        let chooses_schema = sync.schema.is_some() && sync.schema != conn.left.kept_schema;
        let is_proven = proof.is_none_or(|proof| {
            self.servers.accepted_sets.contains(&(conn.slot, conn.server.incarnation, proof))
                && !sync.set.as_deref().is_some_and(may_be_refused_later)
        });
        chooses_schema || sync.may_fail || !is_proven
    }

    /// Appends what brings a connection to `state`.
    pub(super) fn send_sync(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        state: Arc<SessionState>,
        sync: Sync,
        proof: Option<u64>,
    ) {
        let takes_attributes = conn.server.takes_attributes;
        conn.follow_transaction_tracker(&state);
        let out = conn.io.outbox.buf(&mut self.fx.buffers);
        let mut expect = |set: Option<u64>| {
            let relay =
                Relay::new(ResponseShape::Single, conn.server.format, conn.server.format, false)
                    .numbered_from(1);
            conn.in_flight.push_back(InFlight {
                owner: Owner::Sync(client.id, set),
                relay: self.fx.relays.hold(relay),
                is_statement: false,
                place: None,
            });
        };
        if let Some(text) = sync.set_names {
            put_own_query(out, text, takes_attributes);
            expect(None);
        }
        let is_chosen_anew =
            conn.state.schema == Schema::Unknown && conn.server.flavor == Flavor::MariaDb;
        if sync.schema.is_some() && is_chosen_anew {
            // MariaDB does nothing when it is told to choose what is chosen already.
            put_init_db(out, b"information_schema");
            expect(None);
        }
        if let Some(schema) = &sync.schema {
            put_init_db(out, schema);
            expect(None);
        }
        let first = sync.set_first.iter().map(|text| (text, None));
        let sets = first.chain(sync.set.iter().map(|text| (text, proof)));
        for (text, proof) in sets.chain(sync.set_user.iter().map(|text| (text, None))) {
            put_own_query(out, text, takes_attributes);
            expect(proof);
        }
        conn.state = state;
        conn.left.kept_schema = None;
        self.fx.stats.counters.sessions_synchronised += 1;
        self.touch_server(conn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_taken_always_may_be_refused_later() {
        for text in ["SET @@SESSION.time_zone='+02:00',@@SESSION.sql_mode=''", "SET NAMES latin1"] {
            assert!(!may_be_refused_later(text.as_bytes()), "{text}");
        }
        for name in ["sql_log_bin", "innodb_ft_user_stopword_table", "innodb_tmpdir", "of_tomorrow"]
        {
            let text = format!("SET @@SESSION.time_zone='+02:00',@@SESSION.{name}=1");
            assert!(may_be_refused_later(text.as_bytes()), "{text}");
        }
    }
}
