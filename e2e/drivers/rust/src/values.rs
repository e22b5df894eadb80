//! Parameters out of the scenario, and values as text.

use serde_json::Value;

/// A parameter of a statement.
#[derive(Clone, Debug)]
pub enum Param {
    Null,
    Int(i64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// `2024-02-29 12:34:56.123456`
    DateTime(String),
}

const LONG: usize = 200;

/// The text with the places of schema and task filled; task 0 is none.
pub fn filled(text: &str, schema: &str, task: u64) -> String {
    let text = text.replace("{schema}", schema);
    if task == 0 {
        return text;
    }
    text.replace("{nn}", &format!("{task:02}")).replace("{n}", &task.to_string())
}

/// The parameters of a step, if it has any.
pub fn parameters(given: &Value, task: u64) -> Option<Vec<Param>> {
    Some(given.as_array()?.iter().map(|value| parameter(value, task)).collect())
}

fn parameter(value: &Value, task: u64) -> Param {
    match value {
        Value::Bool(value) => Param::Int(i64::from(*value)),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Param::Int(number),
            None => Param::Double(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Param::Text(filled(text, "", task)),
        Value::Object(map) => {
            map.iter().next().map_or(Param::Null, |(kind, content)| special(kind, content, task))
        }
        Value::Null | Value::Array(_) => Param::Null,
    }
}

fn special(kind: &str, content: &Value, task: u64) -> Param {
    let text = content.as_str().unwrap_or_default();
    let repeated = || {
        let unit = content[0].as_str().unwrap_or_default();
        unit.repeat(usize::try_from(content[1].as_u64().unwrap_or_default()).unwrap_or_default())
    };
    match kind {
        "long" => text.parse().map_or(Param::Null, Param::Int),
        "bytes" => Param::Bytes(from_hex(text)),
        "repeat" => Param::Text(repeated()),
        "repeat_bytes" => Param::Bytes(from_hex(&repeated())),
        "datetime" => Param::DateTime(text.to_owned()),
        "task" => Param::Int(i64::try_from(task).unwrap_or_default()),
        // Decimals, dates and times go as text.
        _ => Param::Text(text.to_owned()),
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().filter_map(|c| (c as char).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte * 16 + digit)).collect()
}

/// Bytes as text; long ones by length and checksum.
pub fn show(kind: &str, bytes: &[u8]) -> String {
    if bytes.len() > LONG {
        return format!("{kind}:{}", summary(bytes));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => format!("{kind}:{text}"),
        Err(_) => format!("{kind}:{bytes:02x?}"),
    }
}

/// Length and checksum.
pub fn summary(bytes: &[u8]) -> String {
    format!("{} bytes, crc {:08x}", bytes.len(), crc32fast::hash(bytes))
}
