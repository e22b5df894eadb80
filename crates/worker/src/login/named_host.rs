//! A login that depends on what the client's host is called goes on when that is known.

use std::{net::IpAddr, sync::Arc};

use trunkline_session::frontend::ClientHandshake;
use trunkline_stats::ClientRefusal;
use trunkline_topology::{HostAnswer, HostName};

use crate::{
    Action,
    accept::arrival::Turned,
    accept::host_names::{ASKING_MAX, FAILURE_KEPT_MS, NAME_KEPT_MS},
    clients::client::Phase,
    clients::session::ClientEntry,
    rooms::{Exchange, Lender},
};

impl Exchange {
    /// Has a client wait for what its host is called, unless that is known.
    pub(crate) fn name_host(&mut self, client: &mut ClientEntry) {
        let Some(addr) = client.origin.peer.client_addr else {
            return;
        };
        if let Some(name) = self.core.env.shared.host_names().find(addr, self.core.env.now.ms()) {
            return self.go_on_named(client, name);
        }
        if let Some(waiting) = self.core.clients.logins.naming.get_mut(&addr) {
            waiting.push(client.id);
        } else if self.core.clients.logins.naming.len() < ASKING_MAX {
            self.core.clients.logins.naming.insert(addr, vec![client.id]);
            self.core.fx.act(Action::LookUpHost(addr));
        } else {
            self.core.fx.stats.counters.host_names_unasked += 1;
            self.go_on_named(client, HostName::Nameless);
        }
    }

    /// See [`Worker::host_named`](crate::Worker::host_named).
    pub(crate) fn on_host_named(&mut self, addr: IpAddr, answer: HostAnswer) {
        let now_ms = self.core.env.now.ms();
        let counters = &mut self.core.fx.stats.counters;
        let (name, kept_ms) = match answer {
            HostAnswer::Named(name) => {
                counters.host_names_found += 1;
                (HostName::Named(name), NAME_KEPT_MS)
            }
            HostAnswer::Nameless => {
                counters.host_names_missing += 1;
                (HostName::Nameless, NAME_KEPT_MS)
            }
            HostAnswer::Unconfirmed(name) => {
                counters.host_names_unconfirmed += 1;
                self.core.fx.log(true, || {
                    format!(
                        "{addr} is called {name}, and {name} is not {addr}: it has no name here"
                    )
                });
                (HostName::Nameless, NAME_KEPT_MS)
            }
            HostAnswer::Failed(reason) => {
                counters.host_names_failed += 1;
                self.core.fx.log(true, || format!("what {addr} is called is not known: {reason}"));
                (HostName::Nameless, FAILURE_KEPT_MS)
            }
        };
        self.core.env.shared.host_names().remember(
            addr,
            name.clone(),
            now_ms.saturating_add(kept_ms),
        );
        for id in self.core.clients.logins.naming.remove(&addr).unwrap_or_default() {
            self.with_entry(id, |exchange, client| exchange.go_on_named(client, name.clone()));
        }
    }

    /// A client's login goes on, unless its listener does not take hosts of that name.
    fn go_on_named(&mut self, client: &mut ClientEntry, name: HostName) {
        debug_assert!(name != HostName::Unasked);
        let Phase::Login(handshake) = &client.phase else {
            return;
        };
        let Some(answer_seq) = handshake.host_answer_seq() else {
            return;
        };
        Arc::make_mut(&mut client.origin.peer).host_name = name;
        let peer = Arc::clone(&client.origin.peer);
        // Who is logged in already was judged when it came.
        if client.client().is_none() && !self.core.env.is_allowed(&peer) {
            self.core.fx.stats.counters.client_refused(ClientRefusal::AddressNotAllowed);
            let error = Turned::NotAllowed.error(&peer.host());
            return self.refuse_login(client, answer_seq, error);
        }
        self.login_resumed(client, ClientHandshake::on_host_named);
    }
}
