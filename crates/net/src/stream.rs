//! One connected socket, TCP or Unix.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr},
    path::Path,
    time::Duration,
};

use mio::event::Source;
use socket2::{SockRef, TcpKeepalive};

/// How idle TCP connections are kept and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Seconds without traffic before the first probe.
    pub time_sec: u32,
}

/// A socket that does not block.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(mio::net::TcpStream),
    /// Unix.
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
    /// Begins to connect over TCP.
    pub fn connect_tcp(address: SocketAddr, keepalive: Option<Keepalive>) -> io::Result<Self> {
        let stream = Self::Tcp(mio::net::TcpStream::connect(address)?);
        stream.tune(keepalive);
        Ok(stream)
    }

    /// Connects to a Unix socket.
    pub fn connect_unix(path: &Path) -> io::Result<Self> {
        mio::net::UnixStream::connect(path).map(Self::Unix)
    }

    /// Small packets go out at once, and a dead peer is noticed. Failures are no reason to
    /// refuse the connection.
    pub(crate) fn tune(&self, keepalive: Option<Keepalive>) {
        let Self::Tcp(stream) = self else { return };
        let _ = stream.set_nodelay(true);
        if let Some(Keepalive { time_sec }) = keepalive.filter(|keepalive| keepalive.time_sec > 0) {
            let time = Duration::from_secs(u64::from(time_sec));
            let _ = SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(time));
        }
    }

    /// Whether the attempt to connect has been decided.
    pub fn connecting(&self) -> Connecting {
        let error = match self {
            Self::Tcp(stream) => stream.take_error(),
            Self::Unix(stream) => stream.take_error(),
        };
        match error {
            Ok(Some(error)) | Err(error) => return Connecting::Failed(error.to_string()),
            Ok(None) => {}
        }
        let peer = match self {
            Self::Tcp(stream) => stream.peer_addr().map(|_| ()),
            Self::Unix(stream) => stream.peer_addr().map(|_| ()),
        };
        match peer {
            Ok(()) => Connecting::Done,
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Connecting::Pending,
            Err(error) => Connecting::Failed(error.to_string()),
        }
    }

    /// Tells the other end that no more comes. What it sends can still be read.
    pub fn shutdown_write(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    pub(crate) fn source(&mut self) -> &mut dyn SourceRef {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }
}

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

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buf),
            Self::Unix(stream) => stream.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buf),
            Self::Unix(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
