use super::*;

/// A server that thrashes: what runs beyond its cores takes from the rest.
#[derive(Debug, Clone, Copy)]
struct Server {
    cores: u64,
    service_us: u64,
    /// What is lost when twice as many run as there are cores, per cent.
    thrash_percent: u64,
}

impl Server {
    /// Statements per second, in thousandths, while so many run.
    fn rate(self, running: u64) -> u64 {
        let beyond = running.saturating_sub(self.cores);
        let full = running.min(self.cores) * 1_000_000_000 / self.service_us;
        full * 100 * self.cores / (100 * self.cores + self.thrash_percent * beyond)
    }

    fn best(self) -> u64 {
        (1..=4 * self.cores).map(|running| self.rate(running)).max().expect("some")
    }

    /// What is answered in thousandths per second of the best, while so many clients always want
    /// something: once the limit has been looked for, for 20 s.
    fn goodput(self, clients: u64, limit: &mut Limit) -> u64 {
        let (mut now_ns, mut answered) = (1_000_000_000_u64, 0_u64);
        let (from_ns, until_ns) = (20_000_000_000, 40_000_000_000);
        while now_ns < until_ns {
            let running = limit.max().map_or(clients, |max| u64::from(max).min(clients));
            if running < clients {
                limit.note_full();
            }
            limit.note_running(u32::try_from(running).expect("few"));
            now_ns += 1_000_000_000_000 / self.rate(running);
            let took_us = running * 1_000_000_000 / self.rate(running);
            limit.answered(now_ns / 1_000, took_us);
            answered += u64::from(now_ns > from_ns);
        }
        answered * 1_000 * 1_000 / (self.best() * (until_ns - from_ns) / 1_000_000_000)
    }
}

/// 4 × the load that saturates the server, on 2 to 64 cores.
#[test]
fn an_overloaded_server_answers_nine_tenths_of_what_it_can() {
    println!("cores, µs: best/s, without a limit, with \"auto\" (limit found)");
    for cores in [2, 4, 8, 16, 32, 64] {
        for service_us in [500, 5_000, 50_000] {
            let server = Server { cores, service_us, thrash_percent: 25 };
            let clients = 4 * cores;
            let without = server.goodput(clients, &mut Limit::Off);
            let mut limit = Limit::default();
            limit.set(Concurrency::Auto);
            let with = server.goodput(clients, &mut limit);
            println!(
                "{cores}, {service_us}: {}, {} %, {} % ({:?})",
                server.best() / 1_000,
                without / 10,
                with / 10,
                limit.max()
            );
            assert!(without < 650, "{server:?} would not thrash: {without}");
            assert!(with >= 900, "{server:?}: {with}, {:?}", limit.max());
        }
    }
}

#[test]
fn what_was_found_stays_when_it_is_said_again() {
    let mut limit = Limit::default();
    limit.set(Concurrency::Auto);
    let server = Server { cores: 2, service_us: 500, thrash_percent: 25 };
    server.goodput(64, &mut limit);
    let found = limit.max();
    assert_ne!(found, Some(Width::wide().max()));
    limit.set(Concurrency::Auto);
    assert_eq!(limit.max(), found);
    limit.set(Concurrency::Fixed(0));
    assert_eq!(limit.max(), Some(1), "none at all would be for good");
    limit.set(Concurrency::Off);
    assert_eq!(limit.max(), None);
}
