//! MySQL's query attributes: named values that a client sends along with a statement.
//!
//! | bytes | before the text of `COM_QUERY`, with `CLIENT_QUERY_ATTRIBUTES` |
//! |---|---|
//! | lenenc | number of attributes |
//! | lenenc | sets of them, 1 |
//! | (n + 7) / 8 | with n attributes: a bit for each, set for NULL |
//! | 1 | 1: types follow |
//! | n times | type and flags (2), name (lenenc string) |
//! | rest | values, none for NULL |
//!
//! `COM_STMT_EXECUTE` has the number of its values, parameters and attributes, before the bits for
//! NULL if the statement has parameters or a flag (`0x08`) says so, and a name behind each type.
//!
//! Sources: MySQL documentation "COM_QUERY", "COM_STMT_EXECUTE"; MySQL 9.7's answers to each form.

use crate::codec::{
    Malformed, Reader,
    frame::{PAYLOAD_MAX, Sink, begin_packet, end_packet, put_parts},
};

use super::{
    code,
    execute::{COUNT_FLAG, TYPE_LEN},
};

/// A flag of a type: numbers are unsigned.
const UNSIGNED_FLAG: u8 = 0x80;

/// What precedes a text that has no attributes.
pub const NO_ATTRIBUTES: [u8; 2] = [0, 1];

/// A statement's text and its attributes, borrowed from a `COM_QUERY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// Everything before the text; `None` when there are no attributes.
    pub attributes: Option<&'a [u8]>,
    /// The text.
    pub text: &'a [u8],
}

impl<'a> Query<'a> {
    /// Reads what follows the code of a `COM_QUERY` of a client with query attributes.
    ///
    /// # Errors
    /// [`Malformed`] when it ends within the attributes, or they are not one set with types.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        match body.strip_prefix(&NO_ATTRIBUTES) {
            Some(text) => Ok(Self { attributes: None, text }),
            None => Self::parse_attributes(body),
        }
    }

    #[inline(never)]
    fn parse_attributes(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let count = count_of(&mut reader)?;
        if reader.lenenc_int("attribute sets")? != 1 {
            return Err(Malformed("attribute sets"));
        }
        if count > 0 {
            let nulls = reader.bytes(count.div_ceil(8), "attribute nulls")?;
            let Bound { types, .. } = Bound::read(&mut reader, count)?.ok_or(NO_TYPES)?;
            for (at, kind) in types.as_chunks::<TYPE_LEN>().0.iter().enumerate() {
                if !is_set(nulls, at) {
                    skip_value(&mut reader, *kind)?;
                }
            }
        }
        let text = reader.rest();
        let block = body.get(..body.len() - text.len()).unwrap_or_default();
        Ok(Self { attributes: (count > 0).then_some(block), text })
    }
}

/// What an attribute says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given<'a> {
    /// A text or a blob.
    Text(&'a [u8]),
    /// A whole number that is not negative.
    Number(u64),
}

impl<'a> Given<'a> {
    /// The text, where it is one.
    pub fn text(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) => None,
        }
    }

    /// The number that it is, or that its text spells.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
            Self::Number(number) => Some(number),
        }
    }
}

/// The value of the attribute of this name, of what precedes the text of a `COM_QUERY`: a text or
/// a whole number. `None` where there is none, it is something else, or the block can't be read.
pub fn of_query<'a>(block: &'a [u8], name: &[u8]) -> Option<Given<'a>> {
    let mut reader = Reader::new(block);
    let count = count_of(&mut reader).ok()?;
    reader.lenenc_int("attribute sets").ok()?;
    named(&mut reader, count, name, |_| false)
}

/// The value of the attribute of this name, of what follows the statement id of an execution with
/// `params` parameters. `is_long` says which of them were sent as long data. As [`of_query`].
pub fn of_execution<'a>(
    raw: &'a [u8],
    params: u16,
    name: &[u8],
    is_long: impl Fn(usize) -> bool,
) -> Option<Given<'a>> {
    let mut reader = Reader::new(raw);
    let flags = reader.u8("execute flags").ok()?;
    reader.bytes(4, "iteration count").ok()?;
    if params == 0 && flags & COUNT_FLAG == 0 {
        return None;
    }
    let count = count_of(&mut reader).ok()?;
    named(&mut reader, count, name, |at| at < usize::from(params) && is_long(at))
}

/// The text or number of this name among so many values.
fn named<'a>(
    reader: &mut Reader<'a>,
    count: usize,
    name: &[u8],
    is_long: impl Fn(usize) -> bool,
) -> Option<Given<'a>> {
    if count == 0 {
        return None;
    }
    let nulls = reader.bytes(count.div_ceil(8), "attribute nulls").ok()?;
    if reader.u8("types flag").ok()? == 0 {
        return None;
    }
    let mut wanted = None;
    let types = *reader;
    for at in 0..count {
        reader.bytes(TYPE_LEN, "attribute type").ok()?;
        if reader.lenenc_bytes("attribute name").ok()? == name {
            wanted = Some(at);
        }
    }
    let (wanted, mut types) = (wanted?, types);
    for at in 0..=wanted {
        let kind: [u8; TYPE_LEN] = types.bytes(TYPE_LEN, "attribute type").ok()?.try_into().ok()?;
        types.lenenc_bytes("attribute name").ok()?;
        match (at == wanted, is_set(nulls, at) || is_long(at)) {
            (false, true) => {}
            (false, false) => skip_value(reader, kind).ok()?,
            (true, true) => return None,
            (true, false) => return given(reader, kind),
        }
    }
    None
}

/// Reads a value of this type, if it is a text or a whole number that is not negative.
fn given<'a>(reader: &mut Reader<'a>, [kind, flags]: [u8; TYPE_LEN]) -> Option<Given<'a>> {
    if TEXT_TYPES.contains(&kind) {
        return reader.lenenc_bytes("attribute value").ok().map(Given::Text);
    }
    // TINYINT, SMALLINT, INT, MEDIUMINT, BIGINT.
    let len = match kind {
        1 => 1,
        2 => 2,
        3 | 9 => 4,
        8 => 8,
        _ => return None,
    };
    let bytes = reader.bytes(len, "attribute value").ok()?;
    let is_negative = flags & UNSIGNED_FLAG == 0 && bytes.last().is_some_and(|it| it & 0x80 != 0);
    let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    (!is_negative).then_some(Given::Number(number))
}

/// VARCHAR, the BLOBs, VAR_STRING and STRING.
const TEXT_TYPES: [u8; 7] = [0x0F, 0xF9, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE];

const NO_TYPES: Malformed = Malformed("attribute types");

/// Appends a `COM_QUERY` for a server with query attributes.
pub fn put_query(out: &mut Vec<u8>, attributes: Option<&[u8]>, text: &[u8]) {
    let block = attributes.unwrap_or(&NO_ATTRIBUTES);
    if 1 + block.len() + text.len() < PAYLOAD_MAX {
        let start = begin_packet(out, 0);
        out.push(code::QUERY);
        out.extend_from_slice(block);
        out.extend_from_slice(text);
        end_packet(out, start);
    } else {
        put_long_query(out, attributes, [text].into_iter());
    }
}

/// Appends a `COM_QUERY` for a server with query attributes, of a text in parts, which may take
/// several packets.
pub fn put_long_query<'a>(
    out: &mut impl Sink,
    attributes: Option<&'a [u8]>,
    text: impl Iterator<Item = &'a [u8]> + Clone,
) {
    let head: [&[u8]; 2] = [&[code::QUERY], attributes.unwrap_or(&NO_ATTRIBUTES)];
    let parts = head.into_iter().chain(text);
    put_parts(out, 0, parts);
}

/// An execution of a client with query attributes, in the form of those without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainExecution {
    /// What follows the statement id, without names, attributes and the number of values.
    pub raw: Vec<u8>,
    /// Whether that leaves anything out.
    pub has_attributes: bool,
}

/// Why an execution can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExecutionError {
    /// It is cut short.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It has fewer values than the statement has parameters.
    #[error("fewer values than parameters")]
    TooFewValues,
}

impl PlainExecution {
    /// Reads what follows the statement id of a `COM_STMT_EXECUTE` of a client with query
    /// attributes. `is_long` says which parameters were sent as long data.
    ///
    /// # Errors
    /// [`ExecutionError`] when it ends within the attributes, or has too few values.
    pub fn parse(
        raw: &[u8],
        params: u16,
        is_long: impl Fn(usize) -> bool,
    ) -> Result<Self, ExecutionError> {
        let params = usize::from(params);
        let mut reader = Reader::new(raw);
        let flags = reader.u8("execute flags")?;
        let iterations = reader.bytes(4, "iteration count")?;
        let mut plain = vec![flags & !COUNT_FLAG];
        plain.extend_from_slice(iterations);
        if params == 0 && flags & COUNT_FLAG == 0 {
            return Ok(Self { raw: plain, has_attributes: false });
        }
        let count = count_of(&mut reader)?;
        if count < params {
            return Err(ExecutionError::TooFewValues);
        }
        if count == 0 {
            return Ok(Self { raw: plain, has_attributes: false });
        }
        let nulls = reader.bytes(count.div_ceil(8), "null bitmap")?;
        let bound = Bound::read(&mut reader, count)?;
        let has_attributes = match &bound {
            Some(bound) => count > params || bound.has_names,
            None if count > params => return Err(NO_TYPES.into()),
            None => false,
        };
        if params == 0 {
            return Ok(Self { raw: plain, has_attributes });
        }
        put_nulls(&mut plain, nulls, params);
        plain.push(u8::from(bound.is_some()));
        let types = bound.as_ref().map(|bound| bound.types.as_slice()).unwrap_or_default();
        plain.extend(types.iter().take(params * TYPE_LEN));
        let values = reader.rest();
        if count > params {
            for (at, kind) in types.as_chunks::<TYPE_LEN>().0.iter().take(params).enumerate() {
                if !is_set(nulls, at) && !is_long(at) {
                    skip_value(&mut reader, *kind)?;
                }
            }
            let len = values.len() - reader.rest().len();
            plain.extend_from_slice(values.get(..len).unwrap_or_default());
        } else {
            plain.extend_from_slice(values);
        }
        Ok(Self { raw: plain, has_attributes })
    }
}

/// Types, and whether any of them has a name.
struct Bound {
    types: Vec<u8>,
    has_names: bool,
}

impl Bound {
    /// Reads the flag that says whether types follow, and the types with their names.
    fn read(reader: &mut Reader<'_>, count: usize) -> Result<Option<Self>, Malformed> {
        if reader.u8("types flag")? == 0 {
            return Ok(None);
        }
        let mut bound = Self { types: Vec::new(), has_names: false };
        for _ in 0..count {
            bound.types.extend_from_slice(reader.bytes(TYPE_LEN, "attribute type")?);
            bound.has_names |= !reader.lenenc_bytes("attribute name")?.is_empty();
        }
        Ok(Some(bound))
    }
}

/// A number of values, which takes at least a byte of bits for each eight.
fn count_of(reader: &mut Reader<'_>) -> Result<usize, Malformed> {
    let count = u16::try_from(reader.lenenc_int("attribute count")?);
    Ok(usize::from(count.map_err(|_| Malformed("attribute count"))?))
}

fn is_set(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 != 0)
}

/// The first `count` bits of `bits`, the rest of the last byte 0.
fn put_nulls(out: &mut Vec<u8>, bits: &[u8], count: usize) {
    out.extend(bits.iter().take(count.div_ceil(8)));
    if let (used @ 1.., Some(last)) = (count % 8, out.last_mut()) {
        *last &= (1 << used) - 1;
    }
}

/// Passes over a value exactly as servers do: what is behind it must be the same text to them.
/// Any other type, as YEAR, BOOL and NULL, has its length before it, also one with bits in its
/// flags that mean nothing. Source: MySQL 9.7's answers to each type and flag.
fn skip_value(reader: &mut Reader<'_>, [kind, flags]: [u8; TYPE_LEN]) -> Result<(), Malformed> {
    let is_known = flags & !UNSIGNED_FLAG == 0;
    let len = match kind {
        // TINY; SHORT; LONG and FLOAT; LONGLONG and DOUBLE.
        0x01 if is_known => 1,
        0x02 if is_known => 2,
        0x03 | 0x04 if is_known => 4,
        0x05 | 0x08 if is_known => 8,
        _ => return reader.lenenc_bytes("attribute value").map(drop),
    };
    reader.bytes(len, "attribute value").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::frame::split_packet;

    /// One attribute `tr` = `abc`.
    const BLOCK: &[u8] = b"\x01\x01\0\x01\xFD\0\x02tr\x03abc";

    fn parsed<'a>(attributes: Option<&'a [u8]>, text: &'a [u8]) -> Result<Query<'a>, Malformed> {
        Ok(Query { attributes, text })
    }

    #[test]
    fn the_text_is_behind_the_attributes() {
        assert_eq!(Query::parse(b"\0\x01SELECT 1"), parsed(None, b"SELECT 1"));
        let body = [BLOCK, b"SELECT 1"].concat();
        assert_eq!(Query::parse(&body), parsed(Some(BLOCK), b"SELECT 1"));
        // A NULL, a date, and one of each fixed length.
        let block = b"\x06\x01\x01\x01\xFD\0\x01a\x0A\0\x01b\x01\0\0\x02\0\0\x03\0\0\x08\0\0\
            \x04\xE9\x07\x01\x02\x05\x06\x07\x08\x09\x0A\x0B12345678";
        let body = [block, &b"DO 1"[..]].concat();
        assert_eq!(Query::parse(&body), parsed(Some(block), b"DO 1"));
        for len in 0..BLOCK.len() {
            assert!(Query::parse(&BLOCK[..len]).is_err(), "{len}");
        }
        for wrong in [&b"\0\0DO 1"[..], b"\x01\x01\0\0DO 1", b"SELECT 1", b""] {
            assert!(Query::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn values_have_the_length_that_servers_give_them() {
        // The value's bytes are a 1, and then a text; what is left behind them.
        let left = |kind: u8, flags: u8| {
            let head = [1, 1, 0, 1, kind, flags, 0];
            let body = [&head[..], b"\x01abcdefgh"].concat();
            Query::parse(&body).map(|query| query.text.to_vec())
        };
        for (kind, text) in [(1, "abcdefgh"), (2, "bcdefgh"), (3, "defgh"), (4, "defgh"), (5, "h")]
        {
            for flags in [0, 0x80] {
                assert_eq!(left(kind, flags), Ok(text.as_bytes().to_vec()), "{kind}");
            }
            // A length of 1.
            for flags in [0x40, 0x81, 1] {
                assert_eq!(left(kind, flags), Ok(b"bcdefgh".to_vec()), "{kind}, {flags}");
            }
        }
        // NULL, TIMESTAMP, INT24, DATE, YEAR, BOOL, NEWDECIMAL, VAR_STRING, none at all.
        for kind in [0x06, 0x07, 0x09, 0x0A, 0x0D, 0xF4, 0xF6, 0xFD, 0x77] {
            for flags in [0, 0x80, 0x40] {
                assert_eq!(left(kind, flags), Ok(b"bcdefgh".to_vec()), "{kind}, {flags}");
            }
        }
    }

    #[test]
    fn a_text_is_found_by_its_name() {
        assert_eq!(of_query(BLOCK, b"tr"), Some(Given::Text(b"abc")));
        assert_eq!(of_query(BLOCK, b"t"), None);
        // A NULL, a number, a text; and a text that is NULL.
        let block = b"\x04\x01\x09\x01\xFD\0\x01a\x08\0\x01b\xFD\0\x01c\xFD\0\x01d12345678\x03xyz";
        assert_eq!(of_query(block, b"c"), Some(Given::Text(b"xyz")));
        let number = u64::from_le_bytes(*b"12345678");
        assert_eq!(of_query(block, b"b"), Some(Given::Number(number)));
        for name in [b"a", b"d"] {
            assert_eq!(of_query(block, name), None, "{name:?}");
        }
        for len in 0..BLOCK.len() {
            assert_eq!(of_query(&BLOCK[..len], b"tr"), None, "{len}");
        }
        // One parameter, a number, and an attribute behind it.
        let raw = b"\x08\x01\0\0\0\x02\0\x01\x08\0\0\xFD\0\x02tr12345678\x03xyz";
        assert_eq!(of_execution(raw, 1, b"tr", |_| false), Some(Given::Text(b"xyz")));
        assert_eq!(of_execution(raw, 1, b"x", |_| false), None);
        // Long data has no value there.
        let raw = b"\x08\x01\0\0\0\x02\0\x01\xFC\0\0\xFD\0\x02tr\x03xyz";
        assert_eq!(of_execution(raw, 1, b"tr", |at| at == 0), Some(Given::Text(b"xyz")));
        assert_eq!(of_execution(b"\0\x01\0\0\0", 0, b"tr", |_| false), None);
        for len in 0..raw.len() {
            assert_eq!(of_execution(&raw[..len], 1, b"tr", |at| at == 0), None, "{len}");
        }
    }

    #[test]
    fn whole_numbers_are_read_in_every_length_and_from_texts() {
        let of = |kind: &[u8; 2], value: &[u8]| {
            let block = [b"\x01\x01\0\x01", &kind[..], b"\x01n", value].concat();
            of_query(&block, b"n").and_then(Given::number)
        };
        for (kind, len) in [(1, 1), (2, 2), (3, 4), (9, 4), (8, 8)] {
            let most = vec![0xFF; len];
            assert_eq!(of(&[kind, 0], &most), None, "-1");
            assert_eq!(of(&[kind, 0x80], &most), Some(u64::MAX >> (64 - 8 * len)));
            assert_eq!(of(&[kind, 0], &[&[5][..], &vec![0; len - 1]].concat()), Some(5));
            assert_eq!(of(&[kind, 0], &most[1..]), None, "cut short");
        }
        assert_eq!(of(b"\xFD\0", b"\x0420.5"), None);
        assert_eq!(of(b"\xFD\0", b"\x03250"), Some(250));
        assert_eq!(of(b"\x05\0", &[0; 8]), None, "a DOUBLE");
    }

    #[test]
    fn a_text_is_sent_with_its_attributes_or_none() {
        let mut out = Vec::new();
        put_query(&mut out, None, b"DO 1");
        assert_eq!(out, b"\x07\0\0\0\x03\0\x01DO 1");
        out.clear();
        put_query(&mut out, Some(BLOCK), b"DO 1");
        let (_, payload, _) = split_packet(&out).expect("one packet");
        assert_eq!(Query::parse(&payload[1..]), parsed(Some(BLOCK), b"DO 1"));
    }

    fn plain(raw: &[u8], params: u16) -> Result<(Vec<u8>, bool), ExecutionError> {
        let plain = PlainExecution::parse(raw, params, |_| false)?;
        Ok((plain.raw, plain.has_attributes))
    }

    #[test]
    fn an_execution_loses_its_attributes_and_keeps_its_parameters() {
        let long = b"12345678";
        let check = |raw: &[&[u8]], params, expected: &[&[u8]], has_attributes| {
            let found = plain(&raw.concat(), params);
            assert_eq!(found, Ok((expected.concat(), has_attributes)), "{raw:?}");
        };
        let head = b"\0\x01\0\0\0";
        let counted = b"\x08\x01\0\0\0";
        check(&[head], 0, &[head], false);
        check(&[counted, b"\0"], 0, &[head], false);
        check(&[counted, b"\x01\0\x01\xFD\0\x02tr\x03xyz"], 0, &[head], true);
        // Only the capability, not the flag, says that the number is there.
        check(&[head, b"\x01\0\x01\x08\0\0", long], 1, &[head, b"\0\x01\x08\0", long], false);
        check(&[counted, b"\x01\0\0", long], 1, &[head, b"\0\0", long], false);
        let named = [counted, &b"\x01\0\x01\x08\0\x01n"[..], long];
        check(&named, 1, &[head, b"\0\x01\x08\0", long], true);
        let two = [counted, &b"\x02\x02\x01\x08\0\0\xFD\0\x02tr"[..], long];
        check(&two, 1, &[head, b"\0\x01\x08\0", long], true);
        let two = [counted, &b"\x02\0\x01\x08\0\0\xFD\0\x02tr"[..], long, b"\x01x"];
        check(&two, 1, &[head, b"\0\x01\x08\0", long], true);
    }

    #[test]
    fn long_data_has_no_value_among_the_attributes() {
        let raw = b"\x08\x01\0\0\0\x02\0\x01\xFC\0\0\xFD\0\x02tr\x03xyz";
        let plain = PlainExecution::parse(raw, 1, |at| at == 0).expect("whole");
        assert_eq!(plain.raw, b"\0\x01\0\0\0\0\x01\xFC\0");
    }

    #[test]
    fn what_is_cut_short_or_too_few_is_refused() {
        assert_eq!(plain(b"\0\x01\0\0\0\0\x01", 1), Err(ExecutionError::TooFewValues));
        assert!(plain(b"\x08\x01\0\0\0", 0).is_err());
        assert!(plain(b"\x08\x01\0\0\0\x02\0\0xxxxxxxx", 1).is_err());
        let whole = b"\x08\x01\0\0\0\x02\0\x01\xFD\0\0\xFD\0\x02tr\x01x\x01y";
        for len in 0..whole.len() - 2 {
            assert!(plain(&whole[..len], 1).is_err(), "{len}");
        }
    }
}
