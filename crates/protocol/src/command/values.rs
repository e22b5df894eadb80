//! The values of an execution's parameters as people read them, for a log.
//!
//! Source: MySQL documentation "Binary Protocol Value", "Column types".

use crate::codec::{Malformed, Reader};

use super::execute::{Execution, TYPE_LEN};

/// Flag of a type: the number has no sign.
const UNSIGNED: u8 = 0x80;

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownValue {
    /// `MySQL`'s name of its type, such as `LONGLONG`.
    pub kind: &'static str,
    /// Its value; `None` is NULL. `…` stands for what was sent as long data, and ends what was cut.
    pub text: Option<String>,
}

/// The values of at most `values_max` parameters, of `types`, each cut at `bytes_max` bytes.
/// `is_long` says which were sent as long data.
///
/// # Errors
/// [`Malformed`] when they end too early.
pub fn shown_values(
    execution: &Execution<'_>,
    types: &[u8],
    is_long: impl Fn(usize) -> bool,
    values_max: usize,
    bytes_max: usize,
) -> Result<Vec<ShownValue>, Malformed> {
    let mut reader = Reader::new(execution.values());
    let mut values = Vec::new();
    for (at, kind) in types.as_chunks::<TYPE_LEN>().0.iter().enumerate().take(values_max) {
        let text = match (execution.is_null(at), is_long(at)) {
            (true, _) => None,
            (false, true) => Some("…".to_owned()),
            (false, false) => Some(shown(&mut reader, *kind, bytes_max)?),
        };
        values.push(ShownValue { kind: name(kind[0]), text });
    }
    Ok(values)
}

fn shown(
    reader: &mut Reader<'_>,
    [kind, flags]: [u8; TYPE_LEN],
    bytes_max: usize,
) -> Result<String, Malformed> {
    const FIELD: &str = "parameter";
    let is_unsigned = flags & UNSIGNED != 0;
    let whole = |signed: i64, unsigned: u64| match is_unsigned {
        true => unsigned.to_string(),
        false => signed.to_string(),
    };
    Ok(match kind {
        0x06 => String::new(),
        0x01 | 0xF4 => {
            let number = reader.u8(FIELD)?;
            whole(number.cast_signed().into(), number.into())
        }
        0x02 | 0x0D => {
            let number = reader.u16(FIELD)?;
            whole(number.cast_signed().into(), number.into())
        }
        0x03 | 0x09 => {
            let number = reader.u32(FIELD)?;
            whole(number.cast_signed().into(), number.into())
        }
        0x08 => {
            let number = reader.u64(FIELD)?;
            whole(number.cast_signed(), number)
        }
        0x04 => f32::from_bits(reader.u32(FIELD)?).to_string(),
        0x05 => f64::from_bits(reader.u64(FIELD)?).to_string(),
        0x0B => {
            let len = usize::from(reader.u8(FIELD)?);
            time(reader.bytes(len, FIELD)?)?
        }
        0x07 | 0x0A | 0x0C => {
            let len = usize::from(reader.u8(FIELD)?);
            date(reader.bytes(len, FIELD)?)?
        }
        _ => {
            let bytes = reader.lenenc_bytes(FIELD)?;
            match bytes.split_at_checked(bytes_max) {
                Some((kept, rest)) if !rest.is_empty() => {
                    format!("{}…", String::from_utf8_lossy(kept))
                }
                _ => String::from_utf8_lossy(bytes).into_owned(),
            }
        }
    })
}

/// A date, or a date with a time. What is left out is 0.
fn date(bytes: &[u8]) -> Result<String, Malformed> {
    let mut reader = Reader::new(bytes);
    if reader.is_empty() {
        return Ok("0000-00-00".to_owned());
    }
    let (year, month, day) = (reader.u16("year")?, reader.u8("month")?, reader.u8("day")?);
    let mut text = format!("{year:04}-{month:02}-{day:02}");
    if !reader.is_empty() {
        text.push(' ');
        text.push_str(&clock(&mut reader, 0)?);
    }
    Ok(text)
}

/// A time, which may be longer than a day and negative.
fn time(bytes: &[u8]) -> Result<String, Malformed> {
    let mut reader = Reader::new(bytes);
    if reader.is_empty() {
        return Ok("00:00:00".to_owned());
    }
    let (is_negative, days) = (reader.u8("sign")? != 0, reader.u32("days")?);
    let clock = clock(&mut reader, days)?;
    Ok(if is_negative { format!("-{clock}") } else { clock })
}

fn clock(reader: &mut Reader<'_>, days: u32) -> Result<String, Malformed> {
    let (hour, minute, second) = (reader.u8("hour")?, reader.u8("minute")?, reader.u8("second")?);
    let hours = u64::from(days) * 24 + u64::from(hour);
    let text = format!("{hours:02}:{minute:02}:{second:02}");
    Ok(match reader.is_empty() {
        true => text,
        false => format!("{text}.{:06}", reader.u32("microseconds")?),
    })
}

fn name(kind: u8) -> &'static str {
    match kind {
        0x00 => "DECIMAL",
        0x01 => "TINY",
        0x02 => "SHORT",
        0x03 => "LONG",
        0x04 => "FLOAT",
        0x05 => "DOUBLE",
        0x06 => "NULL",
        0x07 => "TIMESTAMP",
        0x08 => "LONGLONG",
        0x09 => "INT24",
        0x0A => "DATE",
        0x0B => "TIME",
        0x0C => "DATETIME",
        0x0D => "YEAR",
        0x0F => "VARCHAR",
        0x10 => "BIT",
        0xF4 => "BOOL",
        0xF5 => "JSON",
        0xF6 => "NEWDECIMAL",
        0xF7 => "ENUM",
        0xF8 => "SET",
        0xF9 => "TINY_BLOB",
        0xFA => "MEDIUM_BLOB",
        0xFB => "LONG_BLOB",
        0xFC => "BLOB",
        0xFD => "VAR_STRING",
        0xFE => "STRING",
        0xFF => "GEOMETRY",
        _ => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags, iterations, no NULLs but the given ones, types, values.
    fn raw(nulls: u8, types: &[[u8; 2]], values: &[u8]) -> Vec<u8> {
        let head = [0, 1, 0, 0, 0, nulls, 1];
        [&head[..], &types.concat(), values].concat()
    }

    fn check(nulls: u8, types: &[[u8; 2]], values: &[u8], expected: &[Option<&str>]) {
        let raw = raw(nulls, types, values);
        let params = u16::try_from(types.len()).expect("few");
        let execution = Execution::parse(&raw, params).expect("an execution");
        let found = shown_values(&execution, &types.concat(), |_| false, 100, 4).expect("values");
        let texts: Vec<Option<&str>> = found.iter().map(|value| value.text.as_deref()).collect();
        assert_eq!(texts, expected);
        for end in 0..values.len() {
            let cut = &raw[..raw.len() - values.len() + end];
            let execution = Execution::parse(cut, params).expect("an execution");
            // An error, and no panic.
            assert!(shown_values(&execution, &types.concat(), |_| false, 100, 4).is_err());
        }
    }

    #[test]
    fn values_of_every_form_are_texts() {
        check(0, &[[0x01, 0], [0x01, 0x80]], &[0xFF, 0xFF], &[Some("-1"), Some("255")]);
        check(0, &[[0x02, 0]], &[0xFE, 0xFF], &[Some("-2")]);
        check(0, &[[0x03, 0x80]], &[0xFF; 4], &[Some("4294967295")]);
        check(0, &[[0x08, 0]], &[0xFF; 8], &[Some("-1")]);
        check(0, &[[0x05, 0]], &1.5_f64.to_le_bytes(), &[Some("1.5")]);
        check(0, &[[0x04, 0]], &0.25_f32.to_le_bytes(), &[Some("0.25")]);
        check(
            0b10,
            &[[0xFD, 0], [0x03, 0], [0xFD, 0]],
            b"\x02ab\x06abcdef",
            &[Some("ab"), None, Some("abcd…")],
        );
        check(0, &[[0x0C, 0]], &[7, 0xE8, 7, 2, 29, 12, 34, 56], &[Some("2024-02-29 12:34:56")]);
        check(0, &[[0x0A, 0]], &[4, 0xE8, 7, 2, 29], &[Some("2024-02-29")]);
        check(
            0,
            &[[0x0B, 0]],
            &[12, 1, 2, 0, 0, 0, 3, 4, 5, 7, 0, 0, 0],
            &[Some("-51:04:05.000007")],
        );
        check(0, &[[0x0B, 0], [0x07, 0]], &[0, 0], &[Some("00:00:00"), Some("0000-00-00")]);
    }

    #[test]
    fn long_data_has_no_value_in_the_execution() {
        let types = [[0xFC, 0], [0x01, 0]];
        let raw = raw(0, &types, &[7]);
        let execution = Execution::parse(&raw, 2).expect("an execution");
        let found = shown_values(&execution, &types.concat(), |at| at == 0, 100, 4);
        let found = found.expect("values");
        assert_eq!(found[0], ShownValue { kind: "BLOB", text: Some("…".to_owned()) });
        assert_eq!(found[1], ShownValue { kind: "TINY", text: Some("7".to_owned()) });
    }
}
