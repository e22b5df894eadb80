//! Takes replicas out that lag by more than their `max_replication_lag`, and brings them back.
//!
//! What is decided is in [`trunkline_topology::LagWatch`]; here servers are asked.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, watch::Receiver},
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_stats::checks::CheckKind;
use trunkline_topology::{
    Address, HeartbeatTable, LagLimit, LagWatch, Replication, Server, ServerHealth, ServerKey,
    ServerState,
};

use crate::{
    Account, Board, LearnError,
    conversation::{self, Answer, Way},
    pings::Timing,
    replication::ask_for_sources,
};

/// Servers asked together.
const LOOKS_MAX: usize = 64;
/// Bytes of one answer: a row for each source, with its last errors.
const ANSWER_LEN_MAX: usize = 4 << 20;
/// The column, by its older and its newer name.
const COLUMNS: [&[u8]; 2] = [b"Seconds_Behind_Master", b"Seconds_Behind_Source"];

/// Asks the servers that have a `max_replication_lag` every `monitor_replication_lag_interval`,
/// and when the configuration changes. Ends with whoever publishes snapshots.
pub async fn keep_measuring_lag(
    mut snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    board: Arc<Board>,
) {
    let mut lags = Lags::default();
    loop {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let begun = Instant::now();
        lags.renew(&snapshot);
        let pause = Duration::from_millis(snapshot.settings.monitor_replication_lag_interval);
        let tls = Arc::clone(&tls.borrow());
        let round = async {
            if lags.watches.is_empty() || !snapshot.settings.monitor_enabled {
                // Until there is somebody to ask.
                return std::future::pending().await;
            }
            lags.round(&snapshot, &tls, &board).await;
            sleep_until(begun + pause).await;
        };
        tokio::select! {
            changed = snapshots.changed() => if changed.is_err() { return },
            () = round => {}
        }
    }
}

/// One server entry with a limit.
struct Watched {
    server: Arc<Server>,
    watch: LagWatch,
}

/// What the loop remembers.
#[derive(Default)]
struct Lags {
    watches: HashMap<ServerKey, Watched>,
    /// What was logged last of a server that did not answer.
    trouble: HashMap<Address, String>,
}

impl Lags {
    /// Takes over the servers of a snapshot.
    fn renew(&mut self, snapshot: &Snapshot) {
        let mut before = std::mem::take(&mut self.watches);
        for server in snapshot.mysql_servers().filter(|server| server.max_replication_lag > 0) {
            let is_same = |it: &Watched| Arc::ptr_eq(&it.server.health, &server.health);
            let old = before.remove(&server.key).filter(is_same);
            let watch = old.map(|watched| watched.watch).unwrap_or_default();
            let watched = Watched { server: Arc::clone(server), watch };
            self.watches.insert(server.key.clone(), watched);
        }
        let is_watched = |address: &Address| self.watches.keys().any(|key| key.address == *address);
        self.trouble.retain(|address, _| is_watched(address));
    }

    /// Asks each server once, and judges its entries.
    async fn round(&mut self, snapshot: &Snapshot, tls: &Arc<TlsSetup>, board: &Arc<Board>) {
        let account = Account::of_monitor(snapshot, false);
        let time_max = Duration::from_millis(snapshot.settings.monitor_replication_lag_timeout);
        let mut servers: HashMap<&Address, &Arc<Server>> = HashMap::new();
        for watched in self.watches.values().filter(|it| can_be_asked(&it.server.health)) {
            servers.insert(&watched.server.key.address, &watched.server);
        }
        let turns = Arc::new(Semaphore::new(LOOKS_MAX));
        let table = &snapshot.settings.monitor_replication_lag_use_percona_heartbeat;
        let mut looks = JoinSet::new();
        for server in servers.into_values() {
            let (server, account) = (Arc::clone(server), account.clone());
            let (way, turns) = (Way::to(&server, tls), Arc::clone(&turns));
            let (board, table) = (Arc::clone(board), table.clone());
            looks.spawn(async move {
                // The semaphore is never closed, so that there always is a permit in the end.
                let _turn = turns.acquire().await;
                let timing = Timing::begin(&server.key.address);
                let looked = timeout(time_max, look_at(&server, account, &way, &table)).await;
                let seen = looked.unwrap_or_else(|_| {
                    let time_ms = time_max.as_millis();
                    Err(LearnError::new(format!("no answer within {time_ms} ms")))
                });
                let outcome = seen.as_ref().map(|seen| vec![shown(seen.lag)]);
                let outcome = outcome.map_err(ToString::to_string);
                board.checked(timing.end(CheckKind::ReplicationLag, outcome));
                (server.key.address.clone(), seen)
            });
        }
        while let Some(looked) = looks.join_next().await {
            // A look that panicked is none.
            let Ok((address, seen)) = looked else { continue };
            self.report(&address, &seen);
            if let Ok(seen) = seen {
                self.judge(snapshot, &address, seen.lag);
            }
        }
    }

    /// Logs once that a server's lag is not known, or not by its heartbeats, and why.
    fn report(&mut self, address: &Address, seen: &Result<Seen, LearnError>) {
        let reason = match seen {
            Ok(Seen { no_heartbeat: None, .. }) => {
                self.trouble.remove(address);
                return;
            }
            Ok(Seen { no_heartbeat: Some(why), .. }) => {
                format!("its heartbeats say nothing of its lag, its replication does: {why}")
            }
            Err(error) => format!("its replication lag is not known: {error}"),
        };
        if self.trouble.get(address) != Some(&reason) {
            tracing::warn!(server = %address, "{reason}");
            self.trouble.insert(address.clone(), reason);
        }
    }

    fn judge(&mut self, snapshot: &Snapshot, address: &Address, seen: Replication) {
        let settings = &snapshot.settings;
        for watched in self.watches.values_mut().filter(|it| it.server.key.address == *address) {
            let max_sec = watched.server.max_replication_lag;
            let limit = LagLimit {
                max_sec: max_sec.into(),
                unknown_sec: settings.monitor_slave_lag_when_null,
                looks: settings.monitor_replication_lag_count,
            };
            let health = &watched.server.health;
            let is_out = watched.watch.look(health.is_lagging(), seen, &limit);
            if !health.set_lagging(is_out) {
                continue;
            }
            let hostgroup = watched.server.key.hostgroup;
            match is_out {
                true => tracing::warn!(
                    "server {address} in hostgroup {hostgroup} takes no new statements: {}, and \
                     max_replication_lag is {max_sec} s",
                    words(seen)
                ),
                false => tracing::info!(
                    "server {address} in hostgroup {hostgroup} takes statements again: {}",
                    words(seen)
                ),
            }
        }
    }
}

/// The lag as ProxySQL's table has it.
fn shown(seen: Replication) -> String {
    match seen {
        Replication::Behind(lag_sec) => lag_sec.to_string(),
        Replication::Independent | Replication::Unknown => String::new(),
    }
}

fn words(seen: Replication) -> String {
    match seen {
        Replication::Independent => "it follows no other server".to_owned(),
        Replication::Behind(lag_sec) => format!("it is {lag_sec} s behind"),
        Replication::Unknown => "its replication does not run".to_owned(),
    }
}

/// Whether an operator lets it serve at all; one that is shunned may answer by now.
fn can_be_asked(health: &ServerHealth) -> bool {
    match health.state(u64::MAX) {
        ServerState::Online
        | ServerState::Shunned
        | ServerState::Lagging
        | ServerState::Standby => true,
        ServerState::OfflineSoft | ServerState::OfflineHard => false,
    }
}

/// What one look has found.
struct Seen {
    lag: Replication,
    /// Why its heartbeats did not tell it, where they should.
    no_heartbeat: Option<String>,
}

async fn look_at(
    server: &Server,
    account: Option<Account>,
    way: &Way,
    table: &HeartbeatTable,
) -> Result<Seen, LearnError> {
    let account = conversation::asker(account.as_ref())?;
    let (mut conversation, greeting) = conversation::open(server, account, way).await?;
    let beats = match table.question() {
        Some(question) => Some(heartbeat_of(conversation.ask(&question, ANSWER_LEN_MAX).await)),
        None => None,
    };
    let seen = match beats {
        Some(Ok(lag)) => Seen { lag, no_heartbeat: None },
        failed => {
            let flavor = greeting.flavor();
            let answer = ask_for_sources(&mut conversation, flavor, ANSWER_LEN_MAX).await?;
            let no_heartbeat = failed.and_then(Result::err);
            Seen { lag: replication_of(&answer)?, no_heartbeat }
        }
    };
    // The answer has come: how the server takes the farewell changes nothing.
    drop(conversation.quit().await);
    Ok(seen)
}

/// What the newest heartbeat says of a server's lag, or why nothing.
fn heartbeat_of(answer: Result<Answer, LearnError>) -> Result<Replication, String> {
    let answer = answer.map_err(|error| error.to_string())?;
    let lag_us = answer.rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
    let lag_us = lag_us.map(String::from_utf8_lossy);
    let lag = HeartbeatTable::lag(lag_us.as_deref())?;
    lag.ok_or_else(|| "nobody has written one".to_owned())
}

/// What a server that shows these rows says: of several sources the one that it is behind most.
fn replication_of(answer: &Answer) -> Result<Replication, LearnError> {
    let place = answer.columns.iter().position(|name| COLUMNS.contains(&name.as_slice()));
    let place = place.ok_or_else(|| LearnError::new("its answer has no column for the lag"))?;
    let mut most = Replication::Independent;
    for row in &answer.rows {
        let Some(text) = row.get(place).and_then(Option::as_deref) else {
            return Ok(Replication::Unknown);
        };
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        let Some(lag_sec) = number else {
            let text = String::from_utf8_lossy(text);
            return Err(LearnError::new(format!("its lag is no number: `{text}`")));
        };
        most = match most {
            Replication::Behind(before) => Replication::Behind(before.max(lag_sec)),
            Replication::Independent | Replication::Unknown => Replication::Behind(lag_sec),
        };
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(column: &[u8], values: &[Option<&str>]) -> Result<Replication, String> {
        let row = |value: &Option<&str>| {
            let value = value.map(|text| text.as_bytes().to_vec());
            vec![Some(b"Waiting for source".to_vec()), value]
        };
        let columns = vec![b"Slave_IO_State".to_vec(), column.to_vec()];
        let answer = Answer { columns, rows: values.iter().map(row).collect(), warnings: 0 };
        replication_of(&answer).map_err(|error| error.to_string())
    }

    #[test]
    fn the_worst_of_several_sources_counts() {
        for column in COLUMNS {
            assert_eq!(said(column, &[]), Ok(Replication::Independent));
            assert_eq!(said(column, &[Some("0")]), Ok(Replication::Behind(0)));
            let several = [Some("3"), Some("70"), Some("5")];
            assert_eq!(said(column, &several), Ok(Replication::Behind(70)));
            assert_eq!(said(column, &[Some("3"), None]), Ok(Replication::Unknown));
        }
    }

    #[test]
    fn an_answer_that_is_not_understood_is_none() {
        assert!(said(b"Lag", &[Some("3")]).expect_err("no column").contains("no column"));
        assert!(said(COLUMNS[0], &[Some("-1")]).expect_err("no number").contains("`-1`"));
    }
}
