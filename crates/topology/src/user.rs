//! Who may connect, and as whom they reach the servers.

use std::{borrow::Cow, fmt};

use trunkline_protocol::auth::parsec;

use crate::{
    AllowList, HostgroupId, LazyTransactions, Ratio, Secret, TlsRequirement, causal::CausalReads,
    outcome::CommitOutcomes,
};

/// A user's password as the configuration holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Password {
    /// The password itself; every authentication method works with it.
    Clear(Secret<String>),
    /// `SHA1(SHA1(password))`, written `*` and 40 hex digits.
    NativeHash(Secret<[u8; 20]>),
    /// MySQL's `caching_sha2_password` string: `$A$` rounds `$` 20 salt bytes 43 digest characters.
    Sha2Hash(Secret<Vec<u8>>),
    /// What `sha256_password` stores: `$5$`, 20 salt bytes, `$`, 43 digest characters.
    Sha256Hash(Secret<Vec<u8>>),
    /// MariaDB's public key for `client_ed25519`, written as 43 characters of base64.
    Ed25519Key(Secret<[u8; 32]>),
    /// What `parsec` stores: `P` and a digit, salt and public key in base64, with `:` between them.
    ParsecKey(Secret<Vec<u8>>),
    /// Servers check it: nothing is known of it.
    Servers,
    /// None is right.
    Nobodys,
}

/// The account that a user has on the servers, where it is not the user's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendAccount {
    /// Its name.
    pub user: String,
    /// Its password.
    pub password: Secret<String>,
    /// The password that it had before, while some server may still want that one.
    pub retained_password: Option<Secret<String>>,
}

/// Why a text is not a password hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordError(pub &'static str);

impl fmt::Display for PasswordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for PasswordError {}

impl Password {
    /// What the password itself has to be checked against away from threads that serve others.
    pub fn slow_hash(&self) -> Option<&Secret<Vec<u8>>> {
        match self {
            Self::Sha2Hash(hash) | Self::Sha256Hash(hash) | Self::ParsecKey(hash) => Some(hash),
            Self::Clear(_)
            | Self::NativeHash(_)
            | Self::Ed25519Key(_)
            | Self::Servers
            | Self::Nobodys => None,
        }
    }

    /// The password itself, where it is known.
    pub fn clear(&self) -> Option<&Secret<String>> {
        match self {
            Self::Clear(clear) => Some(clear),
            Self::NativeHash(_)
            | Self::Sha2Hash(_)
            | Self::Sha256Hash(_)
            | Self::Ed25519Key(_)
            | Self::ParsecKey(_)
            | Self::Servers
            | Self::Nobodys => None,
        }
    }

    /// Reads `*` + 40 hex digits, 43 characters of base64 (`client_ed25519`), or `$A$005$…` (70
    /// bytes, or the same as 140 hex digits with or without `0x`, as servers print it with
    /// `HEX()`).
    pub fn from_hash(text: &str) -> Result<Self, PasswordError> {
        if let Some(digits) = text.strip_prefix('*') {
            let bytes = unhex(digits.as_bytes()).and_then(|bytes| <[u8; 20]>::try_from(bytes).ok());
            return bytes
                .map(|bytes| Self::NativeHash(Secret::new(bytes)))
                .ok_or(PasswordError("a native hash is `*` and 40 hex digits"));
        }
        if parsec::Stored::parse(text.as_bytes()).is_some() {
            return Ok(Self::ParsecKey(Secret::new(text.as_bytes().to_vec())));
        }
        if let Some(hash) = text.strip_prefix("$5$") {
            let is_whole = hash.len() == 64 && hash.as_bytes().get(20) == Some(&b'$');
            return is_whole
                .then(|| Self::Sha256Hash(Secret::new(text.as_bytes().to_vec())))
                .ok_or(PasswordError("a hash of sha256_password is `$5$` and 64 more bytes"));
        }
        if let Some(key) = unbase64(text) {
            return Ok(Self::Ed25519Key(Secret::new(key)));
        }
        let raw = match text.starts_with("$A$") {
            true => Some(text.as_bytes().to_vec()),
            false => unhex(text.strip_prefix("0x").unwrap_or(text).as_bytes()),
        };
        raw.filter(|bytes| bytes.len() == 70 && bytes.starts_with(b"$A$") && bytes.get(6) == Some(&b'$'))
            .map(|bytes| Self::Sha2Hash(Secret::new(bytes)))
            .ok_or(PasswordError(
                "a hash is `*` and 40 hex digits, `$A$005$` and 63 more bytes (as text, or all of it as hex), `$5$` and 64 more bytes, 43 characters of base64, or what parsec stores (`P0:salt:key`)",
            ))
    }
}

/// 32 bytes of 43 characters, without padding.
fn unbase64(text: &str) -> Option<[u8; 32]> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::with_capacity(32);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for character in text.bytes() {
        let digit = DIGITS.iter().position(|known| *known == character)?;
        bits = bits << 6 | u32::try_from(digit).ok()?;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xFF).ok()?);
            bits &= (1 << held) - 1;
        }
    }
    (text.len() == 43 && bits == 0).then_some(())?;
    bytes.try_into().ok()
}

fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let nibble = |digit: u8| (digit as char).to_digit(16);
    pairs.iter().map(|[high, low]| u8::try_from(nibble(*high)? << 4 | nibble(*low)?).ok()).collect()
}

/// One user of the proxy; the same name and password open the server connections, unless
/// [`backend`](Self::backend) says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Name, as the client sends it.
    pub name: String,
    /// How the client proves itself, and what the proxy proves itself with to servers.
    pub password: Password,
    /// The password before, which is right as well while it is being changed.
    pub retained_password: Option<Password>,
    /// The account on the servers; `None` where it is the same as here.
    pub backend: Option<BackendAccount>,
    /// Where statements go that no rule and no split sends elsewhere.
    pub default_hostgroup: HostgroupId,
    /// Schema of a client that names none.
    pub default_schema: Option<String>,
    /// The most client connections at once, over all workers.
    pub max_connections: u32,
    /// Whether a transaction keeps its hostgroup whatever the rules say.
    pub transaction_persistent: bool,
    /// Whether its transactions begin with their first statement; `None` as their hostgroup's do.
    pub lazy_transactions: Option<LazyTransactions>,
    /// Whether its transactions are repeated that are lost; `None` as the setting says.
    pub transaction_replay: Option<bool>,
    /// Whether it is found out what became of a lost `COMMIT`; `None` as the setting says.
    pub commit_outcome: Option<CommitOutcomes>,
    /// The part of its statements that have spans, among those that name no parent; `None` as the
    /// setting says.
    pub trace_sample: Option<Ratio>,
    /// Whether bytes go straight through to one dedicated connection after authentication.
    pub fast_forward: bool,
    /// An inactive user is refused like an unknown one.
    pub active: bool,
    /// What the user's connections must have.
    pub require: TlsRequirement,
    /// Where the user's clients may come from; empty for everywhere. From elsewhere the user is
    /// unknown.
    pub allow_from: AllowList,
    /// The system's number of the user whose processes need no password over a Unix socket.
    pub unix_uid: Option<u32>,
    /// Which writes the user's reads on replicas have to see, in place of what the settings say.
    pub causal_reads: Option<CausalReads>,
    /// The host pattern of the account in servers' grant tables; `None` for a user of the
    /// configuration.
    pub host: Option<String>,
}

impl User {
    /// A user of whom only name and password are given: active, allowed from everywhere with or
    /// without TLS and without a limit of connections, in hostgroup 0 and in no schema.
    pub fn new(name: String, password: Password) -> Self {
        Self {
            name,
            password,
            retained_password: None,
            backend: None,
            default_hostgroup: HostgroupId(0),
            default_schema: None,
            max_connections: u32::MAX,
            transaction_persistent: true,
            lazy_transactions: None,
            transaction_replay: None,
            commit_outcome: None,
            trace_sample: None,
            fast_forward: false,
            active: true,
            require: TlsRequirement::None,
            allow_from: AllowList::default(),
            unix_uid: None,
            causal_reads: None,
            host: None,
        }
    }

    /// What tells users apart: several accounts of servers may have one name. No name of the
    /// configuration has a NUL.
    pub fn key(&self) -> Cow<'_, str> {
        match &self.host {
            None => Cow::Borrowed(&self.name),
            Some(host) => Cow::Owned(format!("{}\0{host}", self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_read_in_every_form_servers_print() {
        let native = "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19";
        assert!(matches!(Password::from_hash(native), Ok(Password::NativeHash(_))));
        let sha2 = format!("$A$005${}{}", "s".repeat(20), "d".repeat(43));
        assert!(matches!(Password::from_hash(&sha2), Ok(Password::Sha2Hash(_))));
        let hex: String = sha2.bytes().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(Password::from_hash(&hex), Password::from_hash(&sha2));
        assert_eq!(Password::from_hash(&format!("0x{hex}")), Password::from_hash(&sha2));
    }

    #[test]
    fn a_broken_hash_is_refused() {
        let key = "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY";
        assert!(matches!(Password::from_hash(key), Ok(Password::Ed25519Key(_))));
        assert!(Password::from_hash(&format!("{key}=")).is_err());
        assert!(Password::from_hash(&key.replace("YJY", "YJZ")).is_err());
        for text in ["", "*", "*12", "secret", "$A$005$short", "$A$005"] {
            assert!(Password::from_hash(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let shown = format!("{:?}", Password::Clear(Secret::new("hunter2".into())));
        assert!(!shown.contains("hunter2"));
    }
}
