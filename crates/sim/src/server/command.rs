//! What each command does, and when its statements run.

use std::collections::{BTreeMap, VecDeque};

use trunkline_protocol::{
    codec::frame::put_payload,
    command::Command,
    packet::{greeting::Flavor, status},
};

use super::{
    Record,
    conn::{Form, Job, Phase, Stage, Work},
    host::{Host, Step},
    login::LoggedIn,
    reply::{Frame, put_failure},
    spec::AccountSpec,
    store::{Ended, View},
};
use crate::{
    LinkId, Micros,
    oracle::facts::Effect,
    session::{Claim, Mode, ModelSession, Resource},
    statement::{
        Act, Answer, Done, Failure, Param, Rows, Schema, Statement, Template, parse, read_execute,
    },
};

impl Host {
    /// A whole command of a session.
    pub(super) fn command(
        &mut self,
        link: LinkId,
        payload: &[u8],
        now: Micros,
        accounts: &BTreeMap<String, AccountSpec>,
        record: &mut Record,
    ) -> Step {
        let Ok(command) = Command::decode(payload) else {
            return self.answer(link, Err(malformed()), record);
        };
        match command {
            Command::Query(text) => self.query(link, text, now, record),
            Command::StmtExecute { stmt_id, raw } => self.execute(link, stmt_id, raw, now, record),
            Command::Quit => {
                self.close(link, now, false, record);
                Step::Rest
            }
            Command::ChangeUser(body) => self.change_user(link, body, now, accounts, record),
            Command::ResetConnection => {
                self.reset(link, now, record);
                self.answer(link, Ok(Done::default()), record)
            }
            Command::InitDb(schema) => {
                let schema = Schema::from_name(schema);
                let used = self.session(link).map(|session| session.use_schema(schema));
                let used = used.unwrap_or(Ok(()));
                self.answer(link, used.map(|()| Done::default()), record)
            }
            Command::Ping => self.answer(link, Ok(Done::default()), record),
            Command::ProcessKill(number) => match self.numbers.get(&u64::from(number)) {
                Some(victim) => {
                    self.killed.push((*victim, false));
                    self.answer(link, Ok(Done::default()), record)
                }
                None => {
                    let text = format!("Unknown thread id: {number}");
                    self.answer(link, Err(Failure::new(1094, b"HY000", text)), record)
                }
            },
            _ => self.lesser_command(link, command, record),
        }
    }

    /// Commands that are answered at once and change little.
    fn lesser_command(&mut self, link: LinkId, command: Command<'_>, record: &mut Record) -> Step {
        let mut out = Vec::new();
        let flavor = self.spec.flavor;
        let threads = self.conns.len();
        let Some(conn) = self.conns.get_mut(&link) else {
            return Step::Rest;
        };
        let format = conn.format;
        let Some(session) = conn.session_mut() else {
            return Step::Rest;
        };
        let frame = Frame { format, status: session.status(), changes: &[] };
        match command {
            Command::StmtPrepare(text) => {
                let text = String::from_utf8_lossy(text);
                prepare(session, &text, &frame, &mut out, record);
            }
            Command::StmtSendLongData { stmt_id, parameter, data } => {
                if let Some(prepared) = session.prepared_mut(stmt_id) {
                    let text = prepared.long_data.entry(parameter).or_default();
                    text.extend_from_slice(data);
                }
            }
            Command::StmtClose { stmt_id } => session.close_prepared(stmt_id),
            Command::StmtReset { stmt_id } => match session.prepared_mut(stmt_id) {
                Some(prepared) => {
                    prepared.long_data.clear();
                    prepared.cursor = None;
                    frame.put_done(&mut out, 1, Done::default());
                }
                None => {
                    let failure = no_statement(flavor, stmt_id, "mysqld_stmt_reset");
                    put_failure(&mut out, 1, &failure);
                }
            },
            Command::StmtFetch { stmt_id, rows } => {
                fetch(session, stmt_id, rows, &frame, &mut out);
            }
            Command::SetOption(option @ (0 | 1)) => {
                session.multi_statements = option == 0;
                frame.put_end(&mut out, 1);
            }
            Command::Statistics => {
                put_payload(&mut out, 1, format!("Uptime: 1  Threads: {threads}").as_bytes());
            }
            Command::FieldList { table: b"kv", .. } if session.schema.is_some() => {
                frame.put_field_list(&mut out, &["k", "v"]);
            }
            Command::FieldList { .. } => {
                put_failure(&mut out, 1, &Failure::new(1146, b"42S02", "Table doesn't exist"));
            }
            Command::ProcessInfo if flavor == Flavor::MariaDb => {
                let rows = vec![vec![Some(threads.to_string())]];
                let rows = Rows { columns: &["Threads"], rows, warnings: 0 };
                frame.put(&mut out, 1, &Answer::Rows(rows), Form::Text);
            }
            _ => {
                put_failure(&mut out, 1, &Failure::new(1047, b"08S01", "Unknown command"));
            }
        }
        self.send(link, out, record);
        Step::Again
    }

    fn session(&mut self, link: LinkId) -> Option<&mut ModelSession> {
        self.conns.get_mut(&link)?.session_mut()
    }

    /// Answers a command that is no statement.
    fn answer(&mut self, link: LinkId, result: Result<Done, Failure>, record: &mut Record) -> Step {
        let Some(conn) = self.conns.get_mut(&link) else {
            return Step::Rest;
        };
        let format = conn.format;
        let mut out = Vec::new();
        if let Some(session) = conn.session_mut() {
            match result {
                Ok(done) => {
                    let changes = session.take_changes(false);
                    let frame = Frame { format, status: session.status(), changes: &changes };
                    frame.put_done(&mut out, 1, done);
                }
                Err(failure) => {
                    put_failure(&mut out, 1, &failure);
                    session.fail(failure);
                }
            }
        }
        self.send(link, out, record);
        Step::Again
    }

    fn change_user(
        &mut self,
        link: LinkId,
        body: &[u8],
        now: Micros,
        accounts: &BTreeMap<String, AccountSpec>,
        record: &mut Record,
    ) -> Step {
        self.reset(link, now, record);
        let mut out = Vec::new();
        let flavor = self.spec.flavor;
        let Some(conn) = self.conns.get_mut(&link) else {
            return Step::Rest;
        };
        let logged_in = conn.change_user(body, flavor, accounts, &mut out);
        self.send(link, out, record);
        if logged_in == LoggedIn::No {
            self.close(link, now, false, record);
            return Step::Rest;
        }
        Step::Again
    }

    /// `COM_QUERY`.
    fn query(&mut self, link: LinkId, text: &[u8], now: Micros, record: &mut Record) -> Step {
        let text = String::from_utf8_lossy(text);
        let statements = parse(&text);
        for statement in &statements {
            if let Act::Unknown(text) = &statement.act {
                record.unknown.push(text.clone());
            }
        }
        let is_multi = self.session(link).is_some_and(|session| session.multi_statements);
        match statements.len() {
            0 => {
                return self.answer(
                    link,
                    Err(Failure::new(1065, b"42000", "Query was empty")),
                    record,
                );
            }
            1 => {}
            _ if is_multi => {}
            _ => {
                let text = "You have an error in your SQL syntax near ';' at line 1";
                return self.answer(link, Err(Failure::new(1064, b"42000", text)), record);
            }
        }
        let job = |statement| Job { statement, prepared_in: None, form: Form::Text };
        self.begin(link, statements.into_iter().map(job).collect(), now, record)
    }

    /// `COM_STMT_EXECUTE`.
    fn execute(
        &mut self,
        link: LinkId,
        stmt_id: u32,
        raw: &[u8],
        now: Micros,
        record: &mut Record,
    ) -> Step {
        let flavor = self.spec.flavor;
        let prepared = self.session(link).and_then(|session| session.prepared_mut(stmt_id));
        let Some(prepared) = prepared else {
            let failure = no_statement(flavor, stmt_id, "mysqld_stmt_execute");
            return self.answer(link, Err(failure), record);
        };
        prepared.cursor = None;
        let long_data = std::mem::take(&mut prepared.long_data);
        let has_long_data = |place: u16| long_data.contains_key(&place);
        let (template, schema) = (prepared.template, prepared.schema);
        let Ok(execution) = read_execute(raw, template.params(), has_long_data) else {
            return self.answer(link, Err(malformed()), record);
        };
        let params = (0_u16..).zip(execution.params).map(|(place, param)| match param {
            Param::LongData => Param::Text(long_data.get(&place).cloned().unwrap_or_default()),
            other => other,
        });
        let Some(statement) = template.bind(&params.collect::<Vec<_>>()) else {
            return self.answer(link, Err(malformed()), record);
        };
        let form = match execution.cursor && !template.columns().is_empty() {
            true => Form::Cursor(stmt_id),
            false => Form::Binary,
        };
        let job = Job { statement, prepared_in: Some(schema), form };
        self.begin(link, VecDeque::from([job]), now, record)
    }

    /// A command's statements are worked on from now on.
    fn begin(
        &mut self,
        link: LinkId,
        jobs: VecDeque<Job>,
        now: Micros,
        record: &mut Record,
    ) -> Step {
        let due = now + self.time_for(jobs.front(), now);
        if let Some(conn) = self.conns.get_mut(&link) {
            conn.work = Some(Work { jobs, stage: Stage::Serving, due, seq: 1 });
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
    fn planned_failure(&mut self, link: LinkId) -> Option<Failure> {
        let job = self.conns.get(&link)?.work.as_ref()?.jobs.front()?;
        if job.statement.tag.is_some()
            && let Some(failure) = self.errors.pop_front()
        {
            return Some(failure);
        }
        let Phase::Ready(session) = &self.conns.get(&link)?.phase else {
            return None;
        };
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
        let claims = self.claims(link).map(|(claims, _)| claims).unwrap_or_default();
        let work = self.conns.get_mut(&link).and_then(|conn| conn.work.as_mut());
        let Some(job) = work.and_then(|work| work.jobs.pop_front()) else {
            return Step::Rest;
        };
        record.begin(now, self.id, link, job.statement.tag);
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
        let is_late = self.rng.chance(self.spec.late_replies, 100);
        let Some(conn) = self.conns.get_mut(&link) else {
            return Step::Rest;
        };
        let format = conn.format;
        let seq = conn.work.as_ref().map_or(1, |work| work.seq);
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
    fn reset(&mut self, link: LinkId, now: Micros, record: &mut Record) {
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
        for pending in ended.committed {
            self.commit(pending, now, record);
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

/// Answers a `COM_STMT_PREPARE`.
fn prepare(
    session: &mut ModelSession,
    text: &str,
    frame: &Frame<'_>,
    out: &mut Vec<u8>,
    record: &mut Record,
) {
    let prepared = match Template::parse(text) {
        Some((template, _)) => session.prepare(template).map(|id| (id, template)),
        None => {
            let is_broken = matches!(parse(text).as_slice(), [Statement { act: Act::Broken, .. }]);
            if !is_broken {
                record.unknown.push(text.to_owned());
            }
            let text = format!("You have an error in your SQL syntax near '{text}' at line 1");
            Err(Failure::new(1064, b"42000", text))
        }
    };
    match prepared {
        Ok((id, template)) => frame.put_prepared(out, id, template.params(), template.columns()),
        Err(failure) => {
            put_failure(out, 1, &failure);
            session.fail(failure);
        }
    }
}

/// Answers a `COM_STMT_FETCH`.
fn fetch(session: &mut ModelSession, id: u32, count: u32, frame: &Frame<'_>, out: &mut Vec<u8>) {
    let flavor = session.flavor();
    let Some(prepared) = session.prepared_mut(id) else {
        put_failure(out, 1, &no_statement(flavor, id, "mysqld_stmt_fetch"));
        return;
    };
    let Some(cursor) = &mut prepared.cursor else {
        let text = format!("The statement ({id}) has no open cursor");
        put_failure(out, 1, &Failure::new(1421, b"HY000", text));
        return;
    };
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    let rows: Vec<_> = cursor.drain(..wanted.min(cursor.len())).collect();
    // Only a fetch that finds fewer rows than it asked for sees the end.
    let flag = match rows.len() < wanted {
        true => status::LAST_ROW_SENT,
        false => status::CURSOR_EXISTS,
    };
    if flag == status::LAST_ROW_SENT {
        prepared.cursor = None;
    }
    Frame { status: frame.status | flag, ..*frame }.put_fetched(out, &rows);
}

fn no_statement(flavor: Flavor, id: u32, function: &str) -> Failure {
    let function = match flavor {
        Flavor::MariaDb => function,
        Flavor::MySql => "mysql_stmt_precheck",
    };
    let text = format!("Unknown prepared statement handler ({id}) given to {function}");
    Failure::new(1243, b"HY000", text)
}

fn malformed() -> Failure {
    Failure::new(1835, b"HY000", "Malformed communication packet")
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
