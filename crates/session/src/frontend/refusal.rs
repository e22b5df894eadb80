//! Why a handshake failed, and how the client is told.

use trunkline_protocol::error::ErrorKind;
use trunkline_topology::{LoginWait, Waiting};

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
    /// Logins have failed, and no others are taken for a while (1129).
    MustWait(LoginWait),
}

impl Refusal {
    /// Writes the error packet numbered `seq` for every cause that needs no user's name.
    pub(super) fn refuse(self, out: &mut Vec<u8>, seq: u8) -> Step {
        let error = match self {
            Self::AccessDenied => ErrorKind::AccessDenied.says("Access denied"),
            Self::OutdatedAuthentication => ErrorKind::OutdatedAuthentication.says(
                "Client does not support authentication protocol requested by server; consider \
                 upgrading MySQL client",
            ),
            Self::TlsRequired => ErrorKind::TlsRequired.says(
                "Connections using insecure transport are prohibited while \
                 --require_secure_transport=ON.",
            ),
            Self::BadHandshake => ErrorKind::BadHandshake.says("Bad handshake"),
            Self::TlsNotOffered => {
                ErrorKind::BadHandshake.says("Bad handshake: TLS was asked for, and it is off here")
            }
            Self::MustWait(_) => ErrorKind::HostBlocked.says("Too many failed logins"),
            Self::OutOfOrder => ErrorKind::OutOfOrder.says("Got packets out of order"),
        };
        error.put(out, seq);
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
        let (user, host) = (shortened(user, USER_LEN_MAX), shortened(host, HOST_LEN_MAX));
        let answer = if has_password { "YES" } else { "NO" };
        let message =
            format!("Access denied for user '{user}'@'{host}' (using password: {answer})");
        ErrorKind::AccessDenied.says(message).put(out, seq);
        Step::Refused(Self::AccessDenied)
    }

    /// Writes the error packet for a client that may not log in for now.
    pub(super) fn put_off(
        out: &mut Vec<u8>,
        seq: u8,
        user: &str,
        host: &str,
        wait: LoginWait,
    ) -> Step {
        let (user, host) = (shortened(user, USER_LEN_MAX), shortened(host, HOST_LEN_MAX));
        let who = match wait.whose {
            Waiting::Name => format!(" as '{user}'"),
            Waiting::Origin => String::new(),
        };
        let message = format!(
            "Host '{host}' is blocked because of many failed logins{who}; try again in {} s",
            wait.ms.div_ceil(1_000)
        );
        ErrorKind::HostBlocked.says(message).put(out, seq);
        Step::Refused(Self::MustWait(wait))
    }
}

/// The most characters of a user's name that servers print.
const USER_LEN_MAX: usize = 48;
/// The most of a host's.
const HOST_LEN_MAX: usize = 64;

fn shortened(text: &str, len_max: usize) -> String {
    text.chars().take(len_max).collect()
}
