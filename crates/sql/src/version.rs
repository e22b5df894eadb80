//! A server's version, as far as it decides which functions the server has.

use std::fmt;

/// The first two numbers of a server's version. Whose server it is stands beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ServerVersion {
    major: u8,
    minor: u8,
}

impl ServerVersion {
    /// Not known; the default.
    pub const UNKNOWN: Self = Self::new(0, 0);

    /// The version with these numbers.
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }

    /// The version that a greeting tells: `9.7.4`, `11.8.6-MariaDB-log`, `5.5.5-10.11.19-MariaDB`.
    /// Unknown when the text does not begin with two numbers.
    ///
    /// Source: MariaDB knowledge base, "Connection": servers from 10.0 on may put `5.5.5-` before
    /// their version, for replicas that are old.
    pub fn of_greeting(text: &str) -> Self {
        let text = match text.strip_prefix("5.5.5-") {
            Some(rest) if rest.to_ascii_lowercase().contains("mariadb") => rest,
            Some(_) | None => text,
        };
        let mut numbers = text.split(|c: char| !c.is_ascii_digit());
        let mut number = || numbers.next().and_then(|part| part.parse().ok());
        match (number(), number()) {
            (Some(major), Some(minor)) => Self { major, minor },
            (_, _) => Self::UNKNOWN,
        }
    }

    /// Both numbers in one, for [`Self::from_bits`].
    pub const fn to_bits(self) -> u16 {
        u16::from_be_bytes([self.major, self.minor])
    }

    /// The version of [`Self::to_bits`].
    pub const fn from_bits(bits: u16) -> Self {
        let [major, minor] = bits.to_be_bytes();
        Self { major, minor }
    }

    /// Whether it is known.
    pub fn is_known(self) -> bool {
        self != Self::UNKNOWN
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_greetings() {
        for (text, expected) in [
            ("9.7.4-2", ServerVersion::new(9, 7)),
            ("8.0.36", ServerVersion::new(8, 0)),
            ("10.11.19-MariaDB-0+deb12u1-log", ServerVersion::new(10, 11)),
            ("5.5.5-10.11.19-MariaDB", ServerVersion::new(10, 11)),
            ("5.5.5-log", ServerVersion::new(5, 5)),
            ("MariaDB", ServerVersion::UNKNOWN),
            ("300.1", ServerVersion::UNKNOWN),
            ("8", ServerVersion::UNKNOWN),
            ("", ServerVersion::UNKNOWN),
        ] {
            assert_eq!(ServerVersion::of_greeting(text), expected, "{text}");
        }
        assert!(ServerVersion::new(9, 7) < ServerVersion::new(10, 11));
        assert_eq!(ServerVersion::new(9, 7).to_string(), "9.7");
        let version = ServerVersion::new(10, 11);
        assert_eq!(ServerVersion::from_bits(version.to_bits()), version);
        assert_eq!(ServerVersion::from_bits(0), ServerVersion::UNKNOWN);
    }
}
