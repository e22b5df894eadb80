//! What a statement has to have before it can run, so that servers can make it wait.

use super::ModelSession;
use crate::statement::{Act, PreparedSql, Schema, Upload};

/// What can be locked on one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// A lock of `GET_LOCK`.
    Named(u8),
    /// A row of `kv`.
    Row(Schema, u64),
    /// The tables of a schema.
    Tables(Schema),
}

/// How it is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// To read while it runs.
    Read,
    /// To write; others may write other rows.
    Write,
    /// `LOCK TABLES … READ`.
    Shared,
    /// Nobody else at all.
    Exclusive,
}

impl Mode {
    /// Whether two sessions can have it so at a time.
    pub fn goes_with(self, other: Self) -> bool {
        use Mode::{Exclusive, Read, Shared, Write};
        match (self, other) {
            (Exclusive, _) | (_, Exclusive) | (Shared, Write) | (Write, Shared) => false,
            (Read | Write, Read | Write) | (Shared, Shared | Read) | (Read, Shared) => true,
        }
    }
}

/// One thing that a statement waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// What.
    pub resource: Resource,
    /// How.
    pub mode: Mode,
}

impl ModelSession {
    /// What a statement in `schema` waits for. Whether it keeps it is seen by
    /// [`ModelSession::keeps`] afterwards.
    pub fn claims(&self, act: &Act, schema: Option<Schema>) -> Vec<Claim> {
        let mut claims = Vec::new();
        let mut claim = |resource, mode| claims.push(Claim { resource, mode });
        let act = match act {
            Act::ExecuteSql { name, .. } => match self.sql_prepared.get(name) {
                Some((PreparedSql::Read { key, .. }, schema)) => {
                    return self.claims(&Act::Read { key: *key }, *schema);
                }
                Some((PreparedSql::Update { key }, schema)) => {
                    return self.claims(&Act::Update { key: *key }, *schema);
                }
                None => act,
            },
            _ => act,
        };
        if let Act::GetLock { lock, .. } = act {
            claim(Resource::Named(*lock), Mode::Exclusive);
            return claims;
        }
        let Some(schema) = schema else {
            return claims;
        };
        match act {
            Act::Read { .. } | Act::CountLog { .. } => claim(Resource::Tables(schema), Mode::Read),
            Act::Insert
            | Act::ReadAudited
            | Act::InsertMarked(_)
            | Act::InsertRefused(_)
            | Act::InsertGuarded(_)
                if self.reads_only() => {}
            Act::Insert
            | Act::ReadAudited
            | Act::InsertMarked(_)
            | Act::InsertRefused(_)
            | Act::InsertGuarded(_) => claim(Resource::Tables(schema), Mode::Write),
            Act::ReadForUpdate { key }
            | Act::InsertKey { key }
            | Act::InsertIgnore { key }
            | Act::Put { key }
            | Act::Update { key }
            | Act::Delete { key }
            | Act::InsertAssigning { key, .. }
            | Act::Load(Upload { key, .. }) => {
                // It fails at once, where nothing may be written.
                if self.reads_only() {
                    return claims;
                }
                claim(Resource::Tables(schema), Mode::Write);
                claim(Resource::Row(schema, *key), Mode::Exclusive);
            }
            Act::LockTables { write: true } => claim(Resource::Tables(schema), Mode::Exclusive),
            Act::LockTables { write: false } => claim(Resource::Tables(schema), Mode::Shared),
            _ => {}
        }
        claims
    }

    /// What a statement takes besides if it is free, and does not wait for.
    pub fn takes_besides(&self, act: &Act) -> Option<Claim> {
        match act {
            Act::InsertGuarded(lock) => {
                Some(Claim { resource: Resource::Named(*lock), mode: Mode::Exclusive })
            }
            _ => None,
        }
    }

    /// Whether the session still has what an earlier statement of it claimed.
    pub fn keeps(&self, claim: &Claim) -> bool {
        match claim.resource {
            Resource::Named(lock) => self.named_locks.contains_key(&lock),
            Resource::Row(..) => self.is_in_transaction(),
            Resource::Tables(schema) => match claim.mode {
                Mode::Read => false,
                Mode::Write => self.is_in_transaction(),
                Mode::Shared => self.table_lock == Some((schema, false)),
                Mode::Exclusive => self.table_lock == Some((schema, true)),
            },
        }
    }
}
