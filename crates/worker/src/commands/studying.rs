//! Long commands, and executions of long texts, are given away to be read, and go on when they
//! have been.

use std::{rc::Rc, sync::Arc};

use trunkline_protocol::{
    capability::Capabilities,
    codec::frame::HEADER_LEN,
    command::{code, execute::STMT_ID_AT},
};
use trunkline_sql::token::Modes;

use crate::{
    Action,
    clients::client::{Client, Phase},
    commands::command::long_command_end,
    prepared::{Came, ClientStmt, Entry},
    rooms::Commands,
    routing::ruled::{RuledText, RulesAsk},
    statement::{
        analysis::Digested,
        proof::AwaitNames,
        study::{
            AsOf, Executed, ExecutedText, Found, LongCommand, STUDY_LEN_MIN, Studied, Study,
            ToStudy,
        },
    },
};

/// A command is read so often at most while rules, settings or modes change; beyond that the worker
/// reads it itself.
const TIMES_MAX: u32 = 8;

/// Whether a command is a `COM_STMT_EXECUTE` or `COM_STMT_BULK_EXECUTE`.
fn is_execution(frames: &[u8]) -> bool {
    matches!(frames.get(HEADER_LEN), Some(&(code::STMT_EXECUTE | code::STMT_BULK_EXECUTE)))
}

/// What a command is an execution of, if it is one of a statement that there is.
fn executed_by<'a>(client: &'a Client, frames: &[u8]) -> Option<&'a ClientStmt> {
    if !is_execution(frames) {
        return None;
    }
    let stmt_id = frames.get(STMT_ID_AT..)?.first_chunk().map(|id| u32::from_le_bytes(*id))?;
    let prepared = &client.session.prepared;
    prepared.get(prepared.resolve(stmt_id)?)
}

/// Whether a command can be read at all: one with a text, or an execution of what there is.
pub(super) fn is_readable(client: &Client, frames: &[u8]) -> bool {
    match frames.get(HEADER_LEN) {
        Some(&(code::QUERY | code::STMT_PREPARE)) => true,
        Some(_) => executed_by(client, frames).is_some(),
        None => false,
    }
}

impl ClientStmt {
    /// Whether one of its texts is long.
    #[inline]
    pub(super) fn is_long(&self) -> bool {
        let came = self.came.as_ref();
        self.entry.text.len() > STUDY_LEN_MIN
            || came.is_some_and(|came| came.text.len() > STUDY_LEN_MIN)
    }
}

impl Commands {
    /// Gives a long command away to be studied, if it is the first in the inbox; what is behind it
    /// stays there. False for any other.
    pub(super) fn begin_study(&mut self, client: &mut Client, inbox: &mut Vec<u8>) -> bool {
        let payload_max = self.exchange.core.env.snapshot.settings.max_allowed_packet;
        let is_lost = client.session.lost.is_some();
        let (Some(end), false) = (long_command_end(inbox, payload_max), is_lost) else {
            return false;
        };
        if !is_readable(client, inbox) {
            return false;
        }
        client.recent_commands = client.recent_commands.saturating_add(1);
        self.exchange.core.fx.stats.counters.commands += 1;
        client.io.inbox = inbox.split_off(end);
        self.give_away(client, ToStudy::Came(std::mem::take(inbox)));
        true
    }

    /// Gives an execution away whose statement's text is long, where something has to be found out
    /// of that: what rules say, or what it is by the settings and modes of now. False where nothing
    /// is.
    #[cold]
    pub(super) fn begin_study_of_texts(&mut self, client: &mut Client, frames: &[u8]) -> bool {
        let analyses = &mut self.exchange.statements.analyses;
        if analyses.studied().is_some() || client.is_mirror {
            return false;
        }
        if self.executed(client, frames).is_none_or(|executed| executed.texts.is_empty()) {
            return false;
        }
        self.give_away(client, ToStudy::Came(frames.to_vec()));
        true
    }

    /// Has a command read; its client waits for that.
    fn give_away(&mut self, client: &mut Client, command: ToStudy) {
        let frames: &[u8] = match &command {
            ToStudy::Came(frames) => frames,
            ToStudy::Again(command, _) => &command.whole.frames,
        };
        let modes = self.exchange.core.modes(client);
        let about = match frames.get(HEADER_LEN) {
            Some(&code::STMT_PREPARE) => Some(RuledText::Prepare),
            Some(&code::QUERY) => Some(RuledText::Query),
            Some(_) | None => None,
        };
        let rules = about.and_then(|about| self.ask_of(client, (about, None)));
        let executed = self.executed(client, frames);
        let statements = &mut self.exchange.statements;
        statements.studies += 1;
        let ticket = statements.studies;
        // Beside what came: its packets joined, a text that rules make of it, and that in packets.
        let copies = match rules.is_some() && self.exchange.core.env.snapshot.rules.rewrites() {
            true => 4,
            false => 2,
        };
        let len = copies * frames.len();
        let study = Study {
            client: client.id,
            ticket,
            takes_attributes: client.has_capability(Capabilities::QUERY_ATTRIBUTES),
            executed,
            as_of: AsOf {
                modes,
                edition: statements.analyses.edition(),
                rules: Arc::clone(&self.exchange.core.env.snapshot.rules),
            },
            method: statements.analyses.method(),
            rules: rules.map(Box::new),
            command,
        };
        let waiting = AwaitNames { frames: Vec::new(), studied: None, study: Some((ticket, len)) };
        client.phase = Phase::AwaitNames(Box::new(waiting));
        self.exchange.core.fx.act(Action::Study(Box::new(study)));
    }

    fn ask_of(&mut self, client: &Client, about: (RuledText, Option<&[u8]>)) -> Option<RulesAsk> {
        let chance = self.router.next_chance();
        let snapshot = &self.exchange.core.env.snapshot;
        RulesAsk::of(snapshot, &client.origin.peer, &client.session, about, chance)
    }

    /// What has to be known of an execution.
    fn executed(&mut self, client: &mut Client, frames: &[u8]) -> Option<Executed> {
        let now = self.exchange.core.modes(client);
        let stmt = executed_by(client, frames)?;
        let params = stmt.entry.params;
        let mut long: Vec<usize> = stmt.long.iter().flat_map(|long| long.parameters()).collect();
        long.sort_unstable();
        long.dedup();
        let texts = match stmt.is_long() {
            true => {
                let (entry, came) = (Rc::clone(&stmt.entry), stmt.came.clone());
                self.executed_texts(client, &entry, came.as_deref(), now)
            }
            false => Vec::new(),
        };
        Some(Executed { params, long, texts })
    }

    /// The texts of a statement that is executed of which something has to be found out; none where
    /// nothing has.
    fn executed_texts(
        &mut self,
        client: &Client,
        entry: &Entry,
        came: Option<&Came>,
        now: Modes,
    ) -> Vec<ExecutedText> {
        let edition = self.exchange.statements.analyses.edition();
        let schema = entry.reading.schema.name();
        let about = RuledText::Executed { has_come: came.is_some() };
        let known = entry.known_by(edition);
        let own = ExecutedText {
            text: entry.text.clone(),
            modes: entry.modes,
            digested: known.as_ref().map(|known| Box::new(Digested::of(known))),
            rules: self.ask_of(client, (about, Some(schema))).map(Box::new),
            otherwise: entry.otherwise_in(&now, edition),
        };
        let came = came.map(|came| ExecutedText {
            text: came.text.clone(),
            modes: entry.modes,
            digested: (came.known.edition == edition).then(|| Box::new(Digested::of(&came.known))),
            rules: self.ask_of(client, (RuledText::Came, Some(schema))).map(Box::new),
            otherwise: None,
        });
        let texts: Vec<_> = [Some(own), came].into_iter().flatten().collect();
        let asks = |text: &ExecutedText| {
            text.digested.is_none() || text.rules.is_some() || text.otherwise.is_some()
        };
        if texts.iter().any(asks) { texts } else { Vec::new() }
    }

    /// See [`Worker::studied`](crate::Worker::studied).
    pub(crate) fn on_studied(&mut self, client: &mut Client, studied: Studied) {
        let Phase::AwaitNames(waiting) = &client.phase else { return };
        if waiting.study.is_none_or(|(ticket, _)| ticket != studied.ticket) {
            return;
        }
        client.phase = Phase::Idle;
        let Studied { command, times, as_of, texts, contents, ruled, .. } = studied;
        if times < TIMES_MAX && !self.holds(client, &as_of) {
            return self.give_away(client, ToStudy::Again(command, times));
        }
        let found = Box::new(Found::new(as_of, texts, contents, ruled));
        self.long_command_again(client, command, found);
        self.exchange.core.clients.weigh(client);
        self.exchange.core.wake_commands(client);
    }

    /// A long command that was read, and has waited for its names, goes on; it is read again where
    /// something else holds by now.
    pub(super) fn studied_names_told(
        &mut self,
        client: &mut Client,
        (command, found): (LongCommand, Box<Found>),
    ) {
        match self.holds(client, &found.as_of) {
            true => self.long_command_again(client, command, found),
            false => self.give_away(client, ToStudy::Again(command, 1)),
        }
    }

    /// Whether what held when a command was given away holds still: rules, settings and modes.
    fn holds(&mut self, client: &Client, as_of: &AsOf) -> bool {
        let rules = &self.exchange.core.env.snapshot.rules;
        Arc::ptr_eq(&as_of.rules, rules)
            && self.exchange.statements.analyses.edition() == as_of.edition
            && self.exchange.core.modes(client) == as_of.modes
    }

    /// A long command that has been read goes on.
    fn long_command_again(&mut self, client: &mut Client, command: LongCommand, found: Box<Found>) {
        self.exchange.statements.analyses.set_studied(found);
        self.exchange.core.fx.whole = Some(command.whole.clone());
        self.payload_again(client, &command.whole.frames, command.payload());
        self.exchange.core.fx.whole = None;
        let found = self.exchange.statements.analyses.take_studied();
        if let Phase::AwaitNames(waiting) = &mut client.phase
            && waiting.study.is_none()
        {
            waiting.studied = found.map(|found| (command, found));
        }
    }
}
