//! The played sockets of one worker.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use trunkline_worker::Side;

use super::Connecting;
use crate::{LinkId, sealing::Seal};

/// What the driver remembers of one socket; the flags are the real driver's.
#[derive(Debug)]
pub(super) struct Socket {
    pub link: LinkId,
    pub side: Side,
    pub is_paused: bool,
    pub is_readable: bool,
    pub has_ended: bool,
    pub is_full: bool,
    pub is_connecting: bool,
    pub is_closing: bool,
    pub seal: Option<Box<Seal>>,
    /// How its connecting went.
    pub connecting: Connecting,
}

impl Socket {
    pub(super) fn new(link: LinkId, side: Side) -> Self {
        Self {
            link,
            side,
            is_paused: false,
            is_readable: false,
            has_ended: false,
            is_full: false,
            is_connecting: false,
            is_closing: false,
            seal: None,
            connecting: Connecting::Done,
        }
    }
}

/// Sockets by side, and sides by link. Only looked up by key, or listed by link.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    sockets: HashMap<Side, Socket, FixedState>,
    sides: BTreeMap<LinkId, Side>,
}

impl Sockets {
    pub(super) fn insert(&mut self, socket: Socket) {
        self.sides.insert(socket.link, socket.side);
        self.sockets.insert(socket.side, socket);
    }

    pub(super) fn get_mut(&mut self, side: Side) -> Option<&mut Socket> {
        self.sockets.get_mut(&side)
    }

    pub(super) fn by_link(&mut self, link: LinkId) -> Option<&mut Socket> {
        self.sockets.get_mut(self.sides.get(&link)?)
    }

    pub(super) fn side_of(&self, link: LinkId) -> Option<Side> {
        self.sides.get(&link).copied()
    }

    pub(super) fn remove(&mut self, side: Side) -> Option<Socket> {
        let socket = self.sockets.remove(&side)?;
        self.sides.remove(&socket.link);
        Some(socket)
    }

    /// Takes all out; their links, oldest first.
    pub(super) fn drain(&mut self) -> Vec<LinkId> {
        self.sockets.clear();
        std::mem::take(&mut self.sides).into_keys().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Socket> {
        self.sides.values().filter_map(|side| self.sockets.get(side))
    }
}
