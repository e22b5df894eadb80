//! What clients sent and got. Clients write it while they run; the checks read it.

use super::facts::Gtid;
use crate::{
    Micros,
    client::reply::{Part, Refused, Reply, error_of},
    statement::{Schema, Tag},
};

/// All that one client did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientHistory {
    /// Its place in the plan.
    pub client: usize,
    /// Its sessions, in order. `COM_CHANGE_USER` ends one and begins the next.
    pub sessions: Vec<SessionHistory>,
}

/// From a connect, or a change of user, to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHistory {
    /// User name.
    pub user: String,
    /// What it logged in with.
    pub password: String,
    /// The number that its connection was greeted with.
    pub number: Option<u64>,
    /// When the client connected, or asked for the change.
    pub begun_us: Micros,
    /// How the login went.
    pub login: LoginOutcome,
    /// What a refused login may be told, as the client knows of itself: its password is wrong,
    /// its schema is none.
    pub refusal_expected: Option<u16>,
    /// A balancer's header goes ahead of the login, and may cross what the client is told.
    pub has_header: bool,
    /// Commands in the order sent.
    pub exchanges: Vec<Exchange>,
    /// How it ended; `None` while it lasts.
    pub ending: Option<Ending>,
}

/// How a login went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginOutcome {
    /// It is under way.
    Pending,
    /// The session began at this time.
    Accepted(Micros),
    /// It was refused at this time.
    Refused(Micros, Refused),
}

/// The end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// When.
    pub at_us: Micros,
    /// How.
    pub how: EndedBy,
}

/// Who ended a session, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// The client said goodbye, vanished, or became another user.
    Client,
    /// The proxy closed the connection.
    Proxy,
    /// The network did, by the plan.
    Network,
    /// The client gave up on bytes that are not the protocol's.
    Nonsense,
}

/// One command and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// What the command ran; empty for commands without a statement. Part *n* of the reply is
    /// statement *n*'s.
    pub statements: Vec<Said>,
    /// The command, for people and for rules' patterns.
    pub text: String,
    /// When it was handed to the network.
    pub sent_us: Micros,
    /// Time that the client did not read, between then and the answer.
    pub paused_us: Micros,
    /// What came back.
    pub answer: Answer,
    /// How the answer differs from what a direct connection would have given.
    pub mismatch: Option<Mismatch>,
    /// An error that the client itself expects, such as 1094 for `KILL`.
    pub error_expected: Option<u16>,
    /// Nobody answers such a command.
    pub is_unanswered: bool,
    /// Whom it is to end.
    pub kill: Option<Kill>,
}

/// What a `KILL` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill {
    /// The number of a session, perhaps nobody's.
    pub number: u64,
    /// Only the statement that it runs.
    pub query_only: bool,
}

/// What came back for a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet, or never.
    Pending,
    /// A whole reply, at this time.
    Whole(Micros, Reply),
}

/// A statement as the checks need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// Its name.
    pub tag: Tag,
    /// What it does to data.
    pub access: Access,
    /// The schema of its tables without one.
    pub schema: Option<Schema>,
    /// The transaction that it is part of, numbered by the client; `None` in autocommit.
    pub unit: Option<u32>,
    /// It begins its transaction, read-only or not.
    pub begins: Option<Begins>,
    /// How it ends its transaction. What commits one and begins another is part of the first.
    pub ends: Option<Ends>,
    /// It is to end a transaction that only reads by beginning something else, which may be for
    /// another server.
    pub moves_on: bool,
    /// It is part of a transaction that only reads: what is not proven to read takes that from a
    /// reader to the writer, once.
    pub leaves_reader: bool,
    /// The session holds something on its connection, or did since it was reset last.
    pub held: bool,
    /// Its reply says that it has changed tables of servers.
    pub has_changed: bool,
    /// It runs by `COM_STMT_EXECUTE`.
    pub is_prepared: bool,
    /// The proxy may answer it of what it knows: `KILL`, what an earlier statement left, a `SET`
    /// that changes nothing.
    pub is_proxys_own: bool,
    /// The proxy may answer it where no statement of its transaction has been sent to a server.
    pub may_be_lazy: bool,
    /// The commit that its reply names.
    pub gtid: Option<Gtid>,
    /// The row of its client's own that it read, with what came back.
    pub read: Option<OwnRead>,
    /// The row of its client's own that it changed, or may have changed.
    pub write: Option<OwnWrite>,
}

/// What a statement does to data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Certainly only reads, and may run twice.
    Read,
    /// Reads, but locks or changes the session on the way.
    LockingRead,
    /// Changes data.
    Write,
    /// Concerns the session or its transaction only.
    Session,
}

impl Said {
    /// A statement in autocommit that does this to data, and nothing else.
    pub fn new(tag: Tag, access: Access) -> Self {
        Self {
            tag,
            access,
            schema: None,
            unit: None,
            begins: None,
            ends: None,
            moves_on: false,
            leaves_reader: false,
            held: false,
            has_changed: false,
            is_prepared: false,
            is_proxys_own: false,
            may_be_lazy: false,
            gtid: None,
            read: None,
            write: None,
        }
    }
}

/// How a transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    /// It may write.
    ReadWrite,
    /// It may not.
    ReadOnly,
}

/// How a statement ends a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// By `COMMIT`, or by something that commits.
    Commit,
    /// By `ROLLBACK`.
    Rollback,
}

/// A row of `kv` by its schema and key.
pub type RowId = (Schema, u64);

/// A change of a row that only this client writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnWrite {
    /// The row.
    pub row: RowId,
    /// The value that it has afterwards; `None` when it is gone.
    pub value: Option<u64>,
}

/// A read of a row that only this client writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnRead {
    /// The row.
    pub row: RowId,
    /// The value seen; `None` when the row was not there.
    pub seen: Option<u64>,
}

/// A reply that is not its statement's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// What kind.
    pub kind: MismatchKind,
    /// What was expected and what came.
    pub evidence: String,
}

/// What is wrong with a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MismatchKind {
    /// It carries the tag of another statement.
    Foreign,
    /// It has another form than its statement's answer.
    Shape,
    /// It shows session state that is not this session's.
    State,
    /// It shows data that this client never wrote.
    Data,
    /// It violates the protocol.
    Nonsense,
}

/// What became of one statement, as its client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known<'a> {
    /// It succeeded.
    Done,
    /// It was answered with this error.
    Failed(&'a Refused),
    /// A statement before it in the same command failed, so it did not run.
    Skipped,
    /// Nobody knows.
    Unknown,
}

impl Exchange {
    /// When it was answered.
    pub fn answered_us(&self) -> Option<Micros> {
        match &self.answer {
            Answer::Whole(at_us, _) => Some(*at_us),
            Answer::Pending => None,
        }
    }

    /// The error that it was answered with.
    pub fn error(&self) -> Option<&Refused> {
        match &self.answer {
            Answer::Whole(_, reply) => error_of(reply),
            Answer::Pending => None,
        }
    }

    /// What the client knows of statement `index`.
    pub fn known(&self, index: usize) -> Known<'_> {
        let Answer::Whole(_, reply) = &self.answer else {
            return Known::Unknown;
        };
        // An error in the middle of rows comes as a part of its own behind them.
        let mut parts = reply.iter().filter(|part| !matches!(part, Part::Rows { end: None, .. }));
        match parts.nth(index) {
            Some(Part::Error(error)) => Known::Failed(error),
            Some(_) => Known::Done,
            None => match error_of(reply) {
                Some(error) if is_of_connection(error) => Known::Unknown,
                // Of rows that were executed at once, and of a text, some may have run before their
                // transaction was lost with all of them.
                Some(error) if error.is_lost_transaction() => Known::Failed(error),
                Some(_) | None => Known::Skipped,
            },
        }
    }
}

/// Errors that say that a connection was lost: what was under way may have been done.
pub fn is_of_connection(error: &Refused) -> bool {
    matches!(error.code, 2006 | 2013 | 1053 | 1927)
}

impl SessionHistory {
    /// A session that begins.
    pub fn new(user: &str, password: &str, begun_us: Micros) -> Self {
        Self {
            user: user.to_owned(),
            password: password.to_owned(),
            number: None,
            begun_us,
            login: LoginOutcome::Pending,
            refusal_expected: None,
            has_header: false,
            exchanges: Vec::new(),
            ending: None,
        }
    }

    /// When exchange `index` could be worked on at the earliest: when it was sent, or when the
    /// one before it was answered.
    pub fn turn_us(&self, index: usize) -> Option<Micros> {
        let sent_us = self.exchanges.get(index)?.sent_us;
        let before = self.exchanges.get(..index).unwrap_or_default();
        let answered = before.iter().rev().find_map(Exchange::answered_us).unwrap_or_default();
        Some(sent_us.max(answered))
    }
}
