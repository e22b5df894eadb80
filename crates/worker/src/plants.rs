//! Bugs planted on purpose, so that the simulator can show that it finds them. Compiled only with
//! the feature `plants`, which nothing but the simulator's own test asks for.

use crate::rooms::Core;

/// A bug. Each is a small slip in one place; the comments say what goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// Of two statements on a shared connection each gets the other's reply.
    ReplyToNeighbour,
    /// A connection goes to the next session as the one before left it.
    ResetForgotten,
    /// A read is sent again though part of its reply has come.
    RetryAfterFirstByte,
    /// A write that was sent is sent again when its connection is lost.
    RetryOfWrite,
    /// A transaction holds its session only until a statement of it fails.
    PinDroppedEarly,
    /// A lost connection's place under the cap is given back twice.
    DoubleRelease,
    /// One connection more is opened than a server may have.
    CapOffByOne,
    /// The third that waits is on no list.
    WaiterForgotten,
    /// A new configuration makes sessions forget the connections that they hold.
    SnapshotClearsLeases,
    /// A server that is drained loses the sessions that are in the middle of something.
    DrainCutsTransaction,
    /// After a reset a statement is taken for prepared that is not.
    StalePreparedId,
    /// A read does not wait for, nor bring along, the session's variables.
    SyncSkipped,
    /// A read within a transaction goes to a reader.
    SplitIgnoresTransaction,
    /// A temporary table does not hold its session.
    TemporaryTableNotPinned,
    /// A user's place is not given back at the end of a session.
    UserPlaceLeaked,
    /// A client that was not read from is never read from again.
    PausedForever,
    /// Whoever waits for a connection waits on, whatever the time-out says.
    QueueTimeoutForgotten,
    /// A reply that was answered elsewhere meanwhile is delivered as well.
    OvertakenReplyDelivered,
    /// Writes share connections like reads.
    WriteShared,
    /// `KILL` ends whoever has the next number of the worker.
    KillHitsNeighbour,
    /// A statement that fails is taken to have left nothing behind.
    FailureIsClean,
    /// Every name is taken for a plain table's, whatever the catalog says.
    ViewIsTable,
    /// A statement that may write follows its session to a reader that holds it.
    ReaderAttractsWrite,
    /// A stored answer is found by a session in another schema.
    CacheForgetsInput,
    /// A `BEGIN` that waits for the first statement of its transaction is forgotten.
    BeginLost,
    /// A `COMMIT` is answered although the transaction has sent something.
    CommitSwallowed,
    /// A `COMMIT` whose answer is lost is answered with OK, whatever became of it.
    CommitGuessed,
    /// A tenant that has to wait is never next.
    TenantStarved,
    /// A repeated transaction goes on although its statements are answered otherwise.
    ReplayUnchecked,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 29] = [
        Self::ReplyToNeighbour,
        Self::ResetForgotten,
        Self::RetryAfterFirstByte,
        Self::RetryOfWrite,
        Self::PinDroppedEarly,
        Self::DoubleRelease,
        Self::CapOffByOne,
        Self::WaiterForgotten,
        Self::SnapshotClearsLeases,
        Self::DrainCutsTransaction,
        Self::StalePreparedId,
        Self::SyncSkipped,
        Self::SplitIgnoresTransaction,
        Self::TemporaryTableNotPinned,
        Self::UserPlaceLeaked,
        Self::PausedForever,
        Self::QueueTimeoutForgotten,
        Self::OvertakenReplyDelivered,
        Self::WriteShared,
        Self::KillHitsNeighbour,
        Self::FailureIsClean,
        Self::ViewIsTable,
        Self::ReaderAttractsWrite,
        Self::CacheForgetsInput,
        Self::BeginLost,
        Self::CommitSwallowed,
        Self::CommitGuessed,
        Self::TenantStarved,
        Self::ReplayUnchecked,
    ];
}

impl Core {
    /// See [`Worker::plant`](crate::Worker::plant).
    pub(crate) fn plant(&mut self, plant: Plant) {
        self.env.plant = Some(plant);
    }
}
