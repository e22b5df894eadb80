//! What must hold after each event, and what must be left at the end: nothing.

use super::*;

impl World {
    /// Counts agree with what is open, and nothing piles up.
    pub(in crate::worker) fn check(&mut self) {
        let places = self.clients.iter().filter(|client| client.has_place).count();
        assert_eq!(self.shared.clients() as usize, places, "clients counted and clients there");
        for index in 0..WORKERS {
            let there = self.clients.iter().filter(|client| client.worker == index).count();
            assert_eq!(self.worker(index).clients(), there, "clients of worker {index}");
        }
        for (key, health) in &self.healths {
            let open = self.servers.iter().filter(|it| Arc::ptr_eq(&it.health, health)).count();
            let counted = health.connections() as usize;
            assert_eq!(counted, open, "connections to {key:?} counted, and open");
            let in_flight = health.in_flight() as usize;
            let depth_max = self.snapshot.settings.pipeline_depth_max;
            assert!(
                in_flight <= open * depth_max,
                "{in_flight} statements on {open} connections to {key:?}"
            );
        }
        let waiting: Vec<_> =
            self.clients.iter().map(|client| (client.worker, Side::Client(client.id))).collect();
        for (worker, side) in waiting {
            let len = self.worker(worker).pending(side).len();
            assert!(len <= OUTBOX_LEN_MAX, "{len} bytes wait for one client");
        }
    }

    /// Everything ends: servers first or clients first, with a graceful stop or without.
    pub(in crate::worker) fn end(&mut self, servers_first: bool, with_stop: bool) {
        for client in &mut self.clients {
            client.is_slow = false;
        }
        for server in &mut self.servers {
            server.is_slow = false;
        }
        self.take_all();
        if with_stop {
            (0..2).for_each(|index| self.stop(index, 50));
            self.drive();
        }
        match servers_first {
            true => {
                self.close_servers();
                self.nobody_hangs();
                self.close_clients();
            }
            false => self.close_clients(),
        }
        self.settle();
        self.check();
        self.close_servers();
        self.copies_end();
        self.nothing_is_left();
    }

    /// Copies of statements have no clients that could leave: those that wait for a connection do
    /// so for a while.
    fn copies_end(&mut self) {
        for _ in 0..6 {
            self.pass(2_000_000);
            self.drive();
            self.settle();
            self.close_servers();
        }
    }

    /// Everybody takes what waits for it.
    fn take_all(&mut self) {
        let clients = self.clients.iter().map(|it| (it.worker, Side::Client(it.id)));
        let servers = self.servers.iter().filter(|it| it.stage != Stage::Connecting);
        let servers = servers.map(|it| (it.worker, Side::Server(it.id)));
        let sides: Vec<_> = clients.chain(servers).collect();
        for (worker, side) in sides {
            self.write(worker, side, usize::MAX);
        }
        self.drive();
    }

    fn close_clients(&mut self) {
        while !self.clients.is_empty() {
            self.close_client(0);
            self.drive();
        }
    }

    /// Every server connection ends, and so does each one that is opened instead.
    fn close_servers(&mut self) {
        while !self.servers.is_empty() {
            self.close_server(0);
            self.drive();
        }
    }

    /// On new connections, to servers that answer as they should, every statement gets its
    /// answer; so no client may be held back any more: it would wait for ever.
    fn nobody_hangs(&mut self) {
        for _ in 0..10 {
            self.healths.iter().for_each(|(_, health)| health.set_state(ServerState::Online));
            self.pass(2_000_000);
            self.drive();
            self.settle();
        }
        self.check();
        assert!(!self.clients.iter().any(|client| client.is_paused), "a client waits for ever");
    }

    fn nothing_is_left(&mut self) {
        self.check();
        assert!(self.clients.is_empty() && self.servers.is_empty());
        for (key, health) in &self.healths {
            let left = [health.connections(), health.in_flight(), health.stmts()];
            assert_eq!(left, [0; 3], "connections and statements left at {key:?}");
        }
        for name in ["app", "other", "sha", "direct"] {
            assert_eq!(self.shared.user_connections(name), 0, "sessions left of {name}");
        }
        for index in 0..WORKERS {
            let report = self.worker(index).report(DigestQuery::NONE);
            assert!(report.pins.is_empty(), "sessions left: {:?}", report.pins);
            assert!(report.waiting.is_empty(), "statements left: {:?}", report.waiting);
        }
        self.pass(1_000_000);
        self.drive();
        assert_eq!(self.is_stopped, self.is_stopping, "a worker stops when it is told to");
    }
}
