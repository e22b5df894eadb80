//! The second level of the cache: what other proxies have asked for already.
//!
//! A statement that begins to ask for an answer waits for what the thread beside finds in the
//! shared cache, for a short time. Whatever comes of it, it goes on: with the answer, or to a
//! server as if there were no such thing. `docs/decisions/0026`.

use std::sync::Arc;

use trunkline_cache::{SharedAsk, Waiter};
use trunkline_topology::{Address, Server};

use super::{CacheOrder, LOCAL_LEN, put};
use crate::{
    Action, ClientId,
    clients::client::{Awaits, Client, Stage, Statement},
    rooms::{Core, Exchange},
    routing::route::Route,
};

/// Under what an answer lies in the shared cache.
#[derive(Debug)]
pub(crate) struct SharedPlace {
    pub(crate) key: Arc<[u8]>,
    /// What was stored there before has been flushed if this is another one by then.
    pub(crate) generation: u64,
}

/// Whether the answer to a statement may be in the shared cache.
pub(super) fn has_shared_place(statement: &Statement) -> bool {
    statement.beside.fill.as_ref().is_some_and(|fill| fill.shared.is_some())
}

impl Core {
    /// The place of an answer, if there is a shared cache that answers. The numbers of hostgroups
    /// and the names of users mean something for one proxy only: the servers, and who its user is
    /// there, take part in the key.
    pub(super) fn shared_place(&self, key: &[u8], route: &Route) -> Option<SharedPlace> {
        let shared = self.env.shared.cache().shared();
        let (Route::Hostgroup(hostgroup) | Route::Reader(hostgroup) | Route::Lease(hostgroup, _)) =
            route
        else {
            return None;
        };
        if !shared.is_up() {
            return None;
        }
        let servers = &self.env.snapshot.hostgroup(*hostgroup)?.servers;
        let mut addresses: Vec<String> =
            servers.iter().map(|server| server.key.address.to_string()).collect();
        addresses.sort_unstable();
        let mut whole = Vec::with_capacity(key.len() + 32 * addresses.len());
        put(&mut whole, key.get(LOCAL_LEN..)?);
        addresses.iter().for_each(|address| put(&mut whole, address.as_bytes()));
        // Elsewhere these are other servers.
        let host = shared.host()?;
        let is_socket = |server: &Arc<Server>| matches!(server.key.address, Address::Unix(_));
        if servers.iter().any(|server| server.is_on_loopback()) {
            put(&mut whole, &host.loopback);
        }
        if servers.iter().any(is_socket) {
            put(&mut whole, &host.files);
        }
        Some(SharedPlace { key: whole.into(), generation: shared.generation() })
    }

    /// A statement that awaited the shared cache goes on without it.
    pub(crate) fn count_shared_timeout(&mut self, statement: &Statement) {
        if let Some(order) =
            statement.target.directives.cache.filter(|_| statement.beside.fill.is_some())
        {
            self.fx.stats.counters.cache_shared_timeouts += 1;
            self.count_miss(order);
        }
    }
}

impl Exchange {
    /// Holds a statement back until the shared cache has been asked, or for as long as the
    /// settings say.
    pub(super) fn ask_shared(
        &mut self,
        client: &mut Client,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
    ) {
        let Some((fill, place)) =
            statement.beside.fill.as_ref().and_then(|fill| Some((fill, fill.shared.as_ref()?)))
        else {
            return self.delay_or_start(client, route, statement, text_len);
        };
        let ClientId { index, generation } = client.id;
        let ask = SharedAsk {
            waiter: Waiter { worker: self.core.env.options.index, index, generation },
            key: Arc::from(&*fill.key),
            shared_key: Arc::clone(&place.key),
            ticket: fill.ticket,
            reply_max: fill.copy.bytes_max(),
        };
        let awaits = Awaits::Cached(fill.key.clone());
        self.core.fx.act(Action::AskShared(Box::new(ask)));
        self.core.fx.stats.counters.cache_shared_asked += 1;
        let mut wait_ms = self.core.env.snapshot.settings.query_cache_redis_timeout;
        if statement.target.directives.timeout_ms > 0 {
            wait_ms = wait_ms.min(statement.target.directives.timeout_ms);
        }
        statement.stage = Stage::held(awaits, route, text_len);
        self.core.clients.begin(client, statement);
        self.core.clients.set_timer(client, self.core.env.now.ms() + wait_ms);
    }

    /// The shared cache has been asked: what it had is on the first level by now.
    pub(super) fn go_on_from_shared(
        &mut self,
        client: &mut Client,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
        order: CacheOrder,
    ) {
        let key = statement.beside.fill.as_ref().map(|fill| &*fill.key).unwrap_or_default();
        match self.core.env.shared.cache().get(key, order.ttl_us(), self.core.env.now.us) {
            Some(reply) => {
                self.core.drop_fill(&mut statement);
                self.core.fx.stats.counters.cache_shared_hits += 1;
                self.answer_cached(client, &mut statement, order, &reply);
                self.retire(statement);
                self.after_statement(client, None);
            }
            None => {
                self.core.count_miss(order);
                self.delay_or_start(client, route, statement, text_len);
            }
        }
    }
}
