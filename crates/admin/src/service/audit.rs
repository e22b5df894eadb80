//! Lines of the audit log, with the names of ProxySQL's.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::json;

use super::Session;
use crate::{
    control::Order,
    sql::{Command, Statement, text::Text},
};

/// Lines that are kept.
const LINES_MAX: usize = 500;
/// Of these, lines of failed logins: whoever guesses passwords pushes out other guesses, and not
/// what administrators did.
const FAILED_MAX: usize = 100;
/// The longest line that is kept, in bytes.
const LINE_LEN_MAX: usize = 4_096;

/// The last lines, for whoever looks at the console.
#[derive(Default)]
pub(super) struct Audited(Mutex<VecDeque<String>>);

impl Audited {
    pub(super) fn keep(&self, line: &str) {
        if line.len() > LINE_LEN_MAX {
            return;
        }
        let mut lines = self.lock();
        let oldest = match is_failed_login(line) {
            true if lines.iter().filter(|it| is_failed_login(it)).count() >= FAILED_MAX => {
                lines.iter().position(|it| is_failed_login(it))
            }
            true | false => (lines.len() == LINES_MAX).then_some(0),
        };
        if let Some(oldest) = oldest {
            lines.remove(oldest);
        }
        lines.push_back(line.to_owned());
    }

    /// All of them, the oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a line tells of a failed login; the event is the only member with this text.
fn is_failed_login(line: &str) -> bool {
    line.contains("\"event\":\"Admin_Connect_ERR\"")
}

/// Whether a statement may change something, or was meant to.
pub(super) fn is_change(parsed: &Result<Statement, String>) -> bool {
    match parsed {
        Ok(Statement::Sql(text)) => {
            let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
            !lower.starts_with("select") && !lower.starts_with("pragma")
        }
        Ok(
            Statement::Command(
                Command::Help(_)
                | Command::ExplainRoute { .. }
                | Command::Switchover { is_check: true, .. },
            )
            | Statement::Empty
            | Statement::Show(_)
            | Statement::NoEffect
            | Statement::Use(_)
            | Statement::Session,
        ) => false,
        Ok(
            Statement::Move(_) | Statement::LoadUser(_) | Statement::Set(_) | Statement::Command(_),
        )
        | Err(_) => true,
    }
}

/// A statement of an administrator, without its texts: there may be passwords in them.
pub(super) fn statement_line(session: &Session, sql: &str, errno: u16) -> String {
    json!({
        "event": "Admin_Statement",
        "timestamp": unix_ms(),
        "username": session.user,
        "client_addr": session.peer,
        "thread_id": session.id,
        "schemaname": session.schema,
        "extra_info": without_texts(sql),
        "errno": errno,
    })
    .to_string()
}

/// An order on the control socket, by an account of the system.
pub(crate) fn order_line(order: &Order, account: u32, is_done: bool) -> String {
    json!({
        "event": "Control_Order",
        "timestamp": unix_ms(),
        "username": account.to_string(),
        "client_addr": "localhost",
        "extra_info": order.statement(),
        "done": is_done,
    })
    .to_string()
}

/// A login to the admin port.
pub(super) fn login_line(user: &str, peer: &str, is_encrypted: bool, is_in: bool) -> String {
    json!({
        "event": if is_in { "Admin_Connect_OK" } else { "Admin_Connect_ERR" },
        "timestamp": unix_ms(),
        "username": user,
        "client_addr": peer,
        "ssl": is_encrypted,
    })
    .to_string()
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The statement with `?` for each text, and for whatever a `SET` sets.
fn without_texts(sql: &str) -> String {
    let text = Text::new(sql);
    let words = text.as_str();
    if words.get(..4).is_some_and(|head| head.eq_ignore_ascii_case("set ")) {
        let name = words.split('=').next().unwrap_or_default();
        return format!("{}= ?", name.trim_end().to_owned() + " ");
    }
    let mut shown = String::with_capacity(words.len());
    let mut chars = words.chars().peekable();
    while let Some(char) = chars.next() {
        if !matches!(char, '\'' | '"') {
            shown.push(char);
            continue;
        }
        while let Some(inner) = chars.next() {
            // A doubled quote is one of the text.
            if inner == char && chars.next_if_eq(&char).is_none() {
                break;
            }
        }
        shown.push('?');
    }
    shown
}
