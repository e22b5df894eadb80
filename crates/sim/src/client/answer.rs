//! What a reply means for the client's session.

use trunkline_protocol::packet::status;

use super::{
    Deed, Flying, ModelClient, Slot,
    reply::{self, Part, Reply, error_of},
    shadow::{PROXY_ERRORS, answer_of, done_of},
};
use crate::{
    Micros,
    oracle::history::{Answer, Mismatch, MismatchKind, Said},
    statement::{Cell, Template},
};

/// What is learned from one reply.
#[derive(Default)]
struct Learned {
    statements: Vec<Said>,
    mismatch: Option<Mismatch>,
    error_expected: Option<u16>,
}

impl ModelClient {
    /// The reply to the oldest command under way is whole.
    pub(super) fn answered(&mut self, mut reply: Reply, now: Micros) {
        let Some(flying) = self.flying.pop_front() else {
            return;
        };
        let learned = match &flying.deed {
            Deed::Query(_) => self.statements_answered(&flying, &reply, now),
            Deed::Execute { slot, cursor, .. } => {
                let opens = *cursor
                    && self.slots.get(slot).is_some_and(|it| it.template == Template::Numbers);
                match opens && error_of(&reply).is_none() {
                    true => self.cursor_opened(*slot, &flying, &reply),
                    false => self.statements_answered(&flying, &reply, now),
                }
            }
            Deed::Bulk { .. } => {
                reply = one_by_one(reply, flying.statements.len());
                self.statements_answered(&flying, &reply, now)
            }
            Deed::Prepare { slot, template, .. } => self.prepared(*slot, *template, &reply),
            Deed::Fetch { slot, rows } => self.fetched(*slot, *rows, &reply),
            Deed::Explain { name, .. } => self.explained(name, &reply),
            Deed::AskForSession => self.shown(&reply),
            Deed::Ping
            | Deed::InitDb(_)
            | Deed::Reset
            | Deed::Multi(_)
            | Deed::ResetStmt(_)
            | Deed::Close(_)
            | Deed::ChangeUser(..)
            | Deed::Statistics
            | Deed::Nonsense
            | Deed::Vanish { .. } => self.acknowledged(&flying.deed, &reply),
        };
        let session = self.history.sessions.last_mut();
        let Some(exchange) = session.and_then(|it| it.exchanges.get_mut(flying.exchange)) else {
            return;
        };
        exchange.answer = Answer::Whole(now, reply);
        exchange.statements = learned.statements;
        exchange.mismatch = learned.mismatch;
        exchange.error_expected = exchange.error_expected.or(learned.error_expected);
        if self.flying.is_empty() {
            self.due_after_pause(now);
        }
    }

    /// Each statement of a command with its part of the reply.
    fn statements_answered(&mut self, flying: &Flying, reply: &Reply, now: Micros) -> Learned {
        let mut learned = Learned::default();
        if let (true, Some(error)) = (flying.statements.is_empty(), error_of(reply)) {
            // It ran nothing: an id that nobody has.
            self.shadow.command_failed(error, &mut self.rows);
        }
        let mut parts = reply.iter().filter(|part| !matches!(part, Part::Rows { end: None, .. }));
        let is_lost = error_of(reply).is_some_and(|error| PROXY_ERRORS.contains(&error.code));
        for (place, statement) in flying.statements.iter().enumerate() {
            let schema = flying.prepared_in.unwrap_or(self.shadow.session().schema);
            let Some(part) = parts.next() else {
                // Behind an error nothing runs, unless nobody knows where the error fell.
                let is_next = !is_lost || place == 0;
                let prepared_in = flying.prepared_in;
                let rows = is_lost.then_some(&mut self.rows);
                let said = self.shadow.unanswered(statement, prepared_in, is_next, rows);
                learned.statements.push(said);
                continue;
            };
            // What stands behind the end of it may be for the writer, and then all of it is.
            let may_move_on = flying.statements.len() > 1 && self.shadow.reads_only();
            let judged =
                self.shadow.judge(statement, schema, part, &mut self.units, &mut self.rows, now);
            let is_prepared = flying.prepared_in.is_some();
            let moves_on = judged.said.moves_on || may_move_on && judged.said.ends.is_some();
            learned.statements.push(Said { is_prepared, moves_on, ..judged.said });
            learned.mismatch = learned.mismatch.or(judged.mismatch);
            learned.error_expected = learned.error_expected.or(judged.error_expected);
        }
        if flying.statements.len() > 1 && error_of(reply).is_some() {
            // Some of them may have run: the proxy does not know what they left.
            self.shadow.is_held();
        }
        if let Some(part) = parts.next() {
            let is_error_of_nothing = flying.statements.is_empty() && error_of(reply).is_some();
            if !is_error_of_nothing && learned.mismatch.is_none() {
                learned.mismatch = Some(shape(&format!("nothing more, got {part:?}")));
            }
        }
        learned
    }

    /// Rows wait on the server; the shadow has them all.
    fn cursor_opened(&mut self, slot: u8, flying: &Flying, reply: &Reply) -> Learned {
        let mut learned = Learned::default();
        let Some(statement) = flying.statements.first() else {
            return learned;
        };
        let opened = match reply.as_slice() {
            [Part::Rows { columns, rows, end: Some(end) }] => {
                rows.is_empty()
                    && columns.iter().eq(Template::Numbers.columns())
                    && end.status & status::CURSOR_EXISTS != 0
            }
            _ => false,
        };
        // The rows of this template depend on the statement alone.
        let rows = match &statement.act {
            crate::statement::Act::Numbers { rows, width } => {
                numbers(statement.value(), *rows, *width)
            }
            _ => Vec::new(),
        };
        if let Some(slot) = self.slots.get_mut(&slot) {
            slot.cursor = rows.into();
        }
        if let Some(part) = reply.first() {
            let place = Some((statement, self.shadow.session().schema));
            self.shadow.settle_unbegun(place, &answer_of(part), done_of(part));
        }
        let said = self.shadow.cursor_opened(statement, &mut self.units);
        learned.statements.push(Said { is_prepared: true, ..said });
        learned.mismatch = match opened {
            false => Some(shape(&format!("an open cursor, got {reply:?}"))),
            true => self.shadow.status_mismatch(reply.first().and_then(done_of)),
        };
        self.shadow.forget_traces();
        learned
    }

    fn fetched(&mut self, slot: u8, rows_max: u32, reply: &Reply) -> Learned {
        self.shadow.forget_traces();
        let mut learned = Learned::default();
        if let Some(error) = error_of(reply) {
            self.shadow.command_failed(error, &mut self.rows);
            // Without a cursor: 1421. What else it may be, the oracle asks the servers.
            learned.error_expected = match self.slots.get(&slot) {
                Some(slot) if slot.cursor.is_empty() => error_of(reply).map(|error| error.code),
                _ => None,
            };
            return learned;
        }
        let Some(slot) = self.slots.get_mut(&slot) else {
            learned.mismatch = Some(shape(&format!("error 1243, got {reply:?}")));
            return learned;
        };
        let count = usize::try_from(rows_max).unwrap_or(usize::MAX).min(slot.cursor.len());
        let expected: Vec<Vec<Cell>> = slot.cursor.drain(..count).collect();
        let is_right = match reply.as_slice() {
            [Part::Rows { rows, .. }] => *rows == expected,
            _ => false,
        };
        if !is_right {
            let evidence = format!("expected {expected:?}, got {reply:?}");
            learned.mismatch = Some(Mismatch { kind: MismatchKind::Foreign, evidence });
        }
        learned
    }

    fn prepared(&mut self, slot: u8, template: Template, reply: &Reply) -> Learned {
        let mut learned = Learned::default();
        self.shadow.forget_traces();
        if Template::HIDDEN.contains(&template) {
            // Servers may compute constants as they prepare, by code behind its name.
            self.shadow.is_held();
        }
        let schema = self.shadow.session().schema;
        match reply.as_slice() {
            [Part::Prepared { stmt_id, params, columns }] => {
                let expected = (template.params(), template.columns().len());
                if expected != (*params, usize::from(*columns)) {
                    let evidence = format!("{expected:?} parameters and columns, got {reply:?}");
                    learned.mismatch = Some(shape(&evidence));
                }
                match self.shadow.session_mut().prepare(template) {
                    Ok(shadow_id) => {
                        let stmt_id = *stmt_id;
                        let cursor = Default::default();
                        let known = Slot { stmt_id, shadow_id, template, schema, cursor };
                        self.slots.insert(slot, known);
                    }
                    Err(failure) => {
                        learned.mismatch = Some(shape(&format!("{failure:?}, got {reply:?}")));
                    }
                }
                self.shadow.forget_traces();
            }
            // Its connection may be lost in the middle of its definitions.
            [Part::Error(error)] | [Part::Prepared { .. }, Part::Error(error)] => {
                self.shadow.command_failed(error, &mut self.rows);
                let mut tried = self.shadow.session().clone();
                let refused = tried.prepare(template).err();
                learned.error_expected = refused
                    .filter(|failure| failure.code == error.code)
                    .map(|failure| failure.code);
            }
            _ => learned.mismatch = Some(shape(&format!("a statement id, got {reply:?}"))),
        }
        learned
    }

    /// Takes in an answer that is the proxy's own and leaves the session as it was; false for an
    /// error.
    fn settles_own_answer(&mut self, reply: &Reply) -> bool {
        if let Some(error) = error_of(reply) {
            self.shadow.command_failed(error, &mut self.rows);
            return false;
        }
        if let Some(part) = reply.first() {
            self.shadow.settle_unbegun(None, &answer_of(part), done_of(part));
        }
        true
    }

    /// The way of a statement: the proxy's own answer, which leaves the session as it was. No
    /// server has these columns, nor the statement.
    fn explained(&mut self, name: &str, reply: &Reply) -> Learned {
        let mut learned = Learned::default();
        if !self.settles_own_answer(reply) {
            return learned;
        }
        let is_shown = |row: &Vec<reply::Value>| match row.as_slice() {
            [Some(_), Some(detail)] => detail.contains(name),
            _ => false,
        };
        learned.mismatch = match reply.as_slice() {
            [Part::Rows { columns, rows, end: Some(end) }] if columns == &["step", "detail"] => {
                match rows.iter().any(is_shown) {
                    true => self.shadow.status_mismatch(Some(end)),
                    false => {
                        let evidence = format!("the way of {name}, got {reply:?}");
                        Some(Mismatch { kind: MismatchKind::Foreign, evidence })
                    }
                }
            }
            _ => Some(shape(&format!("the way of {name}, got {reply:?}"))),
        };
        learned
    }

    /// What the proxy knows of this session: its own number, user, schema and transaction.
    fn shown(&mut self, reply: &Reply) -> Learned {
        let mut learned = Learned::default();
        if !self.settles_own_answer(reply) {
            return learned;
        }
        let number = format!("\"thread_session_id\":{},", self.login.number());
        let user = format!("\"username\":\"{}\",", self.login.identity().user);
        let schema = self.shadow.session().schema.map_or("", crate::statement::Schema::name);
        let schema = format!("\"schemaname\":\"{schema}\"");
        let is_own =
            |text: &str| [&number, &user, &schema].iter().all(|part| text.contains(part.as_str()));
        learned.mismatch = match reply.as_slice() {
            [Part::Rows { columns, rows, end: Some(end) }] if columns == &["session_info"] => {
                match rows.as_slice() {
                    [row] if matches!(row.as_slice(), [Some(text)] if is_own(text)) => {
                        self.shadow.status_mismatch(Some(end))
                    }
                    _ => {
                        let evidence = format!("{number} {user} {schema}, got {reply:?}");
                        Some(Mismatch { kind: MismatchKind::Foreign, evidence })
                    }
                }
            }
            _ => Some(shape(&format!("this session, got {reply:?}"))),
        };
        learned
    }

    /// The reply to a command without a statement.
    fn acknowledged(&mut self, deed: &Deed, reply: &Reply) -> Learned {
        let mut learned = Learned::default();
        self.shadow.forget_traces();
        if let Some(error) = error_of(reply) {
            self.shadow.command_failed(error, &mut self.rows);
            return learned;
        }
        if let Some(part) = reply.first() {
            self.shadow.settle_unbegun(None, &answer_of(part), done_of(part));
        }
        let is_right = match (deed, reply.as_slice()) {
            (Deed::Statistics, [Part::Text(_)]) => true,
            (Deed::Statistics | Deed::Explain { .. } | Deed::AskForSession | Deed::Nonsense, _) => {
                false
            }
            (Deed::InitDb(schema), [Part::Ok(_)]) => {
                self.shadow.session_mut().use_schema(*schema).is_ok()
            }
            (Deed::Reset, [Part::Ok(_)]) => {
                self.shadow.reset(&mut self.rows);
                self.slots.clear();
                true
            }
            (Deed::Multi(on), [Part::Ok(_)]) => {
                self.shadow.session_mut().multi_statements = *on;
                true
            }
            (Deed::ResetStmt(slot), [Part::Ok(_)]) => match self.slots.get_mut(slot) {
                Some(slot) => {
                    slot.cursor.clear();
                    true
                }
                None => false,
            },
            (_, [Part::Ok(_)]) => true,
            _ => false,
        };
        learned.mismatch = match is_right {
            false => Some(shape(&format!("the answer to {deed:?}, got {reply:?}"))),
            true => self.shadow.status_mismatch(reply.first().and_then(done_of)),
        };
        learned
    }
}

fn shape(evidence: &str) -> Mismatch {
    Mismatch { kind: MismatchKind::Shape, evidence: format!("expected {evidence}") }
}

fn numbers(tag: u64, rows: u64, width: u64) -> Vec<Vec<Cell>> {
    let pad = "x".repeat(usize::try_from(width).unwrap_or_default());
    let row = |n: u64| vec![Some(tag.to_string()), Some(n.to_string()), Some(pad.clone())];
    (0..rows).map(row).collect()
}

/// The answer to several writes of one row as if each had been answered: all but the first have
/// certainly replaced what the one before wrote.
fn one_by_one(reply: Reply, count: usize) -> Reply {
    let ([Part::Ok(done)], Some(others)) = (reply.as_slice(), count.checked_sub(1)) else {
        return reply;
    };
    let others = u64::try_from(others).unwrap_or_default();
    let part = |affected_rows| Part::Ok(reply::Done { affected_rows, ..done.clone() });
    let first = part(done.affected_rows.saturating_sub(2 * others));
    std::iter::once(first).chain((0..others).map(|_| part(2))).collect()
}
