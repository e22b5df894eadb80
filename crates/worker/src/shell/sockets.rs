//! The sockets of one worker, by the numbers that the worker knows them by.

use std::sync::Arc;

use trunkline_topology::Server;

use super::{Place, Stream};
use crate::Side;

/// One socket and what has to be remembered of it.
pub(super) struct Socket<S: Stream> {
    pub(super) stream: S,
    /// Its encryption, from the handshake that asked for it on.
    pub(super) seal: Option<Box<S::Seal>>,
    pub(super) side: Side,
    /// The attempt to connect, while it is under way.
    pub(super) attempt: Option<Box<Attempt>>,
    /// Not read until told otherwise.
    pub(super) is_paused: bool,
    /// There may be bytes, and they were not all read.
    pub(super) is_readable: bool,
    /// Its last read has filled its room: it takes turns with others that have much.
    pub(super) is_long: bool,
    /// It is read when its turn comes, in this batch or one of the next.
    pub(super) is_unfinished: bool,
    /// It is written to when its turn comes, in the next batches.
    pub(super) is_unwritten: bool,
    /// The other end has closed: reading goes on until the stream says so.
    pub(super) has_ended: bool,
    /// The stream took less than it was given; an event says when there is room.
    pub(super) is_full: bool,
    /// Closes when its bytes are written.
    pub(super) is_closing: bool,
}

/// An attempt to connect to one of a server's addresses.
pub(super) struct Attempt {
    pub(super) server: Arc<Server>,
    pub(super) number: usize,
}

impl<S: Stream> Socket<S> {
    pub(super) fn new(stream: S, side: Side) -> Self {
        Self {
            stream,
            seal: None,
            side,
            attempt: None,
            is_paused: false,
            is_readable: false,
            is_long: false,
            is_unfinished: false,
            is_unwritten: false,
            has_ended: false,
            is_full: false,
            is_closing: false,
        }
    }

    #[inline]
    pub(super) fn is_connecting(&self) -> bool {
        self.attempt.is_some()
    }

    /// Whether bytes can be written to it as they are, by now.
    pub(super) fn takes_plain(&self) -> bool {
        !self.is_full && !self.is_unwritten && !self.is_connecting() && self.seal.is_none()
    }
}

/// Sockets by kind and place; the place is the one that the worker's own tables use.
pub(super) struct Sockets<S: Stream> {
    clients: Vec<Option<Socket<S>>>,
    servers: Vec<Option<Socket<S>>>,
}

impl<S: Stream> Default for Sockets<S> {
    fn default() -> Self {
        Self { clients: Vec::new(), servers: Vec::new() }
    }
}

impl<S: Stream> Sockets<S> {
    #[inline]
    fn table(&mut self, place: Place) -> (&mut Vec<Option<Socket<S>>>, usize) {
        match place.0 & 1 {
            0 => (&mut self.clients, place.0 >> 1),
            _ => (&mut self.servers, place.0 >> 1),
        }
    }

    /// Adds a socket; the one that was at its place.
    pub(super) fn insert(&mut self, socket: Socket<S>) -> Option<Socket<S>> {
        let (table, index) = self.table(Place::of(socket.side));
        if table.len() <= index {
            table.resize_with(index + 1, || None);
        }
        table.get_mut(index)?.replace(socket)
    }

    /// The socket that is at a place now.
    #[inline]
    pub(super) fn at(&mut self, place: Place) -> Option<&mut Socket<S>> {
        let (table, index) = self.table(place);
        table.get_mut(index)?.as_mut()
    }

    /// The socket of exactly this side, not of an earlier or later one at the same place.
    pub(super) fn get(&self, side: Side) -> Option<&Socket<S>> {
        let place = Place::of(side).0;
        let table = if place & 1 == 0 { &self.clients } else { &self.servers };
        table.get(place >> 1)?.as_ref().filter(|socket| socket.side == side)
    }

    /// The socket of exactly this side, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, side: Side) -> Option<&mut Socket<S>> {
        let (table, index) = match side {
            Side::Client(id) => (&mut self.clients, id.index),
            Side::Server(id) => (&mut self.servers, id.index),
        };
        table.get_mut(index as usize)?.as_mut().filter(|socket| socket.side == side)
    }

    /// Takes a socket out.
    pub(super) fn remove(&mut self, side: Side) -> Option<Socket<S>> {
        self.get_mut(side)?;
        let (table, index) = self.table(Place::of(side));
        table.get_mut(index)?.take()
    }

    /// All sockets, clients' first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Socket<S>> {
        self.clients.iter().chain(&self.servers).flatten()
    }

    /// Takes all sockets out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Socket<S>> {
        let (clients, servers) = (&mut self.clients, &mut self.servers);
        clients.drain(..).chain(servers.drain(..)).flatten()
    }
}
