//! A command under way: what it is, where it is to run, and how far it has come.

use std::{rc::Rc, sync::Arc};

use trunkline_catalog::{DefinitionTicket, Proof};
use trunkline_pool::{ConnId, TenantId};
use trunkline_protocol::{
    codec::frame::HEADER_LEN,
    command::execute::CURSOR_FLAGS,
    response::{ResponseShape, ServerError},
};
use trunkline_topology::{HostgroupId, ServerKey};

use crate::{
    cache::CacheFill,
    causal::place::ReadPlace,
    clients::frames::{Frames, Text},
    mirror::{CopyOf, MirrorSide},
    prepared::{Came, ClientStmt, Contents, Entry},
    replay::Noted,
    routing::directives::Directives,
    routing::route::Route,
    special::local_infile::Upload,
    statement::analysis::Known,
    statement::proof::Validity,
};

/// A command under way.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) command: CommandSent,
    pub(crate) meaning: Meaning,
    pub(crate) prepared: Preparation,
    /// It is to end, or be answered, otherwise than by itself.
    pub(crate) ending: Option<Ending>,
    pub(crate) target: Target,
    /// When it has run out of its time, ms; 0 never.
    pub(crate) deadline_ms: u64,
    pub(crate) beside: Beside,
    pub(crate) stage: Stage,
    pub(crate) sent: Sent,
}

/// What its client has sent.
#[derive(Debug)]
pub(crate) struct CommandSent {
    /// The command, packet headers and all, in the form of clients without query attributes.
    pub(crate) frames: Frames,
    /// Its query attributes: what precedes the text, or all that follows the statement id.
    pub(crate) attributes: Option<Arc<[u8]>>,
    /// The number that its client awaits the answer with.
    pub(crate) answer_seq: u8,
    pub(crate) shape: ResponseShape,
    pub(crate) purpose: Purpose,
    /// When the command was complete, µs.
    pub(crate) begun_us: u64,
}

/// What a statement is, and what is proven of it.
#[derive(Debug, Default)]
pub(crate) struct Meaning {
    /// Text and analysis, for commands that have a text.
    pub(crate) known: Option<Rc<Known>>,
    /// What it defines is unknown to everybody while it runs.
    pub(crate) definition: Option<Box<DefinitionTicket>>,
    /// Proven to be without effects: may be sent twice.
    pub(crate) is_read: bool,
    /// What is proven of it.
    pub(crate) proof: Proof,
    /// How long the proof holds; `None`, always, for one that names nothing.
    pub(crate) validity: Option<Validity>,
    /// Its text has the answers to what it asks of its session's past.
    pub(crate) is_recalled: bool,
}

/// What a statement has to do with prepared ones.
#[derive(Debug, Default)]
pub(crate) struct Preparation {
    /// The client's prepared statement that it makes, runs or fetches from.
    pub(crate) stmt_id: Option<u32>,
    /// What is run in place of the client's statement: its text with answers in it, once.
    pub(crate) entry: Option<Rc<Entry>>,
    /// What came to be prepared, where rules have rewritten that.
    pub(crate) came: Option<Rc<Came>>,
    /// The long text that is to be prepared, and what it has in it, views aside.
    pub(crate) read: Option<Box<(Text, Contents)>>,
    /// The server's id of the statement that it runs.
    pub(crate) server_stmt: u32,
    /// It is run as the statement that its connection prepares just before.
    pub(crate) runs_last: bool,
    /// What may be in the views that it names.
    pub(crate) in_views: Contents,
    /// A view that it names looks at what its session's statements have left.
    pub(crate) is_own: bool,
    /// Why it could not be prepared: the client's answer, in place of the reply to come.
    pub(crate) prepare_error: Option<Box<ServerError>>,
}

/// Where a statement is to run.
#[derive(Debug, Default)]
pub(crate) struct Target {
    /// What rules and hints ask for.
    pub(crate) directives: Directives,
    pub(crate) hostgroup: HostgroupId,
    /// The only server of the hostgroup that it is to run on, as a comment of its says.
    pub(crate) pinned_server: Option<Box<ServerKey>>,
    pub(crate) reads: ReadPlace,
    pub(crate) retries_left: u32,
    /// Connections on which it was lost before any of it was sent.
    pub(crate) lost_unsent: u32,
    /// It was lost with a connection: the next one is looked at before it is used.
    pub(crate) was_lost: bool,
    /// Shares no connection any more: it was sent on one before.
    pub(crate) never_share: bool,
    /// When it began to wait for a replica that shows what its session has written, µs; 0 before.
    pub(crate) causal_since_us: u64,
    /// On whose account it runs, once that was asked for.
    pub(crate) tenant: Option<TenantId>,
}

/// What a statement does beside being answered.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// What is stored of its answer.
    pub(crate) fill: Option<Box<CacheFill>>,
    /// It is the original or the copy of a mirrored statement, and this is to be compared.
    pub(crate) mirrored: Option<Box<MirrorSide>>,
    /// Of a copy: what it is of.
    pub(crate) copy_of: Option<Box<CopyOf>>,
    /// What is told of it, where its transaction may have to be repeated.
    pub(crate) noted: Option<Noted>,
    /// The file that its server asks the client for.
    pub(crate) upload: Upload,
}

/// When and where a statement was sent.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// When it was sent to a server, µs; 0 before.
    pub(crate) sent_us: u64,
    /// When it got the connection, if something had to be done there first, µs; 0 if not.
    pub(crate) assigned_us: u64,
    /// When its answer began, if that was not whole at once, µs; 0 if it was.
    pub(crate) answered_us: u64,
    /// Its first byte's position in the server connection's stream, to know whether any was
    /// written.
    pub(crate) sent_at: u64,
    /// The connection on which what goes ahead of it within its transaction has been sent.
    pub(crate) ahead: Option<ConnId>,
}

impl Statement {
    /// A statement of which nothing is known beyond its command.
    pub(crate) fn new(command: CommandSent, retries_left: u32) -> Self {
        Self {
            command,
            meaning: Meaning::default(),
            prepared: Preparation::default(),
            target: Target { retries_left, ..Target::default() },
            beside: Beside::default(),
            sent: Sent::default(),
            ending: None,
            deadline_ms: 0,
            stage: Stage::Queued,
        }
    }

    /// The client's prepared statement that it is an execution of.
    pub(crate) fn executed(&self) -> Option<u32> {
        self.prepared.stmt_id.filter(|_| self.command.purpose == Purpose::Execute)
    }

    /// What is to be prepared and run for the client's statement.
    pub(crate) fn entry<'a>(&'a self, stmt: &'a ClientStmt) -> &'a Rc<Entry> {
        self.prepared.entry.as_ref().unwrap_or(&stmt.entry)
    }

    /// Whether it is an execution that asks for a cursor: its flags are behind the packet's
    /// header, the code and the statement's id.
    pub(crate) fn opens_cursor(&self) -> bool {
        let flags = self.command.frames.get(HEADER_LEN + 5).copied().unwrap_or_default();
        self.command.purpose == Purpose::Execute && flags & CURSOR_FLAGS != 0
    }
}

/// Why a statement does not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A `KILL` came for it before it was sent: it never is.
    Killed,
    /// It ran out of its time: it is not sent, or its server was told to end it.
    TimedOut,
    /// It ran out of its time, and the server's answer is thrown away.
    Withheld,
}

/// What a statement is held back for, and how it goes on then.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) awaits: Awaits,
    pub(crate) route: Route,
    /// Bytes of its text, which is the end of its frames.
    pub(crate) text_len: usize,
}

/// What a statement that is held back waits for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Its client's timer.
    Time,
    /// The answer with this key, or its client's timer.
    Cached(Box<[u8]>),
    /// That what an earlier statement left has been fetched.
    Past,
    /// That the hostgroup is paused no more.
    Resume,
    /// That a replica shows what its session has written, or its client's timer.
    Position,
    /// That it is found out whether it was carried out, or its client's timer.
    Outcome,
    /// Its client's timer: a server has refused it as it is read-only, and another one may write by
    /// then.
    Writer,
}

/// How far a command has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Is held back, and has no place in any queue yet.
    Held(Box<Held>),
    /// Waits for a connection of its hostgroup.
    Queued,
    /// Looks for a connection again when this event is over.
    Returning,
    /// The connection is being brought to the session's state; the command follows.
    Synchronising(ConnId),
    /// What is to be run is being prepared on the connection; the command follows.
    Preparing(ConnId),
    /// Sent; the reply is awaited or being relayed.
    Sent(ConnId),
    /// Sent on a connection that other sessions' statements run on too.
    Shared(ConnId),
}

impl Stage {
    pub(crate) fn held(awaits: Awaits, route: Route, text_len: usize) -> Self {
        Self::Held(Box::new(Held { awaits, route, text_len }))
    }

    /// Takes out what it is held back for, if that is `wanted`; then it is as good as queued.
    pub(crate) fn release(&mut self, wanted: impl FnOnce(&Awaits) -> bool) -> Option<Held> {
        match self {
            Self::Held(held) if wanted(&held.awaits) => {
                match std::mem::replace(self, Self::Queued) {
                    Self::Held(held) => Some(*held),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The connection that the statement has, or shares.
    pub(crate) fn conn(&self) -> Option<ConnId> {
        match *self {
            Self::Held(_) | Self::Queued | Self::Returning => None,
            Self::Synchronising(conn)
            | Self::Preparing(conn)
            | Self::Sent(conn)
            | Self::Shared(conn) => Some(conn),
        }
    }
}

/// What a command is to the session, beyond its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// `COM_QUERY`.
    Query,
    /// `COM_INIT_DB`, with the schema's name.
    InitDb(Box<[u8]>),
    /// The schema that a login named is tried on a server before the login is acknowledged;
    /// carries the sequence number of that acknowledgement.
    LoginSchema(Box<[u8]>, u8),
    /// `COM_STMT_PREPARE`.
    Prepare,
    /// `COM_STMT_EXECUTE` and `COM_STMT_BULK_EXECUTE`.
    Execute,
    /// `COM_STMT_FETCH`.
    Fetch,
    /// `COM_RESET_CONNECTION` on a leased connection.
    Reset,
    /// `COM_RESET_CONNECTION` on a leased connection, in front of a `COM_CHANGE_USER`; carries its
    /// body.
    ChangeUser(Box<[u8]>),
    /// `COM_REGISTER_SLAVE`.
    Register,
    /// `COM_BINLOG_DUMP` or `COM_BINLOG_DUMP_GTID`.
    Dump,
    /// Anything else that a server answers.
    Other,
}

impl Purpose {
    /// Whether the client gets what the server answers, and not an answer of the proxy's own.
    pub(crate) fn is_answered_by_server(&self) -> bool {
        !matches!(self, Self::LoginSchema(..) | Self::ChangeUser(_))
    }

    /// Takes the body of a change of user that goes on behind this.
    pub(crate) fn body_of_change(&mut self) -> Option<Box<[u8]>> {
        match self {
            Self::ChangeUser(body) => Some(std::mem::take(body)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
