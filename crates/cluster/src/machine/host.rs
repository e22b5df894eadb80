//! What is remembered of one member.

use super::{Listed, Places};
use crate::{
    Event, EventKind, Evidence, HostId, Miss,
    facts::{Endpoint, Facts, Thread},
};

/// Questions without an answer, one behind the other, before a server that traffic has not heard
/// of either is down.
const MISSES_MAX: u32 = 3;
/// Time-outs before a server is suspected; a refused connection is enough by itself.
const SUSPECT_TIMEOUTS: u32 = 2;

/// The least time between two questions to a server that has not answered several, and how long
/// the statements that it has answered speak for it beside questions that take too long, ms.
pub(super) const SILENT_MS: u64 = 3_000;

/// How long a replica may be without its source while that answers, before it says nothing of it
/// any more: more than the minute after which it tries again by default, ms.
const DEAF_MS: u64 = 90_000;

/// A question that is not answered for so long may fail: from then on it is of interest whether
/// the server answers statements, ms.
const LONG_MS: u64 = 100;

/// Whether a server can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nobody has tried.
    Unknown,
    /// It answers.
    Up,
    /// It has failed to, lately.
    Suspect,
    /// It does not, neither to questions nor to statements.
    Down,
}

impl Reach {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Suspect => "suspect",
            Self::Down => "down",
        }
    }
}

/// Questions that were not answered since the last answer.
#[derive(Debug, Clone, Copy, Default)]
struct Misses {
    refused: u32,
    timed_out: u32,
    /// When the first one failed, ms.
    since_ms: u64,
    /// When the last one failed, ms.
    last_ms: u64,
}

/// What the decision remembers of a member.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    pub(super) is_reader: bool,
    /// It is one of several writers.
    pub(super) is_writer: bool,
    /// It would write if one of them failed.
    pub(super) is_backup: bool,
    /// It does not serve its group.
    pub(super) is_out: bool,
    /// It takes writes, and must not get any.
    pub(super) is_fenced: bool,
    /// An operator works on it.
    pub(super) is_away: bool,
    /// Another one was promoted in its place: until it replicates again it becomes the writer only
    /// if every other member follows it.
    pub(super) is_replaced: bool,
    /// It has been the writer.
    pub(super) has_written: bool,
    /// That it is a replica that takes writes was told.
    pub(super) is_told: bool,
    /// The earlier member that is the same server.
    pub(super) alias_of: Option<HostId>,
    /// It has replicated from a member, or one from it.
    pub(super) has_relatives: bool,
}

impl Marks {
    pub(super) fn places(self) -> Places {
        Places {
            writes: self.is_writer,
            backs_up: self.is_backup,
            reads: self.is_reader,
            is_out: self.is_out,
        }
    }
}

/// One member.
#[derive(Debug, Clone)]
pub(super) struct Host {
    pub(super) endpoint: Endpoint,
    pub(super) listed: Listed,
    pub(super) reach: Reach,
    /// What it said last, whenever that was.
    pub(super) facts: Option<Facts>,
    /// When it was asked for what has come last, an answer or none, ms.
    pub(super) asked_ms: u64,
    /// When it was asked for the facts that are known, ms.
    pub(super) told_ms: u64,
    /// Since when it has told of the sources that it has, by the questions, ms.
    pub(super) sources_ms: u64,
    /// Since when it has said each time that it is connected to no source, by the questions, ms.
    unheard_ms: Option<u64>,
    misses: Misses,
    /// When a statement was answered last, ms.
    traffic_ms: Option<u64>,
    /// When it is asked next, ms.
    pub(super) due_ms: u64,
    /// When it was asked and has not answered yet, ms.
    pub(super) pending_ms: Option<u64>,
    /// Since when it takes writes, without a break, ms.
    pub(super) writable_ms: Option<u64>,
    pub(super) marks: Marks,
    /// Why it can't be asked.
    pub(super) trouble: Option<String>,
}

/// A change of what is known of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Down(String),
    Up(&'static str),
    Unfenced,
    Trouble(String),
}

impl Change {
    pub(super) fn event(self, host: HostId, is_writer: bool) -> Event {
        let (kind, evidence) = match self {
            Self::Down(why) if is_writer => (EventKind::MasterDown, why),
            Self::Down(why) => (EventKind::SlaveDown, why),
            Self::Up(how) if is_writer => (EventKind::MasterUp, how.to_owned()),
            Self::Up(how) => (EventKind::SlaveUp, how.to_owned()),
            Self::Unfenced => (EventKind::Unfenced, "it is read-only now".to_owned()),
            Self::Trouble(why) => (EventKind::Trouble, why),
        };
        Event { kind, host: Some(host), evidence }
    }
}

fn receives(facts: &Facts) -> bool {
    facts.sources.iter().any(|source| source.receives != Thread::Stopped)
}

impl Host {
    pub(super) fn new(now_ms: u64, endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            listed: Listed::default(),
            reach: Reach::Unknown,
            facts: None,
            asked_ms: 0,
            told_ms: 0,
            sources_ms: 0,
            unheard_ms: None,
            misses: Misses::default(),
            traffic_ms: None,
            due_ms: now_ms,
            pending_ms: None,
            writable_ms: None,
            marks: Marks::default(),
            trouble: None,
        }
    }

    /// Whether it is certainly a server of this cluster: the configuration names it, or replication
    /// does. Where a replica says that it is (`report_host`) may be another cluster's server.
    pub(super) fn is_related(&self) -> bool {
        self.listed.is_named || self.marks.has_relatives
    }

    /// Whether it takes writes; `None` when it has not told yet.
    pub(super) fn is_writable(&self) -> Option<bool> {
        self.facts.as_ref().map(|facts| facts.is_writable)
    }

    /// Whether it is up and takes writes, and what that means is not decided.
    pub(super) fn is_writable_now(&self) -> bool {
        self.reach == Reach::Up && self.may_be_writable()
    }

    /// Whether it takes writes for all that is known: it has said so and is not down.
    pub(super) fn may_be_writable(&self) -> bool {
        let is_first_name = self.marks.alias_of.is_none();
        let is_there = self.reach != Reach::Down && !self.marks.is_away;
        is_there && self.is_writable() == Some(true) && is_first_name
    }

    /// Whether everything is known of it that can be at the beginning.
    pub(super) fn is_settled(&self) -> bool {
        match self.reach {
            Reach::Down => true,
            Reach::Up => self.facts.is_some() || self.trouble.is_some(),
            Reach::Unknown | Reach::Suspect => false,
        }
    }

    /// It has told, when it was asked at `self.asked_ms`.
    pub(super) fn told(&mut self, facts: Facts) -> Vec<Change> {
        let mut changes: Vec<_> = self.answers("it answers questions").into_iter().collect();
        self.trouble = None;
        self.told_ms = self.asked_ms;
        let known = self.facts.iter().flat_map(|facts| &facts.sources);
        if !known.map(|it| &it.endpoint).eq(facts.sources.iter().map(|it| &it.endpoint)) {
            self.sources_ms = self.asked_ms;
        }
        let hears = facts.sources.iter().any(|source| source.receives == Thread::Connected);
        self.unheard_ms = (!hears).then(|| self.unheard_ms.unwrap_or(self.asked_ms));
        match facts.is_writable {
            true => self.writable_ms = self.writable_ms.or(Some(self.asked_ms)),
            false => {
                self.writable_ms = None;
                self.marks.is_told = false;
                // It may begin to take writes again while its successor is down.
                self.marks.is_replaced &= !receives(&facts);
                if std::mem::take(&mut self.marks.is_fenced) {
                    changes.push(Change::Unfenced);
                }
            }
        }
        self.facts = Some(facts);
        changes
    }

    /// Whether it replicates from anybody, or tries to, as far as it has told.
    pub(super) fn has_source(&self) -> bool {
        self.facts.as_ref().is_some_and(receives)
    }

    /// It has not told.
    pub(super) fn missed(&mut self, now_ms: u64, miss: Miss) -> Vec<Change> {
        if self.misses.refused + self.misses.timed_out == 0 {
            self.misses.since_ms = now_ms;
        }
        // Where nobody listens any more, what was answered before the last question says nothing;
        // a question that takes long is no sign against statements of a moment ago.
        let alive_since_ms = match &miss {
            Miss::Refused(_) => self.misses.last_ms,
            Miss::TimedOut | Miss::Denied(_) => now_ms.saturating_sub(SILENT_MS),
        };
        let why = match miss {
            Miss::Refused(why) => {
                self.misses.refused += 1;
                why
            }
            Miss::TimedOut => {
                self.misses.timed_out += 1;
                "it does not answer in time".to_owned()
            }
            Miss::Denied(why) => {
                let mut changes: Vec<_> = self.answers("it answers").into_iter().collect();
                if self.trouble.as_ref() != Some(&why) {
                    changes.push(Change::Trouble(why.clone()));
                    self.trouble = Some(why);
                }
                return changes;
            }
        };
        self.misses.last_ms = now_ms;
        self.suspect(alive_since_ms, why).into_iter().collect()
    }

    /// What workers have seen.
    pub(super) fn seen_by_traffic(&mut self, now_ms: u64, evidence: Evidence) -> Option<Change> {
        match evidence {
            Evidence::Answered => {
                self.traffic_ms = Some(now_ms);
                match self.reach {
                    Reach::Up | Reach::Suspect | Reach::Down => {
                        self.answers("it answers statements")
                    }
                    Reach::Unknown => None,
                }
            }
            Evidence::Refused => {
                if self.reach == Reach::Up {
                    self.reach = Reach::Suspect;
                }
                self.due_ms = self.due_ms.min(now_ms + self.patience_ms());
                None
            }
            Evidence::ReadOnly => {
                self.due_ms = now_ms;
                None
            }
        }
    }

    /// Whether statements that it answers would say something of it.
    pub(super) fn wants_answers(&self, now_ms: u64) -> bool {
        let is_late = self.pending_ms.is_some_and(|since_ms| now_ms >= since_ms + LONG_MS);
        self.reach != Reach::Up || self.misses.refused + self.misses.timed_out > 0 || is_late
    }

    /// The least time between two questions, ms. One that is silent is not asked as often as one
    /// that refuses: when it goes on, each connection that was given up counts as an error of this
    /// host, and servers shut out hosts that have too many (`max_connect_errors`).
    pub(super) fn patience_ms(&self) -> u64 {
        if self.misses.timed_out >= MISSES_MAX { SILENT_MS } else { 0 }
    }

    fn answers(&mut self, how: &'static str) -> Option<Change> {
        self.misses = Misses::default();
        let before = std::mem::replace(&mut self.reach, Reach::Up);
        (before == Reach::Down).then_some(Change::Up(how))
    }

    /// A question failed. A server that has answered statements after `alive_since_ms` is not down.
    fn suspect(&mut self, alive_since_ms: u64, why: String) -> Option<Change> {
        let Misses { refused, timed_out, .. } = self.misses;
        let answers_others = self.traffic_ms.is_some_and(|at_ms| at_ms > alive_since_ms);
        if refused + timed_out >= MISSES_MAX && !answers_others {
            let before = std::mem::replace(&mut self.reach, Reach::Down);
            return (before != Reach::Down).then_some(Change::Down(why));
        }
        let is_suspect = refused > 0 || timed_out >= SUSPECT_TIMEOUTS;
        if is_suspect && self.reach == Reach::Up {
            self.reach = Reach::Suspect;
        }
        None
    }

    /// Whether it refuses connections, or cuts them, and has done nothing else since.
    pub(super) fn refuses(&self) -> bool {
        self.misses.refused > 0 && self.misses.timed_out == 0
    }

    /// Whether it had not heard of its source for long when that answered last: its replication is
    /// broken, and says nothing of whether the source lives.
    pub(super) fn is_deaf(&self, source: &Self) -> bool {
        self.unheard_ms.is_some_and(|since_ms| source.told_ms >= since_ms + DEAF_MS)
    }

    /// When the first question failed since the last answer, ms.
    pub(super) fn missing_since_ms(&self) -> u64 {
        self.misses.since_ms
    }
}
