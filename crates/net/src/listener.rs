//! Where clients connect.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use socket2::{Domain, Protocol, Socket, Type};
use trunkline_config::ListenAddress;

use crate::{Keepalive, Stream, stream::SourceRef};

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 4_096;

/// A listening socket. Each worker has its own: TCP ones share their port and the kernel spreads
/// clients over them; Unix ones are copies of one socket.
#[derive(Debug)]
pub struct Listener {
    socket: Kind,
    address: ListenAddress,
}

#[derive(Debug)]
enum Kind {
    Tcp(mio::net::TcpListener),
    Unix(mio::net::UnixListener),
}

/// A client that has connected.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket.
    pub stream: Stream,
    /// Its address; `None` over a Unix socket.
    pub client_addr: Option<IpAddr>,
    /// The system's number of the user whose process the client is, over a Unix socket.
    pub client_uid: Option<u32>,
    /// Its address and port; `None` over a Unix socket.
    pub client_socket: Option<SocketAddr>,
    /// The address and port that it connected to; `None` over a Unix socket.
    pub proxy_addr: Option<SocketAddr>,
}

impl Listener {
    /// Listens at an address. A TCP port can be opened so once per worker.
    pub fn open(address: &ListenAddress) -> io::Result<Self> {
        match address {
            ListenAddress::Tcp(addr) => {
                let socket = open_tcp(*addr)?;
                let bound = socket.local_addr()?;
                Ok(Self { socket: Kind::Tcp(socket), address: ListenAddress::Tcp(bound) })
            }
            ListenAddress::Unix(path) => {
                let socket = Kind::Unix(open_unix(path)?);
                Ok(Self { socket, address: address.clone() })
            }
        }
    }

    /// Another worker's copy of this listener.
    pub fn share(&self) -> io::Result<Self> {
        match &self.socket {
            Kind::Tcp(_) => Self::open(&self.address),
            Kind::Unix(listener) => {
                use std::os::fd::AsFd;
                let copy = listener.as_fd().try_clone_to_owned()?;
                let copy = std::os::unix::net::UnixListener::from(copy);
                let socket = Kind::Unix(mio::net::UnixListener::from_std(copy));
                Ok(Self { socket, address: self.address.clone() })
            }
        }
    }

    /// Where it listens; with the port that was found where port 0 was asked for.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// The next client, or `WouldBlock`.
    pub fn accept(&self, keepalive: Option<Keepalive>) -> io::Result<Accepted> {
        match &self.socket {
            Kind::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                let proxy_addr = stream.local_addr().ok();
                let stream = Stream::accepted_tcp(stream, keepalive);
                let client_addr = Some(peer.ip().to_canonical());
                Ok(Accepted {
                    stream,
                    client_addr,
                    client_uid: None,
                    client_socket: Some(peer),
                    proxy_addr,
                })
            }
            Kind::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                let client_uid = uid_of(&stream);
                let stream = Stream::accepted_unix(stream);
                Ok(Accepted {
                    stream,
                    client_addr: None,
                    client_uid,
                    client_socket: None,
                    proxy_addr: None,
                })
            }
        }
    }

    pub(crate) fn source(&mut self) -> &mut dyn SourceRef {
        match &mut self.socket {
            Kind::Tcp(listener) => listener,
            Kind::Unix(listener) => listener,
        }
    }
}

/// Whose process is at the other end.
#[cfg(target_os = "linux")]
fn uid_of(stream: &mio::net::UnixStream) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    Some(peer.uid.as_raw())
}

/// Whose process is at the other end is not asked of other systems.
#[cfg(not(target_os = "linux"))]
fn uid_of(_: &mio::net::UnixStream) -> Option<u32> {
    None
}

fn open_tcp(addr: SocketAddr) -> io::Result<mio::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    if addr.is_ipv6() {
        // `[::]` takes IPv4 clients too, as people expect.
        let _ = socket.set_only_v6(false);
    }
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(mio::net::TcpListener::from_std(socket.into()))
}

/// Takes the path over from a proxy that has gone, never from one that still listens.
fn open_unix(path: &Path) -> io::Result<mio::net::UnixListener> {
    let is_socket = fs::metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            let text = format!("another process listens at {}", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        fs::remove_file(path)?;
    }
    let listener = mio::net::UnixListener::bind(path)?;
    // Clients of every account may connect: passwords decide, as with a server's own socket.
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(path, permissions)?;
    Ok(listener)
}

/// Removes the sockets' paths when the process ends in good order.
pub fn remove_unix_paths(addresses: &[ListenAddress]) {
    for address in addresses {
        if let ListenAddress::Unix(path) = address {
            let _: Result<(), _> = fs::remove_file(PathBuf::from(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_tcp_port_can_be_shared_by_workers() {
        let any: SocketAddr = "127.0.0.1:0".parse().expect("address");
        let first = Listener::open(&ListenAddress::Tcp(any)).expect("open");
        let second = first.share().expect("share");
        assert_eq!(first.address(), second.address());
    }

    #[test]
    fn a_unix_path_is_taken_over_from_the_dead_only() {
        let dir = std::env::temp_dir().join(format!("trunkline-net-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("folder");
        let path = dir.join("a.sock");
        let address = ListenAddress::Unix(path.clone());
        let first = Listener::open(&address).expect("open");
        assert_eq!(Listener::open(&address).expect_err("in use").kind(), io::ErrorKind::AddrInUse);
        let mut client = std::os::unix::net::UnixStream::connect(&path).expect("connect");
        // The probe above is the first in the queue.
        let _probe = first.accept(None).expect("probe");
        let mut accepted = first.accept(None).expect("accept");
        client.write_all(b"hi").expect("write");
        let mut buf = [0; 2];
        assert_eq!(accepted.stream.receive(&mut buf).expect("read"), 2);
        assert_eq!((&buf, accepted.client_addr), (b"hi", None));
        #[cfg(target_os = "linux")]
        assert_eq!(accepted.client_uid, Some(rustix::process::geteuid().as_raw()));
        drop(first);
        assert!(Listener::open(&address).is_ok());
        fs::remove_dir_all(&dir).expect("clean");
    }
}
