//! Finds out what names mean: asks the servers' dictionaries, with the accounts of those who want
//! to know.
//!
//! What is asked and what rows mean is in [`trunkline_catalog`]. Here one task a group and account
//! has a standing connection, and asks for all names together that came meanwhile.

mod account;
mod epochs;

use std::{collections::HashMap, sync::Arc, time::Duration};

use account::{AccountDictionary, IDLE_TIME_MAX};
use epochs::Epochs;
use tokio::{
    sync::{mpsc, watch::Receiver},
    time::{Instant, interval},
};
use trunkline_catalog::{Catalog, Name, Waiter};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_topology::HostgroupId;

use crate::Account;

/// Groups and accounts that have a task, and so a connection.
const DESKS_MAX: usize = 64;
/// Questions that wait for one task.
const WAITING_MAX: usize = 1_024;
/// How often it is looked whether servers have changed.
const EPOCHS_LOOK: Duration = Duration::from_millis(500);

/// Names that somebody wants to know. Each is being asked for in the catalog.
pub struct DictionaryQuestion {
    /// The names' group.
    pub group: HostgroupId,
    /// The names.
    pub names: Vec<Name>,
    /// As whom servers are asked.
    pub account: Account,
    /// When it was asked, ms on the workers' clock.
    pub asked_ms: u64,
    /// Is told who waited, when what is known is in the catalog.
    pub told: Box<dyn FnOnce(Vec<Waiter>) + Send>,
}

impl DictionaryQuestion {
    /// Nobody is asked: the names stay unknown for a while.
    pub fn give_up(self, catalog: &Catalog) {
        let waiters = catalog.give_up(&self.names, self.asked_ms);
        (self.told)(waiters);
    }
}

/// Where a task is reached.
struct Place {
    questions: mpsc::Sender<DictionaryQuestion>,
    used: Instant,
}

/// Answers questions until nobody asks any more.
pub async fn keep_telling(
    snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    catalog: Arc<Catalog>,
    mut questions: mpsc::Receiver<DictionaryQuestion>,
) {
    let mut accounts = AccountDictionaries { snapshots, tls, catalog, places: HashMap::new() };
    let mut epochs = Epochs::default();
    let mut look = interval(EPOCHS_LOOK);
    loop {
        tokio::select! {
            question = questions.recv() => match question {
                Some(question) => accounts.give(question),
                None => return,
            },
            _ = look.tick() => {
                let snapshot = Arc::clone(&accounts.snapshots.borrow());
                epochs.look(&snapshot).into_iter().for_each(|group| accounts.catalog.age(group));
            }
        }
    }
}

struct AccountDictionaries {
    snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    catalog: Arc<Catalog>,
    places: HashMap<(HostgroupId, String), Place>,
}

impl AccountDictionaries {
    /// Gives a question to its task, which begins with it if need be.
    fn give(&mut self, question: DictionaryQuestion) {
        let key = (question.group, question.account.user.clone());
        let used = Instant::now();
        let question = match self.places.get_mut(&key) {
            Some(place) => {
                place.used = used;
                match place.questions.try_send(question) {
                    Ok(()) => return,
                    Err(mpsc::error::TrySendError::Full(question)) => {
                        return question.give_up(&self.catalog);
                    }
                    Err(mpsc::error::TrySendError::Closed(question)) => question,
                }
            }
            None => question,
        };
        self.make_room();
        let (questions, asked) = mpsc::channel(WAITING_MAX);
        let account = AccountDictionary::new(
            key.0,
            self.snapshots.clone(),
            self.tls.clone(),
            Arc::clone(&self.catalog),
        );
        tokio::spawn(account.serve(asked));
        // An empty queue takes one.
        if let Err(error) = questions.try_send(question) {
            error.into_inner().give_up(&self.catalog);
        }
        self.places.insert(key, Place { questions, used });
    }

    /// Tasks that have ended are forgotten; with too many left, the one ends that has waited
    /// longest, when it has answered what it was asked.
    fn make_room(&mut self) {
        if self.places.len() < DESKS_MAX {
            return;
        }
        let now = Instant::now();
        self.places.retain(|_, place| {
            !place.questions.is_closed() && now.duration_since(place.used) < IDLE_TIME_MAX
        });
        if self.places.len() >= DESKS_MAX {
            let oldest = self.places.iter().min_by_key(|(_, place)| place.used);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|key| self.places.remove(&key));
        }
    }
}
