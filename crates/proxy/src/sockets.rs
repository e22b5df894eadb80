//! The sockets of one worker, by the numbers that the worker knows them by.

use trunkline_net::{Stream, Tls, Token};
use trunkline_worker::{ClientId, ConnId, Side};

/// One socket and what its driver has to remember.
pub(crate) struct Socket {
    pub stream: Stream,
    /// Its encryption, from the handshake that asked for it on.
    pub tls: Option<Box<Tls>>,
    pub side: Side,
    /// Not read until told otherwise.
    pub is_paused: bool,
    /// The kernel said that there may be bytes, and they were not all read.
    pub is_readable: bool,
    /// The other end has closed: reading goes on until the socket says so.
    pub has_ended: bool,
    /// The kernel took less than it was given; it says when there is room.
    pub is_full: bool,
    /// The connection is being made.
    pub is_connecting: bool,
    /// Closes when its bytes are written.
    pub is_closing: bool,
    /// Other addresses to try when this one gives no connection.
    pub alternatives: Vec<std::net::SocketAddr>,
}

impl Socket {
    pub(crate) fn new(stream: Stream, side: Side) -> Self {
        Self {
            stream,
            tls: None,
            side,
            is_paused: false,
            is_readable: false,
            has_ended: false,
            is_full: false,
            is_connecting: false,
            is_closing: false,
            alternatives: Vec::new(),
        }
    }

    /// Whether bytes can be written to it as they are, by now.
    pub(crate) fn takes_plain(&self) -> bool {
        !self.is_full && !self.is_connecting && self.tls.is_none()
    }
}

/// Sockets by kind and place; the place is the one that the worker's own tables use.
#[derive(Default)]
pub(crate) struct Sockets {
    clients: Vec<Option<Socket>>,
    servers: Vec<Option<Socket>>,
}

/// Tokens below this are the driver's own.
const FIRST_TOKEN: usize = 64;

/// The token of a socket: its place, and its kind in the lowest bit.
pub(crate) fn token_of(side: Side) -> Token {
    let (index, kind) = match side {
        Side::Client(ClientId { index, .. }) => (index as usize, 0),
        Side::Server(ConnId { index, .. }) => (index as usize, 1),
    };
    Token(FIRST_TOKEN + (index << 1 | kind))
}

impl Sockets {
    fn place(&mut self, side: Side) -> (&mut Vec<Option<Socket>>, usize) {
        match side {
            Side::Client(id) => (&mut self.clients, id.index as usize),
            Side::Server(id) => (&mut self.servers, id.index as usize),
        }
    }

    /// Adds a socket, or replaces the one at its place.
    pub(crate) fn insert(&mut self, socket: Socket) {
        let (table, index) = self.place(socket.side);
        if table.len() <= index {
            table.resize_with(index + 1, || None);
        }
        if let Some(place) = table.get_mut(index) {
            *place = Some(socket);
        }
    }

    /// The socket of exactly this side, not of an earlier or later one at the same place.
    pub(crate) fn get(&self, side: Side) -> Option<&Socket> {
        let (table, index) = match side {
            Side::Client(id) => (&self.clients, id.index as usize),
            Side::Server(id) => (&self.servers, id.index as usize),
        };
        table.get(index)?.as_ref().filter(|socket| socket.side == side)
    }

    /// The socket of exactly this side, to be changed.
    pub(crate) fn get_mut(&mut self, side: Side) -> Option<&mut Socket> {
        let (table, index) = self.place(side);
        table.get_mut(index)?.as_mut().filter(|socket| socket.side == side)
    }

    /// Takes a socket out.
    pub(crate) fn remove(&mut self, side: Side) -> Option<Socket> {
        self.get_mut(side)?;
        let (table, index) = self.place(side);
        table.get_mut(index)?.take()
    }

    /// The side that a token stands for; `None` when its socket has gone.
    pub(crate) fn side_of(&self, token: Token) -> Option<Side> {
        let number = token.0.checked_sub(FIRST_TOKEN)?;
        let table = match number & 1 {
            0 => &self.clients,
            _ => &self.servers,
        };
        Some(table.get(number >> 1)?.as_ref()?.side)
    }
}
