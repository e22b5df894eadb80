//! Step 4: digest and analysis.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use trunkline_sql::analysis::analyse;
use trunkline_sql::digest::{Digester, Settings};
use trunkline_sql::token::Modes;

/// As applications write them.
const JOIN: &[u8] = b"SELECT orders.id, orders.created_at, customers.name, customers.email, \
    SUM(order_lines.quantity * order_lines.price) AS total FROM orders INNER JOIN customers ON \
    customers.id = orders.customer_id LEFT JOIN order_lines ON order_lines.order_id = orders.id \
    WHERE orders.status = 'shipped' AND orders.created_at >= '2024-01-01' AND customers.country \
    IN ('DE', 'FR') GROUP BY orders.id ORDER BY orders.created_at DESC LIMIT 20";

/// sysbench's `oltp_point_select`.
pub const POINT_SELECT: &[u8] = b"SELECT c FROM sbtest1 WHERE id=5012";

pub fn digest_point_select(calls: u64) -> Result<()> {
    digest(POINT_SELECT, calls)
}

pub fn digest_insert(calls: u64) -> Result<()> {
    digest(&insert(), calls)
}

pub fn digest_join(calls: u64) -> Result<()> {
    digest(JOIN, calls)
}

pub fn digest_in(calls: u64) -> Result<()> {
    let numbers: Vec<String> = (0..100).map(|number| (50_000 + number * 7).to_string()).collect();
    let text = format!("SELECT c FROM sbtest1 WHERE id IN ({})", numbers.join(","));
    digest(text.as_bytes(), calls)
}

pub fn digest_text(calls: u64) -> Result<()> {
    let text = format!("UPDATE page SET body='{}' WHERE id=17", "lorem ipsum ".repeat(167));
    digest(text.as_bytes(), calls)
}

pub fn analyse_point_select(calls: u64) -> Result<()> {
    analyse_text(POINT_SELECT, calls)
}

pub fn analyse_insert(calls: u64) -> Result<()> {
    analyse_text(&insert(), calls)
}

/// How fast digests are made, by the clock: the best of so many rounds for each statement.
pub fn speed() {
    let numbers: Vec<String> = (0..100).map(|number| (50_000 + number * 7).to_string()).collect();
    let list = format!("SELECT c FROM sbtest1 WHERE id IN ({})", numbers.join(","));
    let text = format!("UPDATE page SET body='{}' WHERE id=17", "lorem ipsum ".repeat(167));
    let insert = insert();
    println!("{:<24} {:>8} {:>10} {:>8}", "statement", "bytes", "ns", "MB/s");
    for (name, text) in [
        ("point_select", POINT_SELECT),
        ("insert_10_rows", &insert),
        ("join_420_bytes", JOIN),
        ("in_100_numbers", list.as_bytes()),
        ("text_of_2_kb", text.as_bytes()),
    ] {
        let calls = ROUND_BYTES / text.len() as u64;
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            // It can't fail.
            let _ = digest(text, calls);
            best = best.min(begin.elapsed());
        }
        let ns = best.as_secs_f64() * 1e9 / calls as f64;
        println!("{name:<24} {:>8} {ns:>10.0} {:>8.0}", text.len(), text.len() as f64 * 1e3 / ns);
    }
}

/// Bytes of statements in a round: short, so that some rounds go by undisturbed.
const ROUND_BYTES: u64 = 200_000;
/// Rounds of a measurement by the clock.
const ROUNDS: u32 = 2_000;

fn digest(text: &[u8], calls: u64) -> Result<()> {
    let settings = Settings::default();
    let mut digester = Digester::new();
    for _ in 0..calls {
        black_box(digester.digest(black_box(text), black_box(&settings)).hash);
    }
    Ok(())
}

fn analyse_text(text: &[u8], calls: u64) -> Result<()> {
    let modes = Modes::default();
    for _ in 0..calls {
        black_box(analyse(black_box(text), black_box(&modes)));
    }
    Ok(())
}

/// Like sysbench's `bulk_insert`, with the strings of its OLTP tables.
fn insert() -> Vec<u8> {
    let c = "68487932199-96439406143-93774651418-41631865787-96406072701-20604855487-25459966574-\
        28203206787-41238978918-19503783441";
    let pad = "22195207048-70116052123-74140395089-76317954521-98694025897";
    let row = format!("(50123, 499284, '{c}', '{pad}')");
    let rows = vec![row; 10].join(", ");
    format!("INSERT INTO sbtest1 (id, k, c, pad) VALUES {rows}").into_bytes()
}
