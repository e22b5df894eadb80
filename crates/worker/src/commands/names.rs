//! Commands whose names have become known go on.

use crate::{ClientId, clients::client::Phase, rooms::Commands};

impl Commands {
    /// See [`Worker::catalog_told`](crate::Worker::catalog_told).
    pub(crate) fn on_catalog_told(&mut self, clients: Vec<ClientId>) {
        clients.into_iter().for_each(|id| self.names_told(id));
    }

    /// A command that waited for its names goes on, whatever is known of them by now.
    pub(crate) fn names_told(&mut self, id: ClientId) {
        let Some(client) = self.exchange.core.clients.get_mut(id) else {
            return;
        };
        if !matches!(client.phase, Phase::AwaitNames(_)) {
            return;
        }
        let Phase::AwaitNames(waiting) = std::mem::replace(&mut client.phase, Phase::Idle) else {
            return;
        };
        if let Some(session) = client.session.as_mut() {
            session.has_asked_names = true;
        }
        self.exchange.core.clients.set_timer(id, 0);
        self.command_again(id, &waiting.frames);
        self.exchange.core.wake_commands(id);
    }
}
