//! One connection, as its server sees it.

use std::collections::VecDeque;

use trunkline_protocol::{
    Malformed,
    capability::Capabilities,
    codec::{compressed::Expected, frame::split_packet},
    packet::{greeting::NONCE_LEN, ok::ReplyFormat},
};

use super::store::Pending;
use crate::{
    Micros,
    packing::Packing,
    sealing::Seal,
    session::{Claim, ModelSession},
    statement::{Schema, Statement},
};

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    /// The server's number for it.
    pub(super) number: u64,
    pub(super) phase: Phase,
    pub(super) nonce: [u8; NONCE_LEN],
    pub(super) capabilities: Capabilities,
    pub(super) format: ReplyFormat,
    /// What both ends agreed to do with their bytes, from the end of the login on.
    pub(super) packing: Option<Box<Packing>>,
    /// It is encrypted, or will be.
    pub(super) seal: Option<Seal>,
    /// Arrived and not looked at.
    pub(super) inbox: Vec<u8>,
    /// The other end is gone.
    pub(super) is_deserted: bool,
    /// What is sent next is no packet.
    pub(super) sends_garbage: bool,
    pub(super) pending: Pending,
    pub(super) held: Vec<Claim>,
    pub(super) work: Option<Work>,
}

/// How far a connection has come.
#[derive(Debug)]
pub(super) enum Phase {
    /// Greeted; the answer is due.
    Greeted,
    /// Another plug-in's answer is due.
    Switched(Login),
    /// Takes commands.
    Ready(Box<ModelSession>),
}

/// Who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) schema: Option<Vec<u8>>,
    pub(super) collation: u16,
}

/// A command under way.
#[derive(Debug)]
pub(super) struct Work {
    /// Its statements that have not run.
    pub(super) jobs: VecDeque<Job>,
    pub(super) stage: Stage,
    /// When it goes on.
    pub(super) due: Micros,
    /// Number of the next packet.
    pub(super) seq: u8,
    /// The client's file, as far as it has come.
    pub(super) file: Option<Vec<u8>>,
    /// What the rows of a bulk execution before this one have changed.
    pub(super) affected: u64,
    /// It ends with 1317 once the file has come.
    pub(super) is_killed: bool,
}

impl Work {
    /// Statements that begin.
    pub(super) fn new(jobs: VecDeque<Job>, due: Micros) -> Self {
        Self { jobs, stage: Stage::Serving, due, seq: 1, file: None, affected: 0, is_killed: false }
    }
}

/// What a command under way does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its next statement is worked on, and runs when it is due.
    Serving,
    /// Its next statement waits for locks, at the longest until it is due.
    Waiting,
    /// Its next statement reads the client's file.
    Reading,
    /// Everything has run; these bytes go out when it is due.
    Replying(Vec<u8>),
}

/// One statement of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) statement: Statement,
    /// Where its tables are, for one that was prepared in a schema.
    pub(super) prepared_in: Option<Option<Schema>>,
    pub(super) form: Form,
}

/// How rows are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As texts.
    Text,
    /// As a prepared statement's.
    Binary,
    /// Not at once; this statement keeps them.
    Cursor(u32),
    /// Not at all: the rows of parameters that follow are answered together.
    Bulk,
}

impl Conn {
    pub(super) fn new(number: u64, nonce: [u8; NONCE_LEN]) -> Self {
        Self {
            number,
            phase: Phase::Greeted,
            nonce,
            capabilities: Capabilities::EMPTY,
            format: ReplyFormat::default(),
            packing: None,
            seal: None,
            inbox: Vec::new(),
            is_deserted: false,
            sends_garbage: false,
            pending: Pending::default(),
            held: Vec::new(),
            work: None,
        }
    }

    /// Bytes of the other end; what is sent back at once, as it is.
    ///
    /// # Errors
    /// [`Malformed`] for compressed packets that no server takes, or no hello of TLS.
    pub(super) fn take_in(&mut self, bytes: &[u8]) -> Result<&'static [u8], Malformed> {
        let Some(seal) = &mut self.seal else {
            self.take_plain(bytes)?;
            return Ok(&[]);
        };
        let unsealed = seal.unseal(bytes)?;
        self.take_plain(&unsealed.plain)?;
        Ok(unsealed.answer)
    }

    fn take_plain(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        match &mut self.packing {
            None => self.inbox.extend_from_slice(bytes),
            Some(packing) => {
                self.inbox.extend(packing.unpack(bytes, Expected::CommandOrAnswer)?);
            }
        }
        Ok(())
    }

    /// The next packet: its number and its payload.
    pub(super) fn take_packet(&mut self) -> Option<(u8, Vec<u8>)> {
        let (header, payload, rest) = split_packet(&self.inbox)?;
        let taken = (header.seq, payload.to_vec());
        let consumed = self.inbox.len() - rest.len();
        self.inbox.drain(..consumed);
        Some(taken)
    }

    /// The session of a connection that takes commands.
    pub(super) fn session_mut(&mut self) -> Option<&mut ModelSession> {
        match &mut self.phase {
            Phase::Ready(session) => Some(session),
            Phase::Greeted | Phase::Switched(_) => None,
        }
    }
}
