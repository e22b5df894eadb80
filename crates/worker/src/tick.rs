//! What time alone brings: deadlines that pass, connections that rest too long, shuns that end.

use std::collections::HashMap;

use trunkline_pool::{ConnState, SlotId};
use trunkline_protocol::error::ErrorKind;
use trunkline_session::tracker::SessionState;
use trunkline_stats::ClientRefusal;
use trunkline_topology::{HostgroupId, ReadWriteSplit, RefusalCause};

use crate::{
    Action, ClientId, Worker,
    clients::client::{Client, Phase},
    clients::session::ClientEntry,
    effects::LOG_LINES_PER_SEC,
    effects::Wake,
    exchange::leaving::DEPOSED,
    rooms::{Core, Exchange, Lender},
    servers::conn::{Conn, ConnPhase, Owner},
};

/// How often the worker looks at deadlines while somebody waits, ms.
const WAITING_TICK_MS: u64 = 10;
/// How often it looks at everything else, ms.
const SWEEP_EVERY_MS: u64 = 1_000;
/// How often it looks at clients that rest, while sessions want to be ended soon, ms.
const REST_SWEEP_EVERY_MS: u64 = 250;
/// What a session calls soon: a `wait_timeout` of up to this, ms.
const SHORT_REST_MS: u64 = 10_000;
/// A statement that runs longer than this does not keep others from running beside it, µs.
const STUCK_AFTER_US: u64 = 10_000;
/// Warnings and found rows hold an idle session on its connection for this long, ms. After that
/// they can still be read as long as nobody else has used the connection.
const BRIEF_PIN_MS: u64 = 1_000;
/// How often it is looked for servers that have gone silent, ms.
const SILENCE_EVERY_MS: u64 = 100;
/// What clients are told whose statement can't be sent elsewhere after all.
const SILENT: &str = "its server answers nothing any more";
/// Cached answers whose time has passed that it lets go of in one look.
const SWEPT_MAX: usize = 4_096;
/// MySQL's words for a session that has rested for too long.
const INACTIVITY: &str = "The client was disconnected by the server because of inactivity. See \
                          wait_timeout and interactive_timeout for configuring this behavior.";
/// A client that does not take its last bytes within this time is closed all the same, ms.
const CLOSING_MS_MAX: u64 = 10_000;

impl Worker {
    /// How long the driver may wait for events before it calls [`tick`](Self::tick), ms.
    pub fn tick_within_ms(&self) -> u64 {
        let is_waited_for = self.commands.exchange.core.servers.pool.has_waiters()
            || self.upkeep.shares.has_wishes
            || self.commands.exchange.core.servers.sharing.causal.has_waiting()
            || !self.commands.exchange.core.clients.logins.logging_in.is_empty()
            || self.commands.exchange.core.servers.pool.slots().any(|(_, slot)| {
                let counts = slot.counts();
                counts.of(ConnState::Connecting) > 0 || counts.of(ConnState::Shared) > 0
            });
        let has_rest = !self.commands.exchange.core.clients.cache_woken.is_empty()
            || self.commands.exchange.has_mirrors_to_pump();
        if !self.commands.exchange.core.fx.unpacking.is_empty() || has_rest {
            return 0;
        }
        let sweep_ms = self.upkeep.sweep_ms + SWEEP_EVERY_MS;
        let sweep_ms = match self.upkeep.has_short_rests {
            true => sweep_ms.min(self.upkeep.rests_checked_ms + REST_SWEEP_EVERY_MS),
            false => sweep_ms,
        };
        let pauses = &self.commands.exchange.core.servers.pauses;
        let sweep_ms = pauses.values().fold(sweep_ms, |next_ms, until_ms| next_ms.min(*until_ms));
        let clients = &self.commands.exchange.core.clients;
        let next_ms = clients.timers.first().map_or(sweep_ms, |(at_ms, _)| sweep_ms.min(*at_ms));
        let next_ms = clients.memory.due_ms().map_or(next_ms, |due_ms| next_ms.min(due_ms));
        let within_ms = next_ms.saturating_sub(self.commands.exchange.core.env.now.ms()).max(1);
        match is_waited_for {
            true => WAITING_TICK_MS.min(within_ms),
            false => within_ms,
        }
    }

    /// See [`Worker::tick`](crate::Worker::tick).
    pub(crate) fn on_tick(&mut self) {
        debug_assert!(
            self.commands.exchange.core.servers.are_listed(),
            "behind an event, every connection is on a list"
        );
        // What waits for a time waits for a millisecond, and batches are more than those.
        let now_ms = self.commands.exchange.core.env.now.ms();
        let is_new_ms = std::mem::replace(&mut self.upkeep.ticked_ms, now_ms) != now_ms;
        self.commands.unpack_waiting();
        if is_new_ms {
            self.commands.exchange.core.weigh_clients();
            self.commands.exchange.expire_logins();
        }
        self.commands.exchange.go_on_causal();
        if is_new_ms {
            self.commands.expire_timers();
        }
        self.commands.exchange.go_on_cached();
        self.commands.exchange.pump_mirrors();
        if is_new_ms {
            self.commands.exchange.expire_pauses();
            self.expire_waiters();
        }
        self.commands.exchange.core.overtake_slow();
        if is_new_ms {
            self.leave_silent_servers();
        }
        self.commands.exchange.share_connections(&mut self.upkeep.shares);
        if is_new_ms {
            self.sweep();
        }
        self.commands.exchange.check_stop();
    }

    /// What is looked at every few milliseconds at most.
    fn sweep(&mut self) {
        if self.commands.exchange.core.env.now.ms() >= self.upkeep.sweep_ms + SWEEP_EVERY_MS {
            self.upkeep.sweep_ms = self.commands.exchange.core.env.now.ms();
            self.commands.exchange.core.fx.log_budget = LOG_LINES_PER_SEC;
            self.commands.exchange.core.tell_memory();
            self.sweep_clients();
            self.commands.exchange.sweep_orphans();
            self.commands.exchange.core.tell_half_open();
            self.commands.exchange.core.balance();
            self.commands.exchange.core.servers.adapt_patience();
            self.commands.exchange.core.judge_servers();
            self.commands.exchange.expire_kills();
            self.commands
                .exchange
                .core
                .env
                .shared
                .cache()
                .sweep(self.commands.exchange.core.env.now.us, SWEPT_MAX);
        } else if self.upkeep.has_short_rests
            && self.commands.exchange.core.env.now.ms()
                >= self.upkeep.rests_checked_ms + REST_SWEEP_EVERY_MS
        {
            self.close_resting();
        }
        self.sweep_conns();
    }

    /// Gives up connections to servers from which another one has taken over, and to those that
    /// have answered nothing for longer than the reads in flight there take otherwise, where others
    /// can answer them.
    fn leave_silent_servers(&mut self) {
        let exchange = &mut self.commands.exchange;
        let now_ms = exchange.core.env.now.ms();
        if now_ms < self.upkeep.silence_checked_ms + SILENCE_EVERY_MS {
            return;
        }
        self.upkeep.silence_checked_ms = now_ms;
        for conn in exchange.core.severed_conns() {
            exchange.with_conn(conn, |exchange, conn| exchange.lose_conn(conn, DEPOSED));
        }
        for conn in exchange.core.silent_conns() {
            exchange.core.fx.stats.counters.silent_connections_left += 1;
            exchange.with_conn(conn, |exchange, conn| exchange.lose_conn(conn, SILENT));
        }
    }

    fn expire_waiters(&mut self) {
        let now_ms = self.commands.exchange.core.env.now.ms();
        if has_plant!(self.commands.exchange.core, QueueTimeoutForgotten) {
            return;
        }
        self.commands.exchange.core.servers.pool.settle_waiters();
        let hostgroups: Vec<_> =
            self.commands.exchange.core.servers.pool.waited_for().map(|(id, _)| id).collect();
        if !hostgroups.is_empty() {
            self.commands.exchange.core.count_stuck();
        }
        for hostgroup in hostgroups {
            let core = &mut self.commands.exchange.core;
            core.leave_readers(hostgroup);
            if !core.servers.pool.waiters(hostgroup).is_empty() {
                core.servers.pool.try_shunned(hostgroup, now_ms);
            }
            core.look_at_hold(hostgroup);
            while let Some(waiter) =
                self.commands.exchange.core.servers.pool.waiters(hostgroup).take_expired(now_ms)
            {
                let cause = self.commands.exchange.core.cause_now(hostgroup);
                let is_late = waiter.begin_by_ms.is_some_and(|by_ms| by_ms <= now_ms);
                if is_late {
                    self.commands.exchange.with_client(waiter.client, |exchange, client| {
                        exchange.refuse_late(client, hostgroup, waiter.tenant, None);
                    });
                    continue;
                }
                let waited_ms =
                    (self.commands.exchange.core.env.now.us.saturating_sub(waiter.since_us))
                        / 1_000;
                self.commands.exchange.core.fx.stats.counters.holds_timed_out +=
                    u64::from(cause == RefusalCause::NoWriter);
                self.commands.exchange.with_client(waiter.client, |exchange, client| match client
                    .phase
                {
                    Phase::AwaitServer(_) => exchange.refuse_forward(client, hostgroup, cause),
                    _ => {
                        exchange.refuse_statement(client, hostgroup, cause, waited_ms.max(1), None);
                    }
                });
            }
            self.commands.exchange.core.fx.wake(Wake::Queue(hostgroup));
        }
    }

    fn sweep_clients(&mut self) {
        let now_ms = self.commands.exchange.core.env.now.ms();
        let is_stuck = |client: &crate::clients::session::ClientEntry| {
            matches!(client.phase, Phase::Closing)
                && now_ms.saturating_sub(client.active_ms) > CLOSING_MS_MAX
        };
        let holds_briefly = |client: &crate::clients::client::Client| {
            matches!(client.phase, Phase::Idle)
                && now_ms.saturating_sub(client.active_ms) > BRIEF_PIN_MS
                && !client.session.leases.is_empty()
        };
        for id in self.commands.exchange.core.clients.ids_where(holds_briefly) {
            self.commands.exchange.core.with_client(id, |core, client| {
                core.end_pins_of_the_last_statement(client);
                core.settle_unknown_names(client);
            });
        }
        for client in self.commands.exchange.core.clients.table.keys_where(is_stuck) {
            self.commands.exchange.core.fx.act(Action::CloseClient { client, now: true });
        }
        self.close_resting();
    }

    /// Ends sessions that have rested for longer than the configuration or they themselves allow.
    fn close_resting(&mut self) {
        let now_ms = self.commands.exchange.core.env.now.ms();
        let wait_timeout = match self.commands.exchange.core.env.snapshot.settings.wait_timeout {
            0 => u64::MAX,
            ms => ms,
        };
        let mut has_short_rests = false;
        let is_over = |client: &crate::clients::client::Client| {
            let own = own_wait_timeout(&client.session.settings.state);
            has_short_rests |= own.is_some_and(|own| own <= SHORT_REST_MS);
            // One that has yet to take its answer does not rest.
            let own = own.filter(|_| client.io.outbox.is_empty()).unwrap_or(u64::MAX);
            matches!(client.phase, Phase::Idle)
                // Its answer is to be written in this batch.
                && !client.io.outbox.is_listed
                && now_ms.saturating_sub(client.active_ms) > own.min(wait_timeout)
        };
        let over: Vec<ClientId> = self.commands.exchange.core.clients.ids_where(is_over);
        self.upkeep.has_short_rests = has_short_rests;
        self.upkeep.rests_checked_ms = now_ms;
        for id in over {
            self.commands.exchange.core.fx.stats.counters.clients_idle_timeout += 1;
            self.commands.exchange.with_client(id, Exchange::close_inactive);
        }
    }

    fn sweep_conns(&mut self) {
        let now_ms = self.commands.exchange.core.env.now.ms();
        if self.upkeep.conns_swept_ms == now_ms / 100 {
            return;
        }
        self.upkeep.conns_swept_ms = now_ms / 100;
        let settings = &self.commands.exchange.core.env.snapshot.settings;
        let connect_ms = settings.connect_timeout_server;
        let idle_ms = settings.idle_connection_timeout;
        let ping_ms = settings.ping_interval_server_msec;
        let abandoned_ms = settings.connect_timeout_server_max;
        let mut late = Vec::new();
        let mut abandoned = Vec::new();
        let mut old = Vec::new();
        let mut quiet = Vec::new();
        self.commands.exchange.core.servers.conns.for_each(|id, conn| {
            let rested_ms = now_ms.saturating_sub(conn.holder.since_ms);
            match conn.list {
                ConnState::Connecting if rested_ms > connect_ms => late.push(id),
                state if state.is_resetting() && rested_ms > abandoned_ms && is_abandoned(conn) => {
                    abandoned.push(id);
                }
                ConnState::Idle if idle_ms != 0 && rested_ms > idle_ms => old.push(id),
                ConnState::Idle if ping_ms != 0 && rested_ms > ping_ms => quiet.push(id),
                _ => {}
            }
        });
        for id in late {
            self.commands.exchange.with_conn(id, |exchange, conn| {
                let awaits_tls = matches!(&conn.phase,
                    ConnPhase::Login(handshake) if handshake.awaits_tls());
                let what = if awaits_tls { "no TLS" } else { "no connection" };
                exchange.connect_failed(conn, &format!("{what} within {connect_ms} ms"));
            });
        }
        for id in abandoned {
            let core = &mut self.commands.exchange.core;
            core.with_conn(id, |core, conn| core.drop_abandoned(conn, abandoned_ms));
        }
        for id in old {
            self.commands.exchange.core.retire_idle(id, None);
        }
        for id in quiet {
            self.commands.exchange.core.with_conn(id, Core::ping_idle);
        }
        self.commands.exchange.core.drop_outdated(None);
    }
}

impl Core {
    /// See [`Worker::pause_us`](crate::Worker::pause_us).
    pub(crate) fn pause_us(&mut self) -> u64 {
        let max_us = self.env.snapshot.settings.coalesce_max_us;
        let pause_us = self.servers.sharing.coalescing.pause_us(self.env.now.us, max_us);
        self.fx.stats.counters.pauses += u64::from(pause_us > 0);
        self.fx.stats.counters.paused_us += pause_us;
        pause_us
    }

    /// The last reader went offline after reads were sent its way: the writer serves them.
    fn leave_readers(&mut self, hostgroup: HostgroupId) {
        let groups = &self.env.snapshot.replication;
        let group = groups.iter().find(|group| {
            group.reader_hostgroup == hostgroup && group.read_write_split == ReadWriteSplit::Auto
        });
        let Some(writer) = group.map(|group| group.writer_hostgroup) else {
            return;
        };
        if self.servers.pool.has_online(hostgroup, self.env.now.ms()) {
            return;
        }
        // Those whom a rule sent here, or who begin a transaction on a reader, wait on.
        let mut left = self.servers.pool.waiters(hostgroup).len();
        while let Some(waiter) = self.servers.pool.waiters(hostgroup).take(|_| left > 0) {
            left -= 1;
            match self.clients.get_mut(waiter.client).map(|client| &mut client.phase) {
                Some(Phase::Running(statement)) if statement.target.reads.may_leave_reader() => {
                    statement.target.hostgroup = writer;
                    statement.target.reads.set_causal(false);
                    statement.meaning.proof = statement.meaning.proof.on_writer();
                    statement.meaning.is_read &= statement.meaning.proof.reads;
                    self.with_client(waiter.client, Self::requeue);
                }
                Some(_) => drop(self.servers.pool.waiters(hostgroup).push(waiter, usize::MAX)),
                None => {}
            }
        }
    }

    /// Connections whose statement runs for long make room for others beside them.
    fn count_stuck(&mut self) {
        let since_us = self.env.now.us.saturating_sub(STUCK_AFTER_US);
        let mut stuck: HashMap<SlotId, u32> = HashMap::new();
        self.servers.conns.for_each(|_, conn| {
            let is_stuck = conn.list == ConnState::Leased
                && (1..since_us).contains(&conn.holder.busy_since_us);
            *stuck.entry(conn.slot).or_default() += u32::from(is_stuck);
        });
        for (slot, stuck) in stuck {
            if let Some(slot) = self.servers.pool.slot_mut(slot) {
                slot.set_stuck(stuck);
            }
        }
    }

    /// Closes a connection whose server does not end the answer to somebody who has gone: its
    /// place is somebody else's, and the statement ends as it would with its client's connection.
    fn drop_abandoned(&mut self, conn: &mut Conn, waited_ms: u64) {
        let slot = self.servers.pool.slot(conn.slot);
        let address = slot.map(|slot| slot.server.key.address.to_string());
        self.fx.log(false, || {
            let address = address.unwrap_or_default();
            format!(
                "server {address} has not ended the answer to a client that is gone within \
                 {waited_ms} ms; connection closed"
            )
        });
        self.fx.stats.counters.server_connections_abandoned += 1;
        self.drop_conn(conn);
        self.fx.wake(Wake::Queue(conn.server.hostgroup));
    }

    /// Keeps an idle connection alive, and notices when it is not.
    fn ping_idle(&mut self, conn: &mut Conn) {
        if self.servers.take_free(conn) {
            self.close_surplus(conn);
            // Nobody can ask for what a session left there while the ping is under way.
            if !self.fetch_before_parting(conn, None) {
                self.ping(conn);
            }
        }
    }
}

impl Exchange {
    #[inline]
    fn expire_logins(&mut self) {
        let now_ms = self.core.env.now.ms();
        while let Some((deadline, id)) = self.core.clients.logins.logging_in.front().copied() {
            let client = self.core.clients.table.get(id);
            let logs_in = client.is_some_and(|client| matches!(client.phase, Phase::Login(_)));
            if logs_in && deadline > now_ms {
                break;
            }
            self.core.clients.logins.logging_in.pop_front();
            if logs_in {
                self.with_entry(id, Self::end_late_login);
            }
        }
    }

    /// Ends a client whose time to log in is over.
    fn end_late_login(&mut self, client: &mut ClientEntry) {
        if !self.refuse_late_header(client) {
            self.core.fx.stats.counters.client_refused(ClientRefusal::HandshakeTimeout);
            self.core.tell_of_late_tls(client);
            self.close_now(client);
        }
    }

    /// Ends a session that has rested for too long, with an error where its servers tell one.
    fn close_inactive(&mut self, client: &mut Client) {
        if self.core.env.greeting.tells_of_inactivity() {
            self.core.write_error(client, 0, &ErrorKind::Inactivity.says(INACTIVITY));
        }
        self.close_client(client);
    }
}

/// Whether nobody waits for what the server answers here, to a client's command or to what the
/// proxy sent in front of one.
fn is_abandoned(conn: &Conn) -> bool {
    conn.in_flight.iter().any(|entry| entry.owner == Owner::Nobody)
}

/// The `wait_timeout` that a session has set for itself, ms.
fn own_wait_timeout(state: &SessionState) -> Option<u64> {
    let text = std::str::from_utf8(state.variable("wait_timeout")?).ok()?;
    let seconds: u64 = text.trim().parse().ok()?;
    Some(seconds.max(1).saturating_mul(1_000))
}

#[cfg(test)]
mod tests;
