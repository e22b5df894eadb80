//! Column definitions that a client has already, or gets in another form.
//!
//! MariaDB leaves the definitions of a prepared statement's columns out of a reply when they are
//! those that the *server's* statement sent before. Here clients share the server's statements, so
//! the proxy asks servers for all definitions, and compares them with what this client was sent
//! last for its own statement.

use std::rc::Rc;

use crate::codec::frame::{HEADER_LEN, Header, put_payload};
use crate::codec::{Malformed, Reader, put_lenenc_bytes, put_lenenc_int};
use crate::packet::err;
use crate::packet::ok::ReplyFormat;

use super::pass::Pass;
use super::relay::{Packet, Relay};
use super::run::renumber;
use super::stage::Stage;

/// The most bytes of definitions that are remembered for a statement; longer ones always come.
const REMEMBERED_MAX: usize = 16 * 1024;
/// The number of the first definition in a reply to an execution, as definitions are remembered.
const FIRST_SEQ: u8 = 2;
/// Strings of a definition before the one that only extended definitions have: catalog, schema,
/// table, original table, name, original name.
const NAMES: usize = 6;
/// The type `VECTOR`, as MySQL 9.7 gives it for a parameter that is written to such a column.
const VECTOR: u8 = 242;

/// What a client with cached metadata knows of its statement's columns after a reply.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum ClientColumns {
    /// Nothing that could be told: the next reply has to have them.
    #[default]
    Unknown,
    /// What it knew before.
    Known(Rc<[u8]>),
    /// These definitions: whole packets, as in a reply to an execution.
    Sent(Box<[u8]>),
}

/// The columns of a prepared statement, while a reply goes to a client that keeps them.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// What the client has.
    known: Option<Rc<[u8]>>,
    /// Definitions on their way to it, as far as they have come.
    sent: Vec<u8>,
    /// Definitions that have still to come; `None` when they are not remembered.
    missing: Option<u32>,
    /// Those that have all come.
    complete: Option<Box<[u8]>>,
}

impl Columns {
    /// So many definitions follow, for the client.
    fn begin(&mut self, count: u32) {
        self.sent.clear();
        self.missing = Some(count);
        self.known = None;
    }

    fn take(&mut self, packets: &[u8], count: u64) {
        let left = self.missing.zip(u32::try_from(count).ok());
        self.missing = left.and_then(|(missing, count)| missing.checked_sub(count));
        let is_kept = !packets.is_empty() && self.sent.len() + packets.len() <= REMEMBERED_MAX;
        if self.missing.is_none() || !is_kept {
            self.missing = None;
            return;
        }
        self.sent.extend_from_slice(packets);
        if let (Some(0), Some(first)) = (self.missing, Header::read(&self.sent)) {
            renumber(&mut self.sent, FIRST_SEQ.wrapping_sub(first.seq));
            self.complete = Some(std::mem::take(&mut self.sent).into());
        }
    }
}

impl Relay {
    /// The reply is that of an execution or a prepare, for a client with cached metadata that has
    /// these definitions of its statement's columns. They are left out of the reply if the server
    /// sends the same. What the client has afterwards is in the outcome.
    pub fn set_known_columns(&mut self, known: Option<Rc<[u8]>>) {
        debug_assert!(!self.has_begun());
        if self.client.cached_metadata && !self.renumbers && !self.translates {
            self.columns = Some(Box::new(Columns { known, ..Columns::default() }));
        }
    }

    /// What the client has after the reply.
    pub(super) fn client_columns(&mut self) -> ClientColumns {
        // Which of several results a client keeps is its own affair.
        let columns = self.columns.take().filter(|_| self.outcome.result_sets <= 1);
        match columns.map(|columns| (columns.complete, columns.known)) {
            Some((Some(sent), _)) => ClientColumns::Sent(sent),
            Some((None, Some(known))) => ClientColumns::Known(known),
            Some((None, None)) | None => ClientColumns::Unknown,
        }
    }

    /// The number of a column count packet and what follows it, `count` definitions: whether they
    /// are here as the client has them.
    pub(super) fn has_known_columns(
        &self,
        packet: &Packet<'_>,
        count: u32,
        pass: &Pass<'_, '_>,
    ) -> Option<usize> {
        let known = self.columns.as_ref()?.known.as_ref()?;
        let is_first = self.outcome.result_sets == 1 && self.shift == 0;
        let after = pass.rest().get(packet.in_input..)?;
        let is_here = is_first
            && packet.in_input > 0
            && packet.header.seq.wrapping_add(1) == FIRST_SEQ
            && after.starts_with(known);
        let count_known = || {
            let mut rest = &known[..];
            let mut count = 0_u32;
            while let Some(header) = Header::read(rest) {
                rest = rest.get(HEADER_LEN + header.payload_len..).unwrap_or_default();
                count += 1;
            }
            count
        };
        (is_here && count_known() == count).then_some(known.len())
    }

    /// So many definitions of a prepared statement's columns follow.
    pub(super) fn begin_columns(&mut self, count: u32) {
        if let Some(columns) = &mut self.columns {
            columns.begin(count);
        }
    }

    /// Definitions go to the client, as whole packets.
    #[inline]
    pub(super) fn note_columns(&mut self, packets: &[u8], count: u64) {
        if let Some(columns) = &mut self.columns
            && matches!(self.stage, Stage::Columns { .. } | Stage::PreparedColumns { .. })
        {
            columns.take(packets, count);
        }
    }

    /// A definition, of which `held` bytes are consumed, goes to the client; in pieces it is not
    /// remembered.
    #[inline]
    pub(super) fn note_column(&mut self, header: Header, held: usize, pass: &Pass<'_, '_>) {
        if self.columns.is_some() && !header.is_continued() {
            let packet = pass.rest().get(..HEADER_LEN + header.payload_len);
            self.note_columns(packet.filter(|_| held == 0).unwrap_or_default(), 1);
        }
    }

    /// Takes note of what a parameter's definition says.
    pub(super) fn note_parameter(&mut self, definition: &[u8]) {
        let is_vector = type_of(definition, self.server) == Ok(VECTOR);
        if let Some(prepared) = self.outcome.prepared.as_mut() {
            prepared.takes_vector |= is_vector;
        }
    }

    /// Gives the client a definition in its own form.
    pub(super) fn on_definition(
        &mut self,
        packet: &Packet<'_>,
        pass: &mut Pass<'_, '_>,
    ) -> Result<(), Malformed> {
        debug_assert!(packet.payload.first() != Some(&err::HEADER));
        let seq = packet.header.seq.wrapping_add(self.shift);
        let payload = translated(packet.payload, self.server, self.client)?;
        pass.put(|out| {
            put_payload(out, seq, &payload);
        });
        pass.skip(packet.in_input);
        self.count(1, pass);
        Ok(())
    }
}

/// A column definition in another form.
///
/// # Errors
/// [`Malformed`] when it is cut short.
pub(super) fn translated(
    definition: &[u8],
    from: ReplyFormat,
    to: ReplyFormat,
) -> Result<Vec<u8>, Malformed> {
    let mut reader = Reader::new(definition);
    for _ in 0..NAMES {
        reader.lenenc_bytes("column definition")?;
    }
    let names = definition.len() - reader.rest().len();
    let extended = match from.extended_metadata {
        true => reader.lenenc_bytes("extended metadata")?,
        false => b"",
    };
    let mut payload = Vec::with_capacity(definition.len() + 1);
    payload.extend_from_slice(definition.get(..names).unwrap_or_default());
    if to.extended_metadata {
        put_lenenc_bytes(&mut payload, extended);
    }
    payload.extend_from_slice(reader.rest());
    Ok(payload)
}

/// The type that a definition gives.
fn type_of(definition: &[u8], from: ReplyFormat) -> Result<u8, Malformed> {
    let mut reader = Reader::new(definition);
    for _ in 0..NAMES + usize::from(from.extended_metadata) {
        reader.lenenc_bytes("column definition")?;
    }
    reader.lenenc_int("length of the fixed part")?;
    reader.u16("collation")?;
    reader.u32("column length")?;
    reader.u8("column type")
}

/// Appends the payload of a column count packet.
pub(super) fn put_column_count(out: &mut Vec<u8>, count: u64, follows: bool, to: ReplyFormat) {
    put_lenenc_int(out, count);
    if to.has_metadata_flag() {
        out.push(u8::from(follows));
    }
}
