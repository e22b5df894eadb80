//! What a statement that a server has run means for the session: from its analysis, and from
//! what the server itself reported.

use trunkline_protocol::{
    packet::track::{Change, Changes},
    response::Outcome,
};
use trunkline_sql::{
    analysis::{Analysis, Effect},
    set::{Assignment, Scope, TransactionScope, Value},
};

use super::{Charset, PinReason, Pins, Schema, SessionState, state::CHARSET_VARIABLES};

/// What changed beside the pins.
#[derive(Debug, Default)]
pub struct Applied {
    /// The session's new state; `None` when it is as before.
    pub state: Option<SessionState>,
}

/// Takes over what a statement left behind. `pins` are those of the connection that ran it.
///
/// The text says what was meant, the server's session trackers say what came of it. Where
/// neither gives a value that can be said again on another connection, a pin holds the session.
pub fn apply_outcome(
    state: &SessionState,
    pins: &mut Pins,
    analysis: Option<&Analysis>,
    outcome: &Outcome,
) -> Applied {
    let effects = analysis.map_or(&[][..], |analysis| &analysis.effects);
    if effects.is_empty() && outcome.changes.is_empty() {
        return Applied::default();
    }
    if outcome.error.is_some() {
        // One statement that failed left nothing behind. Of several, some may have run.
        if analysis.is_some_and(|analysis| analysis.statements > 1) && !effects.is_empty() {
            pins.pin(PinReason::Other);
        }
        if outcome.changes.is_empty() {
            return Applied::default();
        }
    }
    let mut step = Step { state: state.clone(), pins, said: Vec::new(), unknown: Vec::new() };
    if outcome.error.is_none() {
        for effect in effects {
            step.effect(effect);
        }
    }
    // What a prepared text, a procedure or an unknown function does is not in the text.
    let is_opaque = |effect: &Effect| matches!(effect, Effect::Call | Effect::ExecuteStatement(_));
    let explained = effects.iter().any(|effect| !is_opaque(effect));
    step.reported(&outcome.changes, explained);
    for name in std::mem::take(&mut step.unknown) {
        if !step.said.contains(&name) {
            step.pins.pin(PinReason::UnknownVariable);
        }
    }
    let changed = step.state != *state;
    Applied { state: changed.then_some(step.state) }
}

/// One statement's effects, taken over one by one.
struct Step<'a> {
    state: SessionState,
    pins: &'a mut Pins,
    /// Variables whose value is known from the text or from the server.
    said: Vec<String>,
    /// Variables that were set to something that only the server can evaluate.
    unknown: Vec<String>,
}

/// Reported or settable, but not session state: they belong to one statement or to the server.
const NOT_STATE: [&str; 16] = [
    // MySQL reports it after every statement; it can't be set.
    "statement_id",
    "last_insert_id",
    "identity",
    "insert_id",
    "pseudo_thread_id",
    "gtid_seq_no",
    "gtid_next",
    "gtid_owned",
    "last_gtid",
    "in_transaction",
    "external_user",
    "proxy_user",
    "rand_seed1",
    "rand_seed2",
    "error_count",
    "warning_count",
];

/// A value changes only the flags that it names, so the text does not say what came of it.
const FLAG_LISTS: [&str; 3] = ["optimizer_switch", "optimizer_trace", "optimizer_trace_features"];

/// The proxy's own: it needs them on every connection.
fn is_tracker(name: &str) -> bool {
    name.starts_with("session_track_") && name != "session_track_gtids"
}

impl Step<'_> {
    fn effect(&mut self, effect: &Effect) {
        let pins = &mut *self.pins;
        match effect {
            Effect::CreateTemporaryTable(name) => {
                pins.pin_name(PinReason::TemporaryTable, &name.table);
            }
            Effect::DropTable { names, .. } => {
                for name in names {
                    pins.unpin_name(PinReason::TemporaryTable, &name.table);
                }
            }
            Effect::LockTables | Effect::FlushWithReadLock => pins.pin(PinReason::TableLock),
            Effect::UnlockTables => pins.unpin(PinReason::TableLock),
            // One released lock may not be the only one: all of them, or a reset, end the pin.
            Effect::GetLock => pins.pin(PinReason::NamedLock),
            Effect::ReleaseLock => {}
            Effect::ReleaseAllLocks => pins.unpin(PinReason::NamedLock),
            Effect::UserVariableAssigned => pins.pin(PinReason::UserVariable),
            Effect::LastInsertIdAssigned => {}
            Effect::PrepareStatement(name) => {
                pins.unpin_name(PinReason::SqlPreparedStatement, name);
                pins.pin_name(PinReason::SqlPreparedStatement, name);
            }
            Effect::DeallocateStatement(name) => {
                pins.unpin_name(PinReason::SqlPreparedStatement, name);
            }
            Effect::HandlerOpen(name) => pins.pin_name(PinReason::Handler, name),
            Effect::HandlerClose(name) => pins.unpin_name(PinReason::Handler, name),
            Effect::CalcFoundRows => pins.pin(PinReason::FoundRows),
            Effect::UseSchema(name) => self.state.schema = Schema::from(&**name),
            Effect::Set(assignments) => {
                for assignment in assignments {
                    self.assignment(assignment);
                }
            }
            Effect::SetTransaction(setting) => self.transaction_setting(setting.scope, setting),
            Effect::SetRole => pins.pin(PinReason::Other),
            Effect::SetUnparsable => pins.pin(PinReason::UnknownVariable),
            Effect::Xa(_) => pins.pin(PinReason::Other),
            Effect::OtherSession(_) => pins.pin(PinReason::Other),
            Effect::Transaction(_)
            | Effect::ExecuteStatement(_)
            | Effect::SetPassword
            | Effect::Savepoint
            | Effect::Call
            | Effect::LoadData { .. }
            | Effect::Kill { .. } => {}
        }
    }

    fn assignment(&mut self, assignment: &Assignment) {
        match assignment {
            Assignment::Variable { scope, name, value } => self.variable(*scope, name, value),
            Assignment::Names { charset, collation } => {
                let text = names_text(charset.as_deref(), collation.as_deref());
                self.charset(Charset::Names(text.into()));
            }
            Assignment::CharacterSet { charset } => {
                let text = names_text(charset.as_deref(), None);
                self.charset(Charset::CharacterSet(text.into()));
            }
            Assignment::Transaction(setting) => self.transaction_setting(setting.scope, setting),
            Assignment::Role | Assignment::ResourceGroup => self.pins.pin(PinReason::Other),
            Assignment::Password | Assignment::DefaultRole => {}
        }
    }

    fn charset(&mut self, charset: Charset) {
        self.state.set_charset(charset);
        self.said.extend(CHARSET_VARIABLES.map(str::to_owned));
    }

    fn variable(&mut self, scope: Scope, name: &[u8], value: &Value) {
        match scope {
            Scope::UserVariable => return self.pins.pin(PinReason::UserVariable),
            Scope::NextTransaction => return self.pins.pin(PinReason::NextTransaction),
            Scope::Global | Scope::Persist | Scope::PersistOnly => return,
            Scope::LocalDefault | Scope::Session => {}
        }
        let Ok(name) = std::str::from_utf8(name) else {
            return self.pins.pin(PinReason::UnknownVariable);
        };
        if NOT_STATE.contains(&name) {
            // Meant for the statement that follows, on this connection.
            return self.pins.pin(PinReason::Other);
        }
        if is_tracker(name) {
            return self.pins.pin(PinReason::Other);
        }
        match value {
            Value::Literal(_) if FLAG_LISTS.contains(&name) => self.unknown.push(name.to_owned()),
            Value::Literal(text) => {
                self.state.set_variable(name, text);
                self.said.push(name.to_owned());
            }
            // What the login chose is not the default: only the server knows that.
            Value::Default if CHARSET_VARIABLES.contains(&name) => {
                self.unknown.push(name.to_owned());
            }
            Value::Default => {
                self.state.unset_variable(name);
                self.said.push(name.to_owned());
            }
            Value::Expression(_) => self.unknown.push(name.to_owned()),
        }
    }

    fn transaction_setting(
        &mut self,
        scope: TransactionScope,
        setting: &trunkline_sql::set::TransactionSetting,
    ) {
        match scope {
            TransactionScope::Global => {}
            TransactionScope::Next => self.pins.pin(PinReason::NextTransaction),
            TransactionScope::Session => {
                if let Some(isolation) = setting.isolation {
                    let value = format!("'{}'", isolation.name());
                    self.state.set_variable("transaction_isolation", value.as_bytes());
                    self.said.push("transaction_isolation".to_owned());
                }
                if let Some(read_only) = setting.read_only {
                    let value: &[u8] = if read_only { b"1" } else { b"0" };
                    self.state.set_variable("transaction_read_only", value);
                    self.said.push("transaction_read_only".to_owned());
                }
            }
        }
    }

    /// What the server itself says. `explained` tells whether the text said anything at all.
    fn reported(&mut self, changes: &[u8], explained: bool) {
        let mut says_state = false;
        let mut says_more = false;
        for change in Changes::new(changes) {
            match change {
                Ok(Change::SystemVariable { name, value }) => {
                    says_more = true;
                    self.reported_variable(name, value);
                }
                Ok(Change::Schema(name)) => {
                    says_more = true;
                    self.state.schema = Schema::from(name);
                }
                Ok(Change::State(changed)) => says_state |= changed,
                Ok(
                    Change::Gtids(_)
                    | Change::TransactionCharacteristics(_)
                    | Change::TransactionState(_),
                ) => {}
                Err(_) => says_state = true,
            }
        }
        if says_state && !says_more && !explained {
            self.pins.pin(PinReason::ServerState);
        }
    }

    fn reported_variable(&mut self, name: &[u8], value: &[u8]) {
        let Ok(name) = std::str::from_utf8(name) else {
            return;
        };
        let name = match name {
            "tx_isolation" => "transaction_isolation",
            "tx_read_only" => "transaction_read_only",
            name => name,
        };
        if NOT_STATE.contains(&name) || is_tracker(name) || self.said.iter().any(|n| n == name) {
            return;
        }
        let text = value_text(name, value);
        if self.state.variable(name).is_none() && is_initial(&self.state, name, value) {
            return;
        }
        self.state.set_variable(name, &text);
        self.said.push(name.to_owned());
    }
}

/// Whether a reported value is what the session has without having set it.
fn is_initial(state: &SessionState, name: &str, value: &[u8]) -> bool {
    name == "autocommit" && value.eq_ignore_ascii_case(b"on") && state.variable(name).is_none()
}

fn names_text(charset: Option<&[u8]>, collation: Option<&[u8]>) -> Vec<u8> {
    let mut text = charset.unwrap_or(b"DEFAULT").to_vec();
    if let Some(collation) = collation {
        text.extend_from_slice(b" COLLATE ");
        text.extend_from_slice(collation);
    }
    text
}

/// A reported value as it stands behind the `=` of a `SET`.
fn value_text(name: &str, value: &[u8]) -> Vec<u8> {
    let is_number = !value.is_empty()
        && value.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'))
        && value.iter().any(u8::is_ascii_digit)
        && !value.contains(&b':');
    if is_number {
        return value.to_vec();
    }
    if value.is_empty() && name.starts_with("character_set_") {
        return b"NULL".to_vec();
    }
    let mut text = Vec::with_capacity(value.len() + 2);
    text.push(b'\'');
    for byte in value {
        if matches!(byte, b'\'' | b'\\') {
            text.push(*byte);
        }
        text.push(*byte);
    }
    text.push(b'\'');
    text
}

#[cfg(test)]
mod tests {
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::*;

    /// Session state as a server's OK packet says it: these variables have these values.
    fn reported(variables: &[(&str, &str)]) -> Vec<u8> {
        let mut pairs = Vec::new();
        for text in variables.iter().flat_map(|(name, value)| [name, value]) {
            pairs.push(u8::try_from(text.len()).expect("short"));
            pairs.extend_from_slice(text.as_bytes());
        }
        let mut raw = vec![0, u8::try_from(pairs.len()).expect("short")];
        raw.append(&mut pairs);
        raw
    }

    fn apply(statement: &str, variables: &[(&str, &str)]) -> (SessionState, Pins) {
        let before = SessionState::new(Schema::None, Charset::Collation(45));
        let mut pins = Pins::default();
        let analysis = analyse(statement.as_bytes(), &Modes::default());
        let outcome = Outcome { changes: reported(variables), ..Outcome::default() };
        let applied = apply_outcome(&before, &mut pins, Some(&analysis), &outcome);
        (applied.state.unwrap_or(before), pins)
    }

    #[test]
    fn a_default_character_set_is_the_servers_and_not_the_logins() {
        let statement = "SET SESSION character_set_client = DEFAULT";
        let (state, pins) = apply(statement, &[("character_set_client", "latin1")]);
        assert_eq!(state.variable("character_set_client"), Some(&b"'latin1'"[..]));
        assert!(pins.is_empty());
        let (_, pins) = apply(statement, &[]);
        assert!(pins.has(PinReason::UnknownVariable));
    }

    #[test]
    fn what_servers_report_of_themselves_is_not_the_sessions_state() {
        for name in ["last_gtid", "statement_id", "last_insert_id", "in_transaction"] {
            let (state, pins) = apply("INSERT INTO t VALUES (1)", &[(name, "7")]);
            assert_eq!(state.variables(), &[], "{name}");
            assert!(pins.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_list_of_flags_is_what_the_server_made_of_it() {
        let whole = "index_merge=off,mrr=off";
        let set = "SET optimizer_switch = 'mrr=off'";
        let (state, pins) = apply(set, &[("optimizer_switch", whole)]);
        assert_eq!(state.variable("optimizer_switch"), Some(&b"'index_merge=off,mrr=off'"[..]));
        assert!(pins.is_empty());
        // Without the server's word the session stays where the value is.
        let (state, pins) = apply(set, &[]);
        assert_eq!(state.variables(), &[]);
        assert!(pins.has(PinReason::UnknownVariable));
    }

    #[test]
    fn a_literal_stays_as_it_was_written() {
        let (state, pins) = apply("SET time_zone = '+01:00'", &[("time_zone", "+01:00")]);
        assert_eq!(state.variable("time_zone"), Some(&b"'+01:00'"[..]));
        assert!(pins.is_empty());
    }
}
