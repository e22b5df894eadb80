//! Who comes in at the admin port: accounts, failed logins, places, and what clients make it keep.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use trunkline_config::Settings;
use trunkline_store::Access;
use trunkline_topology::{Attempt, FailedLoginLimits, FailedLogins, LoginWait, Origin};

use super::{
    Accounts,
    half_open::{HalfOpen, Ticket},
};
use crate::figures::{Count, Figures, Share};

/// The most bytes that prepared statements of users of statistics take, with their long data, over
/// all of them.
pub(crate) const STATS_HELD_BYTES_MAX: u64 = 16 << 20;
/// The most bytes that prepared statements on the admin port take in all, with their long data.
/// Those of administrators and of users of statistics are counted together, so an administrator's
/// may be kept when users of statistics have used up theirs.
pub(crate) const HELD_BYTES_MAX: u64 = 256 << 20;

/// What stands before the service.
pub(crate) struct Door {
    /// Logging in does not wait for the store.
    accounts: Mutex<Option<Accounts>>,
    failing: Mutex<FailedLogins>,
    half_open: Arc<HalfOpen>,
    figures: Arc<Figures>,
    begun: Instant,
}

impl Door {
    pub(crate) fn new(accounts: Option<Accounts>) -> Self {
        Self {
            accounts: Mutex::new(accounts),
            failing: Mutex::default(),
            half_open: Arc::default(),
            figures: Arc::default(),
            begun: Instant::now(),
        }
    }

    /// Who may come in now.
    pub(crate) fn accounts(&self) -> Option<Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Others may come in from now on.
    pub(crate) fn renew(&self, accounts: Accounts) {
        *self.accounts.lock().unwrap_or_else(PoisonError::into_inner) = Some(accounts);
    }

    pub(crate) fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// A place for somebody who has not logged in.
    pub(crate) fn arrive(&self, origin: Origin) -> Ticket {
        self.half_open.arrive(origin, &self.figures)
    }

    /// How long somebody has to wait before another login, if they have to.
    pub(crate) fn wait(
        &self,
        origin: Origin,
        name: &str,
        attempt: Attempt,
        settings: &Settings,
    ) -> Option<LoginWait> {
        self.failing().wait(origin, name, attempt, self.now_ms(), limits(settings))
    }

    /// Somebody was told to wait.
    pub(crate) fn blocked(&self) {
        self.figures.admin.blocked.add(1);
    }

    /// A login was refused; with a name where the client did not prove to have it.
    pub(crate) fn failed(&self, origin: Origin, name: Option<&str>, settings: &Settings) {
        self.figures.admin.denied.add(1);
        if let Some(name) = name {
            let failed = self.failing().failed(origin, name, self.now_ms(), limits(settings));
            self.figures.admin.forgotten.add(failed.forgotten);
        }
    }

    /// A login succeeded.
    pub(crate) fn succeeded(&self, origin: Origin, name: &str) {
        self.failing().succeeded(origin, name, self.now_ms());
    }

    /// Forgets failed logins; how many rows there were.
    pub(crate) fn forget_failed(&self) -> u64 {
        u64::try_from(self.failing().forget()).unwrap_or(u64::MAX)
    }

    /// A place for somebody who has logged in; the error says whose places are taken.
    pub(crate) fn place(&self, access: Access, settings: &Settings) -> Result<Share, String> {
        let (of, max, who, setting): (fn(&Figures) -> &Count, _, _, _) = match access {
            Access::Stats => (
                |figures| &figures.admin.stats_users,
                settings.admin_stats_connections_max,
                "users of statistics",
                "admin_stats_connections_max",
            ),
            Access::Admin | Access::Internal => (
                |figures| &figures.admin.admins,
                settings.admin_connections_max,
                "administrators",
                "admin_connections_max",
            ),
        };
        Share::one(&self.figures, of, max.into()).ok_or_else(|| {
            self.figures.admin.full.add(1);
            format!("Too many connections: {max} {who} are connected (trunkline-{setting})")
        })
    }

    /// Room for what a client makes the port keep; and the most that there may be of all.
    pub(crate) fn held(&self) -> Share {
        Share::none(&self.figures, |figures| &figures.admin.held_bytes)
    }

    fn failing(&self) -> MutexGuard<'_, FailedLogins> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// There are few accounts here, and guesses at names that are none of theirs lead nowhere: an
/// origin's failures with many names make nobody wait.
fn limits(settings: &Settings) -> FailedLoginLimits {
    FailedLoginLimits {
        per_name: settings.admin_failed_logins_max,
        per_origin: 0,
        wait_ms: settings.failed_login_delay,
        wait_max_ms: settings.failed_login_delay_max,
    }
}
