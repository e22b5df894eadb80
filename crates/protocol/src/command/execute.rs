//! What `COM_STMT_EXECUTE` and `COM_STMT_BULK_EXECUTE` say before the parameters' values.
//!
//! | bytes | `COM_STMT_EXECUTE` |
//! |---|---|
//! | 1, 4 | code, statement id |
//! | 1 | flags: which cursor to open, 0 for none |
//! | 4 | iteration count, 1 |
//! | (n + 7) / 8 | with n parameters: a bit for each, set for NULL |
//! | 1 | 1 when the types follow; 0 when they are those of the execution before |
//! | 2 × n | if so: type and flags of each parameter |
//! | rest | values; none for NULL and for what was sent as long data |
//!
//! | bytes | `COM_STMT_BULK_EXECUTE` |
//! |---|---|
//! | 1, 4 | code, statement id |
//! | 2 | flags: `0x80` when the types follow, `0x40` for a result of each row |
//! | 2 × n | if so: type and flags of each parameter |
//! | rest | rows: an indicator and perhaps a value for each parameter |
//!
//! Sources: MySQL internals "COM_STMT_EXECUTE"; MariaDB knowledge base "COM_STMT_EXECUTE",
//! "COM_STMT_BULK_EXECUTE".

use crate::codec::{
    Malformed, Reader,
    frame::{
        HEADER_LEN, PAYLOAD_MAX, Sink, begin_packet, end_packet, payload_parts_from, put_parts,
        put_payload,
    },
    put_lenenc_int, put_u32,
};

use super::code;

/// Where a statement id lies in the frames of the commands that carry one.
pub const STMT_ID_AT: usize = HEADER_LEN + 1;
/// MariaDB: the statement id that stands for the statement prepared last.
pub const LAST_STMT_ID: u32 = u32::MAX;

/// Bytes of one parameter's type.
pub const TYPE_LEN: usize = 2;
/// Bytes of flags and iteration count.
const FIXED_LEN: usize = 5;
/// Flags of an execution that open a cursor: read-only, for update, scrollable.
pub const CURSOR_FLAGS: u8 = 0x07;
/// Flag of an execution, with query attributes: the number of its values is there.
pub(super) const COUNT_FLAG: u8 = 0x08;
/// Flag of a bulk execution: types follow.
const BULK_TYPES: u16 = 0x80;

/// The part of an execution before its values, borrowed from the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execution<'a> {
    /// Whether the client wants its rows from a cursor.
    pub opens_cursor: bool,
    /// A bit for each parameter, the lowest first, set when it is NULL. Empty in a bulk execution,
    /// whose rows say so themselves.
    pub nulls: &'a [u8],
    /// Type and flags of each parameter; `None` when they are those of the execution before.
    pub types: Option<&'a [u8]>,
    /// What comes before the flag that says whether types follow, after the statement id.
    head: &'a [u8],
    /// What follows the types.
    values: &'a [u8],
    is_bulk: bool,
}

impl<'a> Execution<'a> {
    /// Reads what follows the statement id of `COM_STMT_EXECUTE` for a statement of so many
    /// parameters. `raw` may end within the values.
    ///
    /// # Errors
    /// [`Malformed`] when it ends before them.
    pub fn parse(raw: &'a [u8], params: u16) -> Result<Self, Malformed> {
        let params = usize::from(params);
        let mut reader = Reader::new(raw);
        let flags = reader.u8("execute flags")?;
        reader.u32("iteration count")?;
        let opens_cursor = flags & CURSOR_FLAGS != 0;
        if params == 0 {
            let (nulls, types, values) = (&[][..], None, reader.rest());
            let head = raw.get(..raw.len() - values.len()).unwrap_or_default();
            return Ok(Self { opens_cursor, nulls, types, head, values, is_bulk: false });
        }
        let nulls = reader.bytes(params.div_ceil(8), "null bitmap")?;
        let head = raw.get(..raw.len() - reader.rest().len()).unwrap_or_default();
        let types = match reader.u8("types flag")? {
            0 => None,
            _ => Some(reader.bytes(params * TYPE_LEN, "parameter types")?),
        };
        let values = reader.rest();
        Ok(Self { opens_cursor, nulls, types, head, values, is_bulk: false })
    }

    /// Reads a `COM_STMT_BULK_EXECUTE` of a statement with `params` parameters.
    ///
    /// # Errors
    /// [`Malformed`] when it ends before the rows.
    pub fn parse_bulk(raw: &'a [u8], params: u16) -> Result<Self, Malformed> {
        let mut reader = Reader::new(raw);
        let flags = reader.u16("bulk flags")?;
        let head = raw.get(..raw.len() - reader.rest().len()).unwrap_or_default();
        let types = match flags & BULK_TYPES {
            0 => None,
            _ => Some(reader.bytes(usize::from(params) * TYPE_LEN, "parameter types")?),
        };
        let (opens_cursor, nulls, values) = (false, &[][..], reader.rest());
        Ok(Self { opens_cursor, nulls, types, head, values, is_bulk: true })
    }

    /// The values, one after the other: none for NULL and for what was sent as long data.
    pub fn values(&self) -> &'a [u8] {
        self.values
    }

    /// Whether parameter `at` is NULL, as far as is known before its value.
    pub fn is_null(&self, at: usize) -> bool {
        self.nulls.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 != 0)
    }

    /// Appends the same execution of statement `stmt_id` with these types in it.
    pub fn put_with_types(&self, out: &mut Vec<u8>, stmt_id: u32, types: &[u8]) {
        let len = 1 + 4 + self.head.len() + 1 + types.len() + self.values.len();
        put_command(out, len, |out| {
            self.put_head_with_types(out, stmt_id, types);
            out.extend_from_slice(self.values);
        });
    }

    /// Appends the same execution of statement `stmt_id`, of so many parameters, in the form that
    /// servers with query attributes read. `types` are put in where it has none.
    pub fn put_counted(&self, out: &mut Vec<u8>, stmt_id: u32, params: u16, types: Option<&[u8]>) {
        let types = self.types.or(types).unwrap_or_default();
        let names = types.len() / TYPE_LEN;
        let len = 1 + 4 + self.head.len() + 4 + types.len() + names + self.values.len();
        put_command(out, len, |out| {
            self.put_head_counted(out, stmt_id, params, types);
            if params > 0 {
                out.extend_from_slice(self.values);
            }
        });
    }

    /// As [`put_counted`](Self::put_counted), of a long execution: this one is of `frames`, which
    /// are not to be copied.
    pub fn put_long_counted(
        &self,
        out: &mut impl Sink,
        frames: &[u8],
        stmt_id: u32,
        params: u16,
        types: Option<&[u8]>,
    ) {
        let mut head = Vec::new();
        self.put_head_counted(&mut head, stmt_id, params, self.types.or(types).unwrap_or_default());
        let values_at = match params {
            0 => frames.len(),
            _ => frames.len() - self.values.len(),
        };
        put_long(out, &head, frames, values_at);
    }

    /// As [`put_with_types`](Self::put_with_types), of a long execution: this one is of `frames`,
    /// which are not to be copied.
    pub fn put_long_with_types(
        &self,
        out: &mut impl Sink,
        frames: &[u8],
        stmt_id: u32,
        types: &[u8],
    ) {
        let mut head = Vec::new();
        self.put_head_with_types(&mut head, stmt_id, types);
        put_long(out, &head, frames, frames.len() - self.values.len());
    }

    /// Appends what comes before the values. `types` are all that it has.
    fn put_head_counted(&self, out: &mut Vec<u8>, stmt_id: u32, params: u16, types: &[u8]) {
        out.push(code::STMT_EXECUTE);
        put_u32(out, stmt_id);
        let Some((fixed, nulls)) = self.head.split_at_checked(FIXED_LEN) else { return };
        let (flags, iterations) = fixed.split_first().unwrap_or((&0, &[]));
        if params == 0 {
            out.push(flags & !COUNT_FLAG);
            return out.extend_from_slice(iterations);
        }
        out.push(flags | COUNT_FLAG);
        out.extend_from_slice(iterations);
        put_lenenc_int(out, params.into());
        out.extend_from_slice(nulls);
        out.push(u8::from(!types.is_empty()));
        for kind in types.as_chunks::<TYPE_LEN>().0 {
            out.extend_from_slice(kind);
            // No name.
            out.push(0);
        }
    }

    /// Appends what comes before the values.
    fn put_head_with_types(&self, out: &mut Vec<u8>, stmt_id: u32, types: &[u8]) {
        out.push(if self.is_bulk { code::STMT_BULK_EXECUTE } else { code::STMT_EXECUTE });
        put_u32(out, stmt_id);
        match (self.is_bulk, self.head) {
            (true, [low, high]) => {
                let flags = u16::from_le_bytes([*low, *high]) | BULK_TYPES;
                out.extend_from_slice(&flags.to_le_bytes());
            }
            _ => {
                out.extend_from_slice(self.head);
                out.push(1);
            }
        }
        out.extend_from_slice(types);
    }
}

/// Appends a command whose payload is `head`, and then that of `frames` from byte `at` on.
fn put_long(out: &mut impl Sink, head: &[u8], frames: &[u8], at: usize) {
    put_parts(out, 0, std::iter::once(head).chain(payload_parts_from(frames, at)));
}

/// Appends frames of one command, whose payload `put` appends and has about `len` bytes.
fn put_command(out: &mut Vec<u8>, len: usize, put: impl FnOnce(&mut Vec<u8>)) {
    if len < PAYLOAD_MAX {
        let start = begin_packet(out, 0);
        put(out);
        end_packet(out, start);
    } else {
        let mut payload = Vec::with_capacity(len);
        put(&mut payload);
        put_payload(out, 0, &payload);
    }
}

/// Appends an execution with query attributes, whose types are among them, of another statement.
/// `raw` is what follows the statement id.
pub fn put_with_attributes(out: &mut Vec<u8>, stmt_id: u32, raw: &[u8]) {
    put_command(out, 1 + 4 + raw.len(), |out| {
        out.push(code::STMT_EXECUTE);
        put_u32(out, stmt_id);
        out.extend_from_slice(raw);
    });
}

/// As [`put_with_attributes`], of a long `raw`, which is not to be copied.
pub fn put_long_with_attributes(out: &mut impl Sink, stmt_id: u32, raw: &[u8]) {
    let [a, b, c, d] = stmt_id.to_le_bytes();
    let head = [code::STMT_EXECUTE, a, b, c, d];
    put_parts(out, 0, [&head[..], raw].into_iter());
}

/// Appends an execution that is cut short before its values, of a statement of so many parameters,
/// as cut short as it is in the form that servers with query attributes read.
pub fn put_counted_cut(out: &mut Vec<u8>, stmt_id: u32, params: u16, raw: &[u8]) {
    put_command(out, raw.len() + 16, |out| {
        out.push(code::STMT_EXECUTE);
        put_u32(out, stmt_id);
        match raw.split_at_checked(FIXED_LEN) {
            Some((fixed, rest)) if params > 0 => {
                out.extend_from_slice(fixed);
                put_lenenc_int(out, params.into());
                out.extend_from_slice(rest);
            }
            Some(_) | None => out.extend_from_slice(raw),
        }
    });
}

/// Appends `COM_STMT_PREPARE`.
pub fn put_prepare(out: &mut Vec<u8>, text: &[u8]) {
    if text.len() + 1 < PAYLOAD_MAX {
        let start = begin_packet(out, 0);
        out.push(code::STMT_PREPARE);
        out.extend_from_slice(text);
        end_packet(out, start);
    } else {
        let payload = [&[code::STMT_PREPARE], text].concat();
        put_payload(out, 0, &payload);
    }
}

/// As [`put_prepare`], of a long text, which is not to be copied.
pub fn put_long_prepare(out: &mut impl Sink, text: &[u8]) {
    put_parts(out, 0, [&[code::STMT_PREPARE], text].into_iter());
}

/// Appends `COM_STMT_CLOSE`, which nobody answers.
pub fn put_close(out: &mut Vec<u8>, stmt_id: u32) {
    let start = begin_packet(out, 0);
    out.push(code::STMT_CLOSE);
    put_u32(out, stmt_id);
    end_packet(out, start);
}

/// As [`put_renamed`], of long frames that are not to be copied.
pub fn put_long_renamed(out: &mut impl Sink, frames: &[u8], stmt_id: u32) {
    let Some((before, rest)) = frames.split_at_checked(STMT_ID_AT) else { return };
    let (_, behind) = rest.split_at(rest.len().min(4));
    out.put(before);
    out.put(&stmt_id.to_le_bytes());
    out.put(behind);
}

/// Appends the frames of one command with another statement id in it.
pub fn put_renamed(out: &mut Vec<u8>, frames: &[u8], stmt_id: u32) {
    let start = out.len();
    out.extend_from_slice(frames);
    if let Some(place) = out.get_mut(start + STMT_ID_AT..start + STMT_ID_AT + 4) {
        place.copy_from_slice(&stmt_id.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::frame::split_packet;
    use crate::command::Command;

    const TYPES: [u8; 6] = [8, 0, 0xFD, 0, 8, 0x80];

    fn raw(cursor: u8, nulls: u8, types: Option<&[u8]>, values: &[u8]) -> Vec<u8> {
        let mut raw = vec![cursor, 1, 0, 0, 0, nulls, u8::from(types.is_some())];
        raw.extend_from_slice(types.unwrap_or_default());
        raw.extend_from_slice(values);
        raw
    }

    #[test]
    fn types_and_nulls_are_found() {
        let bytes = raw(1, 0b010, Some(&TYPES), b"values");
        let execution = Execution::parse(&bytes, 3).expect("whole");
        assert!(execution.opens_cursor);
        assert_eq!(execution.types, Some(&TYPES[..]));
        assert_eq!([0, 1, 2, 9].map(|at| execution.is_null(at)), [false, true, false, false]);
        let bytes = raw(0, 0, None, b"values");
        let execution = Execution::parse(&bytes, 3).expect("whole");
        assert_eq!((execution.opens_cursor, execution.types), (false, None));
    }

    #[test]
    fn a_block_that_ends_before_the_values_is_malformed() {
        let bytes = raw(0, 0, Some(&TYPES), b"");
        for len in 0..bytes.len() {
            assert!(Execution::parse(&bytes[..len], 3).is_err(), "{len}");
        }
        assert!(Execution::parse(&bytes, 3).is_ok());
        assert!(Execution::parse(&[0, 1, 0, 0, 0], 0).is_ok());
        assert!(Execution::parse_bulk(&[0x80, 0, 8], 1).is_err());
        assert!(Execution::parse_bulk(&[0], 0).is_err());
    }

    #[test]
    fn types_are_put_where_they_belong() {
        let without = raw(0, 1, None, b"values");
        let with = raw(0, 1, Some(&TYPES), b"values");
        let mut out = Vec::new();
        Execution::parse(&without, 3).expect("whole").put_with_types(&mut out, 77, &TYPES);
        let (_, payload, rest) = split_packet(&out).expect("one packet");
        assert!(rest.is_empty());
        assert_eq!(Command::decode(payload), Ok(Command::StmtExecute { stmt_id: 77, raw: &with }));

        let mut out = Vec::new();
        let bulk = [0x40, 0, 0, 5, 0, 0, 0];
        Execution::parse_bulk(&bulk, 1).expect("whole").put_with_types(&mut out, 5, &[3, 0]);
        let (_, payload, _) = split_packet(&out).expect("one packet");
        let with = [0xC0, 0, 3, 0, 0, 5, 0, 0, 0];
        let expected = Command::StmtBulkExecute { stmt_id: 5, raw: &with };
        assert_eq!(Command::decode(payload), Ok(expected));
    }

    #[test]
    fn servers_with_query_attributes_get_the_number_of_values_and_empty_names() {
        let check = |plain: &[u8], params, types: Option<&[u8]>, expected: &[u8]| {
            let mut out = Vec::new();
            let execution = Execution::parse(plain, params).expect("whole");
            execution.put_counted(&mut out, 7, params, types);
            let (_, payload, _) = split_packet(&out).expect("one packet");
            let expected = Command::StmtExecute { stmt_id: 7, raw: expected };
            assert_eq!(Command::decode(payload), Ok(expected));
        };
        check(b"\x08\x01\0\0\0", 0, None, b"\0\x01\0\0\0");
        let without = raw(0, 1, None, b"values");
        check(&without, 3, None, b"\x08\x01\0\0\0\x03\x01\0values");
        let with = b"\x08\x01\0\0\0\x03\x01\x01\x08\0\0\xFD\0\0\x08\x80\0values";
        check(&without, 3, Some(&TYPES), with);
        check(&raw(0, 1, Some(&TYPES), b"values"), 3, None, with);
    }

    #[test]
    fn an_execution_that_grows_beyond_a_packet_takes_two() {
        let without = raw(0, 0, None, &vec![7; PAYLOAD_MAX - 12]);
        let mut out = Vec::new();
        Execution::parse(&without, 1).expect("whole").put_with_types(&mut out, 1, &[8, 0]);
        assert_eq!(&out[..4], &[0xFF, 0xFF, 0xFF, 0]);
        assert_eq!(&out[4 + PAYLOAD_MAX..][..4], &[2, 0, 0, 1]);
    }

    /// The frames are read as a worker reads them: as if they were one packet, to the values.
    #[test]
    fn a_long_execution_is_put_as_a_short_one() {
        for (values, types) in [(9, None), (9, Some(&TYPES[..])), (PAYLOAD_MAX + 9, None)] {
            let raw = raw(0, 1, types, &vec![7; values]);
            let mut frames = Vec::new();
            put_payload(&mut frames, 0, &[&[code::STMT_EXECUTE, 1, 0, 0, 0], &raw[..]].concat());
            let short = Execution::parse(&raw, 3).expect("whole");
            let long = Execution::parse(&frames[STMT_ID_AT + 4..], 3).expect("whole");
            let (mut put, mut expected) = (Vec::new(), Vec::new());
            long.put_long_counted(&mut put, &frames, 5, 3, Some(&TYPES));
            short.put_counted(&mut expected, 5, 3, Some(&TYPES));
            if types.is_none() {
                long.put_long_with_types(&mut put, &frames, 6, &TYPES);
                short.put_with_types(&mut expected, 6, &TYPES);
            }
            put_long_renamed(&mut put, &frames, 7);
            put_renamed(&mut expected, &frames, 7);
            assert!(put == expected, "{values} {types:?}");
        }
    }

    #[test]
    fn commands_get_another_statement_id() {
        let mut out = vec![9];
        put_close(&mut out, 3);
        let frames = out.split_off(1);
        put_renamed(&mut out, &frames, 0x0102_0304);
        assert_eq!(out, [9, 5, 0, 0, 0, 0x19, 4, 3, 2, 1]);
        let mut out = Vec::new();
        put_prepare(&mut out, b"DO 1");
        assert_eq!(out, b"\x05\0\0\0\x16DO 1");
    }
}
