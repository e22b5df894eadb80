//! Values of a prepared statement's parameters.
//!
//! Source: MySQL internals "Binary Protocol Value".

use trunkline_protocol::{
    codec::{Malformed, Reader},
    command::execute::{Execution, TYPE_LEN},
};
use trunkline_store::Value;

/// Reads the parameters of an execution. `types` are those of the execution before, and then those
/// of this one; `long` is what was sent before as long data, by parameter.
///
/// # Errors
/// When the bytes are cut, or a type is not known.
pub fn read(
    execution: &Execution<'_>,
    params: u16,
    types: &mut Vec<u8>,
    long: &[(u16, Vec<u8>)],
) -> Result<Vec<Value>, Malformed> {
    if let Some(given) = execution.types {
        *types = given.to_vec();
    }
    let mut reader = Reader::new(execution.values());
    let mut values = Vec::with_capacity(usize::from(params));
    for at in 0..params {
        let pair = types.chunks(TYPE_LEN).nth(usize::from(at));
        let Some([kind, flags]) = pair else { return Err(Malformed("parameter types")) };
        let sent = long.iter().find(|(parameter, _)| *parameter == at);
        values.push(match sent {
            Some((_, bytes)) => text_or_bytes(bytes),
            None if execution.is_null(usize::from(at)) => Value::Null,
            None => value(&mut reader, *kind, flags & 0x80 != 0)?,
        });
    }
    Ok(values)
}

fn text_or_bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Blob(bytes.to_vec()),
    }
}

fn value(reader: &mut Reader<'_>, kind: u8, is_unsigned: bool) -> Result<Value, Malformed> {
    let what = "parameter value";
    let integer = |bytes: &[u8]| {
        let negative = !is_unsigned && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut whole = [if negative { 0xFF } else { 0 }; 8];
        for (to, from) in whole.iter_mut().zip(bytes) {
            *to = *from;
        }
        match (is_unsigned, u64::from_le_bytes(whole)) {
            // SQLite has no unsigned numbers.
            (true, large) if i64::try_from(large).is_err() => Value::Text(large.to_string()),
            _ => Value::Integer(i64::from_le_bytes(whole)),
        }
    };
    Ok(match kind {
        0x01 => integer(reader.bytes(1, what)?),
        0x02 | 0x0D => integer(reader.bytes(2, what)?),
        0x03 | 0x09 => integer(reader.bytes(4, what)?),
        0x08 => integer(reader.bytes(8, what)?),
        0x04 => {
            let bytes = reader.bytes(4, what)?.first_chunk::<4>().ok_or(Malformed(what))?;
            Value::Real(f64::from(f32::from_le_bytes(*bytes)))
        }
        0x05 => {
            let bytes = reader.bytes(8, what)?.first_chunk::<8>().ok_or(Malformed(what))?;
            Value::Real(f64::from_le_bytes(*bytes))
        }
        0x06 => Value::Null,
        0x07 | 0x0A | 0x0C => {
            let len = usize::from(reader.u8(what)?);
            moment(reader.bytes(len, what)?)
        }
        0x00 | 0x0F..=0x10 | 0xF5..=0xFF => text_or_bytes(reader.lenenc_bytes(what)?),
        _ => return Err(Malformed("parameter type")),
    })
}

/// A date, with its time when it has one, as SQL writes it.
fn moment(bytes: &[u8]) -> Value {
    let text = match bytes {
        [y, z, month, day] => format!("{:04}-{month:02}-{day:02}", u16::from_le_bytes([*y, *z])),
        [y, z, month, day, hour, minute, second, ..] => format!(
            "{:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}",
            u16::from_le_bytes([*y, *z])
        ),
        _ => "0000-00-00".to_owned(),
    };
    Value::Text(text)
}
