//! The parts of a worker, one inside another. A part calls only itself and what is inside it; what
//! an outer part has to do is pushed as a [`Wake`](crate::effects::Wake). `docs/decisions/0048`.

use crate::{
    clients::Clients, effects::Effects, env::Env, mirror::Mirrors, routing::Router,
    servers::Servers, statement::Statements,
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
