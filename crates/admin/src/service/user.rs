//! What a row of `mysql_users` says beyond its plain columns, as lines of a file.

use serde_json::{Map, Value as Json};
use trunkline_config::variable::quoted;
use trunkline_store::Value;

/// A password as ProxySQL's column has it: clear, or one of two hashes. `key` names it.
pub(super) fn password(key: &str, value: &Value) -> String {
    match value {
        Value::Text(text) if is_hash(text.as_bytes()) => {
            format!("{key}_hash = {}\n", quoted(text))
        }
        Value::Text(text) => format!("{key} = {}\n", quoted(text)),
        Value::Blob(bytes) if is_hash(bytes) => {
            let hex = bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02X}"));
            format!("{key}_hash = \"0x{hex}\"\n")
        }
        Value::Blob(bytes) => format!("{key} = {}\n", quoted(&String::from_utf8_lossy(bytes))),
        Value::Integer(number) => format!("{key} = \"{number}\"\n"),
        Value::Real(_) | Value::Null => format!("{key} = \"\"\n"),
    }
}

/// The password of the row for servers, where it is another one; `Err` when it is a hash, which
/// opens no server.
pub(super) fn backend_password(value: &Value) -> Result<String, &'static str> {
    let bytes = match value {
        Value::Text(text) => text.as_bytes(),
        Value::Blob(bytes) => bytes,
        Value::Integer(_) | Value::Real(_) | Value::Null => &[],
    };
    match is_hash(bytes) {
        true => Err("has a hash as its password for servers, which opens none"),
        false => Ok(password("backend_password", value)),
    }
}

/// The keys of a user's attributes that have an effect; `None` when there is another one.
pub(super) fn attributes(text: &str) -> Option<String> {
    let attributes: Map<String, Json> = serde_json::from_str(text).ok()?;
    let lines: Option<Vec<String>> =
        attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    lines.map(|lines| lines.concat()).filter(|lines| !lines.is_empty())
}

/// Whether attributes say how clients are known without a password: by a server's word, or by their
/// process.
pub(super) fn is_known_otherwise(text: &str) -> bool {
    let attributes: Map<String, Json> = serde_json::from_str(text).unwrap_or_default();
    attributes.get("server_checks_password") == Some(&Json::Bool(true))
        || attributes.contains_key("unix_user")
}

fn attribute(name: &str, value: &Json) -> Option<String> {
    match (name, value) {
        ("spiffe_id", Json::String(id)) => {
            Some(format!("require = {{ spiffe = {} }}\n", quoted(id)))
        }
        ("allow_from", Json::String(list)) => Some(format!("allow_from = {}\n", quoted(list))),
        ("allow_from", Json::Array(list)) => {
            let words: Option<Vec<String>> =
                list.iter().map(|word| word.as_str().map(quoted)).collect();
            Some(format!("allow_from = [{}]\n", words?.join(", ")))
        }
        ("backend_user", Json::String(user)) => Some(format!("backend_user = {}\n", quoted(user))),
        ("server_checks_password", Json::Bool(is_so)) => {
            Some(format!("server_checks_password = {is_so}\n"))
        }
        ("unix_user", Json::String(user)) => Some(format!("unix_user = {}\n", quoted(user))),
        ("unix_user", Json::Number(user)) => Some(format!("unix_user = {user}\n")),
        ("retained_password", Json::String(text)) => {
            Some(password("retained_password", &Value::Text(text.clone())))
        }
        ("backend_retained_password", Json::String(text)) => {
            Some(format!("backend_retained_password = {}\n", quoted(text)))
        }
        _ => None,
    }
}

fn is_hash(bytes: &[u8]) -> bool {
    let is_native = bytes.len() == 41
        && bytes.first() == Some(&b'*')
        && bytes.iter().skip(1).all(u8::is_ascii_hexdigit);
    is_native || (bytes.len() == 70 && bytes.starts_with(b"$A$"))
}
