//! Warnings of a read that shared its connection. The statements behind it were sent before it was
//! known that it has any, and they clear them. It only reads: it is run again, right in front of
//! the statement that asks for its warnings, and its answer is thrown away.

use std::sync::Arc;

use trunkline_catalog::Catalog;
use trunkline_protocol::{
    codec::frame::HEADER_LEN,
    response::{Outcome, Relay, ResponseShape},
};
use trunkline_session::tracker::SessionState;
use trunkline_sql::analysis::Depends;

use crate::{
    clients::client::{Client, Purpose, Running, Session, Statement},
    env::Env,
    exchange::send::put_own_query,
    rooms::Core,
    servers::conn::{Conn, InFlight, Owner},
    session_past::{Again, LastStatement},
};

impl LastStatement {
    /// The text of what left the warnings, if it can be run again: the proof that it reads still
    /// holds, and its session's `state` is as it was.
    pub(crate) fn run_again(
        &self,
        state: &Arc<SessionState>,
        catalog: &Catalog,
        now_ms: u64,
    ) -> Option<&[u8]> {
        let again = self.conditions.again.as_ref()?;
        let holds = again.validity.is_none_or(|validity| validity.holds(catalog, now_ms));
        (holds && again.state == *state).then_some(&again.text)
    }
}

impl Env {
    /// Whether the read that left a session's warnings can be run again for them.
    pub(crate) fn may_run_again(&self, session: &Session) -> bool {
        let (catalog, now_ms) = (self.shared.catalog(), self.now.ms());
        session.past.run_again(&session.settings.state, catalog, now_ms).is_some()
    }
}

/// A read on a shared connection has been answered, with warnings.
pub(crate) fn keep_warnings_of_shared(
    client: &mut Client,
    conn: &mut Conn,
    statement: &Statement,
    outcome: &Outcome,
) {
    if outcome.warnings == 0 || outcome.error.is_some() || !statement.meaning.is_read {
        return;
    }
    let session = &mut *client.session;
    let uses_table = || {
        let references = statement.meaning.known.as_ref().map(|known| &known.analysis.references);
        references.is_some_and(|references| !references.tables.is_empty())
    };
    if statement.command.purpose == Purpose::Query {
        let text = statement.command.frames.get(HEADER_LEN + 1..).map(Box::from);
        let validity = statement.meaning.validity;
        session.past.conditions.again =
            text.map(|text| Again { text, validity, state: Arc::clone(&session.settings.state) });
    } else if conn.in_flight.is_empty() && uses_table() {
        // Nobody is behind it, and it has cleared what was there before.
        conn.holder.last_client = Some(client.front.id);
        session.last_conn = Some((conn.id, conn.holder.turn));
    }
}

impl Core {
    /// In front of a statement that asks for warnings: runs again what left them, if they went with
    /// a shared connection.
    pub(crate) fn run_again(&mut self, (statement, session): Running<'_>, conn: &mut Conn) {
        let known = statement.meaning.known.as_ref();
        let asks = known.is_some_and(|known| known.analysis.depends.contains(Depends::DIAGNOSTICS));
        let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
        if !asks || !is_run {
            return;
        }
        let again = session.past.run_again(
            &session.settings.state,
            self.env.shared.catalog(),
            self.env.now.ms(),
        );
        let Some(text) = again.map(<[u8]>::to_vec) else { return };
        let relay = Relay::new(ResponseShape::Query, conn.server.format, conn.server.format, false);
        conn.in_flight.push_back(InFlight {
            owner: Owner::Again,
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        let takes_attributes = conn.server.takes_attributes;
        self.fx.stats.counters.traces_fetched += 1;
        self.write_server(conn, |out| put_own_query(out, &text, takes_attributes));
    }
}
