use super::*;

/// A server that answers statements of `service_us` on so many cores, over a network that takes
/// `network_us` for the way there and back; the proxy manages 50,000 statements a second.
struct Server {
    cores: u64,
    service_us: u64,
    network_us: u64,
}

impl Server {
    /// Statements per second with `width` connections always busy.
    fn rate(&self, width: u64) -> u64 {
        let by_connections = width * 1_000_000 / (self.service_us + self.network_us);
        let by_cores = self.cores * 1_000_000 / self.service_us;
        by_connections.min(by_cores).min(50_000)
    }

    /// The widths that it goes through in `ms`, when more statements wait than can be served.
    fn widths(&self, ms: u64) -> Vec<u32> {
        self.noisy_widths(ms, |_| 0)
    }

    fn noisy_widths(&self, ms: u64, mut noise_percent: impl FnMut(u64) -> u64) -> Vec<u32> {
        let mut width = Width::default();
        let mut now_us = 1_000_000;
        let mut seen = Vec::new();
        let mut count = 0;
        while now_us < 1_000_000 + ms * 1_000 {
            width.note_full();
            count += 1;
            let rate = self.rate(u64::from(width.max()));
            now_us += 1_000_000 * (100 + noise_percent(count / 500)) / 100 / rate.max(1);
            width.answered(now_us, 0);
            seen.push(width.max());
        }
        seen
    }
}

fn average(widths: &[u32]) -> f64 {
    widths.iter().map(|width| f64::from(*width)).sum::<f64>() / widths.len() as f64
}

#[test]
fn few_connections_are_enough_for_a_server_that_answers_at_once() {
    let local = Server { cores: 2, service_us: 50, network_us: 10 };
    let widths = local.widths(20_000);
    assert!(average(&widths[widths.len() / 2..]) < 5.0);
}

#[test]
fn many_cores_and_long_ways_get_as_many_as_they_need() {
    for (server, least) in [
        (Server { cores: 64, service_us: 1_000, network_us: 100 }, 40.0),
        (Server { cores: 16, service_us: 1_000, network_us: 100 }, 14.0),
        (Server { cores: 32, service_us: 100, network_us: 900 }, 40.0),
    ] {
        let widths = server.widths(20_000);
        let late = &widths[widths.len() / 2..];
        assert!(average(late) > least, "{}", average(late));
        let best = server.rate(64);
        let reached = late.iter().map(|width| server.rate(u64::from(*width))).sum::<u64>();
        let reached = reached / late.len() as u64;
        assert!(reached * 100 > best * 90, "{reached} of {best} statements a second");
    }
}

#[test]
fn noise_does_not_lead_it_astray() {
    let mut random: u64 = 7;
    let mut noise = move |_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % 30
    };
    let local = Server { cores: 2, service_us: 50, network_us: 10 };
    let widths = local.noisy_widths(30_000, &mut noise);
    assert!(average(&widths[widths.len() / 2..]) < 9.0);
    let far = Server { cores: 32, service_us: 100, network_us: 900 };
    let widths = far.noisy_widths(30_000, &mut noise);
    assert!(average(&widths[widths.len() / 2..]) > 30.0);
}

#[test]
fn nothing_is_tried_while_nobody_waits() {
    let mut width = Width::default();
    for ms in 0..10_000 {
        width.answered(ms * 1_000, 0);
        assert_eq!(width.max(), STEPS[FIRST]);
    }
}

#[test]
fn a_trial_ends_when_the_traffic_does() {
    let mut width = Width::default();
    let mut now_us = 0;
    while width.max() == STEPS[FIRST] {
        now_us += 100;
        width.note_full();
        width.answered(now_us, 0);
    }
    width.answered(now_us + 60_000_000, 0);
    assert_eq!(width.max(), STEPS[FIRST]);
}
