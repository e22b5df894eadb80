//! Hostgroups that are paused, and who still holds connections there.

use trunkline_stats::{HeldConn, SessionQuery, SessionRow};

use super::{AdminService, Reply, reply::texts};
use crate::source::PausedHostgroup;

const COLUMNS: [&str; 12] = [
    "hostgroup",
    "paused_ms",
    "left_ms",
    "held",
    "session_id",
    "username",
    "client",
    "server",
    "doing",
    "reasons",
    "since_ms",
    "digest_text",
];

/// The most sessions that are looked at.
const SESSIONS_MAX: usize = 100_000;

impl AdminService {
    /// A row for each session that holds a connection in a paused hostgroup; where none does, one
    /// without a session.
    pub(super) async fn paused_hostgroups(&self) -> Reply {
        let paused = self.runtime.paused_hostgroups().await;
        if paused.is_empty() {
            return Reply::Rows(texts(&COLUMNS, Vec::new()));
        }
        let report = self.runtime.report(trunkline_stats::DigestQuery::NONE).await;
        let query = SessionQuery { rows_max: SESSIONS_MAX, pinned_only: false };
        let list = self.runtime.sessions(query).await;
        let mut rows = Vec::new();
        for paused in paused {
            let held = report.held.get(&paused.hostgroup).copied().unwrap_or_default();
            let begin = begin(&paused, held);
            let before = rows.len();
            for session in &list.sessions {
                let here = |held: &&HeldConn| held.hostgroup == paused.hostgroup;
                let holds = session.holds.iter().filter(here);
                rows.extend(holds.map(|held| [begin.clone(), holder(session, held)].concat()));
            }
            if rows.len() == before {
                let nobody = vec![String::new(); COLUMNS.len() - begin.len()];
                rows.push([begin, nobody].concat());
            }
        }
        Reply::Rows(texts(&COLUMNS, rows))
    }
}

fn begin(paused: &PausedHostgroup, held: u64) -> Vec<String> {
    vec![
        paused.hostgroup.to_string(),
        paused.since.as_millis().to_string(),
        paused.left.as_millis().to_string(),
        held.to_string(),
    ]
}

fn holder(session: &SessionRow, held: &HeldConn) -> Vec<String> {
    // What pins nothing is the statement under way.
    let (since_us, text) = match held.reasons.is_empty() {
        true => (session.doing_us, &session.digest_text),
        false => (held.held_us, &held.digest_text),
    };
    vec![
        session.id.to_string(),
        session.user.clone(),
        session.client.clone(),
        held.server.clone(),
        session.doing.clone(),
        held.reasons.join(", "),
        (since_us / 1_000).to_string(),
        text.clone(),
    ]
}
