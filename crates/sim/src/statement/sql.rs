//! From statements to texts.

use std::fmt::Write as _;

use trunkline_protocol::packet::greeting::Flavor;

use super::{
    Act, BeginForm, Isolation, Mark, PreparedSql, Scope, SetValue, Setting, Statement, Value,
};

impl Statement {
    /// Appends its text. The tag is a literal where the statement has one for it, else a comment
    /// before or behind it.
    pub fn put_sql(&self, out: &mut String, flavor: Flavor) {
        let tag = self.value();
        if self.put_with_literal(out, tag, flavor) {
            return;
        }
        // Half of the comments stand in front.
        let leads = tag % 2 == 1;
        if leads && tag != 0 {
            put(out, format_args!("/* {tag} */ "));
        }
        self.put_plain(out, flavor);
        if !leads && tag != 0 {
            put(out, format_args!(" /* {tag} */"));
        }
    }

    /// The statements whose text holds the tag.
    fn put_with_literal(&self, out: &mut String, tag: u64, flavor: Flavor) -> bool {
        match &self.act {
            Act::Insert => put(out, format_args!("INSERT INTO log (v) VALUES ({tag})")),
            Act::InsertKey { key } => {
                put(out, format_args!("INSERT INTO kv (k, v) VALUES ({key}, {tag})"));
            }
            Act::InsertIgnore { key } => {
                put(out, format_args!("INSERT IGNORE INTO kv (k, v) VALUES ({key}, {tag})"));
            }
            Act::Put { key } => {
                put(out, format_args!("REPLACE INTO kv (k, v) VALUES ({key}, {tag})"));
            }
            Act::Update { key } => {
                put(out, format_args!("UPDATE kv SET v = {tag} WHERE k = {key}"));
            }
            Act::InsertTemporary(table) => {
                put(out, format_args!("INSERT INTO tmp{table} (v) VALUES ({tag})"));
            }
            Act::InsertMarked(name) => {
                put(out, format_args!("INSERT INTO marked{name} (v) VALUES ({tag})"));
            }
            Act::InsertRefused(name) => {
                put(out, format_args!("INSERT INTO refused{name} (v) VALUES ({tag})"));
            }
            Act::InsertGuarded(lock) => {
                put(out, format_args!("INSERT INTO guarded{lock} (v) VALUES ({tag})"));
            }
            Act::InsertAssigning { key, name } => {
                put(out, format_args!("INSERT INTO kv (k, v) VALUES ({key}, @u{name} := {tag})"));
            }
            Act::Load(upload) => {
                let (name, skipped) = (upload.name(tag), upload.skipped);
                put(
                    out,
                    format_args!(
                        "LOAD DATA LOCAL INFILE '{name}' REPLACE INTO TABLE kv IGNORE {skipped} \
                         LINES (k, v)"
                    ),
                );
            }
            Act::Broken => put(out, format_args!("SELEC {tag}")),
            _ => return self.put_select(out, tag, flavor),
        }
        true
    }

    /// `SELECT tag AS tag, …`.
    fn put_select(&self, out: &mut String, tag: u64, flavor: Flavor) -> bool {
        let from = out.len();
        let (before, after) = match &self.act {
            Act::CalcFoundRows { .. } => ("SELECT SQL_CALC_FOUND_ROWS ", " AS tag, "),
            Act::UnknownTable => ("SELECT ", " AS tag "),
            _ => ("SELECT ", " AS tag, "),
        };
        put(out, format_args!("{before}{tag}{after}"));
        match &self.act {
            Act::Read { key } => put(out, format_args!("v FROM kv WHERE k = {key}")),
            Act::ReadAudited => put(out, format_args!("v FROM audited WHERE n = {tag}")),
            Act::ReadForUpdate { key } => {
                put(out, format_args!("v FROM kv WHERE k = {key} FOR UPDATE"));
            }
            Act::CountLog { of } => {
                put(out, format_args!("COUNT(*) AS v FROM log WHERE v = {}", of.0));
            }
            Act::Numbers { rows, width } => put(
                out,
                format_args!("n, REPEAT('x', {width}) AS pad FROM numbers WHERE n < {rows}"),
            ),
            Act::CalcFoundRows { rows, limit } => {
                put(out, format_args!("n FROM numbers WHERE n < {rows} LIMIT {limit}"));
            }
            Act::FoundRows => out.push_str("FOUND_ROWS() AS v"),
            Act::RowCount => out.push_str("ROW_COUNT() AS v"),
            Act::LastInsertId => out.push_str("LAST_INSERT_ID() AS v"),
            Act::ConnectionId => out.push_str("CONNECTION_ID() AS v"),
            Act::Recalled(number) => put(out, format_args!("CAST({number} AS SIGNED) AS v")),
            Act::Database => out.push_str("DATABASE() AS v"),
            Act::ShowVariable(variable) => {
                put(out, format_args!("@@{} AS v", variable.name(flavor)));
            }
            Act::ShowUser(name) => put(out, format_args!("@u{name} AS v")),
            Act::Length { text } => put(out, format_args!("LENGTH('{text}') AS v")),
            Act::Warn => put(out, format_args!("CAST('x{tag}' AS SIGNED) AS v")),
            Act::Sleep { ms } => {
                put(out, format_args!("SLEEP({}.{:03}) AS v", ms / 1_000, ms % 1_000))
            }
            Act::UnknownTable => out.push_str("FROM missing"),
            Act::ReadTemporary(table) => {
                put(out, format_args!("COUNT(*) AS n, MAX(v) AS v FROM tmp{table}"));
            }
            Act::GetLock { lock, seconds } => {
                put(out, format_args!("GET_LOCK('l{lock}', {seconds}) AS v"));
            }
            Act::ReleaseLock(lock) => put(out, format_args!("RELEASE_LOCK('l{lock}') AS v")),
            Act::ReleaseAllLocks => out.push_str("RELEASE_ALL_LOCKS() AS v"),
            _ => {
                out.truncate(from);
                return false;
            }
        }
        true
    }

    /// The statements that have no place for the tag.
    fn put_plain(&self, out: &mut String, flavor: Flavor) {
        match &self.act {
            Act::ShowWarnings => out.push_str("SHOW WARNINGS"),
            Act::Delete { key } => put(out, format_args!("DELETE FROM kv WHERE k = {key}")),
            Act::Begin(BeginForm::Begin) => out.push_str("BEGIN"),
            Act::Begin(BeginForm::Start) => out.push_str("START TRANSACTION"),
            Act::Begin(BeginForm::ReadOnly) => out.push_str("START TRANSACTION READ ONLY"),
            Act::Commit => out.push_str("COMMIT"),
            Act::Rollback => out.push_str("ROLLBACK"),
            Act::Set(settings) => put_settings(out, settings, flavor),
            Act::SetTransaction { session, isolation, read_only } => {
                put_transaction(out, *session, *isolation, *read_only);
            }
            Act::Use(schema) => put(out, format_args!("USE {}", schema.name())),
            Act::CreateTemporary(table) => {
                put(out, format_args!("CREATE TEMPORARY TABLE tmp{table} (v BIGINT)"));
            }
            Act::DropTemporary(table) => {
                put(out, format_args!("DROP TEMPORARY TABLE tmp{table}"));
            }
            Act::LockTables { write } => {
                let mode = if *write { "WRITE" } else { "READ" };
                put(out, format_args!("LOCK TABLES kv {mode}, log {mode}"));
            }
            Act::UnlockTables => out.push_str("UNLOCK TABLES"),
            Act::PrepareSql { name, of } => put_prepare(out, *name, *of),
            Act::ExecuteSql { name, using } => {
                put(out, format_args!("EXECUTE p{name}"));
                if let Some(user) = using {
                    put(out, format_args!(" USING @u{user}"));
                }
            }
            Act::DeallocateSql(name) => put(out, format_args!("DEALLOCATE PREPARE p{name}")),
            Act::Kill { connection, query_only } => {
                let query = if *query_only { "QUERY " } else { "" };
                put(out, format_args!("KILL {query}{connection}"));
            }
            Act::Unknown(text) => out.push_str(text),
            // The rest has a place for its tag.
            _ => debug_assert!(false, "{:?} was not written", self.act),
        }
    }
}

/// Writing to a text does not fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    _ = out.write_fmt(text);
}

fn put_prepare(out: &mut String, name: u8, of: PreparedSql) {
    put(out, format_args!("PREPARE p{name} FROM '"));
    match of {
        PreparedSql::Read { tag, key } => {
            put(out, format_args!("SELECT {} AS tag, v FROM kv WHERE k = {key}", tag.0));
        }
        PreparedSql::Update { key } => {
            put(out, format_args!("UPDATE kv SET v = ? WHERE k = {key}"));
        }
    }
    out.push('\'');
}

fn put_transaction(
    out: &mut String,
    session: bool,
    isolation: Option<Isolation>,
    read_only: Option<bool>,
) {
    out.push_str(if session { "SET SESSION TRANSACTION" } else { "SET TRANSACTION" });
    if let Some(isolation) = isolation {
        let level = isolation.value().replace('-', " ");
        put(out, format_args!(" ISOLATION LEVEL {level}"));
    }
    if let Some(read_only) = read_only {
        if isolation.is_some() {
            out.push(',');
        }
        out.push_str(if read_only { " READ ONLY" } else { " READ WRITE" });
    }
}

fn put_settings(out: &mut String, settings: &[Setting], flavor: Flavor) {
    for (place, setting) in settings.iter().enumerate() {
        out.push_str(if place == 0 { "SET " } else { ", " });
        match setting {
            Setting::Variable { scope, variable, value } => {
                out.push_str(match scope {
                    Scope::Plain => "",
                    Scope::Session => "SESSION ",
                    Scope::Local => "LOCAL ",
                    Scope::At => "@@",
                    Scope::AtSession => "@@SESSION.",
                });
                put(out, format_args!("{} = ", variable.name(flavor)));
                put_value(out, value);
            }
            Setting::Names(charset) => put(out, format_args!("NAMES {}", charset.name())),
            Setting::NamesCollate(charset) => {
                let (charset, collation) = (charset.name(), charset.other_collation());
                put(out, format_args!("NAMES {charset} COLLATE {collation}"));
            }
            Setting::NamesExactly(collation) => {
                let charset = collation.split('_').next().unwrap_or_default();
                put(out, format_args!("NAMES {charset} COLLATE {collation}"));
            }
            Setting::NamesDefault => out.push_str("NAMES DEFAULT"),
            Setting::User { name, value: Some(value) } => {
                put(out, format_args!("@u{name} = {value}"));
            }
            Setting::User { name, value: None } => put(out, format_args!("@u{name} = NULL")),
            Setting::LastInsertId(id) => {
                put(out, format_args!("@@SESSION.last_insert_id = {id}"));
            }
            Setting::InsertId(id) => put(out, format_args!("insert_id = {id}")),
            Setting::LastInsertIdOfTable(id) => put(
                out,
                format_args!(
                    "@@SESSION.last_insert_id = IF((SELECT 1 FROM (SELECT 1) AS t), {id}, {id})"
                ),
            ),
            Setting::LastInsertIdAsItIs => {
                out.push_str("@@SESSION.last_insert_id = LAST_INSERT_ID()");
            }
            Setting::LastInsertIdAsItIsOfTable => out.push_str(
                "@@SESSION.last_insert_id = \
                 IF((SELECT 1 FROM (SELECT 1) AS t), LAST_INSERT_ID(), LAST_INSERT_ID())",
            ),
            Setting::Tracker(name, value) => {
                put(out, format_args!("@@SESSION.session_track_{name} = '{value}'"));
            }
            Setting::Mark(mark @ Mark::ServerId(_)) => {
                put(out, format_args!("@@SESSION.server_id = {mark}"));
            }
            Setting::Mark(mark @ Mark::Tag { .. }) => {
                put(out, format_args!("@@SESSION.gtid_next = 'AUTOMATIC:{mark}'"));
            }
        }
    }
}

fn put_value(out: &mut String, value: &SetValue) {
    match value {
        SetValue::Default => out.push_str("DEFAULT"),
        SetValue::Literal(value) => match value {
            Value::Number(number) => put(out, format_args!("{number}")),
            Value::Flag(flag) => put(out, format_args!("{}", u8::from(*flag))),
            Value::Text(text) => put(out, format_args!("'{text}'")),
            Value::Wrong(text) => put(out, format_args!("'{text}'")),
            Value::Null => out.push_str("NULL"),
        },
        SetValue::Expression(value) => match value {
            Value::Number(number) => put(out, format_args!("{number} + 0")),
            Value::Flag(flag) => put(out, format_args!("{} + 0", u8::from(*flag))),
            Value::Text(text) => put(out, format_args!("CONCAT('', '{text}')")),
            Value::Wrong(text) => put(out, format_args!("CONCAT('', '{text}')")),
            Value::Null => out.push_str("NULL"),
        },
    }
}
