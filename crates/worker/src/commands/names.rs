//! Commands whose names have become known go on.

use crate::{
    ClientId,
    clients::client::{Client, Phase},
    rooms::{Commands, Lender},
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
        let waiting = match std::mem::replace(&mut client.phase, Phase::Idle) {
            Phase::AwaitNames(waiting) if waiting.study.is_none() => waiting,
            other => {
                client.phase = other;
                return;
            }
        };
        client.session.has_asked_names = true;
        self.exchange.core.clients.set_timer(client, 0);
        match waiting.studied {
            None => self.command_again(client, &waiting.frames),
            Some(studied) => self.studied_names_told(client, studied),
        }
        self.exchange.core.wake_commands(client);
    }
}
