//! What a session reports of itself with an OK, as MariaDB 10.11 and MySQL 9.7 do.

use trunkline_protocol::{codec::put_lenenc_bytes, packet::greeting::Flavor};

use crate::{
    oracle::facts::Gtid,
    statement::{Schema, Value, Variable},
};

/// Variables whose changes servers report unless told otherwise.
const BY_DEFAULT: [Variable; 5] = [
    Variable::Autocommit,
    Variable::CharsetClient,
    Variable::CharsetConnection,
    Variable::CharsetResults,
    Variable::TimeZone,
];

/// The session trackers and what they have to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trackers {
    all_variables: bool,
    schema_on: bool,
    state_on: bool,
    transaction_on: bool,
    gtids_on: bool,
    /// The commits to be told of: as an entry, or as a variable.
    gtid: Option<String>,
    /// What is said of the next transaction: a `SET`, or nothing once it is used up.
    characteristics: Option<&'static str>,
    variables: Vec<(&'static str, String)>,
    schema: Option<Schema>,
    state_changed: bool,
    /// MySQL numbers the statements of the whole server; of the session here.
    statement_id: u64,
}

impl Default for Trackers {
    fn default() -> Self {
        Self {
            all_variables: false,
            schema_on: true,
            state_on: false,
            transaction_on: false,
            gtids_on: false,
            gtid: None,
            characteristics: None,
            variables: Vec::new(),
            schema: None,
            state_changed: false,
            statement_id: 0,
        }
    }
}

impl Trackers {
    /// A variable was set.
    pub(super) fn variable(&mut self, flavor: Flavor, variable: Variable, value: &Value) {
        self.state_changed = true;
        if !self.all_variables && !BY_DEFAULT.contains(&variable) {
            return;
        }
        let name = variable.name(flavor);
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value.tracked()));
    }

    /// `last_insert_id` was set.
    pub(super) fn last_insert_id(&mut self, id: u64) {
        self.state_changed = true;
        if self.all_variables {
            self.variables.push(("last_insert_id", id.to_string()));
        }
    }

    /// `SET TRANSACTION` was said of the next transaction, or has been used up.
    pub(super) fn next_transaction(&mut self, is_set: bool) {
        self.characteristics = Some(if is_set { "SET TRANSACTION READ ONLY;" } else { "" });
    }

    /// A schema was chosen.
    pub(super) fn schema(&mut self, schema: Schema) {
        self.state_changed = true;
        self.schema = Some(schema);
    }

    /// Something else changed that is state: a user variable, a temporary table, a statement
    /// prepared by SQL.
    pub(super) fn state(&mut self) {
        self.state_changed = true;
    }

    /// A transaction was committed. MariaDB tells it as a variable, to who is told all of them.
    pub(super) fn gtid(&mut self, flavor: Flavor, gtid: Gtid) {
        match flavor {
            Flavor::MySql => self.gtid = self.gtids_on.then(|| gtid.of_mysql()),
            Flavor::MariaDb if self.all_variables => {
                self.variables.push(("last_gtid", gtid.of_mariadb()));
            }
            Flavor::MariaDb => {}
        }
    }

    pub(super) fn tracks_gtids(&self) -> bool {
        self.gtids_on
    }

    /// `SET session_track_…`; false for one that is not known.
    pub(super) fn configure(&mut self, name: &str, value: &str) -> bool {
        let on = matches!(value, "1" | "ON");
        let reported = match name {
            "system_variables" => {
                self.all_variables = value == "*";
                ("session_track_system_variables", value.to_owned())
            }
            "schema" => {
                // It is on by default, so that this changes nothing.
                self.schema_on = on;
                return true;
            }
            "state_change" => {
                self.state_on = on;
                let text = if on { "ON" } else { "OFF" };
                ("session_track_state_change", text.to_owned())
            }
            "transaction_info" => {
                self.transaction_on = value == "CHARACTERISTICS";
                ("session_track_transaction_info", value.to_owned())
            }
            "gtids" => {
                self.gtids_on = value == "OWN_GTID";
                ("session_track_gtids", value.to_owned())
            }
            _ => return false,
        };
        self.state_changed = true;
        if self.all_variables {
            self.variables.push(reported);
        }
        true
    }

    /// Forgets what a statement would have reported that has failed.
    pub(super) fn discard(&mut self) {
        self.variables.clear();
        self.schema = None;
        self.characteristics = None;
        self.state_changed = false;
        self.gtid = None;
    }

    /// The report as bytes, each entry a type and a length-encoded content.
    pub(super) fn take(&mut self, flavor: Flavor, for_query: bool) -> Vec<u8> {
        let mut raw = Vec::new();
        let mut variables = std::mem::take(&mut self.variables);
        if flavor == Flavor::MySql && for_query && self.all_variables {
            self.statement_id += 1;
            variables.push(("statement_id", self.statement_id.to_string()));
        }
        variables.sort();
        for (name, value) in variables {
            let mut pair = Vec::with_capacity(name.len() + value.len() + 2);
            put_lenenc_bytes(&mut pair, name.as_bytes());
            put_lenenc_bytes(&mut pair, value.as_bytes());
            raw.push(0);
            put_lenenc_bytes(&mut raw, &pair);
        }
        if let Some(schema) = self.schema.take().filter(|_| self.schema_on) {
            let mut name = Vec::new();
            put_lenenc_bytes(&mut name, schema.name().as_bytes());
            raw.push(1);
            put_lenenc_bytes(&mut raw, &name);
        }
        if let Some(text) = self.gtid.take() {
            // The encoding, then the set.
            let mut content = vec![0];
            put_lenenc_bytes(&mut content, text.as_bytes());
            raw.push(3);
            put_lenenc_bytes(&mut raw, &content);
        }
        if let Some(text) = self.characteristics.take().filter(|_| self.transaction_on) {
            let mut content = Vec::new();
            put_lenenc_bytes(&mut content, text.as_bytes());
            raw.push(4);
            put_lenenc_bytes(&mut raw, &content);
        }
        if std::mem::take(&mut self.state_changed) && self.state_on {
            raw.extend_from_slice(&[2, 2, 1, b'1']);
        }
        raw
    }
}
