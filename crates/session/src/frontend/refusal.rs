//! Why a handshake failed, and how the client is told.

use trunkline_protocol::packet::err::put_err;

use super::Step;

/// Why a client was refused; for counters and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Unknown or inactive user, or wrong password (1045).
    AccessDenied,
    /// The user's password needs a plug-in that the client cannot be switched to (1251).
    OutdatedAuthentication,
    /// A packet that is malformed, too long, or not due, or a client older than 4.1 (1043).
    BadHandshake,
    /// The client asked for TLS, which was not offered (1043).
    TlsNotOffered,
    /// The client did not ask for TLS, which is required (3159).
    TlsRequired,
    /// A packet with another number than the next (1156).
    OutOfOrder,
}

impl Refusal {
    /// Writes the error packet numbered `seq` for every cause that needs no user's name.
    pub(super) fn refuse(self, out: &mut Vec<u8>, seq: u8) -> Step {
        let (code, sqlstate, message) = match self {
            Self::AccessDenied => (1045, b"28000", "Access denied"),
            Self::OutdatedAuthentication => (
                1251,
                b"08004",
                "Client does not support authentication protocol requested by server; consider \
                 upgrading MySQL client",
            ),
            Self::TlsRequired => (
                3159,
                b"HY000",
                "Connections using insecure transport are prohibited while \
                 --require_secure_transport=ON.",
            ),
            Self::BadHandshake => (1043, b"08S01", "Bad handshake"),
            Self::TlsNotOffered => {
                (1043, b"08S01", "Bad handshake: TLS was asked for, and it is off here")
            }
            Self::OutOfOrder => (1156, b"08S01", "Got packets out of order"),
        };
        put_err(out, seq, code, sqlstate, message);
        Step::Refused(self)
    }

    /// Writes the error packet for a client that did not prove to be `user`.
    pub(super) fn deny(
        out: &mut Vec<u8>,
        seq: u8,
        user: &str,
        host: &str,
        has_password: bool,
    ) -> Step {
        // Servers print at most 48 characters of the user and 64 of the host.
        let user: String = user.chars().take(48).collect();
        let host: String = host.chars().take(64).collect();
        let answer = if has_password { "YES" } else { "NO" };
        let message =
            format!("Access denied for user '{user}'@'{host}' (using password: {answer})");
        put_err(out, seq, 1045, b"28000", &message);
        Step::Refused(Self::AccessDenied)
    }
}
