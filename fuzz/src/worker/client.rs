//! A played client.

use trunkline_protocol::{
    Capabilities,
    auth::native,
    codec::frame::{put_payload, split_packet},
    packet::{greeting::NONCE_LEN, handshake_response::HandshakeResponse},
};
use trunkline_worker::ClientId;

/// What clients ask; one for each way a statement can go.
const STATEMENTS: &[&[u8]] = &[
    b"SELECT 1",
    b"SELECT c FROM t WHERE id = 7",
    b"INSERT INTO t VALUES (1, 'x')",
    b"BEGIN",
    b"COMMIT",
    b"ROLLBACK",
    b"START TRANSACTION READ ONLY",
    b"SET autocommit = 0",
    b"SET autocommit = 1",
    b"SET NAMES latin1",
    b"SET sql_mode = 'ANSI_QUOTES', time_zone = '+01:00'",
    b"SET @a = 1",
    b"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    b"SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI')",
    b"USE shop",
    b"USE other",
    b"CREATE TEMPORARY TABLE tmp (a INT)",
    b"LOCK TABLES t WRITE",
    b"UNLOCK TABLES",
    b"SELECT GET_LOCK('a', 1)",
    b"SELECT LAST_INSERT_ID()",
    b"SHOW WARNINGS",
    b"SELECT FOUND_ROWS()",
    b"SELECT SQL_CALC_FOUND_ROWS * FROM t LIMIT 1",
    b"SELECT * FROM t FOR UPDATE",
    b"KILL 7",
    b"PREPARE p FROM 'SELECT 1'",
    b"EXECUTE p",
    b"LOAD DATA LOCAL INFILE 'f' INTO TABLE t",
    b"SELECT 'ruled'",
    b"SELECT 'refused'",
    b"SELECT 1; SELECT 2",
    b"XA START 'a'",
    b"CALL p()",
    b"DROP DATABASE shop",
    b"SET ROLE admin",
    b"HANDLER t OPEN",
    b"\x00\xFF'",
];

/// Other commands, as payloads.
const COMMANDS: &[&[u8]] = &[
    b"\x0E",
    b"\x01",
    b"\x02shop",
    b"\x1F",
    b"\x16SELECT * FROM t WHERE id = ?",
    b"\x16INSERT INTO t VALUES (?)",
    b"\x17\x01\0\0\0\0\x01\0\0\0",
    b"\x17\xFF\xFF\xFF\xFF\0\x01\0\0\0",
    b"\x18\x01\0\0\0\0\0data",
    b"\x19\x01\0\0\0",
    b"\x1A\x01\0\0\0",
    b"\x1C\x01\0\0\0\x05\0\0\0",
    b"\x1B\0\0",
    b"\x1B\x01\0",
    b"\x09",
    b"\x04t\0%",
    b"\x0A",
    b"\x0C\x07\0\0\0",
    b"\x11app\0\x00shop\0\x2D\0mysql_native_password\0",
    b"\x11other\0\x00\0\x2D\0mysql_native_password\0",
    b"\x11sha\0\x00\0\x2D\0caching_sha2_password\0",
    b"\x11direct\0\x00\0\x2D\0mysql_native_password\0",
    b"\x12",
    b"\x08",
    b"\x63",
    b"",
    b"\x16SELECT c FROM t WHERE id = ?",
    b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x03\0\x07\0\0\0",
    b"\x17\x01\0\0\0\0\x01\0\0\0\0\0\x08\0\0\0",
    b"\x17\x01\0\0\0\x01\x01\0\0\0\0\x01\xFD\0\x01x",
    b"\x17\x02\0\0\0\0\x01\0\0\0\x01\x01\x06\0",
    b"\x17\x02\0\0\0\x01\x01\0\0\0\0\x01\xFC\0",
    b"\x18\x02\0\0\0\0\0more",
    b"\x1C\x02\0\0\0\x05\0\0\0",
    b"\x19\x02\0\0\0",
    b"\x17\x01\0\0\0\x08\x01\0\0\0\x01\0\x01\x03\0\0\x07\0\0\0",
    b"\x17\x01\0\0\0\x08\x01\0\0\0\x02\0\x01\x03\0\0\xFD\0\x02tr\x07\0\0\0\x01x",
    b"\xFA\x02\0\0\0\x80\0\x08\0\x01\x01",
];

/// Users of the configurations, and one of none. Their passwords are their names.
const USERS: [&str; 5] = ["app", "other", "sha", "direct", "nobody"];

/// A client of one of the workers.
#[derive(Debug)]
pub(super) struct Client {
    pub worker: usize,
    pub id: ClientId,
    pub nonce: [u8; NONCE_LEN],
    /// Whether it counts under the cap on clients.
    pub has_place: bool,
    /// What it wants to send and the worker has not read.
    pub unsent: Vec<u8>,
    /// The worker does not read from it.
    pub is_paused: bool,
    /// It does not take what is written to it.
    pub is_slow: bool,
    /// Ends when everything was written to it.
    pub is_closing: bool,
    /// Number of the last packet that it got.
    seq: u8,
    /// Whether its statements have query attributes.
    has_attributes: bool,
}

impl Client {
    pub(super) fn new(worker: usize, id: ClientId, nonce: [u8; NONCE_LEN], place: bool) -> Self {
        Self {
            worker,
            id,
            nonce,
            has_place: place,
            unsent: Vec::new(),
            is_paused: false,
            is_slow: false,
            is_closing: false,
            seq: 0,
            has_attributes: false,
        }
    }

    /// Looks at what it got, as far as a client that logs in must.
    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        while let Some((header, _, rest)) = split_packet(bytes) {
            self.seq = header.seq;
            bytes = rest;
        }
    }

    pub(super) fn log_in(&mut self, how: u8) {
        let user = USERS.get(usize::from(how & 7) % USERS.len()).copied().unwrap_or("app");
        let scramble = native::scramble(&native::stage1(user.as_bytes()), &self.nonce);
        let bit = |bit: u8, flag| if how & (1 << bit) != 0 { flag } else { Capabilities::EMPTY };
        let response = HandshakeResponse {
            capabilities: Capabilities::PROTOCOL_41
                | Capabilities::SECURE_CONNECTION
                | Capabilities::PLUGIN_AUTH
                | Capabilities::MULTI_RESULTS
                | self.extensions(how)
                | bit(3, Capabilities::DEPRECATE_EOF)
                | bit(4, Capabilities::SESSION_TRACK)
                | bit(5, Capabilities::CONNECT_WITH_DB)
                | bit(6, Capabilities::FOUND_ROWS)
                | bit(7, Capabilities::MULTI_STATEMENTS),
            packet_len_max: 1 << 24,
            charset: 45,
            user: user.as_bytes(),
            auth: &scramble,
            schema: (how & 32 != 0).then_some(b"shop"),
            plugin: Some(b"mysql_native_password"),
            attributes: Default::default(),
            zstd_level: None,
        };
        response.put(&mut self.unsent, 1);
    }

    /// What it has agreed on beyond what all clients have.
    fn extensions(&mut self, how: u8) -> Capabilities {
        let of_mysql = Capabilities::QUERY_ATTRIBUTES | Capabilities::OPTIONAL_RESULTSET_METADATA;
        let of_mariadb = Capabilities::EXTENDED_METADATA
            | Capabilities::CACHE_METADATA
            | Capabilities::STMT_BULK_OPERATIONS
            | Capabilities::PROGRESS;
        self.has_attributes = how % 3 == 1;
        match how % 3 {
            0 => Capabilities::LONG_PASSWORD,
            1 => of_mysql,
            _ => of_mariadb,
        }
    }

    pub(super) fn query(&mut self, which: u8) {
        let text = STATEMENTS.get(usize::from(which) % STATEMENTS.len()).copied();
        self.text(which, text.unwrap_or_default());
    }

    fn text(&mut self, which: u8, text: &[u8]) {
        let block: &[u8] = match (self.has_attributes, which & 0x80) {
            (false, _) => b"",
            (true, 0) => b"\0\x01",
            (true, _) => b"\x01\x01\0\x01\xFD\0\x02tr\x03abc",
        };
        self.command_of(&[&[0x03], block, text].concat());
    }

    pub(super) fn command(&mut self, which: u8) {
        let payload = COMMANDS.get(usize::from(which) % COMMANDS.len()).copied();
        self.command_of(payload.unwrap_or_default());
    }

    pub(super) fn long_query(&mut self, kib: u8) {
        let filler = "x".repeat(usize::from(kib) * 1_024);
        self.text(kib, format!("SELECT '{filler}'").as_bytes());
    }

    pub(super) fn pings(&mut self, count: u8) {
        for _ in 0..usize::from(count) * 64 {
            self.command_of(&[0x0E]);
        }
    }

    fn command_of(&mut self, payload: &[u8]) {
        put_payload(&mut self.unsent, 0, payload);
    }

    /// The next packet of an exchange: a scramble, a key request, a cipher text, and the like.
    pub(super) fn authenticate(&mut self, which: u8) {
        let stage1 = native::stage1(b"app");
        let scramble = native::scramble(&stage1, &self.nonce);
        let payload: &[u8] = match which % 6 {
            0 => &scramble,
            1 => &[0x02],
            2 => &[0x77; 256],
            3 => &[0x33; 32],
            4 => b"sha\0",
            _ => &[],
        };
        put_payload(&mut self.unsent, self.seq.wrapping_add(1), payload);
    }
}
