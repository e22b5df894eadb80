//! Passwords that only servers can check: tried there, for clients that have sent them.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, mpsc, watch::Receiver},
    time::timeout,
};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_session::Credential;
use trunkline_topology::{HostgroupId, Secret, Server, ServerState};

use crate::{
    Account,
    conversation::{self, Way},
};

/// Logins under way at once.
const LOGINS_MAX: usize = 64;
/// How long one may take, all servers together.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(8);

/// A password to be tried.
pub struct Question {
    /// The account's name.
    pub name: String,
    /// Whose servers are asked, one after the other until one answers.
    pub hostgroup: HostgroupId,
    /// The password.
    pub clear: Secret<Vec<u8>>,
    /// Is told whether the server took it.
    pub answer: Box<dyn FnOnce(bool) + Send>,
}

/// Answers questions until nobody asks any more. One that no server answers is answered with no.
pub async fn keep_asking(
    snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    mut questions: mpsc::Receiver<Question>,
) {
    let turns = Arc::new(Semaphore::new(LOGINS_MAX));
    while let Some(Question { name, hostgroup, clear, answer }) = questions.recv().await {
        let credential = Credential::from_clear(clear.expose());
        let account = Account { user: name, credential };
        let snapshot = Arc::clone(&snapshots.borrow());
        let servers = snapshot.hostgroup(hostgroup).map(|group| group.servers.clone());
        let servers = servers.unwrap_or_default();
        let tls = Arc::clone(&tls.borrow());
        let turns = Arc::clone(&turns);
        tokio::spawn(async move {
            // The semaphore is never closed, so that there always is a permit in the end.
            let _turn = turns.acquire().await;
            let login = log_in(&servers, &account, &tls);
            answer(timeout(LOGIN_TIME_MAX, login).await.unwrap_or(false));
        });
    }
}

/// Whether the first server that greets takes the account.
async fn log_in(servers: &[Arc<Server>], account: &Account, tls: &Arc<TlsSetup>) -> bool {
    let can_be_asked = |server: &&Arc<Server>| {
        let state = server.health.state(u64::MAX);
        !matches!(state, ServerState::OfflineSoft | ServerState::OfflineHard)
    };
    for server in servers.iter().filter(can_be_asked) {
        let Ok(mut conversation) = conversation::connect(server).await else { continue };
        let Ok((_, header, payload)) = conversation.greeting().await else { continue };
        let way = Way::to(server, tls);
        let is_right = conversation.log_in(account, &way, header, payload).await.is_ok();
        if is_right {
            // How the server takes the farewell changes nothing.
            drop(conversation.quit().await);
        }
        return is_right;
    }
    false
}
