//! Statements that define: schemas, tables, accounts, and the server's own affairs.

use super::{Body, Head};
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
            b"TABLE" | b"TABLES" => Head::committing(StatementKind::RenameTable),
            b"USER" => accounts(StatementKind::Unknown, effects),
            _ => Head::quiet(StatementKind::Unknown),
        },
        b"TRUNCATE" => Head::committing(StatementKind::TruncateTable),
        b"GRANT" => accounts(StatementKind::Grant, effects),
        b"REVOKE" => accounts(StatementKind::Revoke, effects),
        b"OPTIMIZE" => Head::committing(StatementKind::Optimize),
        b"REPAIR" | b"CHECK" | b"CACHE" | b"IMPORT" => Head::committing(StatementKind::Unknown),
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
    Head::quiet(kind)
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
            Head { body: FROM_QUERY, ..Head::of(StatementKind::CreateTemporary) }
        }
        b"TABLE" => Head { body: FROM_QUERY, ..Head::committing(StatementKind::CreateTable) },
        b"VIEW" => Head::quiet(StatementKind::CreateView),
        b"TRIGGER" => stored_program(StatementKind::CreateTrigger),
        b"PROCEDURE" | b"FUNCTION" | b"PACKAGE" => stored_program(StatementKind::Unknown),
        b"EVENT" => event(cursor),
        b"DATABASE" | b"SCHEMA" => {
            effects.push(Effect::SchemaDefined);
            Head::committing(StatementKind::CreateDatabase)
        }
        b"INDEX" => Head::committing(StatementKind::CreateIndex),
        b"USER" => accounts(StatementKind::CreateUser, effects),
        b"ROLE" => accounts(StatementKind::Unknown, effects),
        _ if is_temporary => {
            effects.push(Effect::OtherSession("temporary object of an unknown kind"));
            Head::default()
        }
        _ => Head::quiet(StatementKind::Unknown),
    }
}

fn stored_program(kind: StatementKind) -> Head {
    Head { body: Body::StoredProgram, ..Head::committing(kind) }
}

/// An event, whose schedule is computed at once.
fn event(cursor: &mut Cursor<'_>) -> Head {
    let schedule = cursor.clone().take_while(|token| !token.is_word(b"DO"));
    let mut is_name = false;
    let calls = schedule.into_iter().any(|token| {
        let is_time = [&b"NOW"[..], b"CURRENT_TIMESTAMP"].iter().any(|name| token.is_word(name));
        std::mem::replace(&mut is_name, token.is_name() && !is_time)
            && token.kind == TokenKind::Open
    });
    let depends = if calls { Depends::UNKNOWN_FUNCTION } else { Depends::empty() };
    Head { depends, ..stored_program(StatementKind::Unknown) }
}

fn alter(cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    skip_modifiers(cursor);
    match cursor.keyword().as_bytes() {
        b"TABLE" => Head::committing(StatementKind::AlterTable),
        b"VIEW" => Head::quiet(StatementKind::AlterView),
        b"EVENT" => event(cursor),
        b"DATABASE" | b"SCHEMA" => {
            effects.push(Effect::SchemaDefined);
            Head::quiet(StatementKind::Unknown)
        }
        b"USER" => accounts(StatementKind::Unknown, effects),
        _ => Head::quiet(StatementKind::Unknown),
    }
}

fn drop_object(cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    let temporary = cursor.accept(b"TEMPORARY");
    let keyword = cursor.keyword();
    cursor.next();
    match keyword.as_bytes() {
        // It drops no temporary table, but the sequence that one hides.
        b"SEQUENCE" if !temporary => Head::committing(StatementKind::DropTable),
        b"TABLE" | b"TABLES" | b"SEQUENCE" => {
            cursor.accept_existence();
            let names = table_names(cursor, effects);
            effects.push(Effect::DropTable { names, temporary });
            match temporary {
                true => Head::of(StatementKind::DropTable),
                false => Head::committing(StatementKind::DropTable),
            }
        }
        b"PREPARE" => {
            effects.push(Effect::DeallocateStatement(cursor.name().unwrap_or_default()));
            Head::of(StatementKind::Deallocate)
        }
        b"DATABASE" | b"SCHEMA" => Head::committing(StatementKind::DropDatabase),
        b"INDEX" => Head::committing(StatementKind::DropIndex),
        b"TRIGGER" => Head::committing(StatementKind::DropTrigger),
        b"VIEW" => Head::committing(StatementKind::DropView),
        b"USER" => accounts(StatementKind::DropUser, effects),
        b"ROLE" => accounts(StatementKind::Unknown, effects),
        _ => Head::quiet(StatementKind::Unknown),
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
