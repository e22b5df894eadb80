//! The parts of a worker, one inside another. A part calls only itself and what is inside it; what
//! an outer part has to do is pushed as a [`Wake`](crate::effects::Wake). `docs/decisions/0048`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::{
    ClientId,
    clients::{Clients, client::Client},
    effects::Effects,
    env::Env,
    mirror::Mirrors,
    routing::Router,
    servers::Servers,
    statement::Statements,
};

/// Client and server connections, and what is written to them.
pub(crate) struct Core {
    pub(crate) env: Env,
    pub(crate) clients: Clients,
    pub(crate) servers: Servers,
    pub(crate) fx: Effects,
}

/// Statements on their way to a server connection and back.
pub(crate) struct Exchange {
    pub(crate) core: Core,
    pub(crate) statements: Statements,
    /// Copies of statements for other hostgroups.
    pub(crate) mirrors: Mirrors,
}

/// Clients' commands, and where they go.
pub(crate) struct Commands {
    pub(crate) exchange: Exchange,
    pub(crate) router: Router,
}

/// A part of a worker that lends clients.
pub(crate) trait Lender: Sized {
    fn clients(&mut self) -> &mut Clients;

    /// Lends a client to `work`, unless it has gone: until that returns, nobody finds the client by
    /// its id. A client that a panic comes from is there again, for its driver to abandon it.
    #[inline]
    fn with_client<R>(
        &mut self,
        id: ClientId,
        work: impl FnOnce(&mut Self, &mut Client) -> R,
    ) -> Option<R> {
        let mut client = self.clients().table.lend(id)?;
        let done = catch_unwind(AssertUnwindSafe(|| work(self, &mut client)));
        debug_assert!(done.is_err() || client.is_consistent(), "{:?}", client.phase);
        self.clients().table.take_back(id, client);
        match done {
            Ok(result) => Some(result),
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl Lender for Core {
    #[inline]
    fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }
}

impl Lender for Exchange {
    #[inline]
    fn clients(&mut self) -> &mut Clients {
        &mut self.core.clients
    }
}

impl Lender for Commands {
    #[inline]
    fn clients(&mut self) -> &mut Clients {
        &mut self.exchange.core.clients
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc};

    use super::*;
    use crate::{
        accept::arrival::Arrival,
        action::Peer,
        clients::client::{Origin, Phase},
    };
    use trunkline_topology::HostName;

    struct Part(Clients);

    impl Lender for Part {
        fn clients(&mut self) -> &mut Clients {
            &mut self.0
        }
    }

    fn origin() -> Origin {
        let peer = Peer {
            client_addr: Some(IpAddr::from([127, 0, 0, 1])),
            host_name: HostName::Unasked,
            client_uid: None,
            told: None,
            proxy_addr: None,
            proxy_port: None,
            listener: 0,
            is_local: true,
            tls: None,
        };
        Origin {
            peer: Arc::new(peer),
            number: 1,
            nonce: [1; 20],
            arrival: Arrival::Admitted,
            _address_place: None,
            tls: None,
            proof: None,
            has_place: false,
        }
    }

    #[test]
    fn a_client_that_a_panic_comes_from_is_there_again() {
        let mut part = Part(Clients::default());
        let id = part.0.table.insert_with(|id| Client::new(id, origin(), Phase::Closing, 0));
        let panics = catch_unwind(AssertUnwindSafe(|| {
            part.with_client(id, |_, client| {
                client.active_ms = 7;
                panic!("in the middle of its work");
            });
        }));
        assert!(panics.is_err());
        assert_eq!(part.0.get(id).map(|client| client.active_ms), Some(7));
        assert_eq!(part.with_client(id, |_, client| client.id), Some(id));
    }

    #[test]
    fn nothing_is_done_for_a_client_that_has_gone() {
        let mut part = Part(Clients::default());
        let id = part.0.table.insert_with(|id| Client::new(id, origin(), Phase::Idle, 0));
        part.0.table.remove(id);
        assert_eq!(part.with_client(id, |_, client| client.id), None);
    }
}
