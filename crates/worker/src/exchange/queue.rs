//! A statement goes back to the queue, or is refused.

use trunkline_pool::{AccountId, ConnState, Hold};
use trunkline_protocol::error::ErrorKind;
use trunkline_session::{
    backend::ServerHandshake,
    tracker::{Charset, Schema, SessionState},
};
use trunkline_topology::{HostgroupId, RefusalCause};

use crate::{
    clients::client::{Client, Phase, Stage},
    effects::Wake,
    rooms::{Core, Exchange},
    servers::conn::{Conn, ConnPhase, Owner},
};

impl Client {
    /// Hostgroup and account that the statement under way needs.
    pub(crate) fn wanted(&self) -> Option<(HostgroupId, AccountId)> {
        let Phase::Running(statement) = &self.phase else {
            return None;
        };
        Some((statement.target.hostgroup, self.session.login.account))
    }
}

impl Core {
    /// Marks a statement as waiting again.
    pub(crate) fn requeue(&mut self, client: &mut Client) {
        if let Phase::Running(statement) = &mut client.phase {
            statement.stage = Stage::Returning;
            statement.sent.assigned_us = 0;
            statement.prepared.runs_last = false;
            self.fx.wake(Wake::Returning(client.id));
        }
    }

    pub(crate) fn refusal_text(&self, hostgroup: HostgroupId, cause: RefusalCause) -> String {
        let now_ms = self.env.now.ms();
        let slots =
            self.servers.pool.slots().filter(|(_, slot)| slot.server.key.hostgroup == hostgroup);
        let slots: Vec<_> = slots.map(|(_, slot)| slot).filter(|slot| !slot.removed).collect();
        let is_online = |slot: &&&trunkline_pool::Slot| {
            slot.server.health.state(now_ms) == trunkline_topology::ServerState::Online
        };
        let online = slots.iter().filter(is_online).count();
        let servers = slots.len();
        match cause {
            RefusalCause::NoServer => "the hostgroup has no server".to_owned(),
            RefusalCause::NoneOnline => {
                format!(
                    "none of its {servers} servers is online{}",
                    self.servers.last_failure(hostgroup)
                )
            }
            RefusalCause::NoWriter => self.no_writer_text(hostgroup),
            RefusalCause::AllAtMaxConnections => {
                format!("its {online} online servers are at max_connections")
            }
            RefusalCause::AllBusy => match self.servers.pool.room(hostgroup).places {
                None => format!("every connection to its {online} servers is busy"),
                Some(places) => format!(
                    "each of the {places} places on its {online} servers is busy \
                     (server_concurrency)"
                ),
            },
            RefusalCause::QueueFull => {
                let queue_max = self.env.snapshot.settings.queue_max;
                match self.servers.pool.hold(hostgroup) {
                    Some(Hold::NoWriter { .. }) => {
                        let why = self.no_writer_text(hostgroup);
                        format!("{queue_max} statements are held already: {why}")
                    }
                    Some(Hold::Paused) => format!(
                        "{queue_max} statements are held already: the hostgroup is paused; \
                         nothing was executed, so it can be tried again"
                    ),
                    None => format!("{queue_max} statements wait already"),
                }
            }
            RefusalCause::ConnectTimeout => {
                let why = self.servers.last_failure(hostgroup);
                format!("no connection to its {online} online servers came up in time{why}")
            }
            RefusalCause::AuthenticationFailed => "a server refused the account".to_owned(),
            RefusalCause::Stopping => "the proxy is stopping".to_owned(),
        }
    }

    /// Logs an idle connection, already off its list, in as `account`. What sessions left there is
    /// fetched before: then it is offered again.
    pub(crate) fn log_in_again(
        &mut self,
        conn: &mut Conn,
        account: AccountId,
        client: &mut Client,
    ) {
        if self.fetch_before_parting(conn, Some(client)) {
            return;
        }
        let Some(login) = self.server_login(client, account, conn.slot, None) else {
            return self.discard_idle(conn);
        };
        // The answer to the trackers' `SET` may be on its way still; it comes before the login's.
        debug_assert!(
            conn.in_flight
                .iter()
                .all(|entry| matches!(entry.owner, Owner::Setup | Owner::Defaults))
        );
        let charset = Charset::Collation(login.collation);
        conn.state = self.servers.states.intern(SessionState::new(Schema::None, charset));
        conn.login.account = account;
        conn.login.password = self.servers.logins.password_turns.turn(conn.slot.index(), account);
        conn.holder.since_ms = self.env.now.ms();
        conn.login.login_us = self.env.now.us;
        conn.holder.owner = None;
        // What sessions left here is gone with the login before.
        conn.holder.last_client = None;
        conn.was_reset();
        conn.left.conditions_turn = None;
        conn.holder.turn += 1;
        let Some(identity) = conn.server.identity.as_deref().cloned() else {
            return;
        };
        let out = conn.io.outbox.buf(&mut self.fx.buffers);
        let handshake = ServerHandshake::change_user(login, identity, out);
        conn.phase = ConnPhase::Login(Box::new(handshake));
        self.servers.set_state(conn, ConnState::Connecting);
        self.touch_server(conn);
        self.forget_stmts(conn);
    }
}

impl Exchange {
    /// Gives up on a statement that waits, or would: tells the client why. `lent`: the connection
    /// that is lent, if one is.
    pub(crate) fn refuse_statement(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        cause: RefusalCause,
        waited_ms: u64,
        lent: Option<&mut Conn>,
    ) {
        self.core.fx.stats.refused(cause);
        let why = self.core.refusal_text(hostgroup, cause);
        let text = match waited_ms {
            0 => format!("Max connect timeout reached while reaching hostgroup {hostgroup}: {why}"),
            _ => format!(
                "Max connect timeout reached while reaching hostgroup {hostgroup} after \
                 {waited_ms}ms: {why}"
            ),
        };
        self.fail_unsent(client, ErrorKind::NoConnection.says(text), lent);
    }
}
