//! Where a server listens.

use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr};

/// A server's address as an operator writes it: `host:port`, `[ipv6]:port`, or `unix:/path` (or
/// the path alone).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A literal address or a host name, and a port. Names are resolved by the control plane.
    Tcp {
        /// IPv4 or IPv6 literal (without brackets), or a host name.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// Why a text is not an [`Address`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError(pub String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AddressError {}

/// The port of a MySQL server when the address names none.
pub const DEFAULT_PORT: u16 = 3306;

impl Address {
    /// The literal IP address, when the host is not a name to resolve.
    pub fn literal(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp { host, .. } => host.parse().ok(),
            Self::Unix(_) => None,
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.starts_with('/') {
            return Ok(Self::Unix(PathBuf::from(text)));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(PathBuf::from(path))),
                false => Err(AddressError(format!("the path in `{text}` must begin with `/`"))),
            };
        }
        let (host, port) = split_port(text)?;
        let port = match port {
            None => DEFAULT_PORT,
            Some(digits) => digits.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
                AddressError(format!("`{digits}` in `{text}` is not a port (1 to 65535)"))
            })?,
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let is_host = !host.is_empty() && host.bytes().all(is_name);
        if !is_host && host.parse::<IpAddr>().is_err() {
            return Err(AddressError(format!(
                "`{host}` in `{text}` is neither an address nor a host name"
            )));
        }
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

/// Splits `host:port`, `[v6]:port`, `[v6]`, a bare IPv6 literal, or a bare host.
fn split_port(text: &str) -> Result<(&str, Option<&str>), AddressError> {
    if let Some(inner) = text.strip_prefix('[') {
        let (host, tail) = inner
            .split_once(']')
            .ok_or_else(|| AddressError(format!("`{text}` has no closing bracket")))?;
        return match tail.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if tail.is_empty() => Ok((host, None)),
            None => {
                Err(AddressError(format!("`{tail}` after the bracket in `{text}` is not a port")))
            }
        };
    }
    match text.split_once(':') {
        None => Ok((text, None)),
        Some((_, tail)) if tail.contains(':') => Ok((text, None)),
        Some((host, port)) => Ok((host, Some(port))),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_operators_write_them() {
        let check = |text: &str, expected: &str| {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), expected);
        };
        check("10.0.0.1:3307", "10.0.0.1:3307");
        check("db-1.example", "db-1.example:3306");
        check("[::1]:3306", "[::1]:3306");
        check("::1", "[::1]:3306");
        check("unix:/run/m.sock", "unix:/run/m.sock");
        check("/run/m.sock", "unix:/run/m.sock");
    }

    #[test]
    fn a_wrong_address_is_named() {
        for text in ["", ":3306", "a:0", "a:x", "[::1", "unix:run", "a b:1", "[::1]x"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
