//! What a setting is: its row in the table, and how a value is read and shown.

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use trunkline_sql::routine::Routines;
use trunkline_topology::{
    AllowList, Concurrency, HeartbeatTable, LazyTransactions, Origins, PinnedKeys, Secret,
    TenantScope,
    causal::{CausalFallback, CausalReads},
    outcome::CommitOutcomes,
};

use crate::{
    ListenAddress, ListenAllow, ListenTls,
    error::{ErrorKind, Wrong},
    words::words,
};

/// A value as a file or an operator gave it, before its setting has judged it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// A whole number.
    Integer(i128),
    /// A number with a fraction, as it is written.
    Fraction(String),
    /// `true` or `false`.
    Boolean(bool),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Given>),
    /// A table: names and values.
    Table(Vec<(String, Given)>),
    /// Something that no setting takes; the word names its type (`a date`).
    Other(&'static str),
}

impl Given {
    /// Overwrites a text, which may have been a password.
    pub(crate) fn wipe(self) {
        if let Self::Text(text) = self {
            drop(Secret::new(text));
        }
    }

    /// The type, with its article, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Integer(_) => "an integer",
            Self::Fraction(_) => "a number with a fraction",
            Self::Boolean(_) => "a boolean",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(name) => name,
        }
    }
}

/// Whether a change takes effect at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// A reload is enough.
    Live,
    /// The running value stays until the next start.
    Restart,
}

/// The longest text with public keys, bytes.
const KEYS_LEN_MAX: usize = 65_536;

/// What values a setting takes beyond its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Every value of the type.
    All,
    /// Whole numbers from the first to the second, both included.
    Numbers(u64, u64),
    /// Text of at most this many bytes, without control characters.
    Text(usize),
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => Ok(()),
            Self::Numbers(min, max) => write!(f, "{min} to {max}"),
            Self::Text(max) => write!(f, "at most {max} bytes"),
        }
    }
}

/// One row of the table of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The key at the top level of the file: ProxySQL's variable without `mysql-` where there is
    /// one.
    pub name: &'static str,
    /// The type in words, such as `integer` or `text or json`.
    pub kind: &'static str,
    /// The unit of a number; empty for what has none.
    pub unit: &'static str,
    /// What values it takes.
    pub range: Range,
    /// Whether a change takes effect at once.
    pub reload: Reload,
    /// The first version that has it.
    pub since: &'static str,
    /// What it does, one paragraph.
    pub doc: &'static str,
}

/// A type that a setting can have.
pub trait SettingValue: Sized {
    /// The type in words.
    const KIND: &'static str;

    /// Reads a value; the error says what it must be (`must be 1 to 9, not 0`).
    fn read(given: &Given, range: Range) -> Result<Self, Wrong>;

    /// The value as the file writes it, without quotes.
    fn show(&self) -> String;
}

/// `must be an integer, not a string`.
pub(crate) fn wrong_type(expected: &str, given: &Given) -> Wrong {
    Wrong::new(ErrorKind::WrongType, format!("must be {expected}, not {}", given.type_name()))
}

fn out_of_range(reason: String) -> Wrong {
    Wrong::new(ErrorKind::OutOfRange, reason)
}

/// Reads a whole number of `min` to `max`.
pub(crate) fn read_number(given: &Given, min: u64, max: u64) -> Result<u64, Wrong> {
    let Given::Integer(number) = given else {
        return Err(wrong_type("an integer", given));
    };
    u64::try_from(*number)
        .ok()
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| out_of_range(format!("must be {min} to {max}, not {number}")))
}

/// Reads a boolean; 0 and 1 are taken too, as ProxySQL's columns write it.
pub(crate) fn read_flag(given: &Given) -> Result<bool, Wrong> {
    match given {
        Given::Boolean(flag) => Ok(*flag),
        Given::Integer(0) => Ok(false),
        Given::Integer(1) => Ok(true),
        Given::Integer(number) => Err(out_of_range(format!("must be true or false, not {number}"))),
        _ => Err(wrong_type("a boolean", given)),
    }
}

/// Reads a text.
pub(crate) fn read_text(given: &Given) -> Result<&str, Wrong> {
    match given {
        Given::Text(text) => Ok(text),
        _ => Err(wrong_type("a string", given)),
    }
}

macro_rules! whole_number {
    ($($type:ty),+) => { $(
        impl SettingValue for $type {
            const KIND: &'static str = "integer";

            fn read(given: &Given, range: Range) -> Result<Self, Wrong> {
                let (min, max) = match range {
                    Range::Numbers(min, max) => (min, max),
                    Range::All | Range::Text(_) => (0, u64::MAX),
                };
                let number = read_number(given, min, max)?;
                Self::try_from(number).map_err(|_| out_of_range(format!("is too large: {number}")))
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+ };
}

whole_number!(u8, u32, u64, usize);

impl SettingValue for bool {
    const KIND: &'static str = "boolean";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        read_flag(given)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for String {
    const KIND: &'static str = "text";

    fn read(given: &Given, range: Range) -> Result<Self, Wrong> {
        let text = read_text(given)?;
        if let Range::Text(max) = range
            && text.len() > max
        {
            return Err(out_of_range(format!("must have at most {max} bytes, not {}", text.len())));
        }
        if text.chars().any(char::is_control) {
            return Err("must not hold control characters".to_owned().into());
        }
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl SettingValue for Secret<String> {
    const KIND: &'static str = "password";

    fn read(given: &Given, range: Range) -> Result<Self, Wrong> {
        String::read(given, range).map(Self::new)
    }

    /// As it is: tables hold passwords.
    fn show(&self) -> String {
        self.expose().clone()
    }
}

/// Public keys in PEM, or the path of a file with them; empty for none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySource(pub String);

impl SettingValue for KeySource {
    const KIND: &'static str = "path or PEM";

    fn read(given: &Given, range: Range) -> Result<Self, Wrong> {
        let text = read_text(given)?;
        if PinnedKeys::is_inline(text) && text.len() <= KEYS_LEN_MAX {
            return Ok(Self(text.to_owned()));
        }
        String::read(given, range).map(Self)
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl SettingValue for Vec<ListenAddress> {
    const KIND: &'static str = "list of addresses";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        let Given::List(items) = given else {
            return Err(wrong_type("a list of addresses", given));
        };
        let mut list = Self::with_capacity(items.len());
        for item in items {
            let address: ListenAddress =
                read_item(item)?.parse().map_err(|reason| format!("is wrong: {reason}"))?;
            if list.contains(&address) {
                return Err(Wrong::new(ErrorKind::Duplicate, format!("names `{address}` twice")));
            }
            list.push(address);
        }
        if list.is_empty() {
            return Err("is empty, so there is no listener".to_owned().into());
        }
        Ok(list)
    }

    fn show(&self) -> String {
        let quoted: Vec<String> = self.iter().map(|address| format!("\"{address}\"")).collect();
        format!("[{}]", quoted.join(", "))
    }
}

/// The texts of a list; as a variable it is one text with `;` between them.
fn read_words(given: &Given) -> Result<Vec<&str>, Wrong> {
    match given {
        Given::List(items) => items.iter().map(read_text).collect(),
        Given::Text(text) => Ok(text.split(';').filter(|word| !word.is_empty()).collect()),
        _ => Err(wrong_type("a list of strings", given)),
    }
}

impl SettingValue for Vec<ListenTls> {
    const KIND: &'static str = "list of listeners with their TLS";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        let entries = read_words(given)?.into_iter().map(|word| word.trim().parse());
        Ok(entries.collect::<Result<_, String>>()?)
    }

    fn show(&self) -> String {
        let words: Vec<String> = self.iter().map(ToString::to_string).collect();
        words.join(";")
    }
}

/// Values that are words of the crate that they belong to.
macro_rules! word_value {
    ($($type:ty),+) => { $(
        impl SettingValue for $type {
            const KIND: &'static str = "word";

            fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
                Ok(read_text(given)?.parse::<Self>()?)
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+ };
}

word_value!(CausalReads, CausalFallback, TenantScope);

impl SettingValue for Concurrency {
    const KIND: &'static str = "number, or a word";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        match given {
            Given::Integer(number) => Ok(number.to_string().parse::<Self>()?),
            _ => Ok(read_text(given)?.parse::<Self>()?),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for Origins {
    const KIND: &'static str = "list of networks";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        read_entries(given, Self::add)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for AllowList {
    const KIND: &'static str = "list of networks and names of hosts";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        read_entries(given, Self::add)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// The entries of a list, each added by itself.
fn read_entries<T: Default + FromStr<Err = String>>(
    given: &Given,
    add: impl Fn(&mut T, &str) -> Result<(), String>,
) -> Result<T, Wrong> {
    let is_wrong = |reason| format!("is wrong: {reason}");
    let Given::List(items) = given else {
        // As a variable it is one text.
        return Ok(read_text(given)?.parse().map_err(is_wrong)?);
    };
    let mut list = T::default();
    for item in items {
        add(&mut list, read_item(item)?).map_err(is_wrong)?;
    }
    Ok(list)
}

/// Reads a text of a list.
fn read_item(item: &Given) -> Result<&str, Wrong> {
    let reason = || format!("must hold strings, not {}", item.type_name());
    read_text(item).map_err(|wrong| Wrong { reason: reason(), ..wrong })
}

impl SettingValue for Vec<ListenAllow> {
    const KIND: &'static str = "list of listeners with who may connect";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        let entries = read_words(given)?.into_iter().map(|word| word.trim().parse());
        Ok(entries.collect::<Result<_, String>>()?)
    }

    fn show(&self) -> String {
        let words: Vec<String> = self.iter().map(ToString::to_string).collect();
        words.join(";")
    }
}

impl SettingValue for Routines {
    const KIND: &'static str = "names of routines";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        Ok(read_text(given)?.parse::<Self>()?)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for HeartbeatTable {
    const KIND: &'static str = "a schema and a table";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        Ok(read_text(given)?.parse::<Self>()?)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for CommitOutcomes {
    const KIND: &'static str = "off or auto";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        Ok(read_text(given)?.parse::<Self>()?)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// An address that may be switched off with an empty text.
impl SettingValue for LazyTransactions {
    const KIND: &'static str = "off or begin";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        Ok(read_text(given)?.parse::<Self>()?)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for Option<SocketAddr> {
    const KIND: &'static str = "address, or empty";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        match read_text(given)? {
            "" => Ok(None),
            text => match text.parse() {
                Ok(address) => Ok(Some(address)),
                Err(_) => Err(format!("must be `ip:port` or empty, not `{text}`").into()),
            },
        }
    }

    fn show(&self) -> String {
        self.map(|addr| addr.to_string()).unwrap_or_default()
    }
}

/// Where the facts learned from servers are kept for the next start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StateFile {
    /// Beside the configuration file, with `.state` after its name.
    #[default]
    Beside,
    /// Nowhere.
    Off,
    /// At this path.
    Path(PathBuf),
}

impl StateFile {
    /// The path, given that of the configuration file; `None` when nothing is kept.
    pub fn path(&self, config_file: &Path) -> Option<PathBuf> {
        match self {
            Self::Beside => {
                let mut name = config_file.as_os_str().to_owned();
                name.push(".state");
                Some(PathBuf::from(name))
            }
            Self::Off => None,
            Self::Path(path) => Some(path.clone()),
        }
    }
}

/// The folder of the history, given what `state_file` says and the path of the configuration;
/// `None` where nothing is kept.
pub fn history_path(state_file: &StateFile, config: &Path) -> Option<PathBuf> {
    let beside = match state_file {
        StateFile::Path(path) => path,
        StateFile::Beside => config,
        StateFile::Off => return None,
    };
    let mut name = beside.as_os_str().to_owned();
    name.push(".history");
    Some(PathBuf::from(name))
}

/// The path of the control socket, given what `control_socket` and `state_file` say and the path of
/// the configuration; `None` where there is none.
pub fn control_path(setting: &str, state_file: &StateFile, config: &Path) -> Option<PathBuf> {
    match setting {
        "" => None,
        "auto" => {
            let beside = match state_file {
                StateFile::Path(path) => path,
                StateFile::Beside | StateFile::Off => config,
            };
            let mut name = beside.as_os_str().to_owned();
            name.push(".control");
            Some(PathBuf::from(name))
        }
        path => Some(PathBuf::from(path)),
    }
}

impl SettingValue for StateFile {
    const KIND: &'static str = "path, or empty";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        match read_text(given)? {
            "" => Ok(Self::Off),
            text => Ok(Self::Path(PathBuf::from(text))),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Beside => "the configuration file's path and `.state`".to_owned(),
            Self::Off => String::new(),
            Self::Path(path) => path.display().to_string(),
        }
    }
}

macro_rules! choice {
    ($name:ident, $kind:literal) => {
        impl SettingValue for $name {
            const KIND: &'static str = $kind;

            fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
                let word = read_text(given)?;
                let unknown = || format!("must be {}, not `{word}`", $kind);
                Ok(Self::from_word(word).ok_or_else(unknown)?)
            }

            fn show(&self) -> String {
                self.word().to_owned()
            }
        }
    };
}

words! {
    /// How much is logged.
    LogLevel {
        /// What failed.
        Error = "error",
        /// And what looks wrong.
        Warn = "warn",
        /// And what changed.
        #[default] Info = "info",
        /// And what a developer asks.
        Debug = "debug",
        /// And every step.
        Trace = "trace",
    }
}

choice!(LogLevel, "error, warn, info, debug or trace");

words! {
    /// How a log line is written.
    LogFormat {
        /// For people.
        #[default] Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

choice!(LogFormat, "text or json");

words! {
    /// What types the columns of answers on the admin port have.
    AdminTypes {
        /// All are texts, as in ProxySQL.
        #[default] Text = "text",
        /// Those that their values have.
        Real = "real",
    }
}

choice!(AdminTypes, "text or real");

words! {
    /// How workers receive.
    IoDriver {
        /// What costs less here.
        #[default] Auto = "auto",
        /// Each socket is read when it has something.
        Epoll = "epoll",
        /// The kernel puts what comes into buffers.
        IoUring = "io_uring",
    }
}

choice!(IoDriver, "auto, epoll or io_uring");

words! {
    /// The lowest version of TLS towards clients.
    TlsVersionMin {
        /// TLS 1.2.
        #[default] V1_2 = "1.2",
        /// TLS 1.3.
        V1_3 = "1.3",
    }
}

choice!(TlsVersionMin, "1.2 or 1.3");

words! {
    /// What a server's `use_ssl = 1` means.
    TlsDefault {
        /// The CA is checked where one is given.
        #[default] Auto = "auto",
        /// Nothing is checked.
        Required = "required",
        /// The CA is checked.
        VerifyCa = "verify-ca",
        /// The CA and the host name are checked.
        VerifyIdentity = "verify-identity",
    }
}

choice!(TlsDefault, "auto, required, verify-ca or verify-identity");
