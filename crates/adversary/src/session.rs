//! One session twice: through the proxy, and on a server connection of its own.

use anyhow::{Context, Result};
use trunkline_testkit::{Flavour, Trunkline};

use crate::client::{Answer, Client};
use crate::plan::{Account, Act};
use crate::stage::{SCHEMA, Stage};

/// A session and its twin.
pub struct Session {
    /// Through the proxy.
    pub proxied: Client,
    /// Directly.
    pub direct: Client,
    /// Whether the last statement left warnings or an error, those that ask for them left out.
    pub has_conditions: bool,
    /// Whether a schema could not be chosen behind a statement that left conditions: MySQL puts its
    /// error behind them, where they are on the same connection.
    pub has_mixed_conditions: bool,
    /// Whether nothing has told the flags of its transaction since a statement failed: what the
    /// proxy answers itself has those of before.
    pub has_old_flags: bool,
    /// Whether it has changed its user or was reset: MariaDB keeps the profiles of before, and goes
    /// on making them.
    pub may_keep_profiles: bool,
}

impl Session {
    pub fn begin(stage: &Stage, proxy: &Trunkline, account: Account) -> Result<Session> {
        let name = account.name();
        let login = |port| Client::login(port, name, name, SCHEMA);
        let proxied = login(proxy.port()).context("through the proxy")?;
        let direct = login(stage.direct_port())?;
        let mut session = Session {
            proxied,
            direct,
            has_conditions: false,
            has_mixed_conditions: false,
            has_old_flags: false,
            may_keep_profiles: false,
        };
        if stage.family == Flavour::MariaDb {
            session.forget_past();
        }
        Ok(session)
    }

    /// Both find the same number of rows last, and have no conditions. A new session of MariaDB has
    /// in `FOUND_ROWS()` what an ended one has left there, and behind a change of user or a reset
    /// both families keep it.
    pub fn forget_past(&mut self) {
        for client in [&mut self.proxied, &mut self.direct] {
            client.query(b"SELECT 1 FROM (SELECT 1) AS t");
        }
    }
}

/// Whether a text asks for the conditions of the statement before.
pub fn asks_for_conditions(act: &Act) -> bool {
    let (Act::Query(text) | Act::Prepared(text)) = act else { return false };
    let text = String::from_utf8_lossy(text);
    let words =
        ["SHOW WARNINGS", "SHOW ERRORS", "SHOW COUNT", "@@warning_count", "GET DIAGNOSTICS"];
    words.iter().any(|word| text.contains(word))
}

/// Whether a text shows the profiles of earlier statements.
pub fn shows_profiles(act: &Act) -> bool {
    matches!(act, Act::Query(text) | Act::Prepared(text) if text.starts_with(b"SHOW PROFILES"))
}

/// Whether answers leave conditions behind.
pub fn leaves_conditions(answers: &[Answer]) -> bool {
    answers.iter().any(|answer| match answer {
        Answer::Ok { warnings, .. } => *warnings > 0,
        Answer::Rows(rows) => rows.warnings > 0,
        Answer::Error(_) => true,
        Answer::Lost | Answer::Silent => false,
    })
}

/// Whether the proxy may answer it without a server.
pub fn is_answered_by_proxy(act: &Act) -> bool {
    matches!(act, Act::Ping | Act::Kill { .. }) || asks_for_conditions(act)
}

/// What `client` answers to an act that is a command of the protocol.
pub fn act(client: &mut Client, act: &Act, target: u32) -> Vec<Answer> {
    match act {
        Act::Query(text) | Act::Strike(text) => client.query(text),
        Act::Prepared(text) => client.prepared(text),
        Act::Close => client.close_statements(),
        Act::Reset => client.reset(),
        Act::Ping => client.ping(),
        Act::ChangeUser(name) => client.change_user(name, name, SCHEMA),
        Act::Schema(name) => client.init_db(name),
        Act::Kill { is_connection, .. } => {
            let what = if *is_connection { "CONNECTION" } else { "QUERY" };
            client.query(format!("KILL {what} {target}").as_bytes())
        }
        Act::Reconnect => Vec::new(),
    }
}
