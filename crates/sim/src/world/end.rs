//! The end of a run: clients go, everything comes to rest, the proxy stops, nothing is left.

use super::*;

/// Until whoever waits for something has it or was refused, µs.
const PATIENCE_US: Micros = 30_000_000;
/// Until resets, pings and the like are over, and connections are closed whose servers never end an
/// answer to somebody who has gone (`connect_timeout_server_max`, at a tick behind it), µs.
const SETTLE_US: Micros = 8_000_000;
/// Until copies that wait for their servers have run or are given up, µs; and how often they are
/// looked at.
const COPIES_US: Micros = 1_000_000_000;
const COPIES_EVERY_US: Micros = 500_000;
/// How long the last stop may take, ms.
const STOP_MS: u64 = 2_000;

impl World<'_> {
    pub(super) fn finish(&mut self) {
        self.tell_clients(ModelClient::tell_to_go);
        self.play_until(self.now() + PATIENCE_US, true);
        self.facts.ended_us = self.now();
        // Whoever waits in vain is the oracle's affair; nothing may be left of it all the same.
        self.tell_clients(ModelClient::vanish);
        self.play_until(self.now() + SETTLE_US, false);
        if self.told_to_stop.is_none() {
            self.await_copies();
            self.look_at_rest();
            self.stop_all(STOP_MS);
        }
        let deadline = self.told_to_stop.unwrap_or(self.now()).max(self.now());
        self.play_until(deadline + SETTLE_US, false);
        self.look_at_what_is_left();
        self.rest.nonsense = self.cluster.unknown_texts().to_vec();
        self.facts.executions = self.cluster.history().to_vec();
        self.facts.prepares = self.cluster.prepares().to_vec();
        let store = self.cluster.store().into_iter();
        self.facts.log = store.flat_map(|store| store.log()).map(|(_, tag)| tag).collect();
        self.facts.links = std::mem::take(&mut self.links).into_values().collect();
    }

    fn tell_clients(&mut self, what: fn(&mut ModelClient, Micros)) {
        let now = self.now();
        for client in (0..self.clients.len()).filter(|it| !self.plan.absent.contains(it)) {
            if let Some(model) = self.clients.get_mut(client) {
                what(model, now);
            }
            self.after_client(client);
        }
        self.follow_wire();
    }

    /// Copies are nobody's: they end when they have run, or have waited for as long as they may.
    fn await_copies(&mut self) {
        let first = self.now();
        let mut until = first;
        while self.has_copies() && until < first + COPIES_US {
            until += COPIES_EVERY_US;
            self.play_until(until, false);
        }
        if until > first {
            self.play_until(until + SETTLE_US, false);
        }
    }

    fn has_copies(&mut self) -> bool {
        self.drivers.iter_mut().any(|driver| {
            let report = driver.report();
            report.mirrors_running + report.mirrors_waiting > 0
        })
    }

    fn left(&mut self, what: String) {
        self.rest.left.push(what);
    }

    /// Nobody is connected: no session, statement or place may be taken any more.
    fn look_at_rest(&mut self) {
        self.rest.at_us = self.now();
        let clients = self.shared.clients();
        if clients != 0 {
            self.left(format!("{clients} clients are counted, and none is there"));
        }
        for name in self.user_names.clone() {
            let sessions = self.shared.user_connections(&name);
            if sessions != 0 {
                self.left(format!("{sessions} sessions of {name} are counted, and none is there"));
            }
        }
        for (key, health) in self.healths.clone() {
            let running = health.in_flight();
            if running != 0 {
                self.left(format!("{running} statements are counted on {key:?}"));
            }
        }
        for worker in 0..self.drivers.len() {
            let Some(driver) = self.drivers.get_mut(worker) else { return };
            let report = driver.report();
            let clients = driver.worker().clients();
            let copies = report.mirrors_running + report.mirrors_waiting;
            let servers = report.servers.iter();
            let busy: u64 = servers
                .map(|server| server.connections.leased + server.connections.connecting)
                .sum();
            let found = [
                (clients != 0, format!("worker {worker} has {clients} clients")),
                (!report.pins.is_empty(), format!("worker {worker} has pins: {:?}", report.pins)),
                (
                    report.waiting.iter().any(|(_, waiting)| *waiting > 0),
                    format!("statements wait at worker {worker}: {:?}", report.waiting),
                ),
                (copies != 0, format!("worker {worker} has {copies} copies that do not end")),
                (busy != 0, format!("worker {worker} holds {busy} connections for nobody")),
            ];
            self.rest.left.extend(found.into_iter().filter(|(is, _)| *is).map(|(_, what)| what));
        }
    }

    /// All workers have stopped: nothing may be open or counted.
    fn look_at_what_is_left(&mut self) {
        self.rest.at_us = self.now();
        let unstopped = (0..self.drivers.len())
            .filter(|worker| self.drivers.get(*worker).is_some_and(|it| !it.is_stopped()));
        self.rest.unstopped = unstopped.collect();
        if !self.rest.unstopped.is_empty() {
            return;
        }
        for (key, health) in self.healths.clone() {
            let (open, running) = (health.connections(), health.in_flight());
            if (open, running) != (0, 0) {
                self.left(format!(
                    "after the stop {open} connections and {running} statements are counted on \
                     {key:?}"
                ));
            }
        }
        let open = self.conns.len();
        if open != 0 {
            self.left(format!("{open} connections to servers were not closed"));
        }
    }
}
