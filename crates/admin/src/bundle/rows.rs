//! Rows of tables as text, without the columns that hold secrets.

use serde_json::Value as Json;
use trunkline_store::Value;

use super::secrets::{REMOVED, Secrets, is_secret_name, without_literals, without_quoted};

const VARIABLES: &str = "global_variables";
/// Columns with what operators have written for themselves, for clients or for scripts.
const FREE_TEXT: [&str; 8] =
    ["comment", "error_msg", "OK_msg", "arg1", "arg2", "arg3", "arg4", "arg5"];
/// Columns that hold JSON.
const JSON: [&str; 3] = ["attributes", "hostgroup_settings", "servers_defaults"];
/// Columns and variables with text of statements, or of errors of servers.
const STATEMENTS: [&str; 11] = [
    "match_pattern",
    "match_digest",
    "replace_pattern",
    "init_connect",
    "digest_text",
    "last_error",
    "error",
    "connect_error",
    "ping_error",
    "evidence",
    "command",
];

/// Notes the secrets that a row holds: passwords, tokens, accounts as `name:password`.
pub fn note_secrets<'a>(
    secrets: &mut Secrets,
    table: &str,
    row: impl IntoIterator<Item = (&'a str, &'a Value)>,
) {
    let row: Vec<(&str, &Value)> = row.into_iter().collect();
    if table == VARIABLES || table.ends_with(VARIABLES) {
        if let [(_, Value::Text(name)), (_, Value::Text(value)), ..] = row.as_slice()
            && is_secret_name(name)
        {
            secrets.add(value);
            for account in value.split(';') {
                if let Some((_, password)) = account.split_once(':') {
                    secrets.add(password);
                }
            }
        }
        return;
    }
    for (column, value) in row {
        match value {
            Value::Text(text) if is_secret_name(column) => secrets.add(text),
            Value::Blob(bytes) if is_secret_name(column) => secrets.add_bytes(bytes),
            Value::Text(text) if JSON.contains(&column) => {
                if let Ok(json) = serde_json::from_str(text) {
                    note_json(secrets, &json);
                }
            }
            Value::Null | Value::Integer(_) | Value::Real(_) | Value::Text(_) | Value::Blob(_) => {}
        }
    }
}

fn note_json(secrets: &mut Secrets, json: &Json) {
    match json {
        Json::Object(members) => {
            for (key, value) in members {
                match value {
                    Json::String(text) if is_secret_name(key) => secrets.add(text),
                    value => note_json(secrets, value),
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| note_json(secrets, item)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Rows of a table as text: a block for each, a line for each column that is not NULL; a line for
/// each variable.
pub fn rows_text<'a>(
    table: &str,
    rows: impl IntoIterator<Item = Vec<(&'a str, &'a Value)>>,
) -> String {
    let mut text = String::new();
    for row in rows {
        if table.ends_with(VARIABLES) {
            if let [(_, Value::Text(name)), (_, value), ..] = row.as_slice() {
                text.push_str(&format!("{name} = {}\n", shown(name, value)));
            }
            continue;
        }
        text.push_str(&format!("[[{table}]]\n"));
        for (column, value) in row {
            if *value != Value::Null {
                text.push_str(&format!("{column} = {}\n", shown(column, value)));
            }
        }
        text.push('\n');
    }
    text
}

/// A value as a bug report may have it.
fn shown(name: &str, value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::Integer(_) | Value::Real(_) if is_secret_name(name) => return REMOVED.to_owned(),
        Value::Integer(number) => return number.to_string(),
        Value::Real(number) => return format!("{number:?}"),
        Value::Blob(bytes) => return format!("{REMOVED} ({} bytes)", bytes.len()),
        Value::Text(text) => text,
    };
    let bare = name.rsplit_once('-').map_or(name, |(_, bare)| bare);
    if text.is_empty() {
        return "\"\"".to_owned();
    }
    if is_secret_name(name) || FREE_TEXT.contains(&bare) {
        return format!("{REMOVED} ({} bytes)", text.len());
    }
    if JSON.contains(&bare) {
        return match serde_json::from_str(text) {
            Ok(json) => quoted(&json_without(json).to_string()),
            Err(_) => format!("{REMOVED} ({} bytes, no JSON)", text.len()),
        };
    }
    if bare.ends_with("error") {
        return quoted(&without_quoted(text));
    }
    if STATEMENTS.contains(&bare) {
        return quoted(&without_literals(text));
    }
    quoted(text)
}

/// JSON without the values of keys that are named like secrets, and without free text.
fn json_without(json: Json) -> Json {
    match json {
        Json::Object(members) => {
            let kept = members.into_iter().map(|(key, value)| {
                let is_secret = is_secret_name(&key) || FREE_TEXT.contains(&key.as_str());
                let value = if is_secret { Json::from(REMOVED) } else { json_without(value) };
                (key, value)
            });
            Json::Object(kept.collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(json_without).collect()),
        Json::String(text) => Json::from(without_literals(&text)),
        Json::Null | Json::Bool(_) | Json::Number(_) => json,
    }
}

fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn columns_with_secrets_are_left_out_and_known_from_then_on() {
        let (user, password) = (text("app"), text("hunter22"));
        let attributes = text(
            r#"{"retained_password":"older222","comment":"mine","x":[{"token":"t0ken"}],"y":1}"#,
        );
        let row = vec![("username", &user), ("password", &password), ("attributes", &attributes)];
        let mut secrets = Secrets::new();
        note_secrets(&mut secrets, "mysql_users", row.clone());
        for secret in ["hunter22", "older222", "t0ken"] {
            assert_eq!(secrets.without(secret), REMOVED);
        }
        let shown = rows_text("mysql_users", [row]);
        assert_eq!(
            shown,
            "[[mysql_users]]\nusername = \"app\"\npassword = [removed] (8 bytes)\nattributes = \
             \"{\\\"comment\\\":\\\"[removed]\\\",\\\"retained_password\\\":\\\"[removed]\\\",\
             \\\"x\\\":[{\\\"token\\\":\\\"[removed]\\\"}],\\\"y\\\":1}\"\n\n"
        );
    }

    #[test]
    fn variables_are_lines_and_accounts_have_passwords() {
        let (name, value) = (text("admin-admin_credentials"), text("admin:admin;me:s3cret:x"));
        let mut secrets = Secrets::new();
        note_secrets(
            &mut secrets,
            VARIABLES,
            [("variable_name", &name), ("variable_value", &value)],
        );
        assert_eq!(secrets.without("x s3cret:x y"), "x [removed] y");
        let (other, init) = (text("mysql-init_connect"), text("SET @a = 'b'"));
        let rows = [vec![("n", &name), ("v", &value)], vec![("n", &other), ("v", &init)]];
        assert_eq!(
            rows_text(VARIABLES, rows),
            "admin-admin_credentials = [removed] (23 bytes)\n\
             mysql-init_connect = \"SET @a = '?'\"\n"
        );
    }

    #[test]
    fn patterns_keep_their_form_and_lose_their_values() {
        let pattern = text("^SELECT .* WHERE card = '4111-1111'$");
        let message = text("go away, 4111");
        let row = vec![("match_pattern", &pattern), ("error_msg", &message)];
        assert_eq!(
            rows_text("mysql_query_rules", [row]),
            "[[mysql_query_rules]]\nmatch_pattern = \"^SELECT .* WHERE card = '?'$\"\n\
             error_msg = [removed] (13 bytes)\n\n"
        );
    }
}
