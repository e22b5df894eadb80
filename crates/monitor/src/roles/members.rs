//! The members of a cluster, each on a connection of its own: asked, and claimed, so that of
//! several proxies one changes roles.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::timeout};
use trunkline_cluster::{HostId, switchover::check::Surveyed};

use super::{
    survey::{Baggage, Known, survey},
    talk::Talk,
};

/// How long claiming one server may take.
const CLAIM_TIME_MAX: Duration = Duration::from_secs(1);
/// How long taking leave of the servers may take.
const FAREWELL_TIME_MAX: Duration = Duration::from_secs(1);

/// Servers by what is said to them.
pub(super) type Talks = HashMap<HostId, Arc<Mutex<Talk>>>;

/// What members say, and their settings.
#[derive(Default)]
pub(super) struct Told {
    pub(super) members: Vec<Surveyed>,
    pub(super) baggage: HashMap<HostId, Baggage>,
}

impl Told {
    /// Asks these all at once, and adds what they say.
    pub(super) async fn ask(
        &mut self,
        hosts: impl IntoIterator<Item = HostId>,
        talks: &Talks,
        (known, is_group): (&Arc<Vec<Known>>, bool),
        near: &HashMap<HostId, bool>,
    ) {
        let mut asking = Vec::new();
        for host in hosts {
            let Some(talk) = talks.get(&host).cloned() else { continue };
            let known = Arc::clone(known);
            let answer = tokio::spawn(async move {
                let mut talk = talk.lock().await;
                survey(&mut talk, &known, is_group).await
            });
            asking.push((host, answer));
        }
        for (host, answer) in asking {
            let answer = answer.await.unwrap_or_else(|error| Err(error.to_string()));
            let survey = answer.map(|(survey, own)| {
                self.baggage.insert(host, own);
                survey
            });
            let is_near = near.get(&host).copied().unwrap_or(true);
            self.members.push(Surveyed { host, survey, is_near });
        }
        self.members.sort_by_key(|member| member.host);
    }
}

/// Takes the lock on these servers, in this order, for as long as the connections stand. Proxies
/// that claim in the same order don't keep each other from the last ones.
///
/// # Errors
/// Another proxy has one of them, or not more than half of the `voters` could be claimed.
pub(super) async fn claim(
    hosts: &[(HostId, String)],
    voters: usize,
    talks: &Talks,
) -> Result<(), String> {
    let mut claimed = 0;
    for (host, name) in hosts {
        let Some(talk) = talks.get(host) else { continue };
        let mut talk = talk.lock().await;
        match timeout(CLAIM_TIME_MAX, talk.claim()).await {
            Ok(Ok(true)) => claimed += 1,
            Ok(Ok(false)) => return Err(format!("another proxy is at it, by its lock on {name}")),
            Ok(Err(_)) => talk.drop_connection(),
            Err(_) => talk.forget(),
        }
    }
    match claimed * 2 > voters {
        true => Ok(()),
        false => Err(format!("only {claimed} of {voters} servers could be claimed")),
    }
}

/// Ends all connections.
pub(super) fn take_leave(talks: Talks) {
    for talk in talks.into_values() {
        tokio::spawn(async move {
            let mut talk = talk.lock().await;
            drop(timeout(FAREWELL_TIME_MAX, talk.end()).await);
        });
    }
}
