//! Step 10 for a login: the client is welcomed or refused.

use trunkline_protocol::{error::ClientError, packet::greeting::Flavor, packet::ok::OkPacket};

use crate::{
    clients::client::{Client, Phase},
    clients::session::ClientEntry,
    commands::command::SERVERS_CHARSET,
    effects::Wake,
    env::Env,
    login::SCHEMAS_MAX,
    rooms::{Core, Exchange},
    servers::conn::Conn,
};

impl Core {
    /// A server said that the account may use this schema.
    pub(super) fn confirm_schema(&mut self, client: &mut Client, schema: &[u8]) {
        if self.servers.logins.schemas.len() >= SCHEMAS_MAX {
            self.servers.logins.schemas.clear();
        }
        self.servers
            .logins
            .schemas
            .insert((client.session.login.account, schema.into()), self.env.now.ms());
    }

    /// The session's default schema is now this one, by its name in UTF-8.
    pub(crate) fn enter_schema(&mut self, client: &mut Client, schema: &[u8]) {
        let session = &mut *client.session;
        let mut state = (*session.settings.state).clone();
        state.choose_schema(schema.into());
        session.settings.state = self.servers.states.intern(state);
    }

    /// Goes back to the user before a change of user that failed, where that is what clients are
    /// used to. `lent`: the connection that is lent, if one is.
    pub(crate) fn keep_user(&mut self, client: &mut Client, lent: Option<&mut Conn>) -> bool {
        if !self.env.keeps_user() || !client.is_changing() {
            return false;
        }
        self.stay(client, lent);
        true
    }

    /// The user of a client changes, with this body, when the event is over.
    pub(crate) fn change_when_over(&mut self, client: &mut Client, body: Box<[u8]>) {
        if matches!(client.phase, Phase::Idle) {
            client.phase = Phase::ChangeUser;
            self.fx.wake(Wake::ChangeUser(client.id, body));
        }
    }

    /// The user stays whose change has failed.
    pub(crate) fn stay(&mut self, client: &mut Client, mut lent: Option<&mut Conn>) {
        self.free_leases(client, lent.as_deref_mut());
        client.go_back();
        client.failed_changes = client.failed_changes.saturating_add(1);
        client.phase = Phase::Idle;
        self.begin_anew(client, SERVERS_CHARSET, lent);
    }

    /// Resets the session's connections. `lent`: the connection that is lent, if one is.
    pub(crate) fn free_leases(&mut self, client: &mut Client, mut lent: Option<&mut Conn>) {
        client.session.transaction.kept = None;
        for lease in client.session.leave_all() {
            self.free_lease(client, &lease, lent.as_deref_mut());
        }
    }
}

impl Exchange {
    /// Acknowledges the login.
    pub(crate) fn welcome(&mut self, client: &mut Client, seq: u8) {
        client.confirm();
        let proof = client.origin.proof.take();
        let info = proof.as_deref().unwrap_or_default();
        self.core.write_ok(client, seq, OkPacket { info, ..OkPacket::default() });
        self.core.begin_client_packing(client);
        if client.session.login.user.fast_forward {
            self.core.fx.wake(Wake::Forward(client.id));
        }
    }

    /// Answers a login that fails with an error packet. It ends the connection, but for a change of
    /// user where that leaves the user as he was. `lent`: the connection that is lent, if one is.
    pub(crate) fn refuse_user(&mut self, entry: &mut ClientEntry, seq: u8, error: ClientError) {
        match entry {
            ClientEntry::LoggedIn(client) => self.refuse_change(client, seq, error, None),
            ClientEntry::Anonymous(_) => self.refuse_login(entry, seq, error),
        }
    }

    /// See [`Self::refuse_user`]; of a client that has logged in before.
    pub(super) fn refuse_change(
        &mut self,
        client: &mut Client,
        seq: u8,
        error: ClientError,
        mut lent: Option<&mut Conn>,
    ) {
        let is_kept = self.core.keep_user(client, lent.as_deref_mut());
        if is_kept {
            client.note_error(&error);
        }
        self.core.write_error(client, seq, &error);
        if !is_kept {
            self.end_client(client, lent);
        }
    }
}

impl Env {
    /// Whether clients are used to it that a change of user that failed leaves them who they are.
    pub(crate) fn keeps_user(&self) -> bool {
        self.greeting.flavor() == Flavor::MariaDb
    }
}
