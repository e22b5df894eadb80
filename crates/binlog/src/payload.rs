//! What is compressed: MySQL's transactions as a whole, and MariaDB's statements and rows.

use trunkline_protocol::{
    Reader,
    codec::compressed::{Compressor, Method},
};

use crate::{BinlogError, PLAIN_LEN_MAX};

/// Unpacks what MariaDB has compressed; `None` when it is too long.
///
/// | | bytes |
/// |---|---|
/// | `0x80`, bits 4 to 6 the method (0: zlib), bits 0 to 2 the length of the length | 1 |
/// | the length of what is compressed, high bytes first | 1 to 4 |
/// | zlib's data | … |
///
/// Source: MariaDB `sql/log_event.cc`, `binlog_buf_uncompress`.
pub(crate) fn unpack_field(
    packed: &[u8],
    libraries: &mut dyn Compressor,
) -> Result<Option<Vec<u8>>, BinlogError> {
    let mut reader = Reader::new(packed);
    let head = reader.u8("compressed field")?;
    let len_len = usize::from(head & 0x07);
    if head & 0xF0 != 0x80 || !(1..=4).contains(&len_len) {
        return Err(BinlogError::Malformed("compressed field"));
    }
    let len = reader.bytes(len_len, "length of a compressed field")?;
    let len = len.iter().fold(0_usize, |len, byte| (len << 8) | usize::from(*byte));
    unpack(Method::Zlib(0), reader.rest(), len, libraries)
}

fn unpack(
    method: Method,
    packed: &[u8],
    len: usize,
    libraries: &mut dyn Compressor,
) -> Result<Option<Vec<u8>>, BinlogError> {
    if len > PLAIN_LEN_MAX {
        return Ok(None);
    }
    let mut plain = Vec::new();
    let unpacked = libraries.decompress(method, packed, len, &mut plain);
    unpacked.map_err(|_| BinlogError::Corrupt)?;
    match plain.len() == len {
        true => Ok(Some(plain)),
        false => Err(BinlogError::Corrupt),
    }
}

/// Unpacks the events of a transaction; `None` when they are too long. Fields, each with type,
/// length and value as length-encoded integers, stand before the data; their end is a type 0.
///
/// Source: MySQL `libs/mysql/binlog/event/codecs/binary.cpp`.
pub(crate) fn unpack_transaction(
    body: &[u8],
    libraries: &mut dyn Compressor,
) -> Result<Option<Vec<u8>>, BinlogError> {
    const END: u64 = 0;
    const SIZE: u64 = 1;
    const METHOD: u64 = 2;
    const PLAIN_SIZE: u64 = 3;
    const ZSTD: u64 = 0;
    const NONE: u64 = 255;
    let mut reader = Reader::new(body);
    let (mut size, mut method, mut plain_size) = (None, None, None);
    loop {
        let field = reader.lenenc_int("field of a transaction")?;
        if field == END {
            break;
        }
        let value = reader.lenenc_bytes("field of a transaction")?;
        let number = || Reader::new(value).lenenc_int("field of a transaction");
        match field {
            SIZE => size = Some(number()?),
            METHOD => method = Some(number()?),
            PLAIN_SIZE => plain_size = Some(number()?),
            _ => {}
        }
    }
    let packed = reader.rest();
    let (Some(size), Some(method)) = (size, method) else {
        return Err(BinlogError::Malformed("fields of a transaction"));
    };
    if usize::try_from(size) != Ok(packed.len()) {
        return Err(BinlogError::Malformed("size of a transaction"));
    }
    match (method, plain_size) {
        (ZSTD, Some(plain_size)) => {
            let len = usize::try_from(plain_size).unwrap_or(usize::MAX);
            unpack(Method::Zstd(0), packed, len, libraries)
        }
        (NONE, _) => Ok(Some(packed.to_vec())),
        (_, _) => Err(BinlogError::Malformed("method of compression")),
    }
}
