//! A client connection and the session that it has from its login on; and what becomes of that when
//! its user changes.

use std::{
    mem,
    ops::{Deref, DerefMut},
};

use trunkline_pool::ConnId;

use super::client::{Client, Frontend, Phase, Session};
use crate::session_past::Trace;

/// A client connection of this worker.
#[derive(Debug)]
pub(crate) enum ClientEntry {
    /// Nobody has logged in on it, or the session is over.
    Anonymous(Frontend),
    /// Somebody has logged in.
    LoggedIn(Client),
}

/// A client connection, for what is done whether or not somebody has logged in on it.
pub(crate) trait AnyClient: DerefMut<Target = Frontend> {
    /// Its session, once somebody has logged in.
    fn session(&self) -> Option<&Session>;
}

impl ClientEntry {
    #[inline]
    pub(crate) fn client(&self) -> Option<&Client> {
        match self {
            Self::LoggedIn(client) => Some(client),
            Self::Anonymous(_) => None,
        }
    }

    #[inline]
    pub(crate) fn client_mut(&mut self) -> Option<&mut Client> {
        match self {
            Self::LoggedIn(client) => Some(client),
            Self::Anonymous(_) => None,
        }
    }

    /// Whether what it is doing goes with whether somebody has logged in.
    pub(crate) fn is_consistent(&self) -> bool {
        match self {
            Self::Anonymous(front) => matches!(front.phase, Phase::Login(_) | Phase::Closing),
            Self::LoggedIn(client) => match client.phase {
                Phase::Running(_) => true,
                _ => client.former.is_none(),
            },
        }
    }

    /// Forgets a session that has ended, whose client goes on without.
    pub(crate) fn forget_session(&mut self) {
        if let Self::LoggedIn(client) = self {
            *self = Self::Anonymous(client.front.take());
        }
    }

    /// Drops what is left of a session that is over.
    #[inline]
    pub(crate) fn settled(self: Box<Self>) -> Box<Self> {
        match &*self {
            Self::LoggedIn(client) if matches!(client.phase, Phase::Closing) => self.over(),
            _ => self,
        }
    }

    #[cold]
    fn over(self: Box<Self>) -> Box<Self> {
        match *self {
            Self::LoggedIn(client) => Box::new(Self::Anonymous(client.front)),
            anonymous @ Self::Anonymous(_) => Box::new(anonymous),
        }
    }
}

impl AnyClient for ClientEntry {
    #[inline]
    fn session(&self) -> Option<&Session> {
        self.client().map(|client| &*client.session)
    }
}

impl AnyClient for Client {
    #[inline]
    fn session(&self) -> Option<&Session> {
        Some(&self.session)
    }
}

impl Deref for ClientEntry {
    type Target = Frontend;

    #[inline]
    fn deref(&self) -> &Frontend {
        match self {
            Self::Anonymous(front) => front,
            Self::LoggedIn(client) => &client.front,
        }
    }
}

impl DerefMut for ClientEntry {
    #[inline]
    fn deref_mut(&mut self) -> &mut Frontend {
        match self {
            Self::Anonymous(front) => front,
            Self::LoggedIn(client) => &mut client.front,
        }
    }
}

impl Deref for Client {
    type Target = Frontend;

    #[inline]
    fn deref(&self) -> &Frontend {
        &self.front
    }
}

impl DerefMut for Client {
    #[inline]
    fn deref_mut(&mut self) -> &mut Frontend {
        &mut self.front
    }
}

impl Client {
    /// A client whose session begins.
    pub(crate) fn new(front: Frontend, session: Session) -> Self {
        Self { front, session: Box::new(session), former: None }
    }

    /// Its session, and the one that goes on if the change of user fails.
    pub(crate) fn sessions_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        let former = self.former.as_deref_mut();
        std::iter::once(&mut *self.session).chain(former)
    }

    /// The session that awaits this from that connection. Where both do, the former asked first,
    /// and a connection answers in order.
    pub(crate) fn awaiting(&mut self, conn: ConnId, trace: Trace) -> Option<&mut Session> {
        let awaits = |session: &mut Session| *session.past.awaited_mut(trace) == Some(conn);
        self.sessions_mut().filter_map(|session| awaits(session).then_some(session)).last()
    }

    /// The new user's session begins; the one before goes on if the change fails after all.
    pub(crate) fn try_session(&mut self, session: Session) {
        self.former = Some(mem::replace(&mut self.session, Box::new(session)));
    }

    /// The login, or the change of user, is done.
    pub(crate) fn confirm(&mut self) {
        self.former = None;
    }

    /// The change of user has failed, and the user stays.
    pub(crate) fn go_back(&mut self) {
        if let Some(former) = self.former.take() {
            let session = mem::replace(&mut self.session, former);
            // A new session of the same user has had the user's place.
            if self.session.login.place.is_none() {
                self.session.login.place = session.login.place;
            }
        }
    }

    /// Whether a change of user is under way.
    pub(crate) fn is_changing(&self) -> bool {
        self.former.is_some() || matches!(self.phase, Phase::Login(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TestWorker;
    use std::sync::Arc;
    use trunkline_topology::User;

    /// A client that has logged in, as a user of this name.
    fn client(name: &str) -> Client {
        let mut world = TestWorker::new();
        let id = world.log_in();
        let entry = world.core().clients.table.remove(id).expect("a client");
        let ClientEntry::LoggedIn(mut client) = *entry else { panic!("it has logged in") };
        let user = User { name: name.into(), ..User::clone(&client.session.login.user) };
        client.session.login.user = Arc::new(user);
        client
    }

    fn session(name: &str) -> Session {
        *client(name).session
    }

    fn name(client: &Client) -> &str {
        &client.session.login.user.name
    }

    #[test]
    fn a_change_of_user_that_fails_goes_back_from_each_of_its_steps() {
        let mut client = client("old");
        assert!(!client.is_changing());
        client.go_back();
        assert_eq!(name(&client), "old", "until the new user is proved");
        client.try_session(session("new"));
        assert_eq!(client.sessions_mut().count(), 2);
        assert_eq!((name(&client), client.is_changing()), ("new", true));
        client.go_back();
        assert_eq!(client.sessions_mut().count(), 1);
        assert_eq!((name(&client), client.is_changing()), ("old", false));
    }

    #[test]
    fn a_change_of_user_that_is_done_leaves_nothing_to_go_back_to() {
        let mut client = client("old");
        client.try_session(session("new"));
        client.confirm();
        client.go_back();
        assert_eq!((name(&client), client.is_changing()), ("new", false));
    }

    #[test]
    fn a_user_who_stays_has_its_place_again_from_a_session_that_had_it() {
        let mut client = client("old");
        let place = client.session.login.place.take();
        assert!(place.is_some());
        let mut tried = session("old");
        tried.login.place = place;
        client.try_session(tried);
        client.go_back();
        assert!(client.session.login.place.is_some());
    }

    #[test]
    fn a_client_that_closes_has_no_session_when_it_is_given_back() {
        let mut client = client("old");
        client.phase = Phase::Closing;
        let entry = Box::new(ClientEntry::LoggedIn(client)).settled();
        assert!(entry.client().is_none() && entry.session().is_none());
        assert!(matches!(entry.phase, Phase::Closing));
    }

    #[test]
    fn who_forgets_its_session_keeps_its_connection() {
        let mut client = client("old");
        client.io.inbox = vec![1, 2, 3];
        let number = client.origin.number;
        let mut entry = ClientEntry::LoggedIn(client);
        entry.forget_session();
        assert!(entry.client().is_none());
        assert_eq!((entry.origin.number, &*entry.io.inbox), (number, &[1, 2, 3][..]));
    }
}
