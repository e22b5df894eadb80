//! The slow log, in the form of the family's own. `mysqldumpslow` of MySQL reads nothing but
//! MySQL's, and that of MariaDB nothing but MariaDB's; `pt-query-digest` reads both.

use std::fmt::Write;

use trunkline_protocol::packet::greeting::Flavor;

use super::query_log::{QueryEvent, moment};

/// The entry of a statement that ended at this moment (µs of Unix time), without the end of its
/// last line. Times are UTC.
pub(super) fn entry(event: &QueryEvent, flavor: Flavor, end_us: u64) -> String {
    let begin_us = end_us.saturating_sub(event.duration_us);
    let head = match flavor {
        Flavor::MySql => head_of_mysql(event, end_us),
        Flavor::MariaDb => head_of_mariadb(event, end_us),
    };
    let (begin, query) = (begin_us / 1_000_000, statement(&event.query));
    format!("{head}SET timestamp={begin};\n{query};")
}

fn head_of_mysql(event: &QueryEvent, end_us: u64) -> String {
    let mut head = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(head, "# Time: {}Z", moment(end_us).replace(' ', "T"));
    let _ = writeln!(head, "{}  Id: {}", user(event), event.thread_id);
    let _ = writeln!(
        head,
        "{}  Rows_affected: {}  Schema: {}  {}",
        times(event),
        event.rows_affected,
        word(&event.schemaname),
        more(event)
    );
    head
}

fn head_of_mariadb(event: &QueryEvent, end_us: u64) -> String {
    let mut head = String::new();
    // `2026-11-28 04:11:39.000000` as `261128  4:11:39`.
    let time = moment(end_us);
    let (date, clock) = time.split_once(' ').unwrap_or_default();
    let date = date.replace('-', "");
    let clock = clock.get(..8).unwrap_or_default();
    let clock = clock.strip_prefix('0').map_or(clock.to_owned(), |clock| format!(" {clock}"));
    // Writing to a String cannot fail.
    let _ = writeln!(head, "# Time: {} {clock}", date.get(2..).unwrap_or_default());
    let _ = writeln!(head, "{}", user(event));
    let (thread, schema) = (event.thread_id, word(&event.schemaname));
    let _ = writeln!(head, "# Thread_id: {thread}  Schema: {schema}  QC_hit: No");
    let _ = writeln!(head, "{}", times(event));
    let _ = writeln!(head, "# Rows_affected: {}  {}", event.rows_affected, more(event));
    head
}

fn user(event: &QueryEvent) -> String {
    let (user, client) = (word(&event.username), word(&event.client));
    format!("# User@Host: {user}[{user}] @  [{client}]")
}

fn times(event: &QueryEvent) -> String {
    let (seconds, fraction) = (event.duration_us / 1_000_000, event.duration_us % 1_000_000);
    format!(
        "# Query_time: {seconds}.{fraction:06}  Lock_time: 0.000000  Rows_sent: {}  \
         Rows_examined: 0",
        event.rows_sent
    )
}

/// What servers do not tell.
fn more(event: &QueryEvent) -> String {
    format!(
        "Last_errno: {}  Hostgroup: {}  Server: {}  Digest: {}",
        event.errno.unwrap_or_default(),
        event.hostgroup,
        word(&event.server),
        trunkline_sql::digest::format(event.digest)
    )
}

/// A name on a line of names: what would end the line, or the name, is not in it.
fn word(name: &str) -> String {
    let is_apart = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '[' | ']');
    name.chars().map(|c| if is_apart(c) { '_' } else { c }).collect()
}

/// A statement without its last semicolon. None of its lines is taken for the head of an entry.
fn statement(text: &str) -> String {
    let text = text.trim_end().trim_end_matches(';').replace("\n#", "\n #");
    match text.starts_with('#') {
        true => format!(" {text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(query: &str) -> QueryEvent {
        QueryEvent {
            slow: Some(Flavor::MySql),
            thread_id: 7,
            username: "app".to_owned(),
            schemaname: "shop".to_owned(),
            client: "10.0.0.9".to_owned(),
            hostgroup: 10,
            server: "10.0.0.1:3306".to_owned(),
            duration_us: 2_000_001,
            rows_sent: 3,
            errno: Some(1205),
            query: query.to_owned(),
            ..QueryEvent::default()
        }
    }

    /// When the statements end: 2000-02-29 00:00:02.
    const END_US: u64 = 951_782_402_000_000;

    #[test]
    fn an_entry_has_the_form_of_mysqls() {
        let expected = "# Time: 2000-02-29T00:00:02.000000Z\n\
            # User@Host: app[app] @  [10.0.0.9]  Id: 7\n\
            # Query_time: 2.000001  Lock_time: 0.000000  Rows_sent: 3  Rows_examined: 0  \
            Rows_affected: 0  Schema: shop  Last_errno: 1205  Hostgroup: 10  \
            Server: 10.0.0.1:3306  Digest: 0x0000000000000000\n\
            SET timestamp=951782399;\n\
            SELECT 1;";
        assert_eq!(event("SELECT 1;").line(END_US), expected);
    }

    #[test]
    fn an_entry_has_the_form_of_mariadbs() {
        let expected = "# Time: 000229 13:00:02\n\
            # User@Host: app[app] @  [10.0.0.9]\n\
            # Thread_id: 7  Schema: shop  QC_hit: No\n\
            # Query_time: 2.000001  Lock_time: 0.000000  Rows_sent: 3  Rows_examined: 0\n\
            # Rows_affected: 0  Last_errno: 1205  Hostgroup: 10  Server: 10.0.0.1:3306  \
            Digest: 0x0000000000000000\n\
            SET timestamp=951829199;\n\
            SELECT 1;";
        let event = QueryEvent { slow: Some(Flavor::MariaDb), ..event("SELECT 1") };
        assert_eq!(event.line(END_US + 13 * 3_600_000_000), expected);
        assert!(event.line(END_US).starts_with("# Time: 000229  0:00:02\n"));
    }

    #[test]
    fn nothing_in_a_statement_or_a_name_begins_another_entry() {
        let mut forged = event("#a\nSELECT '\n# Time: 1\n# User@Host: root[root]'");
        forged.username = "a] \n# Time: 2".to_owned();
        let text = forged.line(END_US);
        let heads = text.lines().filter(|line| line.starts_with('#')).count();
        assert_eq!(heads, 3, "{text}");
    }
}
