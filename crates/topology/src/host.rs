//! Host patterns of servers' grant tables: the part behind the `@` of an account.
//!
//! | pattern | who comes from there |
//! |---|---|
//! | `10.1.2.3`, `::1` | that address |
//! | `10.1.0.0/16`, `10.1.0.0/255.255.0.0` | that network |
//! | `localhost` | clients of a Unix socket |
//! | `10.1.%` | addresses, as text, that are alike: `%` is any text, `_` one character |
//! | `db.example.com`, `db_.example.%` | hosts of that name, or of names that are alike |
//! | `%`, or nothing | everybody |
//!
//! Source: MySQL reference manual "Specifying Account Names" and "Access Control, Stage 1";
//! MariaDB knowledge base "CREATE USER", "Account names".

use std::{cmp::Ordering, net::IpAddr, sync::Arc};

use crate::network::Network;

/// The name that servers give clients of a Unix socket.
const LOCALHOST: &str = "localhost";

/// The longest name of a host, characters (RFC 1035, 2.3.4).
const NAME_LEN_MAX: usize = 253;

/// What is known of the name of the host that a client comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostName {
    /// Nobody has asked.
    #[default]
    Unasked,
    /// It has none that leads back to its address, or nobody could say.
    Nameless,
    /// It has this one, in small letters.
    Named(Arc<str>),
}

impl HostName {
    /// The name, where one is known.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Unasked | Self::Nameless => None,
        }
    }
}

/// What a name server has said of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostAnswer {
    /// Its name, which leads back to it.
    Named(Arc<str>),
    /// It has no name.
    Nameless,
    /// It has this name, which does not lead back to it: whoever owns the address can give it any.
    Unconfirmed(String),
    /// Nobody could say, for this reason.
    Failed(String),
}

/// A name as a name server has it, in small letters and without the dot at its end. `None` for
/// what is no name of a host: characters that no name has, one that begins like an address, and
/// `localhost`, which is the word for clients of a Unix socket.
pub fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = !name.is_empty() && name.len() <= NAME_LEN_MAX && name.bytes().all(is_of_names);
    (is_name && !is_like_an_address(&name) && name != LOCALHOST).then_some(name)
}

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
    /// A name with wildcards, in small letters.
    Names(String),
    /// An address with wildcards, in small letters.
    Wild(String),
}

impl HostPattern {
    /// Reads a pattern as a grant table has it. Every text is one: what is no network is a name.
    pub fn new(text: &str) -> Self {
        let small = text.to_ascii_lowercase();
        let kind = match network(text) {
            Some(network) => Kind::Network(network),
            None if small.is_empty() => Kind::Wild("%".to_owned()),
            None if !small.contains(['%', '_']) => Kind::Name(small),
            None if is_of_names(&small) => Kind::Names(small),
            None => Kind::Wild(small),
        };
        Self { text: text.to_owned(), kind }
    }

    /// As the grant table has it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is about names of hosts, so that somebody has to be asked for them.
    pub fn names_hosts(&self) -> bool {
        match &self.kind {
            Kind::Network(_) | Kind::Wild(_) => false,
            Kind::Name(name) => name != LOCALHOST,
            Kind::Names(_) => true,
        }
    }

    /// Whether a client is meant that comes from `addr` (`None` is a Unix socket), whose host is
    /// called `name`, as [`host_name`] gives it, if that is known.
    pub fn includes(&self, addr: Option<IpAddr>, name: Option<&str>) -> bool {
        let text = match addr {
            None => LOCALHOST,
            Some(addr) => match (&self.kind, name) {
                (Kind::Network(network), _) => return network.contains(addr),
                (Kind::Wild(pattern), _) => {
                    return is_like(pattern.as_bytes(), addr.to_canonical().to_string().as_bytes());
                }
                // Who owns a domain may give it a name that is like somebody's address.
                (Kind::Name(_) | Kind::Names(_), Some(name)) if host_name(name).is_some() => name,
                (Kind::Name(_) | Kind::Names(_), _) => return false,
            },
        };
        match &self.kind {
            Kind::Network(_) => false,
            Kind::Name(name) => name == text,
            Kind::Names(pattern) | Kind::Wild(pattern) => {
                is_like(pattern.as_bytes(), text.as_bytes())
            }
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
            Kind::Names(pattern) | Kind::Wild(pattern) => {
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

/// Whether a pattern with wildcards, in small letters, is one of names: no address has another
/// letter than those of hexadecimal digits and a dot, and no name a colon.
fn is_of_names(pattern: &str) -> bool {
    let has_letter = pattern.bytes().any(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    has_letter && !pattern.contains(':')
}

/// A name that begins like an address must not be taken for one by a pattern of addresses.
pub(crate) fn is_like_an_address(name: &str) -> bool {
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
        assert!(includes("DB_.Example.com", "db1.example.com"));
        assert!(includes("db1.example.com", "db1.example.com"));
        assert!(includes("app-%.example.com", "app-7.example.com"));
        assert!(!includes("app-%.example.com", "app.example.com"));
        assert!(!includes("%.example.com", "example.com"));
        assert!(!includes("%.example.com", "db1.example.com.evil.org"));
        // Who owns a domain may give it a name that looks like somebody else's address.
        assert!(!includes("192.168.%", "192.168.1.evil.org"));
        assert!(!includes("192.168.%.org", "192.168.1.evil.org"));
        // This word is for Unix sockets, whatever a name server says.
        assert!(!includes("localhost", "localhost") && !includes("local%", "localhost"));
        assert!(HostPattern::new("local%").includes(None, None));
    }

    #[test]
    fn names_are_asked_for_where_a_pattern_has_one() {
        for pattern in ["db.example.com", "db_.example.com", "%.example.com", "app-%", "a%"] {
            assert!(HostPattern::new(pattern).names_hosts(), "{pattern}");
        }
        for pattern in ["", "%", "10.1.%", "10.0.0.0/8", "::1", "fd00:%", "localhost", "_%.%"] {
            assert!(!HostPattern::new(pattern).names_hosts(), "{pattern}");
        }
    }

    #[test]
    fn what_a_name_server_says_is_a_name_or_none() {
        assert_eq!(host_name("DB1.Example.com.").as_deref(), Some("db1.example.com"));
        let long = format!("{}.com", "a".repeat(250));
        for text in ["", ".", "10.1.2.3", "10.evil.org", "localhost", "a b", "a%.com", "é", &long]
        {
            assert_eq!(host_name(text), None, "{text}");
        }
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
