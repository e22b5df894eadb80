//! A session that writes numbers, each larger than the one before, and one that reads them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use trunkline_testkit::{SqlClient, error_code};

use super::Scene;
use super::scope::{BOUND, Scope};
use crate::stand::USER;

/// An account of other clients.
pub const OTHER: &str = "other";
/// Between two attempts to log in.
const RETRY: Duration = Duration::from_millis(10);
/// How many acknowledged writes are remembered: those within the bound, and more.
const REMEMBERED: usize = 4_096;
/// Every so many reads, one's time is kept.
const TIMED: u64 = 16;

/// What was seen.
#[derive(Default)]
pub struct Seen {
    pub writes: u64,
    pub reads: u64,
    /// Reads that missed what they had to see.
    pub stale: u64,
    /// Reads that saw what nobody had tried to write.
    pub made_up: u64,
    /// Errors by their codes; 0 where the connection was cut without one.
    pub errors: BTreeMap<u16, u64>,
    pub latencies: Vec<Duration>,
}

impl Seen {
    pub fn add(&mut self, other: Self) {
        self.writes += other.writes;
        self.reads += other.reads;
        self.stale += other.stale;
        self.made_up += other.made_up;
        for (code, count) in other.errors {
            *self.errors.entry(code).or_default() += count;
        }
        self.latencies.extend(other.latencies);
    }
}

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// The session that writes.
    Own,
    Other,
}

/// A writer and a reader of one row.
pub struct Pair<'a> {
    scene: &'a Scene<'a>,
    number: u32,
    writer: Option<SqlClient>,
    reader: Option<SqlClient>,
    /// The last number that was sent.
    tried: u64,
    /// The last one that was acknowledged to the session that writes now; 0 at its beginning.
    of_session: u64,
    /// Those that were acknowledged, and when; the oldest are forgotten.
    acknowledged: VecDeque<(Instant, u64)>,
    /// The token behind `of_session`.
    token: String,
    seen: Seen,
}

impl<'a> Pair<'a> {
    pub fn new(scene: &'a Scene<'a>, number: u32) -> Self {
        Self {
            scene,
            number,
            writer: None,
            reader: None,
            tried: 0,
            of_session: 0,
            acknowledged: VecDeque::new(),
            token: String::new(),
            seen: Seen::default(),
        }
    }

    /// Writes and reads until it is over.
    pub fn play(mut self) -> Seen {
        while !self.scene.is_over() {
            match self.round() {
                Ok(()) => {}
                Err(error) => {
                    let code = error_code(&error).unwrap_or(0);
                    *self.seen.errors.entry(code).or_default() += 1;
                    // Whose error it was does not matter: both begin anew.
                    (self.writer, self.reader, self.of_session) = (None, None, 0);
                    thread::sleep(RETRY);
                }
            }
        }
        self.seen
    }

    /// One write, and the reads behind it.
    fn round(&mut self) -> Result<()> {
        self.connect()?;
        self.write()?;
        for at in 0..self.scene.reads_per_write {
            let reader = match self.scene.scope {
                Scope::Session => Reader::Own,
                Scope::UntilChanged if at.is_multiple_of(2) => Reader::Own,
                _ => Reader::Other,
            };
            self.read(reader)?;
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        let proxy = self.scene.stand.proxy(0)?;
        if self.writer.is_none() {
            self.writer = Some(proxy.connect(USER, USER, "checks")?);
            self.of_session = 0;
        }
        if self.reader.is_none() {
            let user = match self.scene.scope {
                Scope::Session | Scope::User | Scope::Token => USER,
                _ => OTHER,
            };
            self.reader = Some(proxy.connect(user, user, "checks")?);
        }
        Ok(())
    }

    /// By a statement alone, and in a transaction, in turns.
    fn write(&mut self) -> Result<()> {
        let writer = self.writer.as_mut().context("a session that writes")?;
        self.tried += 1;
        let update = format!("UPDATE latest_{} SET n = {} WHERE id = 1", self.number, self.tried);
        match self.tried % 2 {
            0 => writer.sql(&update).map(drop)?,
            _ => {
                writer.sql("BEGIN")?;
                writer.sql(&update)?;
                writer.sql("COMMIT")?;
            }
        }
        if self.scene.scope == Scope::Token {
            self.token = writer.value("SHOW CAUSAL TOKEN")?.context("a token")?;
        }
        self.of_session = self.tried;
        if self.acknowledged.len() == REMEMBERED {
            self.acknowledged.pop_front();
        }
        self.acknowledged.push_back((Instant::now(), self.tried));
        self.seen.writes += 1;
        Ok(())
    }

    fn read(&mut self, reader: Reader) -> Result<()> {
        let begun = Instant::now();
        let least = self.least(reader, begun);
        let statement = match self.scene.scope {
            Scope::Token => format!(
                "/* trunkline_token={} */ SELECT n FROM latest_{} WHERE id = 1",
                self.token, self.number
            ),
            _ => format!("SELECT n FROM latest_{} WHERE id = 1", self.number),
        };
        let session = match reader {
            Reader::Own => self.writer.as_mut(),
            Reader::Other => self.reader.as_mut(),
        };
        let rows = session.context("a session that reads")?.sql(&statement)?;
        let took = begun.elapsed();
        let Some([Some(n)]) = rows.first().map(Vec::as_slice) else {
            bail!("{statement} found {rows:?}")
        };
        let n: u64 = n.parse()?;
        self.seen.reads += 1;
        self.scene.reads.fetch_add(1, Ordering::Relaxed);
        self.seen.made_up += u64::from(n > self.tried);
        if n < least {
            self.seen.stale += 1;
            println!("stale: pair {}, {reader:?}: {n} in place of {least}", self.number);
        }
        if self.seen.reads.is_multiple_of(TIMED) {
            self.seen.latencies.push(took);
        }
        Ok(())
    }

    /// The least number that a read has to see that begins now.
    fn least(&self, reader: Reader, now: Instant) -> u64 {
        let bound = match (self.scene.scope, reader) {
            (Scope::Session | Scope::Token, _) | (Scope::UntilChanged, Reader::Own) => {
                return self.of_session;
            }
            (Scope::User | Scope::Hostgroup | Scope::Global, _) => Duration::ZERO,
            (Scope::Bounded | Scope::UntilChanged, _) => BOUND,
        };
        let is_old = |(at, _): &&(Instant, u64)| *at + bound <= now;
        self.acknowledged.iter().rev().find(is_old).map_or(0, |(_, n)| *n)
    }
}
