//! Free TCP ports that no other test is given.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail};
use tokio::net::TcpSocket;

/// The lowest port given out; below are the ports that installed services like.
const LOWEST: u16 = 13_000;
/// One past the highest when the system doesn't say where its own range begins.
const HIGHEST: u16 = 32_000;

/// Held for the life of the process or until [`release_port`], so that a port given out here is not
/// given out elsewhere.
static RESERVED: Mutex<Vec<(u16, File)>> = Mutex::new(Vec::new());

/// A TCP port on loopback that was free a moment ago and is reserved for this process.
///
/// Ports come from below the range that the system takes for outgoing connections: otherwise, while
/// a server is down between kill and restart, a client could be given its port, or even connect to
/// itself. Parallel test processes keep apart by locked files in the temporary folder.
///
/// # Errors
/// When no port is free or the lock folder can't be written.
pub fn free_port() -> Result<u16> {
    static CURSOR: AtomicU16 = AtomicU16::new(0);
    let highest = ephemeral_start().unwrap_or(HIGHEST).clamp(LOWEST + 1_000, HIGHEST);
    let span = highest - LOWEST;
    let folder = lock_folder()?;
    // Processes begin at different places, so that they seldom meet.
    let start = u16::try_from(std::process::id().wrapping_mul(97) % u32::from(span))?;
    for _ in 0..span {
        let step = CURSOR.fetch_add(1, Ordering::Relaxed) % span;
        let offset = (u32::from(start) + u32::from(step)) % u32::from(span);
        let port = LOWEST + u16::try_from(offset)?;
        let lock = File::create(folder.join(port.to_string()))
            .with_context(|| format!("cannot reserve port {port} in {}", folder.display()))?;
        if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            RESERVED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((port, lock));
            return Ok(port);
        }
    }
    bail!("no free port between {LOWEST} and {highest}")
}

/// Gives back a port whose listener is about to end: a process that starts thousands of them would
/// run out of ports. It is given out again when all others have been.
pub(crate) fn release_port(port: u16) {
    let mut reserved = RESERVED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    reserved.retain(|(other, _)| *other != port);
}

/// Whether some process listens on this TCP port of 127.0.0.1, or on it of all addresses.
///
/// A socket that is bound and does not listen keeps nobody from listening, and is refused only
/// beside one that does. So a server doesn't count the look as a client, as it would a connection;
/// the kernel's table of sockets would show it too, but is read as a whole.
#[must_use]
pub fn is_listening(port: u16) -> bool {
    let bind = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, port).into())
    };
    bind().is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
}

/// Whether some process listens at this Unix socket.
///
/// Reads the kernel's table where there is one, so that a server doesn't count a look as a client;
/// elsewhere it connects.
pub(crate) fn is_listening_unix(path: &Path) -> bool {
    match std::fs::read_to_string("/proc/net/unix") {
        Ok(table) => table.lines().any(|line| is_unix_listener(line, path)),
        Err(_) => UnixStream::connect(path).is_ok(),
    }
}

/// A row is `num refcount protocol flags type state inode path`; of the flags, 10000 in hex is set
/// where somebody listens.
fn is_unix_listener(line: &str, path: &Path) -> bool {
    let mut columns = line.split_ascii_whitespace();
    columns.nth(3) == Some("00010000") && columns.last().is_some_and(|it| Path::new(it) == path)
}

/// Where the system's range for outgoing connections begins.
fn ephemeral_start() -> Option<u16> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// One folder per user, since another user's files could not be opened.
fn lock_folder() -> Result<PathBuf> {
    let owner = std::fs::metadata("/proc/self").map_or(0, |m| m.uid());
    let folder = std::env::temp_dir().join(format!("tkln-ports-{owner}"));
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::folder::TempFolder;

    #[test]
    fn ports_are_distinct_and_below_the_range_of_outgoing_connections() {
        let mut ports: Vec<u16> = (0..20).map(|_| free_port().unwrap()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
        if let Some(start) = ephemeral_start() {
            assert!(start < 15_000 || ports.iter().all(|port| *port < start));
        }
    }

    /// What comes within two seconds.
    fn wait_for<T>(look: impl Fn() -> Option<T>) -> T {
        let looks = std::iter::repeat_with(|| {
            let found = look();
            if found.is_none() {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            found
        });
        looks.take(200).flatten().next().expect("within two seconds")
    }

    #[test]
    fn a_listener_is_seen_without_connecting() {
        let port = free_port().unwrap();
        assert!(!is_listening(port));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(is_listening(port));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "the look connected");
        drop(listener);
        // A child that another test starts has the listener as well until it runs its program.
        let bound = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).ok();
        let everywhere = wait_for(bound);
        assert!(is_listening(port));
        drop(everywhere);
        wait_for(|| (!is_listening(port)).then_some(()));
        let folder = TempFolder::new("unix").unwrap();
        let path = folder.path().join("sock");
        assert!(!is_listening_unix(&path));
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(is_listening_unix(&path));
    }
}
