//! Hints: settings for one statement, written in its first comment.
//!
//! The form is ProxySQL's: `/* hostgroup=3;query_timeout=500 */`. They override what the rules
//! decided.

/// What the first comment of a statement asks for; `None` where it asks for nothing.
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
    /// `create_new_connection=1`.
    pub creates_connection: bool,
}

/// The greatest lag, in milliseconds, that `max_lag_ms` may ask for; more is ignored.
pub const LAG_MS_MAX: u32 = 600_000;

impl Hints {
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
            b"create_new_connection" => {
                self.creates_connection = number == Some(1);
                return;
            }
            _ => return,
        };
        *field = small.or(*field);
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
}
