//! Where clients come from, and what their hosts are called.

use std::net::{IpAddr, Ipv4Addr};

use trunkline_topology::HostAnswer;
use trunkline_worker::Peer;

/// Where client number `number` comes from; every eighth one over a Unix socket.
pub fn peer_of(number: usize) -> Peer {
    let last = u8::try_from(number % 250).unwrap_or_default();
    let is_local = number % 8 == 7;
    let proxy = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let client = IpAddr::V4(Ipv4Addr::new(198, 51, 100, last));
    Peer {
        client_addr: (!is_local).then_some(client),
        proxy_addr: (!is_local).then_some(proxy),
        proxy_port: (!is_local).then_some(6_033),
        is_local,
        ..Peer::default()
    }
}

/// What the host of an address is called: every fourth one belongs to an application, every fourth
/// to somebody else, one of eight has no name, and of the rest nobody can say for certain.
pub fn name_of(addr: IpAddr) -> HostAnswer {
    let IpAddr::V4(addr) = addr else {
        return HostAnswer::Failed("no name server answers".to_owned());
    };
    let [.., last] = addr.octets();
    match last % 8 {
        0 | 4 => HostAnswer::Named(format!("app-{last}.example.com").into()),
        1 | 5 => HostAnswer::Named(format!("other-{last}.example.com").into()),
        2 => HostAnswer::Nameless,
        3 => HostAnswer::Unconfirmed(format!("app-{last}.example.com")),
        _ => HostAnswer::Failed("no name server answers".to_owned()),
    }
}
