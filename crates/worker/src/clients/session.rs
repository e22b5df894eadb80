//! The session of a client connection, and what becomes of it when its user changes.

use trunkline_pool::ConnId;

use super::client::Session;
use crate::session_past::Trace;

/// The session of one client connection.
#[derive(Debug, Default)]
pub(crate) enum ClientSession {
    /// Nobody has logged in yet, or the session is over.
    #[default]
    None,
    /// Somebody has logged in.
    Open(Box<Session>),
    /// Its client asks for another user and has proved nothing yet.
    Changing(Box<Session>),
    /// Its client has proved to be somebody. If the change fails after all, this session goes on;
    /// it has no connections.
    Left(Box<Session>),
    /// The new user's session, whose client has not been told that the change is done.
    Tried { session: Box<Session>, former: Box<Session> },
}

impl ClientSession {
    #[inline]
    pub(crate) fn as_ref(&self) -> Option<&Session> {
        match self {
            Self::Open(session) | Self::Changing(session) | Self::Tried { session, .. } => {
                Some(session)
            }
            Self::None | Self::Left(_) => None,
        }
    }

    #[inline]
    pub(crate) fn as_mut(&mut self) -> Option<&mut Session> {
        match self {
            Self::Open(session) | Self::Changing(session) | Self::Tried { session, .. } => {
                Some(session)
            }
            Self::None | Self::Left(_) => None,
        }
    }

    pub(crate) fn is_some(&self) -> bool {
        self.as_ref().is_some()
    }

    /// The session that goes on if the change of user fails, once the new user is proved.
    pub(crate) fn former_mut(&mut self) -> Option<&mut Session> {
        match self {
            Self::Left(former) | Self::Tried { former, .. } => Some(former),
            Self::None | Self::Open(_) | Self::Changing(_) => None,
        }
    }

    /// The session, and the one that goes on if the change of user fails.
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        let (session, former) = match self {
            Self::None => (None, None),
            Self::Open(session) | Self::Changing(session) => (Some(session), None),
            Self::Left(former) => (None, Some(former)),
            Self::Tried { session, former } => (Some(session), Some(former)),
        };
        [session, former].into_iter().flatten().map(|session| &mut **session)
    }

    /// The session that awaits this from that connection. Where both do, the former asked first,
    /// and a connection answers in order.
    pub(crate) fn awaiting(&mut self, conn: ConnId, trace: Trace) -> Option<&mut Session> {
        let mut found = None;
        for session in self.each_mut() {
            if *session.past.awaited_mut(trace) == Some(conn) {
                found = Some(session);
            }
        }
        found
    }

    /// Ends the session; none goes on.
    pub(crate) fn take(&mut self) -> Option<Box<Session>> {
        match std::mem::take(self) {
            Self::Open(session) | Self::Changing(session) | Self::Tried { session, .. } => {
                Some(session)
            }
            Self::None | Self::Left(_) => None,
        }
    }

    /// Its client asks for another user.
    pub(crate) fn begin_change(&mut self) {
        *self = match std::mem::take(self) {
            Self::Open(session) => Self::Changing(session),
            other => other,
        };
    }

    /// Its client has proved to be somebody.
    pub(crate) fn leave(&mut self) {
        *self = match std::mem::take(self) {
            Self::Open(session) | Self::Changing(session) => Self::Left(session),
            other => other,
        };
    }

    /// A session begins: the first one, or the new user's.
    pub(crate) fn begin(&mut self, session: Box<Session>) {
        *self = match std::mem::take(self) {
            Self::Left(former) | Self::Tried { former, .. } => Self::Tried { session, former },
            Self::None | Self::Open(_) | Self::Changing(_) => Self::Open(session),
        };
    }

    /// The login, or the change of user, is done.
    pub(crate) fn confirm(&mut self) {
        *self = match std::mem::take(self) {
            Self::Tried { session, .. } => Self::Open(session),
            other => other,
        };
    }

    /// The change of user has failed, and the user stays.
    pub(crate) fn go_back(&mut self) {
        *self = match std::mem::take(self) {
            Self::Changing(session) | Self::Left(session) => Self::Open(session),
            Self::Tried { session, mut former } => {
                // A new session of the same user has had the user's place.
                if former.login.place.is_none() {
                    former.login.place = session.login.place;
                }
                Self::Open(former)
            }
            other => other,
        };
    }

    /// Whether a change of user is under way.
    pub(crate) fn is_changing(&self) -> bool {
        matches!(self, Self::Changing(_) | Self::Left(_) | Self::Tried { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TestWorker;
    use std::sync::Arc;
    use trunkline_topology::User;

    /// A session of a user of this name.
    fn session(name: &str) -> Box<Session> {
        let mut world = TestWorker::new();
        let client = world.log_in();
        let client = world.core().clients.get_mut(client).expect("a client");
        let mut session = client.session.take().expect("it has logged in");
        let user = User { name: name.into(), ..User::clone(&session.login.user) };
        session.login.user = Arc::new(user);
        session
    }

    fn name(session: &ClientSession) -> Option<&str> {
        session.as_ref().map(|session| &*session.login.user.name)
    }

    #[test]
    fn a_change_of_user_that_fails_goes_back_from_each_of_its_steps() {
        let mut of = ClientSession::default();
        of.begin(session("old"));
        assert!(!of.is_changing());
        of.begin_change();
        assert_eq!(name(&of), Some("old"), "until the new user is proved");
        of.go_back();
        assert!(matches!(of, ClientSession::Open(_)));
        of.begin_change();
        of.leave();
        assert_eq!((name(&of), of.is_changing()), (None, true));
        of.go_back();
        assert_eq!((name(&of), of.is_changing()), (Some("old"), false));
        of.begin_change();
        of.leave();
        of.begin(session("new"));
        assert_eq!(of.each_mut().count(), 2);
        assert_eq!(name(&of), Some("new"));
        of.go_back();
        assert_eq!(of.each_mut().count(), 1);
        assert_eq!(name(&of), Some("old"));
    }

    #[test]
    fn a_change_of_user_that_is_done_leaves_nothing_to_go_back_to() {
        let mut of = ClientSession::default();
        of.begin(session("old"));
        of.begin_change();
        of.leave();
        of.begin(session("new"));
        of.confirm();
        of.go_back();
        assert!(of.former_mut().is_none());
        assert_eq!(name(&of), Some("new"));
        assert!(of.take().is_some());
        assert!(!of.is_some() && of.take().is_none());
    }
}
