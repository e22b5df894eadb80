//! A session's state begins anew.

use trunkline_protocol::{packet::greeting::Flavor, packet::tracker_filter::TrackerFilter};
use trunkline_session::tracker::{Charset, SessionState};

use crate::{
    clients::client::{Client, Frontend},
    commands::command::SERVERS_CHARSET,
    effects::Wake,
    login::ignore_spaces,
    rooms::Core,
    servers::conn::Conn,
};

impl Core {
    /// A client may begin its next command: if it has sent some ahead, it does when this event is
    /// over.
    pub(crate) fn wake_commands(&mut self, client: &mut Frontend) {
        if client.io.packing.is_some() || !client.io.inbox.is_empty() {
            self.fx.wake(Wake::Commands(client.id));
        }
    }

    /// The session is as after its login, but for the schema. MariaDB goes back to the handshake's
    /// character set, MySQL to the server's default. `lent`: the connection that is lent, if one
    /// is.
    pub(crate) fn forget_state(&mut self, client: &mut Client, lent: Option<&mut Conn>) {
        let charset = match self.env.greeting.flavor() {
            Flavor::MariaDb => client.session.login.handshake_charset.clone(),
            Flavor::MySql => SERVERS_CHARSET,
        };
        self.begin_anew(client, charset, lent);
    }

    /// The session is as after its login, but for the schema, and has this character set.
    pub(super) fn begin_anew(
        &mut self,
        client: &mut Client,
        charset: Charset,
        lent: Option<&mut Conn>,
    ) {
        let is_mysql = self.env.greeting.flavor() == Flavor::MySql;
        let status = self.begin_status();
        let session = &mut *client.session;
        let mut state = SessionState::new(session.settings.state.schema.clone(), charset);
        if is_mysql {
            ignore_spaces(&mut state, session.login.capabilities);
        }
        session.settings.modes =
            self.servers.defaults.modes.of_session(&state, self.env.greeting.flavor(), None);
        session.settings.state = self.servers.states.intern(state);
        session.settings.accepted_sets = Vec::new();
        session.prepared = session.prepared.none_behind();
        let soiled = std::mem::take(&mut session.soiled);
        session.last_insert_id = 0;
        session.transaction = Default::default();
        session.settings.begun = None;
        session.settings.prepares_definitions = false;
        session.last_conn = None;
        session.insert_conn = None;
        session.past = session.past.after_reset();
        session.settings.told = TrackerFilter::DEFAULT;
        session.settings.status = status;
        self.reset_soiled(client.id, soiled, lent);
        self.begin_autocommit(client);
    }
}
