//! Hints: settings for one statement, written in its comments. They override what the rules
//! decided.
//!
//! Two forms are read: ProxySQL's in the first `/* */` comment
//! (`/* hostgroup=3;query_timeout=500 */`), and MaxScale's routing hint in the first comment of
//! any kind that has one (`-- maxscale route to slave`).

use crate::token::{Modes, Tokens};

/// What the comments of a statement ask for; `None` where they ask for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hints {
    /// `hostgroup`: where to send the statement.
    pub hostgroup: Option<u32>,
    /// `cache_ttl`, in milliseconds.
    pub cache_ttl_ms: Option<u32>,
    /// `query_delay`, in milliseconds.
    pub delay_ms: Option<u32>,
    /// `query_retries`.
    pub retries: Option<u32>,
    /// `query_timeout`, in milliseconds.
    pub timeout_ms: Option<u32>,
    /// `mirror`: the hostgroup that gets a copy.
    pub mirror_hostgroup: Option<u32>,
    /// `max_lag_ms`, up to [`LAG_MS_MAX`].
    pub max_lag_ms: Option<u32>,
    /// `min_epoch_ms`: the server must have all that was written before this time, in
    /// milliseconds since 1970.
    pub min_epoch_ms: Option<u64>,
    /// `min_gtid`, as written.
    pub min_gtid: Option<Vec<u8>>,
    /// `trunkline_token`, as written.
    pub token: Option<Vec<u8>>,
    /// `causal_reads`, as written.
    pub causal_reads: Option<Vec<u8>>,
    /// `create_new_connection=1`.
    pub creates_connection: bool,
    /// MaxScale's `route to`.
    pub route: Option<RouteHint>,
}

/// MaxScale's `route to`. Source: MaxScale documentation, "Hint syntax".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteHint {
    /// `route to master`.
    Master,
    /// `route to slave`.
    Slave,
    /// `route to server x`.
    Server(Vec<u8>),
}

/// The greatest lag, in milliseconds, that `max_lag_ms` may ask for; more is ignored.
pub const LAG_MS_MAX: u32 = 600_000;

/// The hint of this name is looked for in so many bytes, which is more than any that is written by
/// hand.
const OPTIMIZER_HINT_MAX: usize = 4_096;

/// What MySQL's hint `MAX_EXECUTION_TIME(ms)` says of a `SELECT`; `None` without one, and for 0,
/// which is no limit. Source: MySQL manual, "Statement Execution Time Optimizer Hints".
pub fn max_execution_time_ms(text: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"MAX_EXECUTION_TIME";
    let text = text.trim_ascii_start();
    let (verb, rest) = text.split_at_checked(b"SELECT".len())?;
    let hint = rest.trim_ascii_start().strip_prefix(b"/*+")?;
    let hint = hint.get(..OPTIMIZER_HINT_MAX).unwrap_or(hint);
    let end = hint.windows(2).position(|pair| pair == b"*/")?;
    let hint = hint.get(..end).filter(|_| verb.eq_ignore_ascii_case(b"SELECT"))?;
    let at = hint.windows(NAME.len()).position(|part| part.eq_ignore_ascii_case(NAME))?;
    let value = hint.get(at + NAME.len()..)?.trim_ascii_start().strip_prefix(b"(")?;
    let end = value.iter().position(|byte| *byte == b')')?;
    let number = std::str::from_utf8(value.get(..end)?.trim_ascii()).ok()?;
    number.parse().ok().filter(|ms| *ms > 0)
}

impl Hints {
    /// Reads the hints of a statement, of which `first_comment` is what stands in its first
    /// `/* */` comment, as its digest found it. Takes time linear in the length.
    pub fn find(text: &[u8], first_comment: Option<&[u8]>, modes: &Modes) -> Self {
        let mut hints = first_comment.map(Self::parse).unwrap_or_default();
        if has_maxscale(text) {
            hints.route = find_route(text, modes);
        }
        hints
    }

    /// Reads the content of a comment, without `/*` and `*/`.
    ///
    /// Parts are separated by `;`; a part that is no known key with a value of its type is
    /// ignored, as most comments are no hints.
    pub fn parse(comment: &[u8]) -> Self {
        let mut hints = Self::default();
        for part in comment.split(|byte| *byte == b';') {
            if let Some(equals) = memchr::memchr(b'=', part) {
                let (key, value) = part.split_at(equals);
                let value = value.get(1..).unwrap_or_default();
                hints.set(&key.trim_ascii().to_ascii_lowercase(), value.trim_ascii());
            }
        }
        hints
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it says what a read on a replica has to see.
    pub fn is_causal(&self) -> bool {
        self.min_gtid.is_some()
            || self.token.is_some()
            || self.max_lag_ms.is_some()
            || self.causal_reads.is_some()
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        let number = number(value);
        let small = number.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        let field = match key {
            b"hostgroup" => &mut self.hostgroup,
            b"cache_ttl" => &mut self.cache_ttl_ms,
            b"query_delay" => &mut self.delay_ms,
            b"query_retries" => &mut self.retries,
            b"query_timeout" => &mut self.timeout_ms,
            b"mirror" => &mut self.mirror_hostgroup,
            b"max_lag_ms" => {
                self.max_lag_ms = small.filter(|lag| *lag <= LAG_MS_MAX).or(self.max_lag_ms);
                return;
            }
            b"min_epoch_ms" => {
                self.min_epoch_ms = number.or(self.min_epoch_ms);
                return;
            }
            b"min_gtid" if !value.is_empty() => {
                self.min_gtid = Some(value.to_vec());
                return;
            }
            b"trunkline_token" if !value.is_empty() => {
                self.token = Some(value.to_vec());
                return;
            }
            b"causal_reads" if !value.is_empty() => {
                self.causal_reads = Some(value.to_vec());
                return;
            }
            b"create_new_connection" => {
                self.creates_connection = number == Some(1);
                return;
            }
            _ => return,
        };
        *field = small.or(*field);
    }
}

const MAXSCALE: &[u8] = b"maxscale";

fn has_maxscale(text: &[u8]) -> bool {
    memchr::memchr2_iter(b'm', b'M', text).any(|at| {
        let word = text.get(at..at + MAXSCALE.len());
        word.is_some_and(|word| word.eq_ignore_ascii_case(MAXSCALE))
    })
}

/// Looks for a routing hint between the tokens, where only comments and white space are.
fn find_route(text: &[u8], modes: &Modes) -> Option<RouteHint> {
    let tokens = Tokens::new(text, modes).map(|token| (token.offset, token.end()));
    let mut end = 0;
    for (begin, next_end) in tokens.chain([(text.len(), text.len())]) {
        if let Some(route) = text.get(end..begin).and_then(route_in) {
            return Some(route);
        }
        end = next_end;
    }
    None
}

/// A routing hint among comments.
fn route_in(comments: &[u8]) -> Option<RouteHint> {
    let mut words = comments.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    loop {
        let word = words.next()?;
        let mark = word.iter().position(|byte| !matches!(byte, b'-' | b'#' | b'/' | b'*'));
        let word = mark.and_then(|mark| word.get(mark..)).unwrap_or_default();
        if word.eq_ignore_ascii_case(MAXSCALE) {
            break;
        }
    }
    let mut is_next =
        |wanted: &[u8]| words.next().is_some_and(|word| word.eq_ignore_ascii_case(wanted));
    if !is_next(b"route") || !is_next(b"to") {
        return None;
    }
    let mut name = || words.next().map(|word| word.strip_suffix(b"*/").unwrap_or(word));
    match name()?.to_ascii_lowercase().as_slice() {
        b"master" => Some(RouteHint::Master),
        b"slave" => Some(RouteHint::Slave),
        b"server" => Some(RouteHint::Server(name()?.to_vec())),
        _ => None,
    }
}

/// The number that `value` begins with.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(None, |number: Option<u64>, digit| {
        let number = number.unwrap_or(0).saturating_mul(10);
        Some(number.saturating_add(u64::from(digit - b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read() {
        let hints = Hints::parse(b" hostgroup=3; query_timeout = 500 ;MAX_LAG_MS=20;cache_ttl=x ");
        let expected = Hints {
            hostgroup: Some(3),
            timeout_ms: Some(500),
            max_lag_ms: Some(20),
            ..Hints::default()
        };
        assert_eq!(hints, expected);
        let hints = Hints::parse(b"causal_reads=user;x=1");
        assert_eq!(hints.causal_reads.as_deref(), Some(&b"user"[..]));
        assert!(hints.is_causal() && !Hints::parse(b"hostgroup=1").is_causal());
        let hints = Hints::parse(b"trunkline_token=t1.10,0:4-9 ;x=1");
        assert_eq!(hints.token.as_deref(), Some(&b"t1.10,0:4-9"[..]));
        assert!(hints.is_causal());
        let hints = Hints::parse(b"min_gtid=aa:1-7;create_new_connection=1;mirror=4;query_delay=9");
        let expected = Hints {
            min_gtid: Some(b"aa:1-7".to_vec()),
            creates_connection: true,
            mirror_hostgroup: Some(4),
            delay_ms: Some(9),
            ..Hints::default()
        };
        assert_eq!(hints, expected);
    }

    #[test]
    fn a_route_is_read_from_any_comment_and_from_comments_only() {
        let check = |text: &str, expected: Option<RouteHint>| {
            let hints = Hints::find(text.as_bytes(), None, &Modes::default());
            assert_eq!(hints.route, expected, "{text}");
        };
        let server = |name: &str| Some(RouteHint::Server(name.into()));
        check("SELECT 1 -- maxscale route to master", Some(RouteHint::Master));
        check("SELECT 1 # maxscale route to slave", Some(RouteHint::Slave));
        check("SELECT 1 #maxscale route to slave\n", Some(RouteHint::Slave));
        check("/* maxscale route to slave */ SELECT 1", Some(RouteHint::Slave));
        check("/*maxscale route to slave*/SELECT 1", Some(RouteHint::Slave));
        check("SELECT /* x */ 1 -- MaxScale  ROUTE to SERVER db-2\nFROM t", server("db-2"));
        check("SELECT 1 /* maxscale route to server db2*/", server("db2"));
        check("SELECT '-- maxscale route to slave'", None);
        check("SELECT `/* maxscale route to slave */` FROM t", None);
        check("SELECT 1 -- maxscale route to server", None);
        check("SELECT 1 -- maxscale route to last", None);
        check("SELECT 1 -- maxscale max_slave_replication_lag=10", None);
        check("SELECT 1 -- use maxscale", None);
    }

    #[test]
    fn both_forms_are_read_from_one_statement() {
        let text = b"/* hostgroup=2 */ SELECT 1 -- maxscale route to slave";
        let hints = Hints::find(text, Some(b" hostgroup=2 "), &Modes::default());
        assert_eq!((hints.hostgroup, hints.route), (Some(2), Some(RouteHint::Slave)));
    }

    #[test]
    fn what_is_no_hint_is_ignored() {
        for comment in [
            &b""[..],
            b"a comment",
            b"hostgroup",
            b"hostgroup=",
            b"hostgroup=-1",
            b"=3",
            b";;;",
            b"max_lag_ms=600001",
            b"hostgroup==1",
            b"\xff\x00=\xfe",
        ] {
            assert!(Hints::parse(comment).is_empty(), "{comment:?}");
        }
    }

    #[test]
    fn numbers_end_where_their_digits_do_and_do_not_overflow() {
        let hints = Hints::parse(b"hostgroup=12abc;query_timeout=99999999999999999999999");
        assert_eq!(hints.hostgroup, Some(12));
        assert_eq!(hints.timeout_ms, Some(u32::MAX));
    }

    #[test]
    fn the_time_that_a_select_may_take_is_found() {
        let of = |text: &str| max_execution_time_ms(text.as_bytes());
        assert_eq!(of("SELECT /*+ MAX_EXECUTION_TIME(1000) */ 1"), Some(1_000));
        assert_eq!(of(" select/*+ bka(t) max_execution_time( 5 ) */ a FROM t"), Some(5));
        assert_eq!(of("SELECT /*+ MAX_EXECUTION_TIME(0) */ 1"), None);
        assert_eq!(of("SELECT /* MAX_EXECUTION_TIME(7) */ 1"), None);
        assert_eq!(of("SELECT '/*+ MAX_EXECUTION_TIME(7) */'"), None);
        assert_eq!(of("UPDATE /*+ MAX_EXECUTION_TIME(7) */ t SET a = 1"), None);
        assert_eq!(of("SELECT /*+ MAX_EXECUTION_TIME(7"), None);
        assert_eq!(of("SELECT /*+ MAX_EXECUTION_TIME(-1) */ 1"), None);
    }
}
