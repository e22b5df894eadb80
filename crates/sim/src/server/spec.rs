//! What a cluster is made of, and what can go wrong.

use trunkline_protocol::packet::greeting::Flavor;

use crate::{HostId, LinkId, Micros};

/// A cluster, as the plan has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSpec {
    /// The hosts; their places are their ids.
    pub hosts: Vec<HostSpec>,
    /// Which takes writes.
    pub primary: HostId,
    /// Who may log in, on every host.
    pub accounts: Vec<AccountSpec>,
}

/// One host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpec {
    /// Whose dialect it speaks.
    pub flavor: Flavor,
    /// Connections at a time, those that log in included.
    pub max_connections: usize,
    /// Service time of a statement: least and most, µs.
    pub service_us: (Micros, Micros),
    /// How long a commit takes to get here from the primary, µs.
    pub lag_us: Micros,
    /// How long a statement waits for a row or a table, µs.
    pub lock_wait_us: Micros,
    /// Of 100 replies, how many are sent a while after their statement has run, so that a crash
    /// can fall between.
    pub late_replies: u64,
    /// Statements that may be prepared by command at a time, over all connections
    /// (`max_prepared_stmt_count`).
    pub prepared_max: usize,
    /// Connections may be encrypted.
    pub offers_tls: bool,
}

impl Default for HostSpec {
    fn default() -> Self {
        Self {
            flavor: Flavor::MariaDb,
            max_connections: 100,
            service_us: (50, 300),
            lag_us: 1_000,
            lock_wait_us: 500_000,
            late_replies: 10,
            prepared_max: usize::MAX,
            offers_tls: false,
        }
    }
}

/// Who may log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSpec {
    /// User name.
    pub user: String,
    /// Password; may be empty.
    pub password: String,
    /// Another one that is taken as well, while it is changed.
    pub second: Option<String>,
}

/// What a connect comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// The connection is up; the greeting, or error 1040, is among the outputs.
    Accepted,
    /// The host is down.
    Refused,
    /// Nobody answers at all.
    Hangs,
}

/// What the monitor sees of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It does not answer.
    Silent,
    /// It takes writes.
    Primary,
    /// It lags by so much, µs; `None` when it does not know.
    Replica(Option<Micros>),
}

/// What a server does to a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerOutput {
    /// Sends bytes.
    Send {
        /// Where.
        link: LinkId,
        /// What.
        bytes: Vec<u8>,
    },
    /// What it sends next is none of the protocol's.
    Nonsense {
        /// Where.
        link: LinkId,
    },
    /// Closes its end.
    Close {
        /// Which.
        link: LinkId,
        /// Without a farewell: what is on the way may be lost.
        reset: bool,
    },
}

/// Something that goes wrong, or that an operator of servers does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerFault {
    /// The process ends: connections and what is not committed are gone.
    Crash {
        /// Where.
        host: HostId,
        /// Commits that it had not made durable and forgets.
        lose_last: usize,
    },
    /// The process begins again.
    Restart {
        /// Where.
        host: HostId,
    },
    /// Another host becomes the primary. The old one's connections end.
    Promote {
        /// The new primary.
        host: HostId,
        /// Whether it takes over all commits first, if the old one is up.
        catch_up: bool,
    },
    /// A connection is killed.
    KillConnection {
        /// Where.
        host: HostId,
        /// Which, of those that are there, counted round.
        nth: usize,
    },
    /// The next bytes of a connection are no packet.
    Garbage {
        /// Where.
        host: HostId,
        /// Which, of those that are there, counted round.
        nth: usize,
    },
    /// The next statement of a client on this host fails.
    ErrorNext {
        /// Where.
        host: HostId,
        /// With this code: 1213 (deadlock; undoes the transaction), 1205 or 1317.
        code: u16,
    },
    /// Statements take longer for a while.
    Slow {
        /// Where.
        host: HostId,
        /// By this factor.
        factor: u64,
        /// For so long.
        for_us: Micros,
    },
    /// The lag of a replica is another one now.
    Lag {
        /// Where.
        host: HostId,
        /// The new lag.
        lag_us: Micros,
    },
    /// A host hears nothing of the primary for a while.
    CutOff {
        /// Where.
        host: HostId,
        /// For so long.
        for_us: Micros,
    },
    /// New connections get no answer, or do again.
    Hang {
        /// Where.
        host: HostId,
        /// Whether it begins.
        hangs: bool,
    },
}

impl ServerFault {
    /// Its name in statistics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Crash { lose_last: 0, .. } => "crash",
            Self::Crash { .. } => "crash with loss",
            Self::Restart { .. } => "restart",
            Self::Promote { .. } => "promotion",
            Self::KillConnection { .. } => "connection killed",
            Self::Garbage { .. } => "garbage",
            Self::ErrorNext { .. } => "statement error",
            Self::Slow { .. } => "slow server",
            Self::Lag { .. } => "replication lag",
            Self::CutOff { .. } => "replication cut off",
            Self::Hang { .. } => "hanging connects",
        }
    }
}
