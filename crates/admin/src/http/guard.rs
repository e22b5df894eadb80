//! Limits on connections, for an endpoint that nobody has to log in to.
//!
//! The HTTP library leaves them to the stream: here each connection has a deadline that only
//! progress of its answers moves, and a bound on the bytes it may send before it is answered. When
//! all places are taken, the connection gives way on which nothing has happened for longest: one
//! that is idle, that is slow to send its request, or that is slow to read its answer. Those whose
//! request is being worked on stay.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, Sleep},
};

use trunkline_topology::Origin;

use crate::figures::{Figures, Share};

/// The most connections at once; for one more another one gives way.
pub const CONNECTIONS_MAX: usize = 64;
/// The most bytes of a request.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// How long a request may take from its first byte, or from the connection's beginning, to the
/// first byte of its answer.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection may be idle, and how long an answer may wait for a slow reader.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(60);

const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Limits in force; tests make them short.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) connections: usize,
    pub(super) request_bytes: usize,
    pub(super) request_time: Duration,
    pub(super) idle_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        LIMITS
    }
}

const LIMITS: Limits = Limits {
    connections: CONNECTIONS_MAX,
    request_bytes: REQUEST_BYTES_MAX,
    request_time: REQUEST_TIME_MAX,
    idle_time: IDLE_TIME_MAX,
};

/// What a connection is about.
#[derive(Debug)]
struct Doing {
    from: Origin,
    addr: IpAddr,
    begun: Instant,
    /// Whether its request is being worked on.
    is_answered: AtomicBool,
    /// When something has happened on it, ms from the beginning of the listener.
    moved_ms: AtomicU64,
}

impl Doing {
    fn moved(&self) {
        let now_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(now_ms, Ordering::Relaxed);
    }
}

/// The connection of a request.
#[derive(Debug, Clone)]
pub(super) struct Caller(Arc<Doing>);

impl Caller {
    /// Where it comes from.
    pub(super) fn origin(&self) -> Origin {
        self.0.from
    }

    /// Its address.
    pub(super) fn addr(&self) -> IpAddr {
        self.0.addr
    }

    /// Its request is being worked on until this is dropped.
    pub(super) fn is_answered(&self) -> Answered<'_> {
        self.0.is_answered.store(true, Ordering::Relaxed);
        Answered(&self.0)
    }
}

impl Connected<IncomingStream<'_, GuardedListener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, GuardedListener>) -> Self {
        Self(Arc::clone(&stream.io().doing))
    }
}

/// Work on a request.
pub(super) struct Answered<'a>(&'a Doing);

impl Drop for Answered<'_> {
    fn drop(&mut self) {
        self.0.moved();
        self.0.is_answered.store(false, Ordering::Relaxed);
    }
}

/// The connections of a listener.
#[derive(Debug, Default)]
struct Open {
    next: u64,
    of: HashMap<u64, (Arc<Doing>, oneshot::Sender<()>)>,
}

impl Open {
    /// Has the connection give way on which nothing has happened for longest; whether there is one.
    fn displace(&mut self) -> bool {
        let resting = self.of.iter().filter(|(_, (it, _))| !it.is_answered.load(Ordering::Relaxed));
        let first =
            resting.min_by_key(|(number, (it, _))| (it.moved_ms.load(Ordering::Relaxed), **number));
        let Some(number) = first.map(|(number, _)| *number) else { return false };
        if let Some((_, teller)) = self.of.remove(&number) {
            // It may have ended meanwhile.
            let _ = teller.send(());
        }
        true
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts whoever comes; when there are as many connections as the limits say, one gives way.
#[derive(Debug)]
pub(super) struct GuardedListener {
    listener: TcpListener,
    limits: Limits,
    places: Arc<Semaphore>,
    open: Arc<Mutex<Open>>,
    begun: Instant,
    figures: Arc<Figures>,
}

impl GuardedListener {
    pub(super) fn new(listener: TcpListener, figures: Arc<Figures>) -> Self {
        Self::with_limits(listener, LIMITS, figures)
    }

    pub(super) fn with_limits(
        listener: TcpListener,
        limits: Limits,
        figures: Arc<Figures>,
    ) -> Self {
        let places = Arc::new(Semaphore::new(limits.connections));
        Self { listener, limits, places, open: Arc::default(), begun: Instant::now(), figures }
    }

    /// A place for a connection that has come.
    async fn place(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
                return place;
            }
            let has_displaced = lock(&self.open).displace();
            self.figures.http.displaced.add(u64::from(has_displaced));
            // Its place is free when it has ended; or one is when a request was answered.
            if let Ok(place) = Arc::clone(&self.places).acquire_owned().await {
                return place;
            }
        }
    }

    fn guard(
        &self,
        stream: TcpStream,
        addr: SocketAddr,
        place: OwnedSemaphorePermit,
    ) -> GuardedStream {
        let doing = Arc::new(Doing {
            from: Origin::machine(addr.ip()),
            addr: addr.ip().to_canonical(),
            begun: self.begun,
            is_answered: AtomicBool::new(false),
            moved_ms: AtomicU64::new(0),
        });
        doing.moved();
        let (teller, told) = oneshot::channel();
        let number = {
            let mut open = lock(&self.open);
            let number = open.next;
            open.next += 1;
            open.of.insert(number, (Arc::clone(&doing), teller));
            number
        };
        let mut counted = Share::none(&self.figures, |figures| &figures.http.connections);
        counted.grow(1, u64::MAX);
        GuardedStream {
            stream,
            limits: self.limits,
            deadline: Box::pin(tokio::time::sleep(self.limits.request_time)),
            unanswered: 0,
            doing,
            told: Some(told),
            _place: Place {
                number,
                open: Arc::clone(&self.open),
                _permit: place,
                _counted: counted,
            },
        }
    }
}

impl Listener for GuardedListener {
    type Io = GuardedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (GuardedStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, addr)) => {
                    let place = self.place().await;
                    return (self.guard(stream, addr, place), addr);
                }
                Err(error) => {
                    tracing::warn!(%error, "accepting an http connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection's place among the others, given up when it ends.
#[derive(Debug)]
struct Place {
    number: u64,
    open: Arc<Mutex<Open>>,
    _permit: OwnedSemaphorePermit,
    _counted: Share,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.open).of.remove(&self.number);
    }
}

/// A connection with a deadline.
#[derive(Debug)]
pub(super) struct GuardedStream {
    stream: TcpStream,
    limits: Limits,
    deadline: Pin<Box<Sleep>>,
    /// Bytes read since the last byte written.
    unanswered: usize,
    doing: Arc<Doing>,
    /// Says when it has to give way; `None` from then on.
    told: Option<oneshot::Receiver<()>>,
    _place: Place,
}

impl GuardedStream {
    /// Who is at the other end.
    pub(super) fn caller(&self) -> Caller {
        Caller(Arc::clone(&self.doing))
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let has_to_go = match self.told.as_mut() {
            None => true,
            Some(told) => Pin::new(told).poll(cx).is_ready(),
        };
        if has_to_go {
            self.told = None;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match self.deadline.as_mut().poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn expect_within(&mut self, time: Duration) {
        self.doing.moved();
        self.deadline.as_mut().reset(Instant::now() + time);
    }

    fn count_written(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.unanswered = 0;
            self.expect_within(self.limits.idle_time);
        }
        written
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check(cx)?;
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        let read = buf.filled().len() - before;
        if read > 0 && this.unanswered == 0 {
            this.expect_within(this.limits.request_time);
        }
        this.unanswered += read;
        match this.unanswered > this.limits.request_bytes {
            true => Poll::Ready(Err(io::Error::other("the request is too long"))),
            false => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check(cx)?;
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.count_written(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check(cx)?;
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.count_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
