//! Positions of MariaDB's replication: for each domain the last transaction, as
//! `domain-server-sequence` with commas between them.

use std::collections::BTreeMap;

/// The last transaction of each domain: who has committed it, and its number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position(BTreeMap<u32, (u32, u64)>);

impl Position {
    /// Reads a position; `None` if it is none. The empty text is that of a server without any
    /// transactions.
    pub fn parse(text: &str) -> Option<Self> {
        let mut position = Self::default();
        for gtid in text.split(',').map(str::trim).filter(|gtid| !gtid.is_empty()) {
            let mut parts = gtid.split('-');
            let domain = parts.next()?.parse().ok()?;
            let (server, sequence) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            if parts.next().is_some() {
                return None;
            }
            position.0.insert(domain, (server, sequence));
        }
        Some(position)
    }

    /// The transactions here that another server lacks, as far as positions tell: domains in which
    /// this one is further, or as far with a transaction of another server.
    pub fn beyond(&self, other: &Self) -> Vec<String> {
        let is_beyond = |domain: &u32, server: u32, sequence: u64| match other.0.get(domain) {
            None => true,
            Some((known, reached)) => {
                sequence > *reached || sequence == *reached && server != *known
            }
        };
        let beyond = self.0.iter().filter(|(domain, last)| is_beyond(domain, last.0, last.1));
        beyond.map(|(domain, (server, sequence))| format!("{domain}-{server}-{sequence}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_another_position_is_found_by_domain() {
        let check = |own: &str, other: &str, expected: &[&str]| {
            let parse = |text| Position::parse(text).expect("a position");
            assert_eq!(parse(own).beyond(&parse(other)), expected, "{own} beyond {other}");
        };
        check("0-1-100", "0-1-100", &[]);
        check("0-1-99", "0-2-100", &[]);
        check("0-1-100", "0-2-100", &["0-1-100"]);
        check("0-1-101,1-1-5", "0-1-100,1-1-5", &["0-1-101"]);
        check("0-1-100, 7-3-1", "0-1-100", &["7-3-1"]);
        check("", "0-1-100", &[]);
        check("0-1-1", "", &["0-1-1"]);
    }

    #[test]
    fn what_is_no_position_is_not_read() {
        for text in ["x", "0-1", "0-1-2-3", "0-1-x", "-1-2", "0-1-99999999999999999999999"] {
            assert_eq!(Position::parse(text), None, "{text}");
        }
    }
}
