//! Which statements of a transaction can be repeated.

use trunkline_catalog::Hidden;
use trunkline_protocol::response::Outcome;
use trunkline_session::tracker::PinReason;
use trunkline_sql::analysis::{
    Access, Analysis, Depends, Effect, StatementKind, TransactionEffect,
};

use crate::{
    clients::client::{Lease, Purpose, Statement},
    commands::prepared::is_bulk,
    replay::{First, Why},
    special::local_infile::Upload,
};

/// What may not happen behind a statement's names.
const HARMS: [Hidden; 5] =
    [Hidden::WRITES, Hidden::LEAVES, Hidden::STAYS, Hidden::READS_SESSION, Hidden::CHANGED];
/// What a repeated statement may not read of its connection or its session's past.
const PAST: [Depends; 8] = [
    Depends::ROW_COUNT,
    Depends::FOUND_ROWS,
    Depends::DIAGNOSTICS,
    Depends::CONNECTION_ID,
    Depends::TRACKERS,
    Depends::LAST_GTID,
    Depends::SEQUENCE,
    Depends::PAST,
];
/// Errors that undo their statement and nothing else: a duplicate key, foreign keys, values that
/// do not fit, checks.
const UNDONE: [u16; 9] = [1048, 1062, 1264, 1364, 1406, 1451, 1452, 3819, 4025];

/// Whether a statement begins a transaction by its text.
pub(crate) fn begins(statement: &Statement) -> bool {
    let known = statement.meaning.known.as_ref();
    known.is_some_and(|known| matches!(known.analysis.transaction, TransactionEffect::Begin { .. }))
}

/// Why a transaction can't be repeated any more behind a statement that was answered so.
/// `knows_id`: a statement of it has set the last insert id.
pub(crate) fn why_not(
    statement: &Statement,
    noted: &First,
    text: &[u8],
    lease: &Lease,
    outcome: &Outcome,
    knows_id: bool,
) -> Option<Why> {
    let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute)
        && !is_bulk(statement)
        && !statement.opens_cursor()
        && !noted.has_long_data
        && statement.prepared.entry.is_none()
        && statement.target.pinned_server.is_none()
        && matches!(statement.beside.upload, Upload::None);
    let Some(known) = statement.meaning.known.as_ref().filter(|_| is_run) else {
        return Some(Why::Statement);
    };
    let analysis = &known.analysis;
    let hidden = statement.meaning.proof.hidden;
    let past = PAST.iter().any(|past| analysis.depends.contains(*past))
        || analysis.depends.contains(Depends::LAST_INSERT_ID) && !knows_id
        || statement.meaning.is_recalled;
    let fails = |code: u16| !UNDONE.contains(&code) || lease.is_in_doubt;
    match () {
        () if !is_of_kind(text, analysis) => Some(Why::Statement),
        () if takes_snapshot(analysis) => Some(Why::Begin),
        () if has_effects(analysis) => Some(Why::Effects),
        () if past => Some(Why::Past),
        // What has no names of tables shows all that it does.
        () if HARMS.iter().any(|harm| hidden.may(*harm)) => Some(Why::Effects),
        () if hidden.has(Hidden::STAYS_WRITTEN) => Some(Why::Engine),
        () if lease.begun_apart => Some(Why::Begin),
        () if lease.pins.has_other_than(&[PinReason::Transaction, PinReason::Warnings]) => {
            Some(Why::Session)
        }
        () if outcome.error.as_ref().is_some_and(|error| fails(error.code)) => Some(Why::Failed),
        () => None,
    }
}

fn is_of_kind(text: &[u8], analysis: &Analysis) -> bool {
    use StatementKind as Kind;
    let is_one = analysis.statements == 1 && analysis.is_complete && !analysis.is_cut;
    let is_known = match analysis.kind {
        Kind::Select => analysis.access == Access::CertainlyReads || locks_only(text),
        Kind::SelectForUpdate => locks_only(text),
        Kind::Insert | Kind::Update | Kind::Delete | Kind::Replace => true,
        Kind::Savepoint | Kind::RollbackSavepoint | Kind::ReleaseSavepoint => true,
        Kind::Begin | Kind::StartTransaction => true,
        _ => false,
    };
    is_one && is_known
}

/// Whether it reads what is there now, and nothing of it has been told: a later snapshot would
/// differ in nothing.
fn takes_snapshot(analysis: &Analysis) -> bool {
    matches!(analysis.transaction, TransactionEffect::Begin { consistent_snapshot: true, .. })
}

/// A longer text is not searched, bytes.
const SEARCHED_MAX: usize = 64 * 1024;

/// Whether what a `SELECT` reads goes into no file of the server's. Of a long text that is not
/// known.
fn locks_only(text: &[u8]) -> bool {
    let is_short = text.len() <= SEARCHED_MAX;
    is_short
        && ![&b"OUTFILE"[..], b"DUMPFILE"]
            .iter()
            .any(|word| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word)))
}

fn has_effects(analysis: &Analysis) -> bool {
    let is_begin = matches!(analysis.transaction, TransactionEffect::Begin { .. });
    let is_inside = analysis.transaction == TransactionEffect::None;
    let is_known = |effect: &Effect| match effect {
        Effect::Savepoint => true,
        Effect::Transaction(TransactionEffect::Begin { .. }) => is_begin,
        _ => false,
    };
    !(is_inside || is_begin)
        || !analysis.effects.iter().all(is_known)
        || !analysis.set_for_statement.is_empty()
}
