//! A worker's loop: wait for events, let the shell do a batch, leave the sockets alone for a while.

use std::{
    io,
    sync::{Arc, mpsc::Receiver},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use trunkline_config::Snapshot;
use trunkline_net::{Events, Keepalive, Listener, Poller, TlsSetup, Token};
use trunkline_stats::span::SpanRing;
use trunkline_worker::{Now, Worker, WorkerOptions, shell::Shell};

use crate::{
    CatalogQuestion, HostQuestion, LoginQuestion, Mail, OutcomeQuestion, UserQuestion,
    event_log::EventLog, mailbox::Postbox, outside::Outside, passwords::PasswordThread,
    shared_cache::SharedCacheThread, sockets::Socket, students::StudentThread,
};

/// Events taken from the kernel in one wait: a batch of so many small reads takes 3 to 4 ms at most
/// (0093).
const EVENTS_MAX: usize = 256;
/// How long a reading of the calendar's time holds, µs.
const CALENDAR_US: u64 = 10_000;
/// Ends a wait when mail has come.
pub(crate) const WAKE: Token = Token(0);

/// What a driver is made of, beside its worker.
pub(crate) struct Parts {
    /// The worker's number, and how many there are.
    pub options: WorkerOptions,
    pub poller: Poller,
    pub listeners: Vec<Listener>,
    pub mail: Receiver<Mail>,
    pub own: Postbox,
    pub peers: Vec<Postbox>,
    pub passwords: PasswordThread,
    pub students: StudentThread,
    pub shared_cache: SharedCacheThread,
    pub keepalive: Option<Keepalive>,
    pub tls: Arc<TlsSetup>,
    pub look_up_users: Arc<dyn Fn() + Send + Sync>,
    pub ask_server: Arc<dyn Fn(LoginQuestion) + Send + Sync>,
    pub look_up_user: Arc<dyn Fn(UserQuestion) + Send + Sync>,
    pub look_up_host: Arc<dyn Fn(HostQuestion) + Send + Sync>,
    pub ask_catalog: Arc<dyn Fn(CatalogQuestion) + Send + Sync>,
    pub find_outcome: Arc<dyn Fn(OutcomeQuestion) + Send + Sync>,
    pub events: EventLog,
    /// Where records for spans go.
    pub spans: Arc<SpanRing>,
    pub started: Instant,
}

impl Parts {
    /// The time since the workers' clock began, µs.
    pub(crate) fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// The calendar's time, which is not asked for with every batch.
#[derive(Default)]
struct Calendar {
    unix_sec: u64,
    /// When it is asked for again, by the workers' clock, µs.
    until_us: u64,
}

impl Calendar {
    fn at(&mut self, us: u64) -> Now {
        if us >= self.until_us {
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            *self = Self { unix_sec: unix.as_secs(), until_us: us + CALENDAR_US };
        }
        Now { us, unix_sec: self.unix_sec }
    }
}

/// One worker with its sockets, on one thread.
pub(crate) struct Driver {
    shell: Shell<Socket>,
    outside: Outside,
    calendar: Calendar,
}

impl Driver {
    pub(crate) fn new(worker: Worker, parts: Parts) -> Self {
        Self {
            shell: Shell::new(worker, parts.options),
            outside: Outside::new(parts),
            calendar: Calendar::default(),
        }
    }

    /// Runs until the worker has stopped. The snapshot is the first configuration.
    pub(crate) fn run(mut self, snapshot: Arc<Snapshot>) -> io::Result<()> {
        self.outside.add_listeners()?;
        self.outside.configure_relays(&snapshot);
        drop(snapshot);
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.shell.is_stopped() || !self.outside.relays.is_empty() {
            let wait_ms = match self.outside.has_more() {
                true => 0,
                false => self.shell.wait_within_ms().min(self.outside.relays.tick_within_ms()),
            };
            let timeout = Some(Duration::from_millis(wait_ms));
            self.outside.parts.poller.wait(&mut events, timeout)?;
            self.batch(&events);
            self.pause();
        }
        Ok(())
    }

    fn batch(&mut self, events: &Events) {
        let now = self.calendar.at(self.outside.parts.now_us());
        self.outside.begin_batch(now, events);
        self.shell.batch(&mut self.outside, now);
        let worker = self.shell.worker_mut();
        self.outside.end_batch(worker);
        worker.batch_took(self.outside.parts.now_us().saturating_sub(now.us));
    }

    /// Leaves the sockets alone for a moment, if the worker expects more to come meanwhile.
    fn pause(&mut self) {
        let pause_us = self.shell.pause_us();
        if pause_us > 0 && !self.outside.has_more() {
            std::thread::sleep(Duration::from_micros(pause_us));
        }
    }
}
