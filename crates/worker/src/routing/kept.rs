//! Statements that stay on a connection which their session holds, though a rule, a hint or fast
//! routing names another hostgroup: what the session has there they may see.
//!
//! As with the split, a session that is held on its user's own hostgroup stays there with all that
//! the same servers answer. What is for other servers goes to them, unless it asks for what is
//! held: a user variable, a temporary table. What may write stays on the user's own hostgroup only:
//! nowhere else is it known that the servers may be written to.

use trunkline_catalog::{Hidden, Proof};
use trunkline_session::tracker::{PinReason, Pins};
use trunkline_sql::{
    analysis::{Analysis, Depends, Effect},
    set::{Assignment, Scope},
};
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::Lease,
    routing::{decide::Held, read_only::only_looks},
};

/// What holds a session and is nothing that it has said of itself: transactions have a setting of
/// their own (`transaction_persistent`), and what reads left is fetched from elsewhere.
const NO_STATE: [PinReason; 6] = [
    PinReason::UnknownName,
    PinReason::Transaction,
    PinReason::Warnings,
    PinReason::FoundRows,
    PinReason::Cursor,
    PinReason::Rule,
];

/// Whether the session has something there that its statements may see.
pub(crate) fn has_state(lease: &Lease) -> bool {
    lease.pins.has_other_than(&NO_STATE)
}

/// The connection that a statement stays on though another hostgroup is named. `home` is its
/// user's own hostgroup; `is_same_group` says whether a hostgroup has the same servers' data as
/// `named`.
pub(super) fn keeping_lease<'a>(
    session: &Held<'a>,
    (home, named): (HostgroupId, HostgroupId),
    (analysis, proof): (&Analysis, Proof),
    is_same_group: impl Fn(HostgroupId) -> bool,
) -> Option<&'a Lease> {
    let held = || session.leases().filter(|lease| has_state(lease));
    let asks = |lease: &&Lease| sees(&lease.pins, analysis, proof);
    // What the session has there it has by rules like this one: it stays elsewhere only for what
    // it asks of that place alone, a temporary table.
    let there = held().find(|lease| lease.hostgroup == named);
    if there.is_some_and(|lease| asks(&lease)) {
        return None;
    }
    held().filter(|lease| lease.hostgroup != named).find(|lease| {
        let is_own = lease.hostgroup == home;
        let may_stay = is_own || only_looks(analysis, proof);
        let stays = is_own && there.is_none() && is_same_group(lease.hostgroup);
        may_stay && (stays || asks(lease))
    })
}

/// The hostgroup that has a user variable of a session which a statement reads, or may read, that
/// goes to another one, where it would find `NULL`. One that it assigns itself it reads as its own,
/// most often.
pub(super) fn variables_elsewhere(
    session: &Held<'_>,
    goes_to: HostgroupId,
    analysis: &Analysis,
) -> Option<HostgroupId> {
    const REASON: PinReason = PinReason::UserVariable;
    let holding = session.leases().filter(|it| it.pins.has(REASON));
    let elsewhere = holding.clone().filter(|lease| lease.hostgroup != goes_to);
    let here = holding.filter(|lease| lease.hostgroup == goes_to);
    let is_named_here =
        |name: &[u8]| here.clone().any(|lease| lease.pins.names(REASON).any(|held| held == name));
    let has_unnamed_here = here.clone().any(|lease| lease.pins.has_unnamed(REASON));
    if !analysis.variables.is_whole || runs_other_text(analysis) {
        let has_any_here = here.clone().next().is_some();
        let is_lacking = |lease: &&Lease| {
            lease.pins.names(REASON).any(|name| !is_named_here(name))
                || lease.pins.has_unnamed(REASON) && !has_any_here
        };
        return elsewhere.clone().find(is_lacking).map(|lease| lease.hostgroup);
    }
    let read = analysis.variables.names.iter().filter(|name| !assigns(analysis, name));
    let is_lacking = |lease: &&Lease| {
        read.clone().filter(|name| !is_named_here(name)).any(|name| {
            has_named(&lease.pins, name) || lease.pins.has_unnamed(REASON) && !has_unnamed_here
        })
    };
    elsewhere.clone().find(is_lacking).map(|lease| lease.hostgroup)
}

/// Whether a statement gives this variable a value, or one that has no name here.
fn assigns(analysis: &Analysis, name: &[u8]) -> bool {
    analysis.effects.iter().any(|effect| match effect {
        Effect::UserVariableAssigned(assigned) => assigned.as_ref().is_none_or(|it| it == name),
        Effect::Set(assignments) => assignments.iter().any(|assignment| {
            matches!(assignment, Assignment::Variable { scope: Scope::UserVariable, name: set, .. }
                if **set == *name)
        }),
        _ => false,
    })
}

/// Whether a statement runs what is in it and is not looked at: a text that is executed at once, a
/// block.
pub(super) fn runs_other_text(analysis: &Analysis) -> bool {
    analysis.effects.iter().any(|effect| match effect {
        Effect::ExecuteStatement(name) => name.is_empty(),
        Effect::OtherSession(_) => true,
        _ => false,
    })
}

/// Whether a user variable has, or may have, a value there that no literal says.
fn has_variable(pins: &Pins, name: &[u8]) -> bool {
    pins.has_unnamed(PinReason::UserVariable) || has_named(pins, name)
}

/// Whether a variable that is held by its name is this one, or may be: servers compare names
/// without their accents.
fn has_named(pins: &Pins, name: &[u8]) -> bool {
    pins.names(PinReason::UserVariable).any(|held| held == name || !held.is_ascii())
}

/// Whether a statement asks for something that is held.
fn sees(pins: &Pins, analysis: &Analysis, proof: Proof) -> bool {
    pins.reasons().any(|reason| match reason {
        PinReason::UserVariable => {
            uses_variable_of(pins, analysis) || proof.hidden.has(Hidden::READS_SESSION)
        }
        PinReason::Routine | PinReason::UnknownName | PinReason::ServerState | PinReason::Other => {
            uses_variables(analysis) || proof.hidden.has(Hidden::READS_SESSION)
        }
        PinReason::TemporaryTable => names_one_of(pins, analysis),
        PinReason::Sequence => analysis.depends.contains(Depends::SEQUENCE),
        PinReason::NamedLock
        | PinReason::TableLock
        | PinReason::SqlPreparedStatement
        | PinReason::Handler
        | PinReason::BackupLock => analysis.effects.iter().any(|effect| is_of(reason, effect)),
        PinReason::Transaction
        | PinReason::NextTransaction
        | PinReason::Cursor
        | PinReason::FoundRows
        | PinReason::Warnings
        | PinReason::UnknownVariable
        | PinReason::Xa
        | PinReason::Role
        | PinReason::Connection
        | PinReason::Rule => false,
    })
}

/// Whether a user variable that is held is read, or any gets a value.
fn uses_variable_of(pins: &Pins, analysis: &Analysis) -> bool {
    let variables = &analysis.variables;
    let reads = analysis.depends.contains(Depends::USER_VARIABLE_READ);
    let is_held = || variables.names.iter().any(|name| has_variable(pins, name));
    assigns_variables(analysis) || reads && (!variables.is_whole || is_held())
}

/// Whether a user variable is read, or gets a value.
fn uses_variables(analysis: &Analysis) -> bool {
    analysis.depends.contains(Depends::USER_VARIABLE_READ) || assigns_variables(analysis)
}

/// Whether a user variable gets a value.
fn assigns_variables(analysis: &Analysis) -> bool {
    let assigns = |effect: &Effect| match effect {
        Effect::UserVariableAssigned(_) => true,
        Effect::Set(assignments) => assignments.iter().any(|assignment| {
            matches!(assignment, Assignment::Variable { scope: Scope::UserVariable, .. })
        }),
        _ => false,
    };
    analysis.effects.iter().any(assigns)
}

/// Whether a statement names a temporary table, in whatever schema, or may do so.
fn names_one_of(pins: &Pins, analysis: &Analysis) -> bool {
    let mut names = pins.names(PinReason::TemporaryTable).peekable();
    let references = &analysis.references;
    if !references.is_whole || names.peek().is_none() {
        return true;
    }
    names.any(|name| {
        let table = name.rsplit(|byte| *byte == 0).next().unwrap_or_default();
        references.tables.iter().any(|used| used.name.table.eq_ignore_ascii_case(table))
    })
}

/// Whether an effect gives back, asks for or adds what holds the session for this reason.
fn is_of(reason: PinReason, effect: &Effect) -> bool {
    match reason {
        PinReason::NamedLock => {
            matches!(effect, Effect::GetLock(_) | Effect::ReleaseLock(_) | Effect::ReleaseAllLocks)
        }
        PinReason::TableLock => matches!(effect, Effect::LockTables | Effect::UnlockTables),
        PinReason::SqlPreparedStatement => matches!(
            effect,
            Effect::PrepareStatement { .. }
                | Effect::ExecuteStatement(_)
                | Effect::DeallocateStatement(_)
        ),
        PinReason::Handler => matches!(effect, Effect::HandlerOpen(_) | Effect::HandlerClose(_)),
        PinReason::BackupLock => {
            matches!(effect, Effect::BackupLock(_) | Effect::BackupUnlock(_))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::*;

    fn asks_for(pins: &Pins, text: &str) -> bool {
        let proof = Proof { reads: false, hidden: Hidden::empty() };
        sees(pins, &analyse(text.as_bytes(), &Modes::default()), proof)
    }

    #[test]
    fn what_asks_for_a_user_variable_is_known_by_its_text() {
        let mut pins = Pins::default();
        pins.pin_name(PinReason::UserVariable, b"a");
        for text in [
            "SELECT @A",
            "SELECT @`a`",
            "SELECT @é",
            "INSERT INTO t VALUES (@a)",
            "SET @a = 1",
            "SELECT 1 INTO @a",
        ] {
            assert!(asks_for(&pins, text), "{text}");
        }
        for text in ["SELECT a FROM t", "INSERT INTO t VALUES (1)", "SET NAMES latin1", "SELECT @b"]
        {
            assert!(!asks_for(&pins, text), "{text}");
        }
        pins.pin_name(PinReason::UserVariable, "é".as_bytes());
        assert!(asks_for(&pins, "SELECT @b"), "it may be the same");
    }

    #[test]
    fn what_names_a_temporary_table_is_known_by_its_name() {
        let mut pins = Pins::default();
        pins.pin_name(PinReason::TemporaryTable, b"shop\0mine");
        for text in ["SELECT 1 FROM Mine", "INSERT INTO shop.mine VALUES (1)", "CHECKSUM TABLE x"] {
            assert!(asks_for(&pins, text), "{text}");
        }
        assert!(!asks_for(&pins, "SELECT 1 FROM yours"));
        // One that has no name may have any.
        let mut pins = Pins::default();
        pins.pin(PinReason::TemporaryTable);
        assert!(asks_for(&pins, "SELECT 1 FROM yours"));
    }

    #[test]
    fn what_gives_back_a_lock_asks_for_it() {
        let mut pins = Pins::default();
        pins.pin_name(PinReason::NamedLock, b"a");
        assert!(asks_for(&pins, "SELECT RELEASE_LOCK('a')"));
        assert!(!asks_for(&pins, "SELECT a FROM t"));
        pins.unpin(PinReason::NamedLock);
        pins.pin(PinReason::TableLock);
        assert!(asks_for(&pins, "UNLOCK TABLES"));
        assert!(!asks_for(&pins, "SELECT RELEASE_LOCK('a')"));
    }
}
