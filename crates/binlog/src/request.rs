//! What a server is asked, so that it sends its binary log.

use trunkline_protocol::codec::{put_u16, put_u32, put_u64};

use crate::executed::{Executed, set_on_wire};

/// `COM_BINLOG_DUMP`.
const BINLOG_DUMP: u8 = 0x12;
/// `COM_BINLOG_DUMP_GTID`.
const BINLOG_DUMP_GTID: u8 = 0x1E;
/// The flag `BINLOG_THROUGH_GTID`.
const THROUGH_GTID: u16 = 0x04;
/// Where the first event of each file begins.
const FIRST_POSITION: u32 = 4;

/// Who asks: no two who ask one server may be the same, as the second one ends the first one's
/// stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// A `server_id`.
    pub server: u32,
    /// A `server_uuid`.
    pub uuid: [u8; 16],
}

impl Identity {
    /// Made from random bytes: a UUID of version 4, and a `server_id` from 1,073,741,824 up, where
    /// people seldom number servers by hand.
    pub fn of_random(bytes: [u8; 20]) -> Self {
        let (server, uuid) = bytes.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
        let server = u32::from_le_bytes(*server) | 0x4000_0000;
        let mut uuid: [u8; 16] = uuid.try_into().unwrap_or_default();
        let [.., version, _, variant, _, _, _, _, _, _, _] = &mut uuid;
        *version = (*version & 0x0F) | 0x40;
        *variant = (*variant & 0x3F) | 0x80;
        Self { server, uuid }
    }

    fn uuid_text(&self) -> String {
        let mut text = String::new();
        for (at, byte) in self.uuid.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }
}

/// The statements that go ahead of the command: checksums as the server writes them, a sign of life
/// so often, and who asks.
///
/// protocol: mariadb kb "Replication Protocol"; MySQL's replicas say the same under two names.
pub fn preparations(from: &Executed, identity: &Identity, heartbeat_ms: u32) -> Vec<String> {
    let period_ns = u64::from(heartbeat_ms) * 1_000_000;
    let uuid = identity.uuid_text();
    match from {
        Executed::MySql(_) => vec![format!(
            "SET @source_binlog_checksum = @@GLOBAL.binlog_checksum, \
             @master_binlog_checksum = @@GLOBAL.binlog_checksum, \
             @source_heartbeat_period = {period_ns}, @master_heartbeat_period = {period_ns}, \
             @replica_uuid = '{uuid}', @slave_uuid = '{uuid}'"
        )],
        Executed::MariaDb(position) => vec![format!(
            "SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, \
             @master_heartbeat_period = {period_ns}, @mariadb_slave_capability = 4, \
             @slave_connect_state = '{position}', @slave_gtid_strict_mode = 1, \
             @slave_gtid_ignore_duplicates = 0"
        )],
    }
}

/// The command: all behind these transactions is wanted, and what comes later.
///
/// | `COM_BINLOG_DUMP_GTID` | | `COM_BINLOG_DUMP` | |
/// |---|---|---|---|
/// | flags | 2 | position | 4 |
/// | `server_id` | 4 | flags | 2 |
/// | length of the name, name | 4, 0 | `server_id` | 4 |
/// | position | 8 | name, to the end | 0 |
/// | length of the set, set | 4, … | | |
pub fn dump(from: &Executed, identity: &Identity) -> Vec<u8> {
    let mut out = Vec::new();
    match from {
        Executed::MySql(set) => {
            out.push(BINLOG_DUMP_GTID);
            put_u16(&mut out, THROUGH_GTID);
            put_u32(&mut out, identity.server);
            put_u32(&mut out, 0);
            put_u64(&mut out, u64::from(FIRST_POSITION));
            let set = set_on_wire(set);
            put_u32(&mut out, u32::try_from(set.len()).unwrap_or(u32::MAX));
            out.extend_from_slice(&set);
        }
        Executed::MariaDb(_) => {
            out.push(BINLOG_DUMP);
            put_u32(&mut out, FIRST_POSITION);
            put_u16(&mut out, 0);
            put_u32(&mut out, identity.server);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_uuid_and_a_high_number() {
        let identity = Identity::of_random([0xFF; 20]);
        assert_eq!(identity.server, u32::MAX);
        assert_eq!(identity.uuid_text(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let identity = Identity::of_random([0; 20]);
        assert_eq!(identity.server, 1 << 30);
        assert_eq!(identity.uuid_text(), "00000000-0000-4000-8000-000000000000");
    }

    #[test]
    fn commands_say_what_is_there_already() {
        let identity = Identity::of_random([0; 20]);
        let set = Executed::parse(crate::Family::MySql, "").expect("a set");
        let command = dump(&set, &identity);
        assert_eq!(command[..7], [0x1E, 4, 0, 0, 0, 0, 0x40]);
        assert_eq!(
            command[7..],
            [0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        let position = Executed::parse(crate::Family::MariaDb, "0-1-100").expect("a position");
        assert_eq!(dump(&position, &identity), [0x12, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0x40]);
        let said = preparations(&position, &identity, 1_000).concat();
        assert!(said.contains("@slave_connect_state = '0-1-100'"), "{said}");
        assert!(said.contains("@master_heartbeat_period = 1000000000,"), "{said}");
    }
}
