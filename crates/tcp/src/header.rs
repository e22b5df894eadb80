//! What a server is told of its client: the header of the PROXY protocol.
//!
//! Source: haproxy.org, "The PROXY protocol, versions 1 & 2", sections 2.1 and 2.2.

use std::net::{IpAddr, SocketAddr};

use trunkline_config::tcp::SendProxy;

/// The first bytes of a header of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// The header for a client that came from one address to the other; empty when none is wanted. A
/// client of a Unix socket has no address, which is said.
pub fn header(wanted: SendProxy, addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let addresses = addresses.map(|(client, proxy)| same_family(client, proxy));
    match wanted {
        SendProxy::Off => Vec::new(),
        SendProxy::V1 => first(addresses),
        SendProxy::V2 => second(addresses),
    }
}

/// Both as IPv4 when both are, else both as IPv6.
fn same_family(client: SocketAddr, proxy: SocketAddr) -> (SocketAddr, SocketAddr) {
    let plain = |addr: SocketAddr| SocketAddr::new(addr.ip().to_canonical(), addr.port());
    let (client, proxy) = (plain(client), plain(proxy));
    if client.is_ipv4() == proxy.is_ipv4() {
        return (client, proxy);
    }
    let wide = |addr: SocketAddr| match addr.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), addr.port()),
        IpAddr::V6(_) => addr,
    };
    (wide(client), wide(proxy))
}

fn first(addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let Some((client, proxy)) = addresses else {
        return b"PROXY UNKNOWN\r\n".to_vec();
    };
    let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from, to) = (client.ip(), proxy.ip());
    format!("PROXY {family} {from} {to} {} {}\r\n", client.port(), proxy.port()).into_bytes()
}

fn second(addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    let Some((client, proxy)) = addresses else {
        // Version 2, LOCAL: no address, length 0.
        bytes.extend([0x20, 0x00, 0x00, 0x00]);
        return bytes;
    };
    // Version 2, PROXY; TCP over IPv4 with 12 bytes of addresses, or over IPv6 with 36.
    match client.is_ipv4() {
        true => bytes.extend([0x21, 0x11, 0x00, 0x0c]),
        false => bytes.extend([0x21, 0x21, 0x00, 0x24]),
    }
    for ip in [client.ip(), proxy.ip()] {
        match ip {
            IpAddr::V4(ip) => bytes.extend(ip.octets()),
            IpAddr::V6(ip) => bytes.extend(ip.octets()),
        }
    }
    bytes.extend(client.port().to_be_bytes());
    bytes.extend(proxy.port().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(client: &str, proxy: &str) -> String {
        let addresses = (client.parse().expect("client"), proxy.parse().expect("proxy"));
        String::from_utf8(header(SendProxy::V1, Some(addresses))).expect("text")
    }

    #[test]
    fn version_1_is_a_line() {
        assert_eq!(
            text("192.0.2.7:1234", "198.51.100.1:3306"),
            "PROXY TCP4 192.0.2.7 198.51.100.1 1234 3306\r\n"
        );
        assert_eq!(
            text("[::ffff:192.0.2.7]:1", "198.51.100.1:2"),
            "PROXY TCP4 192.0.2.7 198.51.100.1 1 2\r\n"
        );
        assert_eq!(text("[2001:db8::1]:1", "[::1]:2"), "PROXY TCP6 2001:db8::1 ::1 1 2\r\n");
        assert_eq!(header(SendProxy::V1, None), b"PROXY UNKNOWN\r\n");
        assert_eq!(header(SendProxy::Off, None), b"");
    }

    #[test]
    fn version_2_is_binary() {
        let four = ("192.0.2.7:258".parse().expect("v4"), "1.2.3.4:3306".parse().expect("v4"));
        let bytes = header(SendProxy::V2, Some(four));
        let (signature, rest) = bytes.split_at(12);
        assert_eq!(signature, b"\r\n\r\n\0\r\nQUIT\n");
        assert_eq!(rest, [0x21, 0x11, 0, 12, 192, 0, 2, 7, 1, 2, 3, 4, 1, 2, 0x0c, 0xea]);
        let mixed = ("[::1]:1".parse().expect("v6"), "1.2.3.4:2".parse().expect("v4"));
        let bytes = header(SendProxy::V2, Some(mixed));
        assert_eq!((bytes.len(), bytes[13]), (12 + 4 + 36, 0x21));
        assert_eq!(header(SendProxy::V2, None).len(), 16);
    }
}
