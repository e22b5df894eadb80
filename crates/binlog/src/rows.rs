//! Tables as events describe them, and how many rows an event has.
//!
//! What is in rows is stepped over: only lengths are read. Source: MySQL
//! `libs/mysql/binlog/event/rows_event.h`; MariaDB `sql/log_event.h`.

use std::sync::Arc;

use trunkline_protocol::Reader;

use crate::{
    BinlogError,
    event::{RowChange, TableName},
};

/// The most columns of a table, on both families.
const COLUMNS_MAX: u64 = 4_096;

/// A table as an event describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: Arc<TableName>,
    /// Types of its columns with what is said of each; `None` when one is not known.
    columns: Option<Vec<Column>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Column {
    kind: u8,
    meta: [u8; 2],
}

/// Types of columns.
mod kind {
    pub(super) const DECIMAL: u8 = 0;
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const NULL: u8 = 6;
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const INT24: u8 = 9;
    pub(super) const DATE: u8 = 10;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const YEAR: u8 = 13;
    pub(super) const NEWDATE: u8 = 14;
    pub(super) const VARCHAR: u8 = 15;
    pub(super) const BIT: u8 = 16;
    pub(super) const TIMESTAMP2: u8 = 17;
    pub(super) const DATETIME2: u8 = 18;
    pub(super) const TIME2: u8 = 19;
    /// MariaDB's.
    pub(super) const BLOB_COMPRESSED: u8 = 140;
    /// MariaDB's.
    pub(super) const VARCHAR_COMPRESSED: u8 = 141;
    pub(super) const VECTOR: u8 = 242;
    pub(super) const JSON: u8 = 245;
    pub(super) const NEWDECIMAL: u8 = 246;
    pub(super) const ENUM: u8 = 247;
    pub(super) const SET: u8 = 248;
    pub(super) const TINY_BLOB: u8 = 249;
    pub(super) const BLOB: u8 = 252;
    pub(super) const VAR_STRING: u8 = 253;
    pub(super) const STRING: u8 = 254;
    pub(super) const GEOMETRY: u8 = 255;
}

/// Bytes that a `TABLE_MAP` has for a type; `None` when the type is not known.
fn meta_len(column: u8) -> Option<usize> {
    Some(match column {
        kind::DECIMAL..=kind::LONG | kind::NULL..=kind::NEWDATE => 0,
        kind::FLOAT
        | kind::DOUBLE
        | kind::TIMESTAMP2..=kind::TIME2
        | kind::BLOB_COMPRESSED
        | kind::VECTOR
        | kind::JSON
        | kind::TINY_BLOB..=kind::BLOB
        | kind::GEOMETRY => 1,
        kind::VARCHAR
        | kind::BIT
        | kind::VARCHAR_COMPRESSED
        | kind::NEWDECIMAL
        | kind::ENUM
        | kind::SET
        | kind::VAR_STRING
        | kind::STRING => 2,
        _ => return None,
    })
}

impl Table {
    /// Reads the body of a `TABLE_MAP` event; gives the table with its number.
    pub(crate) fn read(body: &[u8]) -> Result<(u64, Self), BinlogError> {
        let mut reader = Reader::new(body);
        let id = table_id(&mut reader)?;
        reader.u16("flags of a table")?;
        let schema = name(&mut reader)?;
        let table = name(&mut reader)?;
        let count = reader.lenenc_int("number of columns")?;
        if count > COLUMNS_MAX {
            return Err(BinlogError::Malformed("number of columns"));
        }
        let count = usize::try_from(count).unwrap_or_default();
        let kinds = reader.bytes(count, "types of columns")?;
        let mut meta = Reader::new(reader.lenenc_bytes("metadata of columns")?);
        let columns = kinds.iter().map(|kind| Column::read(*kind, &mut meta)).collect();
        Ok((id, Self { name: Arc::new(TableName { schema, table }), columns }))
    }

    /// How many rows there are in the rest of an event; `None` when that can't be told.
    fn count(&self, images: &[&[u8]], is_partial: bool, mut body: &[u8]) -> Option<u64> {
        let columns = self.columns.as_ref()?;
        let mut count = 0;
        while !body.is_empty() {
            for (at, image) in images.iter().enumerate() {
                let is_behind = at + 1 == images.len();
                body = skip_image(columns, image, is_partial && is_behind, body)?;
            }
            count += 1;
        }
        Some(count)
    }
}

fn table_id(reader: &mut Reader<'_>) -> Result<u64, BinlogError> {
    let low = reader.u32("number of a table")?;
    let high = reader.u16("number of a table")?;
    Ok(u64::from(low) | (u64::from(high) << 32))
}

fn name(reader: &mut Reader<'_>) -> Result<String, BinlogError> {
    let len = reader.u8("length of a name")?;
    let name = reader.bytes(usize::from(len), "name")?;
    reader.u8("end of a name")?;
    Ok(String::from_utf8_lossy(name).into_owned())
}

impl Column {
    fn read(kind: u8, meta: &mut Reader<'_>) -> Option<Self> {
        let bytes = meta.bytes(meta_len(kind)?, "metadata of a column").ok()?;
        let mut column = Self { kind, meta: [0; 2] };
        column.meta.iter_mut().zip(bytes).for_each(|(own, byte)| *own = *byte);
        Some(column)
    }

    /// The bytes of a value that begins here.
    fn value_len(self, body: &[u8]) -> Option<usize> {
        let [low, high] = self.meta;
        let fraction = usize::from(low).div_ceil(2);
        Some(match self.kind {
            kind::TINY | kind::YEAR => 1,
            kind::SHORT => 2,
            kind::INT24 | kind::DATE | kind::TIME | kind::NEWDATE => 3,
            kind::LONG | kind::FLOAT | kind::TIMESTAMP => 4,
            kind::DOUBLE | kind::LONGLONG | kind::DATETIME => 8,
            kind::NULL => 0,
            kind::TIMESTAMP2 => 4 + fraction,
            kind::DATETIME2 => 5 + fraction,
            kind::TIME2 => 3 + fraction,
            kind::VARCHAR | kind::VAR_STRING | kind::VARCHAR_COMPRESSED => {
                let len_max = u16::from_le_bytes(self.meta);
                prefixed(body, if len_max > 255 { 2 } else { 1 })?
            }
            kind::BIT => usize::from(high) + usize::from(low > 0),
            kind::NEWDECIMAL => decimal_len(low, high)?,
            kind::ENUM | kind::SET => usize::from(high),
            kind::STRING => string_len(low, high, body)?,
            kind::TINY_BLOB..=kind::BLOB
            | kind::BLOB_COMPRESSED
            | kind::VECTOR
            | kind::JSON
            | kind::GEOMETRY => prefixed(body, usize::from(low))?,
            _ => return None,
        })
    }
}

/// The bytes of a value behind its length of so many bytes, with that.
fn prefixed(body: &[u8], prefix: usize) -> Option<usize> {
    if !(1..=4).contains(&prefix) {
        return None;
    }
    let bytes = body.get(..prefix)?;
    let len = bytes.iter().rev().fold(0_usize, |len, byte| (len << 8) | usize::from(*byte));
    prefix.checked_add(len)
}

/// Digits in groups of nine take four bytes, and the rest as few as hold them.
fn decimal_len(precision: u8, scale: u8) -> Option<usize> {
    const REST: [usize; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
    let part = |digits: u8| {
        let rest = REST.get(usize::from(digits % 9)).copied().unwrap_or_default();
        usize::from(digits / 9) * 4 + rest
    };
    Some(part(precision.checked_sub(scale)?) + part(scale))
}

/// `CHAR`, `ENUM` and `SET`: the first byte has the type, and of a long `CHAR` two bits of the
/// length, turned round.
fn string_len(low: u8, high: u8, body: &[u8]) -> Option<usize> {
    const LENGTH_BITS: u8 = 0x30;
    match low | LENGTH_BITS {
        kind::ENUM | kind::SET => Some(usize::from(high)),
        _ => {
            let more = usize::from((low & LENGTH_BITS) ^ LENGTH_BITS) << 4;
            prefixed(body, if more + usize::from(high) > 255 { 2 } else { 1 })
        }
    }
}

/// Whether the bit with this number is set.
fn has_bit(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8).is_some_and(|byte| byte & (1 << (at % 8)) != 0)
}

/// Steps over one image of a row: bits for what is NULL, and the other values.
fn skip_image<'a>(
    columns: &[Column],
    present: &[u8],
    is_partial: bool,
    body: &'a [u8],
) -> Option<&'a [u8]> {
    let mut reader = Reader::new(body);
    if is_partial {
        let options = reader.lenenc_int("options of a row").ok()?;
        let documents = columns.iter().filter(|column| column.kind == kind::JSON).count();
        if options & 1 == 1 {
            reader.bytes(documents.div_ceil(8), "partial columns").ok()?;
        }
    }
    let is_there = |at: &usize| has_bit(present, *at);
    let count = (0..columns.len()).filter(is_there).count();
    let nulls = reader.bytes(count.div_ceil(8), "NULLs").ok()?;
    let there = columns.iter().enumerate().filter(|(at, _)| has_bit(present, *at));
    for (place, (_, column)) in there.enumerate() {
        if !has_bit(nulls, place) {
            let len = column.value_len(reader.rest())?;
            reader.bytes(len, "value").ok()?;
        }
    }
    // A row has a bit at least; without columns nothing would ever end.
    (reader.rest().len() < body.len()).then(|| reader.rest())
}

/// The head of an event of rows.
pub(crate) struct Head<'a> {
    /// The table's number.
    pub(crate) table: u64,
    /// Whether tables are described anew behind it.
    pub(crate) ends_statement: bool,
    images: Vec<&'a [u8]>,
    /// The rows.
    pub(crate) rest: &'a [u8],
}

/// What a type of event says of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) change: RowChange,
    /// There are more bytes in front of the columns.
    pub(crate) has_extra: bool,
    /// Documents may be there in part.
    pub(crate) is_partial: bool,
    /// What follows the head is compressed (MariaDB).
    pub(crate) is_compressed: bool,
}

impl Form {
    /// That of a type; `None` when it has no rows.
    pub(crate) fn of(code: u8) -> Option<Self> {
        let (change, has_extra, is_compressed) = match code {
            23 => (RowChange::Insert, false, false),
            24 => (RowChange::Update, false, false),
            25 => (RowChange::Delete, false, false),
            30 => (RowChange::Insert, true, false),
            31 | 39 => (RowChange::Update, true, false),
            32 => (RowChange::Delete, true, false),
            166 => (RowChange::Insert, false, true),
            167 => (RowChange::Update, false, true),
            168 => (RowChange::Delete, false, true),
            169 => (RowChange::Insert, true, true),
            170 => (RowChange::Update, true, true),
            171 => (RowChange::Delete, true, true),
            _ => return None,
        };
        Some(Self { change, has_extra, is_partial: code == 39, is_compressed })
    }
}

impl<'a> Head<'a> {
    /// Reads the beginning of the body of an event of rows.
    pub(crate) fn read(form: Form, body: &'a [u8]) -> Result<Self, BinlogError> {
        const STATEMENT_ENDS: u16 = 1;
        let mut reader = Reader::new(body);
        let table = table_id(&mut reader)?;
        let flags = reader.u16("flags of rows")?;
        if form.has_extra {
            let len = reader.u16("length of extra data")?;
            let len = len.checked_sub(2).ok_or(BinlogError::Malformed("length of extra data"))?;
            reader.bytes(usize::from(len), "extra data")?;
        }
        let count = reader.lenenc_int("number of columns")?;
        if count > COLUMNS_MAX {
            return Err(BinlogError::Malformed("number of columns"));
        }
        let len = usize::try_from(count.div_ceil(8)).unwrap_or_default();
        let mut images = vec![reader.bytes(len, "columns")?];
        if form.change == RowChange::Update {
            images.push(reader.bytes(len, "columns")?);
        }
        let ends_statement = flags & STATEMENT_ENDS != 0;
        Ok(Self { table, ends_statement, images, rest: reader.rest() })
    }

    /// How many rows there are in `rest`, of which `table` has the columns.
    pub(crate) fn count(&self, table: &Table, form: Form, rest: &[u8]) -> Option<u64> {
        table.count(&self.images, form.is_partial, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: u8, meta: [u8; 2]) -> Column {
        Column { kind, meta }
    }

    #[test]
    fn values_are_as_long_as_their_types_say() {
        let check = |kind, meta, body: &[u8], expected| {
            assert_eq!(column(kind, meta).value_len(body), expected, "{kind} {meta:?}");
        };
        check(kind::LONG, [0, 0], &[], Some(4));
        check(kind::VARCHAR, [255, 0], &[3], Some(4));
        check(kind::VARCHAR, [0, 1], &[3, 1], Some(2 + 259));
        check(kind::VARCHAR, [0, 1], &[3], None);
        check(kind::NEWDECIMAL, [10, 2], &[], Some(4 + 1));
        check(kind::NEWDECIMAL, [65, 30], &[], Some(3 * 4 + 4 + 3 * 4 + 2));
        check(kind::NEWDECIMAL, [2, 10], &[], None);
        check(kind::BIT, [1, 1], &[], Some(2));
        check(kind::BIT, [0, 1], &[], Some(1));
        check(kind::DATETIME2, [6, 0], &[], Some(8));
        check(kind::TIMESTAMP2, [3, 0], &[], Some(6));
        check(kind::TIME2, [0, 0], &[], Some(3));
        check(kind::STRING, [kind::ENUM, 1], &[], Some(1));
        check(kind::STRING, [kind::SET, 8], &[], Some(8));
        check(kind::STRING, [kind::STRING, 40], &[7], Some(8));
        // CHAR(255) of utf8mb4: 1,020 bytes.
        check(kind::STRING, [0xCE, 0xFC], &[7, 0], Some(9));
        check(kind::BLOB, [2, 0], &[1, 1], Some(2 + 257));
        check(kind::BLOB, [0, 0], &[1, 1], None);
        check(200, [0, 0], &[], None);
    }

    #[test]
    fn rows_are_counted_and_what_does_not_end_is_not() {
        let name = TableName { schema: "s".to_owned(), table: "t".to_owned() };
        let columns = vec![column(kind::LONG, [0; 2]), column(kind::VARCHAR, [20, 0])];
        let table = Table { name: Arc::new(name), columns: Some(columns) };
        // Bits of NULL, the number, the text.
        let body = [0, 1, 0, 0, 0, 2, b'h', b'i', 2, 2, 0, 0, 0, 3];
        assert_eq!(table.count(&[&[3]], false, &body), Some(3));
        assert_eq!(table.count(&[&[3]], false, &body[..13]), Some(2));
        assert_eq!(table.count(&[&[3]], false, &body[..7]), None);
        assert_eq!(table.count(&[&[3], &[1]], false, &[2, 2, 0, 0, 0, 1]), Some(1));
        assert_eq!(table.count(&[&[0]], false, &body), None);
        let unknown = Table { columns: None, ..table };
        assert_eq!(unknown.count(&[&[3]], false, &body), None);
    }
}
