//! What a statement leaves behind, in words.

use trunkline_sql::{
    analysis::{Analysis, Effect, KillId, KillTarget, TableName, TransactionEffect, XaStep},
    set::{Assignment, Scope},
};

/// One line for each effect; nothing for a statement without any.
pub(super) fn lines(analysis: &Analysis) -> Vec<String> {
    let transaction = transaction(analysis.transaction);
    transaction.into_iter().chain(analysis.effects.iter().map(line)).collect()
}

fn transaction(effect: TransactionEffect) -> Option<String> {
    let tail = |chain: bool, release: Option<bool>| match (chain, release) {
        (true, _) => ", another one begins",
        (false, Some(true)) => ", and the connection",
        (false, Some(false) | None) => "",
    };
    Some(match effect {
        TransactionEffect::None => return None,
        TransactionEffect::Begin { read_only: true, .. } => {
            "a read-only transaction begins".to_owned()
        }
        TransactionEffect::Begin { read_only: false, .. } => "a transaction begins".to_owned(),
        TransactionEffect::Commit { chain, release } => {
            format!("the transaction ends by a commit{}", tail(chain, release))
        }
        TransactionEffect::Rollback { chain, release } => {
            format!("the transaction ends by a rollback{}", tail(chain, release))
        }
        TransactionEffect::ImplicitCommit => "an open transaction is committed first".to_owned(),
        TransactionEffect::SetAutocommit(Some(true)) => "autocommit is on".to_owned(),
        TransactionEffect::SetAutocommit(Some(false)) => "autocommit is off".to_owned(),
        TransactionEffect::SetAutocommit(None) => "autocommit changes".to_owned(),
    })
}

fn line(effect: &Effect) -> String {
    match effect {
        Effect::CreateTemporaryTable(name) => format!("temporary table {} is made", table(name)),
        Effect::DropTable { names, temporary } => {
            let kind = if *temporary { "temporary table" } else { "table" };
            let names: Vec<String> = names.iter().map(table).collect();
            format!("{kind} {} is dropped", names.join(", "))
        }
        Effect::LockTables => "tables are locked".to_owned(),
        Effect::UnlockTables => "tables are unlocked".to_owned(),
        Effect::FlushWithReadLock => "a read lock is held".to_owned(),
        Effect::GetLock(None) => "a named lock is held".to_owned(),
        Effect::GetLock(Some(name)) => format!("lock {} is held", text(name)),
        Effect::ReleaseLock(None) => "a named lock may be released".to_owned(),
        Effect::ReleaseLock(Some(name)) => format!("lock {} is released", text(name)),
        Effect::ReleaseAllLocks => "all named locks are released".to_owned(),
        Effect::UserVariableAssigned(None) => "a user variable has a value".to_owned(),
        Effect::UserVariableAssigned(Some(name)) => format!("@{} has a value", text(name)),
        Effect::LastInsertIdAssigned => "LAST_INSERT_ID() has a value".to_owned(),
        Effect::PrepareStatement { name, .. } => format!("statement {} is prepared", text(name)),
        Effect::DeallocateStatement(name) => format!("statement {} is dropped", text(name)),
        Effect::ExecuteStatement(name) => format!("statement {} runs", text(name)),
        Effect::HandlerOpen(name) => format!("handler {} is open", text(name)),
        Effect::HandlerClose(name) => format!("handler {} is closed", text(name)),
        Effect::CalcFoundRows => "FOUND_ROWS() has a value".to_owned(),
        Effect::UseSchema(name) => format!("the schema is {}", text(name)),
        Effect::Set(assignments) => {
            let names: Vec<String> = assignments.iter().map(assignment).collect();
            format!("set: {}", names.join(", "))
        }
        Effect::SetTransaction(_) => "characteristics of transactions are set".to_owned(),
        Effect::SetRole => "the role is set".to_owned(),
        Effect::SequenceAdvanced => "a sequence gives its next value".to_owned(),
        Effect::SetResourceGroup => "the resource group is set".to_owned(),
        Effect::BackupLock(lock) => format!("a backup lock is held ({})", lock.name()),
        Effect::BackupUnlock(lock) => format!("a backup lock is released ({})", lock.name()),
        Effect::SchemaDefined => "a schema has other defaults".to_owned(),
        Effect::AccountsDefined => "rights or accounts change".to_owned(),
        Effect::SetPassword => "a password is set".to_owned(),
        Effect::SetUnparsable => "a SET that is not understood".to_owned(),
        Effect::Savepoint => "a savepoint".to_owned(),
        Effect::Xa(step) => format!("XA {}", xa_step(*step)),
        Effect::Call => "whatever the procedure leaves behind".to_owned(),
        Effect::LoadData { local: true } => "a file of the client is loaded".to_owned(),
        Effect::LoadData { local: false } => "a file of the server is loaded".to_owned(),
        Effect::Kill { target, id } => kill(*target, *id),
        Effect::Transaction(effect) => transaction(*effect).unwrap_or_default(),
        Effect::OtherSession(what) => (*what).to_owned(),
    }
}

fn table(name: &TableName) -> String {
    match &name.schema {
        Some(schema) => format!("{}.{}", text(schema), text(&name.table)),
        None => text(&name.table),
    }
}

fn assignment(assignment: &Assignment) -> String {
    match assignment {
        Assignment::Variable { scope: Scope::UserVariable, name, .. } => format!("@{}", text(name)),
        Assignment::Variable { name, .. } => text(name),
        Assignment::Names { .. } => "NAMES".to_owned(),
        Assignment::CharacterSet { .. } => "CHARACTER SET".to_owned(),
        Assignment::Transaction(_) => "TRANSACTION".to_owned(),
        Assignment::Password => "PASSWORD".to_owned(),
        Assignment::Role => "ROLE".to_owned(),
        Assignment::DefaultRole => "DEFAULT ROLE".to_owned(),
        Assignment::ResourceGroup => "RESOURCE GROUP".to_owned(),
    }
}

fn xa_step(step: XaStep) -> &'static str {
    match step {
        XaStep::Start => "START",
        XaStep::End => "END",
        XaStep::Prepare => "PREPARE",
        XaStep::Commit => "COMMIT",
        XaStep::Rollback => "ROLLBACK",
        XaStep::Recover => "RECOVER",
        XaStep::Other => "of an unknown kind",
    }
}

fn kill(target: KillTarget, id: KillId) -> String {
    let what = match target {
        KillTarget::Connection => "connection",
        KillTarget::Query => "the statement of connection",
        KillTarget::Other => "connections or a statement",
    };
    match id {
        KillId::Number(id) => format!("ends {what} {id}"),
        KillId::Own | KillId::Other => format!("ends {what}"),
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests;
