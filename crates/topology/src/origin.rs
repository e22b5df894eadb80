//! Where clients come from, as limits count them.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

/// What counts as one place that clients come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A machine, by its address or its network: see [`machine`].
    Machine(IpAddr),
    /// An account of this system, by its number, over a Unix socket.
    Account(u32),
}

impl Origin {
    /// The machine that has an address.
    pub fn machine(addr: IpAddr) -> Self {
        Self::Machine(machine(addr))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(addr) => addr.fmt(f),
            Self::Account(number) => write!(f, "uid {number}"),
        }
    }
}

/// What counts as one address: with IPv6 a machine has 2^64 of them.
pub fn machine(addr: IpAddr) -> IpAddr {
    match addr.to_canonical() {
        IpAddr::V4(addr) => addr.into(),
        IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_one_address_and_one_network_of_ipv6() {
        let check = |addr: &str, expected: &str| {
            let origin = Origin::machine(addr.parse().expect(addr));
            assert_eq!(origin.to_string(), expected, "{addr}");
        };
        check("10.0.0.1", "10.0.0.1");
        check("::ffff:10.0.0.1", "10.0.0.1");
        check("2001:db8::1", "2001:db8::");
        check("2001:db8:0:1::1", "2001:db8:0:1::");
        assert_eq!(Origin::Account(33).to_string(), "uid 33");
    }
}
