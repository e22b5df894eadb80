//! Lines of the history for charts, as JSON.

use std::{io, path::Path};

use serde_json::{Map, Value, json};
use trunkline_history::{POINTS_MAX, Period, Sums};

/// How far back is shown when the request does not say, s.
const LAST_DEFAULT: u64 = 3_600;
/// The shortest time, s.
const LAST_MIN: u64 = 60;
/// The longest time, s.
const LAST_MAX: u64 = 366 * 86_400;
/// The most digests of one answer.
const DIGESTS_MAX: usize = 200;
/// The most points of all digests of one answer.
const DIGEST_POINTS_MAX: u64 = 12_000;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// How far back, s.
    last: u64,
    /// The most points of a line.
    points: u64,
    /// Digests that have lines of their own.
    digests: Vec<u64>,
}

impl Asked {
    /// Reads `last=3600&points=240&digests=0x…,0x…`; all of it may be left out.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(query: Option<&str>) -> Result<Self, String> {
        let mut asked = Self { last: LAST_DEFAULT, points: POINTS_MAX, digests: Vec::new() };
        let parts = query.unwrap_or_default().split('&').filter(|part| !part.is_empty());
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match name {
                "last" => asked.last = number(name, value, LAST_MIN, LAST_MAX)?,
                "points" => asked.points = number(name, value, 1, POINTS_MAX)?,
                "digests" => {
                    let of = value.split(',').filter(|digest| !digest.is_empty());
                    asked.digests = of.map(digest).collect::<Result<_, _>>()?;
                }
                _ => {
                    return Err(format!(
                        "unknown parameter `{name}`; known: last, points, digests"
                    ));
                }
            }
        }
        let count = asked.digests.len();
        if count > DIGESTS_MAX {
            return Err(format!(
                "there are {count} digests; at most {DIGESTS_MAX} can be asked for"
            ));
        }
        let room = DIGEST_POINTS_MAX.checked_div(count as u64);
        asked.points = asked.points.min(room.unwrap_or(POINTS_MAX));
        Ok(asked)
    }

    /// The lines until `now` of the history in a folder. Points of which nothing is known are null.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn read(&self, folder: &Path, now: u64) -> io::Result<Value> {
        let from = now.saturating_sub(self.last);
        let mut period = Period::read_lines(folder, from, now, self.points)?;
        if !self.digests.is_empty() {
            period.read_digests(folder, &self.digests)?;
        }
        let mut points = Vec::with_capacity(period.points.len());
        let mut digests: Map<String, Value> = Map::new();
        let mut lines = vec![Vec::with_capacity(period.points.len()); self.digests.len()];
        let mut at = period.from;
        for point in &period.points {
            // A point is shown at its end.
            at = at.saturating_add(period.step);
            let t = at.min(period.to).saturating_mul(1_000);
            points.push(match point.known {
                0 => json!([t, null, null, null, null, null, null, null, null]),
                known => {
                    let [rate, errors, p50, p95, p99] = five(&point.all, known);
                    let refused = per_second(point.refusals, known);
                    json!([t, rate, errors, p50, p95, p99, point.clients, point.waiting, refused])
                }
            });
            for (digest, line) in self.digests.iter().zip(&mut lines) {
                line.push(match point.known {
                    0 => json!([null, null, null, null, null]),
                    known => {
                        let sums = point.digests.get(digest).cloned().unwrap_or_default();
                        json!(five(&sums, known))
                    }
                });
            }
        }
        for (digest, line) in self.digests.iter().zip(lines) {
            digests.insert(format!("0x{digest:016X}"), Value::Array(line));
        }
        Ok(json!({
            "from": period.from,
            "to": period.to,
            "step": period.step,
            "known": period.known,
            "points": points,
            "digests": digests,
        }))
    }
}

/// Statements and errors a second, and p50, p95 and p99 in µs.
fn five(sums: &Sums, known: u64) -> [Option<f64>; 5] {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let quantile = |share| (sums.count > 0).then(|| sums.latency.quantile(share) as f64);
    [
        Some(per_second(sums.count, known)),
        Some(per_second(sums.errors, known)),
        quantile(0.5),
        quantile(0.95),
        quantile(0.99),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn per_second(count: u64, seconds: u64) -> f64 {
    (count as f64 / seconds.max(1) as f64 * 1_000.0).round() / 1_000.0
}

fn number(name: &str, value: &str, min: u64, max: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("`{name}={value}` is not a number from {min} to {max}"))
}

fn digest(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() <= 16);
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| format!("`{text}` is no digest, which is 0x and 1 to 16 hex digits"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use trunkline_history::{DigestLine, Frame, History, Sketch};

    use super::*;

    fn sums(count: u64, us: u64) -> Sums {
        let mut latency = Sketch::default();
        latency.add(us, count);
        Sums { count, errors: count / 10, sum_us: count * us, latency }
    }

    #[test]
    fn lines_have_what_was_kept_and_null_for_what_was_not() {
        let folder = std::env::temp_dir().join(format!("trunkline-lines-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        let mut history = History::open(&folder, 10_000_000).expect("opened");
        let start = 1_790_553_600;
        for at in 0..60 {
            let line = DigestLine {
                digest: 0xAB,
                text: "SELECT ?".into(),
                sums: sums(20, 2_000),
                ..DigestLine::default()
            };
            let frame = Frame {
                begin: start + at * 10,
                seconds: 10,
                all: sums(100, 1_000),
                clients: 7,
                waiting: vec![(1, 2), (2, 3)],
                refusals: vec![("statement: x".to_owned(), 5)],
                digests: vec![line],
                ..Frame::default()
            };
            history.add(&frame).expect("written");
        }
        let asked = Asked::parse(Some("last=1200&points=4&digests=0xAB,0x1")).expect("fits");
        let told = asked.read(&folder, start + 600).expect("read");
        assert_eq!((&told["step"], &told["known"]), (&json!(300), &json!(600)));
        let points = told["points"].as_array().expect("points");
        assert_eq!(points.len(), 4);
        assert_eq!(
            points[1],
            json!([start * 1_000, null, null, null, null, null, null, null, null])
        );
        assert_eq!(points[3][0], json!((start + 600) * 1_000));
        assert_eq!([&points[3][1], &points[3][2]], [&json!(10.0), &json!(1.0)]);
        assert_eq!(
            [&points[3][6], &points[3][7], &points[3][8]],
            [&json!(7), &json!(5), &json!(0.5)]
        );
        let p95 = points[3][4].as_f64().expect("a number");
        assert!((750.0..1_250.0).contains(&p95), "{p95}");
        let known = &told["digests"]["0x00000000000000AB"];
        assert_eq!(
            [&known[0][0], &known[2][0], &known[3][1]],
            [&Value::Null, &json!(2.0), &json!(0.2)]
        );
        let other = &told["digests"]["0x0000000000000001"];
        assert_eq!(other[3], json!([0.0, 0.0, null, null, null]));
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn what_is_asked_for_is_bounded() {
        let check = |query: &str| Asked::parse(Some(query));
        let plain = Asked { last: 3_600, points: 240, digests: Vec::new() };
        assert_eq!(Asked::parse(None), Ok(plain));
        let many = |count: usize| format!("digests={}", vec!["0x1"; count].join(","));
        assert_eq!(check(&many(200)).expect("fits").points, 60);
        for query in [
            "last=1",
            "last=1e9",
            "points=0",
            "points=241",
            "digests=1",
            "digests=0x",
            "digests=0x12345678901234567",
            "from=1",
            &many(201),
        ] {
            assert!(check(query).is_err(), "{query}");
        }
    }
}
