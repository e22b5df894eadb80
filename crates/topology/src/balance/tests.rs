use super::*;

/// Servers by weight, statements in flight and latency.
struct Fixed(Vec<(u64, u64, u64, Address)>);

fn servers(of: &[(u64, u64, u64)]) -> Fixed {
    let address = |at| format!("10.0.0.{at}:3306").parse().expect("address");
    let with = of.iter().enumerate().map(|(at, it)| (it.0, it.1, it.2, address(at)));
    Fixed(with.collect())
}

impl Servers for Fixed {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn weight(&self, at: usize) -> u64 {
        self.0[at].0
    }

    fn in_flight(&self, at: usize) -> u64 {
        self.0[at].1
    }

    fn latency(&self, at: usize) -> u64 {
        self.0[at].2
    }

    fn address(&self, at: usize) -> Option<&Address> {
        self.0.get(at).map(|it| &it.3)
    }
}

const TIMES: u32 = 16_000;

/// How often each is chosen, of a thousand times.
fn shares(balance: Balance, of: &[(u64, u64, u64)]) -> Vec<u32> {
    let (servers, mut draws) = (servers(of), Draws::new(7));
    let mut counts = vec![0_u32; of.len()];
    for _ in 0..TIMES {
        counts[balance.choose(&servers, &mut draws, None).expect("one")] += 1;
    }
    counts.iter().map(|count| count * 1_000 / TIMES).collect()
}

#[track_caller]
fn check(balance: Balance, of: &[(u64, u64, u64)], expected: &[u32]) {
    let found = shares(balance, of);
    let is_near = found.iter().zip(expected).all(|(found, wanted)| found.abs_diff(*wanted) <= 15);
    assert!(is_near, "{balance} on {of:?}: {found:?}, expected about {expected:?}");
}

#[test]
fn every_kind_is_read_as_it_is_written_and_another_is_refused() {
    for (word, kind) in Balance::WORDS {
        assert_eq!((word.parse(), kind.to_string().as_str()), (Ok(kind), word));
    }
    let error = "roundrobin".parse::<Balance>().expect_err("none of them");
    assert_eq!(error, "must be one of p2c, random, leastconn, source, not `roundrobin`");
}

#[test]
fn none_is_chosen_where_none_takes_statements() {
    for (_, balance) in Balance::WORDS {
        let mut draws = Draws::new(1);
        assert_eq!(balance.choose(&servers(&[]), &mut draws, None), None);
        assert_eq!(balance.choose(&servers(&[(0, 0, 0), (0, 0, 9)]), &mut draws, None), None);
        assert_eq!(balance.choose(&servers(&[(0, 0, 0), (9, 99, 9)]), &mut draws, None), Some(1));
    }
}

#[test]
fn equal_servers_have_shares_as_their_weights_are() {
    for balance in [Balance::P2c, Balance::Random] {
        check(balance, &[(1, 0, 0), (1, 0, 0)], &[500, 500]);
        check(balance, &[(1, 3, 80), (3, 3, 80)], &[250, 750]);
        check(balance, &[(1, 0, 0), (0, 0, 0), (2, 0, 0), (5, 0, 0)], &[125, 0, 250, 625]);
    }
    check(Balance::LeastConn, &[(1, 0, 0), (3, 0, 0)], &[250, 750]);
}

#[test]
fn the_better_of_two_is_taken_and_a_server_that_does_badly_is_avoided() {
    // Slow, or with much in flight: nothing is left for it among equals.
    check(Balance::P2c, &[(1, 0, 50), (1, 0, 1), (1, 0, 1)], &[0, 500, 500]);
    check(Balance::P2c, &[(1, 50, 1), (1, 0, 1)], &[0, 1_000]);
    check(Balance::P2c, &[(1, 9, 1), (1, 0, 10)], &[500, 500]);
    // What is not known of one counts for neither.
    check(Balance::P2c, &[(1, 0, 0), (1, 0, 900)], &[500, 500]);
    check(Balance::P2c, &[(1, 5, 0), (1, 0, 900)], &[0, 1_000]);
    check(Balance::Random, &[(1, 0, 50), (1, 99, 1)], &[500, 500]);
    check(Balance::LeastConn, &[(1, 5, 1), (1, 4, 99)], &[0, 1_000]);
    check(Balance::LeastConn, &[(10, 9, 1), (1, 1, 1)], &[1_000, 0]);
}

#[test]
fn a_server_of_little_weight_stays_one_however_idle_it_is() {
    let found = shares(Balance::P2c, &[(1, 0, 1), (99, 9, 4)]);
    assert!((10..=25).contains(&found[0]), "{found:?}");
}

#[test]
fn clients_keep_their_server_and_only_those_of_a_lost_one_move() {
    let mut of = vec![(1, 0, 0), (1, 0, 0), (1, 0, 0), (2, 0, 0)];
    let chosen = |of: &[(u64, u64, u64)], client: u32| {
        let source = Some(IpAddr::from(client.to_be_bytes()));
        Balance::Source.choose(&servers(of), &mut Draws::new(1), source).expect("one")
    };
    let before: Vec<usize> = (0..4_000).map(|client| chosen(&of, client)).collect();
    let count = |server| before.iter().filter(|at| **at == server).count();
    for (server, expected) in [(0, 800_usize), (1, 800), (2, 800), (3, 1_600)] {
        assert!(count(server).abs_diff(expected) < 120, "{server}: {}", count(server));
    }
    of[3].0 = 0;
    for (client, server) in (0..).zip(&before) {
        let now = chosen(&of, client);
        assert!(*server == 3 || now == *server, "client {client}: {server} -> {now}");
        assert!(now != 3);
    }
}

#[test]
fn latency_rises_at_once_and_falls_with_time() {
    let mut latency = Latency::default();
    assert_eq!(latency.us(), 0);
    latency.observe(1_000, 5_000);
    latency.observe(3_000, 5_010);
    assert_eq!(latency.us(), 3_000);
    // A moment later little is forgotten, after a second nearly all.
    latency.observe(1_000, 6_010);
    assert!((2_990..3_000).contains(&latency.us()), "{}", latency.us());
    latency.observe(1_000, 2_000_000);
    assert_eq!(latency.us(), 1_000);
}

#[test]
fn one_report_makes_no_slow_server_and_what_is_not_used_is_tried_again() {
    let mut latency = Latency::default();
    latency.observe(1_000, 1);
    latency.observe(60_000_000, 2);
    assert_eq!(latency.us(), 4_000);
    (3..12).for_each(|at| latency.observe(60_000_000, at));
    assert_eq!(latency.us(), 60_000_000);
    (1..=40).for_each(|sec| latency.second_over(12 + sec * 1_100_000));
    assert!((1..1_000).contains(&latency.us()), "{}", latency.us());
}
