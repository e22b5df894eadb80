//! The clients of a worker, and who of them waits for what outside of their statements.

pub(crate) mod answers;
pub(crate) mod balance;
pub(crate) mod client;
pub(crate) mod frames;
pub(crate) mod half_open;
pub(crate) mod leases;
pub(crate) mod memory;
pub(crate) mod session;
mod statement;
mod under_way;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    net::IpAddr,
};

use foldhash::fast::FixedState;

use crate::{
    ClientId,
    clients::client::{Client, Statement},
    clients::half_open::HalfOpen,
    clients::session::ClientEntry,
    table::Table,
};

/// All clients of one worker.
pub(crate) struct Clients {
    pub(crate) table: Table<ClientId, ClientEntry>,
    /// Clients by the numbers that they were greeted with.
    pub(crate) numbers: HashMap<u32, ClientId, FixedState>,
    /// Where clients are that this worker gave their numbers and then to another worker.
    pub(crate) away: HashMap<u32, usize, FixedState>,
    /// Clients that move to another worker when they rest, and where to.
    pub(crate) leaving: Vec<(ClientId, usize)>,
    /// Bytes that wait for clients, of those for whom much does.
    pub(crate) waiting_bytes: usize,
    /// The number that was given last; 0 before the first.
    pub(crate) last_number: u32,
    /// When clients' statements are looked at again, ms.
    pub(crate) timers: BTreeSet<(u64, ClientId)>,
    pub(crate) logins: Logins,
    pub(crate) copies: Copies,
    /// Clients whose awaited answers were stored in the cache, or will not be.
    pub(crate) cache_woken: VecDeque<ClientId>,
    /// What clients hold of the memory of all.
    pub(crate) memory: memory::Memory,
    /// Memory of statements that are over, for those to come.
    #[expect(clippy::vec_box, reason = "the boxes themselves are what is used again")]
    pub(crate) spare_statements: Vec<Box<Statement>>,
}

/// Clients that log in, and what they wait for.
#[derive(Default)]
pub(crate) struct Logins {
    /// All of them, oldest first, with their deadlines in ms.
    pub(crate) logging_in: VecDeque<(u64, ClientId)>,
    /// Those of them that have not logged in before, and may have to make room.
    pub(crate) half_open: HalfOpen,
    /// Those that wait for what users the servers have.
    pub(crate) looking_up: Vec<ClientId>,
    /// Whether that has been asked and not been answered.
    pub(crate) has_asked_for_users: bool,
    /// Clients that wait for what servers say of their names.
    pub(crate) looking_up_user: HashMap<String, Vec<ClientId>>,
    /// Those that wait for what their host is called, by its address.
    pub(crate) naming: HashMap<IpAddr, Vec<ClientId>, FixedState>,
}

/// Clients that run a copy of another client's statement.
#[derive(Default)]
pub(crate) struct Copies {
    /// How many there are: so many clients have no socket.
    pub(crate) running: usize,
    /// Those whose statement is over; they go at the end of the batch.
    pub(crate) over: Vec<ClientId>,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            table: Table::new(),
            numbers: HashMap::with_hasher(FixedState::default()),
            away: HashMap::with_hasher(FixedState::default()),
            leaving: Vec::new(),
            waiting_bytes: 0,
            last_number: 0,
            timers: BTreeSet::new(),
            logins: Logins::default(),
            copies: Copies::default(),
            cache_woken: VecDeque::new(),
            memory: memory::Memory::default(),
            spare_statements: Vec::new(),
        }
    }
}

impl Clients {
    /// A client that has logged in.
    #[inline]
    pub(crate) fn get(&self, id: ClientId) -> Option<&Client> {
        self.table.get(id)?.client()
    }

    /// See [`Self::get`].
    #[inline]
    pub(crate) fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.table.get_mut(id)?.client_mut()
    }

    /// All that have logged in.
    pub(crate) fn logged_in(&self) -> impl Iterator<Item = &Client> {
        self.table.values().filter_map(ClientEntry::client)
    }

    /// Those who have logged in for whom `wanted` holds.
    pub(crate) fn ids_where(&self, mut wanted: impl FnMut(&Client) -> bool) -> Vec<ClientId> {
        self.table.keys_where(|entry| entry.client().is_some_and(&mut wanted))
    }
}

#[cfg(test)]
mod tests;
