//! What an operator is told: each change of a role or of a server's health, with its evidence.

use std::fmt;

use crate::HostId;

/// A change, and what showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What has changed.
    pub kind: EventKind,
    /// The server that it is about; `None` for the cluster as a whole.
    pub host: Option<HostId>,
    /// What was seen, in words.
    pub evidence: String,
}

/// What has changed. The names of the first ones are those of MaxScale's `$EVENT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// A server has become the writer.
    NewMaster,
    /// The writer has lost its role; statements that write wait.
    LostMaster,
    /// The writer does not answer any more.
    MasterDown,
    /// The writer answers again.
    MasterUp,
    /// A server that does not write does not answer any more.
    SlaveDown,
    /// A server that does not write answers again.
    SlaveUp,
    /// A server has become a reader.
    NewSlave,
    /// A server is no reader any more.
    LostSlave,
    /// A server takes writes without being the writer: it gets neither reads nor writes until it
    /// is read-only again or somebody decides.
    Fenced,
    /// A server that was fenced is read-only again.
    Unfenced,
    /// A replica takes writes: its `read_only` is off.
    WritableReplica,
    /// Several servers could be the writer, and none is chosen.
    Conflict,
    /// A server can't be asked, though it is there.
    Trouble,
    /// Two members turned out to be one server.
    SameServer,
    /// A step of a switchover was done.
    Switchover,
    /// A step of a switchover failed; the text says what is so now, and what to do.
    SwitchoverFailed,
    /// A step of an automatic failover was done, or would be.
    Failover,
    /// A step of an automatic failover failed; the text says what is so now, and what to do.
    FailoverFailed,
    /// A server that has written before replicates again.
    Rejoined,
    /// A server has transactions that the writer has not, so that it can't replicate from it.
    Diverged,
    /// An operator works on a server, or has finished.
    Maintenance,
}

impl EventKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 21] = [
        Self::NewMaster,
        Self::LostMaster,
        Self::MasterDown,
        Self::MasterUp,
        Self::SlaveDown,
        Self::SlaveUp,
        Self::NewSlave,
        Self::LostSlave,
        Self::Fenced,
        Self::Unfenced,
        Self::WritableReplica,
        Self::Conflict,
        Self::Trouble,
        Self::SameServer,
        Self::Switchover,
        Self::SwitchoverFailed,
        Self::Failover,
        Self::FailoverFailed,
        Self::Rejoined,
        Self::Diverged,
        Self::Maintenance,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NewMaster => "new_master",
            Self::LostMaster => "lost_master",
            Self::MasterDown => "master_down",
            Self::MasterUp => "master_up",
            Self::SlaveDown => "slave_down",
            Self::SlaveUp => "slave_up",
            Self::NewSlave => "new_slave",
            Self::LostSlave => "lost_slave",
            Self::Fenced => "fenced",
            Self::Unfenced => "unfenced",
            Self::WritableReplica => "writable_replica",
            Self::Conflict => "conflict",
            Self::Trouble => "trouble",
            Self::SameServer => "same_server",
            Self::Switchover => "switchover",
            Self::SwitchoverFailed => "switchover_failed",
            Self::Failover => "failover",
            Self::FailoverFailed => "failover_failed",
            Self::Rejoined => "rejoined",
            Self::Diverged => "diverged",
            Self::Maintenance => "maintenance",
        }
    }

    /// Whether somebody should look at it.
    pub fn is_bad(self) -> bool {
        match self {
            Self::LostMaster
            | Self::MasterDown
            | Self::SlaveDown
            | Self::Fenced
            | Self::WritableReplica
            | Self::Conflict
            | Self::Trouble
            | Self::SameServer
            | Self::SwitchoverFailed
            | Self::FailoverFailed
            | Self::Diverged => true,
            Self::NewMaster
            | Self::MasterUp
            | Self::SlaveUp
            | Self::NewSlave
            | Self::LostSlave
            | Self::Unfenced
            | Self::Switchover
            | Self::Failover
            | Self::Rejoined
            | Self::Maintenance => false,
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
