//! Tests of client and listener addresses.

use std::{
    fmt::{self, Write},
    net::IpAddr,
};

use trunkline_topology::Network;

/// A compiled `client_addr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AddrTest {
    /// `%`: every address.
    Any,
    /// One address.
    Exact(IpAddr),
    /// Addresses whose text begins so.
    Prefix(Box<[u8]>),
    /// Addresses of a network.
    Network(Network),
    /// `localhost`, which no IP address is called.
    Local,
}

impl AddrTest {
    /// Reads a `client_addr`; the error says what is wrong with it.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        if text == "localhost" {
            return Ok(Self::Local);
        }
        if text.contains('/') {
            return text.parse().map(Self::Network);
        }
        match text.split_once('%') {
            None => exact(text).map(Self::Exact),
            Some(("", "")) => Ok(Self::Any),
            Some((head, "")) if head.bytes().all(is_address_byte) => {
                Ok(Self::Prefix(head.to_ascii_lowercase().into_bytes().into()))
            }
            Some((_, "")) => Err(format!("`{text}` is not the beginning of an IP address and `%`")),
            Some(_) => Err(format!("`{text}` has a `%` before its end, where it means nothing")),
        }
    }

    /// Whether `addr` passes. A prefix is compared with the address's usual text.
    pub(crate) fn is_passed_by(&self, addr: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(wanted) => *wanted == addr.to_canonical(),
            Self::Prefix(head) => AddrText::of(addr.to_canonical()).bytes().starts_with(head),
            Self::Network(network) => network.contains(addr),
            Self::Local => false,
        }
    }
}

/// Reads an address that is compared as a whole. An IPv4 address written as IPv6
/// (`::ffff:10.0.0.1`) is the IPv4 address.
pub(crate) fn exact(text: &str) -> Result<IpAddr, String> {
    text.parse::<IpAddr>()
        .map(|addr| addr.to_canonical())
        .map_err(|_| format!("`{text}` is not an IP address, so nothing could match it"))
}

fn is_address_byte(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || byte == b'.' || byte == b':'
}

/// An address's text, without the heap.
struct AddrText {
    bytes: [u8; Self::LEN_MAX],
    len: usize,
}

impl AddrText {
    /// The longest: eight groups of four hex digits, the last two as an IPv4 address.
    const LEN_MAX: usize = 46;

    fn of(addr: IpAddr) -> Self {
        let mut text = Self { bytes: [0; Self::LEN_MAX], len: 0 };
        let written = write!(text, "{addr}");
        debug_assert!(written.is_ok(), "an address's text fits");
        text
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Write for AddrText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.len + part.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(part.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_pass_by_whole_text_beginning_or_always() {
        let check = |test: &str, addr: &str, expected: bool| {
            let test = AddrTest::compile(test).expect(test);
            assert_eq!(test.is_passed_by(addr.parse().expect(addr)), expected, "{test:?} {addr}");
        };
        check("127.0.0.1", "127.0.0.1", true);
        check("127.0.0.1", "127.0.0.12", false);
        check("127.0.0.1", "::ffff:127.0.0.1", true);
        check("::ffff:127.0.0.1", "127.0.0.1", true);
        check("127.0.0.2%", "127.0.0.25", true);
        check("127.0.0.2%", "127.0.0.3", false);
        check("127.%", "127.9.8.7", true);
        check("%", "2001:db8::1", true);
        check("2001:DB8:%", "2001:db8::1", true);
        check("2001:0db8::0001", "2001:db8::1", true);
        check("localhost", "127.0.0.1", false);
        check("10.0.0.0/8", "10.255.3.4", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.0.0.0/8", "::ffff:10.1.1.1", true);
        check("10.0.0.0/8", "::a00:1", false);
        check("0.0.0.0/0", "8.8.8.8", true);
        check("0.0.0.0/0", "::1", false);
        check("::/0", "2001:db8::1", true);
        check("192.168.7.128/25", "192.168.7.129", true);
        check("192.168.7.128/25", "192.168.7.127", false);
        check("192.168.7.9/32", "192.168.7.9", true);
        check("2001:db8::/33", "2001:db8:7fff::1", true);
        check("2001:db8::/33", "2001:db8:8000::1", false);
        let longest = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255";
        check("ffff:ffff:ffff:ffff:ffff:ffff:ffff:%", longest, true);
    }

    #[test]
    fn a_test_that_could_never_pass_is_refused() {
        for text in [
            "127.0.%.5",
            "%.5",
            "127.0.0",
            "db1",
            "web%",
            "%%",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.%/8",
            "/8",
            "::/129",
        ] {
            assert!(AddrTest::compile(text).is_err(), "{text}");
        }
    }
}
