//! Commands whose names have become known go on.

use std::{rc::Rc, sync::Arc};

use trunkline_protocol::capability::Capabilities;

use crate::{
    Action, ClientId,
    clients::client::{Client, Phase},
    commands::command::long_command_end,
    rooms::{Commands, Lender},
    routing::ruled::RulesAsk,
    statement::{
        proof::AwaitNames,
        study::{Found, LongCommand, Studied, StudiedText, Study},
    },
};

impl Commands {
    /// See [`Worker::catalog_told`](crate::Worker::catalog_told).
    pub(crate) fn on_catalog_told(&mut self, clients: Vec<ClientId>) {
        for id in clients {
            self.with_client(id, Self::names_told);
        }
    }

    /// A command that waited for its names goes on, whatever is known of them by now.
    pub(crate) fn names_told(&mut self, client: &mut Client) {
        if !matches!(&client.phase, Phase::AwaitNames(waiting) if waiting.study.is_none()) {
            return;
        }
        let Phase::AwaitNames(waiting) = std::mem::replace(&mut client.phase, Phase::Idle) else {
            return;
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
        let Some(modes) = self.exchange.core.modes(client) else { return false };
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
        match studied.known {
            Some(known) => {
                let Studied { modes, ruled, command, .. } = studied;
                let found = Found { modes, known: Rc::new(*known), ruled };
                self.long_command_again(client, command, found);
            }
            None => self.command_again(client, &studied.command.frames),
        }
        self.exchange.core.clients.weigh(client);
        self.exchange.core.wake_commands(client);
    }

    /// A command whose long text is known goes on.
    fn long_command_again(&mut self, client: &mut Client, command: LongCommand, found: Found) {
        let takes_attributes = client.has_capability(Capabilities::QUERY_ATTRIBUTES);
        let text = command.text(takes_attributes).unwrap_or_default();
        let analyses = &mut self.exchange.statements.analyses;
        analyses.set_studied(StudiedText::new(text, found));
        self.exchange.core.fx.whole = Some(Arc::clone(&command.frames));
        self.payload_again(client, &command.frames, command.payload());
        self.exchange.core.fx.whole = None;
        let studied = self.exchange.statements.analyses.take_studied();
        if let (Phase::AwaitNames(waiting), Some(studied)) = (&mut client.phase, studied)
            && waiting.study.is_none()
        {
            waiting.studied = Some((command, studied.found));
        }
    }
}
