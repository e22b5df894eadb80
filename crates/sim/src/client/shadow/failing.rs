//! What an error means for the session, and what nobody knows behind one until the next reply.

use trunkline_protocol::packet::status;

use super::{PROXY_ERRORS, SESSION_FLAGS, STATE_ERRORS, Shadow, is_lost_transaction};
use crate::{
    client::reply::Done,
    oracle::history::{Mismatch, MismatchKind},
    session::{DATA_ERRORS, ModelSession, Replied},
    statement::{Act, Answer, Failure, Schema, Statement},
};

impl Shadow {
    /// Whether a statement that was interrupted had begun its transaction shows in the flags of the
    /// next reply: one that waited for a connection has not.
    pub(in crate::client) fn settle_unbegun(
        &mut self,
        statement: Option<(&Statement, Option<Schema>)>,
        answer: &Answer,
        done: Option<&Done>,
    ) {
        let Some(mut unbegun) = self.unbegun.take() else {
            return;
        };
        // What the session is behind it, and the error that it ends with of itself.
        let behind = |session: &ModelSession| {
            let mut tried = session.clone();
            let run =
                statement.map(|(it, schema)| tried.run_in(it, schema, &mut Replied::new(answer)));
            let code = match run {
                Some(Answer::Failed(failure)) => Some(failure.code),
                Some(Answer::Done(_) | Answer::Rows(_)) | None => None,
            };
            (tried, code)
        };
        let Some(done) = done else {
            // An error, or a text.
            if let Answer::Failed(failure) = answer {
                let is_of = |session: &ModelSession| behind(session).1 == Some(failure.code);
                if STATE_ERRORS.contains(&failure.code) && is_of(&unbegun) && !is_of(&self.session)
                {
                    self.session = *unbegun;
                    self.unit = None;
                    return;
                }
                unbegun.fail(failure.clone());
            }
            self.unbegun = Some(unbegun);
            return;
        };
        let flags = done.status & SESSION_FLAGS;
        let fits = |(session, code): &(ModelSession, Option<u16>)| {
            code.is_none() && session.status() & SESSION_FLAGS == flags
        };
        let (begun, other) = (behind(&self.session), behind(&unbegun));
        match (fits(&begun), fits(&other)) {
            (true, true) if !begun.0.is_like(&other.0) => self.unbegun = Some(Box::new(other.0)),
            // Where nothing tells them apart any more, this one may be the transaction's first.
            (_, true) => {
                self.session = *unbegun;
                self.unit = None;
            }
            (true | false, false) => {}
        }
    }

    /// The transaction was lost with its connection, and nothing was done for what is answered so.
    pub(super) fn lose_transaction(&mut self, failure: Failure) {
        let answer = Answer::Failed(failure.clone());
        self.session.leave_transaction(&mut Replied::new(&answer));
        self.session.fail(failure);
        self.unbegun = None;
    }

    /// Whether a transaction is open that only reads.
    pub(in crate::client) fn reads_only(&self) -> bool {
        self.session.status() & status::IN_TRANS_READONLY != 0
    }

    /// Whether a statement ends a transaction that only reads, and begins something else.
    pub(super) fn moves_on(&self, statement: &Statement) -> bool {
        self.reads_only() && matches!(statement.act, Act::Begin(_) | Act::LockTables { .. })
    }

    /// An error is what the session itself brings about, or else something happened to it.
    pub(super) fn judge_failure(
        &mut self,
        statement: &Statement,
        schema: Option<Schema>,
        answer: &Answer,
        failure: &Failure,
    ) -> (Option<Mismatch>, Option<u16>) {
        if is_lost_transaction(failure) {
            self.lose_transaction(failure.clone());
            return (None, None);
        }
        let mut tried = self.session.clone();
        let expected = tried.run_in(statement, schema, &mut Replied::new(answer));
        if let Answer::Failed(expected) = &expected
            && expected.code == failure.code
        {
            self.session = tried;
            let is_of_data = DATA_ERRORS.contains(&failure.code);
            let mismatch = (expected.message != failure.message).then(|| Mismatch {
                kind: MismatchKind::Foreign,
                evidence: format!("expected {:?}, got {:?}", expected.message, failure.message),
            });
            return (mismatch, (!is_of_data).then_some(failure.code));
        }
        // Whether its cause is true is for the oracle. The session goes on as it was; what the
        // proxy says is told like a server's error.
        let before = self.session.clone();
        if PROXY_ERRORS.contains(&failure.code) {
            self.session.fail(failure.clone());
        } else {
            let data = &mut Replied::new(answer);
            self.session.fail_from_outside(statement, schema, failure.clone(), data);
        }
        if !self.session.is_like(&before) && matches!(failure.code, 1317 | 1907) {
            let mut unbegun = before;
            unbegun.fail(failure.clone());
            self.unbegun = Some(Box::new(unbegun));
        }
        if STATE_ERRORS.contains(&failure.code) {
            let evidence = format!("expected {expected:?}, got {failure:?}");
            return (Some(Mismatch { kind: MismatchKind::State, evidence }), None);
        }
        (None, None)
    }
}
