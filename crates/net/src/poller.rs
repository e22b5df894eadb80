//! Waiting for sockets. Edge-triggered: a socket is registered once, for both directions, and
//! says when something changed; nobody asks it again.

use std::{io, sync::Arc, time::Duration};

use mio::Interest;

use crate::{Listener, Stream};

/// Names a socket in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub usize);

/// What happened to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Which socket.
    pub token: Token,
    /// It may have bytes to read, or has ended.
    pub readable: bool,
    /// It may take bytes.
    pub writable: bool,
    /// The other end has closed or the socket has failed: reading goes on until it says so.
    pub ended: bool,
}

/// The events of one wait, in a buffer that is used again.
pub struct Events(mio::Events);

impl Events {
    /// Room for `capacity` events in one wait.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(mio::Events::with_capacity(capacity))
    }

    /// The events, in the order in which the kernel gave them.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.0.iter().map(|event| Event {
            token: Token(event.token().0),
            readable: event.is_readable(),
            writable: event.is_writable(),
            ended: event.is_read_closed() || event.is_error(),
        })
    }
}

/// Waits for many sockets.
pub struct Poller(mio::Poll);

impl Poller {
    /// A poller without sockets.
    pub fn new() -> io::Result<Self> {
        mio::Poll::new().map(Self)
    }

    /// Waits until something happens or the time is over. A signal ends the wait early.
    pub fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        match self.0.poll(&mut events.0, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }

    /// Adds a stream, for both directions.
    pub fn add_stream(&self, stream: &mut Stream, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.0.registry().register(stream.source(), mio::Token(token.0), interest)
    }

    /// Removes a stream that goes on elsewhere. A stream that is dropped removes itself.
    pub fn remove_stream(&self, stream: &mut Stream) -> io::Result<()> {
        self.0.registry().deregister(stream.source())
    }

    /// Adds a listener.
    pub fn add_listener(&self, listener: &mut Listener, token: Token) -> io::Result<()> {
        self.0.registry().register(listener.source(), mio::Token(token.0), Interest::READABLE)
    }

    /// Removes a listener: what it has queued is accepted by nobody.
    pub fn remove_listener(&self, listener: &mut Listener) -> io::Result<()> {
        self.0.registry().deregister(listener.source())
    }

    /// Something that ends a wait from another thread.
    pub fn waker(&self, token: Token) -> io::Result<Waker> {
        mio::Waker::new(self.0.registry(), mio::Token(token.0)).map(|waker| Waker(Arc::new(waker)))
    }
}

/// Ends a wait from another thread.
#[derive(Debug, Clone)]
pub struct Waker(Arc<mio::Waker>);

impl Waker {
    /// Ends the wait that runs, or else the next one.
    pub fn wake(&self) {
        // The only failure is a counter that is full, and then the wait ends anyway.
        let _ = self.0.wake();
    }
}
