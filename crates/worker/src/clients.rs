//! The clients of a worker, and who of them waits for what outside of their statements.

pub(crate) mod answers;
pub(crate) mod balance;
pub(crate) mod client;
pub(crate) mod moving;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    net::IpAddr,
};

use foldhash::fast::FixedState;

use crate::{ClientId, clients::client::Client, table::Table};

/// All clients of one worker.
pub(crate) struct Clients {
    pub table: Table<ClientId, Client>,
    /// Clients by the numbers that they were greeted with.
    pub numbers: HashMap<u32, ClientId, FixedState>,
    /// Where clients are that this worker gave their numbers and then to another worker.
    pub away: HashMap<u32, usize, FixedState>,
    /// Clients that move to another worker when they rest, and where to.
    pub leaving: Vec<(ClientId, usize)>,
    /// Bytes that wait for clients, of those for whom much does.
    pub waiting_bytes: usize,
    /// The number that was given last; 0 before the first.
    pub last_number: u32,
    /// When clients' statements are looked at again, ms.
    pub timers: BTreeSet<(u64, ClientId)>,
    /// Clients that log in, oldest first, with their deadlines in ms.
    pub logging_in: VecDeque<(u64, ClientId)>,
    /// Clients that wait for what users the servers have.
    pub looking_up: Vec<ClientId>,
    /// Whether that has been asked and not been answered.
    pub has_asked_for_users: bool,
    /// Clients that wait for what their host is called, by its address.
    pub naming: HashMap<IpAddr, Vec<ClientId>, FixedState>,
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
            logging_in: VecDeque::new(),
            looking_up: Vec::new(),
            has_asked_for_users: false,
            naming: HashMap::with_hasher(FixedState::default()),
        }
    }
}

impl Clients {
    #[inline]
    pub(crate) fn get(&self, id: ClientId) -> Option<&Client> {
        self.table.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.table.get_mut(id)
    }
}
