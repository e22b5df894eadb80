//! Step 3: bytes from a client become commands, and each command begins its way.

use std::sync::Arc;

use trunkline_catalog::{Hidden, Proof};
use trunkline_protocol::{
    capability::Capabilities,
    codec::Malformed,
    codec::frame::{HEADER_LEN, PAYLOAD_MAX, begin_packet, end_packet, payload_parts, put_payload},
    command::{Command, attributes::Query, code},
    error::ErrorKind,
    packet::{
        eof::{EofPacket, put_eof},
        greeting::Flavor,
        ok::{OkPacket, put_result_end},
    },
    response::ResponseShape,
};
use trunkline_session::tracker::Charset;
use trunkline_sql::analysis::StatementKind;

use crate::{
    Action, Side,
    clients::client::{Client, Phase, Purpose, Session, Statement},
    clients::frames::{CommandEnd, Whole, command_end, is_split, joined_payload},
    commands::causal_token::asks_for_token,
    commands::internal_session::asks_for_session,
    commands::studying::is_readable,
    compressed::answer_seq,
    env::Env,
    exchange::{lost::sets_state, rolled_back::Lost},
    kill::{KillScope, KillText, kill_of},
    login::change_user::held_lease,
    prepared::{Run, is_unanswered},
    rooms::{Commands, Core, Exchange, Lender},
    routing::rewrite::Rewritten,
    routing::route::{Asking, Route, Routed, hostgroup_of},
    statement::{analysis::Known, study::STUDY_LEN_MIN},
};

/// Bytes of commands that a client may send ahead while one runs; it is not read beyond.
pub(crate) const SENT_AHEAD_MAX: usize = 64 * 1024;

/// What the server's global variables say, as no server has this collation.
pub(crate) const SERVERS_CHARSET: Charset = Charset::Collation(0);

/// Where the first command in `bytes` ends, if it is long, has a text or is an execution, and has
/// come whole.
pub(super) fn long_command_end(bytes: &[u8], payload_max: usize) -> Option<usize> {
    let is_studied = match bytes.get(HEADER_LEN) {
        Some(&(code::QUERY | code::STMT_PREPARE)) => true,
        Some(&(code::STMT_EXECUTE | code::STMT_BULK_EXECUTE)) => true,
        Some(_) | None => false,
    };
    match command_end(bytes, payload_max) {
        CommandEnd::At(end, _) if is_studied && end > STUDY_LEN_MIN => Some(end),
        CommandEnd::At(..) | CommandEnd::Partial | CommandEnd::TooLong | CommandEnd::OutOfOrder => {
            None
        }
    }
}

/// Appends a `COM_QUERY` without attributes.
/// A text, and its attributes where its client may send any.
#[inline]
fn split_query(body: &[u8], has_attributes: bool) -> Result<Query<'_>, Malformed> {
    match has_attributes {
        false => Ok(Query { attributes: None, text: body }),
        true => Query::parse(body),
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    if text.len() + 1 < PAYLOAD_MAX {
        let start = begin_packet(out, 0);
        out.push(code::QUERY);
        out.extend_from_slice(text);
        end_packet(out, start);
    } else {
        put_payload(out, 0, &[&[code::QUERY], text].concat());
    }
}

impl Client {
    /// Whether more has come behind the command that is being looked at.
    fn has_more(&mut self, is_so: bool) {
        self.io.has_more = is_so;
    }
}

impl Env {
    /// The conditions that an answer tells which leaves them as they are.
    fn told_conditions(&self, session: &Session) -> u16 {
        match self.greeting.flavor() {
            Flavor::MySql => session.past.told_conditions(),
            Flavor::MariaDb => 0,
        }
    }
}

impl Commands {
    /// Bytes of an idle client.
    #[inline]
    pub(crate) fn commands_read(&mut self, client: &mut Client, bytes: &[u8]) {
        if client.io.inbox.is_empty() {
            // The usual case: one whole command, read straight from the driver's buffer.
            let consumed = self.commands_in(client, bytes);
            let Some(rest) = bytes.get(consumed..) else {
                return;
            };
            if !rest.is_empty() {
                client.io.inbox.extend_from_slice(rest);
                self.exchange.read_behind_dump(client);
                self.exchange.core.pause_if_full(client);
            }
        } else {
            let packet_max = self.exchange.core.env.snapshot.settings.max_allowed_packet;
            client.io.keep(bytes, packet_max);
            self.drain_inbox(client);
            self.exchange.core.pause_if_full(client);
        }
    }

    /// Goes on with commands that came while another one ran.
    pub(crate) fn drain_inbox(&mut self, client: &mut Client) {
        if client.io.packing.is_some() {
            self.exchange.core.unpack_client_soon(client);
        }
        if !matches!(client.phase, Phase::Idle) {
            return;
        }
        if !client.io.inbox.is_empty() {
            self.run_inbox(client);
        }
        if client.io.is_paused {
            self.read_on(client);
        }
    }

    /// Runs the commands that a client has sent ahead, as far as that can be done at once.
    fn run_inbox(&mut self, client: &mut Client) {
        let waiting_max = self.exchange.core.env.snapshot.settings.client_buffer_max;
        let takes_answers = client.io.outbox.len() <= waiting_max;
        let mut inbox = std::mem::take(&mut client.io.inbox);
        if inbox.len() > STUDY_LEN_MIN && takes_answers && self.begin_study(client, &mut inbox) {
            return;
        }
        while inbox.len() > STUDY_LEN_MIN && takes_answers {
            let Some(rest) = self.keep_long_data(client, &mut inbox) else { break };
            inbox = rest;
        }
        let consumed = self.commands_in(client, &inbox);
        if matches!(client.phase, Phase::Closing) {
            return;
        }
        if consumed == inbox.len() {
            inbox = Vec::new();
        } else {
            inbox.drain(..consumed);
        }
        debug_assert!(client.io.inbox.is_empty());
        client.io.inbox = inbox;
        self.exchange.read_behind_dump(client);
    }

    /// Carries out the first command in the inbox, if it is a long piece of a parameter, and
    /// returns what is behind it: its buffer is kept as it is.
    fn keep_long_data(&mut self, client: &mut Client, inbox: &mut Vec<u8>) -> Option<Vec<u8>> {
        let is_piece = inbox.get(HEADER_LEN) == Some(&code::STMT_SEND_LONG_DATA);
        let payload_max = self.exchange.core.env.snapshot.settings.max_allowed_packet;
        let end = match command_end(inbox, payload_max) {
            CommandEnd::At(end, _) if is_piece && end > STUDY_LEN_MIN => end,
            _ => return None,
        };
        let rest = inbox.split_off(end);
        let frames = Arc::new(std::mem::take(inbox));
        self.exchange.core.fx.whole = Some(Whole::of(Arc::clone(&frames)));
        // What says whose piece it is comes in the first packet.
        let payload = payload_parts(&frames).next().unwrap_or_default();
        self.command(client, &frames, payload);
        self.exchange.core.fx.whole = None;
        Some(rest)
    }

    /// Reads on from a client that had sent too much ahead, once that has been carried out.
    fn read_on(&mut self, client: &mut Client) {
        let waiting_max = self.exchange.core.env.snapshot.settings.client_buffer_max;
        // The rest of a long command may be all that is missing.
        let awaits_more =
            matches!(client.phase, Phase::Idle) && client.io.outbox.len() <= waiting_max;
        let has_room = awaits_more || client.io.inbox.len() < SENT_AHEAD_MAX;
        let is_over = matches!(client.phase, Phase::Closing);
        let stays_paused = has_plant!(self.exchange.core, PausedForever);
        if has_room && !is_over && !stays_paused && !client.waits_for_memory() {
            client.io.is_paused = false;
            self.exchange.core.resume_client(client);
        }
    }

    /// Runs whole commands while the client is idle; returns how many bytes they took.
    fn commands_in(&mut self, client: &mut Client, bytes: &[u8]) -> usize {
        let payload_max = self.exchange.core.env.snapshot.settings.max_allowed_packet;
        let waiting_max = self.exchange.core.env.snapshot.settings.client_buffer_max;
        let (mut consumed, mut has_more) = (0, false);
        while let Some(rest) = bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            // One that does not take its answers gets no more of them to pile up.
            if !matches!(client.phase, Phase::Idle) || client.io.outbox.len() > waiting_max {
                break;
            }
            match command_end(rest, payload_max) {
                CommandEnd::Partial => break,
                CommandEnd::TooLong => {
                    let text = "Got a packet bigger than 'max_allowed_packet' bytes";
                    self.exchange.refuse(client, 1, ErrorKind::PacketTooLarge.says(text));
                    break;
                }
                CommandEnd::OutOfOrder => {
                    self.exchange.refuse(
                        client,
                        1,
                        ErrorKind::OutOfOrder.says("Got packets out of order"),
                    );
                    break;
                }
                CommandEnd::At(end, is_long) => {
                    consumed += end;
                    let Some(frames) = rest.get(..end) else { break };
                    if has_more != (consumed < bytes.len()) {
                        has_more = !has_more;
                        client.has_more(has_more);
                    }
                    match is_long {
                        true => self.long_command(client, frames),
                        false => {
                            self.command(client, frames, frames.get(HEADER_LEN..).unwrap_or(&[]));
                        }
                    }
                }
            }
        }
        if has_more {
            client.has_more(false);
        }
        consumed
    }

    /// A command of an idle client that is too long for the worker to look at all of it. What has
    /// a text was read beside it, but for a text that a lost transaction answers, and an execution
    /// of a statement that there is not; of these the beginning is enough. No other command is so
    /// long.
    #[cold]
    fn long_command(&mut self, client: &mut Client, frames: &[u8]) {
        let is_lost = client.session.lost.is_some();
        if is_readable(client, frames) && !is_lost && is_split(frames) {
            return self.command(client, frames, &joined_payload(frames));
        }
        let first = payload_parts(frames).next().unwrap_or_default();
        let may_be_long = matches!(
            first.first(),
            Some(
                &(code::QUERY
                    | code::STMT_PREPARE
                    | code::STMT_EXECUTE
                    | code::STMT_BULK_EXECUTE
                    | code::STMT_SEND_LONG_DATA)
            )
        );
        match may_be_long || is_lost {
            true => self.command(client, frames, first),
            false => {
                let error = ErrorKind::MalformedPacket.says("Malformed communication packet");
                self.exchange.refuse(client, answer_seq(frames), error);
            }
        }
    }

    /// One whole command of an idle client.
    #[inline]
    fn command(&mut self, client: &mut Client, frames: &[u8], payload: &[u8]) {
        client.recent_commands = client.recent_commands.saturating_add(1);
        if let Some(lost) = client.session.lost.as_ref() {
            let ends = matches!(lost, Lost::Session(_));
            match is_unanswered(payload) {
                // Who hears of a transaction goes on with its prepared statements.
                true if ends => return,
                false if self.exchange.tells_loss(client, payload) => return,
                true | false => {}
            }
        }
        self.exchange.core.fx.stats.counters.command(payload.first().copied());
        self.run_command(client, frames, payload);
    }

    /// A command that has waited begins its way anew.
    pub(super) fn command_again(&mut self, client: &mut Client, frames: &[u8]) {
        match is_split(frames) {
            true => self.payload_again(client, frames, &joined_payload(frames)),
            false => self.payload_again(client, frames, frames.get(HEADER_LEN..).unwrap_or(&[])),
        }
    }

    /// A command that has waited begins its way anew; `payload` is what is in its packets.
    pub(super) fn payload_again(&mut self, client: &mut Client, frames: &[u8], payload: &[u8]) {
        // What it was to be a part of may have gone while it waited.
        if self.exchange.tells_loss(client, payload) {
            return;
        }
        self.run_command(client, frames, payload);
    }

    #[inline]
    fn run_command(&mut self, client: &mut Client, frames: &[u8], payload: &[u8]) {
        let command = match Command::decode(payload) {
            Ok(command) => command,
            Err(_) => {
                return self.exchange.core.answer_error(
                    client,
                    ErrorKind::MalformedPacket.says("Malformed communication packet"),
                );
            }
        };
        if self.exchange.core.env.shared.globals_set()
            != self.exchange.core.servers.defaults.modes_seen
        {
            self.exchange.core.follow_set_modes(client);
        }
        match command {
            Command::Query(text) => self.query(client, frames, text),
            Command::Quit => self.exchange.quit(client),
            Command::Ping => self.exchange.core.answer_ping(client),
            Command::InitDb(name) | Command::FieldList { table: name, .. }
                if name.len() > STUDY_LEN_MIN =>
            {
                let error = ErrorKind::MalformedPacket.says("Malformed communication packet");
                self.exchange.core.answer_error(client, error);
            }
            Command::InitDb(schema) => {
                self.exchange.run_init_db(client, schema, Purpose::InitDb(schema.into()));
            }
            Command::ResetConnection => self.exchange.reset_session(client, frames),
            Command::ChangeUser(body) => self.exchange.change_user(client, body),
            Command::SetOption(option) => self.exchange.core.set_option(client, option),
            Command::StmtPrepare(text) => self.prepare(client, frames, text),
            Command::StmtExecute { stmt_id, .. } => {
                self.execute(client, frames, payload, stmt_id, Run::Once);
            }
            Command::StmtBulkExecute { stmt_id, .. } => {
                self.execute(client, frames, payload, stmt_id, Run::Bulk);
            }
            Command::StmtFetch { stmt_id, .. } => self.exchange.fetch(client, frames, stmt_id),
            Command::StmtReset { stmt_id } => self.exchange.core.reset_stmt(client, stmt_id),
            Command::StmtSendLongData { stmt_id, parameter, .. } => {
                self.exchange.core.long_data(client, frames, stmt_id, parameter);
            }
            Command::StmtClose { stmt_id } => self.exchange.core.close_stmt(client, stmt_id),
            Command::Statistics => self.exchange.plain(client, frames, ResponseShape::Text),
            Command::FieldList { table, .. } => {
                let proof = self.exchange.proof_of_description(client, table, frames);
                proof.into_iter().for_each(|proof| self.exchange.describe(client, frames, proof));
            }
            Command::ProcessInfo => self.exchange.plain(client, frames, ResponseShape::Query),
            Command::ProcessKill(number) => {
                self.exchange.kill(client, KillScope::Session, Some(number.into()));
            }
            Command::RegisterSlave(_) => self.exchange.register_replica(client, frames),
            Command::BinlogDump(_) | Command::BinlogDumpGtid(_) => {
                self.exchange.dump_binlog(client, frames)
            }
            Command::Debug
            | Command::Shutdown
            | Command::Refresh(_)
            | Command::CreateDb(_)
            | Command::DropDb(_)
            | Command::TableDump(_)
            | Command::Unknown(_) => self
                .exchange
                .core
                .answer_error(client, ErrorKind::UnknownCommand.says("Unknown command")),
        }
    }

    /// `COM_QUERY`.
    fn query(&mut self, client: &mut Client, frames: &[u8], body: &[u8]) {
        let plain = self.exchange.core.fx.plain(frames);
        let has_attributes =
            plain.is_none() && client.has_capability(Capabilities::QUERY_ATTRIBUTES);
        let Ok(Query { text, attributes }) = split_query(body, has_attributes) else {
            let error = ErrorKind::MalformedPacket.says("Malformed communication packet.");
            return self.exchange.core.answer_error(client, error);
        };
        let modes = self.exchange.core.modes(client);
        let known = self.exchange.statements.analyses.know(text, &modes);
        if !known.is_ordinary && self.exchange.answer_itself(client, &known, text) {
            return;
        }
        let Some(own) = self.exchange.prove_at_home(client, &known, Asking::Query, frames) else {
            return;
        };
        let routed = self.route_text(client, &known, text, Asking::Query, &modes, own);
        let Routed { route, directives, rewritten, server, proven } = routed;
        let mut text_len = text.len();
        let mut rewritten_text = None;
        let (statement, known) = match rewritten {
            None => {
                let mut statement =
                    self.exchange.core.statement(frames, ResponseShape::Query, Purpose::Query);
                if has_attributes {
                    statement.command.frames.own().clear();
                    put_text(statement.command.frames.own(), text);
                }
                (statement, known)
            }
            Some(rewritten) => {
                let Some(statement) = self.begin_rewritten(client, &rewritten) else { return };
                text_len = rewritten.text.len();
                rewritten_text = Some(rewritten.text);
                (statement, rewritten.known)
            }
        };
        let mut statement = statement;
        statement.command.attributes = match plain {
            Some(plain) => plain.attributes,
            None => attributes.map(Into::into),
        };
        let goes_to_server =
            matches!(route, Route::Lease(..) | Route::Hostgroup(_) | Route::Reader(_));
        statement.prove(&known, proven);
        if !known.is_ordinary && hostgroup_of(&route).is_some() {
            let text = rewritten_text.as_deref().unwrap_or(text);
            statement.meaning.definition =
                self.exchange.core.begin_definition(client, &known.analysis, text, &modes);
        }
        statement.meaning.known = Some(known);
        statement.run_on(server);
        statement.obey(directives);
        let is_answered = goes_to_server
            && (self.exchange.answer_repeated_set(client, &statement)
                || self.exchange.answer_lazily(
                    client,
                    &route,
                    &mut statement,
                    rewritten_text.as_deref().unwrap_or(text),
                ));
        if is_answered {
            return self.exchange.retire(statement);
        }
        self.submit(client, route, statement, text_len);
    }

    /// The statement that rules make of another one; `None` where that may not be run, and its
    /// client was told so.
    #[cold]
    fn begin_rewritten(
        &mut self,
        client: &mut Client,
        rewritten: &Rewritten,
    ) -> Option<Box<Statement>> {
        let core = &mut self.exchange.core;
        if kill_of(&rewritten.known.analysis) != KillText::None {
            core.not_supported(client, "a rule that makes a KILL of a statement");
            return None;
        }
        if core.refuses_local_file(client, &rewritten.known.analysis) {
            return None;
        }
        Some(core.statement_of_rewritten(
            rewritten,
            code::QUERY,
            ResponseShape::Query,
            Purpose::Query,
        ))
    }
}

impl Core {
    /// A statement under way by the text that rules made of it.
    pub(super) fn statement_of_rewritten(
        &mut self,
        rewritten: &Rewritten,
        code: u8,
        shape: ResponseShape,
        purpose: Purpose,
    ) -> Box<Statement> {
        match &rewritten.frames {
            Some(frames) => self.long_statement(Arc::clone(frames), shape, purpose),
            None => {
                let mut statement = self.statement(&rewritten.make_frames(code), shape, purpose);
                statement.command.answer_seq = self.command_seq();
                statement
            }
        }
    }

    /// Stops reading from a client that sends ahead of its replies.
    pub(crate) fn pause_if_full(&mut self, client: &mut Client) {
        let waiting_max = self.env.snapshot.settings.client_buffer_max;
        let is_busy = !matches!(client.phase, Phase::Idle) || client.io.outbox.len() > waiting_max;
        if is_busy && client.io.inbox.len() >= SENT_AHEAD_MAX && !client.io.is_paused {
            client.io.is_paused = true;
            self.fx.act(Action::Pause(Side::Client(client.id)));
        }
    }

    /// `COM_PING`. Of what the statement before has left, it changes the row count alone; MySQL
    /// tells how many conditions there are.
    fn answer_ping(&mut self, client: &mut Client) {
        client.counts_rows(0);
        let session = &*client.session;
        let warnings = self.env.told_conditions(session);
        self.write_ok(client, 1, OkPacket { warnings, ..OkPacket::default() });
    }

    /// `COM_SET_OPTION`: multi-statements on (0) or off (1). The next connection is one that was
    /// opened so; a held one is told by the same command.
    fn set_option(&mut self, client: &mut Client, option: u16) {
        // On other connections than it has now, it finds nothing of its own.
        self.fetch_all_left(client);
        let session = &mut *client.session;
        match option {
            0 => session.login.capabilities.insert(Capabilities::MULTI_STATEMENTS),
            1 => session.login.capabilities.remove(Capabilities::MULTI_STATEMENTS),
            _ => {
                return self
                    .answer_error(client, ErrorKind::UnknownCommand.says("Unknown command"));
            }
        }
        let behaviour = session.login.capabilities.intersection(crate::login::BEHAVIOUR);
        let Some(key) = self.servers.logins.accounts.key(session.login.account).cloned() else {
            return;
        };
        session.login.account = self
            .servers
            .logins
            .accounts
            .intern(crate::servers::conn::AccountKey { behaviour, ..key });
        session.past.counts_rows_apart(-1);
        let (status, format) = (session.settings.status, session.login.format);
        let account = session.login.account;
        for conn in session.leases.iter().map(|lease| lease.conn).collect::<Vec<_>>() {
            self.with_conn(conn, |core, conn| core.set_option_on(conn, option, account));
        }
        let session = &*client.session;
        let warnings = self.env.told_conditions(session);
        self.write_client(client, |out| match format.deprecate_eof {
            true => {
                put_result_end(
                    out,
                    1,
                    &OkPacket { status, warnings, ..OkPacket::default() },
                    format,
                );
            }
            false => {
                put_eof(out, 1, EofPacket { warnings, status });
            }
        });
    }
}

impl Exchange {
    /// Answers what is for the proxy itself, and what it refuses. False for what is not.
    fn answer_itself(&mut self, client: &mut Client, known: &Known, text: &[u8]) -> bool {
        match kill_of(&known.analysis) {
            KillText::None => {}
            KillText::One(scope, number) => {
                self.kill(client, scope, number);
                return true;
            }
            KillText::Refused(what) => {
                let ends = client.has_sent_ahead() && sets_state(&known.analysis);
                self.core.not_supported(client, what);
                if ends {
                    self.close_client(client);
                }
                return true;
            }
        }
        if known.analysis.kind == StatementKind::Explain
            && let Some(sql) = self.core.asks_for_route(client, text)
        {
            match sql.len() > STUDY_LEN_MIN {
                true => self.core.not_supported(client, "EXPLAIN ROUTE of more than 64 KiB"),
                false => self.answer_route(client, sql),
            }
            return true;
        }
        if text.len() > STUDY_LEN_MIN {
            return self.core.refuses_local_file(client, &known.analysis);
        }
        if asks_for_session(&known.analysis, text) {
            self.core.answer_session(client);
            return true;
        }
        if asks_for_token(&known.analysis, text) {
            self.core.answer_token(client);
            return true;
        }
        self.core.refuses_local_file(client, &known.analysis)
    }

    /// A command without a text that a server answers.
    fn plain(&mut self, client: &mut Client, frames: &[u8], shape: ResponseShape) {
        let mut statement = self.core.statement(frames, shape, Purpose::Other);
        statement.meaning.proof.hidden = Hidden::empty();
        let route = self.core.route_plain(client);
        self.run_on_route(client, route, statement);
    }

    /// `COM_FIELD_LIST`.
    fn describe(&mut self, client: &mut Client, frames: &[u8], proof: Proof) {
        let mut statement = self.core.statement(frames, ResponseShape::FieldList, Purpose::Other);
        statement.meaning.proof = proof;
        let route = self.core.route_plain(client);
        self.run_on_route(client, route, statement);
    }

    /// `COM_RESET_CONNECTION`: on the lease, if there is one; else the record alone changes.
    fn reset_session(&mut self, client: &mut Client, frames: &[u8]) {
        self.core.follow_globals(Some(client));
        let held = held_lease(&client.session);
        match self.core.keep_one_lease(client, held.map(|(_, conn)| conn)) {
            Some((hostgroup, conn)) => {
                let statement = self.core.statement(frames, ResponseShape::Single, Purpose::Reset);
                self.run_on_route(client, Route::Lease(hostgroup, conn), statement);
            }
            None => {
                self.core.forget_state(client, None);
                self.core.answer_ok(client);
            }
        }
    }

    /// `COM_QUIT`.
    fn quit(&mut self, client: &mut Client) {
        self.close_client(client);
    }
}
