//! The system variables of the model servers, a choice of each sort.

use trunkline_protocol::packet::greeting::Flavor;

use super::Isolation;

/// A session variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// `time_zone`.
    TimeZone,
    /// `sql_mode`.
    SqlMode,
    /// `sort_buffer_size`.
    SortBufferSize,
    /// `group_concat_max_len`.
    GroupConcatMaxLen,
    /// `lock_wait_timeout`.
    LockWaitTimeout,
    /// `foreign_key_checks`.
    ForeignKeyChecks,
    /// `unique_checks`.
    UniqueChecks,
    /// `autocommit`.
    Autocommit,
    /// `transaction_isolation`, in MariaDB `tx_isolation`.
    TransactionIsolation,
    /// `transaction_read_only`, in MariaDB `tx_read_only`.
    TransactionReadOnly,
    /// `character_set_client`.
    CharsetClient,
    /// `character_set_connection`.
    CharsetConnection,
    /// `character_set_results`.
    CharsetResults,
    /// `collation_connection`.
    CollationConnection,
}

/// What values a variable takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number within these bounds; others are an error here (servers mostly cut them).
    Number(u64, u64),
    /// On or off.
    Flag,
    /// One of these texts. Each text of two or more by comma is one of its own.
    OneOf(&'static [&'static str]),
    /// The name of a character set; NULL for `character_set_results` alone.
    Charset,
    /// The name of a collation.
    Collation,
}

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// A number.
    Number(u64),
    /// On or off.
    Flag(bool),
    /// A text.
    Text(&'static str),
    /// NULL.
    Null,
    /// A text that is no value of any variable.
    Wrong(String),
}

impl Value {
    /// As `SELECT @@variable` shows it.
    pub fn shown(&self) -> Option<String> {
        match self {
            Self::Number(number) => Some(number.to_string()),
            Self::Flag(flag) => Some(u8::from(*flag).to_string()),
            Self::Text(text) => Some((*text).to_owned()),
            Self::Wrong(text) => Some(text.clone()),
            Self::Null => None,
        }
    }

    /// As a server's tracker reports it.
    pub fn tracked(&self) -> String {
        match self {
            Self::Flag(true) => "ON".to_owned(),
            Self::Flag(false) => "OFF".to_owned(),
            other => other.shown().unwrap_or_default(),
        }
    }
}

/// A character set with one collation that is not its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Charset {
    /// `utf8mb4`.
    Utf8mb4,
    /// `latin1`.
    Latin1,
    /// `ascii`.
    Ascii,
}

impl Charset {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Utf8mb4, Self::Latin1, Self::Ascii];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8mb4 => "utf8mb4",
            Self::Latin1 => "latin1",
            Self::Ascii => "ascii",
        }
    }

    /// Its default collation.
    pub fn default_collation(self, flavor: Flavor) -> &'static str {
        match (self, flavor) {
            (Self::Utf8mb4, Flavor::MySql) => "utf8mb4_0900_ai_ci",
            (Self::Utf8mb4, Flavor::MariaDb) => "utf8mb4_general_ci",
            (Self::Latin1, _) => "latin1_swedish_ci",
            (Self::Ascii, _) => "ascii_general_ci",
        }
    }

    /// Another collation of it.
    pub fn other_collation(self) -> &'static str {
        match self {
            Self::Utf8mb4 => "utf8mb4_bin",
            Self::Latin1 => "latin1_bin",
            Self::Ascii => "ascii_bin",
        }
    }

    /// The character set of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|charset| charset.name() == name)
    }

    /// The character set of a collation: its first part.
    pub fn of_collation(collation: &str) -> Option<Self> {
        Self::from_name(collation.split('_').next().unwrap_or_default())
    }
}

/// Collations by name, so that a value is a static text.
const COLLATIONS: [&str; 7] = [
    "utf8mb4_general_ci",
    "utf8mb4_0900_ai_ci",
    "utf8mb4_bin",
    "latin1_swedish_ci",
    "latin1_bin",
    "ascii_general_ci",
    "ascii_bin",
];

/// A known collation's static name.
pub(crate) fn collation(name: &str) -> Option<&'static str> {
    COLLATIONS.into_iter().find(|known| *known == name)
}

impl Variable {
    /// All of them, in the order of their names on MySQL, as trackers report them.
    pub const ALL: [Self; 14] = [
        Self::Autocommit,
        Self::CharsetClient,
        Self::CharsetConnection,
        Self::CharsetResults,
        Self::CollationConnection,
        Self::ForeignKeyChecks,
        Self::GroupConcatMaxLen,
        Self::LockWaitTimeout,
        Self::SortBufferSize,
        Self::SqlMode,
        Self::TimeZone,
        Self::TransactionIsolation,
        Self::TransactionReadOnly,
        Self::UniqueChecks,
    ];

    /// Its name on servers of a flavor.
    pub fn name(self, flavor: Flavor) -> &'static str {
        match (self, flavor) {
            (Self::TransactionIsolation, Flavor::MariaDb) => "tx_isolation",
            (Self::TransactionReadOnly, Flavor::MariaDb) => "tx_read_only",
            (Self::TransactionIsolation, Flavor::MySql) => "transaction_isolation",
            (Self::TransactionReadOnly, Flavor::MySql) => "transaction_read_only",
            (Self::TimeZone, _) => "time_zone",
            (Self::SqlMode, _) => "sql_mode",
            (Self::SortBufferSize, _) => "sort_buffer_size",
            (Self::GroupConcatMaxLen, _) => "group_concat_max_len",
            (Self::LockWaitTimeout, _) => "lock_wait_timeout",
            (Self::ForeignKeyChecks, _) => "foreign_key_checks",
            (Self::UniqueChecks, _) => "unique_checks",
            (Self::Autocommit, _) => "autocommit",
            (Self::CharsetClient, _) => "character_set_client",
            (Self::CharsetConnection, _) => "character_set_connection",
            (Self::CharsetResults, _) => "character_set_results",
            (Self::CollationConnection, _) => "collation_connection",
        }
    }

    /// The variable of that name, on servers of either flavor.
    pub fn from_name(name: &str) -> Option<Self> {
        let is_it = |variable: &Self| {
            variable.name(Flavor::MySql) == name || variable.name(Flavor::MariaDb) == name
        };
        Self::ALL.into_iter().find(is_it)
    }

    /// What values it takes.
    pub fn kind(self) -> Kind {
        match self {
            Self::TimeZone => Kind::OneOf(&["SYSTEM", "+00:00", "+01:00", "+05:30", "-08:00"]),
            Self::SqlMode => Kind::OneOf(&[
                "STRICT_TRANS_TABLES",
                "",
                "ANSI_QUOTES",
                "NO_BACKSLASH_ESCAPES",
                "ANSI_QUOTES,NO_BACKSLASH_ESCAPES",
                "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION",
            ]),
            Self::SortBufferSize => Kind::Number(32_768, 1 << 32),
            Self::GroupConcatMaxLen => Kind::Number(4, 1 << 32),
            Self::LockWaitTimeout => Kind::Number(1, 31_536_000),
            Self::ForeignKeyChecks
            | Self::UniqueChecks
            | Self::Autocommit
            | Self::TransactionReadOnly => Kind::Flag,
            Self::TransactionIsolation => {
                Kind::OneOf(&["REPEATABLE-READ", "READ-COMMITTED", "SERIALIZABLE"])
            }
            Self::CharsetClient | Self::CharsetConnection | Self::CharsetResults => Kind::Charset,
            Self::CollationConnection => Kind::Collation,
        }
    }

    /// What a session begins with; of character sets, what `DEFAULT` gives.
    pub fn default_value(self, flavor: Flavor) -> Value {
        // MariaDB's default differs from what clients' handshakes ask for, as it does in fact.
        let charset = match flavor {
            Flavor::MySql => Charset::Utf8mb4,
            Flavor::MariaDb => Charset::Latin1,
        };
        match self {
            Self::TimeZone => Value::Text("SYSTEM"),
            Self::SqlMode => Value::Text("STRICT_TRANS_TABLES"),
            Self::SortBufferSize => Value::Number(262_144),
            Self::GroupConcatMaxLen => Value::Number(1_024),
            Self::LockWaitTimeout => Value::Number(86_400),
            Self::ForeignKeyChecks | Self::UniqueChecks | Self::Autocommit => Value::Flag(true),
            Self::TransactionReadOnly => Value::Flag(false),
            Self::TransactionIsolation => Value::Text(Isolation::RepeatableRead.value()),
            Self::CharsetClient | Self::CharsetConnection | Self::CharsetResults => {
                Value::Text(charset.name())
            }
            Self::CollationConnection => Value::Text(charset.default_collation(flavor)),
        }
    }

    /// Values that clients set it to.
    pub fn samples(self) -> Vec<Value> {
        match self.kind() {
            Kind::Number(least, _) => {
                [0, 1, 4_096, 65_536].map(|more| Value::Number(least + more)).to_vec()
            }
            Kind::Flag => vec![Value::Flag(false), Value::Flag(true)],
            Kind::OneOf(texts) => texts.iter().copied().map(Value::Text).collect(),
            Kind::Charset if self == Self::CharsetResults => {
                let texts = Charset::ALL.into_iter().map(|charset| Value::Text(charset.name()));
                texts.chain([Value::Null]).collect()
            }
            Kind::Charset => {
                Charset::ALL.into_iter().map(|charset| Value::Text(charset.name())).collect()
            }
            Kind::Collation => {
                let other = |charset: Charset| Value::Text(charset.other_collation());
                Charset::ALL.into_iter().map(other).collect()
            }
        }
    }

    /// A value as the variable keeps it; `None` if it does not take it.
    pub fn accept(self, value: &Value) -> Option<Value> {
        match (self.kind(), value) {
            (Kind::Number(least, most), Value::Number(number)) => {
                (least..=most).contains(number).then_some(Value::Number(*number))
            }
            (Kind::Flag, Value::Number(number @ 0..=1)) => Some(Value::Flag(*number == 1)),
            (Kind::Flag, Value::Flag(flag)) => Some(Value::Flag(*flag)),
            (Kind::Flag, Value::Text(text)) => flag_of(text),
            (Kind::Flag, Value::Wrong(text)) => flag_of(text),
            (Kind::Charset, Value::Null) if self == Self::CharsetResults => Some(Value::Null),
            (_, Value::Text(text)) => self.accept_text(text),
            (_, Value::Wrong(text)) => self.accept_text(text),
            _ => None,
        }
    }

    fn accept_text(self, text: &str) -> Option<Value> {
        let found = match self.kind() {
            Kind::OneOf(texts) => texts.iter().copied().find(|known| *known == text),
            Kind::Charset => Charset::from_name(text).map(Charset::name),
            Kind::Collation => collation(text),
            Kind::Number(..) | Kind::Flag => None,
        };
        found.map(Value::Text)
    }
}

fn flag_of(text: &str) -> Option<Value> {
    match text {
        "ON" => Some(Value::Flag(true)),
        "OFF" => Some(Value::Flag(false)),
        _ => None,
    }
}
