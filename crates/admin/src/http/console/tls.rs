//! TLS around the connections of a listener, handshake included: whoever reads from such a stream
//! gets what was decrypted.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};
use trunkline_net::{Received, Sealed, Tls};

use super::super::guard::{Caller, GuardedListener, GuardedStream};
use crate::service::AdminService;

/// Bytes that are read at once.
const READ_LEN: usize = 16 * 1024;
/// Bytes of text that are encrypted at once.
const SEALED_AT_ONCE: usize = 16 * 1024;

/// Accepts connections, and gives each a TLS of its own.
pub(super) struct TlsListener {
    listener: GuardedListener,
    service: Arc<AdminService>,
}

impl TlsListener {
    pub(super) fn new(listener: GuardedListener, service: Arc<AdminService>) -> Self {
        Self { listener, service }
    }

    /// `None` where there is no certificate to show, or too many handshakes came from there.
    fn begin(&self, stream: GuardedStream) -> Option<TlsStream<GuardedStream>> {
        let setup = self.service.tls();
        let Some(acceptor) = setup.console() else {
            tracing::warn!("the web console has no certificate to show: set console_cert");
            return None;
        };
        let wait = self.service.door().handshake(stream.caller().origin())?;
        let wait = (!wait.is_zero()).then(|| Box::pin(tokio::time::sleep(wait)));
        Some(TlsStream::new(stream, Tls::accept(acceptor).ok()?, wait))
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<GuardedStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, addr) = self.listener.accept().await;
            if let Some(stream) = self.begin(stream) {
                return (stream, addr);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        stream.io().stream.caller()
    }
}

/// A stream whose bytes are encrypted on the way.
pub(super) struct TlsStream<S> {
    stream: S,
    tls: Tls,
    /// Until when the handshake has to wait for its turn.
    wait: Option<Pin<Box<Sleep>>>,
    scratch: Vec<u8>,
    /// What was decrypted, and how much of it was taken.
    inbox: Vec<u8>,
    taken: usize,
    /// What was encrypted, and how much of it was sent.
    sealed: Sealed,
    sent: usize,
    is_closing: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    fn new(stream: S, tls: Tls, wait: Option<Pin<Box<Sleep>>>) -> Self {
        Self {
            stream,
            tls,
            wait,
            scratch: Vec::new(),
            inbox: Vec::new(),
            taken: 0,
            sealed: Sealed::default(),
            sent: 0,
            is_closing: false,
        }
    }

    /// Sends what the handshake, or an alert, has to say, and then what was encrypted.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.tls.unsent().is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(cx, self.tls.unsent());
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.tls.sent(written),
            }
        }
        loop {
            let rest = self.sealed.bytes().get(self.sent..).unwrap_or_default();
            if rest.is_empty() {
                self.sealed.clear();
                self.sent = 0;
                return Poll::Ready(Ok(()));
            }
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
    }

    /// Reads and decrypts; whether the other end goes on.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.tls.has_ended() {
            return Poll::Ready(Ok(false));
        }
        let begin = self.tls.waiting_len();
        self.scratch.resize(begin + READ_LEN, 0);
        let room = self.scratch.get_mut(begin..).unwrap_or_default();
        let mut room = ReadBuf::new(room);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room))?;
        let read = room.filled().len();
        if read == 0 {
            return Poll::Ready(Ok(false));
        }
        self.scratch.truncate(begin + read);
        let inbox = &mut self.inbox;
        let received = self.tls.receive(&mut self.scratch, &mut |received| match received {
            Received::Data(text, _) => inbox.extend_from_slice(text),
            Received::Up(_) => {}
        });
        if let Err(reason) = received {
            // The alert is all that can still be said; whether it arrives makes no difference.
            let _ = self.poll_send(cx);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        Poll::Ready(Ok(true))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(wait) = this.wait.as_mut() {
            ready!(wait.as_mut().poll(cx));
            this.wait = None;
        }
        loop {
            if let Poll::Ready(Err(error)) = this.poll_send(cx) {
                return Poll::Ready(Err(error));
            }
            let rest = this.inbox.get(this.taken..).unwrap_or_default();
            if !rest.is_empty() {
                let len = rest.len().min(buf.remaining());
                buf.put_slice(rest.get(..len).unwrap_or_default());
                this.taken += len;
                if this.taken == this.inbox.len() {
                    (this.inbox, this.taken) = (Vec::new(), 0);
                }
                return Poll::Ready(Ok(()));
            }
            if !ready!(this.poll_receive(cx))? {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        text: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        if !this.tls.is_up() {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        }
        let text = text.get(..text.len().min(SEALED_AT_ONCE)).unwrap_or_default();
        this.tls.seal(text, &mut this.sealed).map_err(io::Error::other)?;
        // What is not sent now is sent before the next text, or by a flush.
        match this.poll_send(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(text.len())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        if !this.is_closing {
            this.is_closing = true;
            this.tls.close(&mut this.sealed);
        }
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}
