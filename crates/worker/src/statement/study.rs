//! Long commands are read by a thread of their own, so that no other client waits for them: the
//! worker has them studied, and goes on with the command when it is told what they are. So are
//! executions of long texts, of which rules are asked anew each time.

use std::{rc::Rc, sync::Arc};

use trunkline_protocol::{
    codec::frame::{HEADER_LEN, put_payload},
    command::{
        Command,
        attributes::{PlainExecution, Query},
        code,
    },
};
use trunkline_rules::RuleSet;
use trunkline_sql::token::Modes;

use crate::{
    ClientId,
    clients::frames::{Plain, Text, Whole, is_split, joined_payload},
    prepared::Contents,
    routing::ruled::{Mirrored, Ruled, RulesAsk},
    statement::analysis::{Analyses, Digested, Known, Method},
};

/// A command, or a prepared text, that is longer than this is studied elsewhere, bytes. Reading
/// that much takes a worker some milliseconds at most, whatever it is.
pub(crate) const STUDY_LEN_MIN: usize = 64 * 1024;

/// A long command, for a [`Student`] to read: one with a text, or an execution.
#[derive(Debug)]
pub struct Study {
    pub(crate) client: ClientId,
    /// Tells it from an earlier one of the client's.
    pub(crate) ticket: u64,
    pub(crate) command: ToStudy,
    /// Whether it may have query attributes.
    pub(crate) takes_attributes: bool,
    /// What it is an execution of, where it is one.
    pub(crate) executed: Option<Executed>,
    pub(crate) as_of: AsOf,
    pub(crate) method: Method,
    /// What the rules are asked about its own text; `None` where there are none.
    pub(crate) rules: Option<Box<RulesAsk>>,
}

/// The command itself.
#[derive(Debug)]
pub(crate) enum ToStudy {
    /// As it came, packet headers and all.
    Came(Vec<u8>),
    /// It has been read, so many times, and something else holds since.
    Again(LongCommand, u32),
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
    /// How often it has been read.
    pub(crate) times: u32,
    pub(crate) as_of: AsOf,
    pub(crate) texts: Vec<ReadText>,
    /// What the text of a statement that is to be prepared has in it.
    pub(crate) contents: Option<Contents>,
    /// What rules say of its texts.
    pub(crate) ruled: Vec<(Text, Box<Ruled>)>,
}

/// What held when a command was given away.
#[derive(Debug)]
pub(crate) struct AsOf {
    pub(crate) modes: Modes,
    /// See [`Analyses::edition`].
    pub(crate) edition: u32,
    pub(crate) rules: Arc<RuleSet>,
}

/// A text that was read in modes.
#[derive(Debug)]
pub(crate) struct ReadText {
    text: Text,
    modes: Modes,
    known: Box<Known>,
}

/// A command in its packets, and in one piece.
#[derive(Debug)]
pub(crate) struct LongCommand {
    pub(crate) whole: Whole,
}

/// The statement that an execution is of.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) params: u16,
    /// The parameters that were sent before, in order.
    pub(crate) long: Vec<usize>,
    /// Its texts, where they are long and something is to be found out of them.
    pub(crate) texts: Vec<ExecutedText>,
}

/// A long text of a statement that is executed: the one that it is run by, and behind that the one
/// that came to be prepared, if that is another one.
#[derive(Debug)]
pub(crate) struct ExecutedText {
    pub(crate) text: Text,
    /// The modes that it was prepared in.
    pub(crate) modes: Modes,
    /// What rules look at beside it; `None` where that has to be found out anew.
    pub(crate) digested: Option<Box<Digested>>,
    /// What the rules are asked about it; `None` where there are none.
    pub(crate) rules: Option<Box<RulesAsk>>,
    /// Other modes, in which it may be read when it is run.
    pub(crate) otherwise: Option<Modes>,
}

impl LongCommand {
    /// Takes as long as copying the command where it came in several packets.
    pub(crate) fn new(frames: Vec<u8>) -> Self {
        let mut whole = Whole::of(Arc::new(frames));
        whole.joined = is_split(&whole.frames).then(|| Arc::new(joined_payload(&whole.frames)));
        Self { whole }
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
        self.whole.joined = is_split(&frames).then(|| Arc::new(plain));
        self.whole.frames = Arc::new(frames);
        self.whole.plain = Some(Plain { attributes });
    }

    /// Bytes of memory that it takes.
    pub(crate) fn held(&self) -> usize {
        let attributes = self.whole.plain.as_ref().and_then(|plain| plain.attributes.as_ref());
        let attributes = attributes.map_or(0, |attributes| attributes.len());
        let joined = self.whole.joined.as_ref().map_or(0, |joined| joined.len());
        self.whole.frames.len() + attributes + joined
    }

    pub(crate) fn payload(&self) -> &[u8] {
        match &self.whole.joined {
            Some(joined) => joined,
            None => self.whole.frames.get(HEADER_LEN..).unwrap_or_default(),
        }
    }

    /// The text that is to run, or to be prepared, and whether it is the latter.
    /// `takes_attributes`: query attributes may precede it.
    fn text(&self, takes_attributes: bool) -> Option<(Text, bool)> {
        let (text, is_prepared) = match Command::decode(self.payload()).ok()? {
            Command::Query(body) if takes_attributes && self.whole.plain.is_none() => {
                (Query::parse(body).ok()?.text, false)
            }
            Command::Query(text) => (text, false),
            Command::StmtPrepare(text) => (text, true),
            _ => return None,
        };
        Some((self.whole.text(text), is_prepared))
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
        let Study { client, ticket, command, takes_attributes, executed, .. } = study;
        let Study { as_of, method, rules, .. } = study;
        let modes = as_of.modes;
        let (mut command, times) = match command {
            ToStudy::Came(frames) => (LongCommand::new(frames), 1),
            ToStudy::Again(command, times) => (command, times + 1),
        };
        if takes_attributes && command.whole.plain.is_none() {
            command.make_plain(executed.as_ref());
        }
        let executed = executed.map(|executed| executed.texts).unwrap_or_default();
        let mut notes = Notes::new(self.analyses_of(method));
        if let Some((text, is_prepared)) = command.text(takes_attributes) {
            notes.contents = is_prepared.then(|| Contents::of(&text, &modes, Contents::NOTHING));
            let digested = Digested::of(notes.read(&text, modes));
            if let Some(rules) = rules {
                notes.ask(*rules, &digested, &text, (&text, modes));
            }
        }
        let run_by = executed.first().map(|first| first.text.clone());
        for executed in executed {
            // What rules make of the one that came takes the place of the one that is run.
            let before = run_by.clone().unwrap_or_else(|| executed.text.clone());
            notes.execute(executed, &before);
        }
        let Notes { texts, contents, ruled, .. } = notes;
        Studied { client, ticket, command, times, as_of, texts, contents, ruled }
    }

    fn analyses_of(&mut self, method: Method) -> &mut Analyses {
        match &mut self.analyses {
            Some(analyses) => {
                analyses.follow(method);
                analyses
            }
            none => none.insert(Analyses::of(method)),
        }
    }
}

/// What a student finds out of one command.
struct Notes<'a> {
    analyses: &'a mut Analyses,
    texts: Vec<ReadText>,
    contents: Option<Contents>,
    ruled: Vec<(Text, Box<Ruled>)>,
}

impl<'a> Notes<'a> {
    fn new(analyses: &'a mut Analyses) -> Self {
        Self { analyses, texts: Vec::new(), contents: None, ruled: Vec::new() }
    }

    /// What a text is, read in modes.
    fn read(&mut self, text: &Text, modes: Modes) -> &Known {
        let known = Box::new(self.analyses.know(text, &modes).copy());
        let at = self.texts.len();
        self.texts.push(ReadText { text: text.clone(), modes, known });
        #[expect(clippy::indexing_slicing, reason = "it was pushed just now")]
        &self.texts[at].known
    }

    /// Asks the rules about a text. `before`, in its modes, is what they would rewrite.
    fn ask(
        &mut self,
        rules: RulesAsk,
        digested: &Digested,
        text: &Text,
        (before, modes): (&[u8], Modes),
    ) {
        let analyses = &mut *self.analyses;
        let know = |text: &[u8]| Box::new(analyses.know(text, &modes).copy());
        let ruled = rules.answer(digested, text, (before, &modes), know);
        self.ruled.push((text.clone(), Box::new(ruled)));
    }

    fn execute(&mut self, executed: ExecutedText, before: &[u8]) {
        let ExecutedText { text, modes, digested, rules, otherwise } = executed;
        let digested = match digested {
            Some(digested) => digested,
            None => Box::new(Digested::of(self.read(&text, modes))),
        };
        if let Some(otherwise) = otherwise {
            self.read(&text, otherwise);
        }
        if let Some(rules) = rules {
            self.ask(*rules, &digested, &text, (before, modes));
        }
    }
}

/// What was found out of a command's long texts.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) as_of: AsOf,
    /// What they are, each in the modes that it was read in.
    texts: Vec<(Text, Modes, Rc<Known>)>,
    contents: Option<Contents>,
    /// What rules say of them, until that is taken.
    ruled: Vec<(Text, Box<Ruled>)>,
    /// What rules say of a copy of the statement.
    mirrored: Option<Mirrored>,
}

impl Found {
    pub(crate) fn new(
        as_of: AsOf,
        texts: Vec<ReadText>,
        contents: Option<Contents>,
        ruled: Vec<(Text, Box<Ruled>)>,
    ) -> Self {
        let texts = texts.into_iter().map(|ReadText { text, modes, known }| {
            let known: Known = *known;
            (text, modes, Rc::new(known))
        });
        Self { as_of, texts: texts.collect(), contents, ruled, mirrored: None }
    }

    /// Bytes of memory that it takes, as far as they grow with the text.
    pub(crate) fn held(&self) -> usize {
        self.ruled.iter().map(|(_, ruled)| ruled.held()).sum()
    }

    /// What a text is, read in these modes and by this edition.
    pub(crate) fn known(&self, text: &[u8], modes: &Modes, edition: u32) -> Option<Rc<Known>> {
        let found = self.texts.iter().find(|(read, read_in, known)| {
            is_same(read, text) && read_in == modes && known.edition == edition
        });
        found.map(|(_, _, known)| Rc::clone(known))
    }

    /// What the text of the command, which is to be prepared, has in it, as far as that is seen.
    pub(crate) fn contents(&self) -> Option<Contents> {
        self.contents
    }

    /// What rules say of a text, once.
    pub(crate) fn take_ruled(&mut self, text: &[u8]) -> Option<Box<Ruled>> {
        let at = self.ruled.iter().position(|(ruled, _)| is_same(ruled, text))?;
        Some(self.ruled.swap_remove(at).1)
    }

    /// Keeps what rules say of a copy.
    pub(crate) fn set_mirrored(&mut self, mirrored: Option<Mirrored>) {
        self.mirrored = mirrored;
    }

    /// What rules say of a copy, once.
    pub(crate) fn take_mirrored(&mut self) -> Option<Mirrored> {
        self.mirrored.take()
    }
}

/// Whether this is the text itself: another one of the same length is none of it.
fn is_same(text: &[u8], other: &[u8]) -> bool {
    std::ptr::eq(text, other)
}

#[cfg(test)]
mod tests;
