//! Where the shared cache is.

use std::{fmt, str::FromStr};

use crate::{
    ErrorKind, Wrong,
    settings::{Given, Range, SettingValue, read_text},
};

/// Redis's own port.
const PORT: u16 = 6379;

/// A Redis server: `redis://[user@]host[:port][/database]`. Its password is in a file, as settings
/// are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisServer {
    /// Who asks; `None` for the default user.
    pub user: Option<String>,
    /// Host name or address, IPv6 without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The number of the database.
    pub database: u32,
}

impl FromStr for RedisServer {
    type Err = Wrong;

    fn from_str(text: &str) -> Result<Self, Wrong> {
        let wrong = || {
            Wrong::from(format!("must be `redis://[user@]host[:port][/database]`, not `{text}`"))
        };
        let user = text.rsplit_once('@').map_or("", |(user, _)| user);
        let user = user.split_once("://").map_or(user, |(_, user)| user);
        if user.contains(':') {
            let reason = "must not hold a password: settings are shown; \
                          query_cache_redis_password_file names a file with it";
            return Err(Wrong::new(ErrorKind::Secret, reason));
        }
        if text.starts_with("rediss://") {
            let reason = "must begin with `redis://`: TLS to Redis is not spoken";
            return Err(Wrong::new(ErrorKind::Invalid, reason));
        }
        let rest = text.strip_prefix("redis://").ok_or_else(wrong)?;
        let (user, rest) = match rest.rsplit_once('@') {
            Some(("", _)) => return Err(wrong()),
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, rest),
        };
        let (place, database) = match rest.split_once('/') {
            Some((place, "")) => (place, 0),
            Some((place, number)) => (place, number.parse().map_err(|_| wrong())?),
            None => (rest, 0),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, PORT),
            Some((host, port)) => {
                let port = port.strip_prefix(':').ok_or_else(wrong)?;
                (host, port.parse().map_err(|_| wrong())?)
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
                None => (place, PORT),
            },
        };
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "?#[]@".contains(c);
        if host.is_empty() || port == 0 || host.contains(is_odd) {
            return Err(wrong());
        }
        Ok(Self { user, host: host.to_owned(), port, database })
    }
}

impl fmt::Display for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, host, port, database } = self;
        f.write_str("redis://")?;
        if let Some(user) = user {
            write!(f, "{user}@")?;
        }
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}/{database}"),
            false => write!(f, "{host}:{port}/{database}"),
        }
    }
}

impl SettingValue for Option<RedisServer> {
    const KIND: &'static str = "redis address, or empty";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        match read_text(given)? {
            "" => Ok(None),
            text => Ok(Some(text.parse::<RedisServer>()?)),
        }
    }

    fn show(&self) -> String {
        self.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, shown) in [
            ("redis://cache", "redis://cache:6379/0"),
            ("redis://10.0.0.1:7000/2", "redis://10.0.0.1:7000/2"),
            ("redis://proxy@cache.local/", "redis://proxy@cache.local:6379/0"),
            ("redis://[::1]", "redis://[::1]:6379/0"),
            ("redis://[fe80::1]:7000/1", "redis://[fe80::1]:7000/1"),
        ] {
            let server: RedisServer = text.parse().expect(text);
            assert_eq!(server.to_string(), shown);
            assert_eq!(shown.parse(), Ok(server));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_and_a_password_not_repeated() {
        for text in [
            "cache:6379",
            "redis://",
            "redis://@cache",
            "redis://cache:0",
            "redis://cache:70000",
            "redis://cache/x",
            "redis://[::1",
            "redis://a b",
            "rediss://cache",
        ] {
            assert!(text.parse::<RedisServer>().is_err(), "{text}");
        }
        for text in ["redis://u:hunter2@cache", "rediss://u:hunter2@cache", "x://:hunter2@cache"] {
            let Wrong { kind, reason } = text.parse::<RedisServer>().expect_err(text);
            assert_eq!(kind, ErrorKind::Secret);
            assert!(!reason.contains("hunter2") && reason.contains("password_file"), "{reason}");
        }
    }
}
