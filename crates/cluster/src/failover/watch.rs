//! When a failover begins.

use crate::{HostId, Loss};

/// How long it is waited before a failover that came to nothing is tried again, ms.
const RETRY_MS: u64 = 2_000;

/// How long a writer may be read-only before that is told: somebody may be switching over, ms.
const READ_ONLY_MS: u64 = 3_000;

/// What is done when the writer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Nothing; somebody else promotes a server, and that is followed.
    #[default]
    Off,
    /// It is said what would be done.
    Advise,
    /// Another server is promoted.
    Auto,
}

/// What is to be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Nothing,
    /// An operator should know this of the writer.
    Tell(HostId, String),
    /// An operator has to do something about the writer.
    Stuck(HostId, String),
    /// A failover begins.
    Begin {
        /// Who is lost.
        old: HostId,
        /// What showed it.
        why: String,
    },
}

/// Watches a writer, and says when a failover begins.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// What was told last of the loss that goes on.
    told: String,
    /// A person has to decide about this loss, or it was advised.
    is_done: bool,
    /// It is not tried before, ms.
    not_before_ms: u64,
    /// No failover begins before, ms: there was one.
    blocked_until_ms: u64,
    /// Since when the writer answers and takes no writes, ms.
    read_only_ms: Option<u64>,
}

impl Watch {
    /// Looks at what is known of the writer.
    pub fn look(&mut self, now_ms: u64, mode: Mode, loss: &Loss) -> Verdict {
        if !matches!(loss, Loss::ReadOnly { .. }) {
            self.read_only_ms = None;
        }
        let (old, why) = match (mode, loss) {
            (Mode::Off, _) | (_, Loss::None) => {
                self.told.clear();
                self.is_done = false;
                return Verdict::Nothing;
            }
            (Mode::Advise | Mode::Auto, Loss::ReadOnly { writer }) => {
                self.is_done = false;
                return self.closed(now_ms, *writer);
            }
            (Mode::Advise | Mode::Auto, Loss::Doubtful { writer, why }) => {
                return self.tell(*writer, format!("it is suspected: {why}"));
            }
            (Mode::Advise | Mode::Auto, Loss::Certain { writer, why, .. }) => (*writer, why),
        };
        if self.is_done || now_ms < self.not_before_ms {
            return Verdict::Nothing;
        }
        if now_ms < self.blocked_until_ms {
            let text = format!(
                "it is lost: {why}; no failover begins, as the last one was less than \
                 failover_block ago: CLEAR FAILOVER allows it"
            );
            return self.tell(old, text);
        }
        Verdict::Begin { old, why: why.clone() }
    }

    /// The writer answers and takes no writes, and nobody does.
    fn closed(&mut self, now_ms: u64, writer: HostId) -> Verdict {
        if now_ms < *self.read_only_ms.get_or_insert(now_ms) + READ_ONLY_MS {
            return Verdict::Nothing;
        }
        let text = "it answers and is read-only, and nobody else takes writes: make it writable \
                    (SET GLOBAL read_only = 0), or promote a server";
        match self.tell(writer, text.to_owned()) {
            Verdict::Tell(writer, text) => Verdict::Stuck(writer, text),
            verdict => verdict,
        }
    }

    /// Tells what was not told last.
    fn tell(&mut self, writer: HostId, text: String) -> Verdict {
        if self.told == text {
            return Verdict::Nothing;
        }
        self.told.clone_from(&text);
        Verdict::Tell(writer, text)
    }

    /// A failover has ended without a promotion: it waits for a person, or is tried again.
    pub fn failed(&mut self, now_ms: u64, is_stuck: bool) {
        self.is_done |= is_stuck;
        self.not_before_ms = now_ms.saturating_add(RETRY_MS);
    }

    /// It was said what would be done.
    pub fn advised(&mut self) {
        self.is_done = true;
    }

    /// A server was promoted: no failover begins for this time, ms.
    pub fn block(&mut self, now_ms: u64, block_ms: u64) {
        self.blocked_until_ms = now_ms.saturating_add(block_ms);
    }

    /// How much longer no failover begins, ms.
    pub fn blocked_ms(&self, now_ms: u64) -> u64 {
        self.blocked_until_ms.saturating_sub(now_ms)
    }

    /// An operator allows another failover.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
