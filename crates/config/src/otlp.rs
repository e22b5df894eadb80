//! Where spans go, and how many.

use std::{fmt, str::FromStr};

use trunkline_topology::Ratio;

use crate::{
    ErrorKind, Wrong,
    settings::{Given, Range, SettingValue, read_text, wrong_type},
};

/// How OTLP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// Protobuf over HTTP/1.1, at a collector's port 4318.
    Http,
    /// gRPC, at a collector's port 4317.
    Grpc,
}

impl OtlpProtocol {
    fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http://",
            Self::Grpc => "grpc://",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 4_318,
            Self::Grpc => 4_317,
        }
    }
}

/// A collector of OpenTelemetry: `http://host[:port][/path]` or `grpc://host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// How it is spoken to.
    pub protocol: OtlpProtocol,
    /// Host name or address, IPv6 without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// What precedes `/v1/traces`, without a slash at its end; empty with gRPC.
    pub path: String,
}

impl Collector {
    /// Host and port as a request names them.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Collector {
    type Err = Wrong;

    fn from_str(text: &str) -> Result<Self, Wrong> {
        let wrong = || {
            let forms = "`http://host[:port][/path]` or `grpc://host[:port]`";
            Wrong::from(format!("must be {forms}, not `{text}`"))
        };
        if text.contains('@') {
            let reason = "must not hold a name or password: settings are shown; \
                          trace_headers_file names a file with headers";
            return Err(Wrong::new(ErrorKind::Secret, reason));
        }
        if text.starts_with("https://") || text.starts_with("grpcs://") {
            let reason = "must begin with `http://` or `grpc://`: TLS to a collector is not \
                          spoken; a collector on this machine can pass spans on over TLS";
            return Err(Wrong::new(ErrorKind::Invalid, reason));
        }
        let of = |protocol: OtlpProtocol| Some((protocol, text.strip_prefix(protocol.scheme())?));
        let found = of(OtlpProtocol::Http).or_else(|| of(OtlpProtocol::Grpc));
        let (protocol, rest) = found.ok_or_else(wrong)?;
        let (place, path) = match rest.split_once('/') {
            Some((place, path)) => (place, path.trim_end_matches('/')),
            None => (rest, ""),
        };
        let number = |port: &str| port.parse::<u16>().map_err(|_| wrong());
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, protocol.port()),
            Some((host, port)) => (host, number(port.strip_prefix(':').ok_or_else(wrong)?)?),
            None => match place.split_once(':') {
                Some((host, port)) => (host, number(port)?),
                None => (place, protocol.port()),
            },
        };
        let is_odd = |c: char| !c.is_ascii() || c.is_whitespace() || c.is_control();
        let is_no_host = host.is_empty() || host.contains(|c| is_odd(c) || "?#[]\\".contains(c));
        let is_no_path = path.contains(|c| is_odd(c) || "?#\\\"<>".contains(c))
            || protocol == OtlpProtocol::Grpc && !path.is_empty();
        if is_no_host || is_no_path || port == 0 {
            return Err(wrong());
        }
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { protocol, host: host.to_owned(), port, path })
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.protocol.scheme(), self.authority(), self.path)
    }
}

impl SettingValue for Option<Collector> {
    const KIND: &'static str = "address of a collector, or empty";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        match read_text(given)? {
            "" => Ok(None),
            text => Ok(Some(text.parse::<Collector>()?)),
        }
    }

    fn show(&self) -> String {
        self.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

impl SettingValue for Ratio {
    const KIND: &'static str = "number of 0 to 1";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        let text = match given {
            Given::Integer(number) => number.to_string(),
            Given::Fraction(text) | Given::Text(text) => text.clone(),
            _ => return Err(wrong_type("a number of 0 to 1", given)),
        };
        Ok(text.parse::<Self>()?)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, shown) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
            ("http://collector", "http://collector:4318"),
            ("http://collector/", "http://collector:4318"),
            ("http://collector:80/otlp/", "http://collector:80/otlp"),
            ("grpc://collector", "grpc://collector:4317"),
            ("grpc://[::1]:9", "grpc://[::1]:9"),
            ("http://[fe80::1]", "http://[fe80::1]:4318"),
        ] {
            let collector: Collector = text.parse().expect(text);
            assert_eq!(collector.to_string(), shown);
            assert_eq!(shown.parse(), Ok(collector));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_and_a_password_not_repeated() {
        for text in [
            "collector:4318",
            "ftp://collector",
            "http://",
            "http://:4318",
            "http://collector:0",
            "http://collector:70000",
            "http://a b",
            "http://a\r\nX: y",
            "http://collector/a b",
            "http://collector/?x",
            "http://[::1",
            "grpc://collector/path",
            "https://collector",
        ] {
            assert!(text.parse::<Collector>().is_err(), "{text}");
        }
        for text in ["http://u:hunter2@collector", "https://hunter2@collector"] {
            let Wrong { kind, reason } = text.parse::<Collector>().expect_err(text);
            assert_eq!(kind, ErrorKind::Secret);
            assert!(!reason.contains("hunter2") && reason.contains("headers_file"), "{reason}");
        }
    }

    #[test]
    fn a_ratio_is_a_number_or_its_text() {
        let read = |given: Given| <Ratio as SettingValue>::read(&given, Range::All);
        assert_eq!(read(Given::Integer(1)), Ok(Ratio::ALL));
        assert_eq!(
            read(Given::Fraction("0.5".to_owned())).map(|it| it.show()),
            Ok("0.5".to_owned())
        );
        assert_eq!(read(Given::Text("0.5".to_owned())).map(|it| it.show()), Ok("0.5".to_owned()));
        assert!(read(Given::Integer(2)).is_err() && read(Given::Boolean(true)).is_err());
    }
}
