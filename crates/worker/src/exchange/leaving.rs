//! Whether a statement goes on where its session holds a connection: its server may be taken out,
//! or have lost its role.

use trunkline_pool::ConnId;
use trunkline_session::tracker::PinReason;
use trunkline_sql::analysis::{Effect, TransactionEffect};

use crate::{
    clients::client::{Client, Lease, Purpose, Session, Stage, Statement},
    effects::Wake,
    rooms::Core,
    servers::conn::Conn,
};

/// What a session is told whose server is out of its hostgroup.
const REMOVED: &str = "its server was taken out of the hostgroup";
/// What a session is told that held something on a server which has lost its role.
pub(crate) const DEPOSED: &str = "its server has lost its role in its cluster";
/// What a session is told whose user was given another default hostgroup by a reload.
pub(crate) const MOVED: &str = "its user's default hostgroup is another one now";
/// Whether a statement need not run on the connection that its session holds because of a
/// transaction there: none is open, or the statement would go on behind its end.
pub(crate) fn may_leave(session: &Session, statement: &Statement, conn_id: ConnId) -> bool {
    let lease = session.leases.iter().find(|lease| lease.conn == conn_id);
    let is_over = |lease: &Lease| !lease.is_in_trans && !lease.pins.has(PinReason::Xa);
    let is_over = !session.is_in_transaction() && lease.is_some_and(is_over);
    is_over || lease.is_some_and(|lease| lease.is_in_doubt) || goes_on_behind(session, statement)
}

/// Whether a statement ends the transaction that is open and does more: begins another one, or
/// runs outside of it.
fn goes_on_behind(session: &Session, statement: &Statement) -> bool {
    let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
    let Some(known) = statement.meaning.known.as_ref().filter(|_| is_run) else { return false };
    let calls = |effect: &Effect| matches!(effect, Effect::ExecuteStatement(_) | Effect::Call);
    match known.analysis.transaction {
        // What is called may end it and go on.
        TransactionEffect::None => known.analysis.effects.iter().any(calls),
        TransactionEffect::SetAutocommit(value) => {
            value != Some(false) && known.analysis.statements != 1
        }
        TransactionEffect::Begin { .. } | TransactionEffect::ImplicitCommit => true,
        TransactionEffect::Commit { chain, .. } | TransactionEffect::Rollback { chain, .. } => {
            chain
                || known.analysis.statements != 1
                || session.settings.state.variable("completion_type").is_some()
        }
    }
}

impl Core {
    /// Whether a session in a transaction is on a server that takes no new statements; only a
    /// planted bug asks.
    pub(super) fn is_drained(&self, client: &Client, conn: &Conn) -> bool {
        let state = self
            .servers
            .pool
            .slot(conn.slot)
            .map(|slot| slot.server.health.state(self.env.now.ms()));
        Session::is_in_transaction(&client.session)
            && state.is_some_and(|state| state != trunkline_topology::ServerState::Online)
    }

    /// Whether nothing of the client's goes on on a connection that its statement waits for: its
    /// server does not write in its cluster any more, or an operator has taken it out and the
    /// statement need not run there.
    pub(crate) fn is_taken_out(&self, client: &Client, conn: &Conn) -> bool {
        let Some((statement, session)) = client.running() else { return false };
        let Some(slot) = self.servers.pool.slot(conn.slot) else { return false };
        let health = &slot.server.health;
        let is_left = conn.server.epoch < health.left();
        health.is_deposed()
            || is_left && conn.server.epoch < health.deposed()
            || (is_left || slot.is_out() || session.has_left(conn.id))
                && may_leave(session, statement, conn.id)
    }

    /// Whether a connection's server does not write in its cluster any more, or another one has
    /// since the connection was opened.
    pub(crate) fn is_deposed(&self, conn: &Conn) -> bool {
        self.servers.pool.slot(conn.slot).is_some_and(|slot| {
            let health = &slot.server.health;
            health.is_deposed() || conn.server.epoch < health.deposed()
        })
    }

    /// Whether sessions leave a connection when they have no transaction open there: its server was
    /// replaced as a writer since it was opened.
    pub(crate) fn is_behind(&self, conn: &Conn) -> bool {
        let slot = self.servers.pool.slot(conn.slot);
        slot.is_some_and(|slot| conn.server.epoch < slot.server.health.left())
    }

    /// The server is out of its hostgroup, or the user has been given another one: it may be
    /// another one's replica by now. What is held there is lost, as with its connection.
    pub(crate) fn leave_removed(&mut self, client: &mut Client, conn: &Conn) {
        client.set_stage(Stage::Synchronising(conn.id));
        let has_left = client.session.has_left(conn.id);
        let why = match has_left {
            _ if self.is_deposed(conn) || self.is_behind(conn) => DEPOSED,
            true => MOVED,
            false => REMOVED,
        };
        self.fx.wake(Wake::Lost(conn.id, why));
    }
}
