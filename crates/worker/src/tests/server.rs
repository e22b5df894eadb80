//! A server as a test plays it, by connection: what it was asked, and its replies.

use std::collections::VecDeque;

use trunkline_protocol::{
    capability::Capabilities,
    codec::frame::{put_payload, split_packet},
    packet::{
        err::put_err,
        greeting::{Greeting, NONCE_LEN},
        handshake_response::ClientOpening,
        ok::{OkPacket, put_ok},
        status,
    },
    response::{ReplyFormat, write::put_text_result},
};

use crate::ConnId;

/// An OK that says nothing.
pub(crate) const OK: OkPacket<'_> = OkPacket {
    affected_rows: 0,
    last_insert_id: 0,
    status: status::AUTOCOMMIT,
    warnings: 0,
    info: b"",
    changes: b"",
};

/// What a server replies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply<'a> {
    Ok,
    /// OK, and what it says.
    Says(OkPacket<'a>),
    /// One column of these values.
    Rows(&'a [&'a str]),
    /// One column of these values, with these status flags at its end.
    RowsIn(&'a [&'a str], u16),
    Error(u16, &'a str),
    /// A statement is prepared under this id, with so many parameters and no columns.
    Prepared(u32, u16),
    /// These payloads.
    Payloads(&'a [&'a [u8]]),
}

/// What clients and the proxy are greeted with. All of it is what both kinds of servers can do.
pub(crate) fn greeting(version: &str, number: u32) -> Greeting {
    let capabilities = Capabilities::PROTOCOL_41
        | Capabilities::CONNECT_WITH_DB
        | Capabilities::TRANSACTIONS
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::MULTI_RESULTS
        | Capabilities::MULTI_STATEMENTS
        | Capabilities::LOCAL_FILES
        | Capabilities::FOUND_ROWS
        | Capabilities::IGNORE_SPACE
        | Capabilities::SESSION_TRACK
        | Capabilities::DEPRECATE_EOF;
    Greeting {
        protocol_version: 10,
        server_version: version.into(),
        connection_id: number,
        nonce: [b'n'; NONCE_LEN],
        capabilities,
        charset: 45,
        status: status::AUTOCOMMIT,
        auth_plugin: "mysql_native_password".into(),
    }
}

/// One connection to a server.
pub(super) struct TestServer {
    pub(super) conn: ConnId,
    /// The server's number of it.
    number: u32,
    pub(super) address: String,
    version: String,
    format: Option<ReplyFormat>,
    /// The number of the answer to the login.
    login_seq: u8,
    has_login: bool,
    /// Commands that wait for their answer, in words.
    pub(super) asked: VecDeque<String>,
    /// All commands, in words.
    pub(super) heard: Vec<String>,
    pub(super) is_closed: bool,
    /// What it gets is a file.
    pub(super) takes_file: bool,
    pub(super) uploaded: Vec<u8>,
}

impl TestServer {
    pub(super) fn new(conn: ConnId, number: usize, address: String, version: String) -> Self {
        let number = u32::try_from(number).expect("few connections");
        Self {
            conn,
            number,
            address,
            version,
            format: None,
            login_seq: 0,
            has_login: false,
            asked: VecDeque::new(),
            heard: Vec::new(),
            is_closed: false,
            takes_file: false,
            uploaded: Vec::new(),
        }
    }

    pub(super) fn greet(&self) -> Vec<u8> {
        let mut out = Vec::new();
        greeting(&self.version, self.number).put(&mut out, 0);
        out
    }

    /// Accepts the login that has come, if that has not been done by itself.
    pub(super) fn accept(&mut self) -> Vec<u8> {
        match self.has_login {
            true => self.take_login(),
            false => Vec::new(),
        }
    }

    fn take_login(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(std::mem::take(&mut self.has_login), "no login has come");
        put_ok(&mut out, self.login_seq, &OK, self.format.expect("a login"));
        out
    }

    /// Takes what the proxy has sent.
    pub(super) fn hear(&mut self, mut bytes: &[u8]) {
        if self.takes_file {
            return self.uploaded.extend_from_slice(bytes);
        }
        while let Some((header, payload, rest)) = split_packet(bytes) {
            bytes = rest;
            if self.format.is_none() {
                let opening = ClientOpening::parse(payload).expect("an opening");
                let ClientOpening::Response(response) = opening else {
                    panic!("the worker asks for TLS");
                };
                self.format = Some(ReplyFormat::of(response.capabilities));
                self.login_seq = header.seq.wrapping_add(1);
                self.has_login = true;
                continue;
            }
            let command = in_words(payload);
            self.heard.push(command.clone());
            if !is_unanswered(&command) {
                self.asked.push_back(command);
            }
        }
        assert!(bytes.is_empty(), "half a packet was written");
    }

    /// Answers what the proxy asks of its own accord, as far as that is in front.
    pub(super) fn answer_own(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.has_login {
            out.extend(self.take_login());
        }
        let format = self.format.unwrap_or(ReplyFormat::PLAIN);
        while let Some(command) = self.asked.pop_front_if(|command| is_own(command)) {
            let reply = match &*command {
                "INIT_DB gone" => Reply::Error(1049, "Unknown database 'gone'"),
                command if command.starts_with(FINDS) => Reply::Rows(&["1"]),
                _ => Reply::Ok,
            };
            put_reply(&mut out, reply, format);
        }
        out
    }

    /// Answers what is in front, and whatever of the proxy's own is behind it.
    pub(super) fn answer(&mut self, reply: Reply<'_>) -> Vec<u8> {
        let format = self.format.expect("it is logged in");
        self.asked.pop_front().expect("it is asked something");
        let mut out = Vec::new();
        put_reply(&mut out, reply, format);
        out.extend(self.answer_own());
        out
    }
}

fn put_reply(out: &mut Vec<u8>, reply: Reply<'_>, format: ReplyFormat) {
    let mut rows = |values: &[&str], status| {
        let rows: Vec<_> = values.iter().map(|it| vec![Some(it.as_bytes().to_vec())]).collect();
        put_text_result(out, 1, format, status, &["c"], &rows);
    };
    match reply {
        Reply::Rows(values) => rows(values, status::AUTOCOMMIT),
        Reply::RowsIn(values, status) => rows(values, status),
        Reply::Ok => drop(put_ok(out, 1, &OK, format)),
        Reply::Says(ok) => drop(put_ok(out, 1, &ok, format)),
        Reply::Error(code, text) => drop(put_err(out, 1, code, b"HY000", text)),
        Reply::Prepared(stmt_id, params) => put_prepared(out, stmt_id, params, format),
        Reply::Payloads(payloads) => {
            let mut seq = 1;
            for payload in payloads {
                seq = put_payload(out, seq, payload);
            }
        }
    }
}

/// `COM_STMT_PREPARE_OK`, and the definitions of the parameters.
fn put_prepared(out: &mut Vec<u8>, stmt_id: u32, params: u16, format: ReplyFormat) {
    let mut payload = vec![0];
    payload.extend_from_slice(&stmt_id.to_le_bytes());
    payload.extend_from_slice(&[0, 0]);
    payload.extend_from_slice(&params.to_le_bytes());
    payload.extend_from_slice(&[0, 0, 0]);
    let mut seq = put_payload(out, 1, &payload);
    let mut definition = Vec::new();
    put_text_result(&mut definition, 1, ReplyFormat::PLAIN, 0, &["?"], &[]);
    let (_, _, rest) = split_packet(&definition).expect("a count");
    let (_, definition, _) = split_packet(rest).expect("a definition");
    for _ in 0..params {
        seq = put_payload(out, seq, definition);
    }
    if params > 0 && !format.deprecate_eof {
        put_payload(out, seq, &[0xFE, 0, 0, 2, 0]);
    }
}

/// Whether it is a command without an answer.
fn is_unanswered(command: &str) -> bool {
    ["CLOSE ", "QUIT", "LONG DATA"].iter().any(|begin| command.starts_with(begin))
}

/// How a statement begins that gives a connection another number of found rows.
const FINDS: &str = "SELECT 1 FROM (SELECT 1) AS t";

/// Whether the proxy asks for it of its own accord, and a server has nothing to say against it.
fn is_own(command: &str) -> bool {
    const OWN: [&str; 8] = [
        "RESET",
        "PING",
        "INIT_DB ",
        "CHANGE_USER",
        "SET_OPTION",
        "SET @@SESSION.",
        "SET NAMES utf8mb4 COLLATE ",
        FINDS,
    ];
    OWN.iter().any(|begin| command.starts_with(begin))
}

/// A command as a test writes it: a statement's own text, or what the command does.
fn in_words(payload: &[u8]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |it| u32::from_le_bytes(*it));
    match payload {
        [0x03, rest @ ..] => text(rest),
        [0x01, ..] => "QUIT".to_owned(),
        [0x02, rest @ ..] => format!("INIT_DB {}", text(rest)),
        [0x0E, ..] => "PING".to_owned(),
        [0x11, ..] => "CHANGE_USER".to_owned(),
        [0x16, rest @ ..] => format!("PREPARE {}", text(rest)),
        [0x17, rest @ ..] => format!("EXECUTE {}", number(rest)),
        [0x18, rest @ ..] => format!("LONG DATA {}", number(rest)),
        [0x19, rest @ ..] => format!("CLOSE {}", number(rest)),
        [0x1B, ..] => "SET_OPTION".to_owned(),
        [0x1F, ..] => "RESET".to_owned(),
        [code, ..] => format!("COMMAND {code:#04X}"),
        [] => "NOTHING".to_owned(),
    }
}
