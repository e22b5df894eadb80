//! Long commands are read by a thread of their own, so that no other client waits for them: the
//! worker has them studied, and goes on with the command when it is told what they are.

use std::{rc::Rc, sync::Arc};

use trunkline_protocol::{
    codec::frame::{HEADER_LEN, put_payload},
    command::{
        Command,
        attributes::{PlainExecution, Query},
        code,
    },
};
use trunkline_sql::token::Modes;

use crate::{
    ClientId,
    clients::frames::{Plain, Whole, is_split, joined_payload},
    routing::ruled::{Ruled, RulesAsk},
    statement::analysis::{Analyses, Known, Method},
};

/// A command that is longer than this is studied elsewhere, bytes with its packet's header. Reading
/// that much takes a worker some milliseconds at most, whatever it is.
pub(crate) const STUDY_LEN_MIN: usize = 64 * 1024;

/// A long command, for a [`Student`] to read: one with a text, or an execution.
#[derive(Debug)]
pub struct Study {
    pub(crate) client: ClientId,
    /// Tells it from an earlier one of the client's.
    pub(crate) ticket: u64,
    /// The command, packet headers and all.
    pub(crate) frames: Vec<u8>,
    /// Whether it may have query attributes.
    pub(crate) takes_attributes: bool,
    /// What it is an execution of, where that may have query attributes.
    pub(crate) executed: Option<Executed>,
    pub(crate) modes: Modes,
    pub(crate) method: Method,
    /// What the rules are asked; `None` where there are none.
    pub(crate) rules: Option<Box<RulesAsk>>,
}

impl Study {
    /// Whose command it is.
    pub fn client(&self) -> ClientId {
        self.client
    }
}

/// A command with a long text that has been read.
#[derive(Debug)]
pub struct Studied {
    pub(crate) client: ClientId,
    pub(crate) ticket: u64,
    pub(crate) command: LongCommand,
    pub(crate) modes: Modes,
    /// What the text is; `None` for a command without a text that can be read.
    pub(crate) known: Option<Box<Known>>,
    /// What rules say of it.
    pub(crate) ruled: Option<Box<Ruled>>,
}

/// A command in its packets, and in one piece.
#[derive(Debug)]
pub(crate) struct LongCommand {
    pub(crate) whole: Whole,
    /// Its payload, where it came in several packets.
    joined: Option<Vec<u8>>,
}

/// The statement that a long execution is of.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) params: u16,
    /// The parameters that were sent before, in order.
    pub(crate) long: Vec<usize>,
}

impl LongCommand {
    /// Takes as long as copying the command where it came in several packets.
    pub(crate) fn new(frames: Vec<u8>) -> Self {
        let joined = is_split(&frames).then(|| joined_payload(&frames));
        let whole = Whole { frames: Arc::new(frames), plain: None };
        Self { whole, joined }
    }

    /// Takes query attributes out, where the command can be read. Takes as long as copying it.
    fn make_plain(&mut self, executed: Option<&Executed>) {
        let payload = self.payload();
        let (plain, attributes) = match (Command::decode(payload), executed) {
            (Ok(Command::Query(body)), _) => {
                let Ok(query) = Query::parse(body) else { return };
                ([&[code::QUERY], query.text].concat(), query.attributes.map(Arc::from))
            }
            (Ok(Command::StmtExecute { raw, .. }), Some(executed)) => {
                let is_long = |param| executed.long.binary_search(&param).is_ok();
                let Ok(plain) = PlainExecution::parse(raw, executed.params, is_long) else {
                    return;
                };
                let attributes = plain.has_attributes.then(|| Arc::from(raw));
                let head = payload.get(..payload.len() - raw.len()).unwrap_or_default();
                ([head, &plain.raw].concat(), attributes)
            }
            _ => return,
        };
        let mut frames = Vec::with_capacity(plain.len() + HEADER_LEN);
        put_payload(&mut frames, 0, &plain);
        self.joined = is_split(&frames).then_some(plain);
        self.whole = Whole { frames: Arc::new(frames), plain: Some(Plain { attributes }) };
    }

    /// Bytes of memory that it takes.
    pub(crate) fn held(&self) -> usize {
        let attributes = self.whole.plain.as_ref().and_then(|plain| plain.attributes.as_ref());
        let attributes = attributes.map_or(0, |attributes| attributes.len());
        self.whole.frames.len() + attributes + self.joined.as_ref().map_or(0, Vec::len)
    }

    pub(crate) fn payload(&self) -> &[u8] {
        match &self.joined {
            Some(joined) => joined,
            None => self.whole.frames.get(HEADER_LEN..).unwrap_or_default(),
        }
    }

    /// The text that is to run, or to be prepared. `takes_attributes`: query attributes may precede
    /// it.
    pub(crate) fn text(&self, takes_attributes: bool) -> Option<&[u8]> {
        match Command::decode(self.payload()).ok()? {
            Command::Query(body) if takes_attributes && self.whole.plain.is_none() => {
                Some(Query::parse(body).ok()?.text)
            }
            Command::Query(text) | Command::StmtPrepare(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads long texts for one worker, and remembers analyses as the worker does.
#[derive(Default)]
pub struct Student {
    analyses: Option<Analyses>,
}

impl Student {
    /// Reads a command's text. Takes time in proportion to its length.
    pub fn study(&mut self, study: Study) -> Studied {
        let Study { client, ticket, frames, takes_attributes, executed, .. } = study;
        let Study { modes, method, rules, .. } = study;
        let mut command = LongCommand::new(frames);
        if takes_attributes {
            command.make_plain(executed.as_ref());
        }
        let analyses = match &mut self.analyses {
            Some(analyses) => {
                analyses.follow(method);
                analyses
            }
            none => none.insert(Analyses::of(method)),
        };
        let mut know = |text: &[u8]| Box::new(analyses.know(text, &modes).copy());
        let text = command.text(takes_attributes);
        let known = text.map(&mut know);
        let ruled = match (rules, text, &known) {
            (Some(rules), Some(text), Some(known)) => {
                Some(Box::new(rules.answer(known, text, &mut know)))
            }
            _ => None,
        };
        Studied { client, ticket, command, modes, known, ruled }
    }
}

/// What was found out of a command's long text.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) modes: Modes,
    /// What it is, read in these modes.
    pub(crate) known: Rc<Known>,
    /// What rules say of it, until that is taken.
    pub(crate) ruled: Option<Box<Ruled>>,
}

impl Found {
    /// Bytes of memory that it takes, as far as they grow with the text.
    pub(crate) fn held(&self) -> usize {
        self.ruled.as_ref().map_or(0, |ruled| ruled.held())
    }
}

/// What a long text is, for the command that is being looked at.
pub(crate) struct StudiedText {
    /// Where the text is: another one of the same length is none of its.
    address: usize,
    len: usize,
    pub(crate) found: Found,
}

impl StudiedText {
    pub(crate) fn new(text: &[u8], found: Found) -> Self {
        Self { address: text.as_ptr().addr(), len: text.len(), found }
    }

    fn is_text(&self, text: &[u8]) -> bool {
        self.address == text.as_ptr().addr() && self.len == text.len()
    }

    /// Whether this is the text, read in these modes.
    pub(crate) fn is_of(&self, text: &[u8], modes: &Modes) -> bool {
        self.is_text(text) && self.found.modes == *modes
    }

    /// What rules say of the text, once.
    pub(crate) fn take_ruled(&mut self, text: &[u8]) -> Option<Box<Ruled>> {
        match self.is_text(text) {
            true => self.found.ruled.take(),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests;
