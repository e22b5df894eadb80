//! What clients ask of their prepared statements.

use std::{rc::Rc, sync::Arc};

use trunkline_catalog::{Hidden, Proof};
use trunkline_protocol::{
    capability::Capabilities,
    codec::frame::{HEADER_LEN, put_payload},
    command::attributes::{ExecutionError, PlainExecution},
    command::code,
    command::execute::{Execution, LAST_STMT_ID},
    error::{ClientError, ErrorKind},
    packet::greeting::Flavor,
    response::ResponseShape,
};
use trunkline_session::tracker::SessionState;
use trunkline_sql::{
    analysis::{Depends, Effect, TableAccess, TableUse},
    set::{Assignment, Scope},
};

use crate::{
    clients::client::{Client, Purpose, Session, SessionSettings, Statement},
    clients::frames::Text,
    prepared::{Came, ClientStmt, Contents, Entry, Fit, LongDataError},
    rooms::{Commands, Core, Exchange},
    routing::rewrite::Rewritten,
    routing::route::{Asking, Route, Routed, hostgroup_of},
    statement::Statements,
    statement::analysis::Known,
};

/// The two commands that run a prepared statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// `COM_STMT_EXECUTE`.
    Once,
    /// `COM_STMT_BULK_EXECUTE`: for many rows of parameters.
    Bulk,
}

impl Run {
    /// What servers call it in errors.
    fn function(self) -> &'static str {
        match self {
            Self::Once => "mysqld_stmt_execute",
            Self::Bulk => "mysqld_stmt_bulk_execute",
        }
    }
}

/// The parameters of an execution, from its frames; `None` when they are cut short.
pub(crate) fn execution_in(frames: &[u8], params: u16) -> Option<Execution<'_>> {
    let (code, raw) = (frames.get(HEADER_LEN)?, frames.get(HEADER_LEN + 5..)?);
    let parsed = match *code {
        code::STMT_BULK_EXECUTE => Execution::parse_bulk(raw, params),
        _ => Execution::parse(raw, params),
    };
    parsed.ok()
}

/// Why the parameters of an execution can't be read.
enum Unreadable {
    /// There is something wrong with its query attributes.
    Attributes(ExecutionError),
    /// It is of the statement that was prepared last, and has none.
    WithoutTypes,
}

/// Reads an execution's parameters as far as it takes, and remembers their types with the
/// statement. Without its query attributes, where it can have any: what servers get that know of
/// none. `is_plain`: they were taken out before.
fn read_parameters(
    client: &mut Client,
    stmt_id: u32,
    is_last: bool,
    run: Run,
    payload: &[u8],
    is_plain: bool,
) -> Result<Option<PlainExecution>, Unreadable> {
    let has_attributes = !is_plain && client.has_capability(Capabilities::QUERY_ATTRIBUTES);
    let Some(stmt) = client.session.prepared.get_mut(stmt_id) else { return Ok(None) };
    let raw = payload.get(5..).unwrap_or_default();
    let plain = match has_attributes && run == Run::Once {
        true => Some(plain_execution(stmt, raw).map_err(Unreadable::Attributes)?),
        false => None,
    };
    let raw = plain.as_ref().map_or(raw, |plain| &plain.raw);
    let execution = match run {
        Run::Once => Execution::parse(raw, stmt.entry.params),
        Run::Bulk => Execution::parse_bulk(raw, stmt.entry.params),
    };
    if stmt.entry.params == 0 && stmt.types.is_none() {
        stmt.types = Some(Rc::default());
    }
    let types = execution.ok().and_then(|execution| execution.types);
    // MariaDB takes those that came before for a statement that is named by its number only.
    if is_last && types.is_none() && stmt.entry.params > 0 {
        return Err(Unreadable::WithoutTypes);
    }
    stmt.take_types(types);
    Ok(plain)
}

/// What an execution needs of a server's statement.
pub(crate) fn fit_of<'a>(stmt: &'a ClientStmt, statement: &'a Statement) -> Fit<'a> {
    let execution = execution_in(&statement.command.frames, stmt.entry.params);
    let Some(execution) = execution.filter(|_| statement.prepared.entry.is_none()) else {
        return Fit::Unused;
    };
    if views_since(&stmt.entry, statement) != Contents::NOTHING {
        // Nobody else runs it: they may have another length or time zone.
        return Fit::Unused;
    }
    match &stmt.types {
        Some(types) => Fit::Types { types, nulls: execution.nulls, read_as: stmt.read_as.as_ref() },
        // The server says what it thinks of types that never came.
        None => Fit::Unused,
    }
}

/// What may be in names that have become views since the text was read, or of which nobody has said
/// that they have not.
pub(crate) fn views_since(entry: &Entry, statement: &Statement) -> Contents {
    let hidden = statement.meaning.proof.hidden;
    match hidden.has(Hidden::UNTOLD) {
        true => Contents::ALL.beyond(entry.contents),
        false => Contents::of_views(hidden).beyond(entry.contents),
    }
}

impl Statement {
    /// What is proven of preparing a text, of which this is proven where it runs.
    fn prove_preparing(&mut self, known: &Known, proof: Proof, flavor: Flavor) {
        match may_compute(known, proof, flavor) {
            true => self.meaning.proof = Proof { reads: false, ..proof },
            // Nothing runs, so it can be tried twice.
            false => {
                self.meaning.is_read = true;
                self.meaning.proof = Proof { reads: true, hidden: Hidden::empty() };
            }
        }
    }
}

/// Executions of longer texts are answered from no cache, bytes.
const KEY_TEXT_MAX: usize = 64 * 1024;

/// Whether a statement is an execution for many rows.
pub(crate) fn is_bulk(statement: &Statement) -> bool {
    statement.command.frames.get(HEADER_LEN) == Some(&code::STMT_BULK_EXECUTE)
}

impl ClientStmt {
    /// Appends what decides the answer to an execution; `None` when that is not for the cache:
    /// with a cursor or long data, for many rows, or when the text was read in another state than
    /// the session's own (`reading_of`).
    pub(crate) fn put_key(
        &self,
        statement: &Statement,
        reading_of: impl FnOnce(Contents) -> Arc<SessionState>,
        key: &mut Vec<u8>,
    ) -> Option<()> {
        let entry = &self.entry;
        if entry.text.len() > KEY_TEXT_MAX {
            return None;
        }
        if is_bulk(statement) || self.long.is_some() || statement.opens_cursor() || !entry.has_rows
        {
            return None;
        }
        if !Arc::ptr_eq(&reading_of(entry.contents), &entry.reading) {
            return None;
        }
        let execution = execution_in(&statement.command.frames, entry.params)?;
        let types = self.types.as_deref()?;
        for part in [&*entry.text, types, execution.nulls] {
            key.extend_from_slice(&u32::try_from(part.len()).ok()?.to_le_bytes());
            key.extend_from_slice(part);
        }
        key.extend_from_slice(execution.values());
        Some(())
    }
}

impl Client {
    /// Whether a client has agreed on this.
    pub(super) fn has_capability(&self, capability: Capabilities) -> bool {
        self.session.login.capabilities.contains(capability)
    }
}

impl Statements {
    #[cold]
    fn know_again(&mut self, entry: &Entry) -> Rc<Known> {
        let edition = self.analyses.edition();
        entry.known_by(edition).unwrap_or_else(|| {
            let known = self.analyses.know(&entry.text, &entry.modes);
            entry.knows_again(&known);
            known
        })
    }
}

impl Commands {
    /// `COM_STMT_PREPARE`.
    pub(super) fn prepare(&mut self, client: &mut Client, frames: &[u8], text: &[u8]) {
        let modes = self.exchange.core.modes(client);
        // Whatever comes of it: −1 never stands for what was prepared before.
        client.session.prepared.forget_last();
        let known = self.exchange.statements.analyses.know(text, &modes);
        if ends_others(&known) {
            let error = ErrorKind::NotPreparable.says(NOT_PREPARED);
            return self.exchange.core.refuse_prepare(client, error);
        }
        let asking = Asking::Prepare;
        let Some(own) = self.exchange.prove_at_home(client, &known, asking, frames) else { return };
        let settings = &self.exchange.core.env.snapshot.settings;
        let (count_max, held_max) = (settings.max_stmts_per_client, settings.max_allowed_packet);
        let stmts = &mut client.session.prepared;
        let count = stmts.len();
        if count >= count_max || stmts.held() + text.len() > held_max {
            let text = format!(
                "Can't create more than max_prepared_stmt_count statements (current value: {count})"
            );
            return self
                .exchange
                .core
                .refuse_prepare(client, ErrorKind::TooManyStatements.says(text));
        }
        let stmt_id = stmts.next_id();
        if let Err(error) = self.exchange.core.may_keep(client, text.len()) {
            return self.exchange.core.refuse_prepare(client, error);
        }
        let routed = self.route_text(client, &known, text, asking, &modes, own);
        let Routed { route, mut directives, rewritten, server, proven } = routed;
        // A rule's answer, and its delay, are for those who run it.
        directives.delay_ms = 0;
        let route = match route {
            Route::Ok(_) => self.exchange.core.route_plain(client),
            route => route,
        };
        let core = &mut self.exchange.core;
        let shape = ResponseShape::Prepare;
        let contents = self.exchange.statements.analyses.studied().and_then(|it| it.contents());
        let (mut statement, known, read, came) = match rewritten {
            None => {
                let statement = core.statement(frames, shape, Purpose::Prepare);
                let read = contents.map(|contents| (core.fx.text(text), contents));
                (statement, known, read, None)
            }
            Some(rewritten) if ends_others(&rewritten.known) => {
                return core.refuse_prepare(client, ErrorKind::NotPreparable.says(NOT_PREPARED));
            }
            Some(rewritten) => {
                let came = Rc::new(Came { text: core.fx.text(text), known });
                let code = code::STMT_PREPARE;
                let statement =
                    core.statement_of_rewritten(&rewritten, code, shape, Purpose::Prepare);
                let Rewritten { text, known, contents, .. } = rewritten;
                (statement, known, contents.map(|contents| (text, contents)), Some(came))
            }
        };
        statement.prepared.stmt_id = Some(stmt_id);
        statement.prepared.came = came;
        statement.prepared.read = read.map(Box::new);
        statement.prepared.in_views = Contents::in_views(proven.proof.hidden);
        statement.prepared.is_own = proven.proof.hidden.has(Hidden::READS_SESSION);
        statement.prove_preparing(&known, proven.proof, self.exchange.core.env.greeting.flavor());
        statement.meaning.known = Some(known);
        statement.run_on(server);
        statement.obey(directives);
        self.submit(client, route, statement, text.len());
    }

    /// `COM_STMT_EXECUTE` and `COM_STMT_BULK_EXECUTE`.
    pub(super) fn execute(
        &mut self,
        client: &mut Client,
        frames: &[u8],
        payload: &[u8],
        stmt_id: u32,
        run: Run,
    ) {
        if run == Run::Bulk && !client.has_capability(Capabilities::STMT_BULK_OPERATIONS) {
            let text = "This command is not supported in the prepared statement protocol yet";
            return self.exchange.core.answer_error(client, ErrorKind::NotPreparable.says(text));
        }
        let is_last = stmt_id == LAST_STMT_ID;
        let found = self.exchange.core.stmt_to_execute(client, stmt_id, run);
        let Some((stmt_id, entry, is_long)) = found else { return };
        if is_long && self.begin_study_of_texts(client, frames) {
            return;
        }
        let made_plain = self.exchange.core.fx.plain(frames);
        let is_plain = made_plain.is_some();
        let plain = match read_parameters(client, stmt_id, is_last, run, payload, is_plain) {
            Ok(plain) => plain,
            Err(unreadable) => return self.exchange.core.refuse_unreadable(client, unreadable),
        };
        let known = self.exchange.known_now(client, stmt_id, &entry);
        if !known.is_ordinary && ends_others(&known) {
            return self
                .exchange
                .core
                .answer_error(client, ErrorKind::NotPreparable.says(NOT_PREPARED));
        }
        let came = self.exchange.came_now(client, stmt_id, &entry);
        let asking = Asking::Execute(&entry.reading.schema, came.as_deref());
        let Some(own) = self.exchange.prove_at_home(client, &known, asking, frames) else { return };
        let routed = self.route_text(client, &known, &entry.text, asking, &entry.modes, own);
        let mut route = routed.route;
        let (mut entry, mut known) = (entry, known);
        if let Some(rewritten) = routed.rewritten.filter(|_| hostgroup_of(&route).is_some()) {
            match self.exchange.prepare_anew(client, stmt_id, &entry, rewritten) {
                Ok(anew) => (entry, known) = anew,
                Err(refusal) => route = Route::Error(refusal),
            }
        }
        let mut statement =
            self.exchange.core.statement(frames, ResponseShape::Query, Purpose::Execute);
        if let Some(plain) = plain {
            take_plain(&mut statement, stmt_id, &plain, payload);
        } else if let Some(made_plain) = made_plain {
            statement.command.attributes = made_plain.attributes;
        }
        statement.prepared.stmt_id = Some(stmt_id);
        statement.prove(&known, routed.proven);
        if !known.is_ordinary && hostgroup_of(&route).is_some() {
            let analysis = &known.analysis;
            statement.meaning.definition =
                self.exchange.core.begin_definition(client, analysis, &entry.text, &entry.modes);
        }
        statement.meaning.known = Some(known);
        statement.run_on(routed.server);
        statement.obey(routed.directives);
        self.submit(client, route, statement, 0);
    }
}

impl Core {
    /// The statement that an execution names, and whether its text is long; `None` where there is
    /// none that may be executed, and its client was told so.
    #[inline]
    fn stmt_to_execute(
        &mut self,
        client: &mut Client,
        stmt_id: u32,
        run: Run,
    ) -> Option<(u32, Rc<Entry>, bool)> {
        let stmt_id = self.resolve(client, stmt_id, run.function())?;
        self.close_cursor(client, stmt_id, None);
        let stmt = client.session.prepared.get_mut(stmt_id)?;
        if let Some(error) = stmt.long.as_ref().and_then(|long| long.error) {
            self.refuse_long_data(client, error);
            return None;
        }
        let (entry, is_long) = (Rc::clone(&stmt.entry), stmt.is_long());
        let is_refused =
            !entry.known.is_ordinary && self.refuses_local_file(client, &entry.known.analysis);
        (!is_refused).then_some((stmt_id, entry, is_long))
    }

    fn refuse_prepare(&mut self, client: &mut Client, error: ClientError) {
        client.session.prepared.forget_last();
        self.answer_error(client, error);
    }

    /// The statement that this id stands for; `None` after an answer that there is none.
    pub(super) fn resolve(
        &mut self,
        client: &mut Client,
        stmt_id: u32,
        function: &str,
    ) -> Option<u32> {
        let resolved = client.session.prepared.resolve(stmt_id);
        if resolved.is_none() {
            let function = match self.env.greeting.flavor() {
                Flavor::MySql => "mysql_stmt_precheck",
                Flavor::MariaDb => function,
            };
            let text =
                format!("Unknown prepared statement handler ({stmt_id}) given to {function}");
            self.answer_error(client, ErrorKind::UnknownStatement.says(text));
        }
        resolved
    }

    /// Whether a session reads texts as when this one was prepared, and did when it ran last.
    #[inline]
    pub(super) fn reads_as_prepared(
        &mut self,
        client: &mut Client,
        stmt_id: u32,
        entry: &Entry,
    ) -> bool {
        if !entry.is_read_in(&self.modes(client)) {
            return false;
        }
        let Session { settings, prepared, .. } = &mut *client.session;
        let SessionSettings { reading, state, .. } = settings;
        prepared.get(stmt_id).is_some_and(|stmt| stmt.read_as.is_none())
            && reading.is_that_of(entry, state, &mut self.servers.states)
    }

    fn refuse_unreadable(&mut self, client: &mut Client, unreadable: Unreadable) {
        match unreadable {
            Unreadable::Attributes(error) => self.refuse_execution(client, error),
            Unreadable::WithoutTypes => {
                let error = ErrorKind::MalformedPacket.says("Malformed communication packet");
                self.answer_error(client, error);
            }
        }
    }

    fn refuse_execution(&mut self, client: &mut Client, error: ExecutionError) {
        let error = match error {
            ExecutionError::Malformed(_) => {
                ErrorKind::MalformedPacket.says("Malformed communication packet.")
            }
            ExecutionError::TooFewValues => {
                ErrorKind::WrongArguments.says("Incorrect arguments to COM_STMT_EXECUTE")
            }
        };
        self.answer_error(client, error);
    }

    /// What servers answer to an execution whose long data was wrong.
    fn refuse_long_data(&mut self, client: &mut Client, error: LongDataError) {
        let error = match (error, self.env.greeting.flavor()) {
            (LongDataError::TooLong, _) => ErrorKind::LongDataTooLong.says(
                "Parameter of prepared statement which is set through mysql_send_long_data() is \
                 longer than 'max_allowed_packet' bytes",
            ),
            (LongDataError::NoMemory, _) => ErrorKind::OutOfResources.says(
                "Out of memory: there was none of memory_max for a parameter that was sent by \
                 mysql_stmt_send_long_data(); try again with less at once, or raise memory_max",
            ),
            (LongDataError::NoParameter, Flavor::MySql) => {
                ErrorKind::WrongArguments.says("Incorrect arguments to mysql_stmt_precheck")
            }
            (LongDataError::NoParameter, Flavor::MariaDb) => {
                ErrorKind::WrongArguments.says("Incorrect arguments to mysqld_stmt_send_long_data")
            }
        };
        self.answer_error(client, error);
    }
}

impl Exchange {
    /// The analysis of a prepared statement by the settings and servers of now, in the modes that
    /// it was prepared in. Servers may read it again in those of now.
    #[inline]
    fn known_now(&mut self, client: &mut Client, stmt_id: u32, entry: &Entry) -> Rc<Known> {
        let known = match entry.known.edition == self.statements.analyses.edition() {
            true => Rc::clone(&entry.known),
            false => self.statements.know_again(entry),
        };
        match self.core.reads_as_prepared(client, stmt_id, entry) {
            true => known,
            false => self.known_otherwise(client, stmt_id, entry, &known),
        }
    }

    /// The analysis of a prepared statement whose session may read its text in another way by now.
    #[cold]
    fn known_otherwise(
        &mut self,
        client: &mut Client,
        stmt_id: u32,
        entry: &Entry,
        known: &Rc<Known>,
    ) -> Rc<Known> {
        let modes = self.core.modes(client);
        let session = &mut *client.session;
        let Session { settings, prepared, .. } = session;
        let SessionSettings { reading, state, .. } = settings;
        let is_same = reading.is_that_of(entry, state, &mut self.core.servers.states);
        let now = reading.of(state, entry.contents, &mut self.core.servers.states);
        if let Some(stmt) = prepared.get_mut(stmt_id) {
            stmt.read_as = (!is_same).then_some(now);
        }
        entry.known_in(known, &modes, is_same, &mut self.statements.analyses)
    }

    /// `COM_STMT_FETCH`.
    pub(super) fn fetch(&mut self, client: &mut Client, frames: &[u8], stmt_id: u32) {
        let Some(stmt_id) = self.core.resolve(client, stmt_id, "mysqld_stmt_fetch") else { return };
        let conn = client.session.prepared.get(stmt_id).and_then(|stmt| stmt.cursor);
        let lease = client.session.leases.iter().find(|lease| Some(lease.conn) == conn);
        let Some(route) = lease.map(|lease| Route::Lease(lease.hostgroup, lease.conn)) else {
            let end = if self.core.env.greeting.flavor() == Flavor::MySql { "." } else { "" };
            let text = format!("The statement ({stmt_id}) has no open cursor{end}");
            return self.core.answer_error(client, ErrorKind::NoCursor.says(text));
        };
        let mut statement = self.core.statement(frames, ResponseShape::Fetch, Purpose::Fetch);
        statement.prepared.stmt_id = Some(stmt_id);
        self.run_on_route(client, route, statement);
    }
}

/// An execution of a client with query attributes, in the form of those without.
fn plain_execution(stmt: &ClientStmt, raw: &[u8]) -> Result<PlainExecution, ExecutionError> {
    let is_long = |param| stmt.long.as_ref().is_some_and(|long| long.has(param));
    PlainExecution::parse(raw, stmt.entry.params, is_long)
}

/// Puts an execution's plain form in the place of what came, and keeps its attributes.
fn take_plain(statement: &mut Statement, stmt_id: u32, plain: &PlainExecution, came: &[u8]) {
    let (code, raw) = (came.get(..1).unwrap_or_default(), came.get(5..).unwrap_or_default());
    let payload = [code, &stmt_id.to_le_bytes(), &plain.raw].concat();
    statement.command.frames.own().clear();
    put_payload(statement.command.frames.own(), 0, &payload);
    statement.command.attributes = plain.has_attributes.then(|| raw.into());
}

/// What a client is told that wants to prepare what can't be.
const NOT_PREPARED: &str = "This command is not supported in the prepared statement protocol yet";

/// Whether a server may call something while it prepares a text: MariaDB does with what is
/// constant, as an argument of some functions, in the text or in the views that it reads. MySQL
/// makes the user variables that are assigned.
pub(crate) fn may_compute(known: &Known, proof: Proof, flavor: Flavor) -> bool {
    let analysis = &known.analysis;
    if flavor == Flavor::MySql {
        return assigns(known);
    }
    let calls = |effect: &Effect| {
        matches!(
            effect,
            Effect::UserVariableAssigned(_)
                | Effect::LastInsertIdAssigned
                | Effect::GetLock(_)
                | Effect::ReleaseLock(_)
                | Effect::ReleaseAllLocks
        )
    };
    let reads = |table: &TableUse| table.access == TableAccess::Read;
    let reads_any = !analysis.references.is_whole || analysis.references.tables.iter().any(reads);
    analysis.depends.contains(Depends::UNKNOWN_FUNCTION)
        || analysis.effects.iter().any(calls)
        // Triggers, defaults and generated columns wait for rows.
        || reads_any && (proof.hidden.may(Hidden::WRITES) || proof.hidden.may(Hidden::LEAVES))
}

/// Whether it gives a user variable a value.
fn assigns(known: &Known) -> bool {
    let is_user_variable = |assignment: &Assignment| {
        matches!(assignment, Assignment::Variable { scope: Scope::UserVariable, .. })
    };
    known.analysis.effects.iter().any(|effect| match effect {
        Effect::UserVariableAssigned(_) => true,
        Effect::Set(assignments) => assignments.iter().any(is_user_variable),
        _ => false,
    })
}

/// Whether it is a `KILL`, or may hold one: its number may be a parameter, and is one of ours in
/// any case.
pub(super) fn ends_others(known: &Known) -> bool {
    let analysis = &known.analysis;
    analysis.is_cut || analysis.effects.iter().any(|effect| matches!(effect, Effect::Kill { .. }))
}

/// Whether a command, by its first byte, is one that nobody answers.
pub(crate) fn is_unanswered(payload: &[u8]) -> bool {
    matches!(payload.first(), Some(&(code::STMT_SEND_LONG_DATA | code::STMT_CLOSE)))
}

/// The text of a `COM_STMT_PREPARE`.
pub(crate) fn prepared_text(statement: &Statement) -> Text {
    let payload = crate::clients::frames::joined_payload(&statement.command.frames);
    payload.get(1..).unwrap_or_default().into()
}
