//! Who comes in at the admin port: accounts, failed logins, places, and what clients make it keep.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use trunkline_budget::{Budget, Charge, Kind};
use trunkline_config::Settings;
use trunkline_store::Access;
use trunkline_topology::{Attempt, FailedLoginLimits, FailedLogins, LoginWait, Origin};

use super::{
    Accounts,
    half_open::{HalfOpen, Ticket},
    handshakes::Handshakes,
};
use crate::{
    figures::{Count, Figures, Share},
    service::{Refused, class_of},
};

/// The most bytes that prepared statements of users of statistics take, with their long data, over
/// all of them.
pub(crate) const STATS_HELD_BYTES_MAX: u64 = 16 << 20;
/// Wrong tokens of one origin are counted together: nobody says whose token it should be.
const ANY_TOKEN: &str = "";

/// What stands before the service.
pub(crate) struct Door {
    /// Logging in does not wait for the store.
    accounts: Mutex<Option<Accounts>>,
    failing: Mutex<FailedLogins>,
    /// Wrong tokens over HTTP.
    wrong_tokens: Mutex<FailedLogins>,
    handshakes: Mutex<Handshakes>,
    budget: Arc<Budget>,
    half_open: Arc<HalfOpen>,
    figures: Arc<Figures>,
    begun: Instant,
}

impl Door {
    pub(crate) fn new(accounts: Option<Accounts>, budget: Arc<Budget>) -> Self {
        Self {
            accounts: Mutex::new(accounts),
            failing: Mutex::default(),
            wrong_tokens: Mutex::default(),
            handshakes: Mutex::default(),
            budget,
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

    /// The memory that there is for what comes from outside.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
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

    /// How long somebody has to wait before another token is looked at, ms; it is counted when they
    /// have to.
    pub(crate) fn token_wait_ms(&self, origin: Origin, settings: &Settings) -> u64 {
        let now_ms = self.now_ms();
        let wait =
            self.wrong_tokens().wait(origin, ANY_TOKEN, Attempt::Begins, now_ms, limits(settings));
        let wait_ms = wait.map_or(0, |wait| wait.ms);
        self.figures.http.blocked.add(u64::from(wait_ms > 0));
        wait_ms
    }

    /// A token was wrong, or right.
    pub(crate) fn token(&self, origin: Origin, is_right: bool, settings: &Settings) {
        match is_right {
            true => self.wrong_tokens().succeeded(origin, ANY_TOKEN, self.now_ms()),
            false => {
                self.wrong_tokens().failed(origin, ANY_TOKEN, self.now_ms(), limits(settings));
            }
        }
    }

    /// How long a TLS handshake from there has to wait until it may begin; `None` when it would be
    /// too long.
    pub(crate) fn handshake(&self, origin: Origin) -> Option<Duration> {
        let now_ms = self.now_ms();
        let mut handshakes = self.handshakes.lock().unwrap_or_else(PoisonError::into_inner);
        let wait_ms = handshakes.turn(origin, now_ms);
        self.figures.admin.handshakes.add(u64::from(wait_ms.is_none()));
        wait_ms.map(Duration::from_millis)
    }

    /// Forgets failed logins and wrong tokens; how many rows there were.
    pub(crate) fn forget_failed(&self) -> u64 {
        let rows = self.failing().forget() + self.wrong_tokens().forget();
        u64::try_from(rows).unwrap_or(u64::MAX)
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
            Access::Admin | Access::Operate | Access::Internal => (
                |figures| &figures.admin.admins,
                // Those who operate leave a quarter to administrators.
                match access == Access::Operate {
                    true => settings.admin_connections_max - settings.admin_connections_max / 4,
                    false => settings.admin_connections_max,
                },
                "administrators",
                "admin_connections_max",
            ),
        };
        Share::one(&self.figures, of, max.into()).ok_or_else(|| {
            self.figures.admin.full.add(1);
            format!("Too many connections: {max} {who} are connected (trunkline-{setting})")
        })
    }

    /// Room for what a client makes the port keep: nothing so far.
    pub(crate) fn held(&self, access: Access) -> Held {
        Held {
            share: Share::none(&self.figures, |figures| &figures.admin.held_bytes),
            charge: self.budget.charge_nothing(Kind::Admin),
            access,
        }
    }

    fn wrong_tokens(&self) -> MutexGuard<'_, FailedLogins> {
        self.wrong_tokens.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Room for a prepared statement and its long data: of the budget of all, and of what users of
/// statistics may have together. Both are given back when this is dropped.
pub(crate) struct Held {
    share: Share,
    charge: Charge,
    access: Access,
}

impl Held {
    /// Takes more bytes.
    pub(crate) fn grow(&mut self, more: usize, budget: &Budget) -> Result<(), Refused> {
        let most = match self.access {
            Access::Stats | Access::Operate => STATS_HELD_BYTES_MAX,
            Access::Admin | Access::Internal => u64::MAX,
        };
        let before = self.charge.len();
        if self.charge.grow(class_of(self.access), more).is_err() {
            let what = "prepared statements and their long data";
            return Err(Refused::out_of_memory(what, budget.max()));
        }
        if !self.share.grow(more as u64, most) {
            self.charge.set(before);
            let message = format!(
                "no room for prepared statements and their long data: all users of statistics \
                 together may have {STATS_HELD_BYTES_MAX} bytes of them"
            );
            return Err(Refused { code: 1153, state: b"08S01", ..Refused::new(message) });
        }
        Ok(())
    }

    /// Gives back all but `left` bytes.
    pub(crate) fn shrink_to(&mut self, left: usize) {
        self.share.shrink_to(left as u64);
        self.charge.set(self.charge.len().min(left as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_the_budgets_and_users_of_statistics_have_less_of_it() {
        let budget = Arc::new(Budget::new(64 << 20));
        let door = Door::new(None, Arc::clone(&budget));
        let (mut stats, mut admin) = (door.held(Access::Stats), door.held(Access::Admin));
        let codes =
            |held: &mut Held, mib: usize| held.grow(mib << 20, &budget).err().map(|it| it.code);
        assert_eq!(codes(&mut stats, 16), None);
        assert_eq!((codes(&mut stats, 1), budget.total()), (Some(1153), 16 << 20));
        assert_eq!(codes(&mut admin, 48), None);
        assert_eq!(codes(&mut admin, 1), Some(1041));
        stats.shrink_to(1 << 20);
        assert_eq!(codes(&mut admin, 15), None);
        drop((stats, admin));
        assert_eq!((budget.total(), door.figures().admin.held_bytes.now()), (0, 0));
    }

    #[test]
    fn accounts_that_operate_leave_places_to_administrators() {
        let door = Door::new(None, Arc::default());
        let settings = Settings { admin_connections_max: 8, ..Settings::default() };
        let all = |access| {
            std::iter::from_fn(|| door.place(access, &settings).ok()).take(20).collect::<Vec<_>>()
        };
        let operators = all(Access::Operate);
        let administrators = all(Access::Admin);
        assert_eq!((operators.len(), administrators.len()), (6, 2));
    }

    #[test]
    fn wrong_tokens_wait_longer_and_longer() {
        let door = Door::new(None, Arc::default());
        let settings = Settings { admin_failed_logins_max: 2, ..Settings::default() };
        let from = |last: u8| Origin::machine([10, 0, 0, last].into());
        door.token(from(1), false, &settings);
        assert_eq!(door.token_wait_ms(from(1), &settings), 0);
        door.token(from(1), false, &settings);
        assert!(door.token_wait_ms(from(1), &settings) > 0);
        assert_eq!(
            (door.token_wait_ms(from(2), &settings), door.figures().http.blocked.now()),
            (0, 1)
        );
        assert_eq!((door.forget_failed(), door.token_wait_ms(from(1), &settings)), (1, 0));
        door.token(from(1), false, &settings);
        door.token(from(1), true, &settings);
        door.token(from(1), false, &settings);
        assert_eq!(door.token_wait_ms(from(1), &settings), 0, "a right one ends the row");
    }
}
