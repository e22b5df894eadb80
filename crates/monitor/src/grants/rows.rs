//! Rows of grant tables as users. Columns are those of the two queries beside.

use serde_json::{Map, Value};
use trunkline_topology::{CertificateRequirement, Password, Secret, TlsRequirement, User};

use crate::conversation::Row;

/// A row of MySQL's `mysql.user`; `None` for an anonymous account.
pub(super) fn mysql(row: &Row) -> Option<User> {
    let text = |at: usize| {
        let value = row.get(at).and_then(Option::as_deref).unwrap_or_default();
        String::from_utf8_lossy(value).into_owned()
    };
    let hex = |at: usize| unhex(&text(at));
    let plugin = text(2);
    let stored = hex(3);
    let password = password(&plugin, &stored);
    let retained = match hex(10) {
        text if text.is_empty() => None,
        text => self::password(&plugin, &text),
    };
    let required = match text(5).as_str() {
        "ANY" => TlsRequirement::Tls,
        "X509" => TlsRequirement::Certificate(CertificateRequirement::default()),
        "SPECIFIED" => certificate(&hex(7), &hex(8)),
        _ => TlsRequirement::None,
    };
    user(Account {
        name: text(0),
        host: text(1),
        password,
        retained,
        required,
        // What a server wants of the cipher is not looked at here, so it is never met.
        is_locked: text(4) == "Y" || !hex(6).is_empty(),
        connections_max: text(9).parse().unwrap_or(0),
    })
}

/// A row of MariaDB's `mysql.global_priv`; `None` for an anonymous account or a role.
pub(super) fn mariadb(row: &Row) -> Option<User> {
    let value = |at: usize| row.get(at).and_then(Option::as_deref).unwrap_or_default();
    let text = |at: usize| String::from_utf8_lossy(value(at)).into_owned();
    let facts: Map<String, Value> = serde_json::from_slice(value(2)).ok()?;
    let is_set = |name: &str| facts.get(name).and_then(Value::as_bool).unwrap_or(false);
    if is_set("is_role") {
        return None;
    }
    let word = |name: &str| facts.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| facts.get(name).and_then(Value::as_i64).unwrap_or(0);
    let required = match number("ssl_type") {
        1 => TlsRequirement::Tls,
        2 => TlsRequirement::Certificate(CertificateRequirement::default()),
        3 => certificate(word("x509_issuer"), word("x509_subject")),
        _ => TlsRequirement::None,
    };
    user(Account {
        name: text(0),
        host: text(1),
        password: mariadb_password(&facts),
        retained: None,
        required,
        is_locked: is_set("account_locked") || !word("ssl_cipher").is_empty(),
        connections_max: u32::try_from(number("max_user_connections")).unwrap_or(0),
    })
}

/// The first of an account's alternatives that can be checked here.
fn mariadb_password(facts: &Map<String, Value>) -> Option<Password> {
    let check = |facts: &Map<String, Value>| {
        let word = |name: &str| facts.get(name).and_then(Value::as_str).unwrap_or_default();
        password(word("plugin"), word("authentication_string"))
    };
    let Some(alternatives) = facts.get("auth_or").and_then(Value::as_array) else {
        return check(facts);
    };
    // An empty one stands for what is beside the list.
    let mut alternatives = alternatives.iter().filter_map(Value::as_object);
    alternatives.find_map(|one| if one.is_empty() { check(facts) } else { check(one) })
}

/// What is common to both servers.
struct Account {
    name: String,
    host: String,
    password: Option<Password>,
    retained: Option<Password>,
    required: TlsRequirement,
    is_locked: bool,
    /// 0 is no limit.
    connections_max: u32,
}

fn user(account: Account) -> Option<User> {
    if account.name.is_empty() || account.name.contains('\0') || account.host.contains('\0') {
        return None;
    }
    let active = account.password.is_some() && !account.is_locked;
    // One that can't be checked is there all the same: it hides less specific ones.
    let password = account.password.unwrap_or(Password::Nobodys);
    Some(User {
        retained_password: account.retained,
        max_connections: match account.connections_max {
            0 => u32::MAX,
            max => max,
        },
        active,
        require: account.required,
        host: Some(account.host),
        ..User::new(account.name, password)
    })
}

/// What a server stores of a password, where it can be checked without the server.
fn password(plugin: &str, stored: &str) -> Option<Password> {
    match plugin {
        "mysql_native_password" | "caching_sha2_password" | "sha256_password" | ""
            if stored.is_empty() =>
        {
            Some(Password::Clear(Secret::default()))
        }
        "pam" | "authentication_pam" | "authentication_ldap_simple" => Some(Password::Servers),
        _ => Password::from_hash(stored).ok().filter(|read| plugin_of(read) == Some(plugin)),
    }
}

/// The plug-in that stores a password so.
fn plugin_of(password: &Password) -> Option<&'static str> {
    match password {
        Password::NativeHash(_) => Some("mysql_native_password"),
        Password::Sha2Hash(_) => Some("caching_sha2_password"),
        Password::Sha256Hash(_) => Some("sha256_password"),
        Password::Ed25519Key(_) => Some("ed25519"),
        Password::ParsecKey(_) => Some("parsec"),
        Password::Clear(_) | Password::Servers | Password::Nobodys => None,
    }
}

fn certificate(issuer: &str, subject: &str) -> TlsRequirement {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    TlsRequirement::Certificate(CertificateRequirement {
        issuer: given(issuer),
        subject: given(subject),
        ..CertificateRequirement::default()
    })
}

/// The text that `HEX()` made digits of; nothing for what is none.
fn unhex(digits: &str) -> String {
    let (pairs, _) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NATIVE: &str = "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19";

    fn row(values: &[&str]) -> Row {
        values.iter().map(|value| Some(value.as_bytes().to_vec())).collect()
    }

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("{byte:02X}")).collect()
    }

    fn of_mysql(plugin: &str, stored: &str, locked: &str, tls: &str) -> User {
        let subject = hex("/CN=app");
        let stored = hex(stored);
        let values = ["app", "10.%", plugin, &stored, locked, tls, "", "", &subject, "7", ""];
        mysql(&row(&values)).expect("a user")
    }

    #[test]
    fn accounts_of_mysql_are_users() {
        let sha2 = format!("$A$005${}{}", "s\u{1}".repeat(10), "d".repeat(43));
        let user = of_mysql("caching_sha2_password", &sha2, "N", "");
        assert_eq!(user.password, Password::from_hash(&sha2).expect("a hash"));
        assert_eq!((user.name.as_str(), user.host.as_deref()), ("app", Some("10.%")));
        assert_eq!((user.max_connections, user.active), (7, true));
        assert!(!of_mysql("caching_sha2_password", &sha2, "Y", "").active);
        assert!(!of_mysql("auth_socket", "", "N", "").active);
        // A hash of another plug-in is nobody's.
        assert!(!of_mysql("caching_sha2_password", NATIVE, "N", "").active);
        let empty = of_mysql("caching_sha2_password", "", "N", "ANY");
        assert_eq!(empty.password, Password::Clear(Secret::default()));
        assert_eq!(empty.require, TlsRequirement::Tls);
        let required = CertificateRequirement {
            subject: Some("/CN=app".to_owned()),
            ..CertificateRequirement::default()
        };
        let named = of_mysql("caching_sha2_password", &sha2, "N", "SPECIFIED");
        assert_eq!(named.require, TlsRequirement::Certificate(required));
        assert!(mysql(&row(&["", "%", "caching_sha2_password"])).is_none());
    }

    fn of_mariadb(facts: &str) -> Option<User> {
        mariadb(&row(&["app", "%", facts]))
    }

    #[test]
    fn accounts_of_mariadb_are_users() {
        let native =
            format!(r#"{{"plugin":"mysql_native_password","authentication_string":"{NATIVE}"}}"#);
        let user = of_mariadb(&native).expect("a user");
        assert_eq!(user.password, Password::from_hash(NATIVE).expect("a hash"));
        assert!(user.active && user.max_connections == u32::MAX);
        let locked = native.replace('{', r#"{"account_locked":true,"max_user_connections":3,"#);
        let locked = of_mariadb(&locked).expect("a user");
        assert_eq!((locked.active, locked.max_connections), (false, 3));
        assert!(of_mariadb(&native.replace('{', r#"{"is_role":true,"#)).is_none());
        let either = format!(
            r#"{{"plugin":"mysql_native_password","authentication_string":"{NATIVE}",
                "ssl_type":1,"auth_or":[{{"plugin":"unix_socket"}},{{}}]}}"#
        );
        let either = of_mariadb(&either).expect("a user");
        assert_eq!((either.password, either.require), (user.password, TlsRequirement::Tls));
        let invalid = native.replace(NATIVE, "invalid");
        assert!(!of_mariadb(&invalid).expect("a user").active);
        assert!(of_mariadb("no json").is_none());
    }
}
