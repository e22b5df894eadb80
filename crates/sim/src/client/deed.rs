//! What a client sends, and when.

use trunkline_protocol::{
    Capabilities, Malformed, codec::frame::put_payload, packet::greeting::Flavor,
};

use super::{
    Deed, Flying, Leaving, ModelClient, Phase,
    command::{Command, long_text, params, put_long_data},
};
use crate::{
    Micros,
    oracle::history::{Answer, Exchange, Kill},
    statement::{Act, Param, Statement, Tag, Template, to_sql},
};

/// Pieces of files are 1,000 to so many more bytes long.
const PIECES_LEN: u64 = 6_000;
/// Of so many files, one is broken off.
const BREAKS_OFF_EVERY: u64 = 16;
/// An id that no statement has.
const NO_STATEMENT: u32 = 4_000_000;
/// A statement of no name, for what executes nothing.
const NOTHING: Vec<Statement> = Vec::new();

impl ModelClient {
    /// When the next step can be done; `None` while something has to come first.
    pub(super) fn step_due_us(&self) -> Option<Micros> {
        if self.has_left {
            return None;
        }
        if self.is_told_to_go || self.next >= self.spec.script.len() {
            let goes = self.is_told_to_go || self.spec.leaving != Leaving::Never;
            return (self.flying.is_empty() && goes).then_some(self.due_us.unwrap_or(0));
        }
        let step = self.spec.script.get(self.next)?;
        let is_free = match goes_ahead(&step.deed) {
            true => {
                self.flying.len() < self.spec.ahead_max.max(1)
                    && self.flying.iter().all(|flying| goes_ahead(&flying.deed))
            }
            false => self.flying.is_empty(),
        };
        is_free.then_some(self.due_us.unwrap_or(0))
    }

    /// When the next step is due, now that one was done.
    pub(super) fn due_after_pause(&mut self, now: Micros) {
        let pause_us = self.spec.script.get(self.next).map_or(0, |step| step.pause_us);
        self.due_us = Some(now + pause_us);
    }

    /// Does the steps that are due.
    pub(super) fn go_on(&mut self, now: Micros) {
        while matches!(self.phase, Phase::Talking)
            && self.step_due_us().is_some_and(|due_us| due_us <= now)
        {
            let is_over = self.is_told_to_go || self.next >= self.spec.script.len();
            if is_over {
                return self.leave(now);
            }
            let Some(step) = self.spec.script.get(self.next) else {
                return;
            };
            let deed = step.deed.clone();
            self.next += 1;
            self.due_after_pause(now);
            self.do_it(deed, now);
        }
    }

    fn leave(&mut self, now: Micros) {
        self.has_left = true;
        let leaving = match (self.spec.leaving, self.is_told_to_go) {
            (Leaving::Never, true) => Leaving::Politely,
            (leaving, _) => leaving,
        };
        match leaving {
            Leaving::Politely => {
                self.transmit(vec![1, 0, 0, 0, 1]);
                self.close(false, now);
            }
            Leaving::Silently => self.close(false, now),
            Leaving::Rudely => self.close(true, now),
            Leaving::Never => {}
        }
    }

    // long: one arm for each deed.
    fn do_it(&mut self, deed: Deed, now: Micros) {
        match &deed {
            Deed::Query(statements) => {
                let text = to_sql(statements, self.spec.flavor);
                let expected = self.refusal_of(statements);
                let command = Command::query(&text);
                let statements = statements.clone();
                self.send(deed, command, text, statements, expected, now);
            }
            Deed::Prepare { slot, template, tag } => {
                self.close_slot(*slot, now);
                let text = template.to_sql(*tag);
                self.send(deed, Command::prepare(&text), text, NOTHING, None, now);
            }
            Deed::Execute { slot, tag, value, cursor, long_data } => {
                let (slot, tag, value) = (*slot, *tag, *value);
                let (cursor, long_data) = (*cursor, *long_data);
                self.execute(deed, slot, tag, value, cursor, long_data, now);
            }
            Deed::Bulk { slot, key, tags } => {
                let stmt_id = self.stmt_id(*slot);
                let rows: Vec<_> = tags.iter().map(|tag| vec![*key, tag.0]).collect();
                let text = format!("execute {stmt_id} {} times", rows.len());
                let put = |tag: &Tag| Statement::new(*tag, Act::Put { key: *key });
                let (statements, expected) = match self.slots.contains_key(slot) {
                    true => (tags.iter().map(put).collect(), None),
                    false => (NOTHING, Some(1243)),
                };
                let command = Command::bulk(stmt_id, &rows);
                self.send(deed, command, text, statements, expected, now);
            }
            Deed::Fetch { slot, rows } => {
                let stmt_id = self.stmt_id(*slot);
                let text = format!("fetch {rows} from {stmt_id}");
                let expected = self.expected_of(*slot);
                let command = Command::fetch(stmt_id, *rows);
                self.send(deed, command, text, NOTHING, expected, now);
            }
            Deed::ResetStmt(slot) => {
                let stmt_id = self.stmt_id(*slot);
                let text = format!("reset statement {stmt_id}");
                let expected = self.expected_of(*slot);
                self.send(deed, Command::reset_stmt(stmt_id), text, NOTHING, expected, now);
            }
            Deed::Close(slot) => self.close_slot(*slot, now),
            Deed::Ping => self.send(deed, Command::ping(), "ping".to_owned(), NOTHING, None, now),
            Deed::InitDb(schema) => {
                let schema = *schema;
                let text = format!("init db {}", schema.name());
                let missing = (schema == crate::statement::Schema::Missing).then_some(1049);
                self.send(deed, Command::init_db(schema), text, NOTHING, missing, now);
            }
            Deed::Reset => {
                self.send(deed, Command::reset(), "reset".to_owned(), NOTHING, None, now);
            }
            Deed::ChangeUser(identity, refusal) => {
                let (identity, refusal) = (identity.clone(), *refusal);
                self.change_user(identity, refusal, now);
            }
            Deed::Multi(on) => {
                let command = Command::multi(*on);
                self.send(deed, command, "set option".to_owned(), NOTHING, None, now);
            }
            Deed::Statistics => {
                let command = Command::statistics();
                self.send(deed, command, "statistics".to_owned(), NOTHING, None, now);
            }
            Deed::Explain { text, .. } => {
                let text = format!("EXPLAIN ROUTE {text}");
                self.send(deed, Command::query(&text), text, NOTHING, None, now);
            }
            Deed::AskForSession => {
                let text = "proxysql internal session".to_owned();
                self.send(deed, Command::query(&text), text, NOTHING, None, now);
            }
            Deed::Nonsense => {
                let command = Command::nonsense();
                self.send(deed, command, "nonsense".to_owned(), NOTHING, Some(1047), now);
            }
            Deed::Vanish { bytes } => {
                let mut out = Vec::new();
                Command::query("SELECT 1 FROM nothing WHERE nobody = 'reads this'").put(&mut out);
                out.truncate(*bytes);
                self.transmit(out);
                self.close(true, now);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one deed")]
    fn execute(
        &mut self,
        deed: Deed,
        slot: u8,
        tag: Tag,
        value: u64,
        cursor: bool,
        long_data: bool,
        now: Micros,
    ) {
        let stmt_id = self.stmt_id(slot);
        let Some(known) = self.slots.get_mut(&slot) else {
            let text = format!("execute {stmt_id}");
            let command = Command::execute(stmt_id, false, &[]);
            return self.send(deed, command, text, NOTHING, Some(1243), now);
        };
        // An execution closes the cursor of the one before, whatever comes of it.
        known.cursor.clear();
        let template = known.template;
        let text = template.to_sql(tag);
        let bound = params(template, tag, value);
        let statements: Vec<_> = template.bind(&bound).into_iter().collect();
        let mut sent = bound;
        if long_data && template == Template::Length {
            let mut out = Vec::new();
            put_long_data(&mut out, stmt_id, 1, &long_text(value));
            self.transmit(out);
            if let Some(text) = sent.get_mut(1).filter(|_| value > 0) {
                *text = Param::LongData;
            }
        }
        let cursor = cursor && template == Template::Numbers;
        let command = Command::execute(stmt_id, cursor, &sent);
        self.send(deed, command, text, statements, None, now);
    }

    fn stmt_id(&self, slot: u8) -> u32 {
        self.slots.get(&slot).map_or(NO_STATEMENT, |slot| slot.stmt_id)
    }

    fn expected_of(&self, slot: u8) -> Option<u16> {
        (!self.slots.contains_key(&slot)).then_some(1243)
    }

    fn close_slot(&mut self, slot: u8, now: Micros) {
        let Some(slot) = self.slots.remove(&slot) else {
            return;
        };
        self.shadow.session_mut().close_prepared(slot.shadow_id);
        let mut out = Vec::new();
        Command::close(slot.stmt_id).put(&mut out);
        self.transmit(out);
        let exchange = Exchange {
            is_unanswered: true,
            ..exchange(format!("close {}", slot.stmt_id), now, None)
        };
        if let Some(session) = self.history.sessions.last_mut() {
            session.exchanges.push(exchange);
        }
    }

    /// Sends a command and awaits its reply.
    fn send(
        &mut self,
        deed: Deed,
        command: Command,
        text: String,
        statements: Vec<Statement>,
        error_expected: Option<u16>,
        now: Micros,
    ) {
        let mut out = Vec::new();
        command.put(&mut out);
        self.transmit(out);
        let Some(session) = self.history.sessions.last_mut() else {
            return;
        };
        let (prepared_in, fetched) = match &deed {
            Deed::Execute { slot, .. } | Deed::Bulk { slot, .. } => {
                (self.slots.get(slot).map(|slot| slot.schema), 0)
            }
            Deed::Fetch { slot, .. } => {
                (None, self.slots.get(slot).map_or(0, |slot| slot.template.columns().len()))
            }
            _ => (None, 0),
        };
        let place = session.exchanges.len();
        let exchange = Exchange { kill: kill_of(&deed), ..exchange(text, now, error_expected) };
        session.exchanges.push(exchange);
        self.flying.push_back(Flying {
            exchange: place,
            deed,
            statements,
            prepared_in,
            shape: command.shape,
            is_binary: command.is_binary,
            fetched,
        });
        if self.flying.len() == 1 {
            self.expect_next();
        }
    }

    /// The error that a command of these statements ends with for what this client never asked for.
    fn refusal_of(&self, statements: &[Statement]) -> Option<u16> {
        let is_offered = self.login.capabilities().contains(Capabilities::LOCAL_FILES);
        match statements {
            [Statement { act: Act::Load(_), .. }] if !is_offered => Some(match self.spec.flavor {
                Flavor::MariaDb => 4166,
                Flavor::MySql => 3948,
            }),
            [_, _, ..] if !self.shadow.session().multi_statements => Some(1064),
            _ => None,
        }
    }

    /// A server asks for the file of the oldest statement under way.
    pub(super) fn send_file(&mut self, name: &str, mut seq: u8, now: Micros) {
        let statement = self.flying.front().and_then(|flying| flying.statements.first());
        let Some(&Statement { tag: Some(tag), act: Act::Load(upload) }) = statement else {
            return self.give_up(&Malformed("a request for a file that nobody has"), now);
        };
        if name != upload.name(tag.0) {
            return self.give_up(&Malformed("a request for another file"), now);
        }
        let content = upload.content(tag);
        let piece_len = usize::try_from(tag.0 % PIECES_LEN).unwrap_or_default() + 1_000;
        // Some lose their client on the way.
        let breaks_off = tag.0 % BREAKS_OFF_EVERY == 0;
        let sent = if breaks_off { content.len() / 2 } else { content.len() };
        let mut out = Vec::new();
        for piece in content.get(..sent).unwrap_or_default().chunks(piece_len) {
            seq = put_payload(&mut out, seq, piece);
        }
        if breaks_off {
            self.transmit(out);
            return self.close(true, now);
        }
        seq = put_payload(&mut out, seq, &[]);
        self.transmit(out);
        self.reader.file_sent(seq);
    }

    /// Awaits the reply to the oldest command under way.
    pub(super) fn expect_next(&mut self) {
        if let Some(flying) = self.flying.front() {
            self.reader.expect(flying.shape, flying.is_binary, flying.fetched);
        }
    }
}

fn exchange(text: String, sent_us: Micros, error_expected: Option<u16>) -> Exchange {
    Exchange {
        statements: Vec::new(),
        text,
        sent_us,
        paused_us: 0,
        answer: Answer::Pending,
        mismatch: None,
        error_expected,
        is_unanswered: false,
        kill: None,
    }
}

fn kill_of(deed: &Deed) -> Option<Kill> {
    match deed {
        Deed::Query(statements) => match statements.as_slice() {
            [Statement { act: Act::Kill { connection, query_only }, .. }] => {
                Some(Kill { number: *connection, query_only: *query_only })
            }
            _ => None,
        },
        _ => None,
    }
}

/// Commands that clients send ahead of replies; what others mean depends on replies.
fn goes_ahead(deed: &Deed) -> bool {
    match deed {
        // Whatever follows would be part of the file.
        Deed::Query(statements) => !statements.iter().any(|it| matches!(it.act, Act::Load(_))),
        Deed::Ping
        | Deed::InitDb(_)
        | Deed::Statistics
        | Deed::Explain { .. }
        | Deed::AskForSession => true,
        _ => false,
    }
}
