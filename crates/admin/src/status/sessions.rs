//! What `trunkline sessions` prints.

use std::fmt::Write;

use trunkline_stats::{HeldConn, SessionList, SessionRow};

use super::{
    COLUMNS_MAX, line,
    table::{Align::Left, Align::Right, Column, Table},
    unit::{count, duration},
};

/// The sessions as text for a terminal; every line is at most [`COLUMNS_MAX`] characters, and
/// control characters that came from clients are replaced.
pub fn sessions_text(list: &SessionList) -> String {
    let mut text = String::new();
    let (total, pinned) = (count(list.total), count(list.pinned));
    let shown = count(u64::try_from(list.sessions.len()).unwrap_or(u64::MAX));
    line(&mut text, &format!("{total} sessions, {pinned} pinned; {shown} shown"));
    line(&mut text, &format!("server connections reset between sessions: {}", resets(list)));
    if list.sessions.is_empty() {
        return text;
    }
    let mut table = Table::new(vec![
        Column::new("id", Right),
        Column::limited("user", Left, 16),
        Column::limited("client", Left, 22),
        Column::new("tls", Left),
        Column::limited("schema", Left, 16),
        Column::new("causal", Left),
        Column::new("doing", Left),
        Column::new("for", Right),
        Column::flexible("statement", Left),
    ]);
    for row in &list.sessions {
        table.row(vec![
            row.id.to_string(),
            row.user.clone(),
            row.client.clone(),
            version(&row.tls),
            row.schema.clone(),
            named(&row.causal_reads),
            row.doing.clone(),
            duration(row.doing_us),
            row.digest_text.clone(),
        ]);
    }
    text.push('\n');
    text.push_str(&table.render(COLUMNS_MAX));
    held(&mut text, &list.sessions);
    text
}

/// How many were reset, by reason.
fn resets(list: &SessionList) -> String {
    let counted = list.resets.iter().map(|(reason, resets)| format!("{reason} {}", count(*resets)));
    match list.resets.is_empty() {
        true => "none".to_owned(),
        false => counted.collect::<Vec<_>>().join(", "),
    }
}

/// The version alone: `1.3`, or `-` in clear.
fn version(tls: &str) -> String {
    let version = tls.split_whitespace().next();
    version.map_or("-", |version| version.trim_start_matches("TLSv")).to_owned()
}

/// A word, or `-` for none.
fn named(word: &str) -> String {
    if word.is_empty() { "-".to_owned() } else { word.to_owned() }
}

/// What is held, and why.
fn held(text: &mut String, sessions: &[SessionRow]) {
    let mut table = Table::new(vec![
        Column::new("id", Right),
        Column::new("group", Right),
        Column::limited("server", Left, 24),
        Column::new("tls", Left),
        Column::limited("held for", Left, 34),
        Column::new("since", Right),
        Column::flexible("statement", Left),
    ]);
    let is_pinned = |conn: &&HeldConn| !conn.reasons.is_empty();
    for row in sessions {
        for conn in row.holds.iter().filter(is_pinned) {
            table.row(vec![
                row.id.to_string(),
                conn.hostgroup.to_string(),
                conn.server.clone(),
                version(&conn.tls),
                conn.reasons.join(", "),
                duration(conn.held_us),
                conn.digest_text.clone(),
            ]);
        }
    }
    if !table.is_empty() {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "\nPINNED");
        text.push_str(&table.render(COLUMNS_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> SessionList {
        let held = HeldConn {
            hostgroup: 10,
            server: "10.0.0.1:3306".into(),
            tls: "TLSv1.3 AES_128_GCM_SHA256".into(),
            reasons: vec!["transaction".into(), "temporary_table".into()],
            held_us: 12_000_000,
            digest: 7,
            digest_text: "CREATE TEMPORARY TABLE mine ( a INT )".into(),
        };
        let pinned = SessionRow {
            id: 5,
            user: "app".into(),
            client: "10.0.0.9".into(),
            schema: "shop\x1b[2J".into(),
            causal_reads: "bounded:250".into(),
            doing: "idle".into(),
            doing_us: 3_000_000,
            holds: vec![held],
            ..SessionRow::default()
        };
        let free = SessionRow { id: 6, doing: "running".into(), ..pinned.clone() };
        let free = SessionRow { holds: Vec::new(), digest_text: "SELECT ?".repeat(30), ..free };
        let resets = [("hidden".to_owned(), 3), ("unknown".to_owned(), 1_200)].into();
        SessionList { total: 2, pinned: 1, sessions: vec![pinned, free], resets }
    }

    #[test]
    fn pins_are_shown_with_their_reasons() {
        let text = sessions_text(&list());
        assert!(text.starts_with("2 sessions, 1 pinned; 2 shown\n"), "{text}");
        let resets = "server connections reset between sessions: hidden 3, unknown 1200\n";
        assert!(text.contains(resets), "{text}");
        let pinned = text.split_once("PINNED").expect("a table of pins").1;
        assert!(pinned.contains("transaction, temporary_table"), "{text}");
        assert!(pinned.contains("CREATE TEMPORARY TABLE"), "{text}");
        assert!(text.contains("bounded:250"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS_MAX), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
    }

    #[test]
    fn without_sessions_resets_are_told() {
        let text = "0 sessions, 0 pinned; 0 shown\n\
                    server connections reset between sessions: none\n";
        assert_eq!(sessions_text(&SessionList::default()), text);
    }
}
