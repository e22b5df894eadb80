//! Marks: a name under which a server numbers what one connection commits, and which numbers have
//! been told. A number that was not told is a commit whose answer was lost.

use std::fmt;

use crate::gtid::{BinlogState, GtidError, GtidSet, Origin, Tag, each_gtid, each_interval};

/// The name of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkName {
    /// MySQL: the tag of the transactions' identifiers.
    Tag(Tag),
    /// MariaDB: the number of a server, which no server has.
    ServerId(u32),
}

impl MarkName {
    /// The statement that has a session commit under this name.
    pub fn set(&self) -> String {
        match self {
            Self::Tag(tag) => format!("SET @@SESSION.gtid_next='AUTOMATIC:{}'", tag.as_str()),
            Self::ServerId(id) => format!("SET @@SESSION.server_id={id}"),
        }
    }

    /// The privileges that an account needs for that statement, as `GRANT` names them.
    pub fn privileges(&self) -> &'static str {
        match self {
            Self::Tag(_) => "TRANSACTION_GTID_TAG, SESSION_VARIABLES_ADMIN",
            Self::ServerId(_) => "BINLOG REPLAY",
        }
    }
}

/// A mark, which belongs to one connection at a time.
#[derive(Clone, PartialEq, Eq)]
pub struct CommitMark {
    name: MarkName,
    /// Numbers that have been told. On MariaDB all up to the last one of each domain.
    told: GtidSet,
    /// The server's incarnation that has told them.
    incarnation: u32,
    /// The server has begun anew since it told of anything: it may have lost some of that, and give
    /// those numbers again.
    is_outlived: bool,
    /// Something may have been committed under it that was not told.
    in_doubt: bool,
    /// Numbers below a told one are taken for told, as something was in doubt.
    is_filled: bool,
}

/// What a server's log says of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A transaction is there whose number was not told.
    Untold,
    /// All that is there was told, and all that was told is there.
    AllTold,
    /// Something that was told is not there.
    Behind,
}

impl fmt::Debug for CommitMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name)
    }
}

impl CommitMark {
    /// A mark under which nothing has been committed.
    pub fn new(name: MarkName, incarnation: u32) -> Self {
        Self {
            name,
            told: GtidSet::default(),
            incarnation,
            is_outlived: false,
            in_doubt: false,
            is_filled: false,
        }
    }

    /// The server's incarnation that has told what is known.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// A connection to this incarnation of the server gets it. What an earlier one has told counts
    /// no more: until this one tells a number, nobody knows what is there.
    pub fn begin(&mut self, incarnation: u32) {
        if self.incarnation != incarnation {
            self.is_outlived |= !self.told.is_empty();
            self.told = GtidSet::default();
            self.incarnation = incarnation;
        }
    }

    /// Its name.
    pub fn name(&self) -> MarkName {
        self.name
    }

    /// Whether something may have been committed under it whose number was not told, or a number
    /// that was told may be given again.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt || self.is_outlived
    }

    /// Whether another connection may have it.
    pub fn is_known(&self) -> bool {
        !self.in_doubt
    }

    /// Whether numbers that were not told are taken for told. That is right where a server counts
    /// upwards, and not where members of a group take blocks of numbers.
    pub fn is_filled(&self) -> bool {
        self.is_filled
    }

    /// A statement may have committed something without telling its number.
    pub fn doubt(&mut self) {
        self.in_doubt = true;
    }

    /// A server of MySQL has told that it has committed these. False where that was not under this
    /// name.
    pub fn tell_set(&mut self, text: &str) -> bool {
        let MarkName::Tag(own) = self.name else { return false };
        let mut is_own = true;
        let (in_doubt, told) = (self.is_in_doubt(), &mut self.told);
        let read = each_interval(text, |origin, first, last| match origin {
            Origin::Server(_, tag) if tag == own => {
                told.add(origin, if in_doubt { 1 } else { first }, last);
            }
            Origin::Server(..) | Origin::Domain(_) => is_own = false,
        });
        self.is_filled |= in_doubt;
        self.in_doubt = false;
        self.is_outlived = false;
        is_own && read.is_ok()
    }

    /// A server of MariaDB has told the number of what it has committed last. False where that was
    /// not under this name.
    pub fn tell_last(&mut self, domain: u32, server: u32, sequence: u64) -> bool {
        if self.name != MarkName::ServerId(server) {
            return false;
        }
        self.told.add(Origin::Domain(domain), 1, sequence);
        self.in_doubt = false;
        self.is_outlived = false;
        true
    }

    /// What a server's log says: `gtid_executed` of MySQL, `gtid_binlog_state` of MariaDB.
    ///
    /// # Errors
    /// When the text is neither, or too long.
    pub fn read(&self, text: &str) -> Result<Reading, GtidError> {
        let found = self.found(text)?;
        Ok(match () {
            () if !found.is_subset(&self.told) => Reading::Untold,
            () if !self.told.is_subset(&found) => Reading::Behind,
            () => Reading::AllTold,
        })
    }

    /// It has been found out what has been committed under it: the log has all of it.
    ///
    /// # Errors
    /// When the text is no log's, or too long.
    pub fn settle(&mut self, text: &str) -> Result<(), GtidError> {
        self.told = self.found(text)?.union(&self.told);
        self.in_doubt = false;
        Ok(())
    }

    fn found(&self, text: &str) -> Result<GtidSet, GtidError> {
        let mut found = GtidSet::default();
        match self.name {
            MarkName::Tag(own) => each_interval(text, |origin, first, last| match origin {
                Origin::Server(_, tag) if tag == own => found.add(origin, first, last),
                Origin::Server(..) | Origin::Domain(_) => {}
            })?,
            MarkName::ServerId(own) => {
                // It is a state, or an error.
                BinlogState::parse(text)?;
                each_gtid(text, |domain, server, sequence| {
                    if server == own {
                        found.add(Origin::Domain(domain), 1, sequence);
                    }
                })?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const OTHER: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn tagged() -> CommitMark {
        CommitMark::new(MarkName::Tag(Tag::parse(b"t_9").expect("a tag")), 1)
    }

    fn read(mark: &CommitMark, text: &str) -> Reading {
        mark.read(text).expect("a log")
    }

    #[test]
    fn what_was_not_told_is_found_under_its_tag_only() {
        let mut mark = tagged();
        assert_eq!(read(&mark, &format!("{UUID}:1-900:u:1-7")), Reading::AllTold);
        assert_eq!(read(&mark, &format!("{UUID}:1-900:t_9:1")), Reading::Untold);
        assert!(mark.tell_set(&format!("{UUID}:t_9:1")));
        assert_eq!(read(&mark, &format!("{UUID}:1-900:t_9:1")), Reading::AllTold);
        assert_eq!(read(&mark, &format!("{UUID}:1-900:t_9:1-2")), Reading::Untold);
        // On the server that was promoted numbers begin anew, under another UUID.
        assert_eq!(read(&mark, &format!("{UUID}:t_9:1,{OTHER}:t_9:1")), Reading::Untold);
        assert_eq!(read(&mark, &format!("{UUID}:1-900")), Reading::Behind);
        assert!(!mark.tell_set(&format!("{UUID}:901")));
        assert!(mark.read("nonsense").is_err());
    }

    #[test]
    fn the_last_number_of_a_server_id_says_it_on_mariadb() {
        let mut mark = CommitMark::new(MarkName::ServerId(77), 1);
        assert_eq!(read(&mark, "0-1-12623,1-1-4"), Reading::AllTold);
        assert_eq!(read(&mark, "0-1-12623,0-77-12624"), Reading::Untold);
        assert!(mark.tell_last(0, 77, 12_624) && !mark.tell_last(0, 1, 12_625));
        assert_eq!(read(&mark, "0-1-12630,0-77-12624"), Reading::AllTold);
        assert_eq!(read(&mark, "0-77-12631,0-1-12630"), Reading::Untold);
        assert_eq!(read(&mark, "1-77-5,0-77-12624"), Reading::Untold);
        assert_eq!(read(&mark, "0-77-12600"), Reading::Behind);
        assert_eq!(read(&mark, "0-1-12630"), Reading::Behind);
        mark.settle("0-77-12631").expect("a state");
        assert_eq!(read(&mark, "0-77-12631,0-1-12630"), Reading::AllTold);
    }

    #[test]
    fn what_an_earlier_incarnation_has_told_counts_no_more() {
        let mut mark = tagged();
        assert!(mark.tell_set(&format!("{UUID}:t_9:1-5")));
        mark.begin(1);
        assert!(!mark.is_in_doubt());
        // It has forgotten the fifth, and gives its number again: that one would be taken for told.
        mark.begin(2);
        assert!(mark.is_in_doubt() && mark.is_known());
        assert!(mark.tell_set(&format!("{UUID}:t_9:4")));
        assert!(!mark.is_in_doubt() && mark.is_filled());
        assert_eq!(read(&mark, &format!("{UUID}:1-900:t_9:1-4")), Reading::AllTold);
        assert_eq!(read(&mark, &format!("{UUID}:1-900:t_9:1-5")), Reading::Untold);
        // Of one under which nothing was committed there is nothing to forget.
        let mut fresh = tagged();
        fresh.begin(2);
        assert!(!fresh.is_in_doubt());
    }

    #[test]
    fn a_number_that_is_told_covers_what_was_in_doubt_before_it() {
        let mut mark = tagged();
        mark.doubt();
        assert!(mark.is_in_doubt() && !mark.is_filled());
        assert!(mark.tell_set(&format!("{UUID}:t_9:2")));
        assert!(!mark.is_in_doubt() && mark.is_filled());
        assert_eq!(read(&mark, &format!("{UUID}:t_9:1-2")), Reading::AllTold);
        assert_eq!(read(&mark, &format!("{UUID}:t_9:1-3")), Reading::Untold);
    }
}
