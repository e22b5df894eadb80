//! Why a login to a server failed.

use std::fmt;

use trunkline_protocol::{
    Malformed,
    error::ClientError,
    packet::err::{ErrPacket, GENERAL_SQLSTATE, MESSAGE_MAX},
};

/// What a failure means for the server and for those who wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The server refuses this user, password or address.
    AuthenticationDenied,
    /// The server knows no such schema, or does not let this user use it.
    SchemaDenied,
    /// The server is full.
    TooManyConnections,
    /// The user is at a limit of its own on the server, which takes others.
    AccountLimit,
    /// Only a hash of the password is known, and the server's plug-in needs more: a login of a
    /// client that sends its password may supply it.
    NeedsPassword,
    /// The server needs the password itself, and nothing proves that it is the server: it does not
    /// get it.
    Unproven,
    /// The server does not keep to the protocol.
    Protocol,
    /// Any other error that the server reported.
    Other,
}

/// A failed login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFailure {
    /// The server's error code, or the one a MySQL client would give.
    pub code: u16,
    /// SQLSTATE.
    pub sqlstate: [u8; 5],
    /// Text, at most 512 bytes.
    pub message: String,
    /// What it means.
    pub kind: FailureKind,
}

impl ServerFailure {
    /// What a client is told of it, in other words.
    #[must_use]
    pub fn as_told(&self, text: String) -> ClientError {
        ClientError { code: self.code, sqlstate: self.sqlstate, text: text.into() }
    }

    pub(super) fn reported(error: &ErrPacket<'_>) -> Self {
        let mut message = String::from_utf8_lossy(error.message).into_owned();
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        if message.is_empty() {
            message = format!("error {} without a message", error.code);
        }
        Self { code: error.code, sqlstate: error.sqlstate, message, kind: kind_of(error.code) }
    }

    /// CR_SERVER_HANDSHAKE_ERR.
    pub(super) fn protocol(what: &str) -> Self {
        Self {
            code: 2012,
            sqlstate: GENERAL_SQLSTATE,
            message: format!("error in server handshake: {what}"),
            kind: FailureKind::Protocol,
        }
    }

    /// CR_SSL_CONNECTION_ERROR.
    pub(super) fn without_tls() -> Self {
        Self {
            code: 2026,
            sqlstate: GENERAL_SQLSTATE,
            message: "TLS is required and the server does not offer it".to_owned(),
            kind: FailureKind::Protocol,
        }
    }

    pub(super) fn needs_password(user: &str, plugin: &str) -> Self {
        Self {
            code: 1045,
            sqlstate: *b"28000",
            message: format!(
                "only a hash of the password of user '{user}' is known, and {plugin} needs more"
            ),
            kind: FailureKind::NeedsPassword,
        }
    }

    /// CR_AUTH_PLUGIN_ERR. `has_keys`: whether keys of servers are pinned.
    pub(super) fn unproven(user: &str, plugin: &str, has_keys: bool) -> Self {
        let why = match has_keys {
            false => "no public key of its is known (server_public_key)",
            true => "server_public_key does not have the public key that it sent",
        };
        Self {
            code: 2061,
            sqlstate: GENERAL_SQLSTATE,
            message: format!(
                "{plugin} needs the password of user '{user}' itself, and without TLS anybody could \
                 be asking: {why}; use TLS, or add the server's public_key.pem to server_public_key"
            ),
            kind: FailureKind::Unproven,
        }
    }

    /// CR_AUTH_PLUGIN_CANNOT_LOAD.
    pub(super) fn unsupported_plugin(plugin: &[u8]) -> Self {
        let name: String = String::from_utf8_lossy(plugin).chars().take(64).collect();
        Self {
            code: 2059,
            sqlstate: GENERAL_SQLSTATE,
            message: format!("the server asks for authentication plug-in '{name}'"),
            kind: FailureKind::AuthenticationDenied,
        }
    }
}

impl From<Malformed> for ServerFailure {
    fn from(malformed: Malformed) -> Self {
        Self::protocol(&malformed.to_string())
    }
}

impl fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = String::from_utf8_lossy(&self.sqlstate);
        write!(f, "error {} ({state}): {}", self.code, self.message)
    }
}

impl std::error::Error for ServerFailure {}

fn kind_of(code: u16) -> FailureKind {
    match code {
        // Access denied to the schema; unknown schema.
        1044 | 1049 => FailureKind::SchemaDenied,
        // Access denied to the user, without a password; host not privileged; client too old;
        // password expired; account locked (MySQL, MariaDB).
        1045 | 1698 | 1130 | 1251 | 1862 | 3118 | 4151 => FailureKind::AuthenticationDenied,
        1040 => FailureKind::TooManyConnections,
        // `max_user_connections`; a limit in the account's `WITH`.
        1203 | 1226 => FailureKind::AccountLimit,
        1043 | 1156 => FailureKind::Protocol,
        _ => FailureKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sorted_by_what_they_mean() {
        let check = |code, expected| {
            let error = ErrPacket { code, sqlstate: *b"HY000", message: b"text" };
            assert_eq!(ServerFailure::reported(&error).kind, expected, "{code}");
        };
        check(1045, FailureKind::AuthenticationDenied);
        check(1044, FailureKind::SchemaDenied);
        check(1049, FailureKind::SchemaDenied);
        check(1040, FailureKind::TooManyConnections);
        check(1203, FailureKind::AccountLimit);
        check(1226, FailureKind::AccountLimit);
        check(1156, FailureKind::Protocol);
    }

    #[test]
    fn a_servers_text_is_bounded() {
        let long = [b'\xFF'; 4000];
        let error = ErrPacket { code: 1, sqlstate: *b"HY000", message: &long };
        let failure = ServerFailure::reported(&error);
        assert!(failure.message.len() <= MESSAGE_MAX);
        assert!(failure.to_string().starts_with("error 1 (HY000): "));
    }
}
