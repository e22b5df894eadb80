//! Bytes of an event to what it says.
//!
//! | header | bytes |
//! |---|---|
//! | Unix seconds | 4 |
//! | type | 1 |
//! | `server_id` | 4 |
//! | length of the event | 4 |
//! | position behind it | 4 |
//! | flags | 2 |

use std::{collections::HashMap, sync::Arc};

use trunkline_protocol::{Reader, codec::compressed::Compressor};
use trunkline_topology::gtid::{INTERVALS_MAX, NUMBER_MAX, Origin, Position, Tag};

use crate::{
    BinlogError, TABLES_MAX,
    crc::crc32,
    event::{Begin, Event, Gtid, Kind, Rows},
    executed::{set_of_wire, tag_of},
    frames::Framed,
    payload::{unpack_field, unpack_transaction},
    rows::{Form, Head, Table},
    varlen,
};

/// Bytes of a header.
const HEADER_LEN: usize = 19;
/// Bytes of a checksum.
const CHECKSUM_LEN: usize = 4;
/// The number of no table: an event that only ends a statement.
const NO_TABLE: u64 = 0xFF_FFFF;

/// Types of events.
mod code {
    pub(super) const QUERY: u8 = 2;
    pub(super) const ROTATE: u8 = 4;
    pub(super) const FORMAT: u8 = 15;
    pub(super) const XID: u8 = 16;
    pub(super) const TABLE_MAP: u8 = 19;
    pub(super) const INCIDENT: u8 = 26;
    pub(super) const HEARTBEAT: u8 = 27;
    pub(super) const GTID: u8 = 33;
    pub(super) const ANONYMOUS: u8 = 34;
    pub(super) const PREVIOUS_GTIDS: u8 = 35;
    pub(super) const XA_PREPARE: u8 = 38;
    pub(super) const PAYLOAD: u8 = 40;
    pub(super) const HEARTBEAT_LONG: u8 = 41;
    pub(super) const GTID_TAGGED: u8 = 42;
    pub(super) const MARIA_GTID: u8 = 162;
    pub(super) const MARIA_LIST: u8 = 163;
    pub(super) const MARIA_QUERY: u8 = 165;
}

/// Whether events end with a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checksums {
    /// Nothing has said so yet.
    Unknown,
    /// They do.
    On,
    /// They don't.
    Off,
}

/// Reads the events of one stream, one after the other.
#[derive(Debug)]
pub struct Decoder {
    checksums: Checksums,
    /// Tables that the statement has described, by their numbers.
    tables: HashMap<u64, Table>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

/// The header of an event, and what is behind it.
struct Parts<'a> {
    at_sec: u32,
    code: u8,
    server: u32,
    end: u32,
    body: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(bytes: &'a [u8], is_whole: bool) -> Result<Self, BinlogError> {
        let mut reader = Reader::new(bytes);
        let at_sec = reader.u32("time")?;
        let code = reader.u8("type")?;
        let server = reader.u32("server_id")?;
        let len = reader.u32("length")?;
        let end = reader.u32("position")?;
        reader.u16("flags")?;
        debug_assert_eq!(bytes.len() - reader.rest().len(), HEADER_LEN);
        if is_whole && u32::try_from(bytes.len()) != Ok(len) {
            return Err(BinlogError::Malformed("length"));
        }
        Ok(Self { at_sec, code, server, end, body: reader.rest() })
    }

    fn event(&self, kind: Kind<'a>) -> Event<'a> {
        Event { at_sec: self.at_sec, server: self.server, end: self.end, kind }
    }
}

impl Decoder {
    /// At the beginning of a stream.
    pub fn new() -> Self {
        Self { checksums: Checksums::Unknown, tables: HashMap::new() }
    }

    /// Reads an event, and calls `each` with it: with each of those that are in it, where one holds
    /// several. Descriptions of tables are kept, and not told.
    ///
    /// # Errors
    /// Those of `each`; when the event is malformed, or its checksum is wrong.
    pub fn read(
        &mut self,
        framed: Framed<'_>,
        libraries: &mut dyn Compressor,
        each: &mut dyn FnMut(Event<'_>) -> Result<(), BinlogError>,
    ) -> Result<(), BinlogError> {
        let Framed { bytes, is_whole } = framed;
        let mut parts = Parts::of(bytes, is_whole)?;
        if is_whole {
            parts.body = self.without_checksum(&parts, bytes)?;
        }
        if parts.code != code::PAYLOAD {
            return self.one(&parts, is_whole, libraries, each);
        }
        let plain = if is_whole { unpack_transaction(parts.body, libraries)? } else { None };
        let Some(plain) = plain else { return each(parts.event(Kind::Unread)) };
        let mut rest = plain.as_slice();
        while !rest.is_empty() {
            let len = rest.get(9..13).and_then(|len| len.first_chunk::<4>());
            let len = len.map_or(0, |len| u32::from_le_bytes(*len));
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let inner = rest.split_at_checked(len).filter(|_| len >= HEADER_LEN);
            let (inner, behind) = inner.ok_or(BinlogError::Malformed("event of a transaction"))?;
            let parts = Parts::of(inner, true)?;
            if parts.code == code::PAYLOAD {
                return Err(BinlogError::Malformed("transaction in a transaction"));
            }
            self.one(&parts, true, libraries, each)?;
            rest = behind;
        }
        Ok(())
    }

    /// The body without its checksum, which is checked.
    fn without_checksum<'a>(
        &mut self,
        parts: &Parts<'a>,
        bytes: &[u8],
    ) -> Result<&'a [u8], BinlogError> {
        let body = parts.body;
        let behind = |body: &'a [u8]| body.split_last_chunk::<CHECKSUM_LEN>();
        let is_right = |crc: &[u8; CHECKSUM_LEN]| {
            let covered = bytes.get(..bytes.len() - CHECKSUM_LEN).unwrap_or_default();
            crc32(covered) == u32::from_le_bytes(*crc)
        };
        let wrong = BinlogError::Checksum(parts.code);
        if parts.code == code::FORMAT {
            // The method stands before the checksum, which is there whatever the method.
            let (rest, crc) = behind(body).ok_or(BinlogError::Malformed("format"))?;
            let (method, rest) = rest.split_last().ok_or(BinlogError::Malformed("format"))?;
            self.checksums = if *method == 1 { Checksums::On } else { Checksums::Off };
            return match self.checksums == Checksums::Off || is_right(crc) {
                true => Ok(rest),
                false => Err(wrong),
            };
        }
        // The events that name the first file and the next one are made for the stream: with a
        // checksum, where the server has found that it is wanted.
        let is_made = parts.code == code::ROTATE;
        match (self.checksums, behind(body)) {
            (Checksums::On, Some((rest, crc))) if is_right(crc) => Ok(rest),
            (Checksums::Unknown, Some((rest, crc))) if is_made && is_right(crc) => Ok(rest),
            (Checksums::Unknown, _) | (Checksums::Off, _) => Ok(body),
            (Checksums::On, _) if is_made => Ok(body),
            (Checksums::On, _) => Err(wrong),
        }
    }

    /// Reads an event that holds no others.
    fn one(
        &mut self,
        parts: &Parts<'_>,
        is_whole: bool,
        libraries: &mut dyn Compressor,
        each: &mut dyn FnMut(Event<'_>) -> Result<(), BinlogError>,
    ) -> Result<(), BinlogError> {
        let body = parts.body;
        let unpacked;
        let kind = match parts.code {
            code::TABLE_MAP => return self.describe(body),
            code::QUERY => query(body)?,
            code::MARIA_QUERY => {
                let Kind::Query { schema, statement } = query(body)? else {
                    return Err(BinlogError::Malformed("query"));
                };
                let plain = if is_whole { unpack_field(statement, libraries)? } else { None };
                let Some(plain) = plain else { return each(parts.event(Kind::Unread)) };
                unpacked = plain;
                let event = Kind::Query { schema, statement: &unpacked };
                return each(Event {
                    at_sec: parts.at_sec,
                    server: parts.server,
                    end: parts.end,
                    kind: event,
                });
            }
            code::FORMAT => format(body, self.checksums)?,
            code::ROTATE => rotate(body)?,
            code::GTID => Kind::Begin(gtid(body)?),
            code::GTID_TAGGED => Kind::Begin(gtid_tagged(body)?),
            code::MARIA_GTID => Kind::Begin(gtid_of_mariadb(body, parts.server)?),
            code::ANONYMOUS => {
                Kind::Begin(Begin { gtid: None, is_standalone: false, committed_us: None })
            }
            code::PREVIOUS_GTIDS if is_whole => {
                Kind::Previous(set_of_wire(&mut Reader::new(body))?)
            }
            code::MARIA_LIST if is_whole => Kind::List(list(body)?),
            code::XID => Kind::Commit,
            code::XA_PREPARE => Kind::Prepare,
            code::INCIDENT => Kind::Incident,
            code::HEARTBEAT | code::HEARTBEAT_LONG => Kind::Heartbeat,
            other => match Form::of(other) {
                Some(form) => match self.rows(form, body, is_whole, libraries)? {
                    Some(rows) => Kind::Rows(rows),
                    None => return Ok(()),
                },
                None => Kind::Other(other),
            },
        };
        each(parts.event(kind))
    }

    fn describe(&mut self, body: &[u8]) -> Result<(), BinlogError> {
        let (id, table) = Table::read(body)?;
        if self.tables.len() >= TABLES_MAX && !self.tables.contains_key(&id) {
            return Err(BinlogError::TooManyTables);
        }
        self.tables.insert(id, table);
        Ok(())
    }

    /// Reads an event of rows; `None` when it only ends a statement.
    fn rows(
        &mut self,
        form: Form,
        body: &[u8],
        is_whole: bool,
        libraries: &mut dyn Compressor,
    ) -> Result<Option<Rows>, BinlogError> {
        let head = Head::read(form, body)?;
        if head.table == NO_TABLE && head.ends_statement {
            self.tables.clear();
            return Ok(None);
        }
        let table = self.tables.get(&head.table).ok_or(BinlogError::UnknownTable(head.table))?;
        let count = match (is_whole, form.is_compressed) {
            (false, _) => None,
            (true, false) => head.count(table, form, head.rest),
            (true, true) => unpack_field(head.rest, libraries)?
                .and_then(|plain| head.count(table, form, &plain)),
        };
        let rows = Rows { table: Arc::clone(&table.name), change: form.change, count };
        if head.ends_statement {
            self.tables.clear();
        }
        Ok(Some(rows))
    }
}

fn format(body: &[u8], checksums: Checksums) -> Result<Kind<'_>, BinlogError> {
    let mut reader = Reader::new(body);
    let version = reader.u16("version of the binary log")?;
    if version != 4 {
        return Err(BinlogError::Version(version));
    }
    let text = reader.bytes(50, "version of the server")?;
    reader.u32("time")?;
    if usize::from(reader.u8("length of headers")?) != HEADER_LEN {
        return Err(BinlogError::Malformed("length of headers"));
    }
    let len = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let version = text.get(..len).unwrap_or_default();
    Ok(Kind::Format { version, has_checksums: checksums == Checksums::On })
}

fn rotate(body: &[u8]) -> Result<Kind<'_>, BinlogError> {
    let mut reader = Reader::new(body);
    let position = reader.u64("position")?;
    Ok(Kind::Rotate { file: reader.take_rest(), position })
}

/// | statement | bytes |
/// |---|---|
/// | connection, seconds that it took | 4, 4 |
/// | length of the schema's name | 1 |
/// | error, length of the variables | 2, 2 |
/// | variables, schema, `0x00`, statement | … |
fn query(body: &[u8]) -> Result<Kind<'_>, BinlogError> {
    let mut reader = Reader::new(body);
    reader.u32("connection")?;
    reader.u32("seconds")?;
    let schema_len = reader.u8("length of a schema")?;
    reader.u16("error")?;
    let variables = reader.u16("length of variables")?;
    reader.bytes(usize::from(variables), "variables")?;
    let schema = reader.bytes(usize::from(schema_len), "schema")?;
    reader.u8("end of a schema")?;
    Ok(Kind::Query { schema, statement: reader.take_rest() })
}

/// | transaction on MySQL | bytes |
/// |---|---|
/// | flags, UUID, number | 1, 16, 8 |
/// | 2, last committed, sequence | 1, 8, 8 |
/// | µs when it was committed here; the highest bit says that those follow when it first was | 7 |
/// | those | 7 |
fn gtid(body: &[u8]) -> Result<Begin, BinlogError> {
    let mut reader = Reader::new(body);
    reader.u8("flags")?;
    let uuid = *reader.bytes(16, "UUID")?.first_chunk().ok_or(BinlogError::Malformed("UUID"))?;
    let number = number(reader.u64("number")?)?;
    let gtid = Gtid { origin: Origin::Server(uuid, Tag::NONE), server: 0, number };
    Ok(Begin { gtid: Some(gtid), is_standalone: false, committed_us: first_commit(reader) })
}

/// What older servers don't have.
fn first_commit(mut reader: Reader<'_>) -> Option<u64> {
    const HAS_FIRST: u64 = 1 << 55;
    if reader.u8("clock").ok()? != 2 {
        return None;
    }
    reader.bytes(16, "clock").ok()?;
    let time = |reader: &mut Reader<'_>| {
        let bytes = reader.bytes(7, "time").ok()?;
        Some(bytes.iter().rev().fold(0, |time, byte| (time << 8) | u64::from(*byte)))
    };
    match time(&mut reader)? {
        own if own & HAS_FIRST == 0 => Some(own),
        _ => time(&mut reader),
    }
}

fn number(number: u64) -> Result<u64, BinlogError> {
    match number {
        1..=NUMBER_MAX => Ok(number),
        _ => Err(BinlogError::Malformed("number of a transaction")),
    }
}

/// A transaction with a tag, in MySQL's own serialisation: its version, its size, the last field
/// that must be known, and fields, each with its number in front.
///
/// | field | |
/// |---|---|
/// | 0, 1 | flags; UUID, each byte as a number |
/// | 2, 3 | number, signed; tag |
/// | 4, 5 | last committed, sequence, both signed |
/// | 6, 7 | µs when it was committed here; and first, if that is different |
///
/// Source: MySQL `libs/mysql/binlog/event/control_events.h`.
fn gtid_tagged(body: &[u8]) -> Result<Begin, BinlogError> {
    const LAST_KNOWN: u64 = 7;
    let mut reader = Reader::new(body);
    let mut next = |field| varlen::unsigned(&mut reader, field);
    if next("version of a serialisation")? != 1 {
        return Err(BinlogError::Malformed("version of a serialisation"));
    }
    next("size")?;
    next("last field that must be known")?;
    let (mut uuid, mut own, mut tag, mut committed) = (None, None, Tag::NONE, None);
    while !reader.is_empty() {
        match varlen::unsigned(&mut reader, "field")? {
            0 => _ = varlen::unsigned(&mut reader, "flags")?,
            1 => {
                let mut bytes = [0; 16];
                for byte in &mut bytes {
                    let number = varlen::unsigned(&mut reader, "UUID")?;
                    *byte = u8::try_from(number).map_err(|_| BinlogError::Malformed("UUID"))?;
                }
                uuid = Some(bytes);
            }
            2 => {
                let signed = varlen::signed(&mut reader, "number")?;
                own = Some(number(u64::try_from(signed).unwrap_or_default())?);
            }
            3 => {
                let len = varlen::unsigned(&mut reader, "length of a tag")?;
                let len = usize::try_from(len).map_err(|_| BinlogError::Malformed("tag"))?;
                tag = tag_of(reader.bytes(len, "tag")?)?;
            }
            4 | 5 => _ = varlen::signed(&mut reader, "clock")?,
            6 | LAST_KNOWN => committed = Some(varlen::unsigned(&mut reader, "time")?),
            // What follows nobody needs.
            _ => break,
        }
    }
    let (Some(uuid), Some(number)) = (uuid, own) else {
        return Err(BinlogError::Malformed("tagged transaction"));
    };
    let gtid = Gtid { origin: Origin::Server(uuid, tag), server: 0, number };
    Ok(Begin { gtid: Some(gtid), is_standalone: false, committed_us: committed })
}

/// | transaction on MariaDB | bytes |
/// |---|---|
/// | number, domain, flags | 8, 4, 1 |
fn gtid_of_mariadb(body: &[u8], server: u32) -> Result<Begin, BinlogError> {
    const STANDALONE: u8 = 1;
    let mut reader = Reader::new(body);
    let number = reader.u64("number")?;
    let domain = reader.u32("domain")?;
    let flags = reader.u8("flags")?;
    let gtid = Gtid { origin: Origin::Domain(domain), server, number };
    let is_standalone = flags & STANDALONE != 0;
    Ok(Begin { gtid: Some(gtid), is_standalone, committed_us: None })
}

/// A number of entries, with flags in its highest four bits; each has domain, server and number.
fn list(body: &[u8]) -> Result<Position, BinlogError> {
    let mut reader = Reader::new(body);
    let count = reader.u32("number of domains")? & 0x0FFF_FFFF;
    if usize::try_from(count).unwrap_or(usize::MAX) > INTERVALS_MAX {
        return Err(BinlogError::Malformed("number of domains"));
    }
    let mut position = Position::default();
    for _ in 0..count {
        let (domain, server) = (reader.u32("domain")?, reader.u32("server")?);
        position.advance(domain, server, reader.u64("number")?);
    }
    Ok(position)
}
