//! Statements prepared by command: where they live, and the commands on them.

use std::{fmt, rc::Rc};

use trunkline_pool::ConnId;
use trunkline_protocol::{packet::greeting::Flavor, response::ResponseShape};
use trunkline_session::tracker::PinReason;
use trunkline_topology::HostgroupId;

use crate::{
    ClientId, Worker,
    analysis::Known,
    client::Purpose,
    route::{Route, Ruled},
};

/// A statement that may write belongs to another hostgroup than the session's other prepared
/// ones. Drivers that are told so send it as text.
struct Conflict {
    wanted: HostgroupId,
    hostgroup: HostgroupId,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "This command is not supported in the prepared statement protocol yet: it belongs to \
             hostgroup {}, and the session's other prepared statements are on hostgroup {}",
            self.wanted, self.hostgroup
        )
    }
}

impl Worker {
    /// `COM_STMT_PREPARE`: the statement lives on one connection, and pins the session to it.
    pub(crate) fn prepare(&mut self, id: ClientId, frames: &[u8], text: &[u8]) {
        let Some(modes) = self.modes(id) else { return };
        let known = self.analyses.know(text, &modes);
        let route = match self.ask_rules(id, &known, text) {
            Ruled::Answered(route) => route,
            Ruled::Goes(from_rule) => {
                self.end_brief_pins(id, &known.analysis);
                match self.route_prepared(id, from_rule, &known) {
                    Ok(route) => route,
                    Err(conflict) => {
                        return self.answer_error(id, 1295, b"HY000", &conflict.to_string());
                    }
                }
            }
        };
        let mut statement = self.statement(frames, ResponseShape::Prepare, Purpose::Prepare);
        statement.known = Some(known);
        self.follow(id, route, statement);
    }

    /// Numbers of statements are a connection's own, so all of a session are on one.
    fn route_prepared(
        &self,
        id: ClientId,
        from_rule: Option<HostgroupId>,
        known: &Known,
    ) -> Result<Route, Conflict> {
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        let default = session.map(|session| session.user.default_hostgroup).unwrap_or_default();
        let Some((hostgroup, conn)) = self.prepared_lease(id) else {
            return Ok(match self.route_decided(id, from_rule, Some(known)) {
                // Later statements may write; the writer can run them all.
                Route::Hostgroup(hostgroup) | Route::Reader(hostgroup) if known.is_read() => {
                    Route::Hostgroup(self.writer_of(hostgroup))
                }
                route => route,
            });
        };
        let wanted = from_rule.unwrap_or(default);
        match wanted == hostgroup || known.is_read() {
            true => Ok(Route::Lease(hostgroup, conn)),
            false => Err(Conflict { wanted, hostgroup }),
        }
    }

    fn writer_of(&self, hostgroup: HostgroupId) -> HostgroupId {
        let groups = &self.snapshot.replication;
        let group = groups.iter().find(|group| group.reader_hostgroup == hostgroup);
        group.map_or(hostgroup, |group| group.writer_hostgroup)
    }

    fn prepared_lease(&self, id: ClientId) -> Option<(HostgroupId, ConnId)> {
        let session = self.clients.get(id)?.session.as_ref()?;
        let mut leases = session.leases.iter();
        let lease = leases.find(|lease| lease.pins.has(PinReason::PreparedStatement))?;
        Some((lease.hostgroup, lease.conn))
    }

    /// A command on a prepared statement, to the connection that it lives on.
    pub(crate) fn on_prepared(
        &mut self,
        id: ClientId,
        frames: &[u8],
        stmt_id: u32,
        function: &str,
        shape: ResponseShape,
    ) {
        let Some(session) = self.clients.get(id).and_then(|client| client.session.as_ref()) else {
            return;
        };
        // MariaDB's −1 stands for the statement prepared last.
        let known = match stmt_id {
            u32::MAX => session.prepared.last(),
            _ => session.prepared.iter().find(|(prepared, _)| *prepared == stmt_id),
        };
        let known = known.map(|(_, known)| Rc::clone(known));
        let (Some(known), Some((hostgroup, conn))) = (known, self.prepared_lease(id)) else {
            let function = match self.greeting.flavor() {
                Flavor::MySql => "mysql_stmt_precheck",
                Flavor::MariaDb => function,
            };
            let text =
                format!("Unknown prepared statement handler ({stmt_id}) given to {function}");
            return self.answer_error(id, 1243, b"HY000", &text);
        };
        let mut statement = self.statement(frames, shape, Purpose::Execute);
        statement.known = Some(known);
        self.follow(id, Route::Lease(hostgroup, conn), statement);
    }

    /// `COM_STMT_CLOSE` and `COM_STMT_SEND_LONG_DATA`: nobody answers them.
    pub(crate) fn unanswered(&mut self, id: ClientId, frames: &[u8], stmt_id: u32, closes: bool) {
        let Some((_, conn)) = self.prepared_lease(id) else {
            return;
        };
        self.write_server(conn, |out| out.extend_from_slice(frames));
        if !closes {
            return;
        }
        let Some(session) = self.clients.get_mut(id).and_then(|client| client.session.as_mut())
        else {
            return;
        };
        session.prepared.retain(|(prepared, _)| *prepared != stmt_id);
        if session.prepared.is_empty() {
            if let Some(lease) = session.lease_mut(conn) {
                lease.pins.unpin(PinReason::PreparedStatement);
            }
            self.settle_lease(id, conn);
        }
    }
}

/// Whether a command, by its first byte, is one that nobody answers.
pub(crate) fn is_unanswered(payload: &[u8]) -> bool {
    matches!(payload.first(), Some(0x18 | 0x19))
}
