//! What a statement that a server has run means for the session: from its analysis, and from
//! what the server itself reported.

mod failed;
mod lasting;
mod temporary;

use trunkline_protocol::{
    packet::{
        status,
        track::{Change, Changes},
    },
    response::Outcome,
};
use trunkline_sql::{
    analysis::{Analysis, Depends, Effect, StatementKind, TransactionEffect, XaStep},
    set::{Assignment, Scope, TransactionScope, Value},
    token::Encoding,
};

use super::{
    Charset, PinReason, Pins, Schema, SessionState,
    state::{CHARSET_VARIABLES, CONNECTION_CHARSET_VARIABLES, NAMING_VARIABLES},
    sync::DEFAULT_DIFFERS,
};

/// What changed beside the pins.
#[derive(Debug, Default)]
pub struct Applied {
    /// The session's new state; `None` when it is as before.
    pub state: Option<SessionState>,
    /// `Some` when the session has set the server's trackers, so that they have to be switched on
    /// again, with the variables whose values were not reported for that.
    pub trackers_set: Option<Vec<String>>,
    /// Variables whose values are to be asked for ([`report_text`](super::report_text)), as servers
    /// do not report them by themselves. A pin with each one's name holds until the answer.
    pub asks: Vec<String>,
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
    trust: Trust,
) -> Applied {
    let applied = apply_effects(state, pins, analysis, outcome, trust);
    temporary::follow(pins, analysis);
    lasting::follow(pins, analysis, outcome.error.is_some());
    // The value is taken, whatever came of the rest of the statement.
    if analysis.is_some_and(|analysis| analysis.effects.contains(&Effect::SequenceAdvanced)) {
        pins.pin(PinReason::Sequence);
    }
    applied
}

fn apply_effects(
    state: &SessionState,
    pins: &mut Pins,
    analysis: Option<&Analysis>,
    outcome: &Outcome,
    trust: Trust,
) -> Applied {
    let effects = analysis.map_or(&[][..], |analysis| &analysis.effects);
    let is_opaque = analysis
        .is_some_and(|analysis| runs_unseen_code(analysis) || ran_before_error(analysis, outcome));
    if effects.is_empty() && outcome.changes.is_empty() && !is_opaque {
        return Applied::default();
    }
    if is_opaque && (trust == Trust::Nothing || outcome.error.is_some()) {
        pins.pin(PinReason::Routine);
    }
    let is_one = analysis.is_none_or(|analysis| analysis.statements == 1);
    let has_begun = outcome
        .error
        .as_ref()
        .is_some_and(|error| is_opaque || !is_one || failed::may_have_begun(error.code, analysis));
    if outcome.error.is_some() {
        if sets_trackers(effects) {
            pins.pin(PinReason::Other);
        }
        if outcome.changes.is_empty() && !has_begun {
            return Applied::default();
        }
    }
    let mut step = Step {
        state: state.clone(),
        pins,
        said: Vec::new(),
        told: Vec::new(),
        unknown: Vec::new(),
        passing: analysis.map_or(&[][..], |analysis| &analysis.set_for_statement),
        is_plain: outcome.warnings == 0
            && analysis.is_some_and(|analysis| analysis.statements == 1),
        may_be_adjusted: outcome.warnings > 0 || !is_one,
        has_computed: analysis.is_some_and(|analysis| has_computed(state, analysis, outcome)),
        trackers_set: None,
        asks: Vec::new(),
    };
    match (outcome.error.is_some(), has_begun) {
        (false, _) => {
            if let Some(analysis) = analysis.filter(|analysis| analysis.statements == 1) {
                step.transaction(analysis.transaction);
            }
            for effect in effects {
                step.effect(effect);
            }
        }
        (true, true) => effects.iter().for_each(|effect| step.failed_effect(effect, is_one)),
        (true, false) => {}
    }
    // What a prepared text, a procedure or an unknown function does is not in the text.
    let is_unseen = |effect: &Effect| matches!(effect, Effect::Call | Effect::ExecuteStatement(_));
    let explained = effects.iter().any(|effect| !is_unseen(effect));
    step.reported(&outcome.changes, explained, is_opaque);
    step.part_from_strings(state);
    // What else ran under the client's trackers may have left what nobody reported, and warnings
    // would not be there any more behind a statement of the proxy's own.
    let is_alone = !is_opaque && is_one && outcome.warnings == 0;
    step.end(is_alone);
    let changed = step.state != *state;
    let Step { state, trackers_set, asks, .. } = step;
    Applied { state: changed.then_some(state), trackers_set, asks }
}

/// Whether the text sets one of the trackers that the proxy itself needs.
pub fn sets_trackers(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| match effect {
        Effect::Set(assignments) => assignments.iter().any(|assignment| {
            matches!(assignment, Assignment::Variable { scope, name, .. }
                if matches!(scope, Scope::LocalDefault | Scope::Session)
                    && std::str::from_utf8(name).is_ok_and(is_tracker))
        }),
        _ => false,
    })
}

/// Takes over what a server reports of variables that it was asked for
/// ([`report_text`](super::report_text)). `pins` are those of its connection.
pub fn apply_report(
    state: &SessionState,
    pins: &mut Pins,
    outcome: &Outcome,
) -> Option<SessionState> {
    let mut step = Step {
        state: state.clone(),
        pins,
        said: Vec::new(),
        told: Vec::new(),
        unknown: Vec::new(),
        passing: &[],
        is_plain: false,
        may_be_adjusted: false,
        has_computed: false,
        trackers_set: None,
        asks: Vec::new(),
    };
    for change in Changes::new(&outcome.changes) {
        let Ok(Change::SystemVariable { name, value }) = change else { continue };
        if step.reported_variable(name, value) {
            step.pins.unpin_name(PinReason::UnknownVariable, own_name(name));
        }
    }
    (step.state != *state).then_some(step.state)
}

/// Whether a reply reports a change that no reset of the connection takes back.
pub fn reports_lasting(outcome: &Outcome) -> bool {
    Changes::new(&outcome.changes).any(|change| {
        matches!(change, Ok(Change::SystemVariable { name, .. })
            if std::str::from_utf8(name).is_ok_and(lasting::is_lasting))
    })
}

/// Whether a reply says that the session's state changed.
pub fn reports_change(outcome: &Outcome) -> bool {
    let is_change = |change| matches!(change, Ok(Change::State(true)) | Err(_));
    // MariaDB says so even in an EOF packet, which has no place for what changed.
    let is_unsaid = outcome.changes.is_empty()
        && outcome.status.is_some_and(|flags| flags & status::SESSION_STATE_CHANGED != 0);
    is_unsaid || Changes::new(&outcome.changes).any(is_change)
}

/// The schema, in UTF-8, that a server says is the session's now, by what it reported.
pub fn reported_schema(changes: &[u8]) -> Option<&[u8]> {
    let schemas = Changes::new(changes).filter_map(|change| match change {
        Ok(Change::Schema(name)) => Some(name),
        _ => None,
    });
    schemas.last()
}

/// How much of what stored routines leave behind is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Nothing: a routine pins. Servers do not report user variables that `SELECT … INTO` or `:=`
    /// has set, nor named locks; and what a function in a query changed, they report to clients
    /// with `CLIENT_DEPRECATE_EOF` only.
    Nothing,
    /// What the server reports is all that there is, unless it reports an error.
    Reports,
}

/// Whether the text runs a stored routine, or may.
pub fn runs_unseen_code(analysis: &Analysis) -> bool {
    let is_call = |effect: &Effect| matches!(effect, Effect::Call);
    analysis.depends.contains(Depends::UNKNOWN_FUNCTION) || analysis.effects.iter().any(is_call)
}

/// Whether something of a text that seems to be one statement was over when its error came. Then
/// the server has read the text as several statements, and what they were is not known.
pub fn ran_before_error(analysis: &Analysis, outcome: &Outcome) -> bool {
    analysis.statements == 1 && outcome.error.is_some() && outcome.status.is_some()
}

/// Whether a statement without tables has certainly computed its items: a `SELECT` has if its row
/// came, which `sql_select_limit = 0` keeps it from. A `DO` tells nothing, and is a `SELECT` to
/// MySQL.
fn has_computed(state: &SessionState, analysis: &Analysis, outcome: &Outcome) -> bool {
    let has_run = match analysis.kind {
        StatementKind::Select => outcome.rows == 1,
        _ => outcome.rows == 0 && state.variable("sql_select_limit").is_none(),
    };
    analysis.statements == 1 && has_run
}

/// Whether a lock has this name, as it is written: a literal comes into the character set of the
/// connection, which may not be the text's, and not have all that ASCII has. In some that is the
/// schema's, or one of two bytes for each, in which every name is another one.
fn is_as_written(state: &SessionState, name: &[u8]) -> bool {
    let is_said = CONNECTION_CHARSET_VARIABLES.iter().any(|name| state.variable(name).is_some());
    !(state.may_be_wide() || is_said && Encoding::Unknown.may_rename(name))
}

/// One statement's effects, taken over one by one.
struct Step<'a> {
    state: SessionState,
    pins: &'a mut Pins,
    /// Variables whose value is known from the text or from the server.
    said: Vec<String>,
    /// Variables that the server has reported; of several reports the last one counts.
    told: Vec<String>,
    /// Variables that were set to something that only the server can evaluate.
    unknown: Vec<String>,
    /// Variables whose values end with the statement.
    passing: &'a [Vec<u8>],
    /// It brought warnings, or may have, of several statements: values that it says may not be
    /// those that the server has taken.
    may_be_adjusted: bool,
    /// It is one statement, and brought no warnings.
    is_plain: bool,
    /// It is one statement, and all its items were computed.
    has_computed: bool,
    /// As in [`Applied`].
    trackers_set: Option<Vec<String>>,
    /// As in [`Applied`].
    asks: Vec<String>,
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

/// MariaDB's moment of tables with versions: it is read and told in the session's time zone, that
/// from before the same `SET`, but stays where it is when another time zone is set.
const MOMENT: &str = "system_versioning_asof";

/// `SET CHARACTER SET` makes it that of the schema, which no server reports by itself.
const COLLATION: &str = "collation_connection";

/// Its value changes only the flags that it names, so the text does not say what came of it.
const FLAG_LIST: &str = "optimizer_switch";

/// The longest value of a variable that is carried to other connections, in bytes.
const VALUE_LEN_MAX: usize = 4_096;

/// The proxy's own: it needs them on every connection.
fn is_tracker(name: &str) -> bool {
    name.starts_with("session_track_")
        && !matches!(name, "session_track_gtids" | "session_track_transaction_info")
}

/// Whether setting a variable to the value that it has changes nothing. The time would stand still.
fn can_be_asked(name: &str) -> bool {
    name != "timestamp" && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The name under which the record has a variable that a server calls so. Of two names for one
/// variable it is the one that all versions know which have either. MariaDB 10.11 and MySQL 9.7
/// were asked what their session variables change besides themselves; limits.md has what is open.
fn own_name(name: &[u8]) -> &[u8] {
    match name {
        b"tx_isolation" => b"transaction_isolation",
        b"tx_read_only" => b"transaction_read_only",
        b"storage_engine" => b"default_storage_engine",
        b"tmp_memory_table_size" => b"tmp_table_size",
        b"log_slow_query" => b"slow_query_log",
        b"log_slow_query_time" => b"long_query_time",
        b"log_slow_min_examined_row_limit" => b"min_examined_row_limit",
        b"pseudo_replica_mode" => b"pseudo_slave_mode",
        name => name,
    }
}

/// Character sets and their collations, which servers set along with each other, and two names of
/// one variable, of which versions have one, the other or both.
const PAIRS: [(&str, &str); 4] = [
    ("alter_algorithm", "old_alter_table"),
    ("character_set_connection", "collation_connection"),
    ("character_set_server", "collation_server"),
    ("character_set_database", "collation_database"),
];

/// MariaDB's variables of which one sets a part of another, without a report. What both have
/// come to can't be said again by setting one behind the other.
const OVERLAPS: [&[&str]; 4] = [
    &["wsrep_sync_wait", "wsrep_causal_reads"],
    &["old_mode", "old"],
    &["log_slow_filter", "log_queries_not_using_indexes"],
    &["log_slow_disabled_statements", "log_slow_admin_statements", "log_slow_slave_statements"],
];

impl Step<'_> {
    // long: one row for each effect.
    fn effect(&mut self, effect: &Effect) {
        let pins = &mut *self.pins;
        match effect {
            Effect::CreateTemporaryTable(name) => temporary::made(pins, &self.state.schema, name),
            Effect::DropTable { names, .. } if self.is_plain => {
                temporary::dropped(pins, &self.state.schema, names);
            }
            Effect::LockTables => pins.pin_name_once(PinReason::TableLock, b"tables"),
            Effect::FlushWithReadLock => pins.pin(PinReason::TableLock),
            Effect::UnlockTables => pins.unpin(PinReason::TableLock),
            // Locks are counted: one that was taken twice is held until it is released twice.
            Effect::GetLock(Some(name)) if is_as_written(&self.state, name) => {
                pins.pin_name(PinReason::NamedLock, name);
            }
            Effect::GetLock(_) => pins.pin(PinReason::NamedLock),
            Effect::ReleaseLock(Some(name))
                if self.has_computed && is_as_written(&self.state, name) =>
            {
                pins.unpin_name(PinReason::NamedLock, name);
            }
            Effect::ReleaseAllLocks if self.has_computed => pins.unpin(PinReason::NamedLock),
            // Which lock it was, if any, is not known.
            Effect::ReleaseLock(_) | Effect::ReleaseAllLocks => {}
            Effect::UserVariableAssigned(name) => self.user_variable_unknown(name.as_deref()),
            Effect::LastInsertIdAssigned => {}
            Effect::PrepareStatement { name, is_opaque } => {
                pins.pin_name_once(PinReason::SqlPreparedStatement, name);
                if *is_opaque {
                    pins.pin(PinReason::Routine);
                }
            }
            Effect::DeallocateStatement(name) => {
                pins.unpin_name(PinReason::SqlPreparedStatement, name);
            }
            Effect::HandlerOpen(name) => pins.pin_name(PinReason::Handler, name),
            Effect::HandlerClose(name) => pins.unpin_name(PinReason::Handler, name),
            Effect::CalcFoundRows => pins.pin(PinReason::FoundRows),
            Effect::UseSchema(name) => self.state.choose_schema(Schema::from(&**name)),
            // That of the current schema ends what the session has said of its character set.
            Effect::SchemaDefined if self.state.says_of_schema() => {
                pins.pin(PinReason::UnknownVariable);
            }
            Effect::SchemaDefined => {}
            Effect::Set(assignments) => {
                for assignment in assignments {
                    self.assignment(assignment);
                }
            }
            Effect::SetTransaction(setting) => self.transaction_setting(setting.scope, setting),
            Effect::SetRole => pins.pin(PinReason::Role),
            Effect::SetResourceGroup => pins.pin(PinReason::Connection),
            Effect::BackupLock(lock) => {
                pins.pin_name_once(PinReason::BackupLock, lock.name().as_bytes());
            }
            Effect::BackupUnlock(lock) => {
                pins.unpin_name(PinReason::BackupLock, lock.name().as_bytes());
            }
            Effect::SetUnparsable => pins.pin(PinReason::UnknownVariable),
            // One that a deadlock has rolled back is there still, though the status says that none
            // is open. MySQL lets go of one that is prepared: then the status says so.
            Effect::Xa(XaStep::Start | XaStep::Prepare) => pins.pin(PinReason::Xa),
            Effect::Xa(XaStep::Commit | XaStep::Rollback) => pins.unpin(PinReason::Xa),
            Effect::Xa(XaStep::Other) => pins.pin(PinReason::Other),
            Effect::OtherSession(_) => pins.pin(PinReason::Other),
            Effect::Transaction(effect) => self.transaction(*effect),
            Effect::Xa(XaStep::End | XaStep::Recover)
            | Effect::DropTable { .. }
            | Effect::ExecuteStatement(_)
            | Effect::AccountsDefined
            | Effect::SetPassword
            | Effect::Savepoint
            | Effect::SequenceAdvanced
            | Effect::Call
            | Effect::LoadData { .. }
            | Effect::Kill { .. } => {}
        }
    }

    /// `BEGIN` gives back what `LOCK TABLES` locked, but not a `FLUSH … WITH READ LOCK`.
    fn transaction(&mut self, effect: TransactionEffect) {
        if let TransactionEffect::Begin { .. } = effect {
            self.pins.unpin_name(PinReason::TableLock, b"tables");
        }
    }

    /// A user variable has a value that the text does not tell: where it has no name, any may.
    fn user_variable_unknown(&mut self, name: Option<&[u8]>) {
        match name {
            Some(name) => {
                self.state.forget_user_variable(name);
                self.pins.pin_name_once(PinReason::UserVariable, name);
            }
            None => {
                for name in self.state.take_user_variables() {
                    self.pins.pin_name_once(PinReason::UserVariable, &name);
                }
                self.pins.pin(PinReason::UserVariable);
            }
        }
    }

    fn user_variable(&mut self, name: &[u8], value: &Value) {
        match value {
            Value::Literal(text) if self.state.set_user_variable(name, text) => {
                self.pins.unpin_name(PinReason::UserVariable, name);
            }
            Value::Literal(_) | Value::Default | Value::Expression(_) => {
                self.user_variable_unknown(Some(name));
            }
        }
    }

    /// Strings keep the character set under which they were set. When that changes, their texts
    /// can't be said again, and the values stay where they are.
    fn part_from_strings(&mut self, before: &SessionState) {
        if self.state.user_variables().is_empty() || self.state.reads_strings_as(before) {
            return;
        }
        for name in self.state.take_user_strings() {
            self.pins.pin_name_once(PinReason::UserVariable, &name);
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
            Assignment::Role => self.pins.pin(PinReason::Role),
            Assignment::ResourceGroup => self.pins.pin(PinReason::Connection),
            Assignment::Password | Assignment::DefaultRole => {}
        }
    }

    fn charset(&mut self, charset: Charset) {
        // Elsewhere the same text would be read by other settings, and mean another one.
        let is_set = |name: &&str| {
            self.state.variable(name).is_some() || self.unknown.iter().any(|other| other == name)
        };
        if NAMING_VARIABLES.iter().any(is_set) {
            self.pins.pin(PinReason::UnknownVariable);
        }
        let takes_schemas = matches!(charset, Charset::CharacterSet(_));
        self.state.set_charset(charset);
        self.said.extend(CHARSET_VARIABLES.map(str::to_owned));
        if takes_schemas {
            // Elsewhere it would be that of another schema, or of whoever has set it.
            self.unsaid(COLLATION);
        }
    }

    fn variable(&mut self, scope: Scope, name: &[u8], value: &Value) {
        match scope {
            Scope::UserVariable => return self.user_variable(name, value),
            Scope::NextTransaction => return self.pins.pin(PinReason::NextTransaction),
            Scope::Global | Scope::Persist | Scope::PersistOnly => return,
            Scope::LocalDefault | Scope::Session => {}
        }
        let Ok(name) = std::str::from_utf8(own_name(name)) else {
            return self.pins.pin(PinReason::UnknownVariable);
        };
        if lasting::is_lasting(name) {
            return self.pins.pin(PinReason::Connection);
        }
        if matches!(name, "last_insert_id" | "identity") {
            // Like the id that an `INSERT` leaves: the worker carries it along.
            return;
        }
        if NOT_STATE.contains(&name) {
            // Meant for the statement that follows, on this connection.
            return self.pins.pin(PinReason::Other);
        }
        if is_tracker(name) {
            self.trackers_set.get_or_insert_default();
            return;
        }
        if name == MOMENT {
            return self.moment(*value == Value::Default);
        }
        self.void_pair(name);
        self.hold_overlap(name);
        match value {
            Value::Literal(_) if name == FLAG_LIST => self.unsaid(name),
            Value::Literal(text) if text.len() > VALUE_LEN_MAX => self.unsaid(name),
            // One of these changes another, which the same text may have set before.
            Value::Literal(text) if CHARSET_VARIABLES.contains(&name) => {
                self.state.set_variable(name, text);
            }
            // What a short name means depends on `old_mode`. And the server may have taken another
            // value than the text's, and said so with a warning: in another session's `sql_mode`
            // the text would be refused.
            Value::Literal(_) if is_charset(name) || self.may_be_adjusted => self.unsaid(name),
            Value::Literal(text) => {
                self.state.set_variable(name, text);
                self.said.push(name.to_owned());
                self.set_along(name, text);
            }
            // The server's default is neither the handshake's nor that of `SET NAMES`; that of
            // `autocommit` is what the server tells.
            Value::Default
                if DEFAULT_DIFFERS.contains(&name)
                    || CHARSET_VARIABLES.contains(&name)
                    || name == "autocommit" =>
            {
                self.unsaid(name);
            }
            Value::Default => {
                self.state.unset_variable(name);
                self.said.push(name.to_owned());
            }
            Value::Expression(_) => self.unsaid(name),
        }
    }

    /// A moment holds its session until there is none any more.
    fn moment(&mut self, is_none: bool) {
        match is_none {
            true => self.pins.unpin_name(PinReason::UnknownVariable, MOMENT.as_bytes()),
            false => self.pins.pin_name_once(PinReason::UnknownVariable, MOMENT.as_bytes()),
        }
    }

    /// What the session said before of the other variable of a pair is void behind this one.
    fn void_pair(&mut self, name: &str) {
        for (one, other) in PAIRS {
            if name == one {
                self.state.unset_variable(other);
            } else if name == other {
                self.state.unset_variable(one);
            }
        }
    }

    /// A session that has set a part of this variable by another one keeps its connection.
    fn hold_overlap(&mut self, name: &str) {
        let is_set = |other: &&str| *other != name && self.state.variable(other).is_some();
        let mut groups = OVERLAPS.iter().filter(|group| group.contains(&name));
        if groups.any(|group| group.iter().any(is_set)) {
            self.pins.pin(PinReason::UnknownVariable);
        }
    }

    /// A limit on joins is the opposite of `sql_big_selects`, which servers set along and do not
    /// report. Said again, it stands behind the limit.
    fn set_along(&mut self, name: &str, value: &[u8]) {
        if name != "max_join_size" {
            return;
        }
        match value == u64::MAX.to_string().as_bytes() {
            true => self.state.unset_variable("sql_big_selects"),
            false => self.state.set_variable("sql_big_selects", b"0"),
        }
        self.said.push("sql_big_selects".to_owned());
    }

    /// A variable has a value that only the server can tell, whatever the same statement has said
    /// of it before.
    fn unsaid(&mut self, name: &str) {
        self.said.retain(|said| said != name);
        self.unknown.push(name.to_owned());
    }

    /// What is known of no variable holds the session, for good or until the server has said it.
    fn end(&mut self, is_alone: bool) {
        if !is_alone && self.trackers_set.take().is_some() {
            self.pins.pin(PinReason::Other);
        }
        for name in std::mem::take(&mut self.unknown) {
            if self.said.contains(&name) || self.told.contains(&name) {
                continue;
            }
            match self.trackers_set.as_mut().filter(|_| can_be_asked(&name)) {
                Some(unreported) => {
                    self.pins.pin_name_once(PinReason::UnknownVariable, name.as_bytes());
                    unreported.push(name);
                }
                None if name == COLLATION && is_alone => {
                    self.pins.pin_name_once(PinReason::UnknownVariable, name.as_bytes());
                    self.asks.push(name);
                }
                None => self.pins.pin(PinReason::UnknownVariable),
            }
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

    /// What the server itself says. `explained` tells whether the text said anything at all,
    /// `is_opaque` whether it ran code that is not in it.
    fn reported(&mut self, changes: &[u8], explained: bool, is_opaque: bool) {
        let mut says_state = false;
        let mut says_more = false;
        for change in Changes::new(changes) {
            match change {
                Ok(Change::SystemVariable { name, value }) => {
                    says_more |= self.reported_variable(name, value);
                }
                Ok(Change::Schema(name)) => {
                    says_more = true;
                    self.state.choose_schema(Schema::from(name));
                }
                Ok(Change::State(changed)) => says_state |= changed,
                // What is said of the next transaction is said until one takes it over.
                Ok(Change::TransactionCharacteristics(text)) => {
                    if !text.starts_with(b"SET ") {
                        self.pins.unpin(PinReason::NextTransaction);
                    }
                }
                Ok(Change::Gtids(_) | Change::TransactionState(_)) => {}
                Err(_) => says_state = true,
            }
        }
        // A routine may have changed more than what is said.
        let is_all = explained || says_more && !is_opaque;
        if says_state && !is_all {
            self.pins.pin(PinReason::ServerState);
        }
    }

    /// Takes over a variable that the server reported. False for one that is no session state.
    fn reported_variable(&mut self, name: &[u8], value: &[u8]) -> bool {
        let Ok(name) = std::str::from_utf8(own_name(name)) else {
            return false;
        };
        if lasting::is_lasting(name) {
            self.pins.pin(PinReason::Connection);
            return true;
        }
        if NOT_STATE.contains(&name) || is_tracker(name) {
            return false;
        }
        if self.passing.iter().any(|passing| passing == name.as_bytes()) {
            return true;
        }
        if name == MOMENT {
            self.moment(value == b"DEFAULT");
            return true;
        }
        if self.said.iter().any(|said| said == name) {
            return true;
        }
        if value.len() > VALUE_LEN_MAX {
            self.pins.pin(PinReason::UnknownVariable);
        } else if !is_initial(&self.state, name, value) {
            self.hold_overlap(name);
            self.state.set_variable(name, &value_text(name, value));
        }
        self.told.push(name.to_owned());
        true
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

/// Variables that can be `NULL`, which is reported as an empty text, and that no server takes an
/// empty text for.
const NULLABLE: [&str; 5] = [
    "default_tmp_storage_engine",
    "enforce_storage_engine",
    "external_table_storage_engine",
    "innodb_ft_user_stopword_table",
    "innodb_tmpdir",
];

/// Whether a variable's value is a character set or a collation.
fn is_charset(name: &str) -> bool {
    name.starts_with("character_set_") || name.starts_with("collation_")
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
    if value.is_empty() && (name.starts_with("character_set_") || NULLABLE.contains(&name)) {
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
mod tests;
