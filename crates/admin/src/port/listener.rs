//! Where administrators connect.

use std::{
    io,
    net::SocketAddr,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::net::{TcpListener, UnixListener, UnixStream};
use trunkline_topology::Origin;

use super::connection;
use crate::service::AdminService;

/// How long after a failed accept nothing is accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One address that is listened on.
pub enum AdminListener {
    /// A TCP address.
    Tcp(TcpListener),
    /// A Unix socket, which goes when this is dropped.
    Unix(UnixListener, PathBuf),
}

impl AdminListener {
    /// Listens on `address:port` or a path.
    ///
    /// # Errors
    /// Why not.
    pub async fn bind(entry: &str) -> io::Result<Self> {
        if !entry.starts_with('/') {
            return TcpListener::bind(entry).await.map(Self::Tcp);
        }
        let path = Path::new(entry);
        // A socket that nobody answers on was left by a process that has gone. Whatever else is
        // there is somebody's.
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
        if is_socket && UnixStream::connect(path).await.is_err() {
            std::fs::remove_file(path)?;
        }
        UnixListener::bind(path).map(|listener| Self::Unix(listener, path.to_owned()))
    }

    /// The address, with the port that the kernel has chosen.
    pub fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| String::new(), |addr| addr.to_string())
            }
            Self::Unix(_, path) => path.display().to_string(),
        }
    }
}

impl Drop for AdminListener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // It may have gone already.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Serves administrators for as long as the process lives. Whoever comes is accepted: who has not
/// logged in, users of statistics and administrators have places of their own.
pub async fn serve(listener: AdminListener, service: Arc<AdminService>) {
    loop {
        let service = Arc::clone(&service);
        let id = next_id();
        let accepted = match &listener {
            AdminListener::Tcp(listener) => listener.accept().await.map(|(stream, addr)| {
                // A small answer shall not wait for the acknowledgement of the one before.
                drop(stream.set_nodelay(true));
                let peer = Peer::Tcp(addr);
                let ticket = service.door().arrive(peer.origin());
                tokio::spawn(connection::serve(stream, peer, id, service, ticket));
            }),
            AdminListener::Unix(listener, _) => listener.accept().await.map(|(stream, _)| {
                // Who can't be told from others is one of them.
                let account = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
                let peer = Peer::Unix(account);
                let ticket = service.door().arrive(peer.origin());
                tokio::spawn(connection::serve(stream, peer, id, service, ticket));
            }),
        };
        if let Err(error) = accepted {
            tracing::warn!("accepting an administrator failed: {error}");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// Numbers of connections, over all listeners.
fn next_id() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

/// Who connects.
#[derive(Debug, Clone, Copy)]
pub(super) enum Peer {
    Tcp(SocketAddr),
    /// A process of this account of the system.
    Unix(u32),
}

impl Peer {
    /// What its failed logins are counted by.
    pub(super) fn origin(self) -> Origin {
        match self {
            Self::Tcp(addr) => Origin::machine(addr.ip()),
            Self::Unix(account) => Origin::Account(account),
        }
    }

    /// The address without a port.
    pub(super) fn host(self) -> String {
        match self {
            Self::Tcp(addr) => addr.ip().to_string(),
            Self::Unix(_) => "localhost".to_owned(),
        }
    }

    /// Whether nobody can listen in between.
    pub(super) fn is_local(self) -> bool {
        match self {
            Self::Tcp(addr) => addr.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}
