//! Connections that have not logged in make room for one another.

use std::net::IpAddr;

use trunkline_protocol::error::ErrorKind;
use trunkline_stats::ClientRefusal;
use trunkline_topology::machine;

use crate::{
    clients::client::Frontend,
    clients::session::ClientEntry,
    clients::{
        client::Phase,
        half_open::{Closed, Limits},
    },
    effects::Wake,
    rooms::{Core, Exchange, Lender},
};

impl Core {
    /// A client has connected and is greeted; `addr` is where it comes from, as far as it is known.
    pub(crate) fn enter_half_open(&mut self, client: &mut Frontend, addr: Option<IpAddr>) {
        debug_assert!(client.origin.half_open.is_none());
        let counts = self.env.shared.half_open();
        let number = self.clients.logins.half_open.enter(client.id, counts);
        client.origin.half_open = Some(number);
        self.count_half_open(client, addr);
    }

    /// It is known where a client comes from that has not logged in: it counts there.
    pub(super) fn count_half_open(&mut self, client: &Frontend, addr: Option<IpAddr>) {
        if let (Some(number), Some(addr)) = (client.origin.half_open, addr) {
            self.clients.logins.half_open.is_at(number, machine(addr));
        }
        if self.half_open_surplus(addr).is_some() {
            self.fx.wake(Wake::HalfOpen(addr));
        }
    }

    fn half_open_surplus(&self, addr: Option<IpAddr>) -> Option<u64> {
        let settings = &self.env.snapshot.settings;
        let limits = Limits {
            all: settings.half_open_max,
            per_address: settings.half_open_per_address_max,
            workers: u32::try_from(self.env.options.workers).unwrap_or(u32::MAX),
        };
        let counts = self.env.shared.half_open();
        self.clients.logins.half_open.surplus(counts, addr.map(machine), limits)
    }

    /// Once a second: says what had to be closed.
    pub(crate) fn tell_half_open(&mut self) {
        let Closed { count, addr } = std::mem::take(&mut self.clients.logins.half_open.closed);
        if count == 0 {
            return;
        }
        let all = self.env.shared.half_open().all();
        self.fx.log(true, || {
            let from = addr.map_or("a Unix socket".to_owned(), |addr| addr.to_string());
            format!(
                "{count} connections that had not logged in were closed for newer ones in the \
                 last second, the last from {from}; there are {all} (half_open_max, \
                 half_open_per_address_max)"
            )
        });
    }
}

impl Exchange {
    /// Closes the oldest connections that have not logged in, as long as there are too many: of
    /// those from there, or of all.
    pub(crate) fn close_half_open(&mut self, addr: Option<IpAddr>) {
        while let Some(number) = self.core.half_open_surplus(addr) {
            let Some(id) = self.core.clients.logins.half_open.leave(number) else { return };
            self.with_entry(id, Self::end_half_open);
        }
    }

    fn end_half_open(&mut self, client: &mut ClientEntry) {
        client.origin.half_open = None;
        let closed = &mut self.core.clients.logins.half_open.closed;
        closed.count = closed.count.saturating_add(1);
        closed.addr = client.origin.peer.client_addr;
        self.core.fx.stats.counters.client_refused(ClientRefusal::HalfOpen);
        let seq = match &client.phase {
            Phase::Login(handshake) => handshake.error_seq(),
            _ => None,
        };
        match seq {
            Some(seq) => {
                let text = "Too many connections that have not logged in, and this was the oldest";
                self.refuse_login(client, seq, ErrorKind::TooManyConnections.says(text));
            }
            // Whoever begins TLS can't be told.
            None => self.close_now(client),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{
        accept::tests::at,
        tests::{Login, Setup, TWO_SERVERS, TestWorker, local_peer},
    };

    #[test]
    fn silent_connections_keep_nobody_out() {
        let settings = "max_connections = 2\nhalf_open_max = 3\nhalf_open_per_address_max = 0\n";
        let mut world = TestWorker::with(&format!("{settings}{TWO_SERVERS}"));
        let silent: Vec<_> =
            (0..5).map(|last| world.connect_from(at(&format!("192.0.2.{last}")))).collect();
        let gone: Vec<_> = silent.iter().map(|it| world.is_closed(it.expect("greeted"))).collect();
        assert_eq!(gone, [true, true, false, false, false]);
        let first = silent[0].expect("it was greeted");
        let said = world.answers(first);
        assert!(said[1].starts_with("error 1040: Too many connections that have not"), "{said:?}");
        // Whoever logs in takes a place under max_connections then, and no sooner.
        assert_eq!(world.core().env.shared.clients(), 0);
        world.log_in();
        world.log_in();
        assert_eq!(world.core().env.shared.clients(), 2);
        assert_eq!(world.core().clients.logins.half_open.len(), 2);
        let third = world.connect_from(local_peer()).expect("it is told");
        assert!(world.answer(third).starts_with("error 1040: Too many connections"));
        assert_eq!(world.core().fx.stats.counters.clients_refused_half_open, 3);
    }

    #[test]
    fn what_was_closed_is_said_once_a_second() {
        let mut world = TestWorker::with(&format!("half_open_max = 1\n{TWO_SERVERS}"));
        for _ in 0..4 {
            world.connect_from(at("192.0.2.9"));
        }
        world.logged();
        world.pass_ms(1_000);
        let lines = world.logged();
        let lines: Vec<_> = lines.iter().filter(|line| line.contains("half_open_max")).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("3 connections that had not logged in"), "{lines:?}");
        assert!(lines[0].contains("the last from 192.0.2.9; there are 1 "), "{lines:?}");
    }

    #[test]
    fn a_balancers_connection_counts_where_its_header_says() {
        let settings = "proxy_protocol_networks = [\"192.0.2.9\"]\nhalf_open_per_address_max = 1\n";
        let mut world = TestWorker::with(&format!("{settings}{TWO_SERVERS}"));
        let header = |from: &str| format!("PROXY TCP4 {from} 192.0.2.1 40000 6033\r\n");
        let clients: Vec<_> =
            (0..3).map(|_| world.connect_from(at("192.0.2.9")).expect("it is greeted")).collect();
        for (client, from) in clients.iter().zip(["198.51.100.7", "198.51.100.8", "198.51.100.7"]) {
            world.happens(|worker| worker.client_read(*client, header(from).as_bytes()));
        }
        let gone: Vec<_> = clients.iter().map(|client| world.is_closed(*client)).collect();
        assert_eq!(gone, [true, false, false]);
    }

    #[test]
    fn a_login_that_is_refused_gives_its_place_back() {
        let mut world = TestWorker::new();
        let client = world.connect();
        let wrong = Login { password: "wrong", ..Login::default() };
        assert!(world.try_to_log_in(client, &wrong).starts_with("error 1045"));
        assert_eq!(world.core().clients.logins.half_open.len(), 0);
        assert_eq!(world.core().env.shared.clients(), 0);
    }

    #[test]
    fn a_place_that_another_worker_took_meanwhile_is_not_taken_twice() {
        let shared = Arc::default();
        let config = &format!("max_connections = 1\n{TWO_SERVERS}");
        let worker = |index| {
            let shared = Arc::clone(&shared);
            TestWorker::of(Setup { config, index, workers: 2, shared, ..Setup::default() })
        };
        let (mut one, mut other) = (worker(0), worker(1));
        let late = other.connect_from(local_peer()).expect("it is greeted");
        one.log_in();
        assert!(other.try_to_log_in(late, &Login::default()).starts_with("error 1040"));
        assert_eq!(shared.clients(), 1);
    }
}
