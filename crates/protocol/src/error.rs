//! The errors that the proxy itself tells clients: codes, SQLSTATEs, whose fault it is, and whether
//! to try again is safe.
//!
//! Codes are those of MySQL or MariaDB for what they mean there; 9001 is ProxySQL's. What a server
//! answers is relayed as it is, and not here. `docs/manual/errors.md` is made from this table.

use std::borrow::Cow;

use crate::{packet::err::put_err, response::ServerError};

/// Who has to change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The client or its application.
    Client,
    /// The operator, by the configuration: a limit, a list, a setting.
    Operator,
    /// The server or the network before it.
    Server,
}

/// What comes of sending the same once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Nothing was carried out, and it may succeed.
    Safe,
    /// It may have been carried out: only what does no harm when it is done twice.
    MayBeDone,
    /// What caused it is in what was sent: it causes it again.
    Useless,
}

macro_rules! kinds {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident = $code:literal $state:literal $fault:ident $retry:ident,
    )+) => {
        /// What an error of the proxy's own is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ErrorKind {
            $($(#[doc = $doc])+ $name,)+
        }

        impl ErrorKind {
            /// All kinds, by code.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// MySQL's code.
            #[must_use]
            pub const fn code(self) -> u16 {
                match self { $(Self::$name => $code,)+ }
            }

            /// MySQL's SQLSTATE.
            #[must_use]
            pub const fn sqlstate(self) -> &'static [u8; 5] {
                match self { $(Self::$name => $state,)+ }
            }

            /// Who has to change something.
            #[must_use]
            pub const fn fault(self) -> Fault {
                match self { $(Self::$name => Fault::$fault,)+ }
            }

            /// What comes of sending the same once more.
            #[must_use]
            pub const fn retry(self) -> Retry {
                match self { $(Self::$name => Retry::$retry,)+ }
            }

            /// When it is told.
            #[must_use]
            pub const fn when(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc,)+).trim_ascii(),)+ }
            }
        }
    };
}

kinds! {
    /// `max_connections` clients are connected, or as many as may be from one address.
    TooManyConnections = 1040 b"08004" Operator Safe,
    /// `memory_max` does not give a statement, its parameters or a prepared text the memory that it
    /// takes: the text says why.
    OutOfResources = 1041 b"HY000" Operator Safe,
    /// A handshake that is malformed, late, or asks for TLS where there is none; a PROXY header
    /// that is wrong.
    BadHandshake = 1043 b"08S01" Client Useless,
    /// No such user, or another password, or not from here.
    AccessDenied = 1045 b"28000" Client Useless,
    /// A command that the proxy does not relay.
    UnknownCommand = 1047 b"08S01" Client Useless,
    /// The session's schema is on no server.
    UnknownSchema = 1049 b"42000" Client Useless,
    /// `stop_timeout` is over while the command is under way; the session ends. The text says
    /// whether a server had got it.
    ShuttingDown = 1053 b"08S01" Operator MayBeDone,
    /// `KILL` of a number that no session has.
    UnknownThread = 1094 b"HY000" Client Useless,
    /// `KILL` of another user's session.
    NotOwner = 1095 b"HY000" Client Useless,
    /// Long data that is longer than `max_allowed_packet`.
    LongDataTooLong = 1105 b"HY000" Client Useless,
    /// The client's address has failed to log in too often; later it may try again.
    HostBlocked = 1129 b"HY000" Client Safe,
    /// The client's address is in no list that may connect.
    HostNotAllowed = 1130 b"HY000" Operator Useless,
    /// The firewall or a rule does not let it pass, it reads a user variable that the session has
    /// on another hostgroup, or it would commit what has been written on several.
    NotAllowed = 1148 b"42000" Operator Useless,
    /// A command that is longer than `max_allowed_packet`; the session ends.
    PacketTooLarge = 1153 b"08S01" Client Useless,
    /// A packet with another number than the next; the session ends.
    OutOfOrder = 1156 b"08S01" Client Useless,
    /// A compressed packet that can't be unpacked; the session ends.
    NotUnpackable = 1157 b"08S01" Client Useless,
    /// An execution whose parameters are not those of its statement.
    WrongArguments = 1210 b"HY000" Client Useless,
    /// A transaction was lost with its server connection before its end was sent: it is rolled
    /// back, and the session goes on. The transaction can be begun again.
    /// With `commit_outcome = "auto"`: the answer to a `COMMIT` or a write was lost, and the
    /// servers say that it was not carried out.
    RolledBack = 1213 b"40001" Server Safe,
    /// A limit on a user's connections, or on how often a statement may run.
    LimitReached = 1226 b"42000" Operator Safe,
    /// A setting of the login that is none.
    WrongValue = 1231 b"42000" Client Useless,
    /// A statement that can't be followed through shared connections.
    NotSupported = 1235 b"42000" Client Useless,
    /// A prepared statement that the session does not have.
    UnknownStatement = 1243 b"HY000" Client Useless,
    /// The user's password needs a plug-in that the client does not have.
    OutdatedAuthentication = 1251 b"08004" Client Useless,
    /// A text that can't be prepared, or an execution of many rows that was not agreed on.
    NotPreparable = 1295 b"HY000" Client Useless,
    /// A `KILL` came before the statement was sent.
    Interrupted = 1317 b"70100" Client Safe,
    /// A fetch from a statement without an open cursor.
    NoCursor = 1421 b"HY000" Client Useless,
    /// The session has as many prepared statements as it may.
    TooManyStatements = 1461 b"42000" Client Useless,
    /// A command that does not hold what it says.
    MalformedPacket = 1835 b"HY000" Client Useless,
    /// The time of `default_query_timeout`, of a rule or of a hint is over: the statement was not
    /// sent, or its server was told to end it and has. A table without transactions, and what a
    /// `CALL` did before, keep what was written.
    TimedOut = 1907 b"70100" Operator MayBeDone,
    /// The session has ended itself by `KILL` (MariaDB).
    KilledItself = 1927 b"70100" Client Safe,
    /// In place of 2013 to a client of MariaDB's Connector/C, which takes no code of the range 2000
    /// to 2999 from a server: whatever 2013 is told for. Logs and statistics say 2013.
    LostToConnectorC = 1927 b"70100" Server MayBeDone,
    /// The server was lost while the statement ran.
    /// With `commit_outcome = "auto"`, the text says of a write if it is known to have been carried
    /// out.
    ConnectionLost = 2013 b"HY000" Server MayBeDone,
    /// What the session held on a server is lost with its connection (a transaction, a temporary
    /// table, a user variable, …), or the id of its last row; the session ends where more depends
    /// on it.
    StateLost = 2013 b"HY000" Server MayBeDone,
    /// Where servers run so many statements at once (`server_concurrency`, `tenant_by`): a
    /// statement had to wait for its turn, and can't begin within its `MAX_EXECUTION_TIME`,
    /// `max_execution_time` or `max_statement_time`. It was not sent.
    Late = 3024 b"HY000" Server Safe,
    /// The client did not ask for TLS, which its user or listener requires.
    TlsRequired = 3159 b"HY000" Client Useless,
    /// `LOAD DATA LOCAL` by a client that offers no files (MySQL).
    LocalInfileOffMySql = 3948 b"42000" Client Useless,
    /// The session has rested for longer than `wait_timeout`: told unasked, with the number 0,
    /// where servers are MySQL 8.0.24 or later.
    Inactivity = 4031 b"HY000" Client Safe,
    /// `LOAD DATA LOCAL` by a client that offers no files (MariaDB).
    LocalInfileOffMariaDb = 4166 b"HY000" Client Useless,
    /// No connection was to be had in time: the text says why. Nothing was sent.
    NoConnection = 9001 b"HY000" Server Safe,
}

impl ErrorKind {
    /// The error with its text.
    pub fn says(self, text: impl Into<Cow<'static, str>>) -> ClientError {
        ClientError { code: self.code(), sqlstate: *self.sqlstate(), text: text.into() }
    }
}

/// An error on its way to a client: one of the proxy's own, or what a server has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientError {
    /// MySQL's code.
    pub code: u16,
    /// MySQL's SQLSTATE.
    pub sqlstate: [u8; 5],
    /// What happened and what to do.
    pub text: Cow<'static, str>,
}

impl ClientError {
    /// Appends it as packet `seq`; returns the next number.
    pub fn put(&self, out: &mut Vec<u8>, seq: u8) -> u8 {
        put_err(out, seq, self.code, &self.sqlstate, &self.text)
    }
}

impl From<ClientError> for ServerError {
    fn from(error: ClientError) -> Self {
        let message = error.text.into_owned().into_bytes().into();
        Self { code: error.code, sqlstate: error.sqlstate, message }
    }
}

impl From<&ServerError> for ClientError {
    fn from(error: &ServerError) -> Self {
        let text = String::from_utf8_lossy(&error.message).into_owned().into();
        Self { code: error.code, sqlstate: error.sqlstate, text }
    }
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write, path::Path};

    use super::*;

    const BEGIN: &str = "<!-- Written by crates/protocol/src/error.rs (TRUNKLINE_UPDATE=1). -->\n";

    fn table() -> String {
        let mut text = format!(
            "{BEGIN}\n| code | SQLSTATE | when | at fault | the same again |\n|---|---|---|---|---|\n"
        );
        for kind in ErrorKind::ALL {
            let fault = match kind.fault() {
                Fault::Client => "client",
                Fault::Operator => "operator",
                Fault::Server => "server, network",
            };
            let retry = match kind.retry() {
                Retry::Safe => "safe: nothing was carried out",
                Retry::MayBeDone => "it may have been carried out",
                Retry::Useless => "the same error",
            };
            let state = String::from_utf8_lossy(kind.sqlstate());
            let (code, when) = (kind.code(), kind.when());
            writeln!(text, "| {code} | {state} | {when} | {fault} | {retry} |").expect("a string");
        }
        text
    }

    #[test]
    fn the_manual_lists_the_errors() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual/errors.md");
        let known = std::fs::read_to_string(&path).expect("the manual's page");
        let (before, _) = known.split_once(BEGIN).expect("the page says where the table begins");
        let wanted = format!("{before}{}", table());
        if std::env::var_os("TRUNKLINE_UPDATE").is_some() {
            std::fs::write(&path, wanted).expect("the manual can be written");
        } else {
            assert_eq!(known, wanted, "run this test with TRUNKLINE_UPDATE=1");
        }
    }

    #[test]
    fn kinds_are_in_the_order_of_their_codes() {
        assert!(ErrorKind::ALL.is_sorted_by_key(|kind| kind.code()));
    }
}
