//! Replicas and change-data-capture tools: a client that asks for the binary log gets a server
//! connection of its own from there on. The server's bytes go straight through, and so do those of
//! the client that a replica may say.
//!
//! What the client has set before (`SET @master_binlog_checksum = …`) is on the connection that
//! it holds, or comes along as any session state, and is confirmed before the stream begins.

use trunkline_protocol::codec::frame::split_packet;

use crate::{
    clients::client::{Client, Phase},
    rooms::{Exchange, Lender},
    servers::conn::{Conn, ConnPhase},
};

impl Exchange {
    /// What came in one read with a dump that has begun.
    pub(crate) fn read_behind_dump(&mut self, client: &mut Client) {
        if let Phase::Forward(conn) = client.phase {
            self.with_conn(conn, |exchange, conn| {
                if conn.sends_binlog() {
                    exchange.replica_read(client, conn, &[]);
                }
            });
        }
    }
}

impl Conn {
    /// Whether a client gets the binary log there. That of a fast-forward user is the client's
    /// alone from its login on.
    pub(super) fn sends_binlog(&self) -> bool {
        matches!(self.phase, ConnPhase::Forward(_)) && self.login.forwards.is_none()
    }
}

/// The first byte of a semi-synchronous replica's acknowledgement.
const ACKNOWLEDGEMENT: u8 = 0xEF;
/// The code of `COM_QUIT`.
const QUIT: u8 = 0x01;
/// The longest packet of a replica, which names a binary log, bytes.
const REPLICA_PACKET_MAX: usize = 4_096;

/// How many bytes of whole packets there are, all of them what a replica says; `None` where one is
/// something else.
pub(crate) fn said_by_a_replica(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    while let Some((_, payload, behind)) = split_packet(rest) {
        if !matches!(payload.first(), Some(&ACKNOWLEDGEMENT | &QUIT)) {
            return None;
        }
        rest = behind;
    }
    (rest.len() <= REPLICA_PACKET_MAX).then_some(bytes.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_acknowledges_and_quits() {
        let ack = [3, 0, 0, 0, 0xEF, 1, 2];
        let quit = [1, 0, 0, 0, 1];
        let query = [5, 0, 0, 0, 3, b'D', b'O', b' ', b'1'];
        assert_eq!(said_by_a_replica(&[]), Some(0));
        assert_eq!(said_by_a_replica(&[&ack[..], &quit].concat()), Some(12));
        assert_eq!(said_by_a_replica(&[&ack[..], &ack[..5]].concat()), Some(7));
        assert_eq!(said_by_a_replica(&[&ack[..], &query].concat()), None);
        assert_eq!(said_by_a_replica(&[0; 4]), None);
        assert_eq!(said_by_a_replica(&[0xFF; REPLICA_PACKET_MAX + 1]), None);
    }
}
