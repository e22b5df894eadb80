//! From texts to statements, as a model server reads them.

use super::{
    Act, BeginForm, Isolation, PreparedSql, Schema, Statement, Tag, Upload, Variable,
    set::settings,
    token::{Token, Words, words},
};

/// Reads a text of one or more statements. What nobody in the model world says becomes
/// [`Act::Unknown`].
pub fn parse(text: &str) -> Vec<Statement> {
    let mut statements = Vec::new();
    let mut rest = Some(text);
    if let Some(rows) = counted(text) {
        return vec![Statement { tag: None, act: Act::CountTo(rows) }];
    }
    if text == "SELECT FOUND_ROWS()" {
        return vec![Statement { tag: None, act: Act::FoundRows }];
    }
    while let Some(text) = rest.filter(|text| !text.trim_ascii().is_empty()) {
        let Some(words) = words(text) else {
            statements.push(Statement { tag: None, act: Act::Unknown(text.to_owned()) });
            break;
        };
        rest = words.rest;
        if words.tokens.is_empty() && words.tag.is_none() {
            continue;
        }
        let statement = read(&words)
            .unwrap_or_else(|| Statement { tag: words.tag, act: Act::Unknown(text.to_owned()) });
        statements.push(statement);
    }
    statements
}

/// The rows that are found by what the proxy runs for `FOUND_ROWS()`, if it is that.
fn counted(text: &str) -> Option<u64> {
    let begin = "SELECT SQL_CALC_FOUND_ROWS 1 FROM (SELECT 1";
    match text {
        "SELECT 1 FROM (SELECT 1) AS t WHERE 0" => Some(0),
        "SELECT 1 FROM (SELECT 1) AS t" => Some(1),
        _ => {
            let more = text.strip_prefix(begin)?.strip_suffix(") AS t LIMIT 0")?;
            u64::try_from(more.matches(" UNION ALL SELECT 1").count()).ok()?.checked_add(1)
        }
    }
}

use Token::{
    Number as N, Symbol as S, System as Y, Text as T, Thousandths as F, User as U, Word as W,
};

fn read(words: &Words<'_>) -> Option<Statement> {
    let tokens = words.tokens.as_slice();
    let (first, rest) = tokens.split_first()?;
    let W(first) = first else { return None };
    match *first {
        "SELECT" => select(rest),
        "INSERT" | "REPLACE" | "UPDATE" | "SELEC" => write(tokens),
        "LOAD" => load(rest),
        "SET" => {
            let act = set_transaction(rest).or_else(|| settings(rest).map(Act::Set))?;
            Some(Statement { tag: words.tag, act })
        }
        _ => Some(Statement { tag: words.tag, act: plain(tokens)? }),
    }
}

fn tagged(tag: u64, act: Act) -> Option<Statement> {
    Some(Statement { tag: (tag != 0).then_some(Tag(tag)), act })
}

/// What follows `SELECT`.
fn select(tokens: &[Token<'_>]) -> Option<Statement> {
    match tokens {
        [
            W("SQL_CALC_FOUND_ROWS"),
            N(tag),
            W("AS"),
            W("tag"),
            S(b','),
            W("n"),
            W("FROM"),
            W("numbers"),
            W("WHERE"),
            W("n"),
            S(b'<'),
            N(rows),
            W("LIMIT"),
            N(limit),
        ] => tagged(*tag, Act::CalcFoundRows { rows: *rows, limit: *limit }),
        [N(tag), W("AS"), W("tag"), W("FROM"), W("missing")] => tagged(*tag, Act::UnknownTable),
        [N(tag), W("AS"), W("tag"), S(b','), rest @ ..] => tagged(*tag, selected(rest)?),
        _ => None,
    }
}

/// What follows `SELECT tag AS tag,`.
fn selected(tokens: &[Token<'_>]) -> Option<Act> {
    if let [call @ .., W("AS"), W("v")] = tokens {
        return expression(call);
    }
    match tokens {
        [W("v"), W("FROM"), W("kv"), W("WHERE"), W("k"), S(b'='), N(key), rest @ ..] => {
            match rest {
                [] => Some(Act::Read { key: *key }),
                [W("FOR"), W("UPDATE")] => Some(Act::ReadForUpdate { key: *key }),
                _ => None,
            }
        }
        [W("v"), W("FROM"), W("audited"), W("WHERE"), W("n"), S(b'='), N(_)] => {
            Some(Act::ReadAudited)
        }
        [
            W("COUNT"),
            S(b'('),
            S(b'*'),
            S(b')'),
            W("AS"),
            W("v"),
            W("FROM"),
            W("log"),
            W("WHERE"),
            W("v"),
            S(b'='),
            N(of),
        ] => Some(Act::CountLog { of: Tag(*of) }),
        [
            W("n"),
            S(b','),
            W("REPEAT"),
            S(b'('),
            T("x"),
            S(b','),
            N(width),
            S(b')'),
            W("AS"),
            W("pad"),
            W("FROM"),
            W("numbers"),
            W("WHERE"),
            W("n"),
            S(b'<'),
            N(rows),
        ] => Some(Act::Numbers { rows: *rows, width: *width }),
        [
            W("COUNT"),
            S(b'('),
            S(b'*'),
            S(b')'),
            W("AS"),
            W("n"),
            S(b','),
            W("MAX"),
            S(b'('),
            W("v"),
            S(b')'),
            W("AS"),
            W("v"),
            W("FROM"),
            W(table),
        ] => numbered(table, "tmp").map(Act::ReadTemporary),
        _ => None,
    }
}

/// An expression that is shown as `v`.
fn expression(tokens: &[Token<'_>]) -> Option<Act> {
    match tokens {
        [Y(name)] => Variable::from_name(name).map(Act::ShowVariable),
        [U(name)] => numbered(name, "u").map(Act::ShowUser),
        // What the proxy says on MySQL, which is to warn of the question.
        [
            W("IF"),
            S(b'('),
            N(0),
            S(b','),
            W("FOUND_ROWS"),
            S(b'('),
            S(b')'),
            S(b','),
            answer @ ..,
            S(b')'),
        ] => expression(answer),
        [W(function), S(b'('), arguments @ .., S(b')')] => call(function, arguments),
        _ => None,
    }
}

fn call(function: &str, arguments: &[Token<'_>]) -> Option<Act> {
    match (function, arguments) {
        ("FOUND_ROWS", []) => Some(Act::FoundRows),
        ("ROW_COUNT", []) => Some(Act::RowCount),
        ("LAST_INSERT_ID", []) => Some(Act::LastInsertId),
        ("CONNECTION_ID", []) => Some(Act::ConnectionId),
        ("DATABASE", []) => Some(Act::Database),
        ("RELEASE_ALL_LOCKS", []) => Some(Act::ReleaseAllLocks),
        ("LENGTH", [T(text)]) => Some(Act::Length { text: (*text).to_owned() }),
        ("CAST", [T(text), W("AS"), W("SIGNED" | "UNSIGNED")]) => {
            Some(text.parse().map_or(Act::Warn, Act::Recalled))
        }
        ("CAST", [N(number), W("AS"), W("SIGNED" | "UNSIGNED")]) => {
            i64::try_from(*number).ok().map(Act::Recalled)
        }
        ("CAST", [S(b'-'), N(number), W("AS"), W("SIGNED")]) => {
            i64::try_from(*number).ok().map(|number| Act::Recalled(-number))
        }
        ("SLEEP", [F(ms)]) => Some(Act::Sleep { ms: *ms }),
        ("GET_LOCK", [T(lock), S(b','), N(seconds)]) => {
            Some(Act::GetLock { lock: numbered(lock, "l")?, seconds: *seconds })
        }
        ("RELEASE_LOCK", [T(lock)]) => numbered(lock, "l").map(Act::ReleaseLock),
        _ => None,
    }
}

/// Statements that write, or are broken: the tag is the value.
// long: one arm for each text that writes.
fn write(tokens: &[Token<'_>]) -> Option<Statement> {
    match tokens {
        [W("SELEC"), N(tag)] => tagged(*tag, Act::Broken),
        [
            W("INSERT"),
            W("INTO"),
            W(table),
            S(b'('),
            W("v"),
            S(b')'),
            W("VALUES"),
            S(b'('),
            N(tag),
            S(b')'),
        ] => match *table {
            "log" => tagged(*tag, Act::Insert),
            table => tagged(*tag, insert_into(table)?),
        },
        [
            W("INSERT"),
            W("INTO"),
            W("kv"),
            S(b'('),
            W("k"),
            S(b','),
            W("v"),
            S(b')'),
            W("VALUES"),
            S(b'('),
            N(key),
            S(b','),
            U(user),
            S(b':'),
            S(b'='),
            N(tag),
            S(b')'),
        ] => {
            let name = numbered(user, "u")?;
            tagged(*tag, Act::InsertAssigning { key: *key, name })
        }
        [
            head @ ..,
            W("INTO"),
            W("kv"),
            S(b'('),
            W("k"),
            S(b','),
            W("v"),
            S(b')'),
            W("VALUES"),
            S(b'('),
            N(key),
            S(b','),
            N(tag),
            S(b')'),
        ] => match head {
            [W("INSERT")] => tagged(*tag, Act::InsertKey { key: *key }),
            [W("INSERT"), W("IGNORE")] => tagged(*tag, Act::InsertIgnore { key: *key }),
            [W("REPLACE")] => tagged(*tag, Act::Put { key: *key }),
            _ => None,
        },
        [
            W("UPDATE"),
            W("kv"),
            W("SET"),
            W("v"),
            S(b'='),
            N(tag),
            W("WHERE"),
            W("k"),
            S(b'='),
            N(key),
        ] => tagged(*tag, Act::Update { key: *key }),
        _ => None,
    }
}

/// Inserts into tables with a number in their name.
fn insert_into(table: &str) -> Option<Act> {
    let number = |prefix| numbered(table, prefix);
    number("tmp")
        .map(Act::InsertTemporary)
        .or_else(|| number("marked").map(Act::InsertMarked))
        .or_else(|| number("refused").map(Act::InsertRefused))
        .or_else(|| number("guarded").map(Act::InsertGuarded))
}

/// What follows `LOAD`.
fn load(tokens: &[Token<'_>]) -> Option<Statement> {
    match tokens {
        [
            W("DATA"),
            W("LOCAL"),
            W("INFILE"),
            T(name),
            W("REPLACE"),
            W("INTO"),
            W("TABLE"),
            W("kv"),
            W("IGNORE"),
            N(skipped),
            W("LINES"),
            S(b'('),
            W("k"),
            S(b','),
            W("v"),
            S(b')'),
        ] => {
            let (upload, tag) = Upload::from_name(name, *skipped)?;
            tagged(tag, Act::Load(upload))
        }
        _ => None,
    }
}

/// Statements that have no place for a tag.
fn plain(tokens: &[Token<'_>]) -> Option<Act> {
    Some(match tokens {
        [W("SHOW"), W("WARNINGS")] => Act::ShowWarnings,
        [W("DELETE"), W("FROM"), W("kv"), W("WHERE"), W("k"), S(b'='), N(key)] => {
            Act::Delete { key: *key }
        }
        [W("BEGIN")] => Act::Begin(BeginForm::Begin),
        [W("START"), W("TRANSACTION")] => Act::Begin(BeginForm::Start),
        [W("START"), W("TRANSACTION"), W("READ"), W("ONLY")] => Act::Begin(BeginForm::ReadOnly),
        [W("COMMIT")] => Act::Commit,
        [W("ROLLBACK")] => Act::Rollback,
        [W("USE"), W(schema)] => Act::Use(Schema::from_name(schema.as_bytes())),
        [
            W("CREATE"),
            W("TEMPORARY"),
            W("TABLE"),
            W(table),
            S(b'('),
            W("v"),
            W("BIGINT"),
            S(b')'),
        ] => Act::CreateTemporary(numbered(table, "tmp")?),
        [W("DROP"), W("TEMPORARY"), W("TABLE"), W(table)] => {
            Act::DropTemporary(numbered(table, "tmp")?)
        }
        [W("LOCK"), W("TABLES"), W("kv"), W(mode), S(b','), W("log"), W(_)] => {
            Act::LockTables { write: *mode == "WRITE" }
        }
        [W("UNLOCK"), W("TABLES")] => Act::UnlockTables,
        [W("PREPARE"), W(name), W("FROM"), T(text)] => {
            Act::PrepareSql { name: numbered(name, "p")?, of: prepared(text)? }
        }
        [W("EXECUTE"), W(name)] => Act::ExecuteSql { name: numbered(name, "p")?, using: None },
        [W("EXECUTE"), W(name), W("USING"), U(user)] => {
            Act::ExecuteSql { name: numbered(name, "p")?, using: Some(numbered(user, "u")?) }
        }
        [W("DEALLOCATE"), W("PREPARE"), W(name)] => Act::DeallocateSql(numbered(name, "p")?),
        [W("KILL"), N(connection)] => Act::Kill { connection: *connection, query_only: false },
        // The soft one differs in a wait for a replica only, which there is not here.
        [W("KILL"), W("QUERY"), N(connection)]
        | [W("KILL"), W("SOFT"), W("QUERY"), N(connection)] => {
            Act::Kill { connection: *connection, query_only: true }
        }
        _ => return None,
    })
}

fn prepared(text: &str) -> Option<PreparedSql> {
    let words = words(text)?;
    match words.tokens.as_slice() {
        [W("SELECT"), rest @ ..] => match select(rest)? {
            Statement { tag: Some(tag), act: Act::Read { key } } => {
                Some(PreparedSql::Read { tag, key })
            }
            _ => None,
        },
        [
            W("UPDATE"),
            W("kv"),
            W("SET"),
            W("v"),
            S(b'='),
            S(b'?'),
            W("WHERE"),
            W("k"),
            S(b'='),
            N(key),
        ] => Some(PreparedSql::Update { key: *key }),
        _ => None,
    }
}

/// What follows `SET`, if it is of the next transaction or the session's transactions.
fn set_transaction(tokens: &[Token<'_>]) -> Option<Act> {
    let (session, rest) = match tokens {
        [W("TRANSACTION"), rest @ ..] => (false, rest),
        [W("SESSION"), W("TRANSACTION"), rest @ ..] => (true, rest),
        _ => return None,
    };
    let (isolation, rest) = match rest {
        [W("ISOLATION"), W("LEVEL"), W("READ"), W("COMMITTED"), rest @ ..] => {
            (Some(Isolation::ReadCommitted), rest)
        }
        [W("ISOLATION"), W("LEVEL"), W("REPEATABLE"), W("READ"), rest @ ..] => {
            (Some(Isolation::RepeatableRead), rest)
        }
        [W("ISOLATION"), W("LEVEL"), W("SERIALIZABLE"), rest @ ..] => {
            (Some(Isolation::Serializable), rest)
        }
        rest => (None, rest),
    };
    let rest = rest.strip_prefix(&[S(b',')]).unwrap_or(rest);
    let read_only = match rest {
        [] => None,
        [W("READ"), W("ONLY")] => Some(true),
        [W("READ"), W("WRITE")] => Some(false),
        _ => return None,
    };
    Some(Act::SetTransaction { session, isolation, read_only })
}

/// The number in a name such as `tmp3`.
pub(super) fn numbered(name: &str, prefix: &str) -> Option<u8> {
    name.strip_prefix(prefix)?.parse().ok()
}
