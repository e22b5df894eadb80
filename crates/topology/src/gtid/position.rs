//! Positions of MariaDB's replication: for each domain the last transaction, as
//! `domain-server-sequence` with commas between them.

use std::{collections::BTreeMap, fmt};

use super::{GtidError, INTERVALS_MAX, Text};

/// The last transaction of each domain: who has committed it, and its number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position(BTreeMap<u32, (u32, u64)>);

impl Position {
    /// Reads a position. The empty text is that of a server without any transactions.
    ///
    /// # Errors
    /// When it is none, or too long.
    pub fn parse(text: &str) -> Result<Self, GtidError> {
        let mut position = Self::default();
        each_gtid(text, |domain, server, sequence| {
            position.0.insert(domain, (server, sequence));
        })?;
        Ok(position)
    }

    /// The later position of each domain.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (domain, server, sequence) in other.domains() {
            let own = self.0.entry(domain).or_insert((server, sequence));
            if sequence > own.1 {
                *own = (server, sequence);
            }
        }
        self
    }

    /// Adds a transaction; the position of a domain never goes back.
    pub fn advance(&mut self, domain: u32, server: u32, sequence: u64) {
        let own = self.0.entry(domain).or_insert((server, sequence));
        if sequence >= own.1 {
            *own = (server, sequence);
        }
    }

    /// The number of the last transaction of a domain; `None` when it has none.
    pub fn reached(&self, domain: u32) -> Option<u64> {
        self.0.get(&domain).map(|(_, sequence)| *sequence)
    }

    /// Domains with the server and the number of their last transaction.
    pub fn domains(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        self.0.iter().map(|(domain, (server, sequence))| (*domain, *server, *sequence))
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
        let beyond = self
            .domains()
            .filter(|(domain, server, sequence)| is_beyond(domain, *server, *sequence));
        beyond.map(|(domain, server, sequence)| format!("{domain}-{server}-{sequence}")).collect()
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (domain, server, sequence)) in self.domains().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{domain}-{server}-{sequence}")?;
        }
        Ok(())
    }
}

/// Calls `take` with domain, server and number of each transaction that a text names.
///
/// # Errors
/// When it is malformed or too long; what came before has been taken.
pub fn each_gtid(text: &str, mut take: impl FnMut(u32, u32, u64)) -> Result<(), GtidError> {
    let mut text = Text::new(text)?;
    let mut count = 0;
    loop {
        text.skip_space();
        if text.rest.is_empty() {
            return Ok(());
        }
        if text.take(b',') {
            continue;
        }
        let id = |text: &mut Text<'_>| {
            let wrong = text.wrong();
            u32::try_from(text.number(u64::from(u32::MAX))?).map_err(|_| wrong)
        };
        let domain = id(&mut text)?;
        let part = |text: &mut Text<'_>| text.take(b'-').then_some(()).ok_or(text.wrong());
        part(&mut text)?;
        let server = id(&mut text)?;
        part(&mut text)?;
        let sequence = text.number(u64::MAX)?;
        text.skip_space();
        if !text.rest.is_empty() && !text.take(b',') {
            return Err(text.wrong());
        }
        count += 1;
        if count > INTERVALS_MAX {
            return Err(GtidError::TooLong);
        }
        take(domain, server, sequence);
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
    fn positions_are_joined_by_domain() {
        let parse = |text| Position::parse(text).expect("a position");
        let own = parse("0-1-100,1-1-7").union(&parse("0-2-101,1-1-5,2-3-1"));
        assert_eq!(own.to_string(), "0-2-101,1-1-7,2-3-1");
    }

    #[test]
    fn what_is_no_position_is_not_read() {
        for text in ["x", "0-1", "0-1-2-3", "0-1-x", "-1-2", "0-1-99999999999999999999999"] {
            assert!(Position::parse(text).is_err(), "{text}");
        }
        assert_eq!(Position::parse("0-1-2 0-1-3"), Err(GtidError::Malformed(6)));
    }

    #[test]
    fn a_position_is_written_as_it_is_read() {
        let position = Position::parse(" 7-3-1 ,0-1-100,\n").expect("a position");
        assert_eq!(position.to_string(), "0-1-100,7-3-1");
        assert_eq!(Position::default().to_string(), "");
    }
}
