//! `runtime_mysql_servers`: where each server serves now, and how it is.

use trunkline_config::Snapshot;
use trunkline_stats::{
    Report,
    report::{ServerRow, state_name},
};
use trunkline_store::Value;
use trunkline_topology::ServerState;

use super::numbers::{host_and_port, number, text};

/// A server in a hostgroup, as the tables name it.
type Place = (i64, String, i64);

/// How servers are now.
pub(super) struct Now {
    /// Every entry with its state.
    states: Vec<(Place, ServerState)>,
    /// Of each cluster its hostgroups, and the one in which those are shown that serve in none.
    clusters: Vec<(Vec<i64>, Option<i64>)>,
}

impl Now {
    pub(super) fn of(report: &Report, snapshot: &Snapshot) -> Self {
        let state = |row: &ServerRow| {
            let (host, port) = host_and_port(&row.address);
            ((i64::from(row.hostgroup), host, port), row.state)
        };
        let clusters = snapshot.clusters.iter().map(|cluster| {
            let hostgroups = cluster.entry.hostgroups().map(|id| i64::from(id.0)).collect();
            (hostgroups, cluster.entry.offline_hostgroup.map(|id| i64::from(id.0)))
        });
        Self { states: report.servers.iter().map(state).collect(), clusters: clusters.collect() }
    }

    /// The rows as they were loaded with what is now: servers of clusters are where they serve.
    /// As in ProxySQL, those that are `OFFLINE_HARD` are not shown.
    pub(super) fn shown(&self, loaded: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
        let mut shown: Vec<Vec<Value>> = Vec::new();
        let placed: Vec<(Place, Vec<Value>)> =
            loaded.into_iter().filter_map(|row| Some((place(&row)?, row))).collect();
        for (place, row) in &placed {
            let state = self.states.iter().find(|(of, _)| is_same(of, place));
            match state.map(|(_, state)| *state) {
                Some(ServerState::Standby | ServerState::OfflineHard) => {}
                Some(state) => shown.push(with(row, place.0, Some(state))),
                None if is_offline_hard(row) => {}
                None => shown.push(row.clone()),
            }
        }
        for ((hostgroup, host, port), state) in &self.states {
            let of = (*hostgroup, host.clone(), *port);
            let is_loaded = placed.iter().any(|(place, _)| is_same(&of, place));
            let Some((own, offline)) =
                self.clusters.iter().find(|(own, _)| own.contains(hostgroup))
            else {
                continue;
            };
            let like = placed.iter().filter(|(place, _)| own.contains(&place.0));
            let mut like = like.clone().filter(|(it, _)| it.1 == *host).chain(like);
            let Some((_, like)) = like.next() else { continue };
            let mut row = with(like, *hostgroup, Some(*state));
            if let [_, name, number_of, ..] = row.as_mut_slice() {
                *name = text(host);
                *number_of = number(*port);
            }
            match state {
                ServerState::Standby => {
                    // It is shown once, if it serves nowhere.
                    let is_first = own.first() == Some(hostgroup);
                    let serves = self.states.iter().any(|((id, at, on), state)| {
                        own.contains(id)
                            && (at, on) == (host, port)
                            && *state != ServerState::Standby
                    });
                    if let Some(offline) = offline.filter(|_| is_first && !serves) {
                        shown.push(with(&row, offline, Some(ServerState::Online)));
                    }
                }
                ServerState::OfflineHard => {}
                _ if is_loaded => {}
                _ => shown.push(row),
            }
        }
        shown
    }
}

fn place(row: &[Value]) -> Option<Place> {
    match row {
        [Value::Integer(group), Value::Text(host), Value::Integer(port), ..] => {
            Some((*group, host.clone(), *port))
        }
        _ => None,
    }
}

/// Whether both name one server; a Unix socket has no port.
fn is_same(one: &Place, other: &Place) -> bool {
    (one.0, &one.1) == (other.0, &other.1) && (one.2 == other.2 || one.1.starts_with('/'))
}

fn is_offline_hard(row: &[Value]) -> bool {
    matches!(row.get(4), Some(Value::Text(status)) if status.eq_ignore_ascii_case("OFFLINE_HARD"))
}

/// A row in another hostgroup, with another state.
fn with(row: &[Value], hostgroup: i64, state: Option<ServerState>) -> Vec<Value> {
    let mut row = row.to_vec();
    if let [group, _, _, _, status, ..] = row.as_mut_slice() {
        *group = Value::Integer(hostgroup);
        // As in ProxySQL the reason of a shun stands in the statistics.
        let state = state.map(|state| match state {
            ServerState::Lagging => ServerState::Shunned,
            other => other,
        });
        if let Some(state) = state {
            *status = text(state_name(state));
        }
    }
    row
}
