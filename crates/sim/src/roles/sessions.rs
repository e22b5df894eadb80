//! Sessions that send statements to whoever has the role, as workers do: the role is read when a
//! server is chosen, and for what a session holds again before the statement's bytes go out.

use trunkline_cluster::HostId;
use trunkline_topology::{Seen, ServerHealth};

use super::{Plant, nature::Nature, proxy::Proxy};
use crate::rng::Rng;

const SESSIONS: usize = 5;
/// How long a statement without an answer is waited for, and one without a server, ms.
const PATIENCE_MS: u64 = 5_000;

/// A connection that a statement goes over.
#[derive(Debug, Clone, Copy)]
struct Conn {
    host: HostId,
    server: usize,
    /// The entry's epoch when it was opened.
    epoch: u32,
    /// The server's life.
    life: u32,
    is_writer: bool,
    /// When it was opened, ms.
    since_ms: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Thinks {
        until_ms: u64,
    },
    /// Nobody has the role.
    Waits {
        since_ms: u64,
    },
    /// A server was chosen; the bytes go out then.
    Chosen {
        conn: Conn,
        sends_ms: u64,
    },
    Sent {
        conn: Conn,
        arrives_ms: u64,
    },
    Answered {
        conn: Conn,
        arrives_ms: u64,
        is_done: bool,
    },
    /// Nothing comes.
    Silent {
        conn: Conn,
        until_ms: u64,
    },
}

/// One session.
struct Session {
    phase: Phase,
    is_write: bool,
    /// What it holds, and how many statements are still to come there.
    held: Option<(Conn, u64)>,
}

/// All sessions.
pub(super) struct Sessions {
    sessions: Vec<Session>,
    rng: Rng,
    plant: Option<Plant>,
}

impl Sessions {
    pub(super) fn new(rng: Rng, plant: Option<Plant>) -> Self {
        let session = |place: usize| Session {
            phase: Phase::Thinks { until_ms: 0 },
            is_write: place % 3 != 2,
            held: None,
        };
        Self { sessions: (0..SESSIONS).map(session).collect(), rng, plant }
    }

    pub(super) fn step(&mut self, nature: &mut Nature, proxy: &mut Proxy) {
        for session in &mut self.sessions {
            let at = At { nature, proxy, rng: &mut self.rng, plant: self.plant };
            session.step(at);
        }
    }
}

/// What a session's step sees.
struct At<'a> {
    nature: &'a mut Nature,
    proxy: &'a mut Proxy,
    rng: &'a mut Rng,
    plant: Option<Plant>,
}

impl At<'_> {
    fn health(&self, conn: Conn) -> Option<&ServerHealth> {
        let entries = self.proxy.entries.get(&conn.host)?;
        Some(if conn.is_writer { &entries.writer } else { &entries.reader })
    }

    /// Whether a connection is there still: its server may have died, be none of the
    /// configuration's any more, or have been severed.
    fn is_there(&self, conn: Conn) -> bool {
        let is_same = self.nature.server(conn.server).is_some_and(|it| it.life == conn.life);
        is_same && self.health(conn).is_some_and(|health| conn.epoch >= health.severed())
    }

    /// A server that has the role, and the connection to it.
    fn choose(&mut self, is_writer: bool) -> Option<Conn> {
        let of = |entries: &super::proxy::Entries| {
            let health = if is_writer { &entries.writer } else { &entries.reader };
            !health.is_standby()
        };
        let hosts = self.proxy.entries.iter().filter(|(_, entries)| of(entries));
        let hosts: Vec<HostId> = hosts.map(|(host, _)| *host).collect();
        let host = *self.rng.pick(&hosts)?;
        let server = self.proxy.names.get(&host)?.server;
        let life = self.nature.server(server)?.life;
        let since_ms = self.nature.now_ms;
        let conn = Conn { host, server, epoch: 0, life, is_writer, since_ms };
        let epoch = self.health(conn)?.epoch();
        Some(Conn { epoch, ..conn })
    }
}

impl Session {
    fn step(&mut self, mut at: At<'_>) {
        let now_ms = at.nature.now_ms;
        match self.phase {
            Phase::Thinks { until_ms } if now_ms < until_ms => {}
            Phase::Thinks { .. } => self.begin(&mut at, now_ms),
            Phase::Waits { since_ms } => self.begin(&mut at, since_ms),
            Phase::Chosen { sends_ms, .. } if now_ms < sends_ms => {}
            Phase::Chosen { conn, .. } => self.send(&mut at, conn),
            Phase::Sent { arrives_ms, .. } if now_ms < arrives_ms => {}
            Phase::Sent { conn, .. } => self.arrive(&mut at, conn),
            Phase::Answered { arrives_ms, .. } if now_ms < arrives_ms => {}
            Phase::Answered { conn, is_done, .. } => self.take_answer(&mut at, conn, is_done),
            Phase::Silent { conn, until_ms } => {
                if now_ms >= until_ms || !at.is_there(conn) {
                    self.lose(&mut at, conn);
                }
            }
        }
    }

    fn think(&mut self, at: &mut At<'_>) {
        let until_ms = at.nature.now_ms + at.rng.below(250);
        self.phase = Phase::Thinks { until_ms };
    }

    /// Looks for a server, since `since_ms`.
    fn begin(&mut self, at: &mut At<'_>, since_ms: u64) {
        let now_ms = at.nature.now_ms;
        if let Some((conn, _)) = self.held {
            let sends_ms = now_ms + at.rng.below(120);
            self.phase = Phase::Chosen { conn, sends_ms };
            return;
        }
        match at.choose(self.is_write) {
            Some(conn) => {
                if matches!(self.phase, Phase::Waits { .. }) {
                    at.nature.note("holds that ended", String::new);
                }
                // The role is read, and the bytes go out in the same batch.
                self.send(at, conn);
            }
            None if now_ms >= since_ms + PATIENCE_MS => self.think(at),
            None => self.phase = Phase::Waits { since_ms },
        }
    }

    /// The last byte before a statement goes out.
    fn send(&mut self, at: &mut At<'_>, conn: Conn) {
        let now_ms = at.nature.now_ms;
        let Some(health) = at.health(conn) else { return self.lose(at, conn) };
        let is_deposed = health.is_deposed() || conn.epoch < health.deposed();
        let ignores = at.plant == Some(Plant::EpochIgnored);
        if is_deposed && !ignores {
            at.nature.note("sessions that lost a transaction", || format!("{:?}", conn.host));
            return self.lose(at, conn);
        }
        if !at.is_there(conn) {
            return self.lose(at, conn);
        }
        let since_ms = conn.since_ms;
        let is_held = self.held.is_some();
        at.proxy.oracle.sent(at.nature, conn.host, conn.is_writer, is_held, since_ms);
        let arrives_ms = now_ms + at.rng.below(20);
        self.phase = Phase::Sent { conn, arrives_ms };
    }

    fn arrive(&mut self, at: &mut At<'_>, conn: Conn) {
        let now_ms = at.nature.now_ms;
        let Some(server) = at.nature.server(conn.server) else { return };
        if !server.hears {
            let until_ms = now_ms + PATIENCE_MS;
            self.phase = Phase::Silent { conn, until_ms };
            return;
        }
        if !server.is_running || server.life != conn.life {
            return self.lose(at, conn);
        }
        let takes_writes = at.nature.takes_writes(conn.server);
        let is_blocked =
            self.is_write && at.nature.kind.certifies() && !takes_writes && server.is_writable;
        if !server.is_heard || is_blocked {
            let until_ms = now_ms + PATIENCE_MS;
            self.phase = Phase::Silent { conn, until_ms };
            return;
        }
        let is_done = !self.is_write || takes_writes;
        let arrives_ms = now_ms + at.rng.below(20);
        self.phase = Phase::Answered { conn, arrives_ms, is_done };
    }

    fn take_answer(&mut self, at: &mut At<'_>, conn: Conn, is_done: bool) {
        if !at.is_there(conn) {
            return self.lose(at, conn);
        }
        at.proxy.oracle.answered_statement(conn.host, at.nature.now_ms);
        let Some(health) = at.health(conn) else { return self.lose(at, conn) };
        health.note_answer();
        match is_done {
            true => at.nature.note("statements", String::new),
            false => {
                health.note(Seen::READ_ONLY);
                at.nature.note("writes refused as read-only", String::new);
                self.held = None;
                return self.think(at);
            }
        }
        self.held = match self.held {
            None if self.is_write && at.rng.chance(1, 3) => Some((conn, at.rng.below(6))),
            None | Some((_, 0)) => None,
            Some((conn, left)) => Some((conn, left - 1)),
        };
        self.think(at);
    }

    fn lose(&mut self, at: &mut At<'_>, conn: Conn) {
        let is_severed = at.health(conn).is_some_and(|health| conn.epoch < health.severed());
        let is_deposed = at.health(conn).is_some_and(|health| conn.epoch < health.deposed());
        if let Some(health) = at.health(conn).filter(|_| !is_severed && !is_deposed) {
            health.note(Seen::REFUSED);
        }
        self.held = None;
        self.think(at);
    }
}
