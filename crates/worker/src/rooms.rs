//! The parts of a worker, one inside another. A part calls only itself and what is inside it; what
//! an outer part has to do is pushed as a [`Wake`](crate::effects::Wake). `docs/decisions/0048`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use trunkline_pool::ConnId;

use crate::{
    ClientId,
    clients::{Clients, client::Client, session::ClientEntry},
    effects::Effects,
    env::Env,
    mirror::Mirrors,
    routing::Router,
    servers::{Servers, conn::Conn},
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

/// A part of a worker that lends clients and server connections.
pub(crate) trait Lender: Sized {
    fn clients(&mut self) -> &mut Clients;
    fn servers(&mut self) -> &mut Servers;

    /// Lends a client connection to `work`, unless it has gone: until that returns, nobody finds it
    /// by its id. One that a panic comes from is there again, for its driver to abandon it.
    #[inline]
    fn with_entry<R>(
        &mut self,
        id: ClientId,
        work: impl FnOnce(&mut Self, &mut ClientEntry) -> R,
    ) -> Option<R> {
        let mut entry = self.clients().table.lend(id)?;
        let done = catch_unwind(AssertUnwindSafe(|| work(self, &mut entry)));
        let entry = entry.settled();
        debug_assert!(done.is_err() || entry.is_consistent(), "{:?}", entry.phase);
        self.clients().table.take_back(id, entry);
        match done {
            Ok(result) => Some(result),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Lends a client that has logged in, as [`Self::with_entry`] lends any.
    #[inline]
    fn with_client<R>(
        &mut self,
        id: ClientId,
        work: impl FnOnce(&mut Self, &mut Client) -> R,
    ) -> Option<R> {
        self.with_entry(id, |part, entry| entry.client_mut().map(|client| work(part, client)))?
    }

    /// Lends a server connection to `work`, unless it has gone: until that returns, nobody finds
    /// the connection by its id. One that ends meanwhile is closed for whoever has it, and does not
    /// come back. One that a panic comes from is there again, unless it has ended.
    #[inline]
    fn with_conn<R>(
        &mut self,
        id: ConnId,
        work: impl FnOnce(&mut Self, &mut Conn) -> R,
    ) -> Option<R> {
        let mut conn = self.servers().conns.lend(id)?;
        let done = catch_unwind(AssertUnwindSafe(|| work(self, &mut conn)));
        self.servers().conns.take_back(id, conn);
        match done {
            Ok(result) => Some(result),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Gives a server connection to `work`, unless it has gone: the one that is lent already, if it
    /// is that, or else out of the table.
    fn with_conn_or<R>(
        &mut self,
        lent: Option<&mut Conn>,
        id: ConnId,
        work: impl FnOnce(&mut Self, &mut Conn) -> R,
    ) -> Option<R> {
        match lent {
            Some(conn) if conn.id == id => (!conn.is_closed()).then(|| work(self, conn)),
            _ => self.with_conn(id, work),
        }
    }
}

impl Lender for Core {
    #[inline]
    fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }

    #[inline]
    fn servers(&mut self) -> &mut Servers {
        &mut self.servers
    }
}

impl Lender for Exchange {
    #[inline]
    fn clients(&mut self) -> &mut Clients {
        &mut self.core.clients
    }

    #[inline]
    fn servers(&mut self) -> &mut Servers {
        &mut self.core.servers
    }
}

impl Lender for Commands {
    #[inline]
    fn clients(&mut self) -> &mut Clients {
        &mut self.exchange.core.clients
    }

    #[inline]
    fn servers(&mut self) -> &mut Servers {
        &mut self.exchange.core.servers
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc};

    use super::*;
    use crate::{
        accept::arrival::Arrival,
        action::Peer,
        clients::client::{Frontend, Origin, Phase},
        servers::conn::ConnPhase,
        tests::{TWO_SERVERS, snapshot},
    };
    use trunkline_pool::{AccountId, Pool};
    use trunkline_session::tracker::{Charset, Schema, SessionState};
    use trunkline_topology::{HostName, HostgroupId};

    struct Part(Clients, Servers);

    impl Lender for Part {
        fn clients(&mut self) -> &mut Clients {
            &mut self.0
        }

        fn servers(&mut self) -> &mut Servers {
            &mut self.1
        }
    }

    impl Part {
        fn new() -> Self {
            Self(Clients::default(), Servers::new(1))
        }

        /// A connection to a server that is in no pool.
        fn open(&mut self) -> ConnId {
            let mut pool = Pool::<ClientId>::new(1);
            pool.apply(snapshot(TWO_SERVERS).servers());
            let slot = pool.slots().next().map(|(slot, _)| slot).expect("a server");
            let state = Arc::new(SessionState::new(Schema::None, Charset::Unknown));
            let place = (slot, HostgroupId(10));
            self.1
                .conns
                .insert_with(|id| Conn::new(id, place, AccountId(0), ConnPhase::Ready, state))
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
            half_open: None,
            _address_place: None,
            tls: None,
            proof: None,
            has_place: false,
        }
    }

    fn anonymous(id: ClientId) -> ClientEntry {
        ClientEntry::Anonymous(Frontend::new(id, origin(), Phase::Closing, 0))
    }

    #[test]
    fn a_client_that_a_panic_comes_from_is_there_again() {
        let mut part = Part::new();
        let id = part.0.table.insert_with(anonymous);
        let panics = catch_unwind(AssertUnwindSafe(|| {
            part.with_entry(id, |_, client| {
                client.active_ms = 7;
                panic!("in the middle of its work");
            });
        }));
        assert!(panics.is_err());
        assert_eq!(part.0.table.get(id).map(|client| client.active_ms), Some(7));
        assert_eq!(part.with_entry(id, |_, client| client.id), Some(id));
        assert_eq!(part.with_client(id, |_, client| client.id), None, "nobody has logged in");
    }

    #[test]
    fn nothing_is_done_for_a_client_that_has_gone() {
        let mut part = Part::new();
        let id = part.0.table.insert_with(anonymous);
        part.0.table.remove(id);
        assert_eq!(part.with_entry(id, |_, client| client.id), None);
    }

    #[test]
    fn a_connection_that_a_panic_comes_from_is_there_again() {
        let mut part = Part::new();
        let id = part.open();
        let panics = catch_unwind(AssertUnwindSafe(|| {
            part.with_conn(id, |_, conn| {
                conn.holder.turn = 7;
                panic!("in the middle of its work");
            });
        }));
        assert!(panics.is_err());
        assert_eq!(part.1.conns.get(id).map(|conn| conn.holder.turn), Some(7));
    }

    #[test]
    fn a_connection_that_ends_while_it_is_lent_does_not_come_back() {
        let mut part = Part::new();
        let id = part.open();
        part.with_conn(id, |part, conn| {
            part.1.forget(conn);
            assert!(part.1.conns.get(id).is_none() && conn.is_closed());
            assert_eq!(part.with_conn_or(Some(conn), id, |_, conn| conn.id), None);
        });
        assert_eq!(part.with_conn(id, |_, conn| conn.id), None);
        assert_eq!(part.1.conns.len(), 0);
    }

    #[test]
    fn a_connection_that_is_lent_is_given_and_another_one_is_looked_up() {
        let mut part = Part::new();
        let (one, other) = (part.open(), part.open());
        part.with_conn(one, |part, conn| {
            for id in [one, other] {
                assert_eq!(part.with_conn_or(Some(conn), id, |_, conn| conn.id), Some(id));
            }
            assert_eq!(part.with_conn_or(None, other, |_, conn| conn.id), Some(other));
        });
    }
}
