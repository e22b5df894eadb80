//! What the query log, the slow log and the audit log say. A worker says what happened; its driver
//! adds when, and another thread writes. The names are those of ProxySQL's event and audit logs in
//! JSON.

use std::{fmt::Write, sync::Arc};

use trunkline_protocol::{
    codec::frame::{HEADER_LEN, PAYLOAD_MAX},
    command::code,
    command::execute::Execution,
    command::values::{ShownValue, shown_values},
    packet::greeting::Flavor,
    response::Outcome,
};
use trunkline_stats::hostgroup_shown;

use crate::{
    Action,
    clients::client::{Client, Statement},
    clients::session::AnyClient,
    exchange::slow_log,
    json::Json,
    prepared::ClientStmt,
    rooms::{Core, Exchange},
};

/// The longest text of a statement in a line, bytes.
const TEXT_LEN_MAX: usize = 16 * 1_024;

/// A statement that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryEvent {
    /// For the slow log: whose form it is written in. `None` is for the query log.
    pub(super) slow: Option<Flavor>,
    pub(super) event: &'static str,
    pub(super) thread_id: u32,
    pub(super) username: String,
    pub(super) schemaname: String,
    pub(super) client: String,
    pub(super) hostgroup: i64,
    pub(super) server: String,
    pub(super) duration_us: u64,
    pub(super) digest: u64,
    pub(super) query: String,
    /// Of a prepared statement, where texts are shown.
    pub(super) parameters: Option<Vec<ShownValue>>,
    pub(super) rows_affected: u64,
    pub(super) rows_sent: u64,
    pub(super) errno: Option<u16>,
}

/// Something that happened to a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionEvent {
    event: &'static str,
    thread_id: u32,
    username: String,
    schemaname: String,
    client: String,
    is_encrypted: bool,
    extra: String,
}

impl QueryEvent {
    /// Whether it is for the slow log.
    pub fn is_slow(&self) -> bool {
        self.slow.is_some()
    }

    /// What is written of a statement that ended at this moment (µs of Unix time): a line of JSON,
    /// or an entry of the slow log.
    pub fn line(&self, end_us: u64) -> String {
        match self.slow {
            Some(flavor) => slow_log::entry(self, flavor, end_us),
            None => self.json(end_us),
        }
    }

    fn json(&self, end_us: u64) -> String {
        let begin_us = end_us.saturating_sub(self.duration_us);
        let mut json = Json::default();
        json.object(|json| {
            json.text("client", &self.client);
            json.text("digest", &format!("0x{:016X}", self.digest));
            json.number("duration_us", self.duration_us);
            json.text("endtime", &moment(end_us));
            json.number("endtime_timestamp_us", end_us);
            json.number("errno", self.errno.unwrap_or_default());
            json.text("event", self.event);
            json.number("hostgroup_id", self.hostgroup);
            if let Some(parameters) = &self.parameters {
                json.name("parameters");
                json.array(parameters, |json, parameter| {
                    json.object(|json| {
                        json.text("type", parameter.kind);
                        match &parameter.text {
                            Some(text) => json.text("value", text),
                            None => json.number("value", "null"),
                        }
                    });
                });
            }
            json.text("query", &self.query);
            json.number("rows_affected", self.rows_affected);
            json.number("rows_sent", self.rows_sent);
            json.text("schemaname", &self.schemaname);
            json.text("server", &self.server);
            json.text("starttime", &moment(begin_us));
            json.number("starttime_timestamp_us", begin_us);
            json.number("thread_id", self.thread_id);
            json.text("username", &self.username);
        });
        json.out
    }
}

impl SessionEvent {
    /// The line, for what happened at this moment (µs of Unix time).
    pub fn line(&self, at_us: u64) -> String {
        let mut json = Json::default();
        json.object(|json| {
            json.text("client_addr", &self.client);
            json.text("event", self.event);
            json.text("extra_info", &self.extra);
            json.text("schemaname", &self.schemaname);
            json.truth("ssl", self.is_encrypted);
            json.number("thread_id", self.thread_id);
            json.text("time", &moment(at_us));
            json.number("timestamp", at_us / 1_000);
            json.text("username", &self.username);
        });
        json.out
    }
}

impl Exchange {
    /// Puts a statement into the query log and the slow log, where it belongs there.
    pub(super) fn log_query(
        &mut self,
        client: &Client,
        statement: &Statement,
        server: Option<usize>,
        outcome: Option<&Outcome>,
        errno: Option<u16>,
    ) {
        let duration_us = self.core.env.now.us.saturating_sub(statement.command.begun_us);
        if client.is_mirror {
            return;
        }
        let is_logged = self.is_for_query_log(statement, duration_us, errno.is_some());
        let settings = &self.core.env.snapshot.settings;
        let is_slow = !settings.slow_log.is_empty()
            && duration_us >= settings.slow_log_threshold.saturating_mul(1_000);
        if !is_logged && !is_slow {
            return;
        }
        let Some(event) = self.event_of(client, statement, server) else { return };
        let event = QueryEvent {
            duration_us,
            rows_affected: outcome.map_or(0, |outcome| outcome.affected_rows),
            rows_sent: outcome.map_or(0, |outcome| outcome.rows),
            errno,
            ..event
        };
        if is_slow {
            let slow = Some(self.core.env.greeting.flavor());
            let slow = QueryEvent { slow, ..event.clone() };
            self.core.fx.act(Action::LogQuery(Box::new(slow)));
        }
        if is_logged {
            self.core.fx.act(Action::LogQuery(Box::new(event)));
        }
    }

    /// Whether a statement is in the query log, by rules, threshold and sample.
    fn is_for_query_log(
        &mut self,
        statement: &Statement,
        duration_us: u64,
        has_failed: bool,
    ) -> bool {
        let settings = &self.core.env.snapshot.settings;
        if settings.query_log.is_empty()
            || !(settings.query_log_all || statement.target.directives.written.is_logged)
            || duration_us < settings.query_log_threshold.saturating_mul(1_000)
        {
            return false;
        }
        self.statements.query_events = self.statements.query_events.wrapping_add(1);
        has_failed
            || self.statements.query_events.is_multiple_of(u64::from(settings.query_log_sample))
    }

    /// Who said what, and where it ran.
    fn event_of(
        &self,
        client: &Client,
        statement: &Statement,
        server: Option<usize>,
    ) -> Option<QueryEvent> {
        let settings = &self.core.env.snapshot.settings;
        let (session, known) = (&*client.session, statement.meaning.known.as_ref()?);
        let code = statement.command.frames.get(HEADER_LEN).copied().unwrap_or_default();
        // Of an execution the text is the prepared statement's.
        let prepared = statement
            .prepared
            .stmt_id
            .filter(|_| matches!(code, code::STMT_EXECUTE | code::STMT_BULK_EXECUTE));
        let prepared = prepared.and_then(|stmt_id| session.prepared.get(stmt_id));
        let text: &[u8] = match (settings.query_log_redact, &statement.prepared.entry, prepared) {
            (true, _, _) => &known.digest_text,
            (false, _, Some(stmt)) => &stmt.entry.text,
            (false, Some(entry), None) => &entry.text,
            (false, None, None) => {
                statement.command.frames.get(HEADER_LEN + 1..).unwrap_or_default()
            }
        };
        let shows = !settings.query_log_redact && code == code::STMT_EXECUTE;
        let parameters = prepared.filter(|_| shows);
        let parameters = parameters.and_then(|stmt| parameters_of(stmt, &statement.command.frames));
        let text = text.get(..TEXT_LEN_MAX).unwrap_or(text);
        let slot = server
            .and_then(|server| self.core.servers.pool.slots().find(|(id, _)| id.index() == server));
        let server = slot.map(|(_, slot)| slot.server.key.address.to_string());
        Some(QueryEvent {
            event: match code {
                code::STMT_PREPARE => "COM_STMT_PREPARE",
                // Of many rows of parameters none is shown.
                code::STMT_EXECUTE | code::STMT_BULK_EXECUTE => "COM_STMT_EXECUTE",
                _ => "COM_QUERY",
            },
            thread_id: client.origin.number,
            username: session.login.user.name.clone(),
            schemaname: String::from_utf8_lossy(session.settings.state.schema.name()).into_owned(),
            client: client.origin.peer.host(),
            hostgroup: hostgroup_shown(statement.target.hostgroup.0),
            server: server.unwrap_or_default(),
            digest: known.digest,
            query: String::from_utf8_lossy(text).into_owned(),
            parameters,
            ..QueryEvent::default()
        })
    }
}

impl Core {
    /// Puts something that happens to a session into the audit log, if there is one.
    pub(crate) fn log_session(
        &mut self,
        client: &impl AnyClient,
        event: &'static str,
        extra: impl FnOnce() -> String,
    ) {
        if self.env.snapshot.settings.audit_log.is_empty() {
            return;
        }
        if client.is_mirror {
            return;
        }
        let session = client.session();
        if event == CLOSED && session.is_none() {
            // It was refused, which was said.
            return;
        }
        let schema =
            session.map(|session| session.settings.state.schema.name()).unwrap_or_default();
        let event = SessionEvent {
            event,
            thread_id: client.origin.number,
            username: session.map(|session| session.login.user.name.clone()).unwrap_or_default(),
            schemaname: String::from_utf8_lossy(schema).into_owned(),
            client: client.origin.peer.host(),
            is_encrypted: client.origin.tls.is_some(),
            extra: extra(),
        };
        self.fx.act(Action::LogSession(Box::new(event)));
    }

    /// Logs a statement as a rule wants it: who, where and how, and never its text.
    pub(super) fn log_statement(
        &mut self,
        client: &mut Client,
        statement: &Statement,
        error: Option<u16>,
    ) {
        let (user, number) = (Arc::clone(&client.session.login.user), client.origin.number);
        let digest = statement.meaning.known.as_ref().map_or(0, |known| known.digest);
        let hostgroup = statement.target.hostgroup;
        let took_us = self.env.now.us.saturating_sub(statement.command.begun_us);
        self.fx.log(false, || {
            let outcome = error.map_or("ok".to_owned(), |code| format!("error {code}"));
            format!(
                "statement of client {} user {} digest {} hostgroup {hostgroup}: {outcome} in \
                 {took_us} us",
                number,
                user.name,
                trunkline_sql::digest::format(digest),
            )
        });
    }
}

/// The most parameters of a line.
const PARAMETERS_MAX: usize = 256;
/// The most bytes of one of them.
const PARAMETER_LEN_MAX: usize = 1_024;

/// The parameters of an execution, unless it is longer than a packet.
fn parameters_of(stmt: &ClientStmt, frames: &[u8]) -> Option<Vec<ShownValue>> {
    let raw = frames.get(HEADER_LEN + 5..).filter(|_| frames.len() < PAYLOAD_MAX)?;
    let execution = Execution::parse(raw, stmt.entry.params).ok()?;
    let types = execution.types.or(stmt.types.as_deref())?;
    let is_long = |at| stmt.long.as_ref().is_some_and(|long| long.has(at));
    shown_values(&execution, types, is_long, PARAMETERS_MAX, PARAMETER_LEN_MAX).ok()
}

/// A session has ended.
const CLOSED: &str = "MySQL_Client_Close";

/// A moment of Unix time in UTC: `2026-11-22 00:13:05.000123`.
pub fn moment(us: u64) -> String {
    let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{fraction:06}",
        second / 3_600,
        second / 60 % 60,
        second % 60
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates() {
        assert_eq!(moment(0), "1970-01-01 00:00:00.000000");
        assert_eq!(moment(951_782_399_000_001), "2000-02-28 23:59:59.000001");
        assert_eq!(moment(951_782_400_000_000), "2000-02-29 00:00:00.000000");
        assert_eq!(moment(1_795_305_600_999_999), "2026-11-22 00:00:00.999999");
    }

    #[test]
    fn a_line_has_the_names_of_proxysqls_log() {
        let event = QueryEvent {
            event: "COM_QUERY",
            duration_us: 1_000_000,
            parameters: Some(vec![
                ShownValue { kind: "TINY", text: Some("5".to_owned()) },
                ShownValue { kind: "VARCHAR", text: None },
            ]),
            query: "SELECT \"a\"".to_owned(),
            hostgroup: -1,
            ..QueryEvent::default()
        };
        let line = event.line(951_782_400_000_000);
        for part in [
            "\"starttime\":\"2000-02-28 23:59:59.000000\"",
            "\"endtime_timestamp_us\":951782400000000",
            "\"query\":\"SELECT \\\"a\\\"\"",
            "\"hostgroup_id\":-1",
            "\"digest\":\"0x0000000000000000\"",
            "\"parameters\":[{\"type\":\"TINY\",\"value\":\"5\"},\
             {\"type\":\"VARCHAR\",\"value\":null}]",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
}
