//! Step 5: where a statement goes.

use std::sync::Arc;

use trunkline_pool::ConnId;
use trunkline_rules::{Answer, Question};
use trunkline_sql::analysis::{Depends, TransactionEffect};
use trunkline_topology::{HostgroupId, ReadWriteSplit};

use crate::{
    ClientId, Worker,
    analysis::Known,
    client::{Lease, Session},
};

/// Decisions remembered per worker.
pub(crate) const DECISIONS_MAX: usize = 16_384;

/// Where a statement goes.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// To this connection, which the session holds.
    Lease(HostgroupId, ConnId),
    /// To any connection of this hostgroup.
    Hostgroup(HostgroupId),
    /// To any connection of this reader hostgroup, by the split: its writers can serve it too.
    Reader(HostgroupId),
    /// Nowhere: a rule answers it with an error of this text.
    Error(Arc<str>),
    /// Nowhere: a rule answers it with OK and this text.
    Ok(Arc<str>),
}

/// What the rules say of a statement.
enum Ruled {
    /// It is answered so.
    Answered(Route),
    /// It goes to this hostgroup, or where the split sends it.
    Goes(Option<HostgroupId>),
}

impl Worker {
    /// What the rules say of a statement that has a text.
    fn ask_rules(&mut self, id: ClientId, known: &Known, text: &[u8]) -> Ruled {
        let nowhere = Ruled::Goes(None);
        let Some(client) = self.clients.get_mut(id) else {
            return nowhere;
        };
        let peer = Arc::clone(&client.peer);
        let Some(session) = client.session.as_mut() else {
            return nowhere;
        };
        if self.snapshot.rules.is_empty() {
            return nowhere;
        }
        let question = Question {
            username: &session.user.name,
            schema: session.state.schema.name(),
            flag: session.next_flag,
            client_addr: peer.client_addr,
            proxy_addr: peer.proxy_addr,
            proxy_port: peer.proxy_port,
            digest: self.snapshot.settings.query_digests.then_some(known.digest),
            digest_text: &known.digest_text,
            query: text,
        };
        let decision = self.decisions.decide(&self.snapshot.rules, &question, &mut self.rule_hits);
        match decision.answer() {
            Some(Answer::Ok(text)) => return Ruled::Answered(Route::Ok(Arc::clone(text))),
            Some(Answer::Error(text)) => return Ruled::Answered(Route::Error(Arc::clone(text))),
            None => {}
        }
        if let Some(flag) = decision.session_flag() {
            session.next_flag = flag;
        }
        Ruled::Goes(decision.destination_hostgroup)
    }

    /// Decides for a statement that has a text. One that a rule answers leaves the session as it
    /// is; for any other, what held the session until its next statement holds it no longer.
    pub(crate) fn route_text(&mut self, id: ClientId, known: &Known, text: &[u8]) -> Route {
        match self.ask_rules(id, known, text) {
            Ruled::Answered(route) => route,
            Ruled::Goes(from_rule) => {
                self.end_brief_pins(id, &known.analysis);
                self.route_decided(id, from_rule, Some(known))
            }
        }
    }

    /// Decides for a command without a text: as for one that may write.
    pub(crate) fn route_plain(&mut self, id: ClientId) -> Route {
        self.route_decided(id, None, None)
    }

    fn route_decided(
        &self,
        id: ClientId,
        from_rule: Option<HostgroupId>,
        known: Option<&Known>,
    ) -> Route {
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        let Some(session) = session else {
            return Route::Hostgroup(HostgroupId::default());
        };
        let strays = has_plant!(self, SplitIgnoresTransaction) && known.is_some_and(Known::is_read);
        if strays {
            return Route::Hostgroup(self.split(session.user.default_hostgroup, false, known));
        }
        if let Some(lease) = session.transaction_lease()
            && (session.user.transaction_persistent || from_rule.is_none())
        {
            return Route::Lease(lease.hostgroup, lease.conn);
        }
        let wanted = match from_rule {
            Some(hostgroup) => hostgroup,
            None => {
                if let Some(lease) = held_lease(session, known) {
                    return Route::Lease(lease.hostgroup, lease.conn);
                }
                self.split(session.user.default_hostgroup, session.state.is_autocommit_off(), known)
            }
        };
        match session.leases.iter().find(|lease| lease.hostgroup == wanted) {
            Some(lease) => Route::Lease(lease.hostgroup, lease.conn),
            None if from_rule.is_none() && wanted != session.user.default_hostgroup => {
                Route::Reader(wanted)
            }
            None => Route::Hostgroup(wanted),
        }
    }

    /// The automatic read/write split, for a session that holds no connection.
    fn split(
        &self,
        default: HostgroupId,
        autocommit_off: bool,
        known: Option<&Known>,
    ) -> HostgroupId {
        let Some(group) = self.snapshot.writer_group(default) else {
            return default;
        };
        let Some(known) = known else { return default };
        let analysis = &known.analysis;
        let begins_read_only =
            matches!(analysis.transaction, TransactionEffect::Begin { read_only: true, .. })
                && analysis.statements == 1;
        let is_read = known.is_read()
            && !autocommit_off
            && analysis.transaction == TransactionEffect::None
            && analysis.depends == Depends::empty();
        let to_reader = group.read_write_split == ReadWriteSplit::Auto
            && (is_read || begins_read_only)
            && self.pool.has_online(group.reader_hostgroup, self.now.ms());
        match to_reader {
            true => group.reader_hostgroup,
            false => default,
        }
    }
}

/// Of the connections that a session holds, the one for a statement that no rule sends anywhere:
/// where its last statement ran, for one that reads what that left; else the first.
fn held_lease<'a>(session: &'a Session, known: Option<&Known>) -> Option<&'a Lease> {
    let left = [Depends::ROW_COUNT, Depends::FOUND_ROWS, Depends::DIAGNOSTICS];
    let reads = |what| known.is_some_and(|known| known.analysis.depends.contains(what));
    // What may write does not follow a read to a reader.
    let reads_last = known.is_some_and(Known::is_read) && left.into_iter().any(reads);
    let last_conn = session.last_conn.filter(|_| reads_last).map(|(conn, _)| conn);
    let last = session.leases.iter().find(|lease| Some(lease.conn) == last_conn);
    last.or(session.leases.first())
}
