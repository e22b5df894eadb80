//! Fills the tables of `stats_history` that a statement names, from the files of the history.

use std::{
    io,
    time::{Duration, Instant},
};

use tokio::time::timeout;
use trunkline_store::{Access, SqlError, Store, tables::Schema};

use super::{AdminService, Refused, load::unix_sec, target::Target};
use crate::past::tables::{self, PastTable, Unread};

/// Seconds between two samples when a variable says nothing else.
const INTERVAL: u64 = 60;

impl AdminService {
    /// Fills them within the time of the user's statement. Users of statistics have the files read
    /// one after the other.
    pub(super) async fn fill_past(&self, target: &Target, lower: &str) -> Result<(), Refused> {
        let named = tables::named(lower);
        let Some(folder) = self.runtime.history_folder().filter(|_| !named.is_empty()) else {
            return Ok(());
        };
        let mut asked: Vec<(&'static PastTable, u64)> = Vec::new();
        for table in named {
            let value = match table.variable() {
                Some(variable) => self.running_variable(variable).await?,
                None => String::new(),
            };
            asked.push((table, value.parse().unwrap_or(INTERVAL)));
        }
        let time = target.time_max();
        let deadline = Instant::now() + time;
        let too_long = || target.refused(SqlError::TooLong(time));
        let _turn = match target.access() {
            Access::Admin | Access::Internal => None,
            Access::Stats => Some(self.turn(time).await.ok_or_else(too_long)?),
        };
        let read = move || tables::read(&folder, &asked, unix_sec(), deadline);
        let filled = match tokio::task::spawn_blocking(read).await {
            Ok(Ok(filled)) => filled,
            // Nothing was written yet.
            Ok(Err(Unread::System(error))) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Ok(Err(Unread::System(error))) => {
                return Err(Refused::new(format!("the history can't be read: {error}")));
            }
            Ok(Err(Unread::TooLong)) => return Err(too_long()),
            Err(_) => return Err(Refused::new("the history was not read")),
        };
        let fill = move |store: &mut Store| Ok(store.fill(Schema::StatsHistory, &filled)?);
        target.store.with(fill).await
    }

    async fn turn(&self, within: Duration) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        timeout(within, self.reading_past.lock()).await.ok()
    }
}
