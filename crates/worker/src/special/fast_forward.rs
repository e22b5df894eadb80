//! Fast-forward users: after the login, bytes go straight through to one dedicated connection.

use trunkline_protocol::capability::Capabilities;

use crate::{
    Action, Side,
    action::Peer,
    clients::client::{Client, Session},
    rooms::{Core, Exchange, Lender},
    server_login::as_sent,
    servers::conn::{Conn, ConnPhase},
};

/// Flags that both ends must have alike when bytes go through as they are.
pub(crate) const THROUGHOUT: Capabilities = Capabilities::DEPRECATE_EOF
    .union(Capabilities::SESSION_TRACK)
    .union(Capabilities::OPTIONAL_RESULTSET_METADATA)
    .union(Capabilities::QUERY_ATTRIBUTES)
    .union(Capabilities::EXTENDED);

impl Exchange {
    /// Bytes of the client.
    pub(crate) fn forward_to_server(&mut self, client: &mut Client, conn: &mut Conn, bytes: &[u8]) {
        let max = self.core.env.snapshot.settings.client_buffer_max;
        if conn.sends_binlog() {
            return self.replica_read(client, conn, bytes);
        }
        let is_ready = matches!(conn.phase, ConnPhase::Forward(_));
        let waiting = match is_ready {
            true => {
                conn.io.outbox.buf(&mut self.core.fx.buffers).extend_from_slice(bytes);
                conn.io.outbox.len()
            }
            false => {
                client.io.inbox.extend_from_slice(bytes);
                client.io.inbox.len()
            }
        };
        if is_ready {
            self.core.touch_server(conn);
        }
        if waiting > max && !client.io.is_paused {
            client.io.is_paused = true;
            self.core.fx.act(Action::Pause(Side::Client(client.id)));
        }
    }
}

impl Core {
    /// Bytes of the server.
    pub(crate) fn forward_to_client(&mut self, client: &mut Client, conn: &mut Conn, bytes: &[u8]) {
        self.write_client(client, |out| out.extend_from_slice(bytes));
        self.clients.count_waiting(client);
        let max = self.buffer_max();
        let is_full = client.io.outbox.len() > max;
        if is_full && !conn.io.is_paused {
            conn.io.is_paused = true;
            self.fx.act(Action::Pause(Side::Server(conn.id)));
        }
    }

    /// The server took bytes: its client may be read again.
    pub(crate) fn after_server_write(&mut self, conn: &Conn) {
        let max = self.env.snapshot.settings.client_buffer_max;
        let ConnPhase::Forward(id) = conn.phase else {
            return self.after_upload_write(conn);
        };
        if conn.io.outbox.len() > max / 2 {
            return;
        }
        self.with_client(id, |core, client| {
            if std::mem::take(&mut client.io.is_paused) {
                core.resume_client(client);
            }
        });
    }
}

/// The attribute that tells a server where a client comes from whose connection it is alone.
const CLIENT_ADDR: &[u8] = b"client_addr";

/// What a server is told of a client: what the client tells of itself, and where it comes from,
/// which it does not say itself.
pub(crate) fn told_of(session: &Session, peer: &Peer) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut told = as_sent(&session.login.attributes);
    told.retain(|(name, _)| name != CLIENT_ADDR);
    told.push((CLIENT_ADDR.to_vec(), peer.host().into_bytes()));
    told
}
