//! Notes the time on primaries, so that the lag of their replicas is known also while nobody else
//! writes, and while their replication does not run.
//!
//! One connection to each, kept from beat to beat. What is asked and written is in
//! [`HeartbeatTable`].

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch::Receiver,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_topology::{Address, HeartbeatTable, ReplicationGroup, Role, Server, ServerState};

use crate::{
    Account, LearnError,
    conversation::{self, Conversation, Way},
};

/// Bytes of an answer: a time and two numbers.
const ANSWER_LEN_MAX: usize = 64 << 10;
/// How long a server may take for a beat.
const BEAT_TIME_MAX: Duration = Duration::from_secs(1);

/// Notes the time every `monitor_heartbeat_interval`, as long as there is a table for it. Ends with
/// whoever publishes snapshots.
pub async fn keep_noting_time(
    mut snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
) {
    let mut beats = Beats::default();
    loop {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let settings = &snapshot.settings;
        let every = Duration::from_millis(settings.monitor_heartbeat_interval);
        let is_on = !every.is_zero()
            && settings.monitor_enabled
            && settings.monitor_replication_lag_use_percona_heartbeat.is_on();
        let begun = Instant::now();
        let tls = Arc::clone(&tls.borrow());
        let round = async {
            if !is_on {
                return std::future::pending().await;
            }
            beats.round(&snapshot, &tls).await;
            sleep_until(begun + every).await;
        };
        tokio::select! {
            changed = snapshots.changed() => if changed.is_err() { return },
            () = round => {}
        }
    }
}

/// What the loop remembers of each primary.
#[derive(Default)]
struct Beats {
    conversations: HashMap<Address, Conversation>,
    /// What was logged last of one where the time could not be noted.
    trouble: HashMap<Address, String>,
}

impl Beats {
    async fn round(&mut self, snapshot: &Snapshot, tls: &Arc<TlsSetup>) {
        let primaries = primaries(snapshot);
        self.conversations.retain(|address, _| primaries.contains_key(address));
        self.trouble.retain(|address, _| primaries.contains_key(address));
        let account = Account::of_monitor(snapshot, false);
        let mut beats = JoinSet::new();
        for (address, server) in primaries {
            let conversation = self.conversations.remove(&address);
            let (account, way) = (account.clone(), Way::to(&server, tls));
            let table = snapshot.settings.monitor_replication_lag_use_percona_heartbeat.clone();
            beats.spawn(async move {
                let beat = beat(&server, conversation, account, &way, &table);
                let noted = timeout(BEAT_TIME_MAX, beat).await;
                let noted = noted.unwrap_or_else(|_| Err(LearnError::new("no answer in a second")));
                (address, noted)
            });
        }
        while let Some(noted) = beats.join_next().await {
            // One that panicked has noted nothing.
            if let Ok((address, noted)) = noted {
                self.note(address, noted);
            }
        }
    }

    /// Keeps the conversation, or logs once why there is none.
    fn note(&mut self, address: Address, noted: Result<Conversation, LearnError>) {
        match noted {
            Ok(conversation) => {
                self.trouble.remove(&address);
                self.conversations.insert(address, conversation);
            }
            Err(error) => {
                let reason = error.to_string();
                if self.trouble.get(&address) != Some(&reason) {
                    tracing::warn!(server = %address, "its heartbeat is not written: {reason}");
                    self.trouble.insert(address, reason);
                }
            }
        }
    }
}

/// The only server of each writer hostgroup that may be written to now, where somebody replicates
/// from it.
fn primaries(snapshot: &Snapshot) -> BTreeMap<Address, Arc<Server>> {
    let may_write = |server: &&Arc<Server>| {
        server.health.role().is_none_or(Role::is_given)
            && server.health.state(u64::MAX) == ServerState::Online
    };
    let only = |id| {
        let mut writers = snapshot.hostgroup(id)?.servers.iter().filter(may_write);
        let first = writers.next()?;
        writers.next().is_none().then(|| (first.key.address.clone(), Arc::clone(first)))
    };
    let replicates = |it: &&ReplicationGroup| it.writer_hostgroup != it.reader_hostgroup;
    let groups = snapshot.replication.iter().filter(replicates);
    groups.filter_map(|group| only(group.writer_hostgroup)).collect()
}

/// Notes the time once; the conversation to go on with.
async fn beat(
    server: &Server,
    conversation: Option<Conversation>,
    account: Option<Account>,
    way: &Way,
    table: &HeartbeatTable,
) -> Result<Conversation, LearnError> {
    let mut conversation = match conversation {
        Some(conversation) => conversation,
        None => connect(server, account, way).await?,
    };
    let answer = conversation.ask(HeartbeatTable::CLOCK, ANSWER_LEN_MAX).await?;
    let said: Vec<_> = answer.rows.into_iter().flatten().map(Option::unwrap_or_default).collect();
    let said: Vec<_> = said.iter().map(|value| String::from_utf8_lossy(value)).collect();
    let beat = match said.as_slice() {
        [time, id, read_only] => table.beat([time, id, read_only]),
        _ => None,
    };
    if let Some(beat) = beat {
        conversation.execute(&beat).await?;
    }
    Ok(conversation)
}

async fn connect(
    server: &Server,
    account: Option<Account>,
    way: &Way,
) -> Result<Conversation, LearnError> {
    let account = account.ok_or_else(|| {
        LearnError::new("nobody can write it: no user has a password that opens servers")
    })?;
    let (mut conversation, _) = conversation::open(server, &account, way).await?;
    conversation.execute("SET SESSION autocommit = 1").await?;
    Ok(conversation)
}
