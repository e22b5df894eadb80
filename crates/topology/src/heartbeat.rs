//! The table in which a primary notes the time, so that its replicas show how old what they have
//! is. Its columns are pt-heartbeat's: `ts` and `server_id`.

use std::{fmt, str::FromStr};

use crate::Replication;

/// The longest name of a schema or table, characters.
const NAME_MAX: usize = 64;
/// How far the newest note of time may be ahead of the server's clock, µs. Clocks differ.
const AHEAD_MAX_US: i64 = 2_000_000;

/// Where the time is noted: `schema.table`, or nowhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeartbeatTable(Option<[Box<str>; 2]>);

impl HeartbeatTable {
    /// Whether there is one.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// What a server is asked for its lag; `None` if there is no table.
    ///
    /// Of the rows of several primaries the newest one counts: a former one notes no more. The time
    /// is that of the server's time zone, as pt-heartbeat notes it.
    pub fn question(&self) -> Option<String> {
        let table = self.quoted()?;
        Some(format!("SELECT TIMESTAMPDIFF(MICROSECOND, MAX(ts), SYSDATE(6)) FROM {table}"))
    }

    /// What a primary is asked before the time is noted there: its own time and number, which no
    /// replica may evaluate, and whether it is one.
    pub const CLOCK: &str = "SELECT DATE_FORMAT(SYSDATE(6), '%Y-%m-%dT%H:%i:%s.%f'), \
                             @@GLOBAL.server_id, @@GLOBAL.read_only";

    /// The statement that notes a primary's time. `None` if there is no table, or where the answer
    /// to [`CLOCK`](Self::CLOCK) is none, or of a server that is read-only: an account with
    /// privileges could write there all the same, and no other server would have it.
    pub fn beat(&self, [time, server_id, read_only]: [&str; 3]) -> Option<String> {
        let is_time = |c: char| c.is_ascii_digit() || "-T:.".contains(c);
        let is_number = !server_id.is_empty() && server_id.bytes().all(|it| it.is_ascii_digit());
        let may_write = matches!(read_only, "0" | "OFF");
        let may_be_noted = time.chars().all(is_time) && is_number && may_write;
        let table = self.quoted().filter(|_| may_be_noted)?;
        Some(format!("REPLACE INTO {table} (ts, server_id) VALUES ('{time}', {server_id})"))
    }

    /// The lag that an answer tells, in µs; `None` where nobody has noted a time.
    ///
    /// # Errors
    ///
    /// The newest time is not over yet, or the answer is no number.
    pub fn lag(answer: Option<&str>) -> Result<Option<Replication>, String> {
        let Some(answer) = answer else { return Ok(None) };
        let lag_us: i64 =
            answer.parse().map_err(|_| format!("its lag is no number: `{answer}`"))?;
        if lag_us < -AHEAD_MAX_US {
            let ahead_sec = lag_us.unsigned_abs() / 1_000_000;
            return Err(format!(
                "the newest heartbeat is {ahead_sec} s ahead of its clock: the clocks or time zones \
                 of the servers differ, or heartbeats are written in UTC"
            ));
        }
        let lag_us = u64::try_from(lag_us).unwrap_or_default();
        Ok(Some(Replication::Behind((lag_us + 500_000) / 1_000_000)))
    }

    fn quoted(&self) -> Option<String> {
        self.0.as_ref().map(|[schema, table]| format!("`{schema}`.`{table}`"))
    }
}

impl FromStr for HeartbeatTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let is_name = |part: &str| {
            let is_odd = |c: char| c.is_whitespace() || c.is_control() || "`'\".".contains(c);
            (1..=NAME_MAX).contains(&part.chars().count()) && !part.contains(is_odd)
        };
        match text.split_once('.').filter(|(schema, table)| is_name(schema) && is_name(table)) {
            Some((schema, table)) => Ok(Self(Some([schema.into(), table.into()]))),
            None => Err(format!("must be `schema.table`, not `{text}`")),
        }
    }
}

impl fmt::Display for HeartbeatTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some([schema, table]) => write!(f, "{schema}.{table}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_a_schema_and_a_name() {
        for text in ["", "percona.heartbeat", "a-b.c d".trim_end_matches(" d")] {
            assert_eq!(text.parse::<HeartbeatTable>().expect("a table").to_string(), text);
        }
        for text in ["heartbeat", "a.b.c", "a.", ".b", "a`b.c", "a b.c", "a.b; DROP TABLE c"] {
            let error = text.parse::<HeartbeatTable>().expect_err(text);
            assert_eq!(error, format!("must be `schema.table`, not `{text}`"));
        }
    }

    #[test]
    fn the_lag_is_rounded_to_seconds_and_what_is_ahead_is_no_lag() {
        let lag = HeartbeatTable::lag;
        let behind = |sec| Ok(Some(Replication::Behind(sec)));
        assert_eq!(lag(Some("1499999")), behind(1));
        assert_eq!(lag(Some("1500000")), behind(2));
        assert_eq!(lag(Some("-1000000")), behind(0));
        assert_eq!(lag(None), Ok(None));
        let error = lag(Some("-7200000000")).expect_err("another time zone");
        assert!(error.starts_with("the newest heartbeat is 7200 s ahead"), "{error}");
        assert!(lag(Some("x")).is_err());
    }

    #[test]
    fn only_a_time_and_a_number_are_written_and_not_where_a_server_is_read_only() {
        let table: HeartbeatTable = "s.t".parse().expect("a table");
        let time = "2026-11-28T13:45:00.000001";
        let written = format!("REPLACE INTO `s`.`t` (ts, server_id) VALUES ('{time}', 7)");
        assert_eq!(table.beat([time, "7", "0"]), Some(written));
        for answer in [["'); DROP", "7", "0"], [time, "", "0"], [time, "7", "1"], [time, "7", ""]] {
            assert_eq!(table.beat(answer), None, "{answer:?}");
        }
        assert_eq!(HeartbeatTable::default().beat([time, "7", "0"]), None);
        assert_eq!(HeartbeatTable::default().question(), None);
    }
}
