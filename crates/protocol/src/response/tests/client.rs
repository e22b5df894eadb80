//! Reads a response as a client does.

use std::collections::VecDeque;

use super::metadata::in_form;
use super::{Done, Event};
use crate::codec::Reader;
use crate::codec::frame::{HEADER_LEN, Header, PAYLOAD_MAX};
use crate::packet::ok::ReplyFormat;
use crate::packet::status;
use crate::response::ResponseShape;

pub(super) struct Client {
    format: ReplyFormat,
    /// Payload and the length of its first packet.
    payloads: VecDeque<(Vec<u8>, usize)>,
    events: Vec<Event>,
    /// Definitions that it has already.
    known: Vec<Vec<u8>>,
}

impl Client {
    /// Reads exactly one response, whose packets must be numbered from 1, the file's included.
    pub(super) fn decode(shape: ResponseShape, format: ReplyFormat, bytes: &[u8]) -> Vec<Event> {
        Self::decode_knowing(shape, format, bytes, Vec::new())
    }

    /// Reads exactly one response, as a client that has these definitions of its columns, should
    /// they be left out.
    pub(super) fn decode_knowing(
        shape: ResponseShape,
        format: ReplyFormat,
        bytes: &[u8],
        known: Vec<Vec<u8>>,
    ) -> Vec<Event> {
        let payloads = payloads(bytes);
        let mut client = Self { format, payloads, events: Vec::new(), known };
        client.read(shape);
        assert!(client.payloads.is_empty(), "packets after the end: {:?}", client.payloads);
        client.events
    }

    fn definition(&mut self) -> Vec<u8> {
        let definition = self.next().0;
        in_form(&definition, self.format, ReplyFormat::PLAIN)
    }

    fn next(&mut self) -> (Vec<u8>, usize) {
        self.payloads.pop_front().expect("a packet")
    }

    fn read(&mut self, shape: ResponseShape) {
        match shape {
            ResponseShape::Single => {
                let (payload, _) = self.next();
                match payload[0] {
                    0xFE => self.end(&payload),
                    _ => self.ok_or_error(&payload),
                };
            }
            ResponseShape::Text => match self.next().0 {
                payload if payload.first() == Some(&0xFF) => self.ok_or_error(&payload),
                payload => self.events.push(Event::Text(payload)),
            },
            ResponseShape::Query => while self.result() {},
            ResponseShape::FieldList | ResponseShape::Fetch => {
                self.rows();
            }
            ResponseShape::Prepare => self.prepared(),
            ResponseShape::None => {}
        }
    }

    /// Reads one result; true when another follows.
    fn result(&mut self) -> bool {
        let (payload, _) = self.next();
        match payload[0] {
            0 | 0xFF => {
                self.ok_or_error(&payload);
                self.has_more()
            }
            0xFB => {
                self.events.push(Event::File(payload[1..].to_vec()));
                true
            }
            _ => {
                let mut reader = Reader::new(&payload);
                let count = reader.lenenc_int("count").expect("count");
                let follows = match self.format.has_metadata_flag() {
                    true => reader.u8("flag").expect("flag") == 1,
                    false => true,
                };
                assert!(reader.is_empty(), "{payload:?}");
                let columns = match follows {
                    true => (0..count).map(|_| self.definition()).collect(),
                    false => self.known.clone(),
                };
                self.events.push(Event::Columns(columns));
                if !self.format.deprecate_eof {
                    let (payload, _) = self.next();
                    if payload[3] & 0x40 != 0 {
                        self.end(&payload);
                        return self.has_more();
                    }
                    assert_eq!((payload[0], payload.len()), (0xFE, 5));
                    self.rows();
                    let first = u16::from_le_bytes([payload[3], payload[4]]);
                    self.carry(first);
                } else {
                    self.rows();
                }
                self.has_more()
            }
        }
    }

    /// Clients add what the EOF after the column definitions said of OUT parameters to the end of
    /// their row.
    fn carry(&mut self, first: u16) {
        match self.events.last_mut() {
            Some(Event::End(done)) if first & status::PS_OUT_PARAMS != 0 => {
                done.status |= first & (status::PS_OUT_PARAMS | status::MORE_RESULTS);
            }
            _ => {}
        }
    }

    fn has_more(&self) -> bool {
        match self.events.last() {
            Some(Event::Ok(done) | Event::End(done)) => done.status & status::MORE_RESULTS != 0,
            _ => false,
        }
    }

    fn rows(&mut self) {
        loop {
            let (payload, first_len) = self.next();
            let limit = if self.format.deprecate_eof { PAYLOAD_MAX } else { 9 };
            match payload[0] {
                0xFF => return self.ok_or_error(&payload),
                0xFE if first_len < limit => return self.end(&payload),
                _ => self.events.push(Event::Row(payload)),
            }
        }
    }

    fn prepared(&mut self) {
        let (payload, _) = self.next();
        if payload[0] == 0xFF {
            return self.ok_or_error(&payload);
        }
        let mut reader = Reader::new(&payload[1..]);
        let stmt_id = reader.u32("id").expect("id");
        let columns = reader.u16("columns").expect("columns");
        let params = reader.u16("params").expect("params");
        let rest = if self.format.optional_metadata { 4 } else { 3 };
        assert_eq!(reader.rest().len(), rest);
        let params = self.definitions(params);
        let columns = self.definitions(columns);
        self.events.push(Event::Prepared(stmt_id, params, columns));
    }

    fn definitions(&mut self, count: u16) -> Vec<Vec<u8>> {
        let definitions = (0..count).map(|_| self.definition()).collect();
        if count > 0 && !self.format.deprecate_eof {
            let (payload, _) = self.next();
            assert_eq!((payload[0], payload.len()), (0xFE, 5));
        }
        definitions
    }

    fn end(&mut self, payload: &[u8]) {
        let done = if self.format.deprecate_eof {
            self.done(payload)
        } else {
            assert_eq!(payload.len(), 5);
            let warnings = u16::from_le_bytes([payload[1], payload[2]]);
            let status = u16::from_le_bytes([payload[3], payload[4]]);
            Done { warnings, status, ..Done::default() }
        };
        self.events.push(Event::End(done));
    }

    fn ok_or_error(&mut self, payload: &[u8]) {
        let event = match payload[0] {
            0xFF => {
                let code = u16::from_le_bytes([payload[1], payload[2]]);
                Event::Err(code, payload[9..].to_vec())
            }
            0 => Event::Ok(self.done(payload)),
            other => panic!("neither OK nor ERR: {other:#x}"),
        };
        self.events.push(event);
    }

    fn done(&self, payload: &[u8]) -> Done {
        let mut reader = Reader::new(&payload[1..]);
        let affected_rows = reader.lenenc_int("rows").expect("rows");
        let last_insert_id = reader.lenenc_int("id").expect("id");
        let status = reader.u16("status").expect("status");
        let warnings = reader.u16("warnings").expect("warnings");
        let mut done = Done { affected_rows, last_insert_id, status, warnings, ..Done::default() };
        if !reader.is_empty() {
            done.info = reader.lenenc_bytes("info").expect("info").to_vec();
        }
        if status & status::SESSION_STATE_CHANGED != 0 {
            assert!(self.format.session_track);
            done.changes = reader.lenenc_bytes("changes").expect("changes").to_vec();
        }
        assert!(reader.is_empty());
        done
    }
}

/// The payloads in `bytes`, checking that packets are numbered from 1.
fn payloads(mut bytes: &[u8]) -> VecDeque<(Vec<u8>, usize)> {
    let mut payloads = VecDeque::new();
    let mut seq = 1_u8;
    while !bytes.is_empty() {
        let mut payload = Vec::new();
        let mut first_len = None;
        loop {
            let header = Header::read(bytes).expect("a header");
            assert_eq!(header.seq, seq, "sequence number");
            seq = seq.wrapping_add(1);
            let end = HEADER_LEN + header.payload_len;
            payload.extend_from_slice(&bytes[HEADER_LEN..end]);
            bytes = &bytes[end..];
            first_len.get_or_insert(header.payload_len);
            if !header.is_continued() {
                break;
            }
        }
        if payload.first() == Some(&0xFB) && first_len == Some(payload.len()) && payloads.is_empty()
        {
            seq = seq.wrapping_add(2);
        }
        payloads.push_back((payload, first_len.unwrap_or(0)));
    }
    payloads
}
