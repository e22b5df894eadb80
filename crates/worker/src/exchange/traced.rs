//! What is left of a statement for its spans: whether it has any, whose part they are, and when
//! its stages were (`docs/decisions/0090`). Nothing here is done while no collector is configured.

use std::fmt::Write;

use trunkline_protocol::{
    codec::frame::HEADER_LEN,
    command::{attributes::Given, code},
    packet::greeting::Flavor,
    response::Outcome,
};
use trunkline_sql::traceparent::{Found, TraceParent};
use trunkline_stats::span::{Marks, Moments, Sampled, Short, SpanCommand, SpanRecord};
use trunkline_topology::{Address, Ratio};

use crate::{
    clients::client::{Client, Purpose, Session, Statement},
    rooms::Exchange,
    servers::conn::Conn,
};

/// The query attribute that names a parent.
const ATTRIBUTE: &[u8] = b"traceparent";

/// What decides whether a statement has spans.
#[derive(Debug, Clone, Copy)]
struct Sampling {
    parent: Option<TraceParent>,
    /// Whether the parent's flag decides.
    follows_parent: bool,
    ratio: Ratio,
    chance: u64,
    took_us: u64,
    /// 0 is none.
    slow_us: u64,
    /// Whether it has failed, and that counts.
    has_failed: bool,
}

impl Sampling {
    /// Why it has spans, if it has. What was decided at its head goes before what came of it.
    fn why(&self) -> Option<Sampled> {
        let at_head = match self.parent.filter(|_| self.follows_parent) {
            Some(parent) => parent.is_sampled.then_some(Sampled::Parent),
            None => self.ratio.takes(self.chance).then_some(Sampled::Ratio),
        };
        let is_slow = self.slow_us != 0 && self.took_us >= self.slow_us;
        at_head.or(self.has_failed.then_some(Sampled::Failed)).or(is_slow.then_some(Sampled::Slow))
    }
}

/// Records that wait for the end of the batch; more are lost.
const RECORDS_MAX: usize = 256;

/// Records of this batch's statements, and where their numbers come from.
#[derive(Debug)]
pub(crate) struct Spans {
    pub(crate) records: Vec<SpanRecord>,
    chance: u64,
}

impl Spans {
    pub(crate) fn new(seed: u64) -> Self {
        Self { records: Vec::new(), chance: seed }
    }

    /// A number by chance. Source: Steele et al., "Fast Splittable Pseudorandom Number Generators".
    fn draw(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut drawn = self.chance;
        drawn = (drawn ^ drawn >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        drawn = (drawn ^ drawn >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        drawn ^ drawn >> 31
    }

    /// The number of a trace; never 0, which is none.
    fn trace(&mut self) -> [u8; 16] {
        let number = u128::from(self.draw()) << 64 | u128::from(self.draw());
        number.max(1).to_be_bytes()
    }

    /// The number of a span; never 0, which is none.
    fn span(&mut self) -> [u8; 8] {
        self.draw().max(1).to_be_bytes()
    }

    /// Keeps a record; false where there is no room.
    fn keep(&mut self, record: SpanRecord) -> bool {
        if self.records.capacity() == 0 {
            self.records.reserve_exact(RECORDS_MAX);
        }
        let has_room = self.records.len() < RECORDS_MAX;
        if has_room {
            self.records.push(record);
        }
        has_room
    }
}

impl Exchange {
    /// Writes down what is wanted of a statement that has ended: lines of logs, a record for its
    /// spans. `server` is the one that has answered it, on `conn`.
    #[cold]
    pub(super) fn watch(
        &mut self,
        client: &Client,
        statement: &Statement,
        server: Option<usize>,
        conn: Option<&Conn>,
        outcome: Option<&Outcome>,
        error: Option<u16>,
    ) {
        let error = error.or(outcome.and_then(|outcome| Some(outcome.error.as_ref()?.code)));
        self.log_query(client, statement, server, outcome, error);
        if self.core.env.snapshot.settings.trace_otlp.is_some() && !client.is_mirror {
            self.trace(client, statement, conn, outcome, error);
        }
    }

    fn trace(
        &mut self,
        client: &Client,
        statement: &Statement,
        conn: Option<&Conn>,
        outcome: Option<&Outcome>,
        error: Option<u16>,
    ) {
        let session = &*client.session;
        let parent = match parent_of(statement, session) {
            Found::Parent(parent) => Some(parent),
            Found::None => None,
            Found::Wrong => {
                self.core.fx.stats.counters.trace_parents_ignored += 1;
                None
            }
        };
        let settings = &self.core.env.snapshot.settings;
        let user = &session.login.user;
        let by_rule = statement.target.directives.written.trace_sample;
        let now_us = self.core.env.now.us;
        let sampling = Sampling {
            parent,
            follows_parent: settings.trace_follow_parent,
            ratio: by_rule.or(user.trace_sample).unwrap_or(settings.trace_sample),
            chance: self.core.fx.spans.draw(),
            took_us: now_us.saturating_sub(statement.command.begun_us),
            slow_us: settings.trace_slow_ms.saturating_mul(1_000),
            has_failed: settings.trace_failed && error.is_some(),
        };
        let Some(why) = sampling.why() else { return };
        let Some(record) = self.record_of(client, session, statement, conn) else { return };
        let spans = &mut self.core.fx.spans;
        let record = SpanRecord {
            trace: parent.map_or_else(|| spans.trace(), |parent| parent.trace),
            span: spans.span(),
            parent: parent.map(|parent| parent.span),
            why,
            error,
            rows_sent: outcome.map_or(0, |outcome| outcome.rows),
            rows_affected: outcome.map_or(0, |outcome| outcome.affected_rows),
            is_cached: statement.target.hostgroup.0 == trunkline_stats::HOSTGROUP_CACHE,
            ..record
        };
        let is_kept = spans.keep(record);
        let counters = &mut self.core.fx.stats.counters;
        counters.trace_statements += 1;
        counters.trace_ring_full += u64::from(!is_kept);
    }

    /// Who, what, where and when.
    fn record_of(
        &self,
        client: &Client,
        session: &Session,
        statement: &Statement,
        conn: Option<&Conn>,
    ) -> Option<SpanRecord> {
        let known = statement.meaning.known.as_ref()?;
        let settings = &self.core.env.snapshot.settings;
        let sent = &statement.sent;
        let default_retries = settings.query_retries_on_failure;
        let marks = Marks {
            begun_us: statement.command.begun_us,
            login_us: conn.map_or(0, |conn| conn.login.login_us),
            ready_us: conn.map_or(0, |conn| conn.login.ready_us),
            assigned_us: sent.assigned_us,
            sent_us: sent.sent_us,
            answered_us: sent.answered_us,
            ended_us: self.core.env.now.us,
        };
        let slot = conn.and_then(|conn| self.core.servers.pool.slot(conn.slot));
        let (server, port) = match slot.map(|slot| &slot.server.key.address) {
            Some(Address::Tcp { host, port }) => (Short::of(host.as_bytes()), *port),
            Some(Address::Unix(path)) => {
                let mut shown = Short::default();
                // It is cut where it is too long, which is no error.
                let _ = write!(shown, "{}", path.display());
                (shown, 0)
            }
            None => (Short::default(), 0),
        };
        let mut tables = known.analysis.references.tables.iter().map(|it| &it.name);
        let table = tables.next().filter(|first| tables.all(|other| other == *first));
        let kept = session.transaction.kept.as_ref();
        Some(SpanRecord {
            command: match statement.command.purpose {
                Purpose::Prepare => SpanCommand::Prepare,
                Purpose::Execute => SpanCommand::Execute,
                _ => SpanCommand::Query,
            },
            operation: known.analysis.kind.name(),
            moments: Moments::of(&marks),
            client: client.origin.number,
            hostgroup: statement.target.hostgroup.0,
            rule: statement.target.directives.written.rule,
            digest: known.digest,
            is_mariadb: session.flavor() == Flavor::MariaDb,
            has_server: conn.is_some(),
            server,
            port,
            user: Short::of(session.login.user.name.as_bytes()),
            schema: Short::of(session.settings.state.schema.name()),
            table: table.map_or_else(Short::default, |table| Short::of(&table.table)),
            text: match settings.trace_text {
                true => Short::of(&known.digest_text),
                false => Short::default(),
            },
            retries: statement.retries_used(default_retries),
            replays: kept.map_or(0, |kept| kept.attempts),
            ..SpanRecord::default()
        })
    }
}

/// What a statement says of its parent: a query attribute goes before a comment.
fn parent_of(statement: &Statement, session: &Session) -> Found {
    let frames = &statement.command.frames;
    let command = frames.get(HEADER_LEN).copied().unwrap_or_default();
    match (statement.attribute(session, ATTRIBUTE).and_then(Given::text), command) {
        (Some(value), _) => TraceParent::parse(value).map_or(Found::Wrong, Found::Parent),
        // What is in the text of an execution is of when it was prepared.
        (None, code::QUERY | code::STMT_PREPARE) => {
            TraceParent::find(frames.get(HEADER_LEN + 1..).unwrap_or_default())
        }
        (None, _) => Found::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Sampling = Sampling {
        parent: None,
        follows_parent: true,
        ratio: Ratio::NONE,
        chance: 0,
        took_us: 10,
        slow_us: 0,
        has_failed: false,
    };

    fn with_parent(is_sampled: bool) -> Sampling {
        let parent = TraceParent { trace: [1; 16], span: [2; 8], is_sampled };
        Sampling { parent: Some(parent), ..PLAIN }
    }

    #[test]
    fn the_head_decides_by_the_parent_or_by_chance() {
        assert_eq!(PLAIN.why(), None);
        assert_eq!(Sampling { ratio: Ratio::ALL, ..PLAIN }.why(), Some(Sampled::Ratio));
        let half = Sampling { ratio: Ratio::of_millionths(500_000), ..PLAIN };
        assert_eq!(half.why(), Some(Sampled::Ratio));
        assert_eq!(Sampling { chance: u64::MAX, ..half }.why(), None);
        assert_eq!(with_parent(true).why(), Some(Sampled::Parent));
        // A parent that is not sampled has no children, whatever the ratio.
        assert_eq!(Sampling { ratio: Ratio::ALL, ..with_parent(false) }.why(), None);
        let own = Sampling { follows_parent: false, ..with_parent(true) };
        assert_eq!(own.why(), None);
        assert_eq!(Sampling { ratio: Ratio::ALL, ..own }.why(), Some(Sampled::Ratio));
    }

    #[test]
    fn what_was_slow_or_failed_is_told_of_all_the_same() {
        let failed = Sampling { has_failed: true, ..with_parent(false) };
        assert_eq!(failed.why(), Some(Sampled::Failed));
        let slow = Sampling { slow_us: 10, ..with_parent(false) };
        assert_eq!(slow.why(), Some(Sampled::Slow));
        assert_eq!(Sampling { slow_us: 11, ..slow }.why(), None);
        assert_eq!(Sampling { has_failed: true, ..slow }.why(), Some(Sampled::Failed));
        let sampled = Sampling { slow_us: 10, has_failed: true, ..with_parent(true) };
        assert_eq!(sampled.why(), Some(Sampled::Parent));
    }

    #[test]
    fn numbers_differ_and_records_are_bounded() {
        let mut spans = Spans::new(7);
        let (a, b) = (spans.trace(), spans.trace());
        assert!(a != b && spans.span() != spans.span());
        assert_ne!(Spans::new(8).trace(), a);
        let record = SpanRecord::default();
        let kept = (0..RECORDS_MAX + 3).filter(|_| spans.keep(record)).count();
        assert_eq!((kept, spans.records.capacity()), (RECORDS_MAX, RECORDS_MAX));
    }
}
