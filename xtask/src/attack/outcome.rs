//! What an attack has cost, and whether what is promised about it was kept.

use std::collections::BTreeMap;

use crate::watch::Seen;

/// What the neighbour's statements may take beside any attack without being compared, ms: what one
/// batch of a worker may take.
const NOTHING_MS: f64 = 5.0;

/// What a worker's batch may take, ms, where the machine stops nobody for longer.
const BATCH_MS: f64 = 5.0;

/// What must hold during an attack.
pub struct Promise {
    /// By how many MiB the proxy's memory may grow.
    pub grown_mib: u64,
    /// The neighbour's p99 may be so many times what it was before, or what a client without the
    /// proxy sees meanwhile.
    pub slower: f64,
    /// Answers that must have come, as [`Field::answered`](super::field::Field::answered) has them.
    pub answers: &'static [&'static str],
}

/// The first lines of the table.
pub const HEAD: &str = "\
    | attack | it takes | sent MB | conns | its CPU s | memory grew MB | left after 5 s MB \
    | our CPU s | neighbour p50/p99 ms, before → during (direct p99) | p99 × \
    | longest batch (direct) ms | answers |\n\
    |---|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|---|";

/// What was measured.
pub struct Outcome {
    pub name: &'static str,
    pub what: &'static str,
    pub seconds: f64,
    /// Bytes that the attacker sent.
    pub sent: u64,
    pub connections: u64,
    /// Seconds.
    pub attacker_cpu: f64,
    /// Bytes of the proxy's memory, at most and at the end.
    pub grown: u64,
    pub left: u64,
    /// Seconds.
    pub proxy_cpu: f64,
    pub calm: Seen,
    pub during: Seen,
    /// The longest round of a worker's loop, µs.
    pub longest_batch_us: u64,
    /// How often which answer came.
    pub answers: BTreeMap<String, u64>,
    /// Promises that were not kept.
    pub broken: Vec<String>,
}

impl Outcome {
    /// How many times its p99 before, or that of the client without the proxy, the neighbour's is.
    fn slower(&self) -> f64 {
        let before = self.calm.through.share_ms(99).max(self.during.direct.share_ms(99));
        self.during.through.share_ms(99) / before.max(0.01)
    }

    #[expect(clippy::cast_precision_loss, reason = "microseconds of a batch")]
    fn longest_batch_ms(&self) -> f64 {
        self.longest_batch_us as f64 / 1_000.0
    }

    /// Notes the parts of the promise that were not kept.
    pub fn check(&mut self, promise: &Promise) {
        let grown = self.grown >> 20;
        if grown > promise.grown_mib {
            let most = promise.grown_mib;
            self.broken.push(format!("memory grew by {grown} MiB, {most} MiB are promised"));
        }
        let (p99, slower) = (self.during.through.share_ms(99), self.slower());
        if p99 > NOTHING_MS && slower > promise.slower {
            self.broken.push(format!(
                "the neighbour's p99 was {p99:.1} ms, {slower:.1} times as long; {:.1} times is \
                 promised",
                promise.slower
            ));
        }
        let (longest, direct) = (self.longest_batch_ms(), self.during.direct.longest_ms());
        if longest > BATCH_MS.max(direct) {
            self.broken.push(format!(
                "a worker served nobody else for {longest:.1} ms; {BATCH_MS:.1} ms are promised, \
                 and a client without the proxy waited {direct:.1} ms at most"
            ));
        }
        if self.during.through.len() == 0 {
            self.broken.push("the neighbour got no answer".to_owned());
        }
        for answer in promise.answers {
            if !self.answers.contains_key(*answer) {
                self.broken.push(format!("nobody was answered with {answer}"));
            }
        }
    }

    /// What to say when promises were broken.
    pub fn complaint(&self) -> Option<String> {
        let lines = self.broken.iter().map(|broken| format!("{}: {broken}", self.name));
        (!self.broken.is_empty()).then(|| lines.collect::<Vec<_>>().join("\n"))
    }

    /// A line of the table.
    pub fn row(&self) -> String {
        let answers: Vec<String> =
            self.answers.iter().map(|(answer, count)| format!("{count} × {answer}")).collect();
        let (calm, during) = (&self.calm, &self.during);
        format!(
            "| {} | {:.1} s | {:.1} | {} | {:.1} | {:.0} | {:.0} | {:.1} \
             | {:.2}/{:.2} → {:.2}/{:.2} ({:.2}) | {:.1} | {:.1} ({:.1}) | {} |",
            self.what,
            self.seconds,
            megabytes(self.sent),
            self.connections,
            self.attacker_cpu,
            megabytes(self.grown),
            megabytes(self.left),
            self.proxy_cpu,
            calm.through.share_ms(50),
            calm.through.share_ms(99),
            during.through.share_ms(50),
            during.through.share_ms(99),
            during.direct.share_ms(99),
            self.slower(),
            self.longest_batch_ms(),
            during.direct.longest_ms(),
            answers.join(", "),
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::watch::Latencies;

    const PROMISE: Promise = Promise { grown_mib: 10, slower: 2.0, answers: &["1041"] };

    fn outcome(through_ms: u64, direct_ms: u64, grown_mib: u64, answer: &str) -> Outcome {
        let all = |ms| Latencies::of(vec![Duration::from_millis(ms); 100]);
        let seen = |through, direct| Seen { through: all(through), direct: all(direct) };
        Outcome {
            name: "name",
            what: "what",
            seconds: 1.0,
            sent: 1,
            connections: 1,
            attacker_cpu: 0.0,
            grown: grown_mib << 20,
            left: 0,
            proxy_cpu: 0.0,
            calm: seen(4, 4),
            during: seen(through_ms, direct_ms),
            longest_batch_us: 5_000,
            answers: BTreeMap::from([(answer.to_owned(), 1)]),
            broken: Vec::new(),
        }
    }

    #[test]
    fn promises_are_kept_or_named() {
        for (through_ms, direct_ms, grown_mib, answer, expected) in [
            (8, 4, 10, "1041", vec![]),
            (9, 4, 10, "1041", vec!["p99 was 9.0 ms, 2.2 times as long; 2.0 times is promised"]),
            // What a client without the proxy waits for as well is the machine's.
            (30, 15, 10, "1041", vec![]),
            (8, 4, 11, "1041", vec!["memory grew by 11 MiB, 10 MiB are promised"]),
            (8, 4, 10, "1040", vec!["nobody was answered with 1041"]),
        ] {
            let mut outcome = outcome(through_ms, direct_ms, grown_mib, answer);
            outcome.check(&PROMISE);
            assert_eq!(outcome.broken.len(), expected.len(), "{:?}", outcome.broken);
            for (broken, expected) in outcome.broken.iter().zip(expected) {
                assert!(broken.contains(expected), "{broken}");
            }
        }
        let mut stopped = outcome(1, 6, 0, "1041");
        for (longest_batch_us, broken) in [(6_000, 0), (6_100, 1)] {
            stopped.longest_batch_us = longest_batch_us;
            stopped.broken.clear();
            stopped.check(&PROMISE);
            assert_eq!(stopped.broken.len(), broken, "{longest_batch_us}");
        }
        let mut unserved = outcome(1, 1, 0, "1041");
        unserved.during.through = Latencies::default();
        unserved.check(&PROMISE);
        assert_eq!(unserved.complaint().as_deref(), Some("name: the neighbour got no answer"));
    }
}
