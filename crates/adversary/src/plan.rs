//! What a program is: plain data, which a seed draws and a file can say.

mod draw;
mod grammar;
mod script;

use trunkline_testkit::Flavour;

pub(crate) use draw::used;
pub use draw::{Wish, draw};
pub use grammar::topics;

/// An account on servers and proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// May do everything in the schema.
    Ada,
    /// Has neither `TRIGGER` nor `SHOW VIEW`.
    Bob,
}

impl Account {
    /// Its name; the password is the same word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Account::Ada => "ada",
            Account::Bob => "bob",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Account> {
        [Account::Ada, Account::Bob].into_iter().find(|account| account.name() == name)
    }
}

/// What stands behind the proxy and how it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// One server.
    One,
    /// A writer and a reader that replicates from it, split by the proxy.
    Split,
    /// As [`Self::Split`], with rules: `multiplex = 0` for some statements, and a cache for others.
    Rules,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 3] = [Profile::One, Profile::Split, Profile::Rules];

    /// Its name in a script.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Profile::One => "one",
            Profile::Split => "split",
            Profile::Rules => "rules",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Whether reads may go to a replica.
    #[must_use]
    pub fn has_reader(self) -> bool {
        self != Profile::One
    }
}

/// What a session does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// `COM_QUERY`.
    Query(Vec<u8>),
    /// Prepared by command and executed.
    Prepared(Vec<u8>),
    /// Closes what it has prepared by command.
    Close,
    /// `COM_RESET_CONNECTION`.
    Reset,
    /// `COM_PING`.
    Ping,
    /// `COM_CHANGE_USER`, to a name that may not exist.
    ChangeUser(String),
    /// `COM_INIT_DB`.
    Schema(String),
    /// Ends the connection and begins another.
    Reconnect,
    /// `KILL QUERY`, or `KILL CONNECTION`, of another session or itself.
    Kill {
        /// Whose.
        target: usize,
        /// The whole connection.
        is_connection: bool,
    },
    /// A statement whose server connection is killed from outside while it runs.
    Strike(Vec<u8>),
}

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who.
    pub session: usize,
    /// What.
    pub act: Act,
}

/// A program: a schema, sessions and what they do in turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Whose servers.
    pub family: Flavour,
    /// What stands behind the proxy.
    pub profile: Profile,
    /// The account of each session.
    pub accounts: Vec<Account>,
    /// Statements that make the schema; one that fails fails on both sides.
    pub setup: Vec<String>,
    /// What sessions do.
    pub steps: Vec<Step>,
}

impl Plan {
    /// The name of a session: `A`, `B`, ….
    #[must_use]
    pub fn session_name(session: usize) -> char {
        ('A'..='Z').nth(session).unwrap_or('?')
    }
}
