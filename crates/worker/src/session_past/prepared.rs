//! Executions that ask for what an earlier statement left, when its connection has served others
//! since. Preparing disturbs nothing of it on either server, so where it is still there the
//! execution goes there; elsewhere it is answered from what the session keeps, or run as a text
//! with the numbers in it.

use std::rc::Rc;

use trunkline_protocol::response::Prepared;
use trunkline_sql::recall::{self, Recalled};

use super::{ask::ASKING_LEN_MAX, warnings::put_remembered_binary};
use crate::{
    clients::client::Client,
    prepared::{Contents, Entries, Entry, EntryKey},
    rooms::{Core, Exchange},
};

impl Exchange {
    /// A statement's text with what is known in it, to be prepared and run once; `None` when it
    /// asks for none of that.
    pub(crate) fn recalled_entry(
        &mut self,
        client: &mut Client,
        entry: &Entry,
        recalled: &Recalled,
    ) -> Option<Rc<Entry>> {
        let session = &*client.session;
        if entry.text.len() > ASKING_LEN_MAX {
            return None;
        }
        let modes = entry.modes;
        let counted = recall::show_diagnostics(&entry.text, &modes).filter(|show| show.counts);
        let text = match counted {
            Some(show) => {
                let (name, count) = match show.errors_only {
                    true => ("error_count", recalled.error_count),
                    false => ("warning_count", recalled.warning_count),
                };
                let count = recall::unsigned(count?);
                let text = format!("SELECT {count} AS `@@session.{name}`");
                text.into_bytes()
            }
            None => recall::recall(&entry.text, &modes, recalled)?,
        };
        let known = self.statements.analyses.know(&text, &modes);
        let key = EntryKey {
            account: session.login.account,
            reading: std::sync::Arc::clone(&entry.reading),
            contents: Contents::ALL,
            text: text.into(),
        };
        let columns = u16::from(entry.has_rows);
        let prepared = Prepared { stmt_id: 0, params: entry.params, columns, takes_vector: false };
        Some(Entries::own(&key, (known, modes), prepared))
    }
}

impl Core {
    /// Answers a prepared `SHOW WARNINGS` or `SHOW ERRORS`; false for anything else.
    pub(crate) fn shows_past(&mut self, client: &mut Client, entry: &Entry) -> bool {
        let session = &*client.session;
        if entry.text.len() > ASKING_LEN_MAX {
            return false;
        }
        let show = recall::show_diagnostics(&entry.text, &entry.modes);
        let Some(show) = show.filter(|show| !show.counts && session.past.has_conditions()) else {
            return false;
        };
        let (format, status) = (session.login.format, session.settings.status);
        let mut reply = Vec::new();
        match &session.past.conditions.fetched {
            Some(fetched) => fetched.put_binary(&mut reply, show, format, status),
            None => {
                let past =
                    (session.past.conditions.warnings, session.past.conditions.error.as_deref());
                put_remembered_binary(&mut reply, past, show, format, status);
            }
        }
        self.fx.stats.counters.statements_answered += 1;
        self.write_client(client, |out| out.extend_from_slice(&reply));
        client.has_shown();
        true
    }
}
