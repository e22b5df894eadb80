//! Step 10: an answer is stored in the cache, if it is fit for that.

use std::sync::Arc;

use trunkline_cache::{Reply, SharedStore, Waiter, pack};
use trunkline_protocol::{packet::status, packet::track::Changes, response::Outcome};
use trunkline_session::tracker::reports_change;
use trunkline_topology::Basis;

use crate::{
    Action, ClientId,
    cache::capture::numbered,
    cache::{CacheFill, UNSTORED_STATUS, bare, is_passing},
    clients::client::Statement,
    rooms::Core,
    servers::conn::Conn,
};

impl Core {
    /// The statement has been answered: its answer is stored if it is fit for that.
    pub(super) fn finish_fill(
        &mut self,
        conn: &Conn,
        statement: &Statement,
        fill: &CacheFill,
        outcome: &Outcome,
        was_run: bool,
    ) {
        let insists = statement.target.directives.cache.is_some_and(|order| order.is_always);
        let is_proven = insists || statement.is_unchanged(self.env.shared.catalog());
        let reply = match was_run && statement.ending.is_none() && is_proven {
            true => self.stored(conn, statement, fill, outcome),
            false => None,
        };
        if let (Some(reply), Some(order)) = (&reply, statement.target.directives.cache) {
            let len = reply.bytes.len() as u64;
            self.fx.stats.counters.cache_stored += 1;
            self.fx.stats.counters.cache_stored_bytes += len;
            let figures = self.fx.stats.cache_mut(order.rule);
            figures.stored += 1;
            figures.stored_bytes += len;
        }
        if let Some(reply) = &reply {
            self.store_shared(fill, reply);
        }
        let waiters = fill.cache.finish(&fill.key, fill.ticket, reply);
        self.wake_waiters(waiters);
    }

    /// The statement is over without an answer to store.
    pub(crate) fn drop_fill(&mut self, statement: &mut Statement) {
        if let Some(fill) = statement.beside.fill.take() {
            let waiters = fill.cache.finish(&fill.key, fill.ticket, None);
            self.wake_waiters(waiters);
        }
    }

    /// What is stored of an answer: all of it, numbered from 1. `None` when it is not fit.
    fn stored(
        &self,
        conn: &Conn,
        statement: &Statement,
        fill: &CacheFill,
        outcome: &Outcome,
    ) -> Option<Reply> {
        let order = statement.target.directives.cache?;
        let basis = fill.basis.as_deref().cloned();
        if order.is_until_changed() && !basis.as_ref().is_some_and(Basis::may_be_kept) {
            return None;
        }
        let settings = &self.env.snapshot.settings;
        let flags = outcome.status?;
        let has_warnings = outcome.warnings > 0;
        let stores_empty = order.stores_empty.unwrap_or(settings.query_cache_stores_empty_result);
        let is_of_now = self.servers.pool.slot(conn.slot).is_some_and(|slot| !slot.is_out())
            && fill.is_of_now(&self.env);
        let is_fit = is_of_now
            && outcome.error.is_none()
            && outcome.result_sets == 1
            && Changes::new(&outcome.changes).all(is_passing)
            && !reports_change(outcome)
            && flags & UNSTORED_STATUS == 0
            && flags & status::AUTOCOMMIT != 0
            && (!has_warnings || settings.query_cache_handle_warnings != 0)
            && (outcome.rows > 0 || stores_empty);
        if !is_fit {
            return None;
        }
        let format = conn.server.format;
        let mut bytes = numbered(fill.copy.bytes()?, format)?;
        if has_warnings || !outcome.changes.is_empty() {
            bytes = bare(bytes, format)?;
        }
        let sent_us = statement.sent.sent_us;
        let soft_us = match u64::from(settings.query_cache_soft_ttl_pct) {
            0 => order.ttl_us(),
            percent => order.ttl_us() * percent / 100,
        };
        Some(Reply {
            bytes: bytes.into(),
            format,
            sent_us,
            before_us: 0,
            soft_us: sent_us + soft_us,
            expires_us: sent_us + order.ttl_us(),
            basis,
        })
    }

    pub(crate) fn wake_waiters(&mut self, waiters: Vec<Waiter>) {
        let mut others: Vec<(usize, Vec<ClientId>)> = Vec::new();
        for Waiter { worker, index, generation } in waiters {
            let id = ClientId { index, generation };
            if worker == self.env.options.index {
                self.clients.cache_woken.push_back(id);
                continue;
            }
            match others.iter_mut().find(|(to, _)| *to == worker) {
                Some((_, clients)) => clients.push(id),
                None => others.push((worker, vec![id])),
            }
        }
        for (to, clients) in others {
            self.fx.act(Action::WakeCached { to, clients });
        }
    }

    /// Sends an answer that was stored here to the shared cache too.
    fn store_shared(&mut self, fill: &CacheFill, reply: &Reply) {
        let Some(place) = fill.shared.as_ref().filter(|_| fill.cache.is_current(fill.ticket))
        else {
            return;
        };
        if reply.expires_us <= self.env.now.us || !self.env.shared.cache().shared().is_up() {
            return;
        }
        let (shared_key, generation) = (Arc::clone(&place.key), place.generation);
        let (value, expires_us) = (pack(reply), reply.expires_us);
        let store = SharedStore { shared_key, generation, value, expires_us };
        self.fx.act(Action::StoreShared(Box::new(store)));
    }
}
