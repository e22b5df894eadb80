//! Whether statements of several sessions may follow each other on one server connection.

use std::{fmt, num::NonZeroU16, str::FromStr};

/// What a rule or a hostgroup says of sharing server connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pipeline {
    /// Reads share once they are known to be short, as deep as the settings allow.
    #[default]
    Auto,
    /// Each statement has a connection of its own.
    Off,
    /// Reads share at once, at most so many deep, whatever is known of them.
    Depth(NonZeroU16),
}

impl Pipeline {
    /// The deepest that can be asked for.
    pub const DEPTH_MAX: u16 = 1_024;
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::Depth(depth) => depth.fmt(f),
        }
    }
}

impl FromStr for Pipeline {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let depth = |text: &str| {
            let depth = text.parse().ok()?;
            (depth <= Self::DEPTH_MAX).then(|| NonZeroU16::new(depth)).flatten()
        };
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => depth(text).map(Self::Depth).ok_or_else(|| {
                format!("must be auto, off or 1 to {}, not `{text}`", Self::DEPTH_MAX)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["auto", "off", "1", "16", "1024"] {
            assert_eq!(text.parse::<Pipeline>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_it_may_be() {
        for text in ["", "on", "0", "1025", "-1", "Auto"] {
            let error = text.parse::<Pipeline>().expect_err(text);
            assert_eq!(error, format!("must be auto, off or 1 to 1024, not `{text}`"));
        }
    }
}
