//! The thread that talks to the shared cache (Redis): no worker waits for a socket of it.
//!
//! Workers send what they ask and what they store; an answer is put into their own cache and those
//! who wait are woken. What fails once is left alone for a while, and nobody asks meanwhile.

mod breaker;
mod link;
mod resp;

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tracing::{info, warn};
use trunkline_cache::{
    Cache, Reply, SharedAsk, SharedStore, ThisHost, VALUE_HEAD_LEN, Waiter, unpack,
};
use trunkline_config::{RedisServer, Settings};
use trunkline_crypto::sha256;
use trunkline_worker::ClientId;

use crate::mailbox::{Postbox, WorkerMail};
use breaker::Breaker;
use link::{Command, Found, Link};

/// Questions and answers that may wait for the thread; what is beyond is not asked or stored.
const JOBS_MAX: usize = 4_096;
/// Bytes of answers that may wait likewise.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Commands in one write; their answers, of up to `query_cache_result_max` bytes each, are held
/// at once.
const BATCH_MAX: usize = 64;
/// A connection that rests for so long is asked whether it is still there.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Bytes of the sum in front of a value: it belongs to its key, and is whole.
const SUM_LEN: usize = 16;

/// What there is to do.
enum Job {
    Ask(Box<SharedAsk>),
    Store(Box<SharedStore>),
    /// Nothing that was stored before counts any more.
    Flush,
    Configure(Option<Target>),
}

/// Where the shared cache is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    server: RedisServer,
    password_file: String,
    timeout: Duration,
}

impl Target {
    fn of(settings: &Settings) -> Option<Self> {
        Some(Self {
            server: settings.query_cache_redis.clone()?,
            password_file: settings.query_cache_redis_password_file.clone(),
            timeout: Duration::from_millis(settings.query_cache_redis_timeout),
        })
    }

    fn open(&self) -> Result<Link, String> {
        let read = |path: &str| {
            let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
            Ok::<_, String>(text.lines().next().unwrap_or_default().to_owned())
        };
        let password = match self.password_file.as_str() {
            "" => None,
            path => Some(read(path)?),
        };
        let link = Link::open(&self.server, password.as_deref(), self.timeout);
        link.map_err(|error| error.to_string())
    }
}

/// Sends work to the thread.
#[derive(Clone)]
pub(crate) struct SharedCacheThread {
    jobs: SyncSender<Job>,
    /// Bytes of answers that wait.
    bytes: Arc<AtomicUsize>,
    cache: Arc<Cache>,
}

impl SharedCacheThread {
    /// Starts the thread. It ends when the last sender has gone.
    pub(crate) fn start(
        cache: Arc<Cache>,
        workers: Vec<Postbox>,
        started: Instant,
    ) -> std::io::Result<Self> {
        let (jobs, receiver) = sync_channel(JOBS_MAX);
        let bytes = Arc::new(AtomicUsize::new(0));
        let sender = Self { jobs, bytes: Arc::clone(&bytes), cache: Arc::clone(&cache) };
        let talk = Talk {
            cache,
            workers,
            started,
            bytes,
            target: None,
            link: None,
            breaker: Breaker::default(),
        };
        talk.cache.shared().set_host(this_host());
        let thread = thread::Builder::new().name("shared-cache".into());
        thread.spawn(move || talk.run(&receiver))?;
        Ok(sender)
    }

    /// Asks for an answer. The client is woken whatever comes of it; false when it is not asked.
    pub(crate) fn ask(&self, ask: Box<SharedAsk>) -> bool {
        self.send(Job::Ask(ask))
    }

    /// Stores an answer, if there is room on the way.
    pub(crate) fn store(&self, store: Box<SharedStore>) {
        let len = store.value.len();
        if self.bytes.fetch_add(len, Relaxed) + len > BYTES_MAX || !self.send(Job::Store(store)) {
            self.bytes.fetch_sub(len, Relaxed);
        }
    }

    /// Forgets what all proxies have stored.
    pub(crate) fn flush(&self) {
        self.send(Job::Flush);
    }

    /// Takes over the settings. Control plane only: it waits for a place in the queue.
    pub(crate) fn configure(&self, settings: &Settings) {
        drop(self.jobs.send(Job::Configure(Target::of(settings))));
    }

    fn send(&self, job: Job) -> bool {
        let sent = self.jobs.try_send(job).is_ok();
        if !sent {
            self.cache.shared().count_dropped();
        }
        sent
    }
}

/// The thread's own.
struct Talk {
    cache: Arc<Cache>,
    workers: Vec<Postbox>,
    started: Instant,
    bytes: Arc<AtomicUsize>,
    target: Option<Target>,
    link: Option<Link>,
    breaker: Breaker,
}

impl Talk {
    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            self.connect();
            let mut batch = Vec::new();
            match jobs.recv_timeout(self.patience()) {
                Ok(job) => batch.push(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while batch.len() < BATCH_MAX {
                match jobs.try_recv() {
                    Ok(job) => batch.push(job),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            }
            self.carry_out(batch);
        }
    }

    /// How long to wait for work.
    fn patience(&self) -> Duration {
        match (&self.target, &self.link) {
            // Nothing is to be done but what a new configuration asks for.
            (None, _) => Duration::from_secs(3_600),
            (Some(_), Some(_)) => PROBE_EVERY,
            (Some(_), None) => Duration::from_millis(self.breaker.pause_ms(self.now_ms()).max(1)),
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn now_ms(&self) -> u64 {
        self.now_us() / 1_000
    }

    /// Opens the connection, if it is wanted and time for it.
    fn connect(&mut self) {
        let Some(target) = self.target.as_ref().filter(|_| self.link.is_none()) else {
            return;
        };
        if self.breaker.pause_ms(self.now_ms()) > 0 {
            return;
        }
        let opened = target.open().and_then(|mut link| {
            let generation = link.generation(fresh()).map_err(|error| error.to_string())?;
            Ok((link, generation))
        });
        match opened {
            Ok((link, generation)) => {
                info!("cached results are shared at {}", target.server);
                self.link = Some(link);
                self.breaker.answered();
                self.cache.shared().set_generation(generation);
                self.cache.shared().set_up(true);
            }
            Err(reason) => self.fail(&reason),
        }
    }

    /// Leaves the server alone for a while; workers do not ask meanwhile.
    fn fail(&mut self, reason: &str) {
        self.link = None;
        self.cache.shared().set_up(false);
        self.cache.shared().count_failure();
        let now_ms = self.now_ms();
        self.breaker.failed(now_ms);
        if let Some(target) = &self.target {
            let pause_ms = self.breaker.pause_ms(now_ms);
            warn!("cached results are not shared for {pause_ms} ms: {}: {reason}", target.server);
        }
    }

    fn carry_out(&mut self, batch: Vec<Job>) {
        let (mut asks, mut stores, mut has_flush, mut target) =
            (Vec::new(), Vec::new(), false, None);
        for job in batch {
            match job {
                Job::Ask(ask) => asks.push(ask),
                Job::Store(store) => {
                    self.bytes.fetch_sub(store.value.len(), Relaxed);
                    stores.push(store);
                }
                Job::Flush => has_flush = true,
                Job::Configure(next) => target = Some(next),
            }
        }
        // Whoever waits is woken, whatever happened.
        let mut wakes: Vec<Waiter> = asks.iter().map(|ask| ask.waiter).collect();
        if let Err(error) = self.talk(&asks, &stores, has_flush, &mut wakes) {
            self.fail(&error.to_string());
        }
        self.wake(wakes);
        if let Some(target) = target.filter(|target| *target != self.target) {
            self.target = target;
            self.link = None;
            self.breaker.answered();
            self.cache.shared().set_up(false);
        }
    }

    /// One exchange with the server; those who waited for what was found are added to `wakes`.
    fn talk(
        &mut self,
        asks: &[Box<SharedAsk>],
        stores: &[Box<SharedStore>],
        has_flush: bool,
        wakes: &mut Vec<Waiter>,
    ) -> std::io::Result<()> {
        let shared = self.cache.shared();
        let Some(link) = &mut self.link else { return Ok(()) };
        if has_flush {
            link.begin_generation(fresh())?;
        }
        let generation = shared.generation();
        let names: Vec<Name> =
            asks.iter().map(|ask| Name::of(&ask.shared_key, generation)).collect();
        let asked_us = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        // What has waited for too long on its way is not stored.
        let left = stores.iter().filter_map(|store| Some((store, store.left_ms(asked_us)?)));
        let values: Vec<(Name, Vec<u8>, u64)> = left
            .map(|(store, left_ms)| {
                let name = Name::of(&store.shared_key, store.generation);
                let value = [&name.sum(&store.value)[..], &store.value].concat();
                (name, value, left_ms)
            })
            .collect();
        let gets = names.iter().zip(asks).map(|(name, ask)| {
            let value_max = ask.reply_max.saturating_add(VALUE_HEAD_LEN + SUM_LEN);
            Command::Get(name.text.as_bytes(), value_max)
        });
        let sets = values
            .iter()
            .map(|(name, value, left_ms)| Command::Set(name.text.as_bytes(), value, *left_ms));
        let commands: Vec<Command<'_>> = gets.chain(sets).collect();
        let (now, found) = link.exchange(&commands)?;
        let now = match now {
            Some(now) => now,
            // Somebody has emptied the server.
            None => link.generation(fresh())?,
        };
        shared.set_generation(now);
        shared.count_stored(u64::try_from(values.len()).unwrap_or_default());
        // Another proxy has flushed what is there: it was asked for by its old name.
        let found = if now == generation { found } else { Vec::new() };
        let mut hits = 0;
        for ((ask, name), found) in asks.iter().zip(&names).zip(found) {
            if let Some(reply) = name.reply(found, asked_us) {
                hits += 1;
                wakes.extend(self.cache.finish(&ask.key, ask.ticket, Some(reply)));
            }
        }
        shared.count_asked(u64::try_from(asks.len()).unwrap_or_default(), hits);
        Ok(())
    }

    fn wake(&self, wakes: Vec<Waiter>) {
        let mut by_worker: Vec<Vec<ClientId>> = vec![Vec::new(); self.workers.len()];
        for Waiter { worker, index, generation } in wakes {
            if let Some(clients) = by_worker.get_mut(worker) {
                clients.push(ClientId { index, generation });
            }
        }
        for (worker, clients) in self.workers.iter().zip(by_worker) {
            if !clients.is_empty() {
                worker.send(WorkerMail::CacheWoken(clients));
            }
        }
    }
}

/// A generation that there has not been: the time.
fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or_default()
}

/// Where this process runs. Where the system does not say it, nobody else is there.
fn this_host() -> ThisHost {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let boot = boot.unwrap_or_else(|_| format!("{} {}", std::process::id(), fresh()));
    let of = |namespace: &str| {
        let link = fs::read_link(format!("/proc/self/ns/{namespace}")).unwrap_or_default();
        format!("{} {}", boot.trim_end(), link.display()).into_bytes().into()
    };
    ThisHost { loopback: of("net"), files: of("mnt") }
}

/// A place in the shared cache.
struct Name {
    text: String,
    hash: [u8; 32],
}

impl Name {
    /// By a hash that nobody can find two keys for: the key itself has texts and names in it.
    fn of(shared_key: &[u8], generation: u64) -> Self {
        let hash = sha256(shared_key);
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text: format!("trunkline:1:{generation}:{hex}"), hash }
    }

    /// Ties a value to its key.
    fn sum(&self, value: &[u8]) -> [u8; SUM_LEN] {
        let sum = sha256(&[&self.hash[..], value].concat());
        sum.first_chunk().copied().unwrap_or_default()
    }

    /// The answer that was found under it, if it is what was stored.
    fn reply(&self, found: Found, asked_us: u64) -> Option<Reply> {
        let (bytes, left_ms) = found?;
        let (sum, value) = bytes.split_first_chunk::<SUM_LEN>()?;
        if *sum != self.sum(value) {
            return None;
        }
        unpack(value, left_ms, asked_us)
    }
}

#[cfg(test)]
mod tests;
