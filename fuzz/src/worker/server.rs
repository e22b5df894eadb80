//! A played server connection.

use std::{collections::BTreeMap, sync::Arc};

use trunkline_protocol::{
    Capabilities,
    codec::{
        frame::{put_payload, split_packet},
        put_u16, put_u32,
    },
    command::attributes::Query,
    packet::{
        auth_switch::{AuthSwitchRequest, put_more_data},
        eof::{EofPacket, put_eof},
        err::put_err,
        handshake_response::ClientOpening,
        ok::{OkPacket, ReplyFormat, put_ok, put_result_end},
        status,
    },
    response::write::{put_columns, put_text_result},
};
use trunkline_topology::ServerHealth;
use trunkline_worker::ConnId;

use crate::login::greeting;

/// A column's definition.
const DEFINITION: &[u8] = b"\x03def\0\0\0\x01a\0\x0C\x3F\0\x01\0\0\0\x03\x81\0\0\0\0";

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Connecting,
    /// The greeting is said.
    Greeted,
    Ready,
    /// It takes a client's file; the next packet has this number.
    File(u8),
}

/// A connection to a server, seen from the server.
#[derive(Debug)]
pub(super) struct Server {
    pub worker: usize,
    pub id: ConnId,
    /// Where it is counted.
    pub health: Arc<ServerHealth>,
    pub stage: Stage,
    /// Arrived and not understood.
    pub received: Vec<u8>,
    /// What it wants to send and the worker has not read.
    pub unsent: Vec<u8>,
    pub is_paused: bool,
    pub is_slow: bool,
    format: ReplyFormat,
    takes_attributes: bool,
    in_transaction: bool,
    /// Statements prepared so far.
    prepared: u32,
    /// Ids and parameters of the statements that are prepared.
    stmts: BTreeMap<u32, u16>,
    /// The statement prepared last, which −1 stands for.
    last_stmt: Option<u32>,
    /// Whether the worker may send what its client made up, or was lied to.
    pub is_misled: bool,
}

impl Server {
    pub(super) fn new(worker: usize, id: ConnId, health: Arc<ServerHealth>) -> Self {
        Self {
            worker,
            id,
            health,
            stage: Stage::Connecting,
            received: Vec::new(),
            unsent: Vec::new(),
            is_paused: false,
            is_slow: false,
            format: ReplyFormat::default(),
            takes_attributes: false,
            in_transaction: false,
            prepared: 0,
            stmts: BTreeMap::new(),
            last_stmt: None,
            is_misled: false,
        }
    }

    /// The socket is connected.
    pub(super) fn greet(&mut self, is_sha2: bool) {
        self.stage = Stage::Greeted;
        greeting(is_sha2).put(&mut self.unsent, 0);
    }

    /// Answers the next whole packet the way that `how` says; 0 is always the usual one. False
    /// when there is none.
    pub(super) fn answer(&mut self, how: u8) -> bool {
        if self.stage == Stage::Connecting {
            return false;
        }
        let received = std::mem::take(&mut self.received);
        let Some((header, payload, rest)) = split_packet(&received) else {
            self.received = received;
            return false;
        };
        self.received = rest.to_vec();
        let seq = header.seq.wrapping_add(1);
        match self.stage {
            Stage::Connecting => {}
            Stage::Greeted => self.answer_login(payload, seq, how),
            Stage::Ready => self.answer_command(payload, how),
            Stage::File(next) => self.take_file(header.seq, next, payload),
        }
        true
    }

    fn answer_login(&mut self, payload: &[u8], seq: u8, how: u8) {
        if let Ok(ClientOpening::Response(response)) = ClientOpening::parse(payload) {
            // Bytes of this user's clients go straight through.
            self.is_misled |= response.user == b"direct";
            self.format = ReplyFormat::of(response.capabilities);
            self.takes_attributes = response.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        }
        let ok = self.ok(0);
        let out = &mut self.unsent;
        match how % 8 {
            1 => _ = put_err(out, seq, 1_045, b"28000", "Access denied"),
            2 => _ = put_err(out, seq, 1_040, b"08004", "Too many connections"),
            3 => {
                let plugin = b"caching_sha2_password";
                _ = AuthSwitchRequest { plugin, data: &[b'z'; 20] }.put(out, seq);
            }
            4 => _ = put_more_data(out, seq, &[0x04]),
            5 => _ = put_more_data(out, seq, b"no key at all"),
            6 => {
                put_more_data(out, seq, &[0x03]);
                self.stage = Stage::Ready;
                put_ok(out, seq.wrapping_add(1), &ok, self.format);
            }
            _ => {
                self.stage = Stage::Ready;
                put_ok(out, seq, &ok, self.format);
            }
        }
    }

    fn ok(&self, more: u16) -> OkPacket<'static> {
        let in_transaction = if self.in_transaction { status::IN_TRANS } else { 0 };
        let status = status::AUTOCOMMIT | in_transaction | more;
        OkPacket { status, ..OkPacket::default() }
    }

    fn answer_command(&mut self, payload: &[u8], how: u8) {
        let Some((code, body)) = payload.split_first() else {
            return self.answer_error();
        };
        if how % 12 == 2 && !matches!(code, 0x01 | 0x18 | 0x19) {
            if *code == 0x16 {
                self.last_stmt = None;
            }
            return self.answer_error();
        }
        // Bytes of one who reads the binary log go straight through.
        self.is_misled |= matches!(code, 0x12 | 0x1E);
        match code {
            0x19 => self.close_stmt(body),
            0x18 => _ = self.stmt(body),
            0x01 => {}
            0x03 if self.takes_attributes => match Query::parse(body) {
                Ok(Query { text, .. }) => self.answer_query(text, how),
                Err(_) => {
                    assert!(self.is_misled, "a text without room for attributes: {body:?}");
                    self.answer_error();
                }
            },
            0x03 => {
                // No attributes, in one set of them: a client's own text may begin with one zero.
                let has_attributes = body.starts_with(&[0, 1]) && body.len() >= 5;
                assert!(!has_attributes || self.is_misled, "attributes for a server without");
                self.answer_query(body, how);
            }
            0x1C => {
                self.stmt(body);
                let ok = self.ok(if how % 12 == 3 { status::LAST_ROW_SENT } else { 0 });
                _ = put_result_end(&mut self.unsent, 1, &ok, self.format);
            }
            0x04 => {
                let ok = self.ok(0);
                _ = put_result_end(&mut self.unsent, 1, &ok, self.format);
            }
            0x09 => _ = put_payload(&mut self.unsent, 1, b"Uptime: 1"),
            0x0A => self.answer_rows(1),
            0x11 => {
                self.forget_stmts();
                self.answer_login(payload, 1, how);
            }
            0x16 => self.answer_prepare(body),
            0x17 => self.answer_execute(body, how),
            0x1B => {
                let status = self.ok(0).status;
                _ = put_eof(&mut self.unsent, 1, EofPacket { warnings: 0, status });
            }
            0x1F => {
                self.in_transaction = false;
                self.forget_stmts();
                self.answer_ok(0, 0);
            }
            _ => self.answer_ok(0, 0),
        }
    }

    fn answer_query(&mut self, text: &[u8], how: u8) {
        let upper = text.to_ascii_uppercase();
        let begins = |word: &[u8]| upper.starts_with(word);
        if begins(b"BEGIN") || begins(b"START TRANSACTION") {
            self.in_transaction = true;
        }
        if begins(b"COMMIT") || begins(b"ROLLBACK") {
            self.in_transaction = false;
        }
        let is_read = begins(b"SELECT") || begins(b"SHOW");
        match how % 12 {
            3 => {
                self.in_transaction = !self.in_transaction;
                self.answer_ok(0, 0);
            }
            4 => self.answer_ok(3, 0),
            5 => {
                self.answer_ok(0, status::MORE_RESULTS);
                let last = self.ok(0);
                put_ok(&mut self.unsent, 2, &last, self.format);
            }
            // Other statements may travel behind a `SET`, which no server answers so.
            6 if !begins(b"SET") => {
                put_payload(&mut self.unsent, 1, b"\xFBfile");
                self.stage = Stage::File(2);
            }
            7 => {
                let ok = OkPacket { last_insert_id: 77, ..self.ok(0) };
                put_ok(&mut self.unsent, 1, &ok, self.format);
            }
            8 => {
                // A schema change, where it may be told.
                let changes: &[u8] = b"\x01\x05\x04shop\x02\x01\x31";
                let status = self.ok(0).status | status::SESSION_STATE_CHANGED;
                let ok = OkPacket { status, changes, ..OkPacket::default() };
                put_ok(&mut self.unsent, 1, &ok, self.format);
            }
            _ if is_read => self.answer_rows(1),
            _ => self.answer_ok(0, 0),
        }
    }

    /// The next packet of a client's file; the empty one is the last.
    fn take_file(&mut self, seq: u8, next: u8, payload: &[u8]) {
        assert!(seq == next || self.is_misled, "file packet {seq} in place of {next}");
        let next = next.wrapping_add(1);
        self.stage = Stage::File(next);
        if payload.is_empty() {
            self.stage = Stage::Ready;
            let ok = self.ok(0);
            put_ok(&mut self.unsent, next, &ok, self.format);
        }
    }

    fn answer_ok(&mut self, warnings: u16, more: u16) {
        let ok = OkPacket { warnings, ..self.ok(more) };
        put_ok(&mut self.unsent, 1, &ok, self.format);
    }

    fn answer_error(&mut self) {
        put_err(&mut self.unsent, 1, 1_064, b"42000", "You have an error in your SQL syntax");
    }

    fn answer_prepare(&mut self, text: &[u8]) {
        self.prepared += 1;
        let params = text.iter().filter(|byte| **byte == b'?').count();
        let params = u16::try_from(params).unwrap_or(u16::MAX);
        let columns = u16::from(text.starts_with(b"SELECT"));
        self.stmts.insert(self.prepared, params);
        self.last_stmt = Some(self.prepared);
        let mut payload = vec![0];
        put_u32(&mut payload, self.prepared);
        [columns, params].into_iter().for_each(|count| put_u16(&mut payload, count));
        payload.extend_from_slice(&[0, 0, 0]);
        if self.format.optional_metadata {
            payload.push(1);
        }
        let mut seq = put_payload(&mut self.unsent, 1, &payload);
        for count in [params, columns].into_iter().filter(|count| *count > 0) {
            for _ in 0..count {
                // The column count that precedes a definition elsewhere is cut off.
                let mut both = Vec::new();
                let columns = [DEFINITION].into_iter();
                _ = put_columns(&mut both, 0, self.format, 1, columns);
                let (_, _, rest) = split_packet(&both).unwrap_or_else(|| unreachable!("a count"));
                let (_, definition, _) = split_packet(rest).unwrap_or_else(|| unreachable!("one"));
                seq = put_payload(&mut self.unsent, seq, definition);
            }
            if !self.format.deprecate_eof {
                let status = self.ok(0).status;
                seq = put_eof(&mut self.unsent, seq, EofPacket { warnings: 0, status });
            }
        }
    }

    /// The statement that a command names, with its parameters. The worker knows what it has
    /// prepared, and never names another.
    fn stmt(&self, body: &[u8]) -> Option<(u32, u16)> {
        let id = u32::from_le_bytes(*body.first_chunk()?);
        if id == u32::MAX {
            let last = self.last_stmt?;
            return Some((last, *self.stmts.get(&last)?));
        }
        let params = self.stmts.get(&id).copied();
        assert!(params.is_some() || self.is_misled, "statement {id} is not prepared here");
        Some((id, params?))
    }

    fn close_stmt(&mut self, body: &[u8]) {
        if let Some((id, _)) = self.stmt(body) {
            self.stmts.remove(&id);
        }
    }

    fn forget_stmts(&mut self) {
        self.stmts.clear();
        self.last_stmt = None;
    }

    fn answer_execute(&mut self, body: &[u8], how: u8) {
        let Some((_, params)) = self.stmt(body) else {
            return self.answer_error();
        };
        let opens_cursor = body.get(4).is_some_and(|flags| flags & 1 != 0);
        if params > 0 && body.len() < 12 {
            return self.answer_error();
        }
        if opens_cursor && how.is_multiple_of(12) {
            let columns = [DEFINITION].into_iter();
            let seq = put_columns(&mut self.unsent, 1, self.format, 1, columns).unwrap_or(1);
            let ok = self.ok(status::CURSOR_EXISTS);
            put_result_end(&mut self.unsent, seq, &ok, self.format);
            return;
        }
        self.answer_query(b"SELECT", how);
    }

    fn answer_rows(&mut self, rows: usize) {
        let rows = vec![vec![Some(vec![b'7'; 100])]; rows];
        let status = self.ok(0).status;
        put_text_result(&mut self.unsent, 1, self.format, status, &["c"], &rows);
    }

    /// Answers the next packet, whatever it is, with about 4 KiB × `size` of rows.
    pub(super) fn answer_long(&mut self, size: u8) {
        let received = std::mem::take(&mut self.received);
        match (self.stage, split_packet(&received)) {
            (Stage::Ready, Some((_, payload, rest))) => {
                // Whatever it was, it is not carried out.
                self.is_misled |= matches!(payload.first(), Some(0x1F | 0x11 | 0x16 | 0x19));
                self.received = rest.to_vec();
                self.answer_rows(usize::from(size) * 40);
            }
            _ => self.received = received,
        }
    }
}
