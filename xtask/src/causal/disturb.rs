//! What is done to servers while clients write and read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use trunkline_testkit::{Flavour, Server};

use crate::stand::Stand;

/// How long a replica applies nothing, and how long one is locked.
const STOPPED: Duration = Duration::from_millis(300);
const LOCKED: Duration = Duration::from_millis(100);
/// Between two disturbances, and between two changes of the writer.
const CALM: Duration = Duration::from_millis(300);
const TERM: Duration = Duration::from_secs(4);

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    None,
    /// One replica is a second behind.
    Delay,
    /// Replicas stop applying, and are locked, in turns.
    Replicas,
    /// Another server writes, every some seconds.
    Switchover,
    /// The writer is killed, every some seconds.
    Kill,
}

/// What the servers are like at the end.
pub enum Ended {
    Calm,
    /// A killed writer has what nobody else has, and does not replicate any more.
    Diverged,
}

impl Disturbance {
    const ALL: [Self; 5] = [Self::None, Self::Delay, Self::Replicas, Self::Switchover, Self::Kill];

    pub fn named(name: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|it| it.name() == name) {
            Some(found) => Ok(found),
            None => bail!("there is no disturbance `{name}`"),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Delay => "delay",
            Self::Replicas => "replicas",
            Self::Switchover => "switchover",
            Self::Kill => "kill",
        }
    }

    /// Does it until it is over.
    pub fn happen(self, stand: &Stand, is_over: &AtomicBool) -> Result<Ended> {
        let goes_on = || !is_over.load(Ordering::Relaxed);
        let wait = |time: Duration| {
            let until = Instant::now() + time;
            while goes_on() && Instant::now() < until {
                thread::sleep(Duration::from_millis(10));
            }
        };
        let replicas: Vec<&Arc<Server>> = stand.all().skip(1).collect();
        match self {
            Self::None => {}
            Self::Delay => delay(replicas.first().context("a replica")?)?,
            Self::Replicas => {
                for replica in replicas.iter().cycle() {
                    if !goes_on() {
                        break;
                    }
                    stop_applying(replica)?;
                    wait(CALM);
                    lock(replica)?;
                    wait(CALM);
                }
            }
            Self::Switchover => {
                while goes_on() {
                    wait(TERM);
                    switch(stand)?;
                }
            }
            Self::Kill => {
                while goes_on() {
                    wait(TERM);
                    if let Ended::Diverged = kill(stand)? {
                        return Ok(Ended::Diverged);
                    }
                }
            }
        }
        Ok(Ended::Calm)
    }
}

fn delay(replica: &Server) -> Result<()> {
    let statements = match replica.flavour() {
        Flavour::MariaDb => "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY = 1; START SLAVE",
        Flavour::MySql => {
            "STOP REPLICA SQL_THREAD; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 1; \
             START REPLICA SQL_THREAD"
        }
    };
    replica.sql(statements).map(drop)
}

fn stop_applying(replica: &Server) -> Result<()> {
    let word = match replica.flavour() {
        Flavour::MariaDb => "SLAVE",
        Flavour::MySql => "REPLICA",
    };
    replica.sql(&format!("STOP {word} SQL_THREAD"))?;
    thread::sleep(STOPPED);
    replica.sql(&format!("START {word} SQL_THREAD")).map(drop)
}

fn lock(replica: &Server) -> Result<()> {
    let mut root = replica.root()?;
    root.sql("FLUSH TABLES WITH READ LOCK")?;
    thread::sleep(LOCKED);
    root.sql("UNLOCK TABLES").map(drop)
}

fn switch(stand: &Stand) -> Result<()> {
    let old = stand.writer()?.context("nobody writes")?;
    let to = stand.server((old + 1) % stand.servers())?.address();
    stand.administrator()?.sql(&format!("SWITCHOVER shop TO '{to}'"))?;
    stand.wait_other_writer(old)
}

fn kill(stand: &Stand) -> Result<Ended> {
    let old = stand.writer()?.context("nobody writes")?;
    stand.server(old)?.kill_hard()?;
    stand.wait_other_writer(old)?;
    Ok(stand.start_again().map_or(Ended::Diverged, |()| Ended::Calm))
}
