//! Definitions of columns that a client keeps (MariaDB's cached metadata): a reply leaves them out
//! when they are what this client was sent last for its statement, whoever else the server's
//! statement has answered meanwhile.

use std::rc::Rc;

use trunkline_protocol::response::{ClientColumns, Outcome, Relay};

use super::ClientStmts;
use crate::clients::client::{Purpose, Session, Statement};

/// Tells a relay what its client knows of the columns to come. The reply's outcome says what it
/// knows then; without an outcome that is nothing certain.
pub(crate) fn know_columns(relay: &mut Relay, statement: &Statement, session: &mut Session) {
    if !session.login.format.cached_metadata {
        return;
    }
    match (&statement.command.purpose, statement.prepared.stmt_id) {
        (Purpose::Prepare, Some(_)) => relay.set_known_columns(None),
        (Purpose::Execute, Some(stmt_id)) => {
            let stmt = session.prepared.get_mut(stmt_id).filter(|stmt| stmt.entry.has_rows);
            if let Some(stmt) = stmt {
                relay.set_known_columns(stmt.columns.take());
            }
        }
        _ => {}
    }
}

impl ClientStmts {
    /// A reply has told the client of a statement's columns.
    pub(super) fn columns_sent(&mut self, id: u32, outcome: &Outcome) {
        let Some(stmt) = self.get_mut(id) else { return };
        stmt.columns = match &outcome.columns {
            ClientColumns::Known(known) => Some(Rc::clone(known)),
            ClientColumns::Sent(definitions) => Some(stmt.entry.columns(definitions)),
            ClientColumns::Unknown => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::tests::entry;
    use super::*;

    #[test]
    fn equal_definitions_are_one_allocation_and_a_change_is_one_clients_own() {
        let shared = entry("SELECT ?", 1);
        let mut clients = [ClientStmts::default(), ClientStmts::default()];
        let sent = |definitions: &[u8]| Outcome {
            columns: ClientColumns::Sent(definitions.into()),
            ..Outcome::default()
        };
        for client in &mut clients {
            let id = client.next_id();
            client.insert(id, Rc::clone(&shared), None);
            client.columns_sent(id, &sent(b"one"));
        }
        let columns = |client: &ClientStmts| client.get(1).and_then(|stmt| stmt.columns.clone());
        let [first, second] = &clients;
        let same = columns(first).zip(columns(second));
        assert!(same.is_some_and(|(first, second)| Rc::ptr_eq(&first, &second)));
        clients[0].columns_sent(1, &sent(b"two"));
        assert_eq!(columns(&clients[0]).as_deref(), Some(&b"two"[..]));
        assert_eq!(columns(&clients[1]).as_deref(), Some(&b"one"[..]));
        clients[0].columns_sent(1, &Outcome::default());
        assert_eq!(columns(&clients[0]), None);
    }
}
