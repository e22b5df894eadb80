//! The control socket: `trunkline kill`, `drain`, `switchover` and other orders on the machine
//! itself, without a token. Who may is decided by what the kernel says of the peer, whatever the
//! file's mode.
//!
//! One connection carries one [`Request`] and one [`Outcome`], each a line of JSON.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::timeout,
};
use trunkline_stats::ControlFigures;
use trunkline_topology::Address;

use crate::{Ending, HostgroupTraffic, OfCluster, Runtime, service::AdminService};

/// Connections at once; others wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 8;
/// The longest request.
const REQUEST_BYTES_MAX: u64 = 1_024;
/// How long a connection may take to send its request, and to read the answer.
const MOVE_TIME_MAX: Duration = Duration::from_secs(2);
/// How long after a failed accept nothing is accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a proxy is told to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Ends a client, or only its statement.
    Kill {
        /// The client's number.
        id: u32,
        /// Only its statement.
        query: bool,
    },
    /// Holds what is new in a hostgroup.
    Pause {
        /// Which one.
        hostgroup: u32,
        /// For how long, s; as long as `hold_timeout` says without.
        seconds: Option<u32>,
    },
    /// What is held in a hostgroup goes on.
    Resume {
        /// Which one.
        hostgroup: u32,
    },
    /// Ends the process after running statements.
    Drain,
    /// Does what SIGHUP does.
    Reload,
    /// Tells what goes into a bug report: its answer is a JSON object of texts by name.
    Bundle,
    /// Makes another server of a cluster the writer.
    Switchover {
        /// The cluster.
        cluster: String,
        /// Who shall write, as `host:port`; the server that fits best unless it is given.
        to: Option<String>,
        /// Only says what is in the way.
        check: bool,
    },
    /// Has a server replicate from the writer again.
    Rejoin {
        /// As `host:port`.
        server: String,
    },
    /// Takes a server out of a cluster, for work on it, or back.
    Maintenance {
        /// As `host:port`.
        server: String,
        /// Whether it begins.
        on: bool,
    },
}

impl Order {
    /// The statement of the admin port that does this.
    pub fn statement(&self) -> String {
        match self {
            Self::Kill { id, query: true } => format!("KILL QUERY {id}"),
            Self::Kill { id, query: false } => format!("KILL CONNECTION {id}"),
            Self::Pause { hostgroup, seconds: Some(seconds) } => {
                format!("PAUSE HOSTGROUP {hostgroup} FOR {seconds}")
            }
            Self::Pause { hostgroup, seconds: None } => format!("PAUSE HOSTGROUP {hostgroup}"),
            Self::Resume { hostgroup } => format!("RESUME HOSTGROUP {hostgroup}"),
            Self::Drain => "PROXYSQL SHUTDOWN SLOW".to_owned(),
            Self::Reload => "PROXYSQL RELOAD CONFIG".to_owned(),
            Self::Bundle => "SHOW BUNDLE".to_owned(),
            Self::Switchover { cluster, to, check } => {
                let check = if *check { "CHECK " } else { "" };
                let to = to.as_ref().map(|to| format!(" TO '{to}'")).unwrap_or_default();
                format!("{check}SWITCHOVER '{cluster}'{to}")
            }
            Self::Rejoin { server } => format!("REJOIN '{server}'"),
            Self::Maintenance { server, on } => {
                format!("MAINTENANCE '{server}' {}", if *on { "ON" } else { "OFF" })
            }
        }
    }
}

/// An order, and who shall carry it out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The process that is meant; whatever other process answers refuses.
    #[serde(default)]
    pub process: Option<u32>,
    /// The order.
    pub order: Order,
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it was carried out.
    pub is_done: bool,
    /// What there is to say of it; why it was not carried out.
    pub message: String,
}

impl Outcome {
    fn done(message: impl Into<String>) -> Self {
        Self { is_done: true, message: message.into() }
    }

    fn refused(message: impl Into<String>) -> Self {
        Self { is_done: false, message: message.into() }
    }
}

/// Counts of a control socket.
#[derive(Debug, Default)]
pub struct ControlCounts {
    orders: AtomicU64,
    refused: AtomicU64,
}

impl ControlCounts {
    /// Writes them into a report.
    pub fn fill(&self, figures: &mut ControlFigures) {
        figures.orders = self.orders.load(Ordering::Relaxed);
        figures.refused = self.refused.load(Ordering::Relaxed);
    }

    /// The order of a line that `peer` sent, where `own` is the proxy's account; the error is for
    /// who sent it, and counted.
    fn order(&self, line: &[u8], peer: Option<u32>, own: u32) -> Result<Order, Outcome> {
        let read = read(line, peer, own, std::process::id());
        let count = if read.is_ok() { &self.orders } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
        read
    }
}

/// The order of a line, if its sender is root or the proxy's own account, and means this process.
fn read(line: &[u8], peer: Option<u32>, own: u32, process: u32) -> Result<Order, Outcome> {
    match peer {
        Some(account) if account == own || account == 0 => {}
        Some(account) => {
            return Err(Outcome::refused(format!(
                "account {account} may not do this: the proxy's account is {own}"
            )));
        }
        None => return Err(Outcome::refused("the system does not say which account this is")),
    }
    let request: Request = serde_json::from_slice(line)
        .map_err(|error| Outcome::refused(format!("it is no order of this version: {error}")))?;
    match request.process {
        Some(wanted) if wanted != process => Err(Outcome::refused(format!(
            "this is process {process}, and process {wanted} was meant"
        ))),
        Some(_) | None => Ok(request.order),
    }
}

/// A control socket, which goes when this is dropped.
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The proxy's account.
    own: u32,
    counts: Arc<ControlCounts>,
}

impl ControlSocket {
    /// Listens at a path, where only the account of the process may write.
    ///
    /// # Errors
    /// Those of the system, and when another process answers there, or something that is no socket
    /// is there.
    pub async fn bind(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        if let Ok(found) = fs::symlink_metadata(&path) {
            if !found.file_type().is_socket() {
                return Err(io::Error::other("something is there that is no socket"));
            }
            if UnixStream::connect(&path).await.is_ok() {
                return Err(io::Error::other("another process listens there"));
            }
            // It was left by a process that has gone.
            fs::remove_file(&path)?;
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let own = fs::symlink_metadata(&path)?.uid();
        Ok(Self { listener, path, own, counts: Arc::default() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it counts.
    pub fn counts(&self) -> Arc<ControlCounts> {
        Arc::clone(&self.counts)
    }

    /// Takes orders for as long as the process lives.
    ///
    /// `service` is what answers administrators, where anything does.
    pub async fn serve(self, runtime: Arc<dyn Runtime>, service: Option<Arc<AdminService>>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let (runtime, counts, own) = (Arc::clone(&runtime), self.counts(), self.own);
                    let service = service.clone();
                    tokio::spawn(async move {
                        let _place = place;
                        // Who asked may have gone; what was ordered is done all the same.
                        drop(talk(stream, own, &counts, &*runtime, service.as_deref()).await);
                    });
                }
                Err(error) => {
                    tracing::warn!("accepting on the control socket failed: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // It may have gone already.
        drop(fs::remove_file(&self.path));
    }
}

async fn talk(
    mut stream: UnixStream,
    own: u32,
    counts: &ControlCounts,
    runtime: &dyn Runtime,
    service: Option<&AdminService>,
) -> io::Result<()> {
    let peer = stream.peer_cred().ok().map(|peer| peer.uid());
    let (input, mut output) = stream.split();
    let mut line = Vec::new();
    let mut input = BufReader::new(input.take(REQUEST_BYTES_MAX));
    timeout(MOVE_TIME_MAX, input.read_until(b'\n', &mut line)).await??;
    let outcome = match counts.order(&line, peer, own) {
        Ok(order) => {
            let account = peer.unwrap_or_default();
            tracing::info!("{} by account {account}, on the control socket", order.statement());
            let outcome = match order == Order::Bundle {
                true => bundled(runtime, service).await,
                false => carry_out(&order, runtime).await,
            };
            runtime.audit(crate::service::order_line(&order, account, outcome.is_done));
            outcome
        }
        Err(outcome) => {
            tracing::warn!("refused on the control socket: {}", outcome.message);
            outcome
        }
    };
    let mut answer = serde_json::to_vec(&outcome)?;
    answer.push(b'\n');
    timeout(MOVE_TIME_MAX, output.write_all(&answer)).await?
}

/// What goes into a bug report, as JSON.
async fn bundled(runtime: &dyn Runtime, service: Option<&AdminService>) -> Outcome {
    let parts = match service {
        Some(service) => service.bundle().await,
        None => vec![crate::service::log_part(runtime)],
    };
    let object = parts.into_iter().map(|part| (part.name, part.text.into()));
    Outcome::done(serde_json::Value::Object(object.collect()).to_string())
}

async fn carry_out(order: &Order, runtime: &dyn Runtime) -> Outcome {
    match order {
        Order::Kill { id, query } => match runtime.kill(*id, *query).await {
            Ok(()) => Outcome::done(""),
            Err(not) => Outcome::refused(format!("error {}: {}", not.code, not.message)),
        },
        Order::Pause { hostgroup, seconds } => {
            let length = seconds.map(|seconds| Duration::from_secs(seconds.into()));
            outcome(runtime.hostgroup_traffic(*hostgroup, HostgroupTraffic::Pause(length)).await)
        }
        Order::Resume { hostgroup } => {
            outcome(runtime.hostgroup_traffic(*hostgroup, HostgroupTraffic::Resume).await)
        }
        Order::Drain => {
            runtime.stop(Ending::Slow);
            Outcome::done("")
        }
        Order::Reload => outcome(runtime.reload().await),
        // It is answered before: it is no order to change anything.
        Order::Bundle => Outcome::done(""),
        Order::Rejoin { server } => {
            let Ok(server) = server.parse::<Address>() else {
                return Outcome::refused("that is not the address of a server");
            };
            outcome(runtime.cluster_order(OfCluster::Rejoin(server)).await)
        }
        Order::Maintenance { server, on } => {
            let Ok(server) = server.parse::<Address>() else {
                return Outcome::refused("that is not the address of a server");
            };
            outcome(runtime.cluster_order(OfCluster::Maintenance(server, *on)).await)
        }
        Order::Switchover { cluster, to, check } => {
            let to = to.as_deref().map(str::parse::<Address>).transpose();
            let Ok(to) = to else {
                return Outcome::refused("that is not the address of a server");
            };
            let switched = runtime.switchover(cluster.clone(), to, *check).await;
            let mut text = lines(&switched.columns, &switched.rows);
            match switched.failed {
                None => Outcome::done(text),
                Some(failed) => {
                    text.push_str(&failed);
                    Outcome::refused(text)
                }
            }
        }
    }
}

fn outcome(done: Result<Vec<String>, String>) -> Outcome {
    match done {
        Ok(lines) => Outcome::done(lines.join("; ")),
        Err(error) => Outcome::refused(error),
    }
}

/// Rows for a terminal, each with a line break.
fn lines(columns: &[&'static str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let titles: Vec<String> = columns.iter().map(|title| (*title).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&titles).chain(rows).collect();
    let width = |at: usize| {
        let cells = all.iter().filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for row in all {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_taken_from_the_proxys_account_and_root() {
        let check = |line: &str, peer, expected: Result<Order, &str>| {
            let read = read(line.as_bytes(), peer, 999, 7).map_err(|refused| refused.message);
            match expected {
                Ok(order) => assert_eq!(read, Ok(order), "{line} {peer:?}"),
                Err(part) => {
                    let message = read.expect_err(line);
                    assert!(message.contains(part), "{line} {peer:?}: {message}");
                }
            }
        };
        let drain = r#"{"order":"drain"}"#;
        check(drain, Some(999), Ok(Order::Drain));
        check(drain, Some(0), Ok(Order::Drain));
        check(drain, Some(1_000), Err("account 1000 may not do this: the proxy's account is 999"));
        check(drain, None, Err("which account"));
        // Nothing is told of the request to who may not send one.
        check("x", Some(1_000), Err("account 1000"));
        check(r#"{"process":7,"order":"reload"}"#, Some(999), Ok(Order::Reload));
        check(r#"{"process":8,"order":"reload"}"#, Some(999), Err("process 8 was meant"));
        let kill = Order::Kill { id: 5, query: true };
        check(r#"{"order":{"kill":{"id":5,"query":true}}}"#, Some(999), Ok(kill));
        for line in ["", "{}", "drain", r#"{"order":"stop"}"#] {
            check(line, Some(999), Err("it is no order"));
        }
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        let switchover = Order::Switchover {
            cluster: "shop".to_owned(),
            to: Some("10.0.0.1:3306".to_owned()),
            check: true,
        };
        let (hostgroup, seconds) = (u32::MAX, Some(u32::MAX));
        for order in [
            Order::Kill { id: u32::MAX, query: false },
            Order::Pause { hostgroup, seconds },
            Order::Pause { hostgroup, seconds: None },
            Order::Resume { hostgroup },
            Order::Drain,
            Order::Reload,
            Order::Bundle,
            Order::Rejoin { server: "10.0.0.1:3306".to_owned() },
            Order::Maintenance { server: "10.0.0.1:3306".to_owned(), on: true },
            switchover,
        ] {
            let line =
                serde_json::to_vec(&Request { process: Some(u32::MAX), order: order.clone() });
            let line = line.expect("JSON");
            assert!((line.len() as u64) < REQUEST_BYTES_MAX);
            assert_eq!(read(&line, Some(1), 1, u32::MAX), Ok(order));
        }
    }

    #[test]
    fn what_is_refused_is_counted() {
        let counts = ControlCounts::default();
        assert!(counts.order(br#"{"order":"drain"}"#, Some(1), 1).is_ok());
        assert!(counts.order(br#"{"order":"drain"}"#, Some(2), 1).is_err());
        assert!(counts.order(b"", Some(1), 1).is_err());
        let mut figures = ControlFigures::default();
        counts.fill(&mut figures);
        assert_eq!((figures.orders, figures.refused), (1, 2));
    }

    #[tokio::test]
    async fn a_socket_is_its_owners_replaces_a_dead_one_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("trunkline-control-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("folder");
        let path = folder.join("control");
        let refused = |bound: io::Result<ControlSocket>| match bound {
            Ok(_) => panic!("it is bound"),
            Err(error) => error.to_string(),
        };
        fs::write(&path, "mine").expect("file");
        assert!(refused(ControlSocket::bind(&path).await).contains("no socket"));
        assert_eq!(fs::read(&path).expect("file"), b"mine");
        fs::remove_file(&path).expect("removed");
        // As a process leaves it that was killed.
        drop(UnixListener::bind(&path).expect("bound"));
        let socket = ControlSocket::bind(&path).await.expect("a dead one is replaced");
        let mode = fs::metadata(&path).expect("socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(refused(ControlSocket::bind(&path).await).contains("another process"));
        drop(socket);
        assert!(!path.exists());
        fs::remove_dir_all(&folder).expect("removed");
    }
}
