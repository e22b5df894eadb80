//! Tables of `stats_history` made of the history's frames.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    ops::ControlFlow,
    path::Path,
    sync::LazyLock,
    time::Instant,
};

use trunkline_history::{Frame, Resolution, ServerLine, visit_while};
use trunkline_stats::report::{STATES, state_name};
use trunkline_store::Value;

use super::{ANONYMOUS, MAPPED, RESIDENT, SYSTEM_TICKS, USER_TICKS};
use crate::{proxysql::Figure, service::host_and_port};

/// The most rows of a table; the oldest are left out.
const ROWS_MAX: usize = 100_000;
/// How far back samples go, s, as in ProxySQL.
const SAMPLES_BACK: u64 = 7 * 86_400;
/// How far back hours and days go, s.
const HOURS_BACK: u64 = 365 * 86_400;
/// Times between samples that variables are rounded up to, s, as in ProxySQL.
const INTERVALS: [u64; 8] = [1, 5, 10, 30, 60, 120, 300, 600];

/// What the rows of a table are.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// These numbers of a frame; an empty name is 0. A frame without the first one has no row.
    Figures(&'static [&'static str]),
    /// Servers.
    Pool,
    /// `stats_mysql_global`, a row for each number.
    Variables,
    /// The names of those numbers.
    Names,
}

/// What a row is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Span {
    /// A moment: so many seconds are between two, as this variable says.
    Sample(&'static str),
    /// An hour that is over.
    Hour,
    /// A day that is over.
    Day,
}

/// One table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PastTable {
    pub(crate) name: &'static str,
    content: Content,
    span: Span,
}

const CONNECTIONS: Content = Content::Figures(&[
    "Client_Connections_aborted",
    "Client_Connections_connected",
    "Client_Connections_created",
    "Server_Connections_aborted",
    "Server_Connections_connected",
    "Server_Connections_created",
    "ConnPool_get_conn_failure",
    "ConnPool_get_conn_immediate",
    "ConnPool_get_conn_success",
    "Questions",
    "Slow_queries",
    "GTID_consistent_queries",
]);
const CPU: Content = Content::Figures(&[USER_TICKS, SYSTEM_TICKS]);
const MEMORY: Content = Content::Figures(&[ANONYMOUS, RESIDENT, ANONYMOUS, MAPPED, "", ""]);
const CACHE: Content = Content::Figures(&[
    "Query_Cache_count_GET",
    "Query_Cache_count_GET_OK",
    "Query_Cache_count_SET",
    "Query_Cache_bytes_IN",
    "Query_Cache_bytes_OUT",
    "Query_Cache_Purged",
    "Query_Cache_Entries",
    "Query_Cache_Memory_bytes",
]);
const POOLS: Content = Content::Figures(&[
    "MyHGM_myconnpoll_destroy",
    "MyHGM_myconnpoll_get",
    "MyHGM_myconnpoll_get_ok",
    "MyHGM_myconnpoll_push",
    "MyHGM_myconnpoll_reset",
]);

const BY_CONNECTIONS: Span = Span::Sample("admin-stats_mysql_connections");
const BY_POOL: Span = Span::Sample("admin-stats_mysql_connection_pool");
const BY_CACHE: Span = Span::Sample("admin-stats_mysql_query_cache");
const BY_CPU: Span = Span::Sample("admin-stats_system_cpu");
const BY_MEMORY: Span = Span::Sample("admin-stats_system_memory");

const fn table(name: &'static str, content: Content, span: Span) -> PastTable {
    PastTable { name, content, span }
}

/// Every table that is made of frames.
const TABLES: &[PastTable] = &[
    table("mysql_connections", CONNECTIONS, BY_CONNECTIONS),
    table("mysql_connections_hour", CONNECTIONS, Span::Hour),
    table("mysql_connections_day", CONNECTIONS, Span::Day),
    table("system_cpu", CPU, BY_CPU),
    table("system_cpu_hour", CPU, Span::Hour),
    table("system_cpu_day", CPU, Span::Day),
    table("system_memory", MEMORY, BY_MEMORY),
    table("system_memory_hour", MEMORY, Span::Hour),
    table("system_memory_day", MEMORY, Span::Day),
    table("mysql_query_cache", CACHE, BY_CACHE),
    table("mysql_query_cache_hour", CACHE, Span::Hour),
    table("mysql_query_cache_day", CACHE, Span::Day),
    table("myhgm_connections", POOLS, BY_CONNECTIONS),
    table("myhgm_connections_hour", POOLS, Span::Hour),
    table("myhgm_connections_day", POOLS, Span::Day),
    table("history_stats_mysql_connection_pool", Content::Pool, BY_POOL),
    table("history_mysql_status_variables", Content::Variables, BY_CONNECTIONS),
    table("history_mysql_status_variables_lookup", Content::Names, BY_CONNECTIONS),
];

/// The tables that a statement in lower case names.
pub(crate) fn named(lower: &str) -> Vec<&'static PastTable> {
    TABLES.iter().filter(|table| is_named(lower, table.name)).collect()
}

/// Whether a text has a name, and not as a part of another one.
fn is_named(lower: &str, name: &str) -> bool {
    let is_word = |char: char| char.is_alphanumeric() || char == '_';
    lower.match_indices(name).any(|(at, _)| {
        let before = lower.get(..at).unwrap_or_default().chars().next_back();
        let behind = lower.get(at + name.len()..).unwrap_or_default().chars().next();
        !before.is_some_and(is_word) && !behind.is_some_and(is_word)
    })
}

impl PastTable {
    /// The variable that says how many seconds are between two rows.
    pub(crate) fn variable(&self) -> Option<&'static str> {
        match self.span {
            Span::Sample(variable) => Some(variable),
            Span::Hour | Span::Day => None,
        }
    }
}

/// The rows of a table.
#[derive(Debug)]
struct Maker {
    table: &'static PastTable,
    resolution: Resolution,
    /// Seconds between two rows; `None` when nothing is sampled.
    interval: Option<u64>,
    /// By what they are for: later frames replace earlier ones.
    rows: BTreeMap<u64, Vec<Vec<Value>>>,
    count: usize,
}

impl Maker {
    /// `interval` is the value of [`PastTable::variable`].
    fn new(table: &'static PastTable, interval: u64) -> Self {
        let (resolution, interval) = match table.span {
            Span::Hour => (Resolution::Hour, Some(Resolution::Hour.seconds())),
            Span::Day => (Resolution::Day, Some(Resolution::Day.seconds())),
            Span::Sample(_) => {
                let up = INTERVALS.into_iter().find(|step| *step >= interval).unwrap_or(600);
                let finest = Resolution::TenSeconds.seconds();
                let resolution = match up < Resolution::Minute.seconds() {
                    true => Resolution::TenSeconds,
                    false => Resolution::Minute,
                };
                (resolution, (interval > 0).then_some(up.max(finest)))
            }
        };
        Self { table, resolution, interval, rows: BTreeMap::new(), count: 0 }
    }

    fn from(&self, now: u64) -> u64 {
        match self.table.span {
            Span::Sample(_) => now.saturating_sub(SAMPLES_BACK),
            Span::Hour | Span::Day => now.saturating_sub(HOURS_BACK),
        }
    }

    fn add(&mut self, frame: &Frame) {
        let Some(interval) = self.interval else { return };
        let (group, at) = match self.table.span {
            // Frames of a resolution lie as close as it says.
            Span::Sample(_) if interval <= self.resolution.seconds() => (frame.end(), frame.end()),
            Span::Sample(_) => (frame.end() / interval, frame.end()),
            Span::Hour | Span::Day => (frame.begin / interval, frame.begin / interval * interval),
        };
        let rows = rows_of(self.table.content, frame, at);
        self.count += rows.len();
        let replaced = self.rows.insert(group, rows);
        self.count -= replaced.map_or(0, |rows| rows.len());
        while self.count > ROWS_MAX {
            let Some((_, oldest)) = self.rows.pop_first() else { return };
            self.count -= oldest.len();
        }
    }
}

/// What a frame has for a table.
fn rows_of(content: Content, frame: &Frame, at: u64) -> Vec<Vec<Value>> {
    match content {
        Content::Figures(names) => {
            let of: HashMap<&str, u64> =
                frame.figures.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            if names.first().is_none_or(|first| !of.contains_key(first)) {
                return Vec::new();
            }
            let value = |name: &&str| number(of.get(name).copied().unwrap_or_default());
            vec![std::iter::once(number(at)).chain(names.iter().map(value)).collect()]
        }
        Content::Pool => frame.servers.iter().map(|line| pool_row(line, at)).collect(),
        Content::Variables => {
            let row = |(name, value): &(String, u64)| {
                let id = IDS.get(name.as_str())?;
                Some(vec![number(at), number(*id), Value::Text(value.to_string())])
            };
            frame.figures.iter().filter_map(row).collect()
        }
        Content::Names => Vec::new(),
    }
}

/// A server as `stats_mysql_connection_pool` shows it.
fn pool_row(line: &ServerLine, at: u64) -> Vec<Value> {
    let (host, port) = host_and_port(&line.address);
    let state = STATES.get(usize::from(line.state)).map_or("", |state| state_name(*state));
    let [opened, failed, statements, sent, received] = line.counters;
    vec![
        number(at),
        number(u64::from(line.hostgroup)),
        Value::Text(host),
        Value::Integer(port),
        Value::Text(state.to_owned()),
        number(line.used),
        number(line.idle),
        number(opened),
        number(failed),
        number(0),
        number(statements),
        number(0),
        number(sent),
        number(received),
        number(line.sums.latency.quantile(0.5)),
    ]
}

fn number(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The names of `stats_mysql_global` that frames have.
fn names() -> impl Iterator<Item = &'static str> {
    Figure::all().filter(|figure| figure.is_recorded()).map(|figure| figure.global)
}

/// Their numbers, from 1.
static IDS: LazyLock<HashMap<&'static str, u64>> = LazyLock::new(|| names().zip(1..).collect());

/// Why there are no rows.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The time was over.
    TooLong,
    /// The files can't be read.
    System(io::Error),
}

/// The rows of a table.
pub(crate) type Filled = (&'static str, Vec<Vec<Value>>);

/// Makes the rows of tables, each with the value of its variable, of the history in a folder. Each
/// resolution is read once.
pub(crate) fn read(
    folder: &Path,
    tables: &[(&'static PastTable, u64)],
    now: u64,
    deadline: Instant,
) -> Result<Vec<Filled>, Unread> {
    let mut makers: Vec<Maker> =
        tables.iter().map(|(table, interval)| Maker::new(table, *interval)).collect();
    for resolution in Resolution::ALL {
        let mut asked: Vec<&mut Maker> = makers
            .iter_mut()
            .filter(|maker| maker.resolution == resolution && maker.interval.is_some())
            .filter(|maker| !matches!(maker.table.content, Content::Names))
            .collect();
        let Some(from) = asked.iter().map(|maker| maker.from(now)).min() else { continue };
        let mut is_over = false;
        visit_while(folder, resolution, from, u64::MAX, |frame| {
            is_over = Instant::now() >= deadline;
            asked.iter_mut().for_each(|maker| maker.add(&frame));
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .map_err(Unread::System)?;
        if is_over {
            return Err(Unread::TooLong);
        }
    }
    let filled = makers.into_iter().map(|maker| match maker.table.content {
        Content::Names => {
            let row = |(id, name): (u64, &str)| vec![number(id), Value::Text(name.to_owned())];
            (maker.table.name, (1..).zip(names()).map(row).collect())
        }
        Content::Figures(_) | Content::Pool | Content::Variables => {
            (maker.table.name, maker.rows.into_values().flatten().collect())
        }
    });
    Ok(filled.collect())
}

#[cfg(test)]
mod tests;
