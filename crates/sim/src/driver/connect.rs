//! Connecting to servers, as the real driver does it.

use std::sync::Arc;

use trunkline_topology::{Server, ServerHealth};
use trunkline_worker::{ConnId, Side};

use super::{Driver, Outside, Wish, sockets::Socket};
use crate::{HostId, wire::Far};

/// How a connecting socket stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connecting {
    /// No answer yet.
    Pending,
    /// Connected.
    Done,
    /// Refused or unreachable, for this reason.
    Failed(String),
}

impl Driver {
    pub(super) fn open_server(&mut self, out: &mut Outside<'_>, conn: ConnId, server: &Server) {
        match out.hosts.host_of(server) {
            Some(host) => {
                let health = Arc::clone(&server.health);
                self.begin_connecting(out, Side::Server(conn), host, health);
            }
            None => {
                let reason = format!("{} is not reachable", server.key.address);
                self.worker.server_failed(conn, &reason);
            }
        }
    }

    fn begin_connecting(
        &mut self,
        out: &mut Outside<'_>,
        side: Side,
        host: HostId,
        health: Arc<ServerHealth>,
    ) {
        let link = out.wire.link(Far::Host(host), &out.hosts.pipe_to(host));
        out.trace.note(out.now, || {
            format!(
                "worker {} connects link {} to host {} for {side:?}",
                self.index, link.0, host.0
            )
        });
        let mut socket = Socket::new(link, side);
        socket.is_connecting = true;
        socket.connecting = Connecting::Pending;
        self.add(out, socket);
        out.wishes.push(Wish::Syn(link, host, health));
    }

    pub(super) fn check_connecting(&mut self, out: &mut Outside<'_>, side: Side) {
        let Some(socket) = self.sockets.get_mut(side) else {
            return;
        };
        match socket.connecting.clone() {
            Connecting::Pending => {}
            Connecting::Failed(reason) => self.ended(out, side, &reason),
            Connecting::Done => {
                socket.is_connecting = false;
                if let Side::Server(conn) = side {
                    self.worker.server_connected(conn);
                }
                self.write(out, side);
                self.read(out, side);
            }
        }
    }
}
