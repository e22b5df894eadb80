//! A socket of a test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::Endpoint;

/// A test that hangs tells less than one that fails.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    pub fn open(endpoint: &Endpoint) -> Result<Stream> {
        Ok(match endpoint {
            Endpoint::Tcp(port) => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port))
                    .with_context(|| format!("nothing answers on port {port}"))?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.set_write_timeout(Some(READ_TIMEOUT))?;
                Stream::Tcp(stream)
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path)
                    .with_context(|| format!("nothing answers on {}", path.display()))?;
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.set_write_timeout(Some(READ_TIMEOUT))?;
                Stream::Unix(stream)
            }
        })
    }

    /// Takes the place of a stream that is worked on.
    pub fn none() -> Result<Stream> {
        Ok(Stream::Unix(UnixStream::pair()?.0))
    }

    /// The socket below.
    pub fn socket(&self) -> Socket<'_> {
        match self {
            Stream::Tcp(stream) => Socket::Tcp(stream),
            Stream::Tls(stream) => Socket::Tcp(&stream.sock),
            Stream::Unix(stream) => Socket::Unix(stream),
        }
    }

    /// Goes on through TLS.
    pub fn encrypt(self, config: &Arc<ClientConfig>) -> Result<Stream> {
        let Stream::Tcp(stream) = self else { bail!("TLS is for TCP here") };
        let name = ServerName::try_from("localhost").context("a name")?;
        let client = ClientConnection::new(Arc::clone(config), name)?;
        let mut stream = StreamOwned::new(client, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Stream::Tls(Box::new(stream)))
    }
}

/// A socket, encrypted or not.
pub enum Socket<'a> {
    Tcp(&'a TcpStream),
    Unix(&'a UnixStream),
}

impl Read for Stream {
    /// A machine that is frozen for a moment interrupts reads that have a timeout.
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let read = match self {
                Stream::Tcp(stream) => stream.read(buf),
                Stream::Unix(stream) => stream.read(buf),
                Stream::Tls(stream) => stream.read(buf),
            };
            match read {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(buf),
            Stream::Unix(stream) => stream.write(buf),
            Stream::Tls(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
