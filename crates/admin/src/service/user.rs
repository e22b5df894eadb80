//! What rows say in columns that hold JSON, and passwords of `mysql_users` in all their forms.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};
use trunkline_config::{Fields, Given, Section};
use trunkline_store::Value;

/// The keys of a file for a password, clear and as a hash.
pub(super) struct PasswordKeys {
    clear: &'static str,
    hash: &'static str,
}

pub(super) const PASSWORD: PasswordKeys = PasswordKeys { clear: "password", hash: "password_hash" };
/// That of the row for servers, where it is another one; a hash opens none.
pub(super) const BACKEND: PasswordKeys =
    PasswordKeys { clear: "backend_password", hash: "backend_password" };
const RETAINED: PasswordKeys =
    PasswordKeys { clear: "retained_password", hash: "retained_password_hash" };

/// A password as ProxySQL's column has it: clear, or one of two hashes.
pub(super) fn password(keys: &PasswordKeys, value: &Value) -> (Cow<'static, str>, Given) {
    let text = match value {
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) if is_hash(value) => {
            bytes.iter().fold("0x".to_owned(), |hex, byte| format!("{hex}{byte:02X}"))
        }
        Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(_) | Value::Null => String::new(),
    };
    let key = if is_hash(value) { keys.hash } else { keys.clear };
    (Cow::Borrowed(key), Given::Text(text))
}

/// Adds the attributes of a user that have an effect; the names of the others.
pub(super) fn attributes(
    section: &Section,
    mut attributes: Map<String, Json>,
    fields: &mut Fields,
) -> Vec<String> {
    if let Some(id) = attributes.remove("spiffe_id") {
        let require = Given::Table(vec![("spiffe".to_owned(), given(id))]);
        fields.push((Cow::Borrowed("require"), require));
    }
    match attributes.remove("retained_password") {
        Some(Json::String(text)) => fields.push(password(&RETAINED, &Value::Text(text))),
        other => fields.extend(other.map(|it| (Cow::Borrowed(RETAINED.clear), given(it)))),
    }
    members(section, "attributes", attributes, fields)
}

/// Adds what a section has as members of a column that holds JSON; the names of the others.
pub(super) fn members(
    section: &Section,
    column: &str,
    members: Map<String, Json>,
    fields: &mut Fields,
) -> Vec<String> {
    let mut unknown = Vec::new();
    for (name, value) in members {
        match section.column(&name).filter(|info| info.member_of == Some(column)) {
            Some(info) => fields.push((Cow::Borrowed(info.name), given(value))),
            None => unknown.push(name),
        }
    }
    unknown
}

/// A value of JSON as one of a file.
fn given(value: Json) -> Given {
    match value {
        Json::Null => Given::Other("null"),
        Json::Bool(flag) => Given::Boolean(flag),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Given::Integer(number.into()),
            (None, Some(number)) => Given::Integer(number.into()),
            (None, None) => Given::Fraction(number.to_string()),
        },
        Json::String(text) => Given::Text(text),
        Json::Array(items) => Given::List(items.into_iter().map(given).collect()),
        Json::Object(members) => {
            Given::Table(members.into_iter().map(|(name, value)| (name, given(value))).collect())
        }
    }
}

/// Whether attributes say how clients are known without a password: by a server's word, or by their
/// process.
pub(super) fn is_known_otherwise(attributes: &Map<String, Json>) -> bool {
    attributes.get("server_checks_password") == Some(&Json::Bool(true))
        || attributes.contains_key("unix_user")
}

/// Whether a password is empty, or none.
pub(super) fn is_empty(password: &Value) -> bool {
    match password {
        Value::Null => true,
        Value::Text(text) => text.is_empty(),
        Value::Blob(bytes) => bytes.is_empty(),
        Value::Integer(_) | Value::Real(_) => false,
    }
}

/// Whether a password is a hash.
pub(super) fn is_hash(password: &Value) -> bool {
    let bytes = match password {
        Value::Text(text) => text.as_bytes(),
        Value::Blob(bytes) => bytes,
        Value::Integer(_) | Value::Real(_) | Value::Null => return false,
    };
    let is_native = bytes.len() == 41
        && bytes.first() == Some(&b'*')
        && bytes.iter().skip(1).all(u8::is_ascii_hexdigit);
    is_native || (bytes.len() == 70 && bytes.starts_with(b"$A$"))
}
