//! Why a session can't leave its server connection: state that no statement can carry over.

/// A cause that keeps a session on its server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// A statement whose effects on the session can't be carried over (roles, `sql_log_bin`, …).
    Other,
}

impl PinReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 14] = [
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
        }
    }

    fn bit(self) -> u16 {
        1 << (self as u8)
    }
}

/// The reasons that hold a session on one server connection. Empty and without allocation for
/// nearly every session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    reasons: u16,
    named: Vec<Named>,
}

/// One thing with a name that holds the session: a table, a lock, a statement, a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    reason: PinReason,
    name: Box<[u8]>,
}

/// More named things than this are not told apart: the session stays pinned until it is reset.
const NAMED_MAX: usize = 4_096;

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

    /// Holds the session for a reason without a name.
    pub fn pin(&mut self, reason: PinReason) {
        self.reasons |= reason.bit();
    }

    /// Ends a reason, with all the names it has.
    pub fn unpin(&mut self, reason: PinReason) {
        self.reasons &= !reason.bit();
        self.named.retain(|entry| entry.reason != reason);
    }

    /// Sets or ends a reason without a name.
    pub fn set(&mut self, reason: PinReason, holds: bool) {
        match holds {
            true => self.reasons |= reason.bit(),
            false => self.reasons &= !reason.bit(),
        }
    }

    /// Holds the session for one more thing of this name. The same name twice counts twice.
    pub fn pin_name(&mut self, reason: PinReason, name: &[u8]) {
        self.pin(reason);
        match self.named.len() < NAMED_MAX {
            true => self.named.push(Named { reason, name: name.into() }),
            // From here on only a reset can end it, which is safe.
            false => self.pin(PinReason::Other),
        }
    }

    /// One thing of this name is gone; the reason ends with its last name. A name that was never
    /// pinned changes nothing.
    pub fn unpin_name(&mut self, reason: PinReason, name: &[u8]) {
        let is_it = |entry: &Named| entry.reason == reason && *entry.name == *name;
        let Some(place) = self.named.iter().position(is_it) else {
            return;
        };
        self.named.swap_remove(place);
        if !self.named.iter().any(|entry| entry.reason == reason) {
            self.unpin(reason);
        }
    }

    /// Ends everything, as a reset of the session does.
    pub fn clear(&mut self) {
        *self = Self::default();
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
    fn too_many_names_stay_pinned_until_a_reset() {
        let mut pins = Pins::default();
        for number in 0..=NAMED_MAX {
            pins.pin_name(PinReason::NamedLock, number.to_string().as_bytes());
        }
        pins.unpin(PinReason::NamedLock);
        assert!(!pins.is_empty());
        pins.clear();
        assert!(pins.is_empty());
    }
}
