//! Model clients: each does what its script says, reads its replies, and compares each with what
//! a direct connection would have given.
//!
//! | file | is about |
//! |---|---|
//! | `spec` | what a client is going to do |
//! | `workload` | the scripts that seeds stand for |
//! | `login` | the client's side of authentication |
//! | `command` | from deeds to bytes |
//! | `reply` | from bytes to replies |
//! | `shadow` | what a direct connection would have answered |
//! | `rows` | the rows that a client alone writes |
//! | `deed` | what is sent for a deed |
//! | `access` | what statements do to data |
//! | `answer` | what a reply means for the session |
//! | `farewell` | what it is told unasked |

mod access;
mod answer;
mod command;
mod deed;
mod farewell;
pub mod login;
pub mod reply;
pub mod rows;
mod shadow;
mod spec;
mod workload;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use trunkline_protocol::{
    Capabilities, Malformed, codec::compressed::Expected, response::ResponseShape,
};

pub(crate) use self::workload::{HABITS, more};
pub use self::{
    login::Identity,
    shadow::HIDDEN_USER,
    spec::{ClientSpec, Deed, Leaving, Reading, Step},
    workload::{Draw, draw},
};
use self::{
    login::{Login, LoginStep},
    reply::{Farewells, ReplyReader},
    rows::OwnRows,
    shadow::Shadow,
};
use crate::{
    Micros,
    oracle::history::{
        Answer, ClientHistory, EndedBy, Ending, Exchange, LoginOutcome, Mismatch, MismatchKind,
        SessionHistory,
    },
    packing::Packing,
    sealing::Seal,
    statement::{Cell, Schema, Statement, Template},
};

/// What a client asks of the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOutput {
    /// Connects anew; its last connection is gone.
    Connect,
    /// Sends bytes.
    Send(Vec<u8>),
    /// Closes its connection.
    Close {
        /// Without a farewell: what is on the way may be lost.
        reset: bool,
    },
    /// Takes no more bytes.
    PauseReading,
    /// Takes bytes again.
    ResumeReading,
}

/// What a client is at.
#[derive(Debug)]
enum Phase {
    /// It has no connection, and asks for one at this time; never, with `None`.
    Away(Option<Micros>),
    /// It has asked for a connection.
    Connecting,
    /// It logs in.
    LoggingIn,
    /// It does what its script says.
    Talking,
}

/// A command under way.
#[derive(Debug)]
struct Flying {
    /// Its place among the session's exchanges.
    exchange: usize,
    deed: Deed,
    statements: Vec<Statement>,
    /// The schema of a prepared statement's tables.
    prepared_in: Option<Option<Schema>>,
    shape: ResponseShape,
    is_binary: bool,
    fetched: usize,
}

/// A statement prepared by command.
#[derive(Debug)]
struct Slot {
    /// Its number on the wire.
    stmt_id: u32,
    /// Its number in the shadow.
    shadow_id: u32,
    template: Template,
    schema: Option<Schema>,
    /// Rows that wait to be fetched.
    cursor: VecDeque<Vec<Cell>>,
}

/// A client.
#[derive(Debug)]
pub struct ModelClient {
    spec: ClientSpec,
    phase: Phase,
    login: Login,
    reader: ReplyReader,
    /// What it and the proxy agreed to do with their bytes since the login.
    packing: Option<Box<Packing>>,
    /// Its connection is encrypted, or will be.
    seal: Option<Seal>,
    shadow: Shadow,
    rows: OwnRows,
    flying: VecDeque<Flying>,
    slots: BTreeMap<u8, Slot>,
    /// The next step of the script.
    next: usize,
    /// When it is due; `None` while the step before it is under way.
    due_us: Option<Micros>,
    /// When reading goes on.
    resumes_us: Option<Micros>,
    paused_since_us: Micros,
    /// Bytes until the next pause.
    until_pause: u64,
    units: u32,
    reconnects: u32,
    is_told_to_go: bool,
    /// It has begun to leave, and waits for nothing.
    has_left: bool,
    history: ClientHistory,
    outputs: Vec<ClientOutput>,
}

/// How long a client waits before it connects again, µs; longer each time.
const RECONNECT_US: Micros = 3_000;

impl ModelClient {
    /// A client that connects at its time.
    pub fn new(spec: ClientSpec) -> Self {
        let login = login_of(&spec);
        let history = ClientHistory { client: spec.place, sessions: Vec::new() };
        Self {
            phase: Phase::Away(Some(spec.starts_us)),
            reader: ReplyReader::new(login.format()),
            packing: None,
            seal: None,
            login,
            shadow: Shadow::new(spec.place, spec.flavor, None, false),
            rows: OwnRows::default(),
            flying: VecDeque::new(),
            slots: BTreeMap::new(),
            next: 0,
            due_us: None,
            resumes_us: None,
            paused_since_us: 0,
            until_pause: 0,
            units: 0,
            reconnects: 0,
            is_told_to_go: false,
            has_left: false,
            history,
            outputs: Vec::new(),
            spec,
        }
    }

    /// What it did and got so far.
    pub fn history(&self) -> &ClientHistory {
        &self.history
    }

    /// What it did and got, once nothing follows.
    pub fn into_history(self) -> ClientHistory {
        self.history
    }

    /// Whether a reply was not what it should be. A run may end here: what follows is confusion.
    pub fn has_mismatch(&self) -> bool {
        let last = self.history.sessions.last();
        last.is_some_and(|session| session.exchanges.iter().any(|it| it.mismatch.is_some()))
    }

    /// Whether it has no connection and wants none any more.
    pub fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Away(None))
    }

    /// Whether it has nothing under way that it waits for.
    pub fn is_idle(&self) -> bool {
        match self.phase {
            Phase::Away(_) => true,
            Phase::Connecting | Phase::LoggingIn => false,
            Phase::Talking => self.flying.is_empty(),
        }
    }

    /// What it asks for, in order.
    pub fn take_outputs(&mut self) -> Vec<ClientOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// When it does something next of itself.
    pub fn next_due(&self) -> Option<Micros> {
        let step_us = match self.phase {
            Phase::Away(due_us) => due_us,
            Phase::Connecting | Phase::LoggingIn => None,
            Phase::Talking => self.step_due_us(),
        };
        step_us.into_iter().chain(self.resumes_us).min()
    }

    /// The connection that it asked for is up.
    pub fn connected(&mut self, now: Micros) {
        self.phase = Phase::LoggingIn;
        self.login = login_of(&self.spec);
        self.seal = None;
        self.reader = ReplyReader::new(self.login.format());
        self.packing = None;
        self.until_pause = match self.spec.reading {
            Reading::Eager => 0,
            Reading::Slow { every, .. } => every,
        };
        let identity = self.spec.identity.clone();
        self.begin_session(&identity, self.spec.refusal, now);
        if !self.spec.header.is_empty() {
            if let Some(session) = self.history.sessions.last_mut() {
                session.has_header = true;
            }
            self.outputs.push(ClientOutput::Send(self.spec.header.clone()));
        }
    }

    fn begin_session(&mut self, identity: &Identity, refusal: Option<u16>, now: Micros) {
        let mut session = SessionHistory::new(&identity.user, &identity.password, now);
        session.refusal_expected = refusal;
        self.history.sessions.push(session);
        self.slots.clear();
        self.flying.clear();
        self.due_us = None;
        self.has_left = false;
    }

    /// Bytes of the proxy.
    pub fn received(&mut self, bytes: &[u8], now: Micros) {
        self.slow_down(bytes.len(), now);
        if let Err(nonsense) = self.unseal(bytes).and_then(|()| self.read(now)) {
            self.give_up(&nonsense, now);
        }
        self.tick(now);
    }

    fn unseal(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let Some(seal) = &mut self.seal else {
            return self.take_in(bytes);
        };
        let unsealed = seal.unseal(bytes)?;
        if unsealed.came_up {
            let response = self.login.response();
            self.transmit(response);
        }
        self.take_in(&unsealed.plain)
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        // One that waits for each answer knows the number of the next packet, unless that may be
        // a farewell.
        let waits = self.spec.ahead_max <= 1 && self.farewells() == Farewells::None;
        let expected = match waits {
            true => Expected::Answer,
            false => Expected::Any,
        };
        match &mut self.packing {
            None => self.reader.feed(bytes),
            Some(packing) => self.reader.feed(&packing.unpack(bytes, expected)?),
        }
        Ok(())
    }

    /// Sends whole packets, or the beginning of one.
    fn transmit(&mut self, bytes: Vec<u8>) {
        let bytes = match &mut self.packing {
            None => bytes,
            Some(packing) => packing.pack_commands(&bytes),
        };
        let is_sealed = self.seal.as_ref().is_some_and(Seal::is_up);
        let bytes = if is_sealed { Seal::seal(&bytes) } else { bytes };
        self.outputs.push(ClientOutput::Send(bytes));
    }

    /// Its connection is gone: because of the proxy, or of the plan.
    pub fn closed(&mut self, how: EndedBy, now: Micros) {
        // What was said before may answer what was sent since.
        if self.spec.is_direct
            && let Err(nonsense) = self.read(now)
        {
            return self.give_up(&nonsense, now);
        }
        self.end_session(how, now);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Micros) {
        if self.resumes_us.is_some_and(|at_us| at_us <= now) {
            self.resume(now);
        }
        match self.phase {
            Phase::Away(Some(due_us)) if due_us <= now => {
                self.phase = Phase::Connecting;
                self.outputs.push(ClientOutput::Connect);
            }
            Phase::Away(_) | Phase::Connecting | Phase::LoggingIn => {}
            Phase::Talking => self.go_on(now),
        }
    }

    /// Its script is over, wherever it is: it leaves when it is answered.
    pub fn tell_to_go(&mut self, now: Micros) {
        self.is_told_to_go = true;
        if matches!(self.phase, Phase::Away(_)) {
            self.phase = Phase::Away(None);
        }
        self.tick(now);
    }

    /// It goes at once, whatever is under way.
    pub fn vanish(&mut self, now: Micros) {
        self.is_told_to_go = true;
        if !matches!(self.phase, Phase::Away(_)) {
            self.close(true, now);
        }
    }

    /// Begins to pause after so many bytes.
    fn slow_down(&mut self, len: usize, now: Micros) {
        let Reading::Slow { every, pause_us } = self.spec.reading else {
            return;
        };
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        self.until_pause = self.until_pause.saturating_sub(len);
        if self.until_pause == 0 && self.resumes_us.is_none() && !self.is_told_to_go {
            self.until_pause = every;
            self.paused_since_us = now;
            self.resumes_us = Some(now + pause_us);
            self.outputs.push(ClientOutput::PauseReading);
        }
    }

    fn resume(&mut self, now: Micros) {
        if self.resumes_us.take().is_none() {
            return;
        }
        let paused_us = now.saturating_sub(self.paused_since_us);
        if let Some(session) = self.history.sessions.last_mut() {
            for flying in &self.flying {
                if let Some(exchange) = session.exchanges.get_mut(flying.exchange) {
                    exchange.paused_us += paused_us;
                }
            }
        }
        self.outputs.push(ClientOutput::ResumeReading);
    }

    /// Reads what is there, as far as it goes.
    fn read(&mut self, now: Micros) -> Result<(), Malformed> {
        while matches!(self.phase, Phase::LoggingIn) {
            let Some((header, payload)) = self.reader.packet() else {
                return Ok(());
            };
            let mut out = Vec::new();
            let step = match self.reader.is_farewell(&payload) {
                true => LoginStep::Refused(reply::read_error(&payload)?),
                false => self.login.on_packet(header, &payload, &mut out)?,
            };
            if !out.is_empty() {
                self.transmit(out);
            }
            if let Some(session) = self.history.sessions.last_mut() {
                session.number = Some(u64::from(self.login.number()));
            }
            match step {
                LoginStep::Continue => {}
                LoginStep::Encrypt => {
                    let (seal, hello) = Seal::ask();
                    self.transmit(hello.to_vec());
                    self.seal = Some(seal);
                }
                LoginStep::Accepted(done) => self.accepted(&done, now)?,
                LoginStep::Refused(error) => {
                    if let Some(session) = self.history.sessions.last_mut() {
                        session.login = LoginOutcome::Refused(now, error);
                    }
                    // The end of the connection follows.
                    return Ok(());
                }
            }
        }
        while !self.flying.is_empty() {
            let Some(reply) = self.reader.next_reply()? else {
                match self.reader.take_file() {
                    Some((name, seq)) => self.send_file(&name, seq, now),
                    None => return Ok(()),
                }
                continue;
            };
            self.answered(reply, now);
            self.expect_next();
            if matches!(self.phase, Phase::LoggingIn) {
                return self.read(now);
            }
        }
        let is_over = self.reader.has_rest() && matches!(self.phase, Phase::Talking);
        match is_over && !self.reader.has_farewell_next() {
            true => Err(Malformed("bytes that answer nothing")),
            false => Ok(()),
        }
    }

    fn accepted(&mut self, done: &reply::Done, now: Micros) -> Result<(), Malformed> {
        self.phase = Phase::Talking;
        let rest = std::mem::replace(&mut self.reader, ReplyReader::new(self.login.format()));
        match self.packing {
            None => {
                self.packing = Packing::of(self.login.capabilities());
                self.take_in(rest.rest())?;
            }
            // A change of user: what came is unpacked.
            Some(_) => self.reader.feed(rest.rest()),
        }
        self.reader.allow(self.farewells());
        let identity = self.login.identity();
        let schema = identity.first_schema().map(|name| Schema::from_name(name.as_bytes()));
        let multi = self.login.capabilities().contains(Capabilities::MULTI_STATEMENTS);
        self.shadow = Shadow::new(self.spec.place, self.spec.flavor, schema, multi);
        let hears = self.login.capabilities().contains(Capabilities::SESSION_TRACK);
        self.shadow.hear_changes(hears);
        self.shadow.session_mut().number = u64::from(self.login.number());
        let mismatch = self.shadow.status_mismatch(Some(done));
        if let Some(session) = self.history.sessions.last_mut() {
            session.login = LoginOutcome::Accepted(now);
            if let Some(mismatch) = mismatch {
                session.exchanges.push(Exchange::unasked(now, Some(mismatch)));
            }
        }
        self.due_after_pause(now);
        Ok(())
    }

    /// Becomes somebody else: the same connection, another session.
    fn change_user(&mut self, identity: Identity, refusal: Option<u16>, now: Micros) {
        self.end_flying();
        if let Some(session) = self.history.sessions.last_mut() {
            session.ending = Some(Ending { at_us: now, how: EndedBy::Client });
        }
        self.shadow.end(&mut self.rows);
        let mut out = Vec::new();
        self.login.change_user(identity.clone(), &mut out);
        self.transmit(out);
        self.begin_session(&identity, refusal, now);
        if let Some(session) = self.history.sessions.last_mut() {
            // The connection stays, and may be killed by its number before it hears anything.
            session.number = Some(u64::from(self.login.number()));
        }
        self.phase = Phase::LoggingIn;
    }

    /// What came is not the protocol's.
    fn give_up(&mut self, nonsense: &Malformed, now: Micros) {
        let mismatch =
            Mismatch { kind: MismatchKind::Nonsense, evidence: format!("malformed: {nonsense}") };
        let front = self.flying.front().map(|flying| flying.exchange);
        if let Some(session) = self.history.sessions.last_mut() {
            let exchange = match front {
                Some(front) => session.exchanges.get_mut(front),
                None => session.exchanges.last_mut(),
            };
            match exchange {
                Some(exchange) => exchange.mismatch = Some(mismatch),
                None => session.exchanges.push(Exchange::unasked(now, Some(mismatch))),
            }
        }
        self.outputs.push(ClientOutput::Close { reset: true });
        self.end_session(EndedBy::Nonsense, now);
    }

    fn close(&mut self, reset: bool, now: Micros) {
        self.outputs.push(ClientOutput::Close { reset });
        self.end_session(EndedBy::Client, now);
    }

    /// What is under way gets no answer any more.
    fn end_flying(&mut self) {
        let Some(session) = self.history.sessions.last_mut() else {
            return;
        };
        for (place, flying) in self.flying.drain(..).enumerate() {
            let Some(exchange) = session.exchanges.get_mut(flying.exchange) else {
                continue;
            };
            let is_next = place == 0;
            let mut said = Vec::new();
            for statement in &flying.statements {
                let (schema, rows) = (flying.prepared_in, Some(&mut self.rows));
                said.push(self.shadow.unanswered(statement, schema, is_next, rows));
                // What follows it ran only if it did.
                self.shadow.may_have_run(statement);
            }
            exchange.statements = said;
        }
    }

    fn end_session(&mut self, how: EndedBy, now: Micros) {
        if matches!(self.phase, Phase::Away(_)) {
            return;
        }
        self.read_farewell(now);
        self.end_flying();
        self.shadow.end(&mut self.rows);
        if self.resumes_us.is_some() {
            self.resumes_us = None;
        }
        let mut was_refused = false;
        if let (Some(session), false) =
            (self.history.sessions.last_mut(), matches!(self.phase, Phase::Connecting))
        {
            session.ending = Some(Ending { at_us: now, how });
            was_refused = session.refusal_expected.is_some();
        }
        let has_more = self.next < self.spec.script.len();
        let comes_again = has_more
            && !self.is_told_to_go
            && !was_refused
            && self.reconnects < self.spec.reconnects_max;
        self.reconnects += 1;
        let wait_us = RECONNECT_US << self.reconnects.min(8);
        self.phase = Phase::Away(comes_again.then_some(now + wait_us));
    }
}

fn login_of(spec: &ClientSpec) -> Login {
    Login::new(spec.identity.clone(), spec.capabilities, spec.encrypts)
}

impl Exchange {
    /// Stands for what came without a command.
    fn unasked(at_us: Micros, mismatch: Option<Mismatch>) -> Self {
        Self {
            statements: Vec::new(),
            text: "the login".to_owned(),
            sent_us: at_us,
            paused_us: 0,
            answer: Answer::Whole(at_us, Vec::new()),
            mismatch,
            error_expected: None,
            is_unanswered: true,
            kill: None,
        }
    }
}
