//! Limits on connections, for an endpoint that nobody has to log in to.
//!
//! The HTTP library leaves them to the stream: here each connection has a deadline that only
//! progress of its answers moves, and a bound on the bytes it may send before it is answered.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep},
};

/// The most connections at once; more wait to be accepted.
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

const LIMITS: Limits = Limits {
    connections: CONNECTIONS_MAX,
    request_bytes: REQUEST_BYTES_MAX,
    request_time: REQUEST_TIME_MAX,
    idle_time: IDLE_TIME_MAX,
};

/// Accepts at most as many connections at once as the limits say.
#[derive(Debug)]
pub(super) struct GuardedListener {
    listener: TcpListener,
    limits: Limits,
    places: Arc<Semaphore>,
}

impl GuardedListener {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self::with_limits(listener, LIMITS)
    }

    pub(super) fn with_limits(listener: TcpListener, limits: Limits) -> Self {
        Self { listener, limits, places: Arc::new(Semaphore::new(limits.connections)) }
    }
}

impl Listener for GuardedListener {
    type Io = GuardedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (GuardedStream, SocketAddr) {
        loop {
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                // Only a closed semaphore refuses, and this one is never closed.
                std::future::pending().await
            };
            match self.listener.accept().await {
                Ok((stream, addr)) => {
                    return (GuardedStream::new(stream, self.limits, place), addr);
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

/// A connection with a deadline.
#[derive(Debug)]
pub(super) struct GuardedStream {
    stream: TcpStream,
    limits: Limits,
    deadline: Pin<Box<Sleep>>,
    /// Bytes read since the last byte written.
    unanswered: usize,
    _place: OwnedSemaphorePermit,
}

impl GuardedStream {
    fn new(stream: TcpStream, limits: Limits, place: OwnedSemaphorePermit) -> Self {
        let deadline = Box::pin(tokio::time::sleep(limits.request_time));
        Self { stream, limits, deadline, unanswered: 0, _place: place }
    }

    fn check_deadline(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.deadline.as_mut().poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn expect_within(&mut self, time: Duration) {
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
        this.check_deadline(cx)?;
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
        this.check_deadline(cx)?;
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.count_written(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check_deadline(cx)?;
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
