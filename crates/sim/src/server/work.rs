//! When the statements of a command run, what they wait for, and what they leave.

use std::collections::VecDeque;

use trunkline_protocol::packet::status;

use super::{
    Record,
    conn::{Conn, Form, Job, Phase, Stage, Work},
    host::{Host, Step},
    reply::Frame,
    store::{Ended, View},
};
use crate::{
    LinkId, Micros,
    oracle::facts::Effect,
    session::{Claim, Mode, ModelSession, Resource},
    statement::{Act, Answer, Failure},
};

impl Host {
    /// A command's statements are worked on from now on.
    pub(super) fn begin(
        &mut self,
        link: LinkId,
        jobs: VecDeque<Job>,
        now: Micros,
        record: &mut Record,
    ) -> Step {
        let due = now + self.time_for(jobs.front(), now);
        if let Some(conn) = self.conns.get_mut(&link) {
            conn.work = Some(Work::new(jobs, due));
            record.wake(due, link);
        }
        Step::Rest
    }

    fn time_for(&mut self, job: Option<&Job>, now: Micros) -> Micros {
        let asleep = match job.map(|job| &job.statement.act) {
            Some(Act::Sleep { ms }) => ms.saturating_mul(1_000),
            _ => 0,
        };
        self.service_us(now).saturating_add(asleep)
    }

    /// The next statement of a command runs, or waits for locks.
    pub(super) fn work_on(&mut self, link: LinkId, now: Micros, record: &mut Record) -> Step {
        let Some((claims, is_get_lock)) = self.claims(link) else {
            if let Some(conn) = self.conns.get_mut(&link) {
                conn.work = None;
            }
            return Step::Again;
        };
        if let Some(step) = self.ask_for_file(link, now, record) {
            return step;
        }
        if self.locks.are_free(link, &claims) {
            let failure = self.planned_failure(link);
            return self.run_next(link, now, failure, record);
        }
        let lock_wait_us = match is_get_lock {
            Some(seconds) => seconds.saturating_mul(1_000_000),
            None => self.spec.lock_wait_us,
        };
        let is_deadlock = self.waits_for_itself(link);
        let Some(work) = self.conns.get_mut(&link).and_then(|conn| conn.work.as_mut()) else {
            return Step::Rest;
        };
        if work.stage == Stage::Serving {
            if is_deadlock {
                return self.run_next(link, now, Some(deadlock(is_get_lock.is_some())), record);
            }
            work.stage = Stage::Waiting;
            work.due = now + lock_wait_us;
            record.wake(work.due, link);
            self.waiting.push_back(link);
            return Step::Rest;
        }
        if now < work.due {
            return Step::Rest;
        }
        // `GET_LOCK` gives up with a 0.
        let failure = is_get_lock.is_none().then(|| super::fault::failure_of(1205));
        self.run_next(link, now, failure, record)
    }

    /// What a connection's next statement wants to have, and for `GET_LOCK` how many seconds it
    /// waits.
    fn claims(&self, link: LinkId) -> Option<(Vec<Claim>, Option<u64>)> {
        let conn = self.conns.get(&link)?;
        let job = conn.work.as_ref()?.jobs.front()?;
        let Phase::Ready(session) = &conn.phase else {
            return None;
        };
        let schema = job.prepared_in.unwrap_or(session.schema);
        let seconds = match job.statement.act {
            Act::GetLock { seconds, .. } => Some(seconds),
            _ => None,
        };
        Some((session.claims(&job.statement.act, schema), seconds))
    }

    /// What a connection's next statement takes if it is free.
    fn besides(&self, link: LinkId) -> Option<Claim> {
        let conn = self.conns.get(&link)?;
        let job = conn.work.as_ref()?.jobs.front()?;
        match &conn.phase {
            Phase::Ready(session) => session.takes_besides(&job.statement.act),
            _ => None,
        }
    }

    /// Whether what keeps a connection waiting waits for that connection.
    fn waits_for_itself(&self, link: LinkId) -> bool {
        let mut seen = Vec::new();
        let mut next = vec![link];
        while let Some(waiter) = next.pop() {
            let Some((claims, _)) = self.claims(waiter) else {
                continue;
            };
            if waiter != link && !self.waiting.contains(&waiter) {
                continue;
            }
            for claim in claims {
                for blocker in self.locks.blockers(waiter, claim) {
                    if blocker == link {
                        return true;
                    }
                    if !seen.contains(&blocker) {
                        seen.push(blocker);
                        next.push(blocker);
                    }
                }
            }
        }
        false
    }

    /// The error that a plan or this server's role has for a connection's next statement.
    pub(super) fn planned_failure(&mut self, link: LinkId) -> Option<Failure> {
        let job = self.conns.get(&link)?.work.as_ref()?.jobs.front()?;
        let Phase::Ready(session) = &self.conns.get(&link)?.phase else {
            return None;
        };
        // Only what locks to write can be in a deadlock, or wait for too long.
        let schema = job.prepared_in.unwrap_or(session.schema);
        let locks = session.claims(&job.statement.act, schema);
        let is_locking = locks.iter().any(|claim| claim.mode != Mode::Read);
        let fits = |failure: &&Failure| is_locking || !matches!(failure.code, 1213 | 1205);
        if job.statement.tag.is_some() && self.errors.front().filter(fits).is_some() {
            return self.errors.pop_front();
        }
        let writes = session.writes_tables(&job.statement.act);
        (self.is_read_only && writes).then(|| {
            let text = "The server is running with the --read-only option so it cannot execute \
                        this statement";
            Failure::new(1290, b"HY000", text)
        })
    }

    /// Runs a connection's next statement, or fails it, and answers.
    pub(super) fn run_next(
        &mut self,
        link: LinkId,
        now: Micros,
        failure: Option<Failure>,
        record: &mut Record,
    ) -> Step {
        self.waiting.retain(|waiting| *waiting != link);
        let mut claims = self.claims(link).map(|(claims, _)| claims).unwrap_or_default();
        claims.extend(self.besides(link));
        let work = self.conns.get_mut(&link).and_then(|conn| conn.work.as_mut());
        let Some(job) = work.and_then(|work| work.jobs.pop_front()) else {
            return Step::Rest;
        };
        let session = self.conns.get_mut(&link).and_then(Conn::session_mut);
        let schema = job.prepared_in.unwrap_or(session.and_then(|session| session.schema));
        record.begin(now, self.id, link, job.statement.tag, schema);
        let answer = self.with_view(link, now, record, |session, view| {
            let schema = job.prepared_in.unwrap_or(session.schema);
            match failure {
                Some(failure) => session.fail_from_outside(&job.statement, schema, failure, view),
                None => session.run_in(&job.statement, schema, view),
            }
        });
        let Some((mut answer, has_ended)) = answer else {
            return Step::Rest;
        };
        self.settle_locks(link, &claims, has_ended, now, record);
        if let Answer::Failed(failure) = &answer {
            record.failed(failure.code);
        }
        self.reply(link, &job, &mut answer, now, record)
    }

    /// Sends a statement's answer, and goes on with the next one of the command.
    fn reply(
        &mut self,
        link: LinkId,
        job: &Job,
        answer: &mut Answer,
        now: Micros,
        record: &mut Record,
    ) -> Step {
        let next = self.conns.get(&link).and_then(|conn| conn.work.as_ref()?.jobs.front().cloned());
        let next = next.filter(|_| !matches!(answer, Answer::Failed(_)));
        let time_us = self.time_for(next.as_ref(), now);
        if let (Form::Bulk, Answer::Done(done)) = (job.form, &*answer) {
            let work = self.conns.get_mut(&link).and_then(|conn| conn.work.as_mut());
            if let Some(work) = work {
                work.affected += done.affected;
                work.stage = Stage::Serving;
                work.due = now;
            }
            // Nothing comes between: they are one statement.
            return self.run_next(link, now, None, record);
        }
        let is_late = self.rng.chance(self.spec.late_replies, 100);
        let Some(conn) = self.conns.get_mut(&link) else {
            return Step::Rest;
        };
        let format = conn.format;
        let (seq, affected) = conn.work.as_ref().map_or((1, 0), |work| (work.seq, work.affected));
        if let Answer::Done(done) = &mut *answer {
            done.affected += affected;
        }
        let Some(session) = conn.session_mut() else {
            return Step::Rest;
        };
        let changes = session.take_changes(true);
        let more = if next.is_some() { status::MORE_RESULTS } else { 0 };
        let frame = Frame { format, status: session.status() | more, changes: &changes };
        let mut out = Vec::new();
        let seq = frame.put(&mut out, seq, answer, job.form);
        if let (Form::Cursor(id), Answer::Rows(rows)) = (job.form, answer)
            && let Some(prepared) = session.prepared_mut(id)
        {
            prepared.cursor = Some(std::mem::take(&mut rows.rows).into());
        }
        let due = now + time_us;
        let Some(work) = &mut conn.work else {
            return Step::Rest;
        };
        work.seq = seq;
        work.due = due;
        if next.is_some() {
            work.stage = Stage::Serving;
            record.wake(due, link);
            self.send(link, out, record);
            return Step::Rest;
        }
        work.jobs.clear();
        if is_late {
            work.stage = Stage::Replying(out);
            record.wake(due, link);
            return Step::Rest;
        }
        conn.work = None;
        self.send(link, out, record);
        Step::Again
    }

    /// The session is as after its login, and holds nothing.
    pub(super) fn reset(&mut self, link: LinkId, now: Micros, record: &mut Record) {
        self.with_view(link, now, record, |session, view| session.reset(view));
        self.settle_locks(link, &[], true, now, record);
    }

    /// Lets a session do something on the tables, and carries out what came of it. Returns
    /// whether a transaction ended.
    fn with_view<T>(
        &mut self,
        link: LinkId,
        now: Micros,
        record: &mut Record,
        act: impl FnOnce(&mut ModelSession, &mut View<'_>) -> T,
    ) -> Option<(T, bool)> {
        let conn = self.conns.get_mut(&link)?;
        let Phase::Ready(session) = &mut conn.phase else {
            return None;
        };
        let mut view = View {
            store: &mut self.store,
            pending: &mut conn.pending,
            locks: &self.locks,
            numbers: &self.numbers,
            execution: record.executions.len().saturating_sub(1),
            link,
            ended: Ended::default(),
        };
        let value = act(session, &mut view);
        let ended = view.ended;
        self.killed.extend(ended.killed);
        let has_ended = !ended.committed.is_empty() || !ended.rolled_back.is_empty();
        record.mark(&conn.pending.executions, Effect::Open);
        for pending in ended.rolled_back {
            record.mark(&pending.executions, Effect::RolledBack);
        }
        let mark = session.mark();
        let commits: Vec<_> = ended
            .committed
            .into_iter()
            .filter_map(|pending| self.commit(pending, mark, now, record))
            .collect();
        let session = self.conns.get_mut(&link).and_then(Conn::session_mut);
        if let (Some(session), Some(gtid)) = (session, commits.last()) {
            session.committed(*gtid);
        }
        Some((value, has_ended))
    }

    /// A connection keeps the locks that its session is to keep, and takes those that it claimed
    /// just now.
    fn settle_locks(
        &mut self,
        link: LinkId,
        claims: &[Claim],
        has_ended: bool,
        now: Micros,
        record: &mut Record,
    ) {
        let Some(conn) = self.conns.get_mut(&link) else {
            return;
        };
        let Phase::Ready(session) = &conn.phase else {
            return;
        };
        let ends = |claim: &Claim| {
            let is_transactions = matches!(
                claim,
                Claim { resource: Resource::Row(..), .. } | Claim { mode: Mode::Write, .. }
            );
            !session.keeps(claim) || has_ended && is_transactions
        };
        let (gone, mut held): (Vec<_>, Vec<_>) = conn.held.iter().copied().partition(ends);
        for claim in &gone {
            self.locks.give_back(link, *claim);
        }
        for claim in claims {
            let is_free = self.locks.are_free(link, &[*claim]);
            if is_free && session.keeps(claim) && !held.contains(claim) {
                self.locks.take(link, *claim);
                held.push(*claim);
            }
        }
        conn.held = held;
        if !gone.is_empty() {
            self.wake_waiting(now, record);
        }
    }
}

/// The error of a planned or found deadlock.
fn deadlock(of_named_lock: bool) -> Failure {
    match of_named_lock {
        true => {
            let text = "Deadlock found when trying to get user-level lock";
            Failure::new(3058, b"HY000", text)
        }
        false => super::fault::failure_of(1213),
    }
}
