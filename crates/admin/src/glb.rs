//! The control sockets of TCP listeners: Galera Load Balancer's protocol, for the tools and
//! scripts that people have.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixListener, UnixStream},
    sync::{Semaphore, watch::Receiver},
    task::JoinHandle,
    time::timeout,
};
use trunkline_config::{ListenAddress, Snapshot, TcpFront};
use trunkline_stats::{DigestQuery, Report, TcpListenerRow};
use trunkline_tcp::glb::{self, Request, Sums};

use crate::Runtime;

/// Clients of one control socket at once, as in glb; others wait in the kernel's queue.
pub const CLIENTS_MAX: usize = 32;
/// The longest request.
const REQUEST_BYTES_MAX: usize = 1_024;
/// How long a client may be silent.
const IDLE_TIME_MAX: Duration = Duration::from_secs(600);
/// How long a client may take to read an answer.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long after a failed accept nothing is accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the control sockets that the configuration has, until whoever publishes snapshots has
/// gone.
pub async fn keep_serving(runtime: Arc<dyn Runtime>, mut snapshots: Receiver<Arc<Snapshot>>) {
    let mut open: HashMap<ListenAddress, (ListenAddress, JoinHandle<()>)> = HashMap::new();
    loop {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let wanted: HashMap<ListenAddress, ListenAddress> = snapshot
            .tcp
            .iter()
            .filter_map(|front| Some((front.options.control.clone()?, &front.options.address)))
            .map(|(control, address)| (control, address.clone()))
            .collect();
        open.retain(|control, (address, task)| {
            let stays = wanted.get(control) == Some(address);
            if !stays {
                task.abort();
            }
            stays
        });
        for (control, address) in wanted {
            if open.contains_key(&control) {
                continue;
            }
            match Control::bind(&control).await {
                Ok(listener) => {
                    tracing::info!("control of {address} on {}", listener.address());
                    let service = GlbService::new(Arc::clone(&runtime), address.clone());
                    let task = tokio::spawn(listener.serve(Arc::new(service)));
                    open.insert(control, (address, task));
                }
                Err(error) => tracing::error!("can't listen at {control} (control): {error}"),
            }
        }
        if snapshots.changed().await.is_err() {
            open.values().for_each(|(_, task)| task.abort());
            return;
        }
    }
}

/// One control socket.
enum Control {
    Tcp(TcpListener),
    /// Goes when this is dropped.
    Unix(UnixListener, SocketFile),
}

struct SocketFile(std::path::PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have gone already.
        drop(fs::remove_file(&self.0));
    }
}

impl Control {
    async fn bind(address: &ListenAddress) -> io::Result<Self> {
        match address {
            ListenAddress::Tcp(addr) => TcpListener::bind(addr).await.map(Self::Tcp),
            ListenAddress::Unix(path) => Self::bind_unix(path).await,
        }
    }

    /// For the account of the proxy only: whoever may speak here may take servers away.
    async fn bind_unix(path: &Path) -> io::Result<Self> {
        // A socket that nobody answers on was left by a process that has gone.
        if path.exists() && UnixStream::connect(path).await.is_err() {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(Self::Unix(listener, SocketFile(path.to_owned())))
    }

    fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| String::new(), |addr| addr.to_string())
            }
            Self::Unix(_, file) => file.0.display().to_string(),
        }
    }

    async fn serve(self, service: Arc<GlbService>) {
        let places = Arc::new(Semaphore::new(CLIENTS_MAX));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let service = Arc::clone(&service);
            let accepted = match &self {
                Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                    tokio::spawn(async move {
                        let _place = place;
                        service.talk(stream).await
                    })
                }),
                Self::Unix(listener, _) => listener.accept().await.map(|(stream, _)| {
                    tokio::spawn(async move {
                        let _place = place;
                        service.talk(stream).await
                    })
                }),
            };
            if accepted.is_err() {
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Who answers for one listener.
struct GlbService {
    runtime: Arc<dyn Runtime>,
    listener: ListenAddress,
    /// What was told last, and when.
    told: Mutex<(Sums, Instant)>,
}

impl GlbService {
    fn new(runtime: Arc<dyn Runtime>, listener: ListenAddress) -> Self {
        Self { runtime, listener, told: Mutex::new((Sums::default(), Instant::now())) }
    }

    /// A request is what one read brings, or each line of it. Ends with the client.
    async fn talk(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut buf = [0; REQUEST_BYTES_MAX];
        loop {
            let read = timeout(IDLE_TIME_MAX, stream.read(&mut buf)).await;
            let Ok(Ok(len @ 1..)) = read else { return };
            let text = String::from_utf8_lossy(buf.get(..len).unwrap_or_default()).into_owned();
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                let answer = self.answer(line).await;
                let written = timeout(WRITE_TIME_MAX, stream.write_all(answer.as_bytes())).await;
                if !matches!(written, Ok(Ok(()))) {
                    return;
                }
            }
        }
    }

    async fn answer(&self, line: &str) -> String {
        const ERROR: &str = "Error\n";
        let snapshot = self.runtime.snapshot();
        let front = snapshot.tcp.iter().find(|front| front.options.address == self.listener);
        let (Some(request), Some(front)) = (glb::parse(line), front) else {
            return ERROR.to_owned();
        };
        match request {
            Request::Info => glb::info(front, self.row(&self.report().await)),
            Request::Stat => self.stat(&self.report().await),
            Request::Set(..) | Request::Remove(_) => match self.change(front, &request).await {
                Ok(()) => "Ok\n".to_owned(),
                Err(reason) => {
                    tracing::error!("control of {}: {reason}", self.listener);
                    ERROR.to_owned()
                }
            },
        }
    }

    async fn report(&self) -> Report {
        self.runtime.report(DigestQuery::NONE).await
    }

    fn row<'a>(&self, report: &'a Report) -> Option<&'a TcpListenerRow> {
        let own = self.listener.to_string();
        report.tcp.iter().find(|row| row.listener == own)
    }

    fn stat(&self, report: &Report) -> String {
        let row = self.row(report);
        let (now, at) = (Sums::of(row), Instant::now());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, since) = std::mem::replace(&mut *told, (now, at));
        let elapsed_ms = u64::try_from(at.duration_since(since).as_millis()).unwrap_or(u64::MAX);
        glb::stat(before, now, row.map_or(0, |row| row.connections), elapsed_ms)
    }

    async fn change(&self, front: &TcpFront, request: &Request) -> Result<(), String> {
        let running = self.runtime.snapshot();
        let hostgroup = front.options.hostgroup;
        let config = glb::changed((*running.config).clone(), hostgroup, request);
        self.runtime.apply(config, format!("the control of {}", self.listener)).await.map(drop)
    }
}
