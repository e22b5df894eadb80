//! Where a statement runs: administrators' in the store, those of a user of statistics in one of
//! that user's own, so that they hold up nobody else.
//!
//! What users of statistics read is made when a statement names it, or was saved in the file of
//! digests; so their stores are filled for each statement, and what they read is as it was then.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::OwnedMutexGuard, time::timeout};
use trunkline_config::Settings;
use trunkline_store::{Access, Answer, Limits, Place, Prepared, SqlError, Store, Value};

use super::{Refused, Reply, Room, Session};
use crate::figures::Figures;

/// Users whose stores are remembered; others' are let go first.
const USERS_KEPT: usize = 16;
/// A store that has grown beyond this is let go after its statement, and made anew for the next.
const KEPT_BYTES_MAX: u64 = 16 << 20;

/// A store, worked with by one at a time.
#[derive(Clone)]
pub(super) struct SharedStore(Arc<Mutex<Store>>);

impl SharedStore {
    pub(super) fn new(store: Store) -> Self {
        Self(Arc::new(Mutex::new(store)))
    }

    /// Works with it on a thread that may wait.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Refused> {
        let store = Arc::clone(&self.0);
        let worked = tokio::task::spawn_blocking(move || {
            work(&mut store.lock().unwrap_or_else(PoisonError::into_inner))
        });
        match worked.await {
            Ok(result) => result,
            Err(_) => Err(Refused::new("the statement was not finished")),
        }
    }
}

/// A user's turn: nobody else runs a statement in that store meanwhile.
type Turn = OwnedMutexGuard<Option<SharedStore>>;

/// The stores of users of statistics, by name.
pub(super) struct Readers {
    place: Place,
    of: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Option<SharedStore>>>>>,
}

impl Readers {
    pub(super) fn new(place: Place) -> Self {
        Self { place, of: Mutex::default() }
    }

    /// A turn of a user's, and the store; `None` when it does not come in time.
    async fn turn(
        &self,
        user: &str,
        within: Duration,
    ) -> Option<Result<(Turn, SharedStore), Refused>> {
        let reader = {
            let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
            if of.len() >= USERS_KEPT && !of.contains_key(user) {
                // Who waits for a turn, or has one, has it too.
                of.retain(|_, reader| Arc::strong_count(reader) > 1);
            }
            Arc::clone(of.entry(user.to_owned()).or_default())
        };
        let mut turn = timeout(within, reader.lock_owned()).await.ok()?;
        if let Some(store) = &*turn {
            let store = store.clone();
            return Some(Ok((turn, store)));
        }
        let place = self.place.clone();
        let opened = tokio::task::spawn_blocking(move || Store::open_beside(&place)).await;
        let opened = match opened {
            Ok(Ok(store)) => SharedStore::new(store),
            Ok(Err(error)) => return Some(Err(Refused::new(error.to_string()))),
            Err(_) => return Some(Err(Refused::new("no store was opened"))),
        };
        *turn = Some(opened.clone());
        Some(Ok((turn, opened)))
    }
}

/// Where a session's statement runs, and what it may take.
pub(super) struct Target {
    pub(super) store: SharedStore,
    limits: Limits,
    access: Access,
    /// The memory of the answer.
    room: Arc<Room>,
    figures: Arc<Figures>,
    /// A user's of statistics.
    turn: Option<Turn>,
}

/// What a user's statement may take, as settings say.
fn limits(access: Access, settings: &Settings) -> Limits {
    match access {
        Access::Admin | Access::Internal => Limits::ADMINISTRATOR,
        Access::Stats | Access::Operate => Limits {
            time: Duration::from_millis(settings.admin_stats_time_max),
            rows: settings.admin_stats_rows_max,
            bytes: settings.admin_stats_bytes_max,
            ..Limits::STATISTICS
        },
    }
}

impl Target {
    /// That of a session's statement. A user of statistics has one statement at a time, over all
    /// of its sessions.
    pub(super) async fn of(
        session: &Session,
        main: &SharedStore,
        readers: &Readers,
        settings: &Settings,
        figures: &Arc<Figures>,
    ) -> Result<Self, Refused> {
        let (access, limits) = (session.access, limits(session.access, settings));
        let (figures, room) = (Arc::clone(figures), Arc::clone(&session.room));
        if !access.is_reader() {
            return Ok(Self { store: main.clone(), limits, access, room, figures, turn: None });
        }
        match readers.turn(&session.user, limits.time).await {
            Some(Ok((turn, store))) => {
                Ok(Self { store, limits, access, room, figures, turn: Some(turn) })
            }
            Some(Err(refused)) => Err(refused),
            None => {
                figures.admin.stats_busy.add(1);
                Err(Refused::busy(&session.user, limits.time))
            }
        }
    }

    /// Runs a statement of the user's. It is the last thing that is done with this.
    pub(super) async fn run(mut self, sql: String, params: Vec<Value>) -> Result<Reply, Refused> {
        let (limits, access) = (self.limits, self.access);
        let room = Arc::clone(&self.room);
        let answered = self
            .store
            .with(move |store| {
                let mut grow = |more| room.grow(more);
                let answer = store.run_counted(&limits, &sql, &params, access, &mut grow);
                if answer.is_err() {
                    room.clear();
                }
                let is_large = store.memory_bytes().is_ok_and(|bytes| bytes > KEPT_BYTES_MAX);
                Ok((answer, is_large))
            })
            .await;
        let (answer, is_large) = answered?;
        if let Some(turn) = self.turn.as_mut().filter(|_| is_large) {
            **turn = None;
        }
        Ok(match answer.map_err(|error| self.refused(error))? {
            Answer::Rows(rows) => Reply::Rows(rows),
            Answer::Done(affected) => {
                Reply::Ok { affected, info: String::new(), warnings: Vec::new() }
            }
        })
    }

    /// What a statement has for columns and parameters.
    pub(super) async fn describe(self, sql: String) -> Result<Prepared, Refused> {
        let (limits, access) = (self.limits, self.access);
        let described =
            self.store.with(move |store| Ok(store.describe(&limits, &sql, access))).await?;
        described.map_err(|error| self.refused(error))
    }

    /// How long its statement may take.
    pub(super) fn time_max(&self) -> Duration {
        self.limits.time
    }

    /// Whose statement it is.
    pub(super) fn access(&self) -> Access {
        self.access
    }

    /// The error as the user sees it: with the setting, when it is one of a limit.
    pub(super) fn refused(&self, error: SqlError) -> Refused {
        let setting = match &error {
            SqlError::NoMemory => {
                self.figures.admin.stats_limited.add(u64::from(self.access.is_reader()));
                return self.room.lacking("the result");
            }
            SqlError::TooLong(_) => "trunkline-admin_stats_time_max",
            SqlError::TooManyRows(_) => "trunkline-admin_stats_rows_max",
            SqlError::TooLarge(_) => "trunkline-admin_stats_bytes_max",
            SqlError::TooBig(_) => "of users of statistics",
            SqlError::Locked | SqlError::Denied(_) | SqlError::Other(_) => "",
        };
        let refused = Refused::from(error);
        if !self.access.is_reader() || setting.is_empty() {
            return refused;
        }
        self.figures.admin.stats_limited.add(1);
        Refused { message: format!("{} ({setting})", refused.message), ..refused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_user_has_one_turn_at_a_time_and_keeps_nobody_else_waiting() {
        let readers = Readers::new(Place::Memory);
        let (soon, never) = (Duration::from_secs(30), Duration::from_millis(1));
        let (turn, _) = readers.turn("one", soon).await.expect("free").expect("a store");
        assert!(readers.turn("one", never).await.is_none());
        assert!(readers.turn("two", soon).await.expect("another user").is_ok());
        drop(turn);
        assert!(readers.turn("one", soon).await.expect("free again").is_ok());
        for number in 0..3 * USERS_KEPT {
            drop(readers.turn(&number.to_string(), soon).await);
        }
        assert!(readers.of.lock().expect("not poisoned").len() <= USERS_KEPT);
    }
}
