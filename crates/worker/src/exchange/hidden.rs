//! What a statement may look at of its session's past, which a server keeps on the connection.
//!
//! All of it is here: what the text names, what the session's settings make of any text, and what
//! stored routines may read. Whoever runs the statement sees to it that the connection has this
//! session's, and no other's.

use trunkline_catalog::Hidden;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_session::tracker::{PinReason, Pins, SessionState};
use trunkline_sql::analysis::{Access, Analysis, Depends, Effect};

use crate::{
    clients::client::{Purpose, Session, Statement},
    exchange::past::{PastReads, runs_a_routine},
    session_past::{FoundRows, leaves_id_when_failed},
    statement::analysis::Known,
};

/// What a statement may read of its session's past, beyond the state that is tracked.
/// `finds_by_null`: what new sessions of the servers have for `sql_auto_is_null`.
#[inline]
pub(crate) fn may_read_past(
    statement: &Statement,
    session: &Session,
    flavor: Flavor,
    finds_by_null: bool,
) -> PastReads {
    let Some(known) = statement.meaning.known.as_ref() else {
        return PastReads::default();
    };
    let by_null = session.settings.state.finds_inserted_by_null(finds_by_null);
    let may_look = statement.meaning.proof.hidden.may(Hidden::READS_SESSION);
    if known.looks_at_nothing && !by_null && !may_look && !leaves_id_when_failed(statement) {
        return PastReads::default();
    }
    past_reads(statement, known, flavor, by_null)
}

/// What a statement that looks at something may read.
#[inline(never)]
fn past_reads(statement: &Statement, known: &Known, flavor: Flavor, by_null: bool) -> PastReads {
    if is_step_of_xa(&known.analysis) {
        return PastReads::default();
    }
    let may_look = statement.meaning.proof.hidden.may(Hidden::READS_SESSION);
    let depends = |what| known.analysis.depends.contains(what);
    // A stored routine may read anything of it, and so may what stands behind a name.
    let is_routine = runs_a_routine(&known.analysis);
    let last = is_routine || depends(Depends::ROW_COUNT) || depends(Depends::DIAGNOSTICS);
    let counts = last || depends(Depends::FOUND_ROWS);
    // To set it would clear what the statement asks for.
    // What is only prepared reads no id, and to set one would clear the counts.
    let only_prepares = statement.command.purpose == Purpose::Prepare && statement.meaning.is_read;
    let reads_id = is_routine
        || !counts && (may_look || by_null)
        || depends(Depends::LAST_INSERT_ID)
        || known.may_leave_insert_id && !depends(Depends::DIAGNOSTICS);
    PastReads {
        insert_id: reads_id && !only_prepares,
        may_leave_id: leaves_id_when_failed(statement),
        last,
        found_rows: is_routine || may_look || depends(Depends::FOUND_ROWS),
        may_leave_found_rows: !counts && known.found_rows.may_stay(flavor),
        runs_code: is_routine || may_look,
        diagnostics: is_routine || depends(Depends::DIAGNOSTICS),
    }
}

/// Whether it is a step of an XA transaction and nothing else. It runs no code, and behind `XA END`
/// servers refuse whatever would be set for it.
fn is_step_of_xa(analysis: &Analysis) -> bool {
    analysis.is_complete && analysis.statements == 1 && matches!(*analysis.effects, [Effect::Xa(_)])
}

/// Whether statements of one digest look at nothing of their session's past by their texts, and
/// leave no last insert id, and no number of rows found, that is not told.
pub(crate) fn looks_at_nothing(
    analysis: &Analysis,
    may_leave_insert_id: bool,
    found_rows: FoundRows,
) -> bool {
    analysis.depends == Depends::empty()
        && !runs_a_routine(analysis)
        && !may_leave_insert_id
        && !found_rows.may_stay(Flavor::MariaDb)
}

/// A session for which `IS NULL` finds the row that it inserted last stays where it has written:
/// MariaDB finds the row once, and only on the connection that inserted it.
pub(super) fn hold(
    pins: &mut Pins,
    state: &SessionState,
    analysis: Option<&Analysis>,
    finds_by_null: bool,
) {
    let name = b"sql_auto_is_null";
    if !state.finds_inserted_by_null(finds_by_null) {
        return pins.unpin_name(PinReason::Other, name);
    }
    if analysis.is_some_and(|analysis| analysis.access == Access::MayWrite) {
        pins.pin_name_once(PinReason::Other, name);
    }
}
