//! What a MariaDB server has logged, as `domain-server-sequence` with commas between them.

use std::collections::BTreeMap;

use super::{GtidError, each_gtid};

/// What a MariaDB server has logged: the last transaction of each server in each domain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BinlogState(BTreeMap<(u32, u32), u64>);

impl BinlogState {
    /// Reads a value of `gtid_binlog_state`.
    ///
    /// # Errors
    /// When it is none, or too long.
    pub fn parse(text: &str) -> Result<Self, GtidError> {
        let mut state = Self::default();
        each_gtid(text, |domain, server, sequence| {
            let last: &mut u64 = state.0.entry((domain, server)).or_default();
            *last = sequence.max(*last);
        })?;
        Ok(state)
    }

    /// The transactions here that another server has not logged.
    pub fn beyond(&self, other: &Self) -> Vec<String> {
        let known = |key: &(u32, u32)| other.0.get(key).copied().unwrap_or_default();
        let beyond = self.0.iter().filter(|(key, sequence)| **sequence > known(key));
        beyond
            .map(|((domain, server), sequence)| match known(&(*domain, *server)) {
                0 => format!("{domain}-{server}-{sequence} and those of that server before it"),
                known => format!("{domain}-{server}-{sequence} and back to {}", known + 1),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_logged_alone_is_found_though_others_are_further() {
        let parse = |text| BinlogState::parse(text).expect("a state");
        let (old, new) = (parse("0-1-100,1-1-4"), parse("0-1-98,0-2-105,1-1-4"));
        assert_eq!(old.beyond(&new), ["0-1-100 and back to 99"]);
        assert!(parse("0-1-98").beyond(&new).is_empty());
        assert!(parse("").beyond(&new).is_empty());
        assert_eq!(new.beyond(&old), ["0-2-105 and those of that server before it"]);
        assert!(BinlogState::parse("0-1").is_err());
    }
}
