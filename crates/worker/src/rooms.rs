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
