//! Capability flags: what both ends of a connection have agreed to understand.
//!
//! The low 32 bits are MySQL's; MariaDB puts its own above them and says so by leaving
//! [`Capabilities::LONG_PASSWORD`] out of its greeting.
//! Sources: MySQL internals "Capabilities Flags"; MariaDB knowledge base "Connection".

use std::{fmt, ops};

/// How a connection is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// zlib.
    Zlib,
    /// zstd, at the level that the handshake response names.
    Zstd,
}

/// A set of capability flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(u64);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Capabilities {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
            /// Every flag that has a name, lowest bit first.
            const NAMED: &[(Self, &str)] = &[$((Self::$name, stringify!($name)),)*];
        }
    };
}

flags! {
    /// In MySQL: passwords longer than eight characters, always set. In MariaDB's greeting its
    /// absence says that [`Capabilities::EXTENDED`] flags follow.
    LONG_PASSWORD = 0;
    /// Affected rows count the rows found, not the rows changed.
    FOUND_ROWS = 1;
    /// Column flags take two bytes.
    LONG_FLAG = 2;
    /// The handshake response carries a schema.
    CONNECT_WITH_DB = 3;
    /// `schema.table.column` is refused.
    NO_SCHEMA = 4;
    /// The connection is compressed with zlib after the handshake.
    COMPRESS = 5;
    /// ODBC behaviour; without effect since 3.22.
    ODBC = 6;
    /// The client answers `LOAD DATA LOCAL INFILE` requests.
    LOCAL_FILES = 7;
    /// Spaces may stand between a function's name and its parenthesis.
    IGNORE_SPACE = 8;
    /// The 4.1 protocol; without it nothing here applies.
    PROTOCOL_41 = 9;
    /// `interactive_timeout` applies instead of `wait_timeout`.
    INTERACTIVE = 10;
    /// TLS follows the greeting.
    SSL = 11;
    /// The client handles SIGPIPE itself; without effect on the wire.
    IGNORE_SIGPIPE = 12;
    /// Status flags are sent in EOF and OK packets.
    TRANSACTIONS = 13;
    /// Once meant the 4.1 protocol; unused.
    RESERVED = 14;
    /// The 20-byte nonce of 4.1 authentication.
    SECURE_CONNECTION = 15;
    /// One `COM_QUERY` may hold several statements.
    MULTI_STATEMENTS = 16;
    /// One `COM_QUERY` may be answered by several results.
    MULTI_RESULTS = 17;
    /// One `COM_STMT_EXECUTE` may be answered by several results.
    PS_MULTI_RESULTS = 18;
    /// Authentication plug-ins are named and may be switched.
    PLUGIN_AUTH = 19;
    /// The handshake response carries connection attributes.
    CONNECT_ATTRS = 20;
    /// Authentication data is preceded by a length-encoded length.
    PLUGIN_AUTH_LENENC_CLIENT_DATA = 21;
    /// The client survives a session whose password has expired.
    CAN_HANDLE_EXPIRED_PASSWORDS = 22;
    /// OK packets carry session state changes.
    SESSION_TRACK = 23;
    /// An OK packet ends rows, and nothing ends column definitions.
    DEPRECATE_EOF = 24;
    /// Column definitions may be left out of a result.
    OPTIONAL_RESULTSET_METADATA = 25;
    /// The connection is compressed with zstd after the handshake.
    ZSTD_COMPRESSION_ALGORITHM = 26;
    /// `COM_QUERY` and `COM_STMT_EXECUTE` carry query attributes.
    QUERY_ATTRIBUTES = 27;
    /// More than one authentication factor.
    MULTI_FACTOR_AUTHENTICATION = 28;
    /// Reserved by MySQL for extending the flags; MariaDB's former progress flag.
    CAPABILITY_EXTENSION = 29;
    /// Client-side only: verify the server's certificate.
    SSL_VERIFY_SERVER_CERT = 30;
    /// Client-side only: keep options after a failed connect.
    REMEMBER_OPTIONS = 31;
    /// MariaDB: progress reports may precede an answer.
    PROGRESS = 32;
    /// MariaDB: several commands in one packet; never released.
    COM_MULTI = 33;
    /// MariaDB: `COM_STMT_BULK_EXECUTE`.
    STMT_BULK_OPERATIONS = 34;
    /// MariaDB: column definitions carry extended type names.
    EXTENDED_METADATA = 35;
    /// MariaDB: column definitions of a prepared statement may be left out when unchanged.
    CACHE_METADATA = 36;
    /// MariaDB: a bulk execution answers with a result for each row.
    BULK_UNIT_RESULTS = 37;
}

impl Capabilities {
    /// All bits that only MariaDB defines.
    pub const EXTENDED: Self = Self(0xFFFF_FFFF << 32);
    /// No flag.
    pub const EMPTY: Self = Self(0);

    /// The set with exactly these bits; unknown ones are kept.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// All bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// MySQL's 32 bits.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
    pub const fn low(self) -> u32 {
        self.0 as u32
    }

    /// MariaDB's 32 bits.
    pub const fn extended(self) -> u32 {
        Self(self.0 >> 32).low()
    }

    /// The set with MySQL's bits `low` and MariaDB's bits `extended`.
    pub const fn from_halves(low: u32, extended: u32) -> Self {
        Self((extended as u64) << 32 | low as u64)
    }

    /// Whether every flag of `other` is in the set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Adds the flags of `other`.
    pub const fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Takes out the flags of `other`.
    pub const fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    /// How a connection with these flags is compressed. With both flags it is zlib, as in servers.
    pub const fn compression(self) -> Option<Compression> {
        if self.contains(Self::COMPRESS) {
            Some(Compression::Zlib)
        } else if self.contains(Self::ZSTD_COMPRESSION_ALGORITHM) {
            Some(Compression::Zstd)
        } else {
            None
        }
    }

    /// The flags of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The flags of both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The set without the flags of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl ops::BitOr for Capabilities {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl ops::BitAnd for Capabilities {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.intersection(other)
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unnamed = *self;
        let mut list = f.debug_set();
        for (flag, name) in Self::NAMED {
            if self.contains(*flag) {
                list.entry(&format_args!("{name}"));
                unnamed.remove(*flag);
            }
        }
        if unnamed != Self::EMPTY {
            list.entry(&format_args!("{:#x}", unnamed.0));
        }
        list.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_names_the_flags_and_shows_unnamed_bits() {
        let set = Capabilities::PROTOCOL_41 | Capabilities::PROGRESS;
        assert_eq!(format!("{set:?}"), "{PROTOCOL_41, PROGRESS}");
        let set = set | Capabilities::from_bits(1 << 60);
        assert_eq!(format!("{set:?}"), "{PROTOCOL_41, PROGRESS, 0x1000000000000000}");
        assert_eq!(format!("{:?}", Capabilities::EMPTY), "{}");
    }

    #[test]
    fn the_two_halves_make_the_whole() {
        let set = Capabilities::DEPRECATE_EOF | Capabilities::CACHE_METADATA;
        assert_eq!((set.low(), set.extended()), (1 << 24, 1 << 4));
        assert_eq!(Capabilities::from_halves(set.low(), set.extended()), set);
        assert_eq!(set & Capabilities::EXTENDED, Capabilities::CACHE_METADATA);
    }

    #[test]
    fn zlib_is_taken_where_both_are_offered() {
        let check = |set: Capabilities, expected| assert_eq!(set.compression(), expected);
        let zstd = Capabilities::ZSTD_COMPRESSION_ALGORITHM;
        check(Capabilities::EMPTY, None);
        check(zstd, Some(Compression::Zstd));
        check(zstd | Capabilities::COMPRESS, Some(Compression::Zlib));
    }

    #[test]
    fn flags_come_and_go() {
        let mut set = Capabilities::SSL;
        set.insert(Capabilities::COMPRESS);
        assert!(set.contains(Capabilities::SSL | Capabilities::COMPRESS));
        set.remove(Capabilities::SSL);
        assert_eq!(set, Capabilities::COMPRESS);
        assert!(!set.contains(Capabilities::SSL | Capabilities::COMPRESS));
    }
}
