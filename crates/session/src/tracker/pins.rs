//! Why a session can't leave its server connection: state that no statement can carry over.

/// A cause that keeps a session on its server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PinReason {
    /// A transaction is open.
    Transaction,
    /// `SET TRANSACTION` holds for the next transaction only.
    NextTransaction,
    /// A temporary table exists.
    TemporaryTable,
    /// `LOCK TABLES` or `FLUSH TABLES … WITH READ LOCK`.
    TableLock,
    /// `GET_LOCK()`.
    NamedLock,
    /// A user variable has a value.
    UserVariable,
    /// A prepared statement's cursor is open.
    Cursor,
    /// A statement was prepared by SQL.
    SqlPreparedStatement,
    /// `HANDLER … OPEN`.
    Handler,
    /// `SQL_CALC_FOUND_ROWS`: the count is read next.
    FoundRows,
    /// The last statement left warnings that may be read next.
    Warnings,
    /// A variable has a value that is not known here.
    UnknownVariable,
    /// The server says that the statement changed session state, and the statement's text does
    /// not say which.
    ServerState,
    /// A statement whose effects on the session can't be carried over (`insert_id`, …).
    Other,
    /// A stored routine or a prepared text ran, and may have left what no server reports: a user
    /// variable set by `INTO`, a named lock.
    Routine,
    /// An XA transaction is prepared on this connection.
    Xa,
    /// `SET ROLE`.
    Role,
    /// `BACKUP STAGE`, `BACKUP LOCK` or `LOCK INSTANCE FOR BACKUP`.
    BackupLock,
    /// Something that servers leave in place when they reset a connection: a resource group,
    /// `pseudo_thread_id`, profiles, the optimizer's trace.
    Connection,
    /// A query rule says so: `multiplex = 0`.
    Rule,
    /// A sequence gave a value, which `PREVIOUS VALUE FOR` tells.
    Sequence,
    /// A statement used names that nobody could say the meaning of: views may be among them, which
    /// take locks or set variables. Its names are schema, NUL, table.
    UnknownName,
}

impl PinReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 22] = [
        Self::Transaction,
        Self::NextTransaction,
        Self::TemporaryTable,
        Self::TableLock,
        Self::NamedLock,
        Self::UserVariable,
        Self::Cursor,
        Self::SqlPreparedStatement,
        Self::Handler,
        Self::FoundRows,
        Self::Warnings,
        Self::UnknownVariable,
        Self::ServerState,
        Self::Other,
        Self::Routine,
        Self::Xa,
        Self::Role,
        Self::BackupLock,
        Self::Connection,
        Self::Rule,
        Self::Sequence,
        Self::UnknownName,
    ];

    /// The reason in one word, as statistics show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transaction => "transaction",
            Self::NextTransaction => "next_transaction",
            Self::TemporaryTable => "temporary_table",
            Self::TableLock => "table_lock",
            Self::NamedLock => "named_lock",
            Self::UserVariable => "user_variable",
            Self::Cursor => "cursor",
            Self::SqlPreparedStatement => "sql_prepared_statement",
            Self::Handler => "handler",
            Self::FoundRows => "found_rows",
            Self::Warnings => "warnings",
            Self::UnknownVariable => "unknown_variable",
            Self::ServerState => "server_state",
            Self::Other => "other",
            Self::Routine => "routine",
            Self::Xa => "xa",
            Self::Role => "role",
            Self::BackupLock => "backup_lock",
            Self::Connection => "connection",
            Self::Rule => "rule",
            Self::Sequence => "sequence",
            Self::UnknownName => "unknown_name",
        }
    }

    /// Whether `COM_RESET_CONNECTION` leaves the cause in place, or does worse to it than the end
    /// of the connection. Checked on MariaDB 10.11 and MySQL 9.7: both keep the role, MariaDB
    /// keeps `BACKUP LOCK` and loses the rows of a prepared XA transaction. Unseen code may have
    /// set a role, which no server reports: the session may go on elsewhere behind its reset, and
    /// the connection is nobody else's.
    pub fn survives_reset(self) -> bool {
        matches!(self, Self::Xa | Self::Role | Self::BackupLock | Self::Connection)
    }

    fn bit(self) -> u32 {
        1 << (self as u8)
    }
}

/// The reasons that hold a session on one server connection. Empty and without allocation for
/// nearly every session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    reasons: u32,
    /// Those of `reasons` that also hold without a name, so that no name ends them.
    unnamed: u32,
    /// In order.
    named: Vec<Named>,
}

/// One thing with a name that holds the session: a table, a lock, a statement, a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    reason: PinReason,
    name: Box<[u8]>,
}

/// More named things than this are not told apart: the session stays pinned until it is reset.
const NAMED_MAX: usize = 1_024;

impl Pins {
    /// Whether nothing holds the session.
    pub fn is_empty(&self) -> bool {
        self.reasons == 0
    }

    /// Whether this reason holds the session.
    pub fn has(&self, reason: PinReason) -> bool {
        self.reasons & reason.bit() != 0
    }

    /// Whether anything but these reasons holds the session.
    pub fn has_other_than(&self, reasons: &[PinReason]) -> bool {
        let known = reasons.iter().fold(0, |bits, reason| bits | reason.bit());
        self.reasons & !known != 0
    }

    /// The reasons that hold.
    pub fn reasons(&self) -> impl Iterator<Item = PinReason> + '_ {
        PinReason::ALL.into_iter().filter(|reason| self.has(*reason))
    }

    /// The names of what holds for this reason, as far as they are known.
    pub fn names(&self, reason: PinReason) -> impl Iterator<Item = &[u8]> {
        self.named.iter().filter(move |entry| entry.reason == reason).map(|entry| &*entry.name)
    }

    /// Whether this reason also holds without a name.
    pub fn has_unnamed(&self, reason: PinReason) -> bool {
        self.unnamed & reason.bit() != 0
    }

    /// Whether anything holds that a reset of the connection does not end.
    pub fn survive_reset(&self) -> bool {
        self.reasons().any(PinReason::survives_reset)
    }

    /// Holds the session for a reason without a name, whatever names are ended.
    pub fn pin(&mut self, reason: PinReason) {
        self.reasons |= reason.bit();
        self.unnamed |= reason.bit();
    }

    /// Ends a reason, with all the names it has.
    pub fn unpin(&mut self, reason: PinReason) {
        self.reasons &= !reason.bit();
        self.unnamed &= !reason.bit();
        self.named.retain(|entry| entry.reason != reason);
    }

    /// Sets or ends a reason that has no names.
    pub fn set(&mut self, reason: PinReason, holds: bool) {
        match holds {
            true => self.pin(reason),
            false => self.unpin(reason),
        }
    }

    /// Holds the session for one more thing of this name. The same name twice counts twice.
    pub fn pin_name(&mut self, reason: PinReason, name: &[u8]) {
        match self.named.len() < NAMED_MAX {
            true => {
                self.reasons |= reason.bit();
                let place = self.place(reason, name).unwrap_or_else(|place| place);
                self.named.insert(place, Named { reason, name: name.into() });
            }
            // From here on only a reset can end it, which is safe.
            false => self.pin(reason),
        }
    }

    /// Where one thing of this name is, or would be.
    fn place(&self, reason: PinReason, name: &[u8]) -> Result<usize, usize> {
        self.named.binary_search_by(|entry| (entry.reason, &*entry.name).cmp(&(reason, name)))
    }

    /// Holds the session for a thing that there is once under this name.
    pub fn pin_name_once(&mut self, reason: PinReason, name: &[u8]) {
        if self.place(reason, name).is_err() {
            self.pin_name(reason, name);
        }
    }

    /// One thing of this name is gone; the reason ends with its last name. A name that was never
    /// pinned changes nothing.
    pub fn unpin_name(&mut self, reason: PinReason, name: &[u8]) {
        let Ok(place) = self.place(reason, name) else {
            return;
        };
        self.named.remove(place);
        let holds_still = self.unnamed & reason.bit() != 0;
        if !holds_still && !self.named.iter().any(|entry| entry.reason == reason) {
            self.reasons &= !reason.bit();
        }
    }

    /// Ends all that a reset of the connection ends.
    pub fn reset(&mut self) {
        let surviving = |bits: u32, reason: &PinReason| bits | reason.bit();
        let mask = PinReason::ALL.iter().filter(|reason| reason.survives_reset());
        let mask = mask.fold(0, surviving);
        self.reasons &= mask;
        self.unnamed &= mask;
        self.named.retain(|entry| entry.reason.survives_reset());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_ends_with_its_last_name() {
        let mut pins = Pins::default();
        pins.pin_name(PinReason::TemporaryTable, b"a");
        pins.pin_name(PinReason::TemporaryTable, b"b");
        pins.unpin_name(PinReason::TemporaryTable, b"a");
        assert!(pins.has(PinReason::TemporaryTable));
        pins.unpin_name(PinReason::TemporaryTable, b"unknown");
        assert!(pins.has(PinReason::TemporaryTable));
        pins.unpin_name(PinReason::TemporaryTable, b"b");
        assert_eq!(pins, Pins::default());
    }

    #[test]
    fn one_reason_does_not_end_another() {
        let mut pins = Pins::default();
        pins.pin(PinReason::UserVariable);
        pins.pin_name(PinReason::Handler, b"h");
        pins.unpin(PinReason::Handler);
        assert_eq!(pins.reasons().collect::<Vec<_>>(), [PinReason::UserVariable]);
        assert!(!pins.has_other_than(&[PinReason::UserVariable]));
    }

    #[test]
    fn names_do_not_end_what_holds_without_one() {
        let mut pins = Pins::default();
        pins.pin(PinReason::NamedLock);
        pins.pin_name(PinReason::NamedLock, b"a");
        pins.unpin_name(PinReason::NamedLock, b"a");
        assert!(pins.has(PinReason::NamedLock));
        pins.unpin(PinReason::NamedLock);
        assert_eq!(pins, Pins::default());
    }

    #[test]
    fn a_reset_leaves_what_servers_leave() {
        let mut pins = Pins::default();
        PinReason::ALL.into_iter().for_each(|reason| pins.pin_name(reason, b"x"));
        pins.pin(PinReason::Role);
        pins.reset();
        let left = [PinReason::Xa, PinReason::Role, PinReason::BackupLock, PinReason::Connection];
        assert_eq!(pins.reasons().collect::<Vec<_>>(), left);
        assert!(pins.survive_reset());
    }

    #[test]
    fn too_many_names_stay_pinned_until_they_all_end() {
        let mut pins = Pins::default();
        for number in 0..=NAMED_MAX {
            pins.pin_name(PinReason::NamedLock, number.to_string().as_bytes());
        }
        for number in 0..=NAMED_MAX {
            pins.unpin_name(PinReason::NamedLock, number.to_string().as_bytes());
        }
        assert!(pins.has(PinReason::NamedLock));
        pins.unpin(PinReason::NamedLock);
        assert!(pins.is_empty());
    }
}
