//! One connected socket, TCP or Unix.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr},
    os::fd::{AsRawFd, RawFd},
    path::Path,
    time::Duration,
};

use mio::event::Source;
use socket2::{SockRef, TcpKeepalive};

use crate::ring::{Luggage, Seat};

/// How idle TCP connections are kept and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Seconds without traffic before the first probe.
    pub time_sec: u32,
}

/// A socket that does not block.
#[derive(Debug)]
pub struct Stream {
    // Before the socket: what the kernel does for it ends before its number is free again.
    pub(crate) seat: Option<Seat>,
    socket: Kind,
    /// The connection is being made.
    is_connecting: bool,
    /// It is waited for among the sockets of a poller.
    pub(crate) is_watched: bool,
    /// Bytes that were received before it came to this worker.
    pub(crate) luggage: Luggage,
}

#[derive(Debug)]
enum Kind {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
}

/// How a connection attempt stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connecting {
    /// Not decided yet.
    Pending,
    /// Connected.
    Done,
    /// Failed, with the system's reason.
    Failed(String),
}

impl Stream {
    fn new(socket: Kind, is_connecting: bool) -> Self {
        let luggage = Luggage::default();
        Self { seat: None, socket, is_connecting, is_watched: false, luggage }
    }

    /// A client's socket that was just accepted.
    pub(crate) fn accepted_tcp(stream: mio::net::TcpStream, keepalive: Option<Keepalive>) -> Self {
        let stream = Self::new(Kind::Tcp(stream), false);
        stream.tune(keepalive);
        stream
    }

    /// A client's Unix socket that was just accepted.
    pub(crate) fn accepted_unix(stream: mio::net::UnixStream) -> Self {
        Self::new(Kind::Unix(stream), false)
    }

    /// Begins to connect over TCP.
    pub fn connect_tcp(address: SocketAddr, keepalive: Option<Keepalive>) -> io::Result<Self> {
        let stream = Self::new(Kind::Tcp(mio::net::TcpStream::connect(address)?), true);
        stream.tune(keepalive);
        Ok(stream)
    }

    /// Connects to a Unix socket.
    pub fn connect_unix(path: &Path) -> io::Result<Self> {
        Ok(Self::new(Kind::Unix(mio::net::UnixStream::connect(path)?), true))
    }

    /// Small packets go out at once, and a dead peer is noticed. Failures are no reason to
    /// refuse the connection.
    fn tune(&self, keepalive: Option<Keepalive>) {
        let Kind::Tcp(stream) = &self.socket else { return };
        let _ = stream.set_nodelay(true);
        if let Some(Keepalive { time_sec }) = keepalive.filter(|keepalive| keepalive.time_sec > 0) {
            let time = Duration::from_secs(u64::from(time_sec));
            let _ = SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(time));
        }
    }

    /// Whether the connection is still being made, as far as anybody has asked.
    pub(crate) fn is_connecting(&self) -> bool {
        self.is_connecting
    }

    /// Whether the attempt to connect has been decided.
    pub(crate) fn connecting(&mut self) -> Connecting {
        let error = match &self.socket {
            Kind::Tcp(stream) => stream.take_error(),
            Kind::Unix(stream) => stream.take_error(),
        };
        match error {
            Ok(Some(error)) | Err(error) => return Connecting::Failed(error.to_string()),
            Ok(None) => {}
        }
        let peer = match &self.socket {
            Kind::Tcp(stream) => stream.peer_addr().map(|_| ()),
            Kind::Unix(stream) => stream.peer_addr().map(|_| ()),
        };
        match peer {
            Ok(()) => {
                self.is_connecting = false;
                Connecting::Done
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Connecting::Pending,
            Err(error) => Connecting::Failed(error.to_string()),
        }
    }

    /// Tells the other end that no more comes. What it sends can still be read.
    pub fn shutdown_write(&self) -> io::Result<()> {
        match &self.socket {
            Kind::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Kind::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Reads what the kernel has; in a ring, [`Poller::read`](crate::Poller::read) does.
    pub(crate) fn receive(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(len) = self.luggage.take(buf) {
            return Ok(len);
        }
        match &mut self.socket {
            Kind::Tcp(stream) => stream.read(buf),
            Kind::Unix(stream) => stream.read(buf),
        }
    }

    /// Writes what the kernel takes at once.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (&mut self.socket, self.seat.is_some()) {
            (Kind::Tcp(stream), false) => stream.write(bytes),
            (Kind::Unix(stream), false) => stream.write(bytes),
            (_, true) => self.sock_ref().send_with_flags(bytes, SEND_AT_ONCE),
        }
    }

    /// In a ring a socket waits by itself when asked to; elsewhere it never does.
    pub(crate) fn set_waiting(&self, waits: bool) -> io::Result<()> {
        self.sock_ref().set_nonblocking(!waits)
    }

    fn sock_ref(&self) -> SockRef<'_> {
        match &self.socket {
            Kind::Tcp(stream) => SockRef::from(stream),
            Kind::Unix(stream) => SockRef::from(stream),
        }
    }

    pub(crate) fn number(&self) -> RawFd {
        match &self.socket {
            Kind::Tcp(stream) => stream.as_raw_fd(),
            Kind::Unix(stream) => stream.as_raw_fd(),
        }
    }

    pub(crate) fn source(&mut self) -> &mut dyn SourceRef {
        match &mut self.socket {
            Kind::Tcp(stream) => stream,
            Kind::Unix(stream) => stream,
        }
    }
}

/// `MSG_DONTWAIT` and `MSG_NOSIGNAL` of Linux, where alone there is a ring: what the socket does
/// not take at once is not taken.
pub(crate) const SEND_AT_ONCE: i32 = 0x40 | 0x4000;

/// Whether an attempt to connect failed for want of something of this machine's own: file
/// descriptors, memory, ports.
pub fn is_own_failure(error: &io::Error) -> bool {
    /// ENFILE and EMFILE, which have no kind of their own; the same on every Unix.
    const NO_DESCRIPTORS: [i32; 2] = [23, 24];
    match error.kind() {
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::OutOfMemory => true,
        _ => error.raw_os_error().is_some_and(|code| NO_DESCRIPTORS.contains(&code)),
    }
}

/// Any socket that a poller takes.
pub(crate) trait SourceRef: Source {}
impl SourceRef for mio::net::TcpStream {}
impl SourceRef for mio::net::UnixStream {}
impl SourceRef for mio::net::TcpListener {}
impl SourceRef for mio::net::UnixListener {}
