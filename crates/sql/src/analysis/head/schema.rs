//! Statements that define: schemas, tables, accounts, and the server's own affairs.

use super::{Body, Computes, Head};
use crate::analysis::{
    Depends, Effect, StatementKind,
    cursor::Cursor,
    effect::{Effects, TableName},
    walk::Calls,
};
use crate::token::TokenKind;

/// The statement that begins with `word`, if it is one of these.
pub(super) fn head(word: &[u8], cursor: &mut Cursor<'_>, effects: &mut Effects) -> Option<Head> {
    let head = match word {
        b"CREATE" => create(cursor, effects),
        b"ALTER" => alter(cursor, effects),
        b"DROP" => drop_object(cursor, effects),
        b"RENAME" => match cursor.keyword().as_bytes() {
            b"TABLE" | b"TABLES" => plain(StatementKind::RenameTable),
            b"USER" => accounts(StatementKind::Unknown, effects),
            _ => Head::quiet(StatementKind::Unknown),
        },
        b"TRUNCATE" => plain(StatementKind::TruncateTable),
        b"GRANT" => accounts(StatementKind::Grant, effects),
        b"REVOKE" => accounts(StatementKind::Revoke, effects),
        b"OPTIMIZE" => defining(StatementKind::Optimize),
        b"REPAIR" | b"CHECK" => {
            cursor.accept_any(&[b"NO_WRITE_TO_BINLOG", b"LOCAL"]);
            match cursor.keyword().as_bytes() {
                b"VIEW" => view(StatementKind::Unknown),
                _ => Head::committing(StatementKind::Unknown),
            }
        }
        b"CACHE" | b"IMPORT" => Head::committing(StatementKind::Unknown),
        b"PURGE" => Head::evaluating(StatementKind::Purge),
        b"CHANGE" => Head::committing(StatementKind::ChangeMaster),
        b"RESET" => Head::committing(match cursor.keyword().as_bytes() {
            b"MASTER" | b"BINARY" => StatementKind::ResetMaster,
            b"SLAVE" | b"REPLICA" => StatementKind::ResetSlave,
            _ => StatementKind::Unknown,
        }),
        b"INSTALL" | b"UNINSTALL" => Head::committing(StatementKind::Unknown),
        _ => return None,
    };
    Some(head)
}

fn accounts(kind: StatementKind, effects: &mut Effects) -> Head {
    effects.push(Effect::AccountsDefined);
    Head::quiet(kind).computing(Computes::Nothing)
}

/// A statement of names and options.
fn plain(kind: StatementKind) -> Head {
    Head::committing(kind).computing(Computes::Nothing)
}

/// A statement of definitions, which computes no more than a query in it.
fn defining(kind: StatementKind) -> Head {
    Head::committing(kind).computing(Computes::Query)
}

/// A statement about a view, whose constants MariaDB computes at once.
fn view(kind: StatementKind) -> Head {
    let head = Head::quiet(kind).computing(Computes::Nothing);
    Head { depends: Depends::UNKNOWN_FUNCTION, ..head }
}

/// Skips the words between `CREATE` or `ALTER` and the kind of object, an account name among them.
/// Whether `TEMPORARY` was one of them.
fn skip_modifiers(cursor: &mut Cursor<'_>) -> bool {
    let mut is_temporary = false;
    loop {
        let keyword = cursor.keyword();
        match keyword.as_bytes() {
            b"TEMPORARY" => is_temporary = true,
            b"OR" | b"REPLACE" | b"AGGREGATE" | b"UNIQUE" | b"FULLTEXT" | b"SPATIAL" => {}
            b"ONLINE" | b"OFFLINE" | b"IGNORE" | b"UNDO" | b"JSON" | b"RELATIONAL" => {}
            b"DUALITY" | b"MATERIALIZED" | b"EXTERNAL" => {}
            b"ALGORITHM" | b"DEFINER" => {
                cursor.next();
                cursor.next();
                // A value: a word, or an account with or without host and parentheses.
                cursor.next();
                cursor.accept_kind(TokenKind::UserVariable);
                if cursor.accept_kind(TokenKind::Open) {
                    cursor.accept_kind(TokenKind::Close);
                }
                continue;
            }
            b"SQL" => {
                cursor.next();
                cursor.accept(b"SECURITY");
            }
            _ => return is_temporary,
        }
        cursor.next();
    }
}

/// A table may be made of a query's rows.
const FROM_QUERY: Body = Body::Plain(Calls::JudgedInQuery);

fn create(cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    let is_temporary = skip_modifiers(cursor);
    let keyword = cursor.keyword();
    cursor.next();
    match keyword.as_bytes() {
        b"TABLE" | b"SEQUENCE" if is_temporary => {
            cursor.accept_existence();
            effects.push(match cursor.table_name() {
                Some(name) => Effect::CreateTemporaryTable(name),
                None => Effect::OtherSession("temporary table without a name"),
            });
            let head = Head::of(StatementKind::CreateTemporary).computing(Computes::Query);
            Head { body: FROM_QUERY, ..head }
        }
        b"TABLE" => Head { body: FROM_QUERY, ..defining(StatementKind::CreateTable) },
        b"VIEW" => view(StatementKind::CreateView),
        b"TRIGGER" => stored_program(StatementKind::CreateTrigger),
        b"PROCEDURE" | b"FUNCTION" | b"PACKAGE" => stored_program(StatementKind::Unknown),
        b"EVENT" => event(cursor),
        b"DATABASE" | b"SCHEMA" => {
            effects.push(Effect::SchemaDefined);
            plain(StatementKind::CreateDatabase)
        }
        b"INDEX" => defining(StatementKind::CreateIndex),
        b"USER" => accounts(StatementKind::CreateUser, effects),
        b"ROLE" => accounts(StatementKind::Unknown, effects),
        b"SERVER" => Head::quiet(StatementKind::Unknown).computing(Computes::Nothing),
        _ if is_temporary => {
            effects.push(Effect::OtherSession("temporary object of an unknown kind"));
            Head::default()
        }
        _ => Head::quiet(StatementKind::Unknown),
    }
}

fn stored_program(kind: StatementKind) -> Head {
    // Its body runs another time.
    Head { body: Body::StoredProgram, ..plain(kind) }
}

/// An event, whose schedule is computed at once.
fn event(cursor: &mut Cursor<'_>) -> Head {
    let schedule = cursor.clone().take_while(|token| !token.is_word(b"DO"));
    let mut is_name = false;
    let calls = schedule.into_iter().any(|token| {
        let is_time = [&b"NOW"[..], b"CURRENT_TIMESTAMP"].iter().any(|name| token.is_word(name));
        let is_call = std::mem::replace(&mut is_name, token.is_name() && !is_time)
            && token.kind == TokenKind::Open;
        is_call || token.is_word(b"SELECT")
    });
    let depends = if calls { Depends::UNKNOWN_FUNCTION } else { Depends::empty() };
    Head { depends, ..stored_program(StatementKind::Unknown) }
}

fn alter(cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    skip_modifiers(cursor);
    match cursor.keyword().as_bytes() {
        b"TABLE" => defining(StatementKind::AlterTable),
        b"VIEW" => view(StatementKind::AlterView),
        b"EVENT" => event(cursor),
        b"DATABASE" | b"SCHEMA" => {
            effects.push(Effect::SchemaDefined);
            Head::quiet(StatementKind::Unknown).computing(Computes::Nothing)
        }
        b"USER" => accounts(StatementKind::Unknown, effects),
        b"SERVER" => Head::quiet(StatementKind::Unknown).computing(Computes::Nothing),
        _ => Head::quiet(StatementKind::Unknown),
    }
}

fn drop_object(cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    let temporary = cursor.accept(b"TEMPORARY");
    let keyword = cursor.keyword();
    cursor.next();
    match keyword.as_bytes() {
        // It drops no temporary table, but the sequence that one hides.
        b"SEQUENCE" if !temporary => plain(StatementKind::DropTable),
        b"TABLE" | b"TABLES" | b"SEQUENCE" => {
            cursor.accept_existence();
            let names = table_names(cursor, effects);
            effects.push(Effect::DropTable { names, temporary });
            match temporary {
                true => Head::of(StatementKind::DropTable).computing(Computes::Nothing),
                false => plain(StatementKind::DropTable),
            }
        }
        b"PREPARE" => {
            effects.push(Effect::DeallocateStatement(cursor.name().unwrap_or_default()));
            Head::of(StatementKind::Deallocate).computing(Computes::Nothing)
        }
        b"DATABASE" | b"SCHEMA" => plain(StatementKind::DropDatabase),
        b"INDEX" => plain(StatementKind::DropIndex),
        b"TRIGGER" => plain(StatementKind::DropTrigger),
        b"VIEW" => plain(StatementKind::DropView),
        b"USER" => accounts(StatementKind::DropUser, effects),
        b"ROLE" => accounts(StatementKind::Unknown, effects),
        _ => Head::quiet(StatementKind::Unknown).computing(Computes::Nothing),
    }
}

fn table_names(cursor: &mut Cursor<'_>, effects: &mut Effects) -> Vec<TableName> {
    let mut names = Vec::new();
    while let Some(name) = cursor.table_name() {
        if !effects.take_room(1) {
            break;
        }
        names.push(name);
        if !cursor.accept_kind(TokenKind::Comma) {
            break;
        }
    }
    names
}
