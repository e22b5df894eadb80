//! Commands whose names have become known go on.

use std::rc::Rc;

use trunkline_protocol::{
    capability::Capabilities,
    codec::frame::HEADER_LEN,
    command::{code, execute::STMT_ID_AT},
};

use crate::{
    Action, ClientId,
    clients::client::{Client, Phase},
    commands::command::long_command_end,
    rooms::{Commands, Lender},
    routing::ruled::RulesAsk,
    statement::{
        proof::AwaitNames,
        study::{Executed, Found, LongCommand, Studied, StudiedText, Study},
    },
};

/// Whether a command is a `COM_STMT_EXECUTE` or `COM_STMT_BULK_EXECUTE`.
fn is_execution(frames: &[u8]) -> bool {
    matches!(frames.get(HEADER_LEN), Some(&(code::STMT_EXECUTE | code::STMT_BULK_EXECUTE)))
}

/// What a command is an execution of, if it is one of a statement that there is.
fn executed_by(client: &Client, frames: &[u8]) -> Option<Executed> {
    if !is_execution(frames) {
        return None;
    }
    let stmt_id = frames.get(STMT_ID_AT..)?.first_chunk().map(|id| u32::from_le_bytes(*id))?;
    let prepared = &client.session.as_ref()?.prepared;
    let stmt = prepared.get(prepared.resolve(stmt_id)?)?;
    let params = stmt.entry.params;
    let mut long: Vec<usize> = stmt.long.iter().flat_map(|long| long.parameters()).collect();
    long.sort_unstable();
    long.dedup();
    Some(Executed { params, long })
}

impl Commands {
    /// See [`Worker::catalog_told`](crate::Worker::catalog_told).
    pub(crate) fn on_catalog_told(&mut self, clients: Vec<ClientId>) {
        for id in clients {
            self.with_client(id, Self::names_told);
        }
    }

    /// A command that waited for its names goes on, whatever is known of them by now.
    pub(crate) fn names_told(&mut self, client: &mut Client) {
        let waiting = match std::mem::replace(&mut client.phase, Phase::Idle) {
            Phase::AwaitNames(waiting) if waiting.study.is_none() => waiting,
            other => {
                client.phase = other;
                return;
            }
        };
        if let Some(session) = client.session.as_mut() {
            session.has_asked_names = true;
        }
        self.exchange.core.clients.set_timer(client, 0);
        match waiting.studied {
            None => self.command_again(client, &waiting.frames),
            // In the modes that it was read in. Where others hold now, it is read again.
            Some((command, found)) => self.long_command_again(client, command, found),
        }
        self.exchange.core.wake_commands(client);
    }

    /// Gives a command with a long text away to be studied, if it is the first in the inbox; what
    /// is behind it stays there. False for any other.
    pub(super) fn begin_study(&mut self, client: &mut Client, inbox: &mut Vec<u8>) -> bool {
        let payload_max = self.exchange.core.env.snapshot.settings.max_allowed_packet;
        let is_lost = client.session.as_ref().is_none_or(|session| session.lost.is_some());
        let (Some(end), false) = (long_command_end(inbox, payload_max), is_lost) else {
            return false;
        };
        let executed = executed_by(client, inbox);
        let is_unreadable = executed.is_none() && is_execution(inbox);
        if is_unreadable {
            return false;
        }
        let modes = self.exchange.core.modes(client);
        client.recent_commands = client.recent_commands.saturating_add(1);
        self.exchange.core.fx.stats.counters.commands += 1;
        client.io.inbox = inbox.split_off(end);
        let frames = std::mem::take(inbox);
        let session = client.session.as_ref();
        let chance = self.router.next_chance();
        let rules = session.and_then(|session| {
            let snapshot = &self.exchange.core.env.snapshot;
            RulesAsk::of(snapshot, &client.origin.peer, session, chance)
        });
        let statements = &mut self.exchange.statements;
        statements.studies += 1;
        let (ticket, len) = (statements.studies, frames.len());
        let study = Some((ticket, 2 * len));
        let waiting = AwaitNames { frames: Vec::new(), studied: None, study };
        client.phase = Phase::AwaitNames(Box::new(waiting));
        let study = Study {
            client: client.id,
            ticket,
            frames,
            takes_attributes: client.has_capability(Capabilities::QUERY_ATTRIBUTES),
            executed,
            modes,
            method: statements.analyses.method(),
            rules: rules.map(Box::new),
        };
        self.exchange.core.fx.act(Action::Study(Box::new(study)));
        true
    }

    /// See [`Worker::studied`](crate::Worker::studied).
    pub(crate) fn on_studied(&mut self, client: &mut Client, studied: Studied) {
        let Phase::AwaitNames(waiting) = &client.phase else { return };
        if waiting.study.is_none_or(|(ticket, _)| ticket != studied.ticket) {
            return;
        }
        client.phase = Phase::Idle;
        let Studied { command, modes, known, ruled, .. } = studied;
        let found = known.map(|known| Found { modes, known: Rc::new(*known), ruled });
        self.long_command_again(client, command, found);
        self.exchange.core.clients.weigh(client);
        self.exchange.core.wake_commands(client);
    }

    /// A long command that has been read goes on.
    fn long_command_again(
        &mut self,
        client: &mut Client,
        command: LongCommand,
        found: Option<Found>,
    ) {
        let takes_attributes = client.has_capability(Capabilities::QUERY_ATTRIBUTES);
        let text = command.text(takes_attributes).unwrap_or_default();
        let analyses = &mut self.exchange.statements.analyses;
        if let Some(found) = found {
            analyses.set_studied(StudiedText::new(text, found));
        }
        self.exchange.core.fx.whole = Some(command.whole.clone());
        self.payload_again(client, &command.whole.frames, command.payload());
        self.exchange.core.fx.whole = None;
        let studied = self.exchange.statements.analyses.take_studied();
        if let Phase::AwaitNames(waiting) = &mut client.phase
            && waiting.study.is_none()
        {
            waiting.studied = Some((command, studied.map(|studied| studied.found)));
        }
    }
}
