//! As whom a session reaches its servers, and by which password while that is being changed.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use trunkline_pool::{AccountId, SlotId};
use trunkline_session::Credential;
use trunkline_topology::{BackendAccount, Password, User};

use crate::{
    Action, ClientId, clients::client::Session, env::Env, rooms::Core, servers::conn::AccountKey,
};

/// A password refused so lately counts as refused still, ms.
const REFUSED_MS: u64 = 10_000;

/// Which password of an account a server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PasswordTurn {
    /// The newest.
    #[default]
    Newest,
    /// The one before.
    Retained,
}

impl PasswordTurn {
    fn other(self) -> Self {
        match self {
            Self::Newest => Self::Retained,
            Self::Retained => Self::Newest,
        }
    }
}

/// What is known of an account that has two passwords, on one server.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    turn: PasswordTurn,
    /// When the other one was refused, ms, unless one was taken since.
    refused_ms: Option<u64>,
}

/// Accounts whose newest password some server has refused.
#[derive(Debug, Default)]
pub(crate) struct PasswordTurns(HashMap<(usize, AccountId), Known, FixedState>);

impl PasswordTurns {
    pub(crate) fn turn(&self, slot: usize, account: AccountId) -> PasswordTurn {
        self.0.get(&(slot, account)).map_or(PasswordTurn::Newest, |known| known.turn)
    }

    /// The server took a password.
    pub(crate) fn taken(&mut self, slot: usize, account: AccountId) {
        if let Some(known) = self.0.get_mut(&(slot, account)) {
            known.refused_ms = None;
        }
    }

    /// The server refused one. Whether to try again, with the turn that it is now.
    pub(crate) fn refused(
        &mut self,
        slot: usize,
        account: AccountId,
        tried: PasswordTurn,
        now_ms: u64,
    ) -> bool {
        let known = self.0.entry((slot, account)).or_default();
        if known.turn != tried {
            // Another connection has found that out already.
            return true;
        }
        let is_lately = |at_ms: u64| now_ms.saturating_sub(at_ms) < REFUSED_MS;
        let is_last = known.refused_ms.is_some_and(is_lately);
        *known = Known { turn: tried.other(), refused_ms: (!is_last).then_some(now_ms) };
        !is_last
    }

    /// Forgets everything: passwords may have changed.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Env {
    fn newest_password(&self, session: &Session) -> Option<&Password> {
        self.snapshot.today(&session.login.user).map(|user| &user.password)
    }

    fn retained_password(&self, session: &Session) -> Option<&Password> {
        clear_retained(self.snapshot.today(&session.login.user)?)
    }
}

impl Core {
    /// The account of `name` on the servers as `session`'s user has it: with today's passwords if
    /// the configuration still has that account, else with those of the login.
    fn backend_of<'a>(&'a self, session: &'a Session, name: &str) -> Option<&'a BackendAccount> {
        let today = self.env.snapshot.today(&session.login.user);
        let users = today.into_iter().chain([&session.login.user]);
        users.filter_map(|user| user.backend.as_ref()).find(|backend| backend.user == name)
    }

    /// The credential with which an account logs in where no connection of the pool is meant.
    pub(crate) fn credential_of(&self, session: &Session, key: &AccountKey) -> Credential {
        let backend = key.backend.as_ref().and_then(|name| self.backend_of(session, name));
        match backend {
            Some(backend) => {
                Credential { clear: Some(backend.password.clone()), ..Credential::default() }
            }
            None => (*session.login.credential).clone(),
        }
    }

    /// Name and credential of an account for its session.
    pub(super) fn credential_for(
        &self,
        slot: SlotId,
        account: AccountId,
        session: &Session,
    ) -> Option<(String, Credential)> {
        let key = self.servers.logins.accounts.key(account)?;
        let turn = self.servers.logins.password_turns.turn(slot.index(), account);
        let Some(name) = &key.backend else {
            let older = self.env.retained_password(session);
            let retained = older.filter(|_| turn == PasswordTurn::Retained);
            let newest = older.and_then(|_| self.env.newest_password(session));
            let credential = retained.or(newest).map(Credential::from_password);
            let credential = credential.unwrap_or_else(|| (*session.login.credential).clone());
            return Some((key.server_user().to_owned(), credential));
        };
        let backend = self.backend_of(session, name)?;
        let retained = backend.retained_password.as_ref();
        let retained = retained.filter(|_| turn == PasswordTurn::Retained);
        let password = retained.unwrap_or(&backend.password).clone();
        let credential = Credential { clear: Some(password), ..Credential::default() };
        Some((name.to_string(), credential))
    }

    /// Whether an account has a second password for servers.
    pub(crate) fn has_retained(&self, account: AccountId) -> bool {
        let Some(key) = self.servers.logins.accounts.key(account) else {
            return false;
        };
        let user = self.env.snapshot.users.get(&*key.user);
        match (user.and_then(|user| user.backend.as_ref()), &key.backend) {
            (Some(backend), Some(_)) => backend.retained_password.is_some(),
            (None, None) => user.is_some_and(|user| clear_retained(user).is_some()),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Has the servers asked for their users, if nobody has yet; a client that waits for it goes
    /// on with [`users_looked_up`](Self::users_looked_up).
    pub(crate) fn look_up_users(&mut self, waiting: Option<ClientId>) {
        self.clients.logins.looking_up.extend(waiting);
        if !std::mem::replace(&mut self.clients.logins.has_asked_for_users, true) {
            self.fx.act(Action::LookUpUsers);
        }
    }
}

/// The password before, where it is known itself: a hash opens no server.
fn clear_retained(user: &User) -> Option<&Password> {
    user.retained_password.as_ref().filter(|password| matches!(password, Password::Clear(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_passwords_are_tried_and_then_it_is_said() {
        let mut turns = PasswordTurns::default();
        let at = |turns: &PasswordTurns| turns.turn(7, AccountId(1));
        let refused = |turns: &mut PasswordTurns, tried, now_ms| {
            turns.refused(7, AccountId(1), tried, now_ms)
        };
        assert_eq!(at(&turns), PasswordTurn::Newest);
        assert!(refused(&mut turns, PasswordTurn::Newest, 5));
        assert_eq!(at(&turns), PasswordTurn::Retained);
        // A second connection tried the newest at the same time.
        assert!(refused(&mut turns, PasswordTurn::Newest, 6));
        assert_eq!(at(&turns), PasswordTurn::Retained);
        assert!(!refused(&mut turns, PasswordTurn::Retained, 7));
        assert_eq!(at(&turns), PasswordTurn::Newest);
    }

    #[test]
    fn a_server_that_takes_one_is_asked_for_the_other_when_it_no_longer_does() {
        let mut turns = PasswordTurns::default();
        let (slot, account) = (7, AccountId(1));
        assert!(turns.refused(slot, account, PasswordTurn::Newest, 5));
        turns.taken(slot, account);
        assert_eq!(turns.turn(slot, account), PasswordTurn::Retained);
        assert!(turns.refused(slot, account, PasswordTurn::Retained, 6));
        assert_eq!(turns.turn(slot, account), PasswordTurn::Newest);
    }
}
