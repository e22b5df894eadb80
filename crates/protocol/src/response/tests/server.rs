//! Writes a response as a server does.

use super::metadata::in_form;
use super::{Done, Event};
use crate::codec::frame::put_payload;
use crate::codec::{put_lenenc_bytes, put_lenenc_int, put_u16, put_u32};
use crate::packet::ok::ReplyFormat;
use crate::packet::status;

pub(super) struct Server {
    pub(super) format: ReplyFormat,
    pub(super) out: Vec<u8>,
    pub(super) seq: u8,
}

impl Server {
    pub(super) fn encode(events: &[Event], format: ReplyFormat) -> Vec<u8> {
        let mut server = Self { format, out: Vec::new(), seq: 1 };
        for (at, event) in events.iter().enumerate() {
            let opens_cursor = matches!(
                events.get(at + 1),
                Some(Event::End(done)) if done.status & status::CURSOR_EXISTS != 0
            );
            server.put_event(event, opens_cursor);
        }
        server.out
    }

    fn packet(&mut self, payload: &[u8]) {
        self.seq = put_payload(&mut self.out, self.seq, payload);
    }

    fn eof(&mut self, status: u16, warnings: u16) {
        let [a, b] = warnings.to_le_bytes();
        let [c, d] = (status & !status::SESSION_STATE_CHANGED).to_le_bytes();
        self.packet(&[0xFE, a, b, c, d]);
    }

    fn ok(&mut self, header: u8, done: &Done) {
        let mut payload = vec![header];
        put_lenenc_int(&mut payload, done.affected_rows);
        put_lenenc_int(&mut payload, done.last_insert_id);
        let tracked = self.format.session_track && !done.changes.is_empty();
        let flag = if tracked { status::SESSION_STATE_CHANGED } else { 0 };
        put_u16(&mut payload, done.status & !status::SESSION_STATE_CHANGED | flag);
        put_u16(&mut payload, done.warnings);
        if tracked || !done.info.is_empty() {
            put_lenenc_bytes(&mut payload, &done.info);
        }
        if tracked {
            put_lenenc_bytes(&mut payload, &done.changes);
        }
        self.packet(&payload);
    }

    fn definitions(&mut self, definitions: &[Vec<u8>], with_eof: bool) {
        for definition in definitions {
            self.packet(&in_form(definition, ReplyFormat::PLAIN, self.format));
        }
        if with_eof && !definitions.is_empty() && !self.format.deprecate_eof {
            self.eof(status::AUTOCOMMIT, 0);
        }
    }

    fn put_event(&mut self, event: &Event, opens_cursor: bool) {
        match event {
            Event::Ok(done) => self.ok(0, done),
            Event::End(done) if self.format.deprecate_eof => self.ok(0xFE, done),
            Event::End(done) => self.eof(done.status, done.warnings),
            Event::Err(code, message) => {
                let [a, b] = code.to_le_bytes();
                self.packet(&[&[0xFF, a, b], &b"#42000"[..], message].concat());
            }
            Event::File(name) => {
                self.packet(&[&[0xFB], &name[..]].concat());
                // The client's two packets of file follow.
                self.seq = self.seq.wrapping_add(2);
            }
            Event::Text(payload) | Event::Row(payload) => self.packet(payload),
            Event::Columns(definitions) => {
                let mut count = Vec::new();
                put_lenenc_int(&mut count, definitions.len() as u64);
                if self.format.has_metadata_flag() {
                    count.push(1);
                }
                self.packet(&count);
                self.definitions(definitions, !opens_cursor);
            }
            Event::Prepared(stmt_id, params, columns) => {
                let mut payload = vec![0];
                put_u32(&mut payload, *stmt_id);
                put_u16(&mut payload, u16::try_from(columns.len()).expect("few"));
                put_u16(&mut payload, u16::try_from(params.len()).expect("few"));
                payload.extend_from_slice(&[0, 7, 0]);
                if self.format.optional_metadata {
                    payload.push(1);
                }
                self.packet(&payload);
                self.definitions(params, true);
                self.definitions(columns, true);
            }
            Event::Progress => self.packet(b"\xFF\xFF\xFF\x01\x01\x01\x64\x00\x00\x04copy"),
        }
    }
}
