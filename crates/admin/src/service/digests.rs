//! `stats_mysql_query_digest`: there may be a hundred thousand rows, so each is made when it is
//! written.

use std::{
    collections::HashMap,
    sync::{MutexGuard, PoisonError},
};

use trunkline_stats::{DigestRow, DigestSums, hostgroup_shown};
use trunkline_store::{
    Value,
    tables::{SAVED, Schema},
};

use super::{
    AdminService, DigestKey, Refused, Reply,
    load::unix_sec,
    numbers::{number, text},
    target::SharedStore,
};

const TABLE: &str = "stats_mysql_query_digest";
const RESET: &str = "stats_mysql_query_digest_reset";

impl AdminService {
    /// Fills the table; with `is_reset` its twin too, and what is counted begins anew.
    pub(super) async fn fill_digests(
        &self,
        to: &SharedStore,
        is_reset: bool,
    ) -> Result<(), Refused> {
        let rows = self.runtime.digests().await;
        let before = self.digests_before().clone();
        let sums = is_reset.then(|| sums_of(&rows));
        to.with(move |store| {
            let rows = rows.into_iter().filter_map(|row| {
                // Nothing is looked up as long as nothing was reset.
                let found = if before.is_empty() { None } else { before.get(&key(&row)) };
                digest(row, found)
            });
            store.fill_with(Schema::Stats, TABLE, rows)?;
            if is_reset {
                store.fill_like(Schema::Stats, RESET, TABLE)?;
            }
            Ok(())
        })
        .await?;
        if let Some(sums) = sums {
            *self.digests_before() = sums;
        }
        Ok(())
    }

    /// Forgets what was counted so far.
    pub(super) async fn reset_digests(&self) {
        let rows = self.runtime.digests().await;
        *self.digests_before() = sums_of(&rows);
    }

    /// `SAVE MYSQL DIGEST TO DISK`: with a reset, as in ProxySQL.
    pub(super) async fn save_digests(&self) -> Result<Reply, Refused> {
        let rows = self.runtime.digests().await;
        let before = self.digests_before().clone();
        let sums = sums_of(&rows);
        let now = unix_sec();
        let affected = self
            .with_store(move |store| {
                let rows: Vec<Vec<Value>> = rows
                    .into_iter()
                    .filter_map(|row| {
                        let found = before.get(&key(&row));
                        let mut row = digest(row, found)?;
                        row.insert(0, number(now));
                        Some(row)
                    })
                    .collect();
                store.append(Schema::StatsSaved, SAVED, &rows)?;
                Ok(u64::try_from(rows.len()).unwrap_or(u64::MAX))
            })
            .await?;
        *self.digests_before() = sums;
        Ok(Reply::Ok { affected, info: String::new(), warnings: Vec::new() })
    }

    fn digests_before(&self) -> MutexGuard<'_, HashMap<DigestKey, DigestSums>> {
        self.before.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(row: &DigestRow) -> DigestKey {
    (row.digest, row.hostgroup, row.username.clone(), row.schemaname.clone())
}

fn sums_of(rows: &[DigestRow]) -> HashMap<DigestKey, DigestSums> {
    rows.iter().map(|row| (key(row), row.sums)).collect()
}

/// A row of the digest table since the last reset; `None` when nothing came since. Shortest and
/// longest times are those since the start.
fn digest(row: DigestRow, before: Option<&DigestSums>) -> Option<Vec<Value>> {
    let (sums, before) = (&row.sums, before.copied().unwrap_or_default());
    let count = sums.count_star.saturating_sub(before.count_star);
    if count == 0 {
        return None;
    }
    let first_seen = match before.count_star {
        0 => sums.first_seen,
        _ => before.last_seen.max(sums.first_seen),
    };
    Some(vec![
        number(hostgroup_shown(row.hostgroup)),
        Value::Text(row.schemaname),
        Value::Text(row.username),
        text(""),
        Value::Text(format!("0x{:016X}", row.digest)),
        Value::Text(row.digest_text),
        number(count),
        number(first_seen),
        number(sums.last_seen),
        number(sums.sum_time.saturating_sub(before.sum_time)),
        number(sums.min_time),
        number(sums.max_time),
        number(sums.sum_rows_affected.saturating_sub(before.sum_rows_affected)),
        number(sums.sum_rows_sent.saturating_sub(before.sum_rows_sent)),
    ])
}
