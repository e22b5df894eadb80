//! What statements do to data and to the session that says them.

use crate::{oracle::history::Access, statement::Act};

/// What a statement does to data, for what may be repeated and where it may go.
pub(super) fn access_of(act: &Act) -> Access {
    match act {
        Act::Read { .. }
        | Act::CountLog { .. }
        | Act::Numbers { .. }
        | Act::CalcFoundRows { .. }
        | Act::CountTo(_)
        | Act::FoundRows
        | Act::RowCount
        | Act::LastInsertId
        | Act::ConnectionId
        | Act::Recalled(_)
        | Act::Database
        | Act::ShowVariable(_)
        | Act::ShowUser(_)
        | Act::Length { .. }
        | Act::Warn
        | Act::ShowWarnings
        | Act::Sleep { .. }
        | Act::ReadTemporary(_)
        | Act::UnknownTable => Access::Read,
        Act::ReadForUpdate { .. }
        | Act::GetLock { .. }
        | Act::ReleaseLock(_)
        | Act::ReleaseAllLocks
        | Act::LockTables { .. }
        | Act::UnlockTables
        | Act::ExecuteSql { using: None, .. } => Access::LockingRead,
        Act::Insert
        | Act::InsertKey { .. }
        | Act::InsertIgnore { .. }
        | Act::Put { .. }
        | Act::Update { .. }
        | Act::Delete { .. }
        | Act::Load(_)
        | Act::ReadAudited
        | Act::InsertMarked(_)
        | Act::InsertRefused(_)
        | Act::InsertGuarded(_)
        | Act::InsertAssigning { .. }
        | Act::InsertTemporary(_)
        | Act::ExecuteSql { using: Some(_), .. } => Access::Write,
        Act::Broken
        | Act::Begin(_)
        | Act::Commit
        | Act::Rollback
        | Act::Set(_)
        | Act::SetTransaction { .. }
        | Act::Use(_)
        | Act::CreateTemporary(_)
        | Act::DropTemporary(_)
        | Act::PrepareSql { .. }
        | Act::DeallocateSql(_)
        | Act::Kill { .. }
        | Act::Unknown(_) => Access::Session,
    }
}

/// Whether a statement's result is that of tables which others use too.
pub(super) fn is_of_tables(act: &Act) -> bool {
    match access_of(act) {
        Access::Write => !matches!(act, Act::InsertTemporary(_)),
        Access::Read | Access::LockingRead | Access::Session => matches!(
            act,
            Act::Read { .. }
                | Act::ReadForUpdate { .. }
                | Act::CountLog { .. }
                | Act::Numbers { .. }
                | Act::CalcFoundRows { .. }
                | Act::Length { .. }
        ),
    }
}

/// Whether a statement reads what the last one left: it goes where that ran, if nobody else has
/// been there since.
pub(super) fn reads_traces(act: &Act) -> bool {
    matches!(act, Act::ShowWarnings | Act::RowCount | Act::FoundRows | Act::LastInsertId)
}

/// What the proxy holds a session for until it is reset, whatever follows.
pub(super) fn pins_for_good(act: &Act) -> bool {
    matches!(
        act,
        Act::Set(_)
            | Act::SetTransaction { .. }
            | Act::GetLock { .. }
            | Act::ExecuteSql { .. }
            | Act::ReadAudited
            | Act::InsertMarked(_)
            | Act::InsertRefused(_)
            | Act::InsertGuarded(_)
            | Act::InsertAssigning { .. }
    )
}
