//! What is read of the files of the history: the tables of `stats_history` that a statement names,
//! and lines for charts.

use std::{
    io,
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use tokio::time::timeout;
use trunkline_store::{Access, SqlError, Store, tables::Schema};

use super::{AdminService, Refused, load::unix_sec, target::Target};
use crate::past::{
    lines::Asked,
    tables::{self, PastTable, Unread},
};

/// Seconds between two samples when a variable says nothing else.
const INTERVAL: u64 = 60;
/// How long who asks for lines waits for a turn.
const LINES_TIME_MAX: Duration = Duration::from_secs(5);

/// Why there are no lines.
#[derive(Debug)]
pub(crate) enum NoLines {
    /// No history is kept.
    None,
    /// Others read it.
    Busy,
    /// The files can't be read.
    Unread(String),
}

impl NoLines {
    /// The status of HTTP, and the text.
    pub(crate) fn told(self) -> (StatusCode, String) {
        match self {
            Self::None => {
                (StatusCode::NOT_FOUND, "no history is kept (history_size_mb, state_file)".into())
            }
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "others read the history".into()),
            Self::Unread(error) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("the history can't be read: {error}"))
            }
        }
    }
}

impl AdminService {
    /// Fills tables within the time of the user's statement. Users of statistics have the files
    /// read one after the other.
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
            Access::Stats | Access::Operate => Some(self.turn(time).await.ok_or_else(too_long)?),
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

    /// Lines of the history as JSON, for who looks at charts: one after the other.
    pub(crate) async fn past_lines(&self, asked: Asked) -> Result<serde_json::Value, NoLines> {
        let folder = self.runtime.history_folder().ok_or(NoLines::None)?;
        let _turn = self.turn(LINES_TIME_MAX).await.ok_or(NoLines::Busy)?;
        let read = move || asked.read(&folder, unix_sec());
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok(lines)) => Ok(lines),
            Ok(Err(error)) => Err(NoLines::Unread(error.to_string())),
            Err(_) => Err(NoLines::Unread("it was not finished".to_owned())),
        }
    }

    async fn turn(&self, within: Duration) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        timeout(within, self.reading_past.lock()).await.ok()
    }
}
