//! Networks, and lists of where connections come from.

use std::{fmt, net::IpAddr, str::FromStr};

/// A network, written `10.0.0.0/8`; an address alone is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// The bits that count; IPv4 addresses are the last 32, told apart by `is_v4`.
    bits: u128,
    /// Which bits count.
    mask: u128,
    /// Whether it is one of IPv4.
    is_v4: bool,
}

impl Network {
    /// Whether an address is in it. An IPv4 address written as IPv6 (`::ffff:10.0.0.1`) is the
    /// IPv4 address.
    pub fn contains(&self, addr: IpAddr) -> bool {
        let (number, is_v4) = number_of(addr.to_canonical());
        self.is_v4 == is_v4 && number & self.mask == self.bits
    }

    /// How many bits of an address do not count.
    pub(crate) fn host_bits(&self) -> usize {
        let whole = if self.is_v4 { 32 } else { 128 };
        whole - self.mask.count_ones() as usize
    }
}

/// An address's bits, and whether it is one of IPv4.
fn number_of(addr: IpAddr) -> (u128, bool) {
    match addr {
        IpAddr::V4(addr) => (addr.to_bits().into(), true),
        IpAddr::V6(addr) => (addr.to_bits(), false),
    }
}

impl FromStr for Network {
    type Err = String;

    /// Bits behind the length must be 0, since they would mean nothing.
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| format!("`{text}` is not a network"))
    }
}

fn parse(text: &str) -> Option<Network> {
    let (addr, len) = match text.split_once('/') {
        Some((addr, len)) => (addr.parse::<IpAddr>().ok()?, Some(len)),
        None => (text.parse::<IpAddr>().ok()?.to_canonical(), None),
    };
    let (bits, is_v4) = number_of(addr);
    let whole = if is_v4 { 32 } else { 128 };
    let len = match len {
        Some(digits) if !digits.bytes().all(|byte| byte.is_ascii_digit()) => return None,
        Some(digits) => digits.parse::<u32>().ok().filter(|len| *len <= whole)?,
        None => whole,
    };
    let all = if is_v4 { u128::from(u32::MAX) } else { u128::MAX };
    let host = all.checked_shr(len).unwrap_or(0);
    (bits & host == 0).then_some(Network { bits, mask: all & !host, is_v4 })
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addr = match u32::try_from(self.bits) {
            Ok(bits) if self.is_v4 => IpAddr::V4(bits.into()),
            Ok(_) | Err(_) => IpAddr::V6(self.bits.into()),
        };
        let whole = if self.is_v4 { 32 } else { 128 };
        match self.mask.count_ones() {
            len if len == whole => write!(f, "{addr}"),
            len => write!(f, "{addr}/{len}"),
        }
    }
}

/// Where connections come from: networks, `localhost` for Unix sockets, `*` for everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origins {
    everywhere: bool,
    unix_sockets: bool,
    networks: Vec<Network>,
}

impl Origins {
    /// Whether nothing is on the list.
    pub fn is_empty(&self) -> bool {
        !self.everywhere && !self.unix_sockets && self.networks.is_empty()
    }

    /// Whether an address is on the list; `None` is a Unix socket.
    pub fn includes(&self, addr: Option<IpAddr>) -> bool {
        self.everywhere
            || match addr {
                Some(addr) => self.networks.iter().any(|network| network.contains(addr)),
                None => self.unix_sockets,
            }
    }

    /// Adds an entry; the error says what is wrong with it.
    pub fn add(&mut self, entry: &str) -> Result<(), String> {
        match entry {
            "*" => self.everywhere = true,
            "localhost" => self.unix_sockets = true,
            text => self.networks.push(text.parse()?),
        }
        Ok(())
    }
}

impl FromStr for Origins {
    type Err = String;

    /// Entries with commas between them; an empty text is an empty list.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut origins = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            origins.add(entry)?;
        }
        Ok(origins)
    }
}

impl fmt::Display for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        let words = [(self.everywhere, "*"), (self.unix_sockets, "localhost")];
        for (_, word) in words.into_iter().filter(|(is_listed, _)| *is_listed) {
            write!(f, "{between}{word}")?;
            between = ",";
        }
        for network in &self.networks {
            write!(f, "{between}{network}")?;
            between = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect(text))
    }

    #[test]
    fn networks_hold_their_addresses_and_read_back() {
        let check = |network: &str, addr: &str, expected: bool| {
            let read: Network = network.parse().expect(network);
            assert_eq!(read.contains(addr.parse().expect(addr)), expected, "{network} {addr}");
            assert_eq!(read.to_string().parse(), Ok(read), "{network}");
        };
        check("10.0.0.0/8", "10.255.3.4", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.0.0.0/8", "::ffff:10.1.1.1", true);
        check("10.0.0.0/8", "::a00:1", false);
        check("0.0.0.0/0", "::1", false);
        check("::/0", "2001:db8::1", true);
        check("::/0", "10.0.0.1", false);
        check("192.168.7.9", "192.168.7.9", true);
        check("::ffff:192.168.7.9", "192.168.7.9", true);
        check("2001:db8::/33", "2001:db8:8000::1", false);
        check("::1", "::1", true);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "db1", "::/129"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn lists_tell_networks_unix_sockets_and_everywhere() {
        let list: Origins = "10.0.0.0/8, ::1".parse().expect("list");
        assert!(list.includes(addr("10.1.2.3")) && list.includes(addr("::1")));
        assert!(!list.includes(addr("127.0.0.1")) && !list.includes(None));
        assert_eq!(list.to_string(), "10.0.0.0/8,::1");
        let list: Origins = "localhost".parse().expect("list");
        assert!(list.includes(None) && !list.includes(addr("127.0.0.1")));
        let list: Origins = "*".parse().expect("list");
        assert!(list.includes(None) && list.includes(addr("127.0.0.1")));
        let none = Origins::default();
        assert!(none.is_empty() && !none.includes(None) && !none.includes(addr("::1")));
        assert!("10.0.0.0/8,web".parse::<Origins>().is_err());
    }
}
