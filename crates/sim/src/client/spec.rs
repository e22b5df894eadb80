//! What a client is going to do, as plain data.

use trunkline_protocol::{Capabilities, packet::greeting::Flavor};

use super::login::Identity;
use crate::{
    Micros,
    statement::{Schema, Statement, Tag, Template},
};

/// A client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSpec {
    /// Its place in the plan; its statements' tags are of this client.
    pub place: usize,
    /// Who logs in.
    pub identity: Identity,
    /// The error that a login of this identity ends with, if the identity itself is wrong.
    pub refusal: Option<u16>,
    /// The dialect of the servers behind the proxy.
    pub flavor: Flavor,
    /// What it asks for: `DEPRECATE_EOF`, `SESSION_TRACK`, `FOUND_ROWS`, `MULTI_STATEMENTS`.
    pub capabilities: Capabilities,
    /// What a balancer in front of it sends first: a header of the PROXY protocol; empty for none.
    pub header: Vec<u8>,
    /// Whether it encrypts its connection, where that is offered.
    pub encrypts: bool,
    /// When it connects first.
    pub starts_us: Micros,
    /// What it does, one after the other.
    pub script: Vec<Step>,
    /// Commands under way at most; 1 for a client that waits for each reply.
    pub ahead_max: usize,
    /// How it reads.
    pub reading: Reading,
    /// How it goes when the script is over.
    pub leaving: Leaving,
    /// The proxy passes its bytes to one server connection as they are (`fast_forward`). So it may
    /// be told of an end unasked, as servers do.
    pub is_direct: bool,
    /// How often it connects again when its session has ended before its script.
    pub reconnects_max: u32,
}

/// How a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// At once.
    Eager,
    /// After each so many bytes it pauses.
    Slow {
        /// Bytes.
        every: u64,
        /// For so long.
        pause_us: Micros,
    },
}

/// How a client goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// `COM_QUIT`, then it closes.
    Politely,
    /// It closes.
    Silently,
    /// It resets the connection.
    Rudely,
    /// It stays until it is told to go.
    Never,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How long it rests before.
    pub pause_us: Micros,
    /// What it does then.
    pub deed: Deed,
}

/// What a client does. Slots are the client's own numbers of prepared statements; a command on an
/// empty slot is sent with an id that nobody has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// `COM_QUERY` of one or more statements.
    Query(Vec<Statement>),
    /// `COM_STMT_PREPARE`.
    Prepare {
        /// Into which slot; one that is there is closed first.
        slot: u8,
        /// What.
        template: Template,
        /// Names the preparation.
        tag: Tag,
    },
    /// `COM_STMT_EXECUTE`.
    Execute {
        /// Of which slot.
        slot: u8,
        /// Names the execution.
        tag: Tag,
        /// The key, length or number of rows, by the template.
        value: u64,
        /// Rows are to be fetched.
        cursor: bool,
        /// The text of [`Template::Length`] goes ahead in pieces.
        long_data: bool,
    },
    /// `COM_STMT_BULK_EXECUTE` of [`Template::Put`]: one row, written again and again.
    Bulk {
        /// Of which slot.
        slot: u8,
        /// The row.
        key: u64,
        /// Names each write.
        tags: Vec<Tag>,
    },
    /// `COM_STMT_FETCH`.
    Fetch {
        /// From which slot.
        slot: u8,
        /// At most.
        rows: u32,
    },
    /// `COM_STMT_RESET`.
    ResetStmt(u8),
    /// `COM_STMT_CLOSE`.
    Close(u8),
    /// `COM_PING`.
    Ping,
    /// `COM_INIT_DB`.
    InitDb(Schema),
    /// `COM_RESET_CONNECTION`.
    Reset,
    /// `COM_CHANGE_USER`, with the error that the identity itself brings about.
    ChangeUser(Identity, Option<u16>),
    /// `COM_SET_OPTION`: several statements in a command, or not.
    Multi(bool),
    /// `COM_STATISTICS`.
    Statistics,
    /// `EXPLAIN ROUTE` of a statement that says this name, which nobody runs.
    Explain {
        /// The statement.
        text: String,
        /// A name in it, which nobody else asks about.
        name: String,
    },
    /// `PROXYSQL INTERNAL SESSION`: what the proxy knows of the client that asks.
    AskForSession,
    /// A command that no server has (1047).
    Nonsense,
    /// The first bytes of a command, then nothing more: the connection is reset.
    Vanish {
        /// How many bytes.
        bytes: usize,
    },
}
