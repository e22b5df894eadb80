//! Waiting for sockets. Edge-triggered: a socket is registered once, for both directions, and
//! says when something changed; nobody asks it again. Or received from by a ring.

use std::{io, marker::PhantomData, os::fd::AsRawFd, sync::Arc, time::Duration};

use mio::Interest;

use crate::{Connecting, Listener, Stream, ring::Ring};

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
pub struct Events {
    watched: mio::Events,
    capacity: usize,
    received: Vec<Event>,
}

impl Events {
    /// Room for `capacity` events in one wait.
    pub fn with_capacity(capacity: usize) -> Self {
        let watched = mio::Events::with_capacity(capacity);
        Self { watched, capacity, received: Vec::new() }
    }

    /// The events, in the order in which the kernel gave them.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let watched = self.watched.iter().map(|event| Event {
            token: Token(event.token().0),
            readable: event.is_readable(),
            writable: event.is_writable(),
            ended: event.is_read_closed() || event.is_error(),
        });
        watched.chain(self.received.iter().copied())
    }
}

/// Waits for many sockets, and reads and writes them.
///
/// Without a ring, all of them are watched by epoll or kqueue and read when they have something.
/// With one, connected streams receive by io_uring; listeners, wakers, streams that are being
/// connected and those that wait to be written to are watched as before.
pub struct Poller {
    // In this order: the ring looks at the watcher's descriptor.
    ring: Option<Ring>,
    watcher: mio::Poll,
}

impl Poller {
    /// A poller without sockets, and without a ring.
    pub fn new() -> io::Result<Self> {
        mio::Poll::new().map(|watcher| Self { ring: None, watcher })
    }

    /// Has streams that are added from now on receive by io_uring. Call it on the thread that
    /// waits: no other may wait then.
    ///
    /// # Errors
    /// The system's reason why that can't be; everything goes on without.
    pub fn receive_by_ring(&mut self) -> io::Result<()> {
        self.ring = Some(Ring::open(self.watcher.as_raw_fd())?);
        Ok(())
    }

    /// Waits until something happens or the time is over. A signal ends the wait early.
    pub fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.received.clear();
        let Some(ring) = &mut self.ring else {
            return watch(&mut self.watcher, events, timeout);
        };
        if !ring.wait(timeout, &mut events.received)? {
            events.watched.clear();
            return Ok(());
        }
        watch(&mut self.watcher, events, Some(Duration::ZERO))?;
        if events.watched.iter().count() >= events.capacity {
            ring.others_have_more();
        }
        Ok(())
    }

    /// Takes note of what has come up to now, for the next reads.
    pub fn look(&mut self) -> io::Result<()> {
        self.ring.as_mut().map_or(Ok(()), Ring::look)
    }

    /// Reads what a stream has; 0 at its end.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing yet; or what happened to the connection.
    pub fn read(&mut self, stream: &mut Stream, buf: &mut [u8]) -> io::Result<usize> {
        match (&mut self.ring, &stream.seat) {
            (Some(ring), Some(seat)) => ring.read(seat, buf),
            _ => stream.receive(buf),
        }
    }

    /// Writes what the kernel takes at once. If that is not everything, an event comes when there
    /// is room again.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room; or what happened to the connection.
    pub fn write(&mut self, stream: &mut Stream, bytes: &[u8]) -> io::Result<usize> {
        let result = stream.send(bytes);
        let is_full = match &result {
            Ok(len) => *len < bytes.len(),
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        if is_full && !stream.is_watched {
            let token = match (&self.ring, &stream.seat) {
                (Some(ring), Some(seat)) => ring.token(seat),
                _ => None,
            };
            if let Some(token) = token {
                self.watch_stream(stream, token, Interest::WRITABLE)?;
            }
        }
        result
    }

    /// Whether [`write_many`](Self::write_many) is worth while.
    pub fn writes_many(&self) -> bool {
        self.ring.is_some()
    }

    /// Writes to many streams by one call: `fill` says what, and `results` is what came of each in
    /// that order, as of [`write`](Self::write). Who was full is told only after another `write`.
    ///
    /// # Errors
    /// The worker can't go on.
    pub fn write_many<'a>(
        &mut self,
        fill: impl FnOnce(&mut Writing<'_, 'a>),
        results: &mut Vec<io::Result<usize>>,
    ) -> io::Result<()> {
        let Some(ring) = &mut self.ring else {
            return Ok(());
        };
        fill(&mut Writing { ring, streams: PhantomData });
        ring.flush(results)
    }

    /// Whether an attempt to connect has been decided. A stream that is connected then receives.
    pub fn connecting(&mut self, stream: &mut Stream, token: Token) -> Connecting {
        if !stream.is_connecting() {
            return Connecting::Done;
        }
        match stream.connecting() {
            Connecting::Done if self.ring.is_some() => match self.settle_down(stream, token) {
                Ok(()) => Connecting::Done,
                Err(error) => Connecting::Failed(error.to_string()),
            },
            decided => decided,
        }
    }

    /// A stream that was connected is not watched any more but received from.
    fn settle_down(&mut self, stream: &mut Stream, token: Token) -> io::Result<()> {
        self.watcher.registry().deregister(stream.source())?;
        stream.is_watched = false;
        self.add_stream(stream, token)
    }

    /// Adds a stream, for both directions.
    pub fn add_stream(&mut self, stream: &mut Stream, token: Token) -> io::Result<()> {
        match &mut self.ring {
            Some(ring) if !stream.is_connecting() => {
                stream.set_waiting(true)?;
                let luggage = std::mem::take(&mut stream.luggage);
                stream.seat = Some(ring.seat(stream.number(), token, luggage));
                Ok(())
            }
            _ => self.watch_stream(stream, token, Interest::READABLE | Interest::WRITABLE),
        }
    }

    fn watch_stream(
        &self,
        stream: &mut Stream,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.watcher.registry().register(stream.source(), mio::Token(token.0), interest)?;
        stream.is_watched = true;
        Ok(())
    }

    /// Removes a stream that goes on elsewhere, with what it has received. A stream that is
    /// dropped removes itself.
    pub fn remove_stream(&mut self, stream: &mut Stream) -> io::Result<()> {
        if std::mem::take(&mut stream.is_watched) {
            self.watcher.registry().deregister(stream.source())?;
        }
        if let (Some(ring), Some(seat)) = (&mut self.ring, stream.seat.take()) {
            stream.luggage = ring.unseat(&seat)?;
            stream.set_waiting(false)?;
        }
        Ok(())
    }

    /// Adds a listener.
    pub fn add_listener(&self, listener: &mut Listener, token: Token) -> io::Result<()> {
        let token = mio::Token(token.0);
        self.watcher.registry().register(listener.source(), token, Interest::READABLE)
    }

    /// Removes a listener: what it has queued is accepted by nobody.
    pub fn remove_listener(&self, listener: &mut Listener) -> io::Result<()> {
        self.watcher.registry().deregister(listener.source())
    }

    /// Something that ends a wait from another thread.
    pub fn waker(&self, token: Token) -> io::Result<Waker> {
        let waker = mio::Waker::new(self.watcher.registry(), mio::Token(token.0))?;
        Ok(Waker(Arc::new(waker)))
    }
}

fn watch(
    watcher: &mut mio::Poll,
    events: &mut Events,
    timeout: Option<Duration>,
) -> io::Result<()> {
    match watcher.poll(&mut events.watched, timeout) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        result => result,
    }
}

/// Collects what [`Poller::write_many`] writes. The streams can't close meanwhile.
pub struct Writing<'p, 'a> {
    ring: &'p mut Ring,
    streams: PhantomData<&'a Stream>,
}

impl<'a> Writing<'_, 'a> {
    /// Takes a copy of bytes for a stream; false when they have to be written by themselves.
    pub fn add(&mut self, stream: &'a Stream, bytes: &[u8]) -> bool {
        stream.seat.is_some() && self.ring.add_write(stream.number(), bytes)
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
