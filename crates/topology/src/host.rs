//! Host patterns of servers' grant tables: the part behind the `@` of an account.
//!
//! | pattern | who comes from there |
//! |---|---|
//! | `10.1.2.3`, `::1` | that address |
//! | `10.1.0.0/16`, `10.1.0.0/255.255.0.0` | that network |
//! | `localhost` | clients of a Unix socket |
//! | `10.1.%`, `db_.example.com` | addresses, as text, and names that are alike: `%` is any text, `_` one character |
//! | `db.example.com` | that name |
//! | `%`, or nothing | everybody |
//!
//! Source: MySQL reference manual "Specifying Account Names" and "Access Control, Stage 1";
//! MariaDB knowledge base "CREATE USER", "Account names".

use std::{cmp::Ordering, net::IpAddr};

use crate::network::Network;

/// The name that servers give clients of a Unix socket.
const LOCALHOST: &str = "localhost";

/// A host pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Network(Network),
    /// A name, in small letters.
    Name(String),
    /// With wildcards, in small letters.
    Wild(String),
}

impl HostPattern {
    /// Reads a pattern as a grant table has it. Every text is one: what is no network is a name.
    pub fn new(text: &str) -> Self {
        let small = text.to_ascii_lowercase();
        let kind = match network(text) {
            Some(network) => Kind::Network(network),
            None if small.is_empty() => Kind::Wild("%".to_owned()),
            None if small.contains(['%', '_']) => Kind::Wild(small),
            None => Kind::Name(small),
        };
        Self { text: text.to_owned(), kind }
    }

    /// As the grant table has it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a client is meant that comes from `addr` (`None` is a Unix socket), whose host is
    /// called `name` if that is known.
    pub fn includes(&self, addr: Option<IpAddr>, name: Option<&str>) -> bool {
        let Some(addr) = addr else {
            return self.is_like(LOCALHOST);
        };
        let is_named = name.filter(|name| !is_like_an_address(name)).is_some_and(|name| {
            let name = name.to_ascii_lowercase();
            self.is_like(name.strip_suffix('.').unwrap_or(&name))
        });
        is_named
            || match &self.kind {
                Kind::Network(network) => network.contains(addr),
                Kind::Name(_) => false,
                Kind::Wild(_) => self.is_like(&addr.to_canonical().to_string()),
            }
    }

    /// Whether a text is as the pattern says.
    fn is_like(&self, text: &str) -> bool {
        match &self.kind {
            Kind::Network(_) => false,
            Kind::Name(name) => name == text,
            Kind::Wild(pattern) => is_like(pattern.as_bytes(), text.as_bytes()),
        }
    }

    /// The order in which servers look: addresses and names, then networks, the smaller first,
    /// then wildcards, those with more text in front first.
    pub fn cmp_specific(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank()).then_with(|| self.text.cmp(&other.text))
    }

    fn rank(&self) -> (u8, usize) {
        match &self.kind {
            Kind::Name(_) => (0, 0),
            Kind::Network(network) if network.host_bits() == 0 => (0, 0),
            Kind::Network(network) => (1, network.host_bits()),
            Kind::Wild(pattern) => {
                let front = pattern.find(['%', '_']).unwrap_or(pattern.len());
                // A lone `%`, and the empty pattern after it, are the last of all.
                (2, usize::MAX - 1 - 2 * front + usize::from(self.text.is_empty()))
            }
        }
    }
}

/// An address, or one with the length of a network or a mask behind it.
fn network(text: &str) -> Option<Network> {
    if let Ok(network) = text.parse() {
        return Some(network);
    }
    let (addr, mask) = text.split_once('/')?;
    let mask: std::net::Ipv4Addr = mask.parse().ok()?;
    let len = mask.to_bits().leading_ones();
    // Servers take masks of whole bytes; any that is a prefix means something.
    (mask.to_bits().count_ones() == len).then(|| format!("{addr}/{len}").parse().ok())?
}

/// A name that begins like an address must not be taken for one by a pattern of addresses.
fn is_like_an_address(name: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && matches!(name.as_bytes().get(digits), None | Some(b'.'))
}

/// Whether `text` is as `pattern` says. Takes time in proportion to the product of both lengths,
/// which are those of host names.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Where to go on when what follows the last `%` does not fit.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        let fits = match (pattern.split_first(), text.split_first()) {
            (Some((b'%', rest)), _) => {
                again = Some((rest, text));
                pattern = rest;
                continue;
            }
            (None, None) => return true,
            (Some((b'_', pattern)), Some((_, text))) => Some((pattern, text)),
            (Some((wanted, pattern)), Some((byte, text))) if wanted == byte => {
                Some((pattern, text))
            }
            (Some(_) | None, Some(_)) | (Some(_), None) => None,
        };
        (pattern, text) = match (fits, again) {
            (Some(rests), _) => rests,
            (None, Some((rest, [_, later @ ..]))) => {
                again = Some((rest, later));
                (rest, later)
            }
            (None, Some((_, [])) | None) => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn includes(pattern: &str, from: &str) -> bool {
        HostPattern::new(pattern).includes(from.parse().ok(), None)
    }

    #[test]
    fn addresses_are_compared_as_servers_compare_them() {
        for (pattern, from) in [
            ("%", "10.1.2.3"),
            ("", "10.1.2.3"),
            ("%", "a unix socket"),
            ("localhost", "a unix socket"),
            ("LOCALHOST", "a unix socket"),
            ("10.1.2.3", "10.1.2.3"),
            ("10.1.2.3", "::ffff:10.1.2.3"),
            ("10.1.%", "10.1.2.3"),
            ("10.1.2._", "10.1.2.3"),
            ("%.2.%", "10.1.2.3"),
            ("10.1.0.0/16", "10.1.2.3"),
            ("10.1.0.0/255.255.0.0", "10.1.2.3"),
            ("fd00::/8", "fd00::1"),
            ("fd00:%", "fd00::1"),
        ] {
            assert!(includes(pattern, from), "{pattern} {from}");
        }
        for (pattern, from) in [
            ("10.1.2.3", "10.1.2.4"),
            ("10.1.%", "10.2.2.3"),
            ("10.1.2._", "10.1.2.33"),
            ("10.1.0.0/255.255.0.0", "10.2.0.1"),
            ("10.1.0.0/255.0.255.0", "10.1.0.1"),
            ("localhost", "127.0.0.1"),
            ("127.0.0.1", "a unix socket"),
            ("10.%", "a unix socket"),
            ("db.example.com", "10.1.2.3"),
            ("10.1.2.3%", "::1"),
        ] {
            assert!(!includes(pattern, from), "{pattern} {from}");
        }
    }

    #[test]
    fn names_are_compared_where_they_are_known() {
        let addr = "10.1.2.3".parse().ok();
        let includes =
            |pattern: &str, name: &str| HostPattern::new(pattern).includes(addr, Some(name));
        assert!(includes("%.example.com", "db1.example.com"));
        assert!(includes("DB_.Example.com", "db1.EXAMPLE.com."));
        assert!(includes("db1.example.com", "db1.example.com"));
        assert!(!includes("%.example.com", "example.com"));
        assert!(!includes("%.example.com", "db1.example.com.evil.org"));
        // Who owns a domain may give it a name that looks like somebody else's address.
        assert!(!includes("192.168.%", "192.168.1.evil.org"));
    }

    #[test]
    fn the_most_specific_pattern_comes_first() {
        let mut patterns: Vec<_> =
            ["", "%", "10.%", "10.1.%", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "%.example.com"]
                .map(HostPattern::new)
                .into();
        patterns.sort_by(HostPattern::cmp_specific);
        let order: Vec<_> = patterns.iter().map(HostPattern::text).collect();
        let expected =
            ["10.1.2.3", "10.1.0.0/16", "10.0.0.0/8", "10.1.%", "10.%", "%", "%.example.com", ""];
        assert_eq!(order, expected);
    }
}
