//! What a replica is asked, and what its answers mean.

use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::{
    causal::{Origins, Shown},
    gtid::{GtidSet, Origin, Position, Tag},
};

use crate::{LearnError, conversation::Answer};

/// How long a replica waits for its next transaction, s.
const WAIT_SEC: &str = "0.5";
/// How long a replica waits for a transaction as long as nobody knows whose that will be, s.
const LOOK_SEC: &str = "0.05";

/// What is asked to know whether a server's writes have numbers.
pub(super) fn numbering(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::MySql => "SELECT @@GLOBAL.log_bin AND @@GLOBAL.gtid_mode LIKE 'ON%'",
        Flavor::MariaDb => "SELECT @@GLOBAL.log_bin",
    }
}

/// Whether they have, by the answer.
pub(super) fn numbers(answer: &Answer) -> bool {
    let value = answer.rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
    matches!(value, Some(b"1" | b"ON"))
}

/// What a replica has said last, and what it is asked next.
pub(super) struct Seen {
    last: Said,
    /// Who has committed the transaction that came last.
    writer: Option<Origin>,
    /// As whom, for MariaDB.
    flavor: Flavor,
}

impl Seen {
    pub(super) fn new(flavor: Flavor) -> Self {
        let last = match flavor {
            Flavor::MySql => Said::Set(GtidSet::default()),
            Flavor::MariaDb => Said::Position(Position::default()),
        };
        Self { last, writer: None, flavor }
    }

    pub(super) fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Asks it to wait for the transaction after those that it has, as far as it can be foretold
    /// whose that will be, and for all that it has then.
    pub(super) fn question(&self) -> String {
        let next = self.writer.and_then(|writer| self.last.next(&writer));
        let wait_sec = if next.is_some() { WAIT_SEC } else { LOOK_SEC };
        let next = next.or_else(|| self.last.any_next()).unwrap_or_default();
        match self.flavor {
            Flavor::MySql => format!(
                "SELECT WAIT_FOR_EXECUTED_GTID_SET('{next}', {wait_sec}), @@GLOBAL.gtid_executed"
            ),
            Flavor::MariaDb => {
                format!("SELECT MASTER_GTID_WAIT('{next}', {wait_sec}), @@GLOBAL.gtid_slave_pos")
            }
        }
    }

    /// Takes an answer over; whether it is another one than before.
    pub(super) fn take(&mut self, said: &Said) -> bool {
        let is_new = self.last != *said;
        if is_new {
            self.writer = said.advanced_from(&self.last).or(self.writer);
            self.last = said.clone();
        }
        is_new
    }
}

/// What a server shows, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Set(GtidSet),
    Position(Position),
}

impl Said {
    /// Reads the second column of an answer.
    pub(super) fn read(answer: &Answer, flavor: Flavor) -> Result<Self, LearnError> {
        let row = answer.rows.first().ok_or_else(|| LearnError::new("its answer has no row"))?;
        let text = row.get(1).and_then(Option::as_deref).unwrap_or_default();
        let text = std::str::from_utf8(text).unwrap_or("not UTF-8");
        let read = match flavor {
            Flavor::MySql => GtidSet::parse(text).map(Self::Set),
            Flavor::MariaDb => Position::parse(text).map(Self::Position),
        };
        read.map_err(|wrong| LearnError::new(format!("its transactions can't be read: {wrong}")))
    }

    /// Whether all that another server had is here.
    pub(super) fn has(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Set(own), Self::Set(other)) => other.is_subset(own),
            (Self::Position(own), Self::Position(other)) => {
                let last = |domain| own.domains().find(|it| it.0 == domain).map_or(0, |it| it.2);
                other.domains().all(|(domain, _, sequence)| last(domain) >= sequence)
            }
            (Self::Set(_), Self::Position(_)) | (Self::Position(_), Self::Set(_)) => false,
        }
    }

    /// Origins with the last transaction before the first gap.
    fn lasts(&self) -> Vec<(Origin, u64)> {
        match self {
            Self::Set(set) => {
                set.origins().map(|(origin, numbers)| (origin, numbers.prefix())).collect()
            }
            Self::Position(position) => {
                let last = |(domain, _, last)| (Origin::Domain(domain), last);
                position.domains().map(last).collect()
            }
        }
    }

    /// The transaction behind the last one of an origin, as a text.
    fn next(&self, origin: &Origin) -> Option<String> {
        let (_, last) = self.lasts().into_iter().find(|(known, _)| known == origin)?;
        let next = last.checked_add(1)?;
        Some(match origin {
            Origin::Server(..) => format!("{origin}:{next}"),
            Origin::Domain(domain) => format!("{domain}-1-{next}"),
        })
    }

    /// The transaction behind the last one of whoever has committed most.
    fn any_next(&self) -> Option<String> {
        let untagged =
            |origin: &Origin| !matches!(origin, Origin::Server(_, tag) if *tag != Tag::NONE);
        let lasts = self.lasts().into_iter().filter(|(origin, _)| untagged(origin));
        let (most, _) = lasts.max_by_key(|(_, last)| *last)?;
        self.next(&most)
    }

    /// Whose transactions there are more of than before.
    fn advanced_from(&self, before: &Self) -> Option<Origin> {
        let lasts = before.lasts();
        let before = |origin: &Origin| lasts.iter().find(|(known, _)| known == origin);
        // A server that has said nothing before has not advanced since.
        let is_more = |(origin, last): &(Origin, u64)| {
            before(origin).map_or(!lasts.is_empty(), |(_, before)| last > before)
        };
        self.lasts().into_iter().find(is_more).map(|(origin, _)| origin)
    }

    /// What a server shows, by origins as workers know them.
    pub(super) fn shown(&self, origins: &Origins) -> Vec<Shown> {
        let shown = |origin: &Origin, last, apart| {
            origins.id(origin).map(|origin| Shown { origin, last, apart })
        };
        match self {
            Self::Set(set) => set
                .origins()
                .filter_map(|(origin, numbers)| {
                    let is_whole = numbers.iter().all(|(first, _)| first == 1);
                    shown(&origin, numbers.prefix(), (!is_whole).then(|| numbers.clone()))
                })
                .collect(),
            Self::Position(position) => {
                let of = |(domain, _, last)| shown(&Origin::Domain(domain), last, None);
                position.domains().filter_map(of).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4f11fa47-71ca-11e1-9e33-c80aa9429562";

    fn answer(text: &str) -> Answer {
        let row = vec![Some(b"0".to_vec()), Some(text.as_bytes().to_vec())];
        Answer { columns: Vec::new(), rows: vec![row], warnings: 0 }
    }

    /// What is asked after each of these answers.
    fn asked(flavor: Flavor, answers: &[&str]) -> Vec<String> {
        let mut seen = Seen::new(flavor);
        let next = |text: &&str| {
            let text = text.replace('A', A).replace('B', B);
            let said = Said::read(&answer(&text), flavor).expect("an answer");
            seen.take(&said);
            let asked = seen.question().replace(A, "A").replace(B, "B");
            let begin = asked.find('(').expect("a wait") + 1;
            asked[begin..asked.find(')').expect("its end")].to_owned()
        };
        answers.iter().map(next).collect()
    }

    #[test]
    fn a_replica_is_asked_for_the_next_transaction_of_whoever_writes() {
        let answers = ["A:1-5,B:1-90", "A:1-6,B:1-90", "A:1-6,B:1-90", "A:1-6,B:1-91:99"];
        assert_eq!(
            asked(Flavor::MySql, &answers),
            ["'B:91', 0.05", "'A:7', 0.5", "'A:7', 0.5", "'B:92', 0.5"]
        );
        let answers = ["", "0-1-5", "0-1-5,7-3-1", "0-2-6,7-3-1"];
        assert_eq!(
            asked(Flavor::MariaDb, &answers),
            ["'', 0.05", "'0-1-6', 0.05", "'7-1-2', 0.5", "'0-1-7', 0.5"]
        );
    }

    #[test]
    fn what_a_server_has_is_compared_with_what_another_one_had() {
        let check = |flavor, own: &str, other: &str, expected| {
            let said = |text: &str| {
                let text = text.replace('A', A).replace('B', B);
                Said::read(&answer(&text), flavor).expect("an answer")
            };
            assert_eq!(said(own).has(&said(other)), expected, "{own} has {other}");
        };
        check(Flavor::MySql, "A:1-5,B:1", "A:1-5", true);
        check(Flavor::MySql, "A:1-3:5", "A:1-5", false);
        check(Flavor::MariaDb, "0-2-7", "0-1-7", true);
        check(Flavor::MariaDb, "0-2-7", "0-1-7,1-1-1", false);
        check(Flavor::MariaDb, "0-2-7", "0-1-8", false);
    }

    #[test]
    fn what_is_said_is_shown_to_workers() {
        let origins = Origins::default();
        let text = format!("{A}:1-5:8:tagg:3,{B}:1-2");
        let said = Said::read(&answer(&text), Flavor::MySql).expect("a set");
        let shown = said.shown(&origins);
        let lasts: Vec<_> = shown.iter().map(|it| (it.last, it.apart.is_some())).collect();
        assert_eq!(lasts, [(5, true), (0, true), (2, false)]);
        assert!(Said::read(&answer("x"), Flavor::MySql).is_err());
    }

    #[test]
    fn a_server_that_logs_with_numbers_says_so() {
        let said = |value: Option<&str>| {
            let row = vec![value.map(|value| value.as_bytes().to_vec())];
            numbers(&Answer { columns: Vec::new(), rows: vec![row], warnings: 0 })
        };
        assert!(said(Some("1")) && said(Some("ON")));
        assert!(!said(Some("0")) && !said(None) && !numbers(&Answer::default()));
    }
}
