//! Where the proxy listens.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

use trunkline_topology::{AllowList, TlsOffer};

/// An address to listen on: `ip:port`, `[ipv6]:port`, or `unix:/path` (or the path alone).
///
/// Host names are not taken: what one resolves to may change, and a listener may not. Port 0
/// lets the kernel choose.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenAddress {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(PathBuf::from(path))),
            None if text.starts_with('/') => Ok(Self::Unix(PathBuf::from(text))),
            Some(_) => Err(format!("the path in `{text}` must begin with `/`")),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                format!("`{text}` is not an address to listen on (`ip:port` or `unix:/path`)")
            }),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A listener's own word on TLS: its address, `=`, and `off`, `optional` or `required`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenTls {
    /// The listener.
    pub address: ListenAddress,
    /// Whether its clients may or must use TLS.
    pub offer: TlsOffer,
}

impl FromStr for ListenTls {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once('=');
        let (address, word) = parts.ok_or_else(|| {
            format!("must name off, optional or required behind `=`, not `{text}`")
        })?;
        let offer = match word {
            "off" => TlsOffer::Off,
            "optional" => TlsOffer::Optional,
            "required" => TlsOffer::Required,
            _ => return Err(format!("must name off, optional or required, not `{word}`")),
        };
        let address = address.parse().map_err(|reason| format!("is wrong: {reason}"))?;
        Ok(Self { address, offer })
    }
}

impl fmt::Display for ListenTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.offer {
            TlsOffer::Off => "off",
            TlsOffer::Optional => "optional",
            TlsOffer::Required => "required",
        };
        write!(f, "{}={word}", self.address)
    }
}

/// Who may connect to a listener: its address, `=`, and networks and names of hosts with commas
/// between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAllow {
    /// The listener.
    pub address: ListenAddress,
    /// Where its clients come from.
    pub list: AllowList,
}

impl FromStr for ListenAllow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once('=');
        let (address, list) =
            parts.ok_or_else(|| format!("must name networks behind `=`, not `{text}`"))?;
        let address = address.parse().map_err(|reason| format!("is wrong: {reason}"))?;
        let list: AllowList = list.parse().map_err(|reason| format!("is wrong: {reason}"))?;
        match list.is_empty() {
            // It would let everybody in.
            true => Err(format!("names no network behind `=` in `{text}`")),
            false => Ok(Self { address, list }),
        }
    }
}

impl fmt::Display for ListenAllow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.address, self.list)
    }
}
