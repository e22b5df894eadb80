//! What each command does.

use std::collections::{BTreeMap, VecDeque};

use trunkline_protocol::{
    codec::frame::put_payload,
    command::Command,
    packet::{greeting::Flavor, status},
};

use super::{
    Record,
    conn::{Form, Job, Phase},
    host::{Host, Step},
    login::LoggedIn,
    reply::{Frame, put_failure},
    spec::AccountSpec,
};
use crate::{
    LinkId, Micros,
    session::ModelSession,
    statement::{
        Act, Answer, Done, Failure, Param, Rows, Schema, Statement, Template, parse, read_bulk,
        read_execute,
    },
};

/// The error of a server that has as many statements prepared as it may.
const NO_ROOM: u16 = 1461;

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
            Command::StmtBulkExecute { stmt_id, raw } => {
                self.execute_bulk(link, stmt_id, raw, now, record)
            }
            Command::StmtPrepare(text) => self.prepare(link, text, now, record),
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
                    session.fail(failure);
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
                let failure = Failure::new(1047, b"08S01", "Unknown command");
                put_failure(&mut out, 1, &failure);
                session.fail(failure);
            }
        }
        self.send(link, out, record);
        Step::Again
    }

    /// `COM_STMT_PREPARE`.
    fn prepare(&mut self, link: LinkId, text: &[u8], now: Micros, record: &mut Record) -> Step {
        let sessions = self.conns.values().filter_map(|conn| match &conn.phase {
            Phase::Ready(session) => Some(session.prepared_ids().count()),
            Phase::Greeted | Phase::Switched(_) => None,
        });
        let max = self.spec.prepared_max;
        if sessions.sum::<usize>() >= max {
            let text = format!(
                "Can't create more than max_prepared_stmt_count statements (current value: {max})"
            );
            record.begin(now, self.id, link, None, None);
            record.failed(NO_ROOM);
            return self.answer(link, Err(Failure::new(NO_ROOM, b"42000", text)), record);
        }
        let mut out = Vec::new();
        let Some(conn) = self.conns.get_mut(&link) else {
            return Step::Rest;
        };
        let format = conn.format;
        if let Some(session) = conn.session_mut() {
            let frame = Frame { format, status: session.status(), changes: &[] };
            let text = String::from_utf8_lossy(text);
            let named = Template::parse(&text).and_then(|(_, tag)| Some((now, tag?, link)));
            record.prepares.extend(named);
            prepare(session, &text, &frame, &mut out, record);
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
}

impl Host {
    /// `COM_STMT_BULK_EXECUTE`: the rows run one right behind the other.
    fn execute_bulk(
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
            let failure = no_statement(flavor, stmt_id, "mysqld_stmt_bulk_execute");
            return self.answer(link, Err(failure), record);
        };
        let (template, schema) = (prepared.template, prepared.schema);
        let rows = read_bulk(raw, template.params()).unwrap_or_default();
        let bound = rows.iter().map(|row| template.bind(row)).collect::<Option<VecDeque<_>>>();
        let Some(statements) = bound.filter(|statements| !statements.is_empty()) else {
            return self.answer(link, Err(malformed()), record);
        };
        let last = statements.len() - 1;
        let job = |(place, statement)| {
            let form = if place == last { Form::Binary } else { Form::Bulk };
            Job { statement, prepared_in: Some(schema), form }
        };
        self.begin(link, statements.into_iter().enumerate().map(job).collect(), now, record)
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
        let failure = no_statement(flavor, id, "mysqld_stmt_fetch");
        put_failure(out, 1, &failure);
        session.fail(failure);
        return;
    };
    let Some(cursor) = &mut prepared.cursor else {
        let text = format!("The statement ({id}) has no open cursor");
        let failure = Failure::new(1421, b"HY000", text);
        put_failure(out, 1, &failure);
        session.fail(failure);
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
